"""The tables of a scenario file as dataclasses: a key is a field of the same name, with what it means and its unit.

Nothing is judged here: whatever runs a scenario has it read by the reader of the files, which refuses what cannot be
and names the key. A field that is None is a key the file does not have; so is one with its default, which the reader
fills in. Wherever a number or a quantity stands, an
expression may: ``"=rate/share"``. ``docs/reference/scenarios.md`` is the whole reference.
"""

from __future__ import annotations

from collections.abc import Callable

from narrows.own import CongestionControl, Queue
from narrows.tables import Bytes, Number, Rate, Time, default, table


@table
class Tcp:
    """TCP of an end: a preset and what differs from it. ``docs/reference/tcp.md`` has the presets' values."""

    preset: str | None = default("linux")
    """``linux`` (the default), ``ns2``, ``ns3`` or ``rfc``: what every key below is unless it is given."""
    mss: Number | None = None
    """Payload of a full segment, bytes (1 to 65495)."""
    handshake: str | None = None
    """Begin of a connection: it exists; ns-2's 40-byte packet 0; or SYN, SYN-ACK, ACK (RFC 9293, 3.5) (none or
    syn_is_packet_zero or three_way)."""
    syn_timeout: Time | None = None
    """First time-out of a SYN or SYN-ACK (RFC 6298, 2.1), then doubled (1ms to 120s)."""
    syn_retries: Number | None = None
    """Number of times a SYN or SYN-ACK is sent again before the connection fails; ``never``: it does not fail (RFC
    9293, 3.8.3) (0 and more, or never)."""
    initial_window: Number | None = None
    """Window before the first acknowledgment of data, segments or by rule (RFC 3390, RFC 6928) (1 to 10000, rfc3390 or
    rfc6928)."""
    initial_ssthresh: Number | None = None
    """Ssthresh at the beginning, segments (RFC 5681, 3.1) (2 and more, or infinite)."""
    startup: str | None = None
    """Growth of the window up to ssthresh (docs/reference/startups.md) (slow_start or hystart or burst or spreading or
    paced_start or paced or limited or smooth or adaptive or gallop or small_segments)."""
    start_rtt: Time | None = None
    """Round-trip time at first, where no handshake measures it, for the start-ups that ask; 0s: unknown (0s to 60s)."""
    slow_start_base: Number | None = None
    """Factor of slow start per round trip: each ACK opens the window by this number less 1 (1.1 to 64)."""
    burst_f: Number | None = None
    """Divisor f of B-TCP: the first round trip takes 1/f of the way to the mice threshold (Gonçalves) (1 to 1000)."""
    mice_threshold: Number | None = None
    """Mice threshold of B-TCP, segments: up to it the window grows in B-TCP's own way (2 to 10000)."""
    burst_after: str | None = None
    """Growth of B-TCP from the mice threshold on: slow start up to ssthresh, or congestion avoidance at once
    (slow_start or avoidance)."""
    burst_step: str | None = None
    """Step of B-TCP: as in its pseudo-code, with none above the threshold; or as in its ns-2 code (guarded or ns2)."""
    spread_floor: Time | None = None
    """Least distance of a first window's segments in Initial Spreading; below it the window leaves at once (0s to
    1s)."""
    max_ssthresh: Number | None = None
    """Window of limited slow start, segments, beyond which it grows by at most half of this per round trip (RFC 3742)
    (2 to 1000000)."""
    smooth_depth: Number | None = None
    """Depth of Smooth Start: it begins at ssthresh / 2^depth (1 to 16)."""
    smooth_grain: Number | None = None
    """Parts of Smooth Start up to ssthresh, each with slower growth (1 to 1000)."""
    gallop_gamma: Number | None = None
    """Queued segments of its own above which Gallop-Vegas ends start-up (1 to 10000)."""
    congestion: str | Callable[[], CongestionControl] | None = None
    """Congestion control from ssthresh on (docs/reference/congestion-controls.md) (reno or aimd or adaptive_aimd or
    htcp or westwood or vegas or cubic)."""
    alpha: Number | None = None
    """Segments by which aimd's window grows in a round trip (0.001 to 1000)."""
    beta: Number | None = None
    """Part of aimd's window that a loss leaves (0.01 to 0.99)."""
    beta_lo: Number | None = None
    """Least back-off factor of adaptive_aimd (0.01 to 0.99)."""
    beta_hi: Number | None = None
    """Greatest back-off factor of adaptive_aimd (Shorten, Leith, section III) (0.01 to 0.99)."""
    beta_from: str | None = None
    """Source of adaptive_aimd's back-off factor: round-trip times (equation 4) or throughput (equation 10) (rtt or
    throughput)."""
    beta_rto: str | None = None
    """Part of adaptive_aimd's window that a time-out leaves as ssthresh (half or beta)."""
    fade: str | None = None
    """Value towards which adaptive_aimd's RTTmax fades at each back-off (equation 9) (rttmin or srtt)."""
    gamma: Number | None = None
    """Part of the distance that stays when adaptive_aimd's RTTmax fades; 7/8 as in SRTT (0 to 1)."""
    min_samples: Number | None = None
    """Round-trip samples before adaptive_aimd believes them (1 to 1000)."""
    rtt_scaling: bool | str | None = None
    """Grow htcp's window in proportion to the round-trip time (draft-leith-tcp-htcp) (on or off)."""
    vegas_alpha: Number | None = None
    """Queued segments of its own below which the window of vegas grows (Brakmo, Peterson; ns-2's v_alpha_) (0 to
    10000)."""
    vegas_beta: Number | None = None
    """Queued segments of its own above which the window of vegas shrinks (0 to 10000)."""
    vegas_gamma: Number | None = None
    """Queued segments of its own above which vegas ends slow start (0 to 10000)."""
    recovery: str | None = None
    """Repair of losses: as Jacobson 1988, RFC 2581, RFC 6582 or RFC 6675 (tahoe or reno or newreno or sack)."""
    dupthresh: Number | None = None
    """Duplicate ACKs that tell a loss (RFC 5681, 3.2) (1 to 1000)."""
    limited_transmit: bool | str | None = None
    """Send new segments at the first two duplicate ACKs (RFC 3042) (on or off)."""
    dsack: bool | str | None = None
    """Report duplicates in SACK blocks (RFC 2883) (on or off)."""
    rack_tlp: bool | str | None = None
    """Detect losses by time, and probe tails (RFC 8985) (on or off)."""
    reduce_from: str | None = None
    """Quantity that a loss reduces: FlightSize (RFC 5681, equation 4) or the window that could be used (flight_size or
    cwnd)."""
    prr: bool | str | None = None
    """Proportional rate reduction while recovering (RFC 6937; ``safe_ack``: RFC 9937) (off or on or safe_ack)."""
    impatient: bool | str | None = None
    """Restart the timer at the first partial ACK only (RFC 6582, 3.2 step 3) (on or off)."""
    restart_timer: bool | str | None = None
    """Restart the timer at a fast retransmission (ns-2; an option of RFC 6675, section 6); ``linux``: also at some ACKs
    that only SACK (off or on or linux)."""
    rto_initial: Time | None = None
    """RTO before the first sample (RFC 6298, 2.1) (1ms to 120s)."""
    rto_min: Time | None = None
    """Floor of the RTO (RFC 6298, 2.4) (0s to 120s)."""
    rto_floor: str | None = None
    """Quantity that ``rto_min`` bounds: the RTO, or its term 4 * RTTVAR as in Linux (whole or deviation)."""
    rto_variance: str | None = None
    """Rule by which RTTVAR follows the samples (RFC 6298, 2.3) (rfc or linux)."""
    rto_max: Time | None = None
    """Cap of the backed-off RTO (RFC 6298, 2.5) (1ms to 600s)."""
    rto_granularity: Time | None = None
    """Clock granularity G (RFC 6298, 2.3) (0s to 1s)."""
    rto_ticks: bool | str | None = None
    """Round samples and RTO to whole multiples of ``rto_granularity``, as in old stacks (on or off)."""
    backoff_limit: Number | None = None
    """Largest factor of the back-off (1 to 1048576)."""
    forget_above: Number | None = None
    """Factor of the back-off above which SRTT is forgotten (RFC 6298, section 5) (1 and more, or never)."""
    backoff_ends: str | None = None
    """End of the back-off: a valid RTT sample (Karn; RFC 6298, section 5), or any ACK of new data (new_sample or
    new_ack)."""
    retries: Number | None = None
    """Time-outs in a row after which the connection fails (RFC 9293, 3.8.3) (0 and more, or never)."""
    rto_recovery: str | None = None
    """Order after a time-out: all is sent again, or what was not SACKed (RFC 6675, 5.1), or new data first (RFC 5682)
    (go_back_n or scoreboard or frto)."""
    rtt_sampling: str | None = None
    """Segments or ACKs that give samples of the round-trip time (RFC 6298, section 3) (one_at_a_time or every_segment
    or every_ack)."""
    timestamps: bool | str | None = None
    """Timestamps option (RFC 7323): every ACK gives a sample (on or off)."""
    ecn: bool | str | None = None
    """Explicit congestion notification (RFC 3168) (on or off)."""
    byte_counting: Number | None = None
    """Weight of an ACK: one segment, or its bytes, in slow start up to so many segments (RFC 3465) (per_ack, 1 and
    more, or infinite)."""
    restart_after_idle: bool | str | None = None
    """Limit the window to the initial one after an idle RTO (RFC 5681, 4.1) (on or off)."""
    grow_if_used: bool | str | None = None
    """Grow the window only if it was used (RFC 7661; RFC 9438, 5.8) (on or off)."""
    delayed_ack: Number | None = None
    """Number of full segments for which one ACK is sent (RFC 5681, 4.2) (off, or 1 to 64)."""
    delayed_ack_timeout: Time | None = None
    """Longest time that an ACK is delayed (1ms to 500ms, with delayed_ack on)."""
    quick_acks: Number | None = None
    """Segments acknowledged at once at the beginning of a connection (0 to 1000000, with delayed_ack on)."""
    push_every: Number | None = None
    """Segments that leave together for each PSH, which gets an ACK at once (Linux) (1 and more, or never)."""
    sws_avoidance: str | None = None
    """Rule by which a window too short for the next segment is filled (RFC 9293, 3.8.6.2.1): nothing is outstanding; by
    half of the largest window (Windows); FreeBSD; Linux (idle or rfc or bsd or linux)."""
    nagle: bool | str | None = None
    """Let a small last segment wait while data is outstanding (RFC 9293, 3.7.4); off: TCP_NODELAY (on or off)."""
    receive_window: Number | None = None
    """Receive window, bytes (ns-2's window_) (1 to 1073741824)."""
    window_scale: Number | None = None
    """Unit of the window field, as a power of two (RFC 7323); ``least``: the least with which the receive window fits
    (0 to 14, or least)."""


