"""The operating point of a thin link: the loss at which so many TCP flows send just what fills it.

``N m(p) (1 - p) / RTT = C``, with m(p) the packets a flow sends per round trip at a loss p, by the chain of
:mod:`narrows.models.taq_chain` with the timer, the acknowledgments and the windows of a TCP in use. See
``docs/explanation/models/operating-point.md``, which has its errors beside the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from narrows import _native
from narrows.models.vectorised import Array, Words, evaluate, named, split
from narrows.quantities import unit

REGIMES = ("sub-packet", "small-packet", "few packets", "normal")
"""By the fair share in packets per round trip: at most 1, at most 4, below 10, more (TAQ, section 2.1)."""


@dataclass(frozen=True)
class Bottleneck:
    """A thin link, its queue and the flows through it."""

    rate_bps: ArrayLike
    """bit/s."""
    rtt_s: ArrayLike
    """Round trip without any queue."""
    flows: ArrayLike
    """Long flows at a time."""
    packet_bytes: ArrayLike = 1500
    """A packet on the wire, headers included."""
    buffer_packets: ArrayLike | None = None
    """What the queue holds; None: one bandwidth-delay product, at least 4."""
    rto_min_s: ArrayLike = 0.2
    """Floor of the senders' timer: 0.2 s in Linux and ns-2, 1 s by RFC 6298."""
    window: ArrayLike = 1000
    """Receive window, packets, 4 to 10 000."""
    stack: str = "linux"
    """``linux`` or ``rfc`` (RFC 6298 and ns-2): what else is known of the timer."""
    backoff_ends: str = "new_ack"
    """What ends a back-off: ``new_ack`` with timestamps, ``new_sample`` without; also ``s2``, ``s3``
    (:class:`narrows.models.taq_chain.Chain`)."""


class OperatingPoint(NamedTuple):
    """Where link and flows meet."""

    loss: Array
    """Share of the packets that the queue drops; 0 if all windows fit."""
    share_packets_per_rtt: Array
    """Fair share of a flow, packets per round trip with the queue."""
    rtt_s: Array
    """Round trip with the queue: an epoch of the chain."""
    queue_s: Array
    """Wait in the queue."""
    utilisation: Array
    """Share of the link's rate that is used."""
    packets_per_epoch: Array
    """Packets a flow sends per epoch, with those that are lost."""
    silent: Array
    """Share of the flows that send nothing in an epoch."""
    t0_epochs: Array
    """The timer before it is backed off, epochs."""
    silences_per_s: Array
    """Silences of a flow per second."""
    regime: Words
    """One of :data:`REGIMES`."""


def operating_point(bottleneck: Bottleneck) -> OperatingPoint:
    """The operating point of a link that endless flows share."""
    figures: dict[str, Any] = dict(zip(OperatingPoint._fields, _of("operating_point", bottleneck)))
    return OperatingPoint(**figures | {"regime": named(figures["regime"], REGIMES)})


def silence_quantile_s(quantile: ArrayLike, bottleneck: Bottleneck) -> Array:
    """Length that a share ``quantile`` of the silences does not exceed, seconds; 0 if there are none."""
    return _of("OperatingPoint::silence_quantile_s", bottleneck, quantile=quantile)[0]


def silent_longer_than(x_s: ArrayLike, bottleneck: Bottleneck) -> Array:
    """Share of the flows to which nothing has come for more than ``x_s`` seconds, at a moment."""
    return _of("OperatingPoint::silent_longer_than", bottleneck, x_s=x_s)[0]


def regime(share_packets_per_rtt: ArrayLike) -> Words:
    """The regime of a fair share in packets per round trip: one of :data:`REGIMES`."""
    share = {"share_packets_per_rtt": share_packets_per_rtt}
    return named(evaluate("operating::Regime::of", share)[0], REGIMES)


def _of(figure: str, bottleneck: Bottleneck, **asked: ArrayLike) -> tuple[Array, ...]:
    numbers, words = split(bottleneck)
    return evaluate(f"operating::{figure}", {**asked, **numbers}, words=words)


def of_scenario(scenario: Any, over: Any = None, set: Any = None) -> OperatingPoint:
    """The operating point of a scenario, or of each point of a grid: :meth:`narrows.Scenario.operating_point`."""
    from narrows.sweeps.grid import Grid

    grid = Grid.of(scenario, over, [1], set)
    axes = grid.axes[:-1]
    points = []
    for run in grid.runs:
        try:
            link = Bottleneck(**_native.bottleneck(run.scenario, run.file))
        except _native.ScenarioError as why:
            where = f" (at {run.where})" if axes else ""
            raise _native.refusal(why.key, f"{why.problem}{where}", why.file) from None
        points.append(operating_point(link))
    if not axes:
        return points[0]
    import xarray

    shape, dims = [len(axis) for axis in axes], [axis.name for axis in axes]
    coords = grid.coords(axes)
    figures: dict[str, Any] = {}
    for name in OperatingPoint._fields:
        values = np.reshape([getattr(point, name) for point in points], shape)
        figures[name] = xarray.DataArray(values, coords, dims, name, _attributes(name))
    return OperatingPoint(**figures)


def _attributes(name: str) -> dict[str, str]:
    return {"units": unit(name)} if unit(name) else {}
