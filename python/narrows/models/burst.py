"""Windows of the first phase of a connection: slow start to any base, and Burst TCP.

Gonçalves, "Burst TCP: an approach for benefiting mice flows" (dissertation, UFPE), chapter 4. Nothing is lost here. How a window
grows: slow start to ``base`` (the window is ``base`` times as large after each round trip), or, with ``base=None``, Burst TCP
with smoothing-out factor ``f`` (4 to 8 are good) and mice threshold ``mice`` in packets, of one of the forms

- ``guarded``: the pseudo-code below the threshold, slow start from there on (the text);
- ``guarded_avoidance``: the same with congestion avoidance from there on;
- ``printed``: the pseudo-code to the letter (figure 9), which never leaves the threshold;
- ``ns2``: the ns-2 code of the appendix.

See ``docs/explanation/models/burst.md``.
"""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, evaluate, evaluate_rows


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


def on_ack(
    cwnd: ArrayLike, base: ArrayLike | None = None, f: ArrayLike = 8, mice: ArrayLike = 32, form: str = "guarded"
) -> Array:
    """The window after one new ACK, packets (the pseudo-code of figure 9); arguments as in this module's head."""
    return evaluate("burst::Growth::on_ack", {"cwnd": cwnd, **_growth(base, f, mice)}, words={"form": form})[0]


def rounds(
    packets: ArrayLike,
    initial: ArrayLike = 1,
    base: ArrayLike | None = None,
    f: ArrayLike = 8,
    mice: ArrayLike = 32,
    form: str = "guarded",
) -> Rounds:
    """Windows per round trip, ACK by ACK, until ``packets`` are sent; ranges as of :func:`flow_level`, 1 < base <= 1024."""
    numbers = {"initial": initial, "packets": packets, **_growth(base, f, mice)}
    return Rounds(*evaluate_rows("burst::Growth::rounds", numbers, words={"form": form}, parts=2))


def round_trips(
    packets: ArrayLike,
    initial: ArrayLike = 1,
    base: ArrayLike | None = None,
    f: ArrayLike = 8,
    mice: ArrayLike = 32,
    form: str = "guarded",
) -> Array:
    """How many round trips a file of ``packets`` takes: the rounds of :func:`rounds`."""
    numbers = {"initial": initial, "packets": packets, **_growth(base, f, mice)}
    return evaluate("burst::Rounds::count", numbers, words={"form": form})[0]


def overshoot(
    pipe: ArrayLike,
    initial: ArrayLike = 1,
    base: ArrayLike | None = None,
    f: ArrayLike = 8,
    mice: ArrayLike = 32,
    form: str = "guarded",
) -> Overshoot:
    """What happens in a pipe (path and buffer together) that holds ``pipe`` packets, 1 to 100 000."""
    numbers = {"initial": initial, "pipe": pipe, **_growth(base, f, mice)}
    return Overshoot(*evaluate("burst::Growth::overshoot", numbers, words={"form": form}))


def transfer(
    packets: ArrayLike,
    rate_bps: ArrayLike,
    delay_s: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    ack_bytes: ArrayLike = 40,
    syn_bytes: ArrayLike | None = None,
    initial: ArrayLike = 1,
    base: ArrayLike | None = None,
    f: ArrayLike = 8,
    mice: ArrayLike = 32,
    form: str = "guarded",
) -> Array:
    """When each packet of a file is acknowledged on an empty path, seconds from the sending of the first: (..., packets).

    Args:
        packets: file, 1 to 100 000 packets.
        rate_bps: of each hop, shape (..., hops), 1000 bit/s or more; 1 to 16 hops.
        delay_s: propagation of each hop, one way, shape (..., hops), 0 to 1000 s.
        packet_bytes: a data packet with its headers, 0 to 65535.
        ack_bytes: an ACK; 0 takes no time.
        syn_bytes: size of a first packet that stands for the SYN, as ns-2's one-way agents send it; None: there is none.
    """
    sizes = {"packet_bytes": packet_bytes, "ack_bytes": ack_bytes, "syn_bytes": syn_bytes}
    numbers = {**sizes, "initial": initial, "packets": packets, **_growth(base, f, mice)}
    rows = {"rate_bps": rate_bps, "delay_s": delay_s}
    return evaluate_rows("burst::Path::transfer", numbers, rows, {"form": form})[0]


def pareto_mean(scale: ArrayLike, shape: ArrayLike) -> Array:
    """The mean of ``P(X > x) = (scale / x)^shape``, in the unit of ``scale``; NaN for a shape up to 1, which has none."""
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


def _growth(base: ArrayLike | None, f: ArrayLike, mice: ArrayLike) -> dict[str, ArrayLike | None]:
    return {"base": base, "f": f, "mice": mice}
