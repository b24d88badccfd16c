"""Throughput of a long flow as a function of its loss.

Mathis, Semke, Mahdavi and Ott (1997); Padhye, Firoiu, Towsley and Kurose (SIGCOMM 1998, IEEE/ACM ToN 2000; sections are
cited, as the two number their equations differently); RFC 5348, section 3.1. See
``docs/explanation/models/throughput.md``.

``loss``: probability that a packet is lost, 0 or 1e-12 <= loss < 1. ``b``: segments acknowledged by one ACK, 1, or 2
with delayed ACKs.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, evaluate, split


@dataclass(frozen=True)
class Flow:
    """What the full model knows of a flow beside its loss."""

    rtt_s: ArrayLike
    """Round-trip time, queueing included, 1e-9 to 1e9 s."""
    rto_s: ArrayLike
    """T0, the first timeout of a series, 1e-9 to 1e9 s."""
    b: ArrayLike = 1
    """Segments acknowledged by one ACK."""
    wmax_packets: ArrayLike | None = None
    """The receiver's window, 1 to 1e9 packets; None: no limit, and then loss is not 0."""


def mathis(loss: ArrayLike, b: ArrayLike = 1) -> Array:
    """Packets per RTT of Mathis et al.: ``sqrt(3 / (2 b p))``; 0 < loss <= 1."""
    return evaluate("throughput::mathis", {"loss": loss, "b": b})[0]


def mean_window(loss: ArrayLike, b: ArrayLike = 1) -> Array:
    """E[W], packets: the mean window at a loss if no receiver limits it (section 2.1); 1e-12 <= loss < 1."""
    return evaluate("throughput::mean_window", {"loss": loss, "b": b})[0]


def timeout_probability(loss: ArrayLike, w: ArrayLike) -> Array:
    """Q^(w): probability that a loss in a window of ``w`` packets (0 to 1e9) ends in a timeout (section 2.2)."""
    return evaluate("throughput::timeout_probability", {"loss": loss, "w": w})[0]


def timeouts_s(loss: ArrayLike, rto_s: ArrayLike) -> Array:
    """E[Z^TO], seconds: mean length of a series of timeouts that begins with ``rto_s`` (section 2.2)."""
    return evaluate("throughput::timeouts_s", {"loss": loss, "rto_s": rto_s})[0]


def padhye(loss: ArrayLike, flow: Flow) -> Array:
    """B(p), packets per second: the send rate of the full model (section 2.3)."""
    return _of("padhye", loss, flow)


def padhye_throughput(loss: ArrayLike, flow: Flow) -> Array:
    """T(p), packets per second: what arrives of :func:`padhye` (the extension of 2000)."""
    return _of("padhye_throughput", loss, flow)


def padhye_approximate(loss: ArrayLike, flow: Flow) -> Array:
    """The short form of :func:`padhye`, packets per second (section 2.3)."""
    return _of("padhye_approximate", loss, flow)


def tfrc(loss: ArrayLike, rtt_s: ArrayLike, b: ArrayLike = 1) -> Array:
    """X, packets per second, of TFRC (RFC 5348, section 3.1), with t_RTO = 4 R.

    Args:
        loss: the rate of loss events, 1e-12 to 1.
        rtt_s: 1e-9 to 1e9 s.
        b: 1, as the RFC recommends.
    """
    return evaluate("throughput::tfrc", {"loss": loss, "rtt_s": rtt_s, "b": b})[0]


def _of(form: str, loss: ArrayLike, flow: Flow) -> Array:
    numbers, _ = split(flow)
    return evaluate(f"throughput::{form}", {"loss": loss, **numbers})[0]
