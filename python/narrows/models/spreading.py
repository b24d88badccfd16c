"""How long a short transfer takes whose first window is a burst, is spread over the first RTT, or is one segment.

Sallantin, Baudoin, Chaput, Arnal, Dubois and Beylot, "A TCP Model for Short-Lived Flows to Validate Initial Spreading"
(LCN 2014), section IV, with the corrections of ``docs/explanation/models/spreading.md``. A segment is lost with
probability ``loss``, and with it all later ones of its burst.

Everywhere ``i`` is the segments of the transfer, 1 to 1024, and ``n`` those of the first window, 1 to 1024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, evaluate, split


@dataclass(frozen=True)
class Parameters:
    """The path and the timer."""

    loss: ArrayLike
    """0 <= loss < 1/2."""
    rtt_s: ArrayLike
    """Above 0."""
    rto_s: ArrayLike
    """The timer before any back-off, at least the RTT."""
    backoff: str = "single_segment"
    """``single_segment`` (only the timer of a window of one doubles; the paper's) or ``every_timeout`` (RFC 6298,
    5.5)."""


class Delivery(NamedTuple):
    """How long until the last segment is acknowledged."""

    mean_s: Array
    """Mean, seconds."""
    std_dev_s: Array
    """Standard deviation, seconds; NaN from a loss of 1/4 on, where there is none."""


def no_loss(loss: ArrayLike, segments: ArrayLike) -> Array:
    """The probability that none of so many segments is lost: ``(1-p)^m``; 0 <= loss <= 1."""
    return evaluate("spreading::no_loss", {"loss": loss, "segments": segments})[0]


def d(i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    """T(D_i^n): the first window is one burst (equation 1, and 6 beyond one window)."""
    return _state("d", i, n, given)


def s(i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    """T(S_i^n): the first window is spread over the RTT, with fast retransmit (equations 2 and 3); i <= n, or n = 1."""
    return _state("s", i, n, given)


def s_no_fr(i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    """T(S_i^n) without fast retransmit (equation 2); i <= n, or n = 1."""
    return _state("s_no_fr", i, n, given)


def b(i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    """T(B_i^n): a window that is sent in pairs (equations 5 and 6); T(B_i^1) is slow start from a window of one."""
    return _state("b", i, n, given)


def printed_s_no_fr(i: ArrayLike, n: ArrayLike, loss: ArrayLike, rtt_s: ArrayLike, rto_s: ArrayLike) -> Array:
    """Equation 2 as it is printed, to show what its errors come to: mean, seconds; i <= n <= 64."""
    numbers = {"i": i, "n": n, "loss": loss, "rtt_s": rtt_s, "rto_s": rto_s}
    return evaluate("spreading::paper_literal::s_no_fr", numbers, words=_SINGLE)[0]


def printed_fr_saving(
    n: ArrayLike, loss: ArrayLike, rtt_s: ArrayLike, rto_s: ArrayLike, weighted: bool = False
) -> Array:
    """Equation 3 as it is printed: what fast retransmit saves, seconds; n <= 64.

    With ``weighted`` its probabilities are put in.
    """
    numbers = {"n": n, "loss": loss, "rtt_s": rtt_s, "rto_s": rto_s}
    words = _SINGLE | {"weighted": "true" if weighted else "false"}
    return evaluate("spreading::paper_literal::fr_saving", numbers, words=words)[0]


def printed_b(i: ArrayLike, n: ArrayLike, loss: ArrayLike, rtt_s: ArrayLike, rto_s: ArrayLike) -> Array:
    """Equations 5 and 6 as they are printed: mean, seconds; i and n up to 64."""
    numbers = {"i": i, "n": n, "loss": loss, "rtt_s": rtt_s, "rto_s": rto_s}
    return evaluate("spreading::paper_literal::b", numbers, words=_SINGLE)[0]


_SINGLE = {"backoff": "single_segment"}


def _state(state: str, i: ArrayLike, n: ArrayLike, given: Parameters) -> Delivery:
    numbers, words = split(given)
    return Delivery(*evaluate(f"spreading::Spreading::{state}", {"i": i, "n": n, **numbers}, words=words))
