//! Evidence about one retransmission, and about one silence: named numbers with their units, and nothing else. They are
//! all that [`crate::judge`] looks at, and `narrows diagnose --why` prints them.
//!
//! The analyzer fills them from every segment that is under way, the live sight of the box from a few numbers a
//! connection. What one of them cannot know is `None`, and never a guess.

use core::fmt;

use serde::Serialize;

use narrows_units::{Duration, Instant};

use crate::findings::Repair;
use crate::passing::Others;
use crate::qlog::SenderWord;

/// State of a sender (RFC 6582 and 6675).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SenderState {
    /// The sender knows of no loss.
    #[default]
    Open,
    /// After a fast retransmit, until all that was under way then is acknowledged.
    Recovery,
    /// After a timeout, until then.
    Loss,
}

/// Time from an event until the retransmission was sent, nanoseconds. Negative: the event passed the capture after
/// that, because the packet waited in a queue before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age(i64);

impl Age {
    /// Age of `then` at `now`.
    #[must_use]
    pub const fn between(then: Instant, now: Instant) -> Self {
        Self(now.as_nanos().cast_signed().wrapping_sub(then.as_nanos().cast_signed()))
    }

    /// An age longer by `more`.
    #[must_use]
    pub const fn plus(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more.as_nanos().cast_signed()))
    }

    /// Says whether the age is at least `age`.
    #[must_use]
    pub const fn at_least(self, age: Duration) -> bool {
        self.0 >= age.as_nanos().cast_signed()
    }

    /// Says whether the age is at most `age`.
    #[must_use]
    pub const fn at_most(self, age: Duration) -> bool {
        self.0 <= age.as_nanos().cast_signed()
    }
}

/// Evidence about the segment that was sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentEvidence {
    /// Whether the segment is the first that is not acknowledged: a timer sends that one.
    pub first: bool,
    /// Whether the segment is the last that was sent: a probe sends that one.
    pub last: bool,
    /// Whether the segment fills a hole: the original never passed here.
    pub hole: bool,
    /// Times that the segment was seen before.
    pub copies: Option<u8>,
    /// Whether a segment that was sent after the latest copy of the segment has arrived (RFC 8985, section 6.2).
    pub overtaken: bool,
    /// Whether a repair of the segment since the timeout was overtaken, so it was lost as well. After a timeout only.
    pub repair_lost: bool,
    /// Whether the segment was never seen, and later ones have been repaired since the timeout: so was this one, and
    /// was lost. After a timeout only.
    pub passed_over: bool,
}

/// Evidence about the sender's timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerEvidence {
    /// Time from the timer's restart until the segment was sent.
    pub waited: Duration,
    /// RTO without back-off, computed from the round trips (RFC 6298).
    pub rto: Duration,
    /// The least RTO by Linux's deviation and by RFC 6298's; `None` where the capture is not at the sender.
    pub rto_least: Option<Duration>,
    /// Wait of a probe of a single segment (RFC 8985, section 7.2), no longer than the RTO.
    pub pto: Option<Duration>,
    /// Back-off: the factor on the RTO.
    pub factor: u32,
    /// Time since the latest timeout.
    pub since_timeout: Option<Duration>,
    /// Time since the sender sent any data.
    pub quiet: Option<Duration>,
    /// Smoothed round trip.
    pub srtt: Option<Duration>,
    /// Least round trip.
    pub least_trip: Option<Duration>,
    /// Whether a probe of the tail has been sent and is not answered.
    pub probed: bool,
    /// Whether a probe of the tail was due about when the segment was sent.
    pub probe_due: bool,
}

/// The first and the latest ACK that told of any segment behind a gap: their times, or their ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints<T> {
    /// The first ACK that told of a segment behind a gap.
    pub first: T,
    /// The latest ACK that told of a segment behind a gap.
    pub latest: T,
}

impl<T> Hints<T> {
    /// Converts both.
    pub fn map<U>(self, convert: impl Fn(T) -> U) -> Hints<U> {
        Hints { first: convert(self.first), latest: convert(self.latest) }
    }
}

