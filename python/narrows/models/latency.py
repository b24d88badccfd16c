"""How long a transfer takes, from the first SYN to the ACK of its last segment.

Cardwell, Savage and Anderson, "Modeling TCP Latency" (INFOCOM 2000); equation numbers are theirs. See
``docs/explanation/models/latency.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, evaluate, split


@dataclass(frozen=True)
class Transfer:
    """A transfer and its path."""

    packets: ArrayLike
    """Segments to send, 1 to 1e12."""
    loss: ArrayLike
    """Of a packet, and of the SYN: 0, or 1e-12 <= loss < 1/2."""
    rtt_s: ArrayLike
    """Round-trip time, queueing included, 1e-9 to 1e9."""
    rto_s: ArrayLike = 1.0
    """The first timeout of a series."""
    b: ArrayLike = 2
    """Segments acknowledged by one ACK, 1 to 1000."""
    wmax_packets: ArrayLike | None = None
    """The receiver's window, 1 to 1e9; None: no limit."""
    reverse_loss: ArrayLike = 0.0
    """On the way back, which only the SYN+ACK feels; below 1/2."""
    syn_rto_s: ArrayLike = 1.0
    """The first timeout of SYN and SYN+ACK."""
    initial_window: ArrayLike = 10
    """Packets, 1 to 1e9; 10 by RFC 6928."""
    delayed_ack_s: ArrayLike = 0.1
    """Mean cost of a delayed ACK of a lone first segment; counts where ``initial_window`` is below 2."""


class Latency(NamedTuple):
    """The expected time of a transfer, in its parts."""

    handshake_s: Array
    """The handshake (equation 4)."""
    slow_start_s: Array
    """Slow start up to the first loss (15)."""
    loss_s: Array
    """The first loss (20)."""
    avoidance_s: Array
    """What is left, as a long flow (24)."""
    delayed_ack_s: Array
    """The delayed ACK of a lone first segment."""
    slow_start_packets: Array
    """Packets sent before the first loss (5)."""
    window_packets: Array
    """The window in which slow start ends if nothing limits it (11)."""
    loss_probability: Array
    """That the transfer loses anything (16)."""
    timeout_probability: Array
    """That its first loss is repaired by a timeout (17)."""
    transfer_s: Array
    """From the first segment of data to the last ACK (25)."""
    total_s: Array
    """Handshake and transfer."""


def handshake_s(
    forward_loss: ArrayLike, reverse_loss: ArrayLike, rtt_s: ArrayLike, syn_rto_s: ArrayLike = 1.0
) -> Array:
    """Equation 4: ``RTT + T_s ((1-p_r)/(1-2p_r) + (1-p_f)/(1-2p_f) - 2)``, seconds.

    Args:
        forward_loss, reverse_loss: 0, or 1e-12 <= loss < 1/2.
        rtt_s, syn_rto_s: seconds, 1e-9 to 1e9; the SYN's first timeout is 1 s by RFC 6298.
    """
    numbers = {"forward_loss": forward_loss, "reverse_loss": reverse_loss, "rtt_s": rtt_s, "syn_rto_s": syn_rto_s}
    return evaluate("latency::handshake_s", numbers)[0]


def cardwell(transfer: Transfer) -> Latency:
    """The expected latency of a transfer."""
    numbers, _ = split(transfer)
    return Latency(*evaluate("latency::cardwell", numbers))
