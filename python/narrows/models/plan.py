"""What an operator asks of a thin link: is it thin, what does drop-tail do to those who share it, what would more buffer cost,
what would TAQ give with its door and without, and how far is the way out.

The questions and thresholds are those of TAQ (EuroSys 2014, sections 2, 4.3 and 5); the answers are ours: the operating point
for drop-tail, arithmetic for turns and queues at a door. ``docs/how-to/plan.md`` has what each conclusion rests on and its error.

A link is told by

- ``rate_bps``: 1 kbit/s to 1 Tbit/s; ``users``: 1 to 1e6; ``rtt_s``: round trip without any queue, above 0, at most 1000 s.
- ``packet_bytes``: a full packet, headers included, 64 to 65535.
- ``buffer_packets``: what the queue holds; None: what the link sends in ``buffer_s`` (None: in a round trip), at least 4.
- ``connections``: of each user at a time, 1 to 1000; ``busy``: share of the users that fetch something at a time, above 0.
- ``object_bytes``: what a connection fetches, on average; ``patience_s``: how long a fetch may take before it is given up.
- ``stack``: ``linux``, with timestamps, or ``rfc``, that of the RFCs and ns-2, without.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, Words, evaluate, named

VERDICTS = ("fine", "small packets", "past the tipping point", "too many at once")
"""From good to bad: more than 4 packets per round trip for each flow; no more; a tenth is lost; a fetch outlasts patience."""


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
    """A full packet of each flow: a turn of TAQ."""
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
    """Users that TAQ's door lets in at once."""
    admission_wait_s: Array
    """How long the others wait; NaN if everybody is in."""
    loss_admission_users: Array
    """Users that a door lets in that keeps drop-tail's loss below 0.09."""
    loss_admission_wait_s: Array
    """How long the others wait there."""
    exits: Array
    """How many better verdicts there are: :func:`exits` has the ways to them."""


class Exits(NamedTuple):
    """Ways to better verdicts: most users at this rate, least rate for these users; NaN where the verdict is no better."""

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


def plan(
    rate_bps: ArrayLike,
    users: ArrayLike,
    rtt_s: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    buffer_s: ArrayLike | None = None,
    connections: ArrayLike = 1,
    busy: ArrayLike = 1.0,
    object_bytes: ArrayLike = 7300,
    patience_s: ArrayLike = 60.0,
    stack: str = "linux",
) -> Plan:
    """What is to be expected of a link; arguments in this module's head."""
    link = _link(
        rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes, patience_s
    )
    told: dict[str, Any] = dict(zip(Plan._fields, evaluate("plan::plan", link, words={"stack": stack})))
    return Plan(**told | {"verdict": named(told["verdict"], VERDICTS)})


def exits(
    rate_bps: ArrayLike,
    users: ArrayLike,
    rtt_s: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    buffer_s: ArrayLike | None = None,
    connections: ArrayLike = 1,
    busy: ArrayLike = 1.0,
    object_bytes: ArrayLike = 7300,
    patience_s: ArrayLike = 60.0,
    stack: str = "linux",
) -> Exits:
    """The ways to better verdicts: fewer users, or a higher rate (whole kbit/s)."""
    link = _link(
        rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes, patience_s
    )
    return Exits(*evaluate("plan::Plan::exits", link, words={"stack": stack}))


def edges(
    rate_bps: ArrayLike,
    rtt_s: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    buffer_s: ArrayLike | None = None,
    connections: ArrayLike = 1,
    busy: ArrayLike = 1.0,
    object_bytes: ArrayLike = 7300,
    patience_s: ArrayLike = 60.0,
    stack: str = "linux",
) -> Edges:
    """Where the verdict changes, by users, at each rate: the edges of a map."""
    link = _link(
        rate_bps, 1, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes, patience_s
    )
    return Edges(*evaluate("plan::edges", link, words={"stack": stack}))


def stalls_per_s(
    x_s: ArrayLike,
    rate_bps: ArrayLike,
    users: ArrayLike,
    rtt_s: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    buffer_s: ArrayLike | None = None,
    connections: ArrayLike = 1,
    busy: ArrayLike = 1.0,
    object_bytes: ArrayLike = 7300,
    patience_s: ArrayLike = 60.0,
    stack: str = "linux",
) -> Array:
    """Stalls longer than ``x_s`` that begin per second, for a user behind drop-tail."""
    link = _link(
        rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes, patience_s
    )
    return evaluate("plan::Stalls::per_s", {"x_s": x_s, **link}, words={"stack": stack})[0]


def stalls_share_over(
    x_s: ArrayLike,
    during_s: ArrayLike,
    rate_bps: ArrayLike,
    users: ArrayLike,
    rtt_s: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    buffer_s: ArrayLike | None = None,
    connections: ArrayLike = 1,
    busy: ArrayLike = 1.0,
    object_bytes: ArrayLike = 7300,
    patience_s: ArrayLike = 60.0,
    stack: str = "linux",
) -> Array:
    """Share of the users who meet at least one stall longer than ``x_s`` while they are busy for ``during_s``."""
    link = _link(
        rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes, patience_s
    )
    return evaluate("plan::Stalls::share_over", {"x_s": x_s, "during_s": during_s, **link}, words={"stack": stack})[0]


def longest_stall_s(
    of: ArrayLike,
    during_s: ArrayLike,
    rate_bps: ArrayLike,
    users: ArrayLike,
    rtt_s: ArrayLike,
    packet_bytes: ArrayLike = 1500,
    buffer_packets: ArrayLike | None = None,
    buffer_s: ArrayLike | None = None,
    connections: ArrayLike = 1,
    busy: ArrayLike = 1.0,
    object_bytes: ArrayLike = 7300,
    patience_s: ArrayLike = 60.0,
    stack: str = "linux",
) -> Array:
    """The stall that a share ``of`` of the users meet or exceed in ``during_s``: 0.5 for the median user's longest."""
    link = _link(
        rate_bps, users, rtt_s, packet_bytes, buffer_packets, buffer_s, connections, busy, object_bytes, patience_s
    )
    return evaluate("plan::Stalls::longest_s", {"of": of, "during_s": during_s, **link}, words={"stack": stack})[0]


def _link(
    rate_bps: ArrayLike,
    users: ArrayLike,
    rtt_s: ArrayLike,
    packet_bytes: ArrayLike,
    buffer_packets: ArrayLike | None,
    buffer_s: ArrayLike | None,
    connections: ArrayLike,
    busy: ArrayLike,
    object_bytes: ArrayLike,
    patience_s: ArrayLike,
) -> dict[str, ArrayLike | None]:
    return {
        "rate_bps": rate_bps,
        "users": users,
        "rtt_s": rtt_s,
        "packet_bytes": packet_bytes,
        "buffer_packets": buffer_packets,
        "buffer_s": buffer_s,
        "connections": connections,
        "busy": busy,
        "object_bytes": object_bytes,
        "patience_s": patience_s,
    }