@table
class Topology:
    """A well-known shape in place of the thin link."""

    kind: str | None = None
    """The shape (needed; sim only)."""
    rate: Rate | None = None
    """Rate of each link (rate; needed; sim only)."""
    delay: Time | None = default("0ms")
    """Propagation of each link, one way (time; default 0ms; sim only)."""
    back_rate: Rate | None = None
    """Rate of each way back (rate; default rate; sim only)."""
    back_discipline: str | Callable[[], Queue] | None = default("fifo:1000")
    """Queue before each way back (default fifo:1000; sim only)."""
    access_delay: Time | None = default("0ms")
    """Propagation of each server's own link, one way (time, range; default 0ms; sim only)."""
    spread: str | None = default("even")
    """Distribution of ``access_delay`` over the hosts, if it is a range (default even; sim only)."""
    hops: Number | None = None
    """Links in a row (needed by `parking_lot`; sim only)."""
    lower_rate: Rate | None = None
    """Rate of the diamond's lower branch (rate; default rate; sim only)."""
    lower_delay: Time | None = None
    """Propagation of the diamond's lower branch (time; default delay; sim only)."""


@table
class Link:
    """A link between two nodes; the nodes exist by being named here."""

    name: str | None = None
    """Name in probes and results (default FROM-TO; sim only)."""
    from_: str | None = None
    """Node where the queue stands (needed; sim only)."""
    to: str | None = None
    """Node where the wire ends (needed; sim only)."""
    rate: Rate | None = None
    """Rate of the transmitter (rate; needed unless `trace` or `rates` tells it; sim only)."""
    trace: str | None = None
    """File of a rate that changes, as mahimahi records it (sim only)."""
    rates: list[list[str]] | None = None
    """Times and the rates from then on, as [["0s", "600kbit"], ["30s", "1mbit"]] (sim only)."""
    shaper: str | None = default("none")
    """Shaper at the entrance of the queue: a rate, mean, mean/2, known, late:60, auto,
    cake-autorate (default none; sim only)."""
    delay: Time | None = default("0ms")
    """Propagation, one way (time; default 0ms; sim only)."""
    discipline: str | Callable[[], Queue] | None = None
    """Queue before the link (default of the top level; sim only)."""
    overhead: Bytes | None = None
    """Bytes of link layer per packet (bytes; default of the top level; sim only)."""
    mpu: Bytes | None = None
    """Least size a packet with its overhead counts as (bytes; default of the top level; sim only)."""
    framing: str | None = None
    """Framing of the link layer: ``none``, ``atm`` or ``ptm`` (default of the top level; sim only)."""
    loss: Number | None = None
    """Loss on the wire, after the transmitter (probability; default of the top level; sim only)."""
    drop: list[int] | None = None
    """Packets lost on the wire; the first to be sent is 1 (default []; sim only)."""
    drop_at: list[Time] | None = None
    """Times at each of which the first packet whose sending ends then or later is lost (times; default []; sim
    only)."""
    oneway: bool | None = default(False)
    """Whether the link has no way back (default false; sim only)."""
    back_rate: Rate | None = None
    """Rate of the way back (rate; default rate; sim only)."""
    back_delay: Time | None = None
    """Propagation of the way back (time; default delay; sim only)."""
    back_discipline: str | Callable[[], Queue] | None = default("fifo:1000")
    """Queue before the way back (default fifo:1000; sim only)."""
    back_loss: Number | None = None
    """Loss on the way back (probability; default of the top level; sim only)."""
    back_trace: str | None = None
    """File of the way back's changing rate, as `trace` (sim only)."""
    back_rates: list[list[str]] | None = None
    """Times and rates of the way back, as `rates` (sim only)."""
    back_shaper: str | None = default("none")
    """Shaper at the entrance of the way back, as `shaper` (default none; sim only)."""


