//! Score of `narrows diagnose` on the silences of a run at one point of the path, against the truth.

use std::net::SocketAddr;

use narrows_diagnose::{
    Analyzer, AnalyzerLimits, Cause, Certainty, FlowReport, Place, QuicAnalyzer, QuicCause, QuicReport,
    Repair, Stall,
};
use narrows_units::{Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Proto};

use super::ends::{End, Packet, is_server};
use super::truth::{Run, Silence, Truth, Why};

/// Meaning of a verdict, in the words of the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Why(Why),
    /// Receiver's window, which causes no silence in this lab.
    Window,
    Unknown,
}

const fn said(cause: Cause) -> Said {
    match cause {
        Cause::DataUnavailable => Said::Why(Why::Application),
        Cause::ClientIdle => Said::Why(Why::Idle),
        Cause::ZeroWindow => Said::Window,
        Cause::PacketDelay
        | Cause::AckDelayedOrLost
        | Cause::WaitsTurn
        | Cause::QueueBefore
        | Cause::QueueBehind => Said::Why(Why::Waiting),
        Cause::NoAnswer | Cause::Unknown => Said::Unknown,
        _ => Said::Why(Why::Loss),
    }
}

const fn quic_said(cause: QuicCause) -> Said {
    match cause {
        QuicCause::DataUnavailable => Said::Why(Why::Application),
        QuicCause::ClientIdle => Said::Why(Why::Idle),
        QuicCause::HandshakeLost | QuicCause::Starved => Said::Why(Why::Loss),
        QuicCause::WaitsTurn | QuicCause::Queue => Said::Why(Why::Waiting),
        QuicCause::NoAnswer | QuicCause::Unknown => Said::Unknown,
    }
}

/// A verdict beside the truth.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    said: Said,
    certainty: Certainty,
    truth: Truth,
    /// Truth about the bytes that are missing before what ended it: who waits, waits for them too.
    missing: Option<Truth>,
    length_ns: i64,
    /// Whether the place of loss that the verdict names is right; `None` if it names none.
    place_is_right: Option<bool>,
    /// An acknowledgment was late or lost: both are said in one word.
    either: bool,
}

impl Judged {
    pub fn is_right(&self) -> bool {
        match (self.said, self.truth.why()) {
            (Said::Why(Why::Waiting), Some(Why::Loss)) if self.either => true,
            // A repair that waits on its way is there because of a loss.
            (Said::Why(Why::Loss), Some(Why::Waiting)) if self.truth.is_repair => true,
            (Said::Why(said), Some(_)) => {
                self.truth.has(said) || self.missing.is_some_and(|truth| truth.has(said))
            }
            _ => false,
        }
    }
}

/// Sums over verdicts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    pub silences: u64,
    pub time_ns: i64,
    pub right: u64,
    pub certain: u64,
    pub certain_right: u64,
    /// Time for which the application is blamed and had no part, or not the most.
    pub blamed_ns: i64,
    pub unknown_ns: i64,
    pub placed: u64,
    pub placed_right: u64,
    /// Time by truth and by verdict: application, idle, loss, waiting; and a fifth column for anything else.
    pub matrix_ns: [[i64; 5]; 4],
}

impl Score {
    pub fn add(&mut self, j: &Judged) {
        // Nobody waited where the user asked for nothing.
        let Some(why) = j.truth.why() else { return };
        let column = match j.said {
            Said::Why(said) => said as usize,
            Said::Window | Said::Unknown => 4,
        };
        self.matrix_ns[why as usize][column] += j.length_ns;
        if why == Why::Idle && j.said == Said::Why(Why::Idle) {
            return;
        }
        self.silences += 1;
        self.time_ns += j.length_ns;
        self.right += u64::from(j.is_right());
        let certain = j.certainty == Certainty::Certain;
        self.certain += u64::from(certain);
        self.certain_right += u64::from(certain && j.is_right());
        if j.said == Said::Why(Why::Application) && !j.is_right() {
            self.blamed_ns += j.length_ns;
        }
        if j.said == Said::Unknown {
            self.unknown_ns += j.length_ns;
        }
        self.placed += u64::from(j.place_is_right.is_some());
        self.placed_right += u64::from(j.place_is_right == Some(true));
    }

    pub fn merge(&mut self, other: &Self) {
        self.silences += other.silences;
        self.time_ns += other.time_ns;
        self.right += other.right;
        self.certain += other.certain;
        self.certain_right += other.certain_right;
        self.blamed_ns += other.blamed_ns;
        self.unknown_ns += other.unknown_ns;
        self.placed += other.placed;
        self.placed_right += other.placed_right;
        for (row, others) in self.matrix_ns.iter_mut().zip(other.matrix_ns) {
            row.iter_mut().zip(others).for_each(|(a, b)| *a += b);
        }
    }
}

/// Judges all silences that the diagnosis of a capture at one point reports.
pub fn judge(run: &Run, point: &End, users_side: bool, mut each: impl FnMut(&Judged, &str)) {
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    let mut quic = QuicAnalyzer::default();
    for (at, frame, header) in point.frames() {
        analyzer.packet(at, frame, header);
        quic.packet(at, frame, header);
    }
    analyzer.finish();
    let at = Point { run, all: point, users_side };
    for flow in analyzer.finished() {
        at.flow(&flow, &mut each);
    }
    for flow in quic.finish() {
        at.quic_flow(&flow, &mut each);
    }
}

struct Point<'a> {
    run: &'a Run,
    all: &'a End,
    /// The bottleneck lies between the server and here.
    users_side: bool,
}

