"""Time of a transfer, from the first SYN to the ACK of its last segment.

Cardwell, Savage and Anderson, "Modeling TCP Latency" (INFOCOM 2000); equation numbers are theirs. See
docs/explanation/models/latency.md.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, one, several


@dataclass(frozen=True)
class Transfer:
    """Transfer and its path."""

    packets: ArrayLike
    """Number of segments that the transfer has (packets, whole, 1 to 1e12)."""
    loss: ArrayLike
    """Loss of a packet on its way to the receiver, and of the SYN: 0, or 1e-12 and more; below 0.5 (0 to below 0.5)."""
    rtt_s: ArrayLike
    """Round-trip time, queueing included, in seconds, or as 200ms (s, 1e-9 to 1e9)."""
    rto_s: ArrayLike = 1
    """First retransmission timeout of a series (s, 1e-9 to 1e9)."""
    b: ArrayLike = 2
    """Segments acknowledged by one ACK: 2 with delayed ACKs (1 to 1000)."""
    wmax_packets: ArrayLike | None = None
    """Window of the receiver (packets, 1 to 1e9); None: no limit, and then loss is not 0."""
    reverse_loss: ArrayLike = 0
    """Loss on the way back, which only the SYN+ACK feels; below 0.5 (0 to below 0.5)."""
    syn_rto_s: ArrayLike = 1
    """First timeout of the SYN: 1 s by RFC 6298 (s, 1e-9 to 1e9)."""
    initial_window: ArrayLike = 10
    """Initial window: 10 by RFC 6928 (packets, 1 to 1e9)."""
    delayed_ack_s: ArrayLike = 0.1
    """Mean cost of a delayed ACK of a lone first segment; counts where the initial window is below 2 (s, 0 to 1e9)."""


class Latency(NamedTuple):
    """Expected time of a transfer, in its parts."""

    handshake_s: Array
    """Time of the handshake (equation 4)."""
    slow_start_s: Array
    """Time of slow start up to the first loss (equation 15)."""
    loss_s: Array
    """Mean time of repairing the first loss (equation 20)."""
    avoidance_s: Array
    """Time of the rest of the transfer, as a long flow (equation 24)."""
    delayed_ack_s: Array
    """Mean cost of a delayed ACK of a lone first segment."""
    slow_start_packets: Array
    """Packets sent before the first loss (equation 5)."""
    window_packets: Array
    """Window in which slow start ends if nothing limits it (equation 11), packets."""
    loss_probability: Array
    """Probability that the transfer loses a packet (equation 16)."""
    timeout_probability: Array
    """Probability that the transfer's first loss is repaired by a timeout (equation 17)."""
    transfer_s: Array
    """Time from the first segment of data to the last ACK (equation 25)."""
    total_s: Array
    """Time of handshake and transfer."""


def handshake_s(forward_loss: ArrayLike, reverse_loss: ArrayLike, rtt_s: ArrayLike, syn_rto_s: ArrayLike = 1) -> Array:
    """Time of the handshake by equation 4: ``RTT + T_s ((1-p_r)/(1-2p_r) + (1-p_f)/(1-2p_f) - 2)``.

    Args:
        forward_loss: Loss of a packet on its way to the receiver: 0, or 1e-12 and more (0 to below 0.5).
        reverse_loss: Loss of the SYN+ACK on its way back: 0, or 1e-12 and more (0 to below 0.5).
        rtt_s: Round-trip time, queueing included, in seconds, or as 200ms (s, 1e-9 to 1e9).
        syn_rto_s: First timeout of the SYN: 1 s by RFC 6298 (s, 1e-9 to 1e9).
    """
    return one("latency.handshake_s", forward_loss, reverse_loss, rtt_s, syn_rto_s)


def cardwell(transfer: Transfer) -> Latency:
    """Expected latency of a transfer."""
    return Latency(*several("latency.cardwell", transfer))
