"""Adaptive AIMD: a flow that backs off just far enough to empty the queue it saw.

Shorten and Leith, "On Queue Provisioning, Network Efficiency and the Transmission Control Protocol" (IEEE/ACM ToN,
2007). Fluid limit, drop-tail. See docs/explanation/models/aimd.md.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, one, several


@dataclass(frozen=True)
class Limits:
    """Bounds of the back-off factor."""

    beta_lo: ArrayLike = 0.5
    """Least back-off factor of an adaptive flow (1e-6 to below 1)."""
    beta_hi: ArrayLike = 0.8
    """Greatest back-off factor of an adaptive flow, at least the least (1e-6 to below 1)."""


LIMITS = Limits()
"""Bounds of the paper."""


class Epoch(NamedTuple):
    """Time between two congestion events."""

    rtts: Array
    """Length of the epoch in round trips, however long each is."""
    base_rtts: Array
    """Length of the epoch in two-way propagation times."""


def efficiency(phi: ArrayLike, beta: ArrayLike) -> Array:
    """Share of the link that synchronised flows use: 1 if ``beta m >= 1`` with ``m = 1 + phi``, else ``m^2 (1 - beta^2)
    / (m^2 + 1 - 2 beta m)``; derived for the curve of figure 7.

    Args:
        phi: Buffer as a multiple of the delay-bandwidth product (DBP) (DBP, 0 to 1e6).
        beta: Back-off factor: share of the window that a loss leaves (0 to below 1).
    """
    return one("aimd.efficiency", phi, beta)


def backoff(rtt_min_s: ArrayLike, rtt_max_s: ArrayLike, limits: Limits = LIMITS) -> Array:
    """Back-off factor by equation 4: ``RTTmin / RTTmax`` within the limits.

    Args:
        rtt_min_s: Least round-trip time of the flow: the queue is empty (s, above 0).
        rtt_max_s: Greatest round-trip time, at least the least (s, above 0).
    """
    return one("aimd.backoff", rtt_min_s, rtt_max_s, limits)


def backoff_for_buffer(phi: ArrayLike, limits: Limits = LIMITS) -> Array:
    """Back-off factor by equation 3 at one queue: ``1 / (1 + phi)`` within the limits.

    Args:
        phi: Buffer as a multiple of the delay-bandwidth product (DBP) (DBP, 0 to 1e6).
    """
    return one("aimd.backoff_for_buffer", phi, limits)


def increase(beta: ArrayLike) -> Array:
    """Increase by equation 5: ``alpha = 2 (1 - beta)`` packets per round trip, friendly to standard TCP.

    Args:
        beta: Back-off factor: share of the window that a loss leaves (0 to below 1).
    """
    return one("aimd.increase", beta)


def rtt_max_s(base_rtt_s: ArrayLike, queue_packets: ArrayLike, rate_pps: ArrayLike) -> Array:
    """Greatest round-trip time by equation 6: ``T + sum_j q_j / B_j``.

    Args:
        base_rtt_s: Two-way propagation T of the path (s, above 0).
        queue_packets: Queue at each hop when it overflows (packets, 0 to 1e12), shape (..., hops).
        rate_pps: Rate of each hop (packets/s, above 0), shape (..., hops).
    """
    return one("aimd.rtt_max_s", base_rtt_s, queue_packets, rate_pps)


def backoff_over(
    base_rtt_s: ArrayLike, queue_packets: ArrayLike, rate_pps: ArrayLike, limits: Limits = LIMITS
) -> Array:
    """Back-off factor by equation 7: ``T / (T + sum_j q_j / B_j)`` within the limits.

    Args:
        base_rtt_s: Two-way propagation T of the path (s, above 0).
        queue_packets: Queue at each hop when it overflows (packets, 0 to 1e12), shape (..., hops).
        rate_pps: Rate of each hop (packets/s, above 0), shape (..., hops).
    """
    return one("aimd.backoff_over", base_rtt_s, queue_packets, rate_pps, limits)


def peak_window_weight(alpha: ArrayLike, beta: ArrayLike, losing_share: ArrayLike = 1) -> Array:
    """Mean peak window of a flow, up to a factor that all flows share: ``alpha / (lambda (1 - beta))`` (section
    III).

    Args:
        alpha: Increase per round trip (packets, above 0).
        beta: Back-off factor: share of the window that a loss leaves (0 to below 1).
        losing_share: Share of the congestion events at which a flow loses; all lose together unless it is given
            (above 0 to 1).
    """
    return one("aimd.peak_window_weight", alpha, beta, losing_share)


def mean_over_peak(beta: ArrayLike) -> Array:
    """Mean window over peak window of a synchronised flow: ``(1 + beta) / 2``.

    Args:
        beta: Back-off factor: share of the window that a loss leaves (0 to below 1).
    """
    return one("aimd.mean_over_peak", beta)


def throughput_ratio(phi: ArrayLike, beta: ArrayLike) -> Array:
    """Throughput before a congestion event over that after it (equations 1 and 2): ``max(1, 1 / (beta (1 + phi)))``.

    Args:
        phi: Buffer as a multiple of the delay-bandwidth product (DBP) (DBP, 0 to 1e6).
        beta: Back-off factor of at least a millionth: share of the window that a loss leaves (1e-6 to below 1).
    """
    return one("aimd.throughput_ratio", phi, beta)


def mean_backoff(beta: ArrayLike, losing_share: ArrayLike) -> Array:
    """Mean factor of a flow that loses at a share lambda of the congestion events: ``lambda beta + 1 - lambda``
    (section VI).

    Args:
        beta: Back-off factor: share of the window that a loss leaves (0 to below 1).
        losing_share: Share of the congestion events at which a flow loses: 1 if all lose together (above 0 to 1).
    """
    return one("aimd.mean_backoff", beta, losing_share)


def convergence_epochs(beta: ArrayLike, rise: ArrayLike) -> Array:
    """Congestion epochs until windows have gone ``rise`` of the way: ``ln(1 - rise) / ln(beta)``, beta the largest
    factor in the network (section VI).

    Args:
        beta: Back-off factor above 0: share of the window that a loss leaves (above 0 to below 1).
        rise: Share of the way that windows go towards their equilibrium (0 to below 1).
    """
    return one("aimd.convergence_epochs", beta, rise)


def risen_after(beta: ArrayLike, epochs: ArrayLike) -> Array:
    """Share of the way that windows have gone after some congestion epochs: ``1 - beta^epochs``.

    Args:
        beta: Back-off factor: share of the window that a loss leaves (0 to below 1).
        epochs: Number of congestion epochs: times from one loss to the next (0 or more).
    """
    return one("aimd.risen_after", beta, epochs)


def epoch(phi: ArrayLike, beta: ArrayLike, alpha: ArrayLike, dbp_packets: ArrayLike, flows: ArrayLike) -> Epoch:
    """Length of an epoch of synchronised flows (section IV.A).

    Args:
        phi: Buffer as a multiple of the delay-bandwidth product (DBP) (DBP, 0 to 1e6).
        beta: Back-off factor: share of the window that a loss leaves (0 to below 1).
        alpha: Increase per round trip (packets, above 0).
        dbp_packets: Packets that the path holds without a queue: its rate times the round-trip time (packets, above
            0).
        flows: Number of flows that share the link (whole, 1 or more).
    """
    return Epoch(*several("aimd.epoch", phi, beta, alpha, dbp_packets, flows))


def fade(
    rtt_min_s: ArrayLike, srtt_s: ArrayLike, rtt_max_s: ArrayLike, gamma: ArrayLike = 0.875, towards: str = "rtt_min"
) -> Array:
    """Greatest round-trip time after a congestion event by equation 9: ``goal + gamma (RTTmax - goal)``.

    Args:
        rtt_min_s: Least round-trip time of the flow: the queue is empty (s, above 0).
        srtt_s: Smoothed round-trip time, between the least and the greatest (s, above 0).
        rtt_max_s: Greatest round-trip time, at least the least (s, above 0).
        gamma: Share of the excess that an event leaves; 7/8 in the paper (0 to 1).
        towards: Goal of the fading: two readings of an equation that is lost in the copy at hand. One of
            ``rtt_min``: the least round-trip time; ``srtt``: the smoothed one.
    """
    return one("aimd.fade", rtt_min_s, srtt_s, rtt_max_s, gamma, towards)


def excess_after(gamma: ArrayLike, events: ArrayLike) -> Array:
    """Share of an excess of RTTmax that is left after some congestion events without a queue: ``gamma^events``.

    Args:
        gamma: Share of the excess that an event leaves; 7/8 in the paper (0 to 1).
        events: Congestion events without a queue (whole, 0 to 4.294967295e9).
    """
    return one("aimd.excess_after", gamma, events)


def events_until(gamma: ArrayLike, left: ArrayLike) -> Array:
    """Congestion events after which only a share ``left`` of the excess is left: ``ln(left) / ln(gamma)``.

    Args:
        gamma: Share of the excess that an event leaves, below 1 (above 0 to below 1).
        left: Share of the excess that is left (above 0 to 1).
    """
    return one("aimd.events_until", gamma, left)


def throughput_backoff(beta: ArrayLike, before: ArrayLike, after: ArrayLike, limits: Limits = LIMITS) -> Array:
    """Back-off factor by equation 10: ``beta B- / B+`` within the limits.

    Args:
        beta: Back-off factor above 0: share of the window that a loss leaves (above 0 to below 1).
        before: Throughput just before the event, in the unit of ``after`` (above 0).
        after: Throughput just after the event, in the unit of ``before`` (above 0).
    """
    return one("aimd.throughput_backoff", beta, before, after, limits)


def throughput_backoffs(
    before: ArrayLike,
    after: ArrayLike,
    start: ArrayLike | None = None,
    limits: Limits = LIMITS,
    reset_change: ArrayLike | None = None,
    reset_every: ArrayLike = 0,
) -> Array:
    """Recursion of equation 10 over congestion events: the first factor, and one after each event; shape (..., events +
    1).

    Args:
        before: Throughput just before each event, in the unit of ``after`` (above 0), shape (..., events).
        after: Throughput just after each event, in the unit of ``before`` (above 0), shape (..., events).
        start: First back-off factor, within the limits (0 to 1); None: the lower limit.
        reset_change: Relative change of the throughput from one event to the next at which the recursion begins
            anew: 0.2 in H-TCP, which is not in the paper (0 or more); None: never.
        reset_every: Events after which the recursion begins anew in any case; 0 for never (whole, 0 to
            4.294967295e9).
    """
    return one("aimd.throughput_backoffs", before, after, start, limits, reset_change, reset_every)
