"""Throughput of a long flow as a function of its loss.

Mathis, Semke, Mahdavi and Ott (1997); Padhye, Firoiu, Towsley and Kurose (SIGCOMM 1998, IEEE/ACM ToN 2000; sections are
cited, as the two number their equations differently); RFC 5348, section 3.1. See
docs/explanation/models/throughput.md.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, one


@dataclass(frozen=True)
class Flow:
    """Flow of the full model, but for its loss."""

    rtt_s: ArrayLike
    """Round-trip time, queueing included, in seconds, or as 200ms (s, 1e-9 to 1e9)."""
    rto_s: ArrayLike
    """First timeout of a series, T0 (s, 1e-9 to 1e9)."""
    b: ArrayLike = 1
    """Segments acknowledged by one ACK: 1, or 2 with delayed ACKs (1 to 1000)."""
    wmax_packets: ArrayLike | None = None
    """Window of the receiver (packets, 1 to 1e9); None: no limit, and then loss is not 0."""


def mathis(loss: ArrayLike, b: ArrayLike = 1) -> Array:
    """Window of Mathis et al.: ``sqrt(3 / (2 b p))`` packets per RTT.

    Args:
        loss: Loss probability of a packet (above 0 to 1).
        b: Segments acknowledged by one ACK: 1, or 2 with delayed ACKs (above 0).
    """
    return one("throughput.mathis", loss, b)


def mean_window(loss: ArrayLike, b: ArrayLike = 1) -> Array:
    """Mean window E[W] at a loss if no receiver limits it (section 2.1), packets.

    Args:
        loss: Loss probability of a packet (1e-12 to below 1).
        b: Segments acknowledged by one ACK: 1, or 2 with delayed ACKs (1 to 1000).
    """
    return one("throughput.mean_window", loss, b)


def timeout_probability(loss: ArrayLike, w: ArrayLike) -> Array:
    """Probability ``Q^(w)`` that a loss in a window of ``w`` packets ends in a timeout (section 2.2).

    Args:
        loss: Loss probability of a packet: 0, or 1e-12 and more; below 1 (0 to below 1).
        w: Window in which the loss happens (packets, 0 to 1e9).
    """
    return one("throughput.timeout_probability", loss, w)


def timeouts_s(loss: ArrayLike, rto_s: ArrayLike) -> Array:
    """Mean length ``E[Z^TO]`` of a series of timeouts that begins with ``rto_s`` (section 2.2).

    Args:
        loss: Loss probability of a packet: 0, or 1e-12 and more; below 1 (0 to below 1).
        rto_s: First timeout of a series, T0 (s, 1e-9 to 1e9).
    """
    return one("throughput.timeouts_s", loss, rto_s)


def padhye(loss: ArrayLike, flow: Flow) -> Array:
    """Send rate B(p) of the full model (section 2.3), packets/s.

    Args:
        loss: Loss probability of a packet: 0, or 1e-12 and more; below 1 (0 to below 1).
    """
    return one("throughput.padhye", loss, flow)


def padhye_throughput(loss: ArrayLike, flow: Flow) -> Array:
    """Rate T(p) that arrives of ``padhye`` (the extension of 2000), packets/s.

    Args:
        loss: Loss probability of a packet: 0, or 1e-12 and more; below 1 (0 to below 1).
    """
    return one("throughput.padhye_throughput", loss, flow)


def padhye_approximate(loss: ArrayLike, flow: Flow) -> Array:
    """Send rate by the short form of ``padhye`` (section 2.3), packets/s.

    Args:
        loss: Loss probability of a packet: 0, or 1e-12 and more; below 1 (0 to below 1).
    """
    return one("throughput.padhye_approximate", loss, flow)


def tfrc(loss: ArrayLike, rtt_s: ArrayLike, b: ArrayLike = 1) -> Array:
    """Rate X of TFRC (RFC 5348, section 3.1), with t_RTO = 4 R, packets/s.

    Args:
        loss: Loss event rate p of TFRC (1e-12 to 1).
        rtt_s: Round-trip time, queueing included, in seconds, or as 200ms (s, 1e-9 to 1e9).
        b: Segments acknowledged by one ACK: 1, as RFC 5348 recommends (1 to 1000).
    """
    return one("throughput.tfrc", loss, rtt_s, b)
