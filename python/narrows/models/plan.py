"""Questions of an operator of a thin link: is it thin, what does drop-tail do to its users, what would more
buffer cost, what would TAQ give with admission control and without, and how far is the way out.

The questions and thresholds are those of TAQ (EuroSys 2014, sections 2, 4.3 and 5); the answers are ours: the operating
point for drop-tail, arithmetic for rounds and for the wait queue. docs/how-to/plan.md has the basis of each conclusion
and its error.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, Words, one, several


VERDICTS = ("fine", "small packets", "past the tipping point", "too many at once")
"""Verdicts from good to bad: more than 4 packets per round trip for each flow; no more; a tenth is lost; a fetch
outlasts patience."""


@dataclass(frozen=True)
class Link:
    """Thin link and its users."""

    rate_bps: ArrayLike
    """Rate of the link (bit/s, 1000 to 1e12)."""
    users: ArrayLike
    """Users who share the link (whole, 1 to 1e6)."""
    rtt_s: ArrayLike
    """Round trip without any queue (s, above 0 to 1000)."""
    packet_bytes: ArrayLike = 1500
    """Size of a full packet, headers included (bytes, whole, 64 to 65535)."""
    buffer_packets: ArrayLike | None = None
    """Buffer of the queue; it goes before ``buffer_s`` (packets, whole, 1 to 1e7); None: as many as the link sends in
    buffer_s."""
    buffer_s: ArrayLike | None = None
    """Buffer of the queue as a time of the link, at least 4 packets (s, 0 to 1e9); None: a round trip."""
    connections: ArrayLike = 1
    """Connections of each user at a time (whole, 1 to 1000)."""
    busy: ArrayLike = 1
    """Share of the users that fetch something at a time (above 0 to 1)."""
    object_bytes: ArrayLike = 7300
    """Mean size of a fetch (bytes, whole, 1 to 1e12)."""
    patience_s: ArrayLike = 60
    """Mean time of a fetch that people accept before they give up (s, above 0 to 1e6)."""
    stack: str = "linux"
    """Timer of the senders. One of ``linux``: as in Linux, with timestamps and tail loss probes; ``rfc``: by RFC 6298
    to the letter, as in ns-2, without timestamps."""


class Plan(NamedTuple):
    """Conclusions."""

    busy_users: Array
    """Users who fetch something at a time."""
    flows: Array
    """Connections that are open at a time."""
    buffer_packets: Array
    """Packets that the queue holds."""
    share_bps: Array
    """Fair share of a flow, bit/s."""
    share_packets: Array
    """Fair share in packets per round trip without any queue."""
    verdict: Words
    """Verdict on the link with drop-tail: one of :data:``VERDICTS``."""
    loss: Array
    """Loss of the link behind drop-tail."""
    silent: Array
    """Share of the flows that send nothing in a round trip under drop-tail."""
    larger_buffer_packets: Array
    """Buffer with which drop-tail loses less than a tenth; NaN if it does as it is, or with no buffer, packets."""
    larger_buffer_delay_s: Array
    """Wait of a packet in the larger buffer, s."""
    larger_buffer_smallest_fetch_s: Array
    """Time of the smallest fetch through the larger buffer."""
    round_s: Array
    """Round of TAQ: a full packet of each flow, s."""
    silence_s: Array
    """Upper bound of the longest time in which nothing comes to a user under TAQ."""
    fetch_s: Array
    """Mean time of a fetch, s."""
    wait_least_s: Array
    """Least wait of a full packet of a long transfer under TAQ."""
    wait_most_s: Array
    """Greatest wait of a full packet of a long transfer under TAQ."""
    fits: Array
    """Whether all packets that have to wait fit into TAQ's memory: 1 or 0."""
    admission_users: Array
    """Users that TAQ's admission control admits at once."""
    admission_wait_s: Array
    """Wait of users who are not admitted at once; NaN if everybody is."""
    loss_admission_users: Array
    """Users that admission control would admit if it kept drop-tail's loss below 0.09."""
    loss_admission_wait_s: Array
    """Wait of the other users under such admission control."""
    exits: Array
    """Number of better verdicts that the link could have; ``exits`` has the ways to them."""


class Exits(NamedTuple):
    """Ways to better verdicts: most users at this rate, least rate for these users; NaN where the verdict is no
    better."""

    fine_users: Array
    """Most users of a fine link."""
    fine_rate_bps: Array
    """Least rate of a fine link, bit/s."""
    small_packets_users: Array
    """Most users of a link with small packets."""
    small_packets_rate_bps: Array
    """Least rate of a link with small packets, bit/s."""
    past_tipping_users: Array
    """Most users of a link past the tipping point."""
    past_tipping_rate_bps: Array
    """Least rate of a link past the tipping point, bit/s."""


class Edges(NamedTuple):
    """Users from which on a verdict is at least so bad; fractions stand for single connections."""

    small_packets_users: Array
    """Users from which on packets are small."""
    past_tipping_users: Array
    """Users from which on the link is past its tipping point."""
    too_many_users: Array
    """Users from which on there are too many at once."""


def plan(link: Link) -> Plan:
    """Conclusions on a link."""
    return Plan(*several("plan.plan", link))


def exits(link: Link) -> Exits:
    """Ways to better verdicts: fewer users, or a higher rate (whole kbit/s)."""
    return Exits(*several("plan.exits", link))


def edges(link: Link) -> Edges:
    """Users at which the verdict changes, at each rate: the edges of a map. The link's own users do not matter."""
    return Edges(*several("plan.edges", link))


def stalls_per_s(x_s: ArrayLike, link: Link) -> Array:
    """Stalls longer than a time that begin per second, for a user behind drop-tail.

    Args:
        x_s: Length of a stall (s, 0 or more).
    """
    return one("plan.stalls_per_s", x_s, link)


def stalls_share_over(x_s: ArrayLike, during_s: ArrayLike, link: Link) -> Array:
    """Share of the users who meet at least one stall longer than a time while they are busy.

    Args:
        x_s: Length of a stall (s, 0 or more).
        during_s: Time for which a user is busy (s, 0 to 1e9).
    """
    return one("plan.stalls_share_over", x_s, during_s, link)


def longest_stall_s(of: ArrayLike, during_s: ArrayLike, link: Link) -> Array:
    """Stall that a share of the users meet or exceed while they are busy.

    Args:
        of: Share of the users who meet or exceed the result: 0.5 for the median user's longest stall (0 to 1).
        during_s: Time for which a user is busy (s, 0 to 1e9).
    """
    return one("plan.longest_stall_s", of, during_s, link)
