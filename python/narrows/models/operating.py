"""The operating point of a thin link: the loss at which so many TCP flows send just what fills it.

``N m(p) (1 - p) / RTT = C``, with m(p) the packets a flow sends per round trip at a loss p, by the chain of
:mod:`narrows.models.taq_chain` with the timer, the acknowledgments and the windows of a TCP in use. See
``docs/explanation/models/operating-point.md``, which has its errors beside the simulator.

A link is told by

- ``rate_bps``: bit/s; ``rtt_s``: round trip without any queue; ``flows``: long flows at a time.
- ``packet_bytes``: a packet on the wire, headers included.
- ``buffer_packets``: what the queue holds; None: one bandwidth-delay product, at least 4.
- ``rto_min_s``: floor of the senders' timer: 0.2 s in Linux and ns-2, 1 s by RFC 6298.
- ``window``: receive window, packets, 4 to 10 000.
- ``stack``: ``linux`` or ``rfc`` (RFC 6298 and ns-2): what else is known of the timer.
- ``backoff_ends``: ``s1`` with timestamps, ``sample`` without; also ``s2``, ``s3``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, Words, evaluate, named

REGIMES = ("sub-packet", "small-packet", "few packets", "normal")
"""By the fair share in packets per round trip: at most 1, at most 4, below 10, more (TAQ, section 2.1)."""


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


def operating_point(
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    flows: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    rto_min_s: ArrayLike = 0.2,
    window: ArrayLike = 1000,
    stack: str = "linux",
    backoff_ends: str = "s1",
) -> OperatingPoint:
    """The operating point; arguments in this module's head."""
    link = _link(rate_bps, rtt_s, flows, packet_bytes, buffer_packets, rto_min_s, window)
    words = {"stack": stack, "backoff_ends": backoff_ends}
    told: dict[str, Any] = dict(zip(OperatingPoint._fields, evaluate("operating::operating_point", link, words=words)))
    return OperatingPoint(**told | {"regime": named(told["regime"], REGIMES)})


def silence_quantile_s(
    quantile: ArrayLike,
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    flows: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    rto_min_s: ArrayLike = 0.2,
    window: ArrayLike = 1000,
    stack: str = "linux",
    backoff_ends: str = "s1",
) -> Array:
    """Length that a share ``quantile`` of the silences does not exceed, seconds; 0 if there are none."""
    link = _link(rate_bps, rtt_s, flows, packet_bytes, buffer_packets, rto_min_s, window)
    words = {"stack": stack, "backoff_ends": backoff_ends}
    return evaluate("operating::OperatingPoint::silence_quantile_s", {"quantile": quantile, **link}, words=words)[0]


def silent_longer_than(
    x_s: ArrayLike,
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    flows: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    rto_min_s: ArrayLike = 0.2,
    window: ArrayLike = 1000,
    stack: str = "linux",
    backoff_ends: str = "s1",
) -> Array:
    """Share of the flows to which nothing has come for more than ``x_s`` seconds, at a moment."""
    link = _link(rate_bps, rtt_s, flows, packet_bytes, buffer_packets, rto_min_s, window)
    words = {"stack": stack, "backoff_ends": backoff_ends}
    return evaluate("operating::OperatingPoint::silent_longer_than", {"x_s": x_s, **link}, words=words)[0]


def regime(share_packets_per_rtt: ArrayLike) -> Words:
    """The regime of a fair share in packets per round trip: one of :data:`REGIMES`."""
    share = {"share_packets_per_rtt": share_packets_per_rtt}
    return named(evaluate("operating::Regime::of", share)[0], REGIMES)


def _link(
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    flows: ArrayLike,
    packet_bytes: ArrayLike,
    buffer_packets: ArrayLike | None,
    rto_min_s: ArrayLike,
    window: ArrayLike,
) -> dict[str, ArrayLike | None]:
    return {
        "rate_bps": rate_bps,
        "packet_bytes": packet_bytes,
        "rtt_s": rtt_s,
        "buffer_packets": buffer_packets,
        "flows": flows,
        "rto_min_s": rto_min_s,
        "window": window,
    }
