"""Time of a short transfer whose first window is a burst, is spread over the first RTT, or is one segment.

Sallantin, Baudoin, Chaput, Arnal, Dubois and Beylot, "A TCP Model for Short-Lived Flows to Validate Initial
Spreading" (LCN 2014), section IV, with the corrections of docs/explanation/models/spreading.md.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, one, several


@dataclass(frozen=True)
class Parameters:
    """Path and timer."""

    loss: ArrayLike
    """Loss probability of a segment: with it all later ones of its burst are lost (0 to below 0.5)."""
    rtt_s: ArrayLike
    """Round-trip time of the path (s, above 0)."""
    rto_s: ArrayLike
    """First value of the timer, before any back-off, at least the RTT and at most 1e6 s (s, 0 to 1e6)."""
    backoff: str = "single_segment"
    """Timer that a timeout doubles. One of ``single_segment``: only the timer of a window of one (the paper's);
    ``every_timeout``: any timer (RFC 6298, 5.5)."""


class Delivery(NamedTuple):
    """Time until the last segment is acknowledged."""

    mean_s: Array
    """Mean of that time, s."""
    std_dev_s: Array
    """Standard deviation; NaN from a loss of 1/4 on, where there is none."""


def no_loss(loss: ArrayLike, segments: ArrayLike) -> Array:
    """Probability that no segment of some is lost: ``(1-p)^m``.

    Args:
        loss: Probability that a segment is lost (0 to 1).
        segments: Number of segments of the transfer (whole, 0 to 4.294967295e9).
    """
    return one("spreading.no_loss", loss, segments)


def d(i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    """Time T(D_i^n) with one burst as first window (equation 1, and 6 beyond one window).

    Args:
        i: Segments of the transfer (segments, whole, 1 to 1024).
        n: Segments of the first window (segments, whole, 1 to 1024).
    """
    return Delivery(*several("spreading.d", i, n, given))


def s(i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    """Time T(S_i^n) with the first window spread over the RTT, with fast retransmit (equations 2 and 3); i <= n, or n =
    1.

    Args:
        i: Segments of the transfer (segments, whole, 1 to 1024).
        n: Segments of the first window (segments, whole, 1 to 1024).
    """
    return Delivery(*several("spreading.s", i, n, given))


def s_no_fr(i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    """Time T(S_i^n) without fast retransmit (equation 2); i <= n, or n = 1.

    Args:
        i: Segments of the transfer (segments, whole, 1 to 1024).
        n: Segments of the first window (segments, whole, 1 to 1024).
    """
    return Delivery(*several("spreading.s_no_fr", i, n, given))


def b(i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    """Time T(B_i^n) of a window that is sent in pairs (equations 5 and 6); T(B_i^1) is slow start from a window of
    one.

    Args:
        i: Segments of the transfer (segments, whole, 1 to 1024).
        n: Segments of the first window (segments, whole, 1 to 1024).
    """
    return Delivery(*several("spreading.b", i, n, given))


def printed_s_no_fr(i: ArrayLike, n: ArrayLike, loss: ArrayLike, rtt_s: ArrayLike, rto_s: ArrayLike) -> Array:
    """Mean time by equation 2 as it is printed, to show the effect of its errors; i <= n <= 64.

    Args:
        i: Segments of the transfer (segments, whole, 1 to 1024).
        n: Segments of the first window (segments, whole, 1 to 1024).
        loss: Loss probability of a segment: with it all later ones of its burst are lost (0 to below 0.5).
        rtt_s: Round-trip time of the path (s, above 0).
        rto_s: First value of the timer, before any back-off, at least the RTT and at most 1e6 s (s, 0 to 1e6).
    """
    return one("spreading.printed_s_no_fr", i, n, loss, rtt_s, rto_s)


def printed_fr_saving(
    n: ArrayLike, loss: ArrayLike, rtt_s: ArrayLike, rto_s: ArrayLike, weighted: bool = False
) -> Array:
    """Time that fast retransmit saves by equation 3 as it is printed; n <= 64.

    Args:
        n: Segments of the first window (segments, whole, 1 to 1024).
        loss: Loss probability of a segment: with it all later ones of its burst are lost (0 to below 0.5).
        rtt_s: Round-trip time of the path (s, above 0).
        rto_s: First value of the timer, before any back-off, at least the RTT and at most 1e6 s (s, 0 to 1e6).
        weighted: Whether the probabilities that equation 3 lacks are put in.
    """
    return one("spreading.printed_fr_saving", n, loss, rtt_s, rto_s, weighted)


def printed_b(i: ArrayLike, n: ArrayLike, loss: ArrayLike, rtt_s: ArrayLike, rto_s: ArrayLike) -> Array:
    """Mean time by equations 5 and 6 as they are printed; i and n up to 64.

    Args:
        i: Segments of the transfer (segments, whole, 1 to 1024).
        n: Segments of the first window (segments, whole, 1 to 1024).
        loss: Loss probability of a segment: with it all later ones of its burst are lost (0 to below 0.5).
        rtt_s: Round-trip time of the path (s, above 0).
        rto_s: First value of the timer, before any back-off, at least the RTT and at most 1e6 s (s, 0 to 1e6).
    """
    return one("spreading.printed_b", i, n, loss, rtt_s, rto_s)