impl Point<'_> {
    fn ns(&self, at: Instant) -> i64 {
        self.all.origin_ns() + at.as_nanos().cast_signed()
    }

    fn frame(&self, frame: u64) -> Option<&Packet> {
        self.all.all.get(usize::try_from(frame.checked_sub(1)?).ok()?)
    }

    /// Whether a verdict on where packets were lost is right. All that is lost on the way to the users is lost in
    /// their queue, and on the way to the server likewise.
    fn place(&self, place: Place, of_server: bool, truth: &Truth) -> Option<bool> {
        let [to_users, to_server] = [truth.lost.users, truth.lost.server];
        // Seen from the sender's side of the bottleneck a loss is behind.
        let own = if of_server { to_users } else { to_server };
        let behind = self.users_side != of_server;
        match place {
            Place::Unknown => None,
            _ if truth.why() != Some(Why::Loss) => None,
            Place::Before => Some(own && !behind || !own && (to_users || to_server)),
            Place::Behind => Some(own && behind),
            Place::Both => Some(own),
        }
    }

    fn flow(&self, flow: &FlowReport, each: &mut impl FnMut(&Judged, &str)) {
        let opener = FlowKey::new(
            flow.opener.address,
            flow.other.address,
            flow.opener.port,
            flow.other.port,
            Proto::TCP,
        );
        let server_opened = is_server(flow.opener.port);
        for s in flow.stalls.iter().filter(|s| s.ended) {
            let frames: Vec<u64> = s.frames.iter().collect();
            let (Some(first), Some(last)) = (frames.first(), frames.last()) else { continue };
            let (Some(begin), Some(end)) = (self.frame(*first), self.frame(*last)) else { continue };
            let of_server = (s.by == 1) != server_opened;
            let handshake = begin.header.tcp.is_some_and(|t| t.flags.has(Flags::SYN));
            let truth = if handshake || s.repair == Some(Repair::Handshake) {
                let opener = if server_opened { opener.reverse() } else { opener };
                self.run.of_handshake(&opener, self.ns(s.from), self.ns(s.to))
            } else {
                self.run.of_tcp(&Silence {
                    from_ns: self.ns(s.from),
                    last: *end,
                    of_server,
                    awaited: self.awaited(*last, end),
                })
            };
            let Some(truth) = truth else { continue };
            let place_is_right = if handshake {
                self.handshake_place(s.lost, &truth)
            } else {
                self.place(s.lost, of_server, &truth)
            };
            let judged = Judged {
                said: said(s.cause),
                certainty: s.certainty,
                truth,
                missing: self.missing(s, of_server, *last, end),
                length_ns: s.length().as_nanos().cast_signed(),
                place_is_right,
                either: s.cause == Cause::AckDelayedOrLost,
            };
            each(
                &judged,
                &format!(
                    "{} {s:?} truth {:?} {:?}",
                    flow.key(),
                    truth.why(),
                    truth.parts_ns.map(|n| n / 1_000_000)
                ),
            );
        }
    }

    /// Truth about the hole before the data that ended a silence, if there is one.
    fn missing(&self, s: &Stall, of_server: bool, frame: u64, last: &Packet) -> Option<Truth> {
        let tcp = last.header.tcp.filter(|_| last.is_from_server() == of_server)?;
        let una = self.acknowledged(frame, &last.header.key.reverse())?;
        let hole = Silence { from_ns: self.ns(s.from), last: *last, of_server, awaited: Some(una) };
        (una.before(tcp.seq)).then(|| self.run.of_hole(&hole)).flatten()
    }

    /// Whether a told place of a lost handshake is the place where the SYN or the SYN-ACK was lost.
    fn handshake_place(&self, place: Place, truth: &Truth) -> Option<bool> {
        let (syn, answer) = (truth.lost.server, truth.lost.users);
        // Seen from the users' side the bottleneck is between here and the server for both.
        match place {
            Place::Unknown => None,
            _ if truth.why() != Some(Why::Loss) => None,
            // The SYN was seen, and got lost behind; the SYN-ACK was not, before.
            Place::Behind => Some(if self.users_side { syn && !answer } else { answer && !syn }),
            Place::Before => Some(if self.users_side { answer && !syn } else { syn && !answer }),
            Place::Both => Some(syn && answer),
        }
    }

    /// Lowest byte that was under way before the acknowledgment passed.
    fn awaited(&self, frame: u64, last: &Packet) -> Option<SeqNum> {
        let tcp = last.header.tcp?;
        let una = self.acknowledged(frame, &last.header.key)?;
        if una.before(tcp.ack) {
            return Some(una);
        }
        tcp.sack.as_slice().first().map(|(left, _)| *left)
    }

    /// Sequence number that this direction had acknowledged before a frame passed.
    fn acknowledged(&self, frame: u64, key: &FlowKey) -> Option<SeqNum> {
        let before = usize::try_from(frame - 1).ok()?;
        let passed = self.all.all[..before].iter().rev().filter(|p| p.header.key == *key);
        passed.filter_map(|p| p.header.tcp).find(|t| t.flags.has(Flags::ACK)).map(|t| t.ack)
    }

    fn quic_flow(&self, flow: &QuicReport, each: &mut impl FnMut(&Judged, &str)) {
        let client = SocketAddr::from((flow.client.address, flow.client.port));
        for s in flow.stalls.iter().filter(|s| s.ended) {
            let Some(end) = self.frame(s.frames[1]) else { continue };
            let Some(truth) = self.run.of_datagrams(self.ns(s.from), end) else { continue };
            let judged = Judged {
                said: quic_said(s.cause),
                certainty: s.certainty,
                truth,
                missing: None,
                length_ns: s.length().as_nanos().cast_signed(),
                place_is_right: None,
                either: false,
            };
            each(
                &judged,
                &format!(
                    "quic {client} {s:?} truth {:?} {:?}",
                    truth.why(),
                    truth.parts_ns.map(|n| n / 1_000_000)
                ),
            );
        }
    }
}
