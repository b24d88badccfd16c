"""What an operator asks of a thin link: is it thin, what does drop-tail do to those who share it, what would more
buffer cost, what would TAQ give with admission control and without, and how far is the way out.

The questions and thresholds are those of TAQ (EuroSys 2014, sections 2, 4.3 and 5); the answers are ours: the operating
point for drop-tail, arithmetic for rounds and for the wait queue. ``docs/how-to/plan.md`` has what each conclusion
rests on and its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, Words, evaluate, named, split

VERDICTS = ("fine", "small packets", "past the tipping point", "too many at once")
"""From good to bad: more than 4 packets per round trip for each flow; no more; a tenth is lost; a fetch outlasts
patience."""


@dataclass(frozen=True)
class Link:
    """A thin link and those who share it."""

    rate_bps: ArrayLike
    """1 kbit/s to 1 Tbit/s."""
    users: ArrayLike
    """1 to 1e6."""
    rtt_s: ArrayLike
    """Round trip without any queue, above 0, at most 1000 s."""
    packet_bytes: ArrayLike = 1500
    """A full packet, headers included, 64 to 65535."""
    buffer_packets: ArrayLike | None = None
    """What the queue holds; None: what the link sends in ``buffer_s``."""
    buffer_s: ArrayLike | None = None
    """None: a round trip; at least 4 packets."""
    connections: ArrayLike = 1
    """Of each user at a time, 1 to 1000."""
    busy: ArrayLike = 1.0
    """Share of the users that fetch something at a time, above 0."""
    object_bytes: ArrayLike = 7300
    """What a connection fetches, on average."""
    patience_s: ArrayLike = 60.0
    """How long a fetch may take before it is given up."""
    stack: str = "linux"
    """``linux``, with timestamps, or ``rfc``, that of the RFCs and ns-2, without."""


class Plan(NamedTuple):
    """All that is concluded."""

    busy_users: Array
    """Users at a time."""
    flows: Array
    """Connections at a time."""
    buffer_packets: Array
    """Packets the queue holds."""
    share_bps: Array
    """Fair share of a flow, bit/s."""
    share_packets: Array
    """The same in packets per round trip without any queue."""
    verdict: Words
    """One of :data:`VERDICTS`."""
    loss: Array
    """What drop-tail loses."""
    silent: Array
    """Share of the flows that send nothing in a round trip under drop-tail."""
    larger_buffer_packets: Array
    """Buffer with which drop-tail loses less than a tenth; NaN if it does as it is, or with no buffer."""
    larger_buffer_delay_s: Array
    """What a packet waits in it."""
    larger_buffer_smallest_fetch_s: Array
    """What the smallest object takes then."""
    round_s: Array
    """A full packet of each flow: a round of TAQ."""
    silence_s: Array
    """Longest time in which nothing comes to a user of TAQ, at most."""
    fetch_s: Array
    """Mean time of a fetch."""
    wait_least_s: Array
    """Wait of a full packet of a long transfer under TAQ, least."""
    wait_most_s: Array
    """The same, most."""
    fits: Array
    """1 if all that wants to wait fits into TAQ's memory."""
    admission_users: Array
    """Users that TAQ's admission control admits at once."""
    admission_wait_s: Array
    """How long the others wait; NaN if everybody is admitted."""
    loss_admission_users: Array
    """Users whom admission control would admit that keeps drop-tail's loss below 0.09."""
    loss_admission_wait_s: Array
    """How long the others wait there."""
    exits: Array
    """How many better verdicts there are: :func:`exits` has the ways to them."""


class Exits(NamedTuple):
    """Ways to better verdicts: most users at this rate, least rate for these users; NaN where the verdict is no
    better."""

    fine_users: Array
    fine_rate_bps: Array
    small_packets_users: Array
    small_packets_rate_bps: Array
    past_tipping_users: Array
    past_tipping_rate_bps: Array


class Edges(NamedTuple):
    """Users from which on a verdict is at least so bad; fractions stand for single connections."""

    small_packets_users: Array
    past_tipping_users: Array
    too_many_users: Array


def plan(link: Link) -> Plan:
    """What is to be expected of a link."""
    figures: dict[str, Any] = dict(zip(Plan._fields, _of("plan", link)))
    return Plan(**figures | {"verdict": named(figures["verdict"], VERDICTS)})


def exits(link: Link) -> Exits:
    """The ways to better verdicts: fewer users, or a higher rate (whole kbit/s)."""
    return Exits(*_of("Plan::exits", link))


def edges(link: Link) -> Edges:
    """Where the verdict changes, by users, at each rate: the edges of a map. The link's own ``users`` do not matter."""
    return Edges(*_of("edges", link))


def stalls_per_s(x_s: ArrayLike, link: Link) -> Array:
    """Stalls longer than ``x_s`` that begin per second, for a user behind drop-tail."""
    return _of("Stalls::per_s", link, x_s=x_s)[0]


def stalls_share_over(x_s: ArrayLike, during_s: ArrayLike, link: Link) -> Array:
    """Share of the users who meet at least one stall longer than ``x_s`` while they are busy for ``during_s``."""
    return _of("Stalls::share_over", link, x_s=x_s, during_s=during_s)[0]


def longest_stall_s(of: ArrayLike, during_s: ArrayLike, link: Link) -> Array:
    """The stall that a share ``of`` of the users meet or exceed in ``during_s``: 0.5 for the median user's longest."""
    return _of("Stalls::longest_s", link, of=of, during_s=during_s)[0]


def _of(figure: str, link: Link, **asked: ArrayLike) -> tuple[Array, ...]:
    numbers, words = split(link)
    return evaluate(f"plan::{figure}", {**asked, **numbers}, words=words)