/// Evidence about acknowledgments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckEvidence {
    /// Duplicate ACKs in a row.
    pub duplicates: u32,
    /// Segments that the receiver has selectively acknowledged.
    pub sacked: u32,
    /// Time since enough ACKs passed to tell of a loss; `None` if they have not, or passed after the segment was sent.
    pub told: Option<Duration>,
    /// Ages of the ACKs that told of any segment behind a gap.
    pub hints: Option<Hints<Age>>,
    /// Time since the latest ACK of any kind passed here.
    pub latest: Option<Duration>,
    /// Time since the latest ACK passed that the sender can have reacted to.
    pub reacted: Option<Duration>,
    /// Time since an ACK reached the sender, reckoned from the ACK's passing here.
    pub reached: Option<Duration>,
    /// Time since the sender heard the timestamp that the segment echoes (RFC 7323, section 4.3).
    pub echoed: Option<Duration>,
    /// Time from an ACK's passing here until the data released by the ACK passes here.
    pub react: Duration,
    /// Least value of `react`; `None` where only the mean is kept.
    pub react_least: Option<Duration>,
}

/// Evidence about the behaviour of the sender, and about the place of capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderEvidence {
    /// Least round trip between capture and sender, where the capture is so near that all of its segments are seen.
    pub near: Option<Duration>,
    /// Whether selective acknowledgments are in use (RFC 2018).
    pub selective: bool,
    /// Whether timestamps are in use (RFC 7323).
    pub stamps: bool,
    /// Whether the sender spreads the data that an ACK releases.
    pub paces: bool,
    /// Whether senders of the same kind do not probe tails, as other connections show.
    pub plain: bool,
    /// Whether packets get lost between senders of the same kind and the capture, as other connections show; `None`:
    /// none was asked.
    pub losses: Option<bool>,
    /// Whether any ACK restarts the sender's timer, as other connections show, and losses hide when.
    pub rearms: bool,
}

/// Event that started a sender's timer anew in a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// No event: the timer goes on without a restart.
    Nothing,
    /// Acknowledgments have told of a loss.
    Fast,
    /// A tail-loss probe.
    Probe,
}

/// Events that fit a silence best by the sender's own clock, where its timestamps tell that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockEvidence {
    /// Time from the timer's restart until the timer, or a probe, was due.
    pub due: Duration,
    /// Event that came first; [`First::Nothing`] outside of [`SenderState::Open`], where it does not matter.
    pub first: First,
    /// Number of expiries of the timer after that event.
    pub expiries: u32,
}

/// Evidence about one retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairEvidence {
    /// State of the sender.
    pub state: SenderState,
    /// Segment that was sent again.
    pub segment: SegmentEvidence,
    /// Timers of the sender.
    pub timer: TimerEvidence,
    /// Acknowledgments that the sender had.
    pub acks: AckEvidence,
    /// Behaviour of the sender.
    pub sender: SenderEvidence,
    /// Events by the sender's clock.
    pub clock: Option<ClockEvidence>,
}

/// Evidence about one silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SilenceEvidence {
    /// Whether only the FIN is not acknowledged.
    pub only_fin: bool,
    /// Whether the receiver's window was closed.
    pub closed: bool,
    /// Reason of the retransmissions, by the highest rank; `None` also if nothing tells it.
    pub repair: Option<Repair>,
    /// Expiries of the timer.
    pub timeouts: u32,
    /// Whether the receiver already had the data that was sent again.
    pub spurious: bool,
    /// Whether the repaired data had been repaired before.
    pub double: bool,
    /// Whether a repair was not seen, but reckoned.
    pub inferred: bool,
    /// Whether a segment that was sent again had not been seen here.
    pub hidden: bool,
    /// Whether an acknowledgment without data ended the silence: it would say that a copy was needless (RFC 2883).
    pub bare_ack: bool,
    /// The ACK's timestamp echoes one of the repairs, and not what was sent before (RFC 3522); `None` without
    /// timestamps.
    pub echoes_repair: Option<bool>,
    /// Whether a probe of new data jumped over what was never seen.
    pub jumped: bool,
    /// A drop is known that nothing has repaired yet; `None` where drops are not seen.
    pub dropped: Option<bool>,
    /// ACKs that told of a loss until the last progress.
    pub told: u32,
    /// Whether the application had said all: FIN, or PSH where that means it.
    pub said_all: bool,
    /// Segments under way that were seen.
    pub outstanding: u32,
    /// Segments under way by the estimated window, with those that were not seen; `None` if all are.
    pub flight: Option<u32>,
    /// Window that the receiver offered, bytes.
    pub window: Option<u32>,
    /// Longest payload, bytes.
    pub mss: u32,
    /// The last byte under way was acknowledged, and the sender sent no more at once; `None` as long as that is open.
    pub ended: Option<bool>,
    /// Whether the silence is judged while it lasts: no later packets will be looked at.
    pub live: bool,
    /// Whether data from the sender ended the silence, which means a wait before here; false: an acknowledgment did.
    /// `None` if the silence has not ended.
    pub by_data: Option<bool>,
    /// Length of the silence.
    pub length: Duration,
    /// Wait before here of the packet that ended the silence, by its sender's clock, or of other packets just before.
    pub queue: Option<Duration>,
    /// Packets of other connections meanwhile, in the direction of what ended it.
    pub others: Option<Others>,
}

