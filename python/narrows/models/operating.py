"""Operating point of a thin link: the loss at which some TCP flows send just enough to fill it.

``N m(p) (1 - p) / RTT = C``, with m(p) the packets a flow sends per round trip at a loss p, by the chain of
``taq_chain`` (TAQ, EuroSys 2014) with the timer, the acknowledgments and the windows of a TCP in use. See
docs/explanation/models/operating-point.md, which has its errors beside the simulator.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, Words, one, several


REGIMES = ("sub-packet", "small-packet", "few packets", "normal")
"""Regimes by the fair share in packets per round trip: at most 1, at most 4, below 10, more (TAQ, section 2.1)."""


@dataclass(frozen=True)
class Bottleneck:
    """Thin link, its queue and the flows through it."""

    rate_bps: ArrayLike
    """Rate of the link, as 2mbit (bit/s, 1 or more)."""
    rtt_s: ArrayLike
    """Round trip without a queue, in seconds, or as 200ms (s, above 0 to 1e9)."""
    flows: ArrayLike
    """Long flows at a time (whole, 1 to 4.294967295e9)."""
    packet_bytes: ArrayLike = 1500
    """Size of a packet on the wire, headers included (bytes, whole, 1 or more)."""
    buffer_packets: ArrayLike | None = None
    """Buffer of the queue (packets, whole, 0 to 4.294967295e9); None: one bandwidth-delay product, at least 4."""
    rto_min_s: ArrayLike = 0.2
    """Floor of the senders' timer: 0.2 s in Linux and ns-2, 1 s by RFC 6298 (s, 0 to 1e9)."""
    window: ArrayLike = 1000
    """Greatest window that a receiver offers (packets, whole, 4 to 10000)."""
    stack: str = "linux"
    """Timer of the senders. One of ``linux``: as in Linux, with timestamps and tail loss probes; ``rfc``: by RFC 6298
    to the letter, as in ns-2, without timestamps."""
    backoff_ends: str = "new_ack"
    """Event that ends a back-off of the timer, as ``Tcp.backoff_ends``. One of ``new_ack``: any new ACK: with
    timestamps; ``new_sample``: the first ACK of a packet sent once (Karn): without timestamps; ``s2``: the caption
    of the paper's figure 4: a window of 2 that arrives; ``s3``: the paper's text: a window of 3 that arrives."""


class OperatingPoint(NamedTuple):
    """Point where link and flows meet."""

    loss: Array
    """Share of the packets that the queue drops; 0 if all windows fit."""
    share_packets_per_rtt: Array
    """Fair share of a flow, packets per round trip with the queue."""
    rtt_s: Array
    """Round trip with the queue: an epoch of the chain, s."""
    queue_s: Array
    """Wait in the queue, s."""
    utilisation: Array
    """Share of the link's rate that is used."""
    packets_per_epoch: Array
    """Packets a flow sends per epoch, lost ones included."""
    silent: Array
    """Share of the flows that send nothing in an epoch."""
    t0_epochs: Array
    """First value of the timer, before any back-off, epochs."""
    silences_per_s: Array
    """Number of silences of a flow that begin per second, 1/s."""
    regime: Words
    """Regime of the fair share: one of :data:``REGIMES``."""


def operating_point(bottleneck: Bottleneck) -> OperatingPoint:
    """Operating point of a link that endless flows share."""
    return OperatingPoint(*several("operating.operating_point", bottleneck))


def silence_quantile_s(quantile: ArrayLike, bottleneck: Bottleneck) -> Array:
    """Length that a share ``quantile`` of the silences does not exceed; 0 if there are none.

    Args:
        quantile: Share of the silences that are no longer than the result (0 to 1).
    """
    return one("operating.silence_quantile_s", quantile, bottleneck)


def silent_longer_than(x_s: ArrayLike, bottleneck: Bottleneck) -> Array:
    """Share of the flows that have been silent for longer than a time, at a moment.

    Args:
        x_s: Length of the silence so far (s, 0 or more).
    """
    return one("operating.silent_longer_than", x_s, bottleneck)


def regime(share_packets_per_rtt: ArrayLike) -> Words:
    """Regime of a fair share in packets per round trip.

    Args:
        share_packets_per_rtt: Fair share of a flow (packets per round trip, 0 or more).
    """
    result: Words = several("operating.regime", share_packets_per_rtt)[0]
    return result
