//! Every number that a verdict depends on and that no packet shows: how far off a time may be, how much is enough.
//!
//! Each has its reason, and what moves when it changes. `cargo xtask scoreboard` tells by how much, at each point of
//! capture. Numbers of an RFC or of Linux that are no choice of ours are marked by their source. Shares are taken of
//! durations in whole nanoseconds, rounded down before they are multiplied.

use narrows_units::Duration;

/// A share of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u64, u64);

impl Share {
    /// Multiplies `whole` by the share.
    pub(crate) const fn of(self, whole: Duration) -> Duration {
        Duration::from_nanos(whole.as_nanos() / self.1 * self.0)
    }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

// ---- Stalls ----------------------------------------------------------------------------------------------

/// Shortest silence that is a stall, beside two round trips: the least RTO of Linux, so that a stall is what a timer
/// could have ended (TAPO, section 3). Less: more short stalls, mostly `packet_delay`.
pub const LEAST_STALL: Duration = ms(200);

/// Round trips that a silence lasts at least to be a stall. Fewer: each delayed acknowledgment is one.
pub(crate) const STALL_TRIPS: u64 = 2;

/// Packets that the estimated window holds before at least four count as under way unseen. Half of them may be lost or
/// acknowledged by then. Fewer: `continuous_loss` is told instead of a small window.
pub(crate) const MANY: u32 = 8;

/// Segments under way that can tell of a loss: the lost one and three behind it (RFC 5681, section 3.2).
pub(crate) const TELLING: u32 = 4;

/// Time within which a sender that has more to say says it after an acknowledgment: 45 ms of [`ANSWER`] and a tick.
/// More: `tail_loss` is told less often.
pub(crate) const SAYS_MORE: Duration = ms(50);

/// Time within which new data follows an open window, beside two halves of the round trip: as [`SAYS_MORE`]. More:
/// `zero_window` where an application was slow.
pub(crate) const OPEN_ANSWER: Duration = ms(50);

// ---- Timers ----------------------------------------------------------------------------------------------

/// Least RTO in use (Linux: `TCP_RTO_MIN`).
pub const LEAST_RTO: Duration = ms(200);

/// RTO before there is a sample (RFC 6298, (2.1)).
pub const FIRST_RTO: Duration = Duration::from_secs(1);

/// Longest wait of any stack (RFC 6298, (2.5): at least 60 s; Linux: 120 s).
pub(crate) const MOST_RTO: Duration = Duration::from_secs(120);

/// Doublings of any stack (Linux: `tcp_retries2`).
pub(crate) const MOST_EXPIRIES: u32 = 15;

/// Shortest silence that can be a timer's: [`LEAST_RTO`] less what a queue before the capture takes off. More: timeouts
/// of nearby senders are taken for recovery. Less: pacing is taken for a timer.
pub const LEAST_WAIT: Duration = ms(170);

/// Shortest silence that can be the timer of Linux seen at the sender, where no queue lies between: [`LEAST_RTO`] less
/// half a tick. Less: pauses of a sender that paces are timeouts.
pub(crate) const LINUX_LEAST: Duration = ms(195);

/// Share of a round trip that a timer runs at least: it cannot be shorter than one, and ours is off by a tenth.
pub(crate) const TRIP: Share = Share(9, 10);

/// Share of the RTO by which other senders' timers, whose estimate differs from ours, may be early where losses hide
/// what the sender does. More: recall of timeouts behind the link falls. Less: their precision.
pub(crate) const EARLY: Share = Share(3, 4);

/// Share of the lesser RTO, by both deviations, at the sender, where the timer is known better than between.
pub(crate) const EARLY_AT_SENDER: Share = Share(4, 5);

/// Share of the RTO in recovery, where a lost repair is told by the timer alone: duplicates go on, so only a wait that
/// is nearly as long as the timer counts. Less: repairs in recovery are timeouts.
pub(crate) const NEARLY: Share = Share(19, 20);

/// Share of the RTO below which a timer that selective acknowledgments restart (Linux) has not expired.
pub(crate) const REARMED: Share = Share(6, 10);

/// Part of the timer by which the estimate at the sender is off: 7 %, of a wait that is exactly the timer's.
pub(crate) const OFF_AT_SENDER: u64 = 14;

/// Ratio between a packet's time and an expiry within which it was let go by that, by the sender's clock: 3 %, what the
/// estimate of the timer is off by. More: what pacing lets go is taken for a timer.
pub(crate) const CLOSE: f64 = 1.030_45;

/// Part of the smoothed round trip by which one sample more or less moves it (RFC 6298, (2.3)).
pub(crate) const SAMPLE: u64 = 8;

// ---- Reactions -------------------------------------------------------------------------------------------

/// Half of the round trip below which the capture is taken at the sender. More: captures in the same building count,
/// and what they see counts as all that the sender sees.
pub(crate) const AT_SENDER: Duration = ms(10);

/// Coarsest tick of the clocks that are read: HZ 100.
pub(crate) const TICK: Duration = ms(10);

/// Time within which a host at the capture answers: one softirq and a wake-up. More: pacing is an answer.
pub(crate) const ANSWER_AT_SENDER: Duration = ms(2);

/// Time within which a busy host answers. What leaves later than that after an ACK, and after other data, is paced.
pub(crate) const BUSY: Duration = ms(30);

/// Part of the new data that leaves by itself from which on a sender paces: one in four.
pub(crate) const PACES: u64 = 4;

/// Time within which what leaves after what its timestamp echoes was let go by it: a tick of three clocks, and a host
/// that is busy. Less: recall of fast retransmits falls. More: probes and timeouts of near senders are answers.
pub(crate) const ANSWER_BY_ECHO: Duration = ms(35);

/// Error of an answer's time where the sender's clock tells when it sent: its tick, the ACK's, and the host's.
pub(crate) const ANSWER: Duration = ms(45);

/// Least and most that a sender may be late beyond its half of the round trip, where its clock is not known.
pub(crate) const LATE_LEAST: Duration = ms(30);
pub(crate) const LATE_MOST: Duration = ms(120);

/// Share of the least reaction that was timed below which what leaves cannot be a reaction: some are quicker than all
/// that were timed. Also of round trips to the receiver.
pub(crate) const SOONEST: Share = Share(3, 4);

/// Part of the least reaction by which the timer may have been restarted later than reckoned.
pub(crate) const RESTART_OFF: u64 = 3;

/// Least time after which what was due by an ACK is nearer to the timer. Less: fast retransmits become timeouts where
/// the RTO is short.
pub(crate) const NEARER_TIMER: Duration = ms(60);

/// Part of the least round trip that RACK waits (RFC 8985, section 6.2, step 4).
pub(crate) const RACK: u64 = 4;

/// Age of a hole below which what fills it was overtaken, if no round trip is known; else [`SOONEST`] of the least.
pub(crate) const OVERTAKEN: Duration = ms(20);

/// Error of a segment's being overtaken once acknowledgments have told of a loss. More: quick repairs count as
/// reordering.
pub(crate) const OVERTAKEN_TOLD: Duration = ms(3);

/// Share of the least trip to the receiver below which an acknowledgment answers the original (RFC 3522).
pub(crate) const TOO_SOON: Share = Share(9, 10);

// ---- Tail-loss probes (RFC 8985, section 7.2) ------------------------------------------------------------

/// Time added to a probe's wait where a single segment is under way (Linux: `TCP_RTO_MIN`).
pub const DELAYED_ACK: Duration = ms(200);

/// Round trip that a probe assumes before there is a sample: [`FIRST_RTO`].
pub(crate) const FIRST_TRIP: Duration = FIRST_RTO;

/// Share of a probe's wait by which new data may be early to be one, without the sender's clock.
pub(crate) const PROBE_EARLY: Share = Share(4, 5);

/// Share of a probe's wait up to which a first segment sent again is a probe and not the timer's. More: timeouts of a
/// single segment become probes.
pub(crate) const PROBE_LATE: Share = Share(5, 4);

// ---- Answers that come alone (see `lone`) ----------------------------------------------------------------

/// Least time from an ACK until what it lets go, if nothing is known of the sender's half.
pub(crate) const LONE_LEAST: Duration = ms(20);

// ---- Halves of the round trip ----------------------------------------------------------------------------

/// Time beyond twice (or thrice) the least after which an answer waited for something else, and is no sample.
pub(crate) const NO_SAMPLE: Duration = ms(50);

/// Round trips above this are rare: an ACK alone for so long lets go what follows.
pub(crate) const LONG_TRIP: Duration = Duration::from_secs(1);

// ---- The sender's clock ----------------------------------------------------------------------------------

/// Ticks in a second: those of Linux and most others, of old kernels with HZ 250 and 100. Coarser ones say too little.
pub(crate) const RATES: [f64; 3] = [1000.0, 250.0, 100.0];

/// Time after which the rate is told: by a tenth, even if the queue makes half a second of difference. Less: wrong
/// rates behind long queues. More: short connections stay without a clock.
pub(crate) const RATE_SPAN: Duration = Duration::from_secs(5);

/// Packets before the rate is told.
pub(crate) const RATE_PACKETS: u32 = 8;

/// Difference between ticks and time, as a share, within which a rate fits.
pub(crate) const RATE_FITS: f64 = 0.1;

/// Difference of two clocks in a second, seconds: 100 parts in a million, of cheap quartz.
pub(crate) const DRIFT: f64 = 1e-4;

// ---- What other connections show -------------------------------------------------------------------------

/// Losses before the capture, in number and as a part of the segments, that are more than chance.
pub(crate) const LOSSES: u64 = 5;
pub(crate) const LOSSES_IN: u64 = 100;

/// Waits of timers from which on their floor is told: the lowest third has it.
pub(crate) const WAITS: u32 = 20;
pub(crate) const WAITS_LOWEST: u32 = 3;

/// First segments repaired before any last one, in number and as a ratio, that tell that such senders do not probe. A
/// probe may be lost before the capture, so a few say nothing.
pub(crate) const FIRSTS: u64 = 4;
pub(crate) const FIRSTS_TO_LASTS: u64 = 8;

/// Repairs soon after an ACK for each that left when the timer was due, from which on the latter are chance. Without
/// the sender's clock many leave the queue later, so fewer are chance.
pub(crate) const LATE_BY_CLOCK: u64 = 4;
pub(crate) const LATE_WITHOUT: u64 = 8;

/// Clocks of one rate, in number and of twenty, that tell that all have it.
pub(crate) const CLOCKS: u64 = 3;
pub(crate) const CLOCKS_OF_20: u64 = 19;

// ---- Bounds of memory

/// ACKs of which the times are remembered. Fewer: where ACKs are dense one of them fits by chance.
pub(crate) const ACKS: usize = 16;
/// Acknowledgments kept until the sender's clock is known.
pub(crate) const MOST_ECHOES: usize = 64;
/// Timestamps of the other end that are remembered.
pub(crate) const STAMPS: usize = 16;
/// Restarts of the timer that are remembered.
pub(crate) const RESTARTS: usize = 8;
/// Most events kept of a sender; all are counted.
pub(crate) const MOST_EVENTS: usize = 4096;
/// Stalls kept of a sender; the time spent in all is.
pub(crate) const MOST_STALLS: usize = 1024;
/// Frames of repairs kept with a stall.
pub(crate) const STALL_FRAMES: usize = 6;
/// Segments kept of a sender. A window of 64 MB in packets of 1500 bytes has 45 000.
pub(crate) const MOST_SEGMENTS: usize = 1 << 16;
/// Packets of the estimated window that matter (RFC 5681); larger ones are alike.
pub(crate) const MOST_WINDOW: f32 = 64.0;

// ---- What else passes (see `passing`) --------------------------------------------------------------------

/// Packets of a direction that are remembered: at 50 packets a second those of the last minute and a half.
pub(crate) const ARRIVALS: usize = 4096;
/// Age from which a packet's wait says nothing of the queue any more.
pub(crate) const QUEUE_OLD: Duration = Duration::from_secs(1);
/// Steps of identifications before hosts are taken to count their packets.
pub(crate) const NUMBERED_LEAST: u64 = 4;
/// Part of the steps that may be far: one in twenty, of connections whose numbers begin anew.
pub(crate) const NUMBERED_IN: u64 = 20;
/// Step of an identification that losses alone make. More: random ones are taken for numbers.
pub(crate) const NUMBER_STEP: u16 = 128;
/// Lateness of acknowledgments from which on a queue stands behind: more than a delayed one of Linux (40 ms).
pub(crate) const QUEUE_BEHIND: Duration = ms(80);
/// Silence without an end from which on nothing is taken to come any more.
pub(crate) const NO_MORE: Duration = Duration::from_secs(5);
/// Packets whose wait before here was told from which on it is known that none waits.
pub(crate) const TIMED: u64 = 100;
/// Share of a timer's wait within which a segment may be sent because of the timer.
pub(crate) const DUE: Share = Share(1, 8);
/// Part of the packets that wait or get lost before a capture from which on a queue stands before it: one in thirty.
pub(crate) const BEHIND: u64 = 30;
/// Packets for each acknowledgment of unseen data from which on the capture is taken to have all: what went another way
/// is rare. Less: packets that the capture missed count as lost.
pub(crate) const WHOLE: u64 = 500;
/// Most packets of another connection while this one waits, from which on no fair queue makes it wait: three, because a
/// queue may take users in turn, and each may have several connections.
pub(crate) const TURNS: u32 = 3;
/// Connections whose packets tell of turns: fewer may have one each by chance.
pub(crate) const MANY_OTHERS: u32 = 4;
/// Share of a silence for which nothing at all passes, above which the whole link was silent.
pub(crate) const ALL_SILENT: Share = Share(1, 2);