/// Window that the receiver offered in a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OfferedWindow {
    /// Open all the time.
    #[default]
    Open,
    /// Closed, and not seen to open.
    Closed,
    /// Closed, and opened just before the silence ended.
    JustOpened,
}

/// Evidence about a silence in which nothing was under way, as far as it was seen here: somebody waited for an answer,
/// or for the rest of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuietEvidence {
    /// Whether the end that was silent opened the connection: it asks when it likes.
    pub opener: bool,
    /// Whether the other end has sent data since: this is an answer, and else the rest of one.
    pub answer: bool,
    /// Whether the question has been acknowledged, and so has reached the other end.
    pub asked_came: bool,
    /// The receiver's window.
    pub window: OfferedWindow,
    /// Whether the capture is so near to the sender that every packet of the sender is seen.
    pub at_sender: bool,
    /// Length of the silence, without the sender's half of the round trip.
    pub length: Duration,
    /// Silence that is no stall yet.
    pub patience: Duration,
    /// Packets that the sender sent meanwhile and that never came here, by their identifications, beyond those that
    /// fill the hole before what ended the silence; `None` if it does not count them.
    pub missing: Option<u32>,
    /// Whether the packet that ended the silence follows a hole: bytes before it have not come.
    pub hole: bool,
    /// Time from the beginning until what ended the silence was sent, by its sender's clock.
    pub sent_after: Option<Duration>,
    /// Whether the time `sent_after` is when the sender's timer would have expired, once or several times, had the
    /// answer been lost (RFC 6298).
    pub due: bool,
    /// Whether no queue stands before here, as the clocks of senders tell, or acknowledgments that are late behind
    /// here.
    pub clear_before: bool,
    /// Whether the last segment sent was not the end of what the application had written: full, and without PSH.
    pub more: bool,
    /// Whether packets get lost between such senders and the capture, as other connections show.
    pub losses: bool,
    /// Packets of other connections meanwhile, in the same direction.
    pub others: Option<Others>,
}

/// Evidence about a time in which one end of a QUIC connection was silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramEvidence {
    /// Whether the client was silent; else the server.
    pub client: bool,
    /// Whether the handshake had not ended.
    pub opening: bool,
    /// Datagrams that the other end sent into the silence, each after a pause; 0: it waited without.
    pub unanswered: u32,
    /// Time from the last of them until the answer; `None` if it has not come.
    pub since_last: Option<Duration>,
    /// Least round trip between the capture and servers.
    pub least_trip: Option<Duration>,
    /// Whether the other end had asked for something since.
    pub asked: bool,
    /// Whether the client asks now: what ends the silence is more than an acknowledgment.
    pub asks: bool,
    /// Whether the server's last datagram was as full as any: there was more to come.
    pub more: bool,
    /// Whether the capture is so near to the server that every packet of the server is seen.
    pub at_server: bool,
    /// Length of the silence.
    pub length: Duration,
    /// Packets of other connections meanwhile, in the direction of what ended it.
    pub others: Option<Others>,
    /// Word of one end's own log about the silence.
    pub sender: Option<SenderWord>,
}