@table
class Hosts:
    """A group of hosts at a node."""

    name: str | None = None
    """Name by which traffic refers to the group (needed; sim only)."""
    at: str | None = None
    """Node at which the hosts' links end (needed; sim only)."""
    count: Number | None = None
    """Number of hosts; with fewer than users, users share hosts (default as many as the traffic needs; sim only)."""
    rate: Rate | None = None
    """Rate of each host's link, both ways (rate; default access_rate; sim only)."""
    delay: Time | None = default("0ms")
    """Propagation of each host's link, one way (time, range; default 0ms; sim only)."""
    spread: str | None = default("even")
    """Distribution of ``delay`` over the hosts, if it is a range (default even; sim only)."""
    tcp: Tcp | None = None
    """TCP of these hosts, over that of the top level (sim only)."""


@table
class Edge:
    """A node that divides connections into two classes."""

    at: str | None = None
    """Node that divides connections (needed; sim only)."""
    policy: str | None = None
    """Rule that puts connections into the first class (needed; sim only)."""
    paths: list[str] | None = None
    """The first link of each class's way, beginning at the node (links; sim only)."""
    mark: list[int] | None = None
    """Codepoints for the packets of each class; needed without ``paths`` (codepoints; sim only)."""


@table
class Group:
    """Objects whose figures are given apart."""

    name: str | None = None
    """Figures are called ``of_mice_mean_s`` and so on; letters, digits, ``_`` (needed; sim only)."""
    traffic: list[str] | None = None
    """Entries of traffic (names; default all; sim only)."""
    over: Bytes | None = default(0)
    """Lower bound on an object's size, itself excluded (bytes; default 0; sim only)."""
    up_to: Bytes | None = None
    """Upper bound on an object's size, itself included (bytes; default no bound; sim only)."""
    shares: bool | None = default(False)
    """Whether users' shares are compared, slice by slice; only for objects of all sizes (default false; sim only)."""


