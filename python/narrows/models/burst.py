"""Windows of the first phase of a connection: slow start to any base, and Burst TCP.

Gonçalves, "Burst TCP: an approach for benefiting mice flows" (dissertation, UFPE), chapter 4. Nothing is lost here.
See docs/explanation/models/burst.md.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, one, several


class Rounds(NamedTuple):
    """Windows, one per round trip; shape (..., rounds), NaN after the last round."""

    windows: Array
    """Window of each round trip, packets; its whole part is sent."""
    sent: Array
    """Packets sent up to the end of each round."""


@dataclass(frozen=True)
class Growth:
    """Growth of a window: slow start to a base, or Burst TCP."""

    base: ArrayLike | None = None
    """Factor of slow start's window per round trip (above 1 to 1024); None: Burst TCP."""
    f: ArrayLike = 8
    """Smoothing-out factor of Burst TCP: the smaller the bolder; 4 to 8 are good (whole, 1 to 1e6)."""
    mice: ArrayLike = 32
    """Mice threshold of Burst TCP (packets, whole, 1 to 1e6)."""
    form: str = "guarded"
    """Reading of Burst TCP. One of ``guarded``: the pseudo-code below the threshold, slow start from there on (the
    text); ``guarded_avoidance``: the pseudo-code below the threshold, congestion avoidance from there on;
    ``printed``: the pseudo-code to the letter (figure 9), which never leaves the threshold; ``ns2``: the ns-2 code
    of the appendix."""


GROWTH = Growth()
"""Burst TCP as the text has it, f = 8 and 32 packets."""


class Overshoot(NamedTuple):
    """First round that a pipe cannot hold; NaN if all fit."""

    sent: Array
    """Packets sent before the first one that is lost."""
    lost: Array
    """Packets of the round of the first loss that the pipe has no room for."""
    round: Array
    """Number of the round trip with the first loss, from 1."""


@dataclass(frozen=True)
class Path:
    """Empty path, hop by hop, and packets sent over it."""

    rate_bps: ArrayLike
    """Rate of each hop; 1 to 16 hops (bit/s, 1000 or more), shape (..., hops)."""
    delay_s: ArrayLike
    """Propagation of each hop, one way (s, 0 to 1000), shape (..., hops)."""
    packet_bytes: ArrayLike = 1500
    """Size of a data packet, headers included (bytes, whole, 0 to 65535)."""
    ack_bytes: ArrayLike = 40
    """Size of an ACK; 0 takes no time (bytes, whole, 0 to 65535)."""
    syn_bytes: ArrayLike | None = None
    """Size of a first packet that stands for the SYN, as ns-2's one-way agents send it (bytes, whole, 0 to 65535);
    None: the connection stands already."""


def flow_level(packets: ArrayLike, initial: ArrayLike = 1, f: ArrayLike = 8, mice: ArrayLike = 32) -> Rounds:
    """Burst TCP once per round trip: ``cwnd + floor((mice - cwnd) / f)`` until all packets are sent (section 4.2).

    Args:
        packets: Size of the file (packets, whole, 1 to 100000).
        initial: Window of the sender before the first ACK (packets, whole, 1 to 100000).
        f: Smoothing-out factor of Burst TCP: the smaller the bolder; 4 to 8 are good (whole, 1 to 1e6).
        mice: Mice threshold of Burst TCP (packets, whole, 1 to 1e6).
    """
    return Rounds(*several("burst.flow_level", packets, initial, f, mice))


def on_ack(cwnd: ArrayLike, growth: Growth = GROWTH) -> Array:
    """Window after one new ACK (the pseudo-code of figure 9).

    Args:
        cwnd: Congestion window before the ACK, packets (packets, 1 or more).
    """
    return one("burst.on_ack", cwnd, growth)


def rounds(packets: ArrayLike, initial: ArrayLike = 1, growth: Growth = GROWTH) -> Rounds:
    """Windows per round trip, ACK by ACK, until all packets are sent.

    Args:
        packets: Size of the file (packets, whole, 1 to 100000).
        initial: Window of the sender before the first ACK (packets, whole, 1 to 100000).
    """
    return Rounds(*several("burst.rounds", packets, initial, growth))


def round_trips(packets: ArrayLike, initial: ArrayLike = 1, growth: Growth = GROWTH) -> Array:
    """Round trips that a file takes: the number of ``rounds``.

    Args:
        packets: Size of the file (packets, whole, 1 to 100000).
        initial: Window of the sender before the first ACK (packets, whole, 1 to 100000).
    """
    return one("burst.round_trips", packets, initial, growth)


def overshoot(pipe: ArrayLike, initial: ArrayLike = 1, growth: Growth = GROWTH) -> Overshoot:
    """First loss in a pipe (path and buffer together).

    Args:
        pipe: Packets that path and buffer hold together (packets, whole, 1 to 100000).
        initial: Window of the sender before the first ACK (packets, whole, 1 to 100000).
    """
    return Overshoot(*several("burst.overshoot", pipe, initial, growth))


def transfer(packets: ArrayLike, path: Path, initial: ArrayLike = 1, growth: Growth = GROWTH) -> Array:
    """Time at which each packet of a file is acknowledged, from the sending of the first; shape (..., packets).

    Args:
        packets: Size of the file (packets, whole, 1 to 100000).
        initial: Window of the sender before the first ACK (packets, whole, 1 to 100000).
    """
    return one("burst.transfer", packets, path, initial, growth)


def pareto_mean(scale: ArrayLike, shape: ArrayLike) -> Array:
    """Mean of ``P(X > x) = (scale / x)^shape``, in the unit of the scale; NaN for a shape up to 1, which has none.

    Args:
        scale: Least value of Pareto's law, in the unit that the result is to have (above 0).
        shape: Shape of the law; the dissertation's files have scale 4 and shape 1.2 (section 5.1) (above 0).
    """
    return one("burst.pareto_mean", scale, shape)


def pareto_above(x: ArrayLike, scale: ArrayLike, shape: ArrayLike) -> Array:
    """Probability that a value exceeds ``x``: ``(scale / x)^shape``.

    Args:
        x: Value that is to be exceeded, in the unit of the scale.
        scale: Least value of Pareto's law, in the unit that the result is to have (above 0).
        shape: Shape of the law; the dissertation's files have scale 4 and shape 1.2 (section 5.1) (above 0).
    """
    return one("burst.pareto_above", x, scale, shape)


def pareto_exceeded_by(above: ArrayLike, scale: ArrayLike, shape: ArrayLike) -> Array:
    """Value that a share ``above`` of all exceed, in the unit of the scale.

    Args:
        above: Share of all values of the law that exceed the result (above 0 to 1).
        scale: Least value of Pareto's law, in the unit that the result is to have (above 0).
        shape: Shape of the law; the dissertation's files have scale 4 and shape 1.2 (section 5.1) (above 0).
    """
    return one("burst.pareto_exceeded_by", above, scale, shape)


def pareto_median_up_to(limit: ArrayLike, scale: ArrayLike, shape: ArrayLike) -> Array:
    """Median of the values up to a limit, in the unit of the scale.

    Args:
        limit: Greatest value that counts, above the scale (above 0).
        scale: Least value of Pareto's law, in the unit that the result is to have (above 0).
        shape: Shape of the law; the dissertation's files have scale 4 and shape 1.2 (section 5.1) (above 0).
    """
    return one("burst.pareto_median_up_to", limit, scale, shape)
