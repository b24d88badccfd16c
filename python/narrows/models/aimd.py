"""Adaptive AIMD: a flow that backs off just far enough to empty the queue it saw.

Shorten and Leith, "On Queue Provisioning, Network Efficiency and the Transmission Control Protocol" (IEEE/ACM ToN,
2007). ``phi`` is the buffer as a multiple of the delay-bandwidth product (DBP), ``beta`` what a loss leaves of the
window, within :class:`Limits`. Fluid limit, drop-tail. See ``docs/explanation/models/aimd.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, evaluate, evaluate_rows, split


@dataclass(frozen=True)
class Limits:
    """Between which the factor stays."""

    beta_lo: ArrayLike = 0.5
    beta_hi: ArrayLike = 0.8


LIMITS = Limits()
"""The paper's."""


def efficiency(phi: ArrayLike, beta: ArrayLike) -> Array:
    """The share of the link that synchronised flows use.

    1 if ``beta m >= 1`` with ``m = 1 + phi``, else ``m^2 (1 - beta^2) / (m^2 + 1 - 2 beta m)``: derived for the curve
    of figure 7.

    Args:
        phi: buffer, DBP, 0 to 1e6.
        beta: factor, 0 <= beta < 1.
    """
    return evaluate("aimd::efficiency", {"phi": phi, "beta": beta})[0]


def backoff(rtt_min_s: ArrayLike, rtt_max_s: ArrayLike, limits: Limits = LIMITS) -> Array:
    """Equation 4: ``RTTmin / RTTmax`` within the limits.

    Args:
        rtt_min_s: least round-trip time, above 0.
        rtt_max_s: greatest, at least the least.
    """
    numbers = {"rtt_min_s": rtt_min_s, "rtt_max_s": rtt_max_s, **split(limits)[0]}
    return evaluate("aimd::backoff", numbers)[0]


def backoff_for_buffer(phi: ArrayLike, limits: Limits = LIMITS) -> Array:
    """Equation 3 at one queue: ``1 / (1 + phi)`` within the limits; ``phi`` in DBP, 0 to 1e6."""
    return evaluate("aimd::backoff_for_buffer", {"phi": phi, **split(limits)[0]})[0]


def increase(beta: ArrayLike) -> Array:
    """Equation 5: ``alpha = 2 (1 - beta)`` packets per round trip, friendly to standard TCP; 0 <= beta < 1."""
    return evaluate("aimd::increase", {"beta": beta})[0]


def rtt_max_s(base_rtt_s: ArrayLike, queue_packets: ArrayLike, rate_pps: ArrayLike) -> Array:
    """Equation 6: ``T + sum_j q_j / B_j``, seconds.

    Args:
        base_rtt_s: two-way propagation T, above 0.
        queue_packets: what waits at each hop when it overflows, shape (..., hops), 0 to 1e12.
        rate_pps: packets per second of each, shape (..., hops), above 0.
    """
    rows = {"queue_packets": queue_packets, "rate_pps": rate_pps}
    return evaluate("aimd::rtt_max_s", {"base_rtt_s": base_rtt_s}, rows)[0]


def backoff_over(
    base_rtt_s: ArrayLike, queue_packets: ArrayLike, rate_pps: ArrayLike, limits: Limits = LIMITS
) -> Array:
    """Equation 7: ``T / (T + sum_j q_j / B_j)`` within the limits; arguments as of :func:`rtt_max_s`."""
    rows = {"queue_packets": queue_packets, "rate_pps": rate_pps}
    numbers = {"base_rtt_s": base_rtt_s, **split(limits)[0]}
    return evaluate("aimd::backoff_over", numbers, rows)[0]


def peak_window_weight(alpha: ArrayLike, beta: ArrayLike, losing_share: ArrayLike = 1.0) -> Array:
    """What a flow's mean peak window is in proportion to: ``alpha / (lambda (1 - beta))`` (section III).

    Args:
        alpha: packets per round trip, above 0.
        beta: factor, 0 <= beta < 1.
        losing_share: lambda, the share of congestion events at which the flow loses, 0 < lambda <= 1.
    """
    numbers = {"alpha": alpha, "beta": beta, "losing_share": losing_share}
    return evaluate("aimd::peak_window_weight", numbers)[0]


def mean_over_peak(beta: ArrayLike) -> Array:
    """Mean window over peak window of a synchronised flow: ``(1 + beta) / 2``; 0 <= beta < 1."""
    return evaluate("aimd::mean_over_peak", {"beta": beta})[0]


def throughput_ratio(phi: ArrayLike, beta: ArrayLike) -> Array:
    """Throughput before a congestion event over that after it (equations 1 and 2): ``max(1, 1 / (beta (1 + phi)))``.

    Args:
        phi: buffer, DBP, 0 to 1e6.
        beta: factor, 1e-6 <= beta < 1.
    """
    return evaluate("aimd::throughput_ratio", {"phi": phi, "beta": beta})[0]