/// Evidence about a handshake that took long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeEvidence {
    /// SYNs that were seen.
    pub syns: u32,
    /// SYN-ACKs that were seen.
    pub syn_acks: u32,
    /// Whether the handshake ended, and not the capture or the connection before it.
    pub ended: bool,
    /// The SYN whose timestamp the SYN-ACK echoes: 1 for the first (RFC 7323, section 3.2). `None` without timestamps.
    pub echoes: Option<u32>,
    /// Length of the silence.
    pub length: Duration,
    /// Wait before here of packets towards the opener, when the first SYN-ACK passed.
    pub queue: Option<Duration>,
}

impl RepairEvidence {
    /// Length of the sender's timer, back-off included.
    #[must_use]
    pub fn timer(&self) -> Duration {
        self.timer.rto * u64::from(self.timer.factor)
    }
}

/// Place where a number was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Packets that passed the capture.
    Capture,
    /// The sender, as reckoned from its half of the round trip or read from its timestamps.
    Sender,
    /// Other connections of the capture.
    Others,
}

impl Origin {
    /// Names the place in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Capture => "at the capture",
            Self::Sender => "at the sender",
            Self::Others => "in other connections",
        }
    }
}

/// One number of the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Name, as in [`RepairEvidence`] and [`SilenceEvidence`].
    pub name: &'static str,
    /// Value of the number, with the unit.
    pub value: String,
    /// Place where the number was seen.
    pub origin: Origin,
}

/// Collects items.
#[derive(Debug, Default)]
struct Items(Vec<Item>);

impl Items {
    fn text(&mut self, origin: Origin, name: &'static str, value: String) {
        self.0.push(Item { name, value, origin });
    }

    fn is(&mut self, origin: Origin, name: &'static str, value: bool) {
        self.maybe(origin, name, Some(value));
    }

    fn maybe(&mut self, origin: Origin, name: &'static str, value: Option<bool>) {
        self.text(origin, name, value.map_or_else(unknown, |v| if v { "yes" } else { "no" }.to_owned()));
    }

    fn time(&mut self, origin: Origin, name: &'static str, value: Option<Duration>) {
        self.text(origin, name, value.map_or_else(unknown, |d| format!("{:.1} ms", d.as_secs_f64() * 1e3)));
    }

    fn count(&mut self, origin: Origin, name: &'static str, value: Option<u32>, unit: &str) {
        self.text(origin, name, value.map_or_else(unknown, |n| format!("{n} {unit}")));
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ms", self.0 as f64 / 1e6)
    }
}

impl RepairEvidence {
    /// All numbers, in the order in which the table asks for the numbers.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        use Origin::{Capture, Others, Sender};
        let Self { state, segment, timer, acks, sender, clock } = self;
        let mut list = Items::default();
        list.text(Sender, "state", format!("{state:?}").to_lowercase());
        list.is(Capture, "first", segment.first);
        list.is(Capture, "last", segment.last);
        list.is(Capture, "hole", segment.hole);
        list.count(Capture, "copies", segment.copies.map(u32::from), "copies");
        list.is(Sender, "overtaken", segment.overtaken);
        list.is(Sender, "repair_lost", segment.repair_lost);
        list.is(Sender, "passed_over", segment.passed_over);
        list.time(Sender, "waited", Some(timer.waited));
        list.time(Sender, "rto", Some(timer.rto));
        list.time(Sender, "rto_least", timer.rto_least);
        list.time(Sender, "pto", timer.pto);
        list.count(Sender, "factor", Some(timer.factor), "times the RTO");
        list.time(Sender, "since_timeout", timer.since_timeout);
        list.time(Sender, "quiet", timer.quiet);
        list.time(Sender, "srtt", timer.srtt);
        list.time(Sender, "least_trip", timer.least_trip);
        list.is(Capture, "probed", timer.probed);
        list.is(Sender, "probe_due", timer.probe_due);
        list.count(Capture, "duplicates", Some(acks.duplicates), "ACKs");
        list.count(Capture, "sacked", Some(acks.sacked), "segments");
        list.time(Capture, "told", acks.told);
        let hints = acks.hints.map_or_else(unknown, |hints| format!("{}, {}", hints.first, hints.latest));
        list.text(Capture, "hints", hints);
        list.time(Capture, "latest", acks.latest);
        list.time(Capture, "reacted", acks.reacted);
        list.time(Sender, "reached", acks.reached);
        list.time(Sender, "echoed", acks.echoed);
        list.time(Sender, "react", Some(acks.react));
        list.time(Sender, "react_least", acks.react_least);
        list.time(Sender, "near", sender.near);
        list.is(Capture, "selective", sender.selective);
        list.is(Capture, "stamps", sender.stamps);
        list.is(Capture, "paces", sender.paces);
        list.is(Others, "plain", sender.plain);
        list.maybe(Others, "losses", sender.losses);
        list.is(Others, "rearms", sender.rearms);
        let fits = clock.map_or_else(unknown, |c| match (c.first, c.expiries) {
            (First::Nothing, n) => format!("{n} expiries"),
            (First::Fast, n) => format!("a fast retransmit and {n} expiries"),
            (First::Probe, n) => format!("a probe and {n} expiries"),
        });
        list.time(Sender, "due", clock.map(|c| c.due));
        list.text(Sender, "fits", fits);
        list.0
    }
}