@table
class Probes:
    """Measurements to record."""

    slice: Time | None = default("20s")
    """Length of the slices in which shares are compared (time; default 20s; sim only)."""
    series: list[str] | None = None
    """Series to sample every ``interval`` (default []; sim only)."""
    interval: Time | None = default("100ms")
    """Time between two samples of the series (time; default 100ms; sim only)."""
    epochs: Time | None = None
    """Length of an epoch for the states of flows: maintained, dropped, arriving, stalled (time; default off; sim
    only)."""
    bursts: bool | None = default(False)
    """Whether to record the lost segments of each object of up to 64 (default false; sim only)."""
    repairs: bool | None = default(False)
    """Whether to record each timeout, fast retransmit and tail-loss probe of TCP's senders (default false; sim
    only)."""
    decisions: bool | None = default(False)
    """Whether to record each decision of shapers that find the rate of their link, ``auto`` (default false; sim
    only)."""
    qlog: int | None = default(0)
    """Number of connections, the first of the run, whose senders are logged as qlog (0 to 64; default 0); in the lab
    QUIC's."""
    capture: list[str] | None = None
    """Links to write to pcap (default []; sim only)."""
    stalls: list[Time] | None = None
    """Lengths from which on a user's pause counts as a stall (times; default ["20s", "60s"]; sim only)."""
    groups: list[Group] | None = None
    """Objects whose figures are given apart (default []; sim only)."""


@table
class Claim:
    """A claim about the results."""

    text: str | None = None
    """Sentence that is claimed (needed; sim only)."""
    source: str | None = None
    """Source of the sentence (default ""; sim only)."""
    sentence: str | None = None
    """Sentence of the source that the claim judges, by section (default ""; sim only)."""
    reading: str | None = None
    """``paper``, ``variant`` or ``ours``: counted apart (default paper, without a source ours; sim only)."""
    paper: str | None = None
    """The source's own value, as a report shows it; empty if it gives none (default ""; sim only)."""
    expr: str | None = None
    """Expression over the results (needed; sim only)."""
    bound: str | None = None
    """Bound on every element: ``>=``, ``>``, ``<=``, ``<``, ``==``, or a range ``0.9..1.1`` (needed; sim only)."""
    why: str | None = None
    """The reason for the tolerance (needed; sim only)."""
    expect: str | None = default("holds")
    """Outcome that is expected: ``holds``, ``direction`` or ``fails`` (default holds; sim only)."""
    direction: str | None = None
    """Weaker bound, for ``expect = "direction"`` (sim only)."""
    reason: str | None = None
    """Why less than ``holds`` is expected (sim only)."""