def mean_backoff(beta: ArrayLike, losing_share: ArrayLike) -> Array:
    """The mean factor of a flow that loses at a share lambda of the congestion events: ``lambda beta + 1 - lambda``
    (section VI)."""
    return evaluate("aimd::mean_backoff", {"beta": beta, "losing_share": losing_share})[0]


def convergence_epochs(beta: ArrayLike, rise: ArrayLike) -> Array:
    """Congestion epochs until windows have gone ``rise`` of the way: ``ln(1 - rise) / ln(beta)`` (section VI).

    Args:
        beta: the largest factor in the network, 0 < beta < 1.
        rise: 0 <= rise < 1.
    """
    return evaluate("aimd::convergence_epochs", {"beta": beta, "rise": rise})[0]


def risen_after(beta: ArrayLike, epochs: ArrayLike) -> Array:
    """How far windows have gone after so many congestion epochs: ``1 - beta^epochs``."""
    return evaluate("aimd::risen_after", {"beta": beta, "epochs": epochs})[0]


class Epoch(NamedTuple):
    """The time between two congestion events."""

    rtts: Array
    """In round trips, of whatever length each is."""
    base_rtts: Array
    """In two-way propagation times."""


def epoch(phi: ArrayLike, beta: ArrayLike, alpha: ArrayLike, dbp_packets: ArrayLike, flows: ArrayLike) -> Epoch:
    """How long an epoch of synchronised flows is (section IV.A).

    Args:
        phi: buffer, DBP, 0 to 1e6.
        beta: factor, 0 <= beta < 1.
        alpha: packets per round trip, above 0.
        dbp_packets: delay-bandwidth product, packets.
        flows: how many, 1 or more.
    """
    numbers = {"phi": phi, "beta": beta, "alpha": alpha, "dbp_packets": dbp_packets, "flows": flows}
    return Epoch(*evaluate("aimd::epoch", numbers))


def fade(
    rtt_min_s: ArrayLike,
    srtt_s: ArrayLike,
    rtt_max_s: ArrayLike,
    gamma: ArrayLike = 0.875,
    towards: str = "rtt_min",
) -> Array:
    """Equation 9: RTTmax after a congestion event, ``goal + gamma (RTTmax - goal)``, seconds.

    Args:
        rtt_min_s, srtt_s, rtt_max_s: 0 < RTTmin <= srtt <= RTTmax.
        gamma: what is kept of the excess, 0 to 1; 7/8 in the paper.
        towards: the goal, ``rtt_min`` or ``srtt``: the two readings of an equation that is lost in the copy at hand.
    """
    numbers = {"rtt_min_s": rtt_min_s, "srtt_s": srtt_s, "rtt_max_s": rtt_max_s, "gamma": gamma}
    return evaluate("aimd::estimate::Fade::apply", numbers, words={"towards": towards})[0]


def excess_after(gamma: ArrayLike, events: ArrayLike) -> Array:
    """What is left of an excess of RTTmax after so many congestion events without a queue: ``gamma^events``."""
    return evaluate("aimd::estimate::excess_after", {"gamma": gamma, "events": events})[0]


def events_until(gamma: ArrayLike, left: ArrayLike) -> Array:
    """Congestion events after which only a share ``left`` of the excess is left: ``ln(left) / ln(gamma)``."""
    return evaluate("aimd::estimate::events_until", {"gamma": gamma, "left": left})[0]


def throughput_backoff(beta: ArrayLike, before: ArrayLike, after: ArrayLike, limits: Limits = LIMITS) -> Array:
    """Equation 10: ``beta B- / B+`` within the limits.

    Args:
        beta: the factor so far, 0 < beta < 1.
        before, after: throughput just before and just after the congestion event, in one unit, above 0.
    """
    numbers = {"beta": beta, "before": before, "after": after, **split(limits)[0]}
    return evaluate("aimd::estimate::throughput_backoff", numbers)[0]


def throughput_backoffs(
    before: ArrayLike,
    after: ArrayLike,
    start: ArrayLike | None = None,
    limits: Limits = LIMITS,
    reset_change: ArrayLike | None = None,
    reset_every: ArrayLike = 0,
) -> Array:
    """The recursion of equation 10 over congestion events, shape (..., events + 1), the start first.

    Args:
        before, after: throughput just before and after each event, shape (..., events), in one unit, above 0.
        start: the first factor; the lower limit if None.
        reset_change: relative change of the throughput from one event to the next at which it begins anew (0.2 in
            H-TCP, which is not in the paper); None for never.
        reset_every: events after which it begins anew in any case; 0 for never.
    """
    numbers = {"start": start, "reset_change": reset_change, "reset_every": reset_every, **split(limits)[0]}
    rows = {"before": before, "after": after}
    return evaluate_rows("aimd::estimate::ThroughputBackoff::on_congestion", numbers, rows)[0]