impl Items {
    fn others(&mut self, others: Option<Others>) {
        let text = others.map_or_else(unknown, |o| {
            let most = o.most.map_or_else(String::new, |most| format!("{most} of one, "));
            let gap = o.gap.as_secs_f64() * 1e3;
            format!("{} packets of {} connections, {most}none for {gap:.1} ms", o.packets, o.connections)
        });
        self.text(Origin::Others, "others", text);
    }
}

impl QuietEvidence {
    /// All numbers, in the order in which the table asks for the numbers.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        use Origin::{Capture, Others, Sender};
        let mut list = Items::default();
        list.text(Capture, "window", format!("{:?}", self.window).to_lowercase());
        list.is(Capture, "opener", self.opener);
        list.is(Capture, "at_sender", self.at_sender);
        list.is(Capture, "answer", self.answer);
        list.is(Capture, "asked_came", self.asked_came);
        list.time(Capture, "length", Some(self.length));
        list.time(Capture, "patience", Some(self.patience));
        list.count(Sender, "missing", self.missing, "packets");
        list.is(Capture, "hole", self.hole);
        list.time(Sender, "sent_after", self.sent_after);
        list.is(Sender, "due", self.due);
        list.is(Others, "clear_before", self.clear_before);
        list.is(Capture, "more", self.more);
        list.is(Others, "losses", self.losses);
        list.others(self.others);
        list.0
    }
}

impl HandshakeEvidence {
    /// All numbers, in the order in which the table asks for the numbers.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        use Origin::{Capture, Others, Sender};
        let mut list = Items::default();
        list.count(Capture, "syns", Some(self.syns), "SYNs");
        list.count(Capture, "syn_acks", Some(self.syn_acks), "SYN-ACKs");
        list.is(Capture, "ended", self.ended);
        list.time(Capture, "length", Some(self.length));
        list.text(Sender, "echoes", self.echoes.map_or_else(unknown, |n| format!("SYN {n}")));
        list.time(Others, "queue", self.queue);
        list.0
    }
}

impl SilenceEvidence {
    /// All numbers, in the order in which the table asks for the numbers.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        use Origin::{Capture, Sender};
        let mut list = Items::default();
        list.is(Capture, "only_fin", self.only_fin);
        list.is(Capture, "closed", self.closed);
        let repair = self.repair.map_or("none".to_owned(), |r| format!("{r:?}"));
        list.text(Sender, "repair", repair);
        list.count(Sender, "timeouts", Some(self.timeouts), "expiries");
        list.is(Capture, "jumped", self.jumped);
        list.is(Capture, "spurious", self.spurious);
        list.is(Sender, "double", self.double);
        list.is(Sender, "inferred", self.inferred);
        list.is(Capture, "hidden", self.hidden);
        list.is(Capture, "bare_ack", self.bare_ack);
        list.maybe(Capture, "echoes_repair", self.echoes_repair);
        list.count(Capture, "told", Some(self.told), "ACKs");
        list.is(Capture, "said_all", self.said_all);
        list.maybe(Capture, "ended", self.ended);
        list.count(Capture, "outstanding", Some(self.outstanding), "segments");
        list.count(Sender, "flight", self.flight, "segments");
        list.count(Capture, "window", self.window, "bytes");
        list.count(Capture, "mss", Some(self.mss), "bytes");
        list.maybe(Capture, "by_data", self.by_data);
        list.time(Capture, "length", Some(self.length));
        list.time(Sender, "queue", self.queue);
        list.others(self.others);
        list.0
    }
}
