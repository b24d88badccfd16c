"""Windows of the first phase of a connection: slow start to any base, and Burst TCP.

Gonçalves, "Burst TCP: an approach for benefiting mice flows" (dissertation, UFPE), chapter 4. Nothing is lost here. See
``docs/explanation/models/burst.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, Numbers, evaluate, evaluate_rows, split


@dataclass(frozen=True)
class Growth:
    """How a window grows: slow start to a base, or Burst TCP."""

    base: ArrayLike | None = None
    """Slow start: the window is so many times as large after each round trip, 1 < base <= 1024; None: Burst TCP."""
    f: ArrayLike = 8
    """Burst TCP's smoothing-out factor, 1 to 1e6; 4 to 8 are good."""
    mice: ArrayLike = 32
    """Its mice threshold, packets, 1 to 1e6."""
    form: str = "guarded"
    """Which reading of Burst TCP:

    - ``guarded``: the pseudo-code below the threshold, slow start from there on (the text);
    - ``guarded_avoidance``: the same with congestion avoidance from there on;
    - ``printed``: the pseudo-code to the letter (figure 9), which never leaves the threshold;
    - ``ns2``: the ns-2 code of the appendix.
    """


GROWTH = Growth()
"""Burst TCP as the text has it, f = 8 and 32 packets."""


@dataclass(frozen=True)
class Path:
    """An empty path, hop by hop, and what is sent over it."""

    rate_bps: ArrayLike
    """Of each hop, shape (..., hops), 1000 bit/s or more; 1 to 16 hops."""
    delay_s: ArrayLike
    """Propagation of each hop, one way, shape (..., hops), 0 to 1000 s."""
    packet_bytes: ArrayLike = 1500
    """A data packet with its headers, 0 to 65535."""
    ack_bytes: ArrayLike = 40
    """An ACK; 0 takes no time."""
    syn_bytes: ArrayLike | None = None
    """A first packet that stands for the SYN, as ns-2's one-way agents send it; None: there is none."""


class Rounds(NamedTuple):
    """Windows, one per round trip; shape (..., rounds), NaN after the last round."""

    windows: Array
    """The window of each round, packets; its whole part is what is sent."""
    sent: Array
    """Packets sent up to the end of each round."""


class Overshoot(NamedTuple):
    """The first round that a pipe cannot hold; NaN if all fit."""

    sent: Array
    """Packets sent before the first that is lost."""
    lost: Array
    """Packets of that round that the pipe has no room for."""
    round: Array
    """Which round, from 1."""


def flow_level(packets: ArrayLike, initial: ArrayLike = 1, f: ArrayLike = 8, mice: ArrayLike = 32) -> Rounds:
    """Burst TCP once per round trip: ``cwnd + floor((mice - cwnd) / f)`` until ``packets`` are sent (section 4.2).

    Args:
        packets: file, 1 to 100 000 packets.
        initial: initial window, 1 to 100 000 packets.
        f: smoothing-out factor, 1 to 1e6.
        mice: mice threshold, packets, 1 to 1e6.
    """
    numbers = {"initial": initial, "packets": packets, "f": f, "mice": mice}
    return Rounds(*evaluate_rows("burst::BurstTcp::flow_level", numbers, parts=2))


def on_ack(cwnd: ArrayLike, growth: Growth = GROWTH) -> Array:
    """The window after one new ACK, packets (the pseudo-code of figure 9)."""
    numbers, words = _arguments(growth, cwnd=cwnd)
    return evaluate("burst::Growth::on_ack", numbers, words=words)[0]


def rounds(packets: ArrayLike, initial: ArrayLike = 1, growth: Growth = GROWTH) -> Rounds:
    """Windows per round trip, ACK by ACK, until ``packets`` are sent; ranges as of :func:`flow_level`."""
    numbers, words = _arguments(growth, initial=initial, packets=packets)
    return Rounds(*evaluate_rows("burst::Growth::rounds", numbers, words=words, parts=2))


def round_trips(packets: ArrayLike, initial: ArrayLike = 1, growth: Growth = GROWTH) -> Array:
    """How many round trips a file of ``packets`` takes: the rounds of :func:`rounds`."""
    numbers, words = _arguments(growth, initial=initial, packets=packets)
    return evaluate("burst::Rounds::count", numbers, words=words)[0]


def overshoot(pipe: ArrayLike, initial: ArrayLike = 1, growth: Growth = GROWTH) -> Overshoot:
    """What happens in a pipe (path and buffer together) that holds ``pipe`` packets, 1 to 100 000."""
    numbers, words = _arguments(growth, initial=initial, pipe=pipe)
    return Overshoot(*evaluate("burst::Growth::overshoot", numbers, words=words))


def transfer(packets: ArrayLike, path: Path, initial: ArrayLike = 1, growth: Growth = GROWTH) -> Array:
    """When each packet of a file is acknowledged, seconds from the sending of the first: shape (..., packets).

    ``packets`` from 1 to 100 000.
    """
    of_path, _ = split(path)
    rows = {"rate_bps": path.rate_bps, "delay_s": path.delay_s}
    sizes = {key: value for key, value in of_path.items() if key not in rows}
    numbers, words = _arguments(growth, initial=initial, packets=packets)
    return evaluate_rows("burst::Path::transfer", {**sizes, **numbers}, rows, words)[0]


def pareto_mean(scale: ArrayLike, shape: ArrayLike) -> Array:
    """The mean of ``P(X > x) = (scale / x)^shape``, in the unit of ``scale``; NaN for a shape up to 1: it has none."""
    return evaluate("burst::Pareto::mean", {"scale": scale, "shape": shape})[0]


def pareto_above(x: ArrayLike, scale: ArrayLike, shape: ArrayLike) -> Array:
    """``P(X > x)``; the dissertation's files have scale 4 and shape 1.2 (section 5.1)."""
    return evaluate("burst::Pareto::above", {"x": x, "scale": scale, "shape": shape})[0]


def pareto_exceeded_by(above: ArrayLike, scale: ArrayLike, shape: ArrayLike) -> Array:
    """The value that a share ``above`` of all exceed, 0 < above <= 1."""
    return evaluate("burst::Pareto::exceeded_by", {"above": above, "scale": scale, "shape": shape})[0]


def pareto_median_up_to(limit: ArrayLike, scale: ArrayLike, shape: ArrayLike) -> Array:
    """The median of those up to ``limit``, which is above the scale."""
    return evaluate("burst::Pareto::median_up_to", {"limit": limit, "scale": scale, "shape": shape})[0]


def _arguments(growth: Growth, **asked: ArrayLike) -> tuple[Numbers, dict[str, str]]:
    numbers, words = split(growth)
    return {**asked, **numbers}, words
