//! The judgement: one table from evidence about a retransmission to what made it, and one from evidence about a silence
//! to its cause. The first row that fits decides. Each row names its source.
//!
//! What an ACK lets go follows it by the sender's half of the round trip, and then the timer has just been restarted or
//! enough ACKs have told of a loss. What the timer lets go comes after a silence of at least a round trip. The rows
//! stand from the best evidence to the least: where all that the sender does is seen, what its timestamps echo, what
//! its clock tells, and the times between other packets.
//!
//! Nothing here has a state or knows a packet. Durations that rows are held against are in [`crate::tolerances`].

use narrows_units::Duration;

use crate::evidence::{
    DatagramEvidence, First, HandshakeEvidence, Hints, OfferedWindow, QuietEvidence, RepairEvidence,
    SenderState, SilenceEvidence,
};
use crate::findings::{Cause, Certainty, Place, QuicCause, Repair};
use crate::passing::Others;
use crate::tolerances::{
    ALL_SILENT, ANSWER, ANSWER_AT_SENDER, ANSWER_BY_ECHO, EARLY, EARLY_AT_SENDER, LATE_LEAST, LATE_MOST,
    LEAST_WAIT, LINUX_LEAST, MANY, MANY_OTHERS, NEARER_TIMER, NEARLY, NO_MORE, OFF_AT_SENDER, PROBE_LATE,
    RACK, REARMED, SAMPLE, SOONEST, TELLING, TICK, TRIP, TURNS,
};

/// Duplicate ACKs, or segments selectively acknowledged, that tell of a loss (RFC 5681; RFC 6675, DupThresh).
pub const DUPTHRESH: u32 = 3;
/// Retransmissions of one segment after which a sender doubts its path (RFC 1122, section 4.2.3.5: R1).
pub const R1: u32 = 3;

/// A row of a table: the verdict is `then` if `when` holds of the evidence.
#[derive(Debug)]
pub struct JudgeRow<E: 'static, V: 'static> {
    /// Name of the row, unique in the row's table.
    pub name: &'static str,
    /// Paper, RFC or observation that the row rests on.
    pub source: &'static str,
    when: fn(&E) -> bool,
    /// Verdict.
    pub then: V,
}

/// A row about retransmissions.
pub type RepairRow = JudgeRow<RepairEvidence, (Repair, Certainty)>;
/// A row about silences in which data was under way.
pub type CauseRow = JudgeRow<SilenceEvidence, (Cause, Sure)>;
/// A row about silences in which nothing was under way.
pub type QuietRow = JudgeRow<QuietEvidence, (Cause, Certainty)>;
/// A row about silences of QUIC.
pub type DatagramRow = JudgeRow<DatagramEvidence, (QuicCause, Certainty)>;
/// A row about handshakes: the cause, the place of the loss, and the certainty of both.
pub type HandshakeRow = JudgeRow<HandshakeEvidence, (Cause, Place, Certainty)>;

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sure {
    /// Certainty whatever was seen of the repairs.
    Always(Certainty),
    /// Certainty if all repairs were seen; else the cause is possible.
    IfSeen(Certainty),
}

const fn row<E, V>(
    name: &'static str,
    source: &'static str,
    when: fn(&E) -> bool,
    then: V,
) -> JudgeRow<E, V> {
    JudgeRow { name, source, when, then }
}

/// Finds the reason for which the sender sent a segment again.
#[must_use]
pub fn judge_repair(e: &RepairEvidence) -> &'static RepairRow {
    first(&REPAIRS, e)
}

/// Rows at the head of [`REPAIRS`] that ask neither for the sender's clock nor for the times of several ACKs.
const EARLY_ROWS: usize = 17;

/// Finds the row among the rows behind the first [`EARLY_ROWS`].
pub(crate) fn judge_late(e: &RepairEvidence) -> &'static RepairRow {
    first(&REPAIRS[EARLY_ROWS..], e)
}

/// Finds the same if the first rows tell it, which need no [`RepairEvidence::clock`], nor `reacted` and `reached`.
pub(crate) fn judge_early(e: &RepairEvidence) -> Option<&'static RepairRow> {
    REPAIRS[..EARLY_ROWS].iter().find(|row| (row.when)(e))
}

/// Verdict on a silence.
#[derive(Clone, Copy, Debug)]
pub struct SilenceVerdict {
    /// Row that decided.
    pub row: &'static CauseRow,
    /// Cause of the silence.
    pub cause: Cause,
    /// Certainty of the cause.
    pub certainty: Certainty,
}

/// Finds why a flow stood still, and how sure that is.
#[must_use]
pub fn judge_silence(e: &SilenceEvidence) -> SilenceVerdict {
    let row = first(&CAUSES, e);
    let certainty = match row.then.1 {
        Sure::Always(sure) => sure,
        Sure::IfSeen(sure) if e.inferred => sure.min(Certainty::Possible),
        Sure::IfSeen(sure) => sure,
    };
    SilenceVerdict { row, cause: row.then.0, certainty }
}

/// Finds why nothing was under way.
#[must_use]
pub fn judge_quiet(e: &QuietEvidence) -> &'static QuietRow {
    first(&QUIETS, e)
}

/// Finds why one end of a QUIC connection was silent.
#[must_use]
pub fn judge_datagrams(e: &DatagramEvidence) -> &'static DatagramRow {
    first(&DATAGRAMS, e)
}

/// Finds why a handshake took long.
#[must_use]
pub fn judge_handshake(e: &HandshakeEvidence) -> &'static HandshakeRow {
    first(&HANDSHAKES, e)
}

/// The last row of a table always fits.
fn first<E, V>(rows: &'static [JudgeRow<E, V>], e: &E) -> &'static JudgeRow<E, V> {
    rows.iter().find(|row| (row.when)(e)).unwrap_or(&rows[rows.len() - 1])
}

use Certainty::{Certain, Likely, Possible};
use Repair::{AfterTimeout, FastRetransmit, Probe, Recovery, Timeout, Unknown};

const RACK_TLP: &str = "RFC 8985, section 6.2";
const PROBES: &str = "RFC 8985, section 7.3";
const TIMER: &str = "RFC 6298, (5.4)";
const NEW_RENO: &str = "RFC 6582, section 3.2";
const LIMITED: &str = "RFC 5681, section 3.1: what was sent before the timeout is repaired as ACKs come";
const FAST: &str = "RFC 5681, section 3.2; RFC 6675, section 5";
const ECHO: &str = "RFC 7323, section 4.3: its timestamp echoes what it has just heard";
const LINUX: &str = "Linux: tcp_rearm_rto and tcp_xmit_retransmit_queue";

/// Rows from evidence about a retransmission to the reason of the retransmission.
pub static REPAIRS: [RepairRow; 48] = [
    // The latest timeout was just before: its timer runs twice as long now.
    row("after timeout", LIMITED, |e| !near(e) && just_expired(e), (AfterTimeout, Certain)),
    // The sender has just heard an ACK, which has let this go.
    row("answer tells of a loss", ECHO, |e| open(e) && answers(e) && told(e), (FastRetransmit, Certain)),
    row("answer in recovery", ECHO, |e| recovery(e) && answers(e), (Recovery, Certain)),
    row(
        "answer tells of a lost repair",
        ECHO,
        |e| loss(e) && answers(e) && lost_again(e),
        (FastRetransmit, Certain),
    ),
    row("answer after a timeout", ECHO, |e| loss(e) && answers(e), (AfterTimeout, Certain)),
    // The capture sees all that the sender does and hears, and an ACK passed just before.
    row("ACK at the sender", FAST, |e| at_once(e) && open(e) && asked(e), (FastRetransmit, Certain)),
    row("ACK at the sender in recovery", NEW_RENO, |e| at_once(e) && recovery(e), (Recovery, Certain)),
    row(
        "ACK at the sender, repair lost",
        RACK_TLP,
        |e| at_once(e) && loss(e) && e.segment.repair_lost,
        (FastRetransmit, Certain),
    ),
    row("ACK at the sender after a timeout", LIMITED, |e| at_once(e) && loss(e), (AfterTimeout, Certain)),
    // No ACK passed just before: the sender paces, or its timer has expired.
    row(
        "paced at the sender",
        RACK_TLP,
        |e| {
            let by_ack = e.segment.overtaken && e.sender.paces || !expired_near(e) && !quiet_near(e);
            apart(e) && open(e) && e.sender.selective && by_ack && asked(e)
        },
        (FastRetransmit, Likely),
    ),
    row(
        "timer at the sender",
        TIMER,
        |e| {
            let timer = expired_near(e) && !e.segment.overtaken;
            let silent = (expired_near(e) || quiet_near(e)) && !e.sender.paces;
            apart(e) && !open(e) && e.segment.first && (timer || silent)
        },
        (Timeout, Certain),
    ),
    row(
        "paced at the sender in recovery",
        RACK_TLP,
        |e| apart(e) && recovery(e) && e.sender.selective,
        (Recovery, Likely),
    ),
    row(
        "paced at the sender, repair lost",
        RACK_TLP,
        |e| apart(e) && loss(e) && e.sender.selective && e.segment.repair_lost,
        (FastRetransmit, Likely),
    ),
    row(
        "paced at the sender after a timeout",
        RACK_TLP,
        |e| apart(e) && loss(e) && e.sender.selective,
        (AfterTimeout, Likely),
    ),
    row("after timeout at the sender", LIMITED, just_expired, (AfterTimeout, Certain)),
    // The sender had heard nothing that would let this go: a timer did.
    row(
        "probe unprompted",
        PROBES,
        |e| {
            let sure = !loses(e) || !e.segment.first;
            unprompted(e) && may_probe(e) && (sure || e.timer.probe_due)
        },
        (Probe, Certain),
    ),
    row(
        "timer unprompted",
        TIMER,
        |e| {
            let first = e.segment.first && !e.segment.last && !loses(e);
            unprompted(e) && first && e.acks.echoed >= Some(LEAST_WAIT)
        },
        (Timeout, Certain),
    ),
    // RACK finds a lost repair as well, and pacing spreads what follows from an ACK.
    row("restarted timer", LINUX, |e| rearmed(e) && open(e), (FastRetransmit, Likely)),
    row("restarted timer in recovery", LINUX, |e| rearmed(e) && recovery(e), (Recovery, Likely)),
    row("restarted timer after a timeout", LINUX, |e| rearmed(e) && loss(e), (AfterTimeout, Likely)),
    // The sender's clock tells when this was sent, so the timer is known to about a hundredth.
    row(
        "clock: timer again",
        TIMER,
        |e| loss(e) && e.segment.first && expired_by_clock(e),
        (Timeout, Certain),
    ),
    row("clock: after a timeout", LIMITED, |e| clock(e) && loss(e), (AfterTimeout, Certain)),
    row("clock: timer in recovery", TIMER, |e| recovery(e) && expired_by_clock(e), (Timeout, Certain)),
    row("clock: recovery", NEW_RENO, |e| clock(e) && recovery(e), (Recovery, Certain)),
    row(
        "clock: hints just heard",
        RACK_TLP,
        // An expiry in the same moment would be a coincidence.
        |e| clock(e) && open(e) && e.acks.hints.is_some() && (just_heard(e) || has_heard(e)),
        (FastRetransmit, Likely),
    ),
    row(
        "clock: fast retransmit",
        FAST,
        |e| fits(e, |first, expiries| first == First::Fast && expiries == 0),
        (FastRetransmit, Certain),
    ),
    row(
        "clock: fast retransmit after a lost one",
        FAST,
        |e| fits(e, |first, _| first == First::Fast) && just_heard(e),
        (FastRetransmit, Likely),
    ),
    row(
        "clock: probe",
        PROBES,
        |e| due(e) && fits(e, |first, expiries| first == First::Probe && expiries == 0),
        (Probe, Likely),
    ),
    row("clock: due, but heard", LINUX, |e| open(e) && due(e) && has_heard(e), (FastRetransmit, Likely)),
    row("clock: timer", TIMER, |e| open(e) && due(e), (Timeout, Certain)),
    // Neither clock nor echo: the times between other packets.
    row(
        "timer again",
        TIMER,
        |e| loss(e) && e.segment.first && must_have_expired(e) && !has_heard(e),
        (Timeout, Certain),
    ),
    row("repair after a timeout", LIMITED, loss, (AfterTimeout, Certain)),
    row("recovery, heard lately", LINUX, |e| recovery(e) && has_heard(e), (Recovery, Likely)),
    row("timer in recovery", TIMER, |e| recovery(e) && waits(e) && !by_ack(e), (Timeout, Certain)),
    row(
        "timer in recovery, repair lost",
        // Duplicate ACKs do not tell that the repair was lost as well, and the timer must have expired by now.
        TIMER,
        |e| recovery(e) && e.segment.first && timer_in_recovery(e),
        (Timeout, Likely),
    ),
    row("recovery", NEW_RENO, recovery, (Recovery, Certain)),
    row("duplicate ACKs", FAST, told_in_time, (FastRetransmit, Certain)),
    row(
        "duplicate ACKs, too soon for the timer",
        FAST,
        |e| e.acks.told.is_some() && e.timer.waited < EARLY.of(e.timer.rto),
        (FastRetransmit, Likely),
    ),
    row("selective ACKs", RACK_TLP, by_rack, (FastRetransmit, Likely)),
    row("timer", TIMER, |e| by_timer(e) && !may_be_probe(e) && e.segment.first, (Timeout, Certain)),
    row("timer, not the first", TIMER, |e| by_timer(e) && !may_be_probe(e), (Timeout, Likely)),
    row("probe of several", PROBES, |e| by_timer(e) && !e.segment.first, (Probe, Certain)),
    row(
        "probe of one",
        PROBES,
        |e| by_timer(e) && e.timer.pto.is_some_and(|pto| e.timer.waited < PROBE_LATE.of(pto)),
        (Probe, Likely),
    ),
    row("timer of one", TIMER, by_timer, (Timeout, Likely)),
    row("few duplicates, in time", "RFC 5827; RFC 8985", |e| asks(e) && by_ack(e), (FastRetransmit, Likely)),
    row("few duplicates", "RFC 5827; RFC 8985", asks, (FastRetransmit, Possible)),
    row("long silence", TIMER, |e| e.timer.waited >= LEAST_WAIT, (Timeout, Possible)),
    row("nothing tells", "none", |_| true, (Unknown, Possible)),
];

const TAPO: &str = "TAPO (Zhou et al., CoNEXT 2015), section 3";

/// Why a flow stood still, in TAPO's order: what was repaired twice, the tail, what was too little to tell of a loss,
/// and all of a window.
pub static CAUSES: [CauseRow; 22] = [
    row(
        "sent again three times, and nothing came until the end",
        TIMER,
        |e| e.by_data.is_none() && !e.live && e.dropped.is_none() && e.timeouts >= R1,
        (Cause::NoAnswer, Sure::Always(Certain)),
    ),
    row(
        "only the FIN, repaired",
        "RFC 9293, section 3.6",
        |e| e.only_fin && e.repair.is_some() && !e.spurious,
        (Cause::Closing, Sure::Always(Likely)),
    ),
    row(
        "window closed",
        TAPO,
        |e| e.repair.is_none() && e.closed,
        (Cause::ZeroWindow, Sure::Always(Certain)),
    ),
    row(
        "nothing repaired, others have turns",
        FAIR,
        |e| unrepaired(e) && takes_turns(e.others),
        (Cause::WaitsTurn, Sure::Always(Likely)),
    ),
    row(
        "nothing repaired, a queue before here",
        STAMP,
        |e| unrepaired(e) && e.by_data == Some(true) && e.queue.is_some_and(|q| q >= e.length / 2),
        (Cause::QueueBefore, Sure::Always(Likely)),
    ),
    row(
        "nothing repaired, others go on",
        FIFO,
        |e| unrepaired(e) && e.by_data == Some(false) && goes_on(e.others, e.length),
        (Cause::QueueBehind, Sure::Always(Likely)),
    ),
    row(
        "nothing came until the end",
        TIMER,
        |e| unrepaired(e) && e.by_data.is_none() && !e.live && e.dropped.is_none() && e.length >= NO_MORE,
        (Cause::NoAnswer, Sure::Always(Possible)),
    ),
    row("nothing repaired", TAPO, unrepaired, (Cause::PacketDelay, Sure::Always(Likely))),
    row(
        "probe of new data, and more followed",
        PROBES,
        |e| e.jumped && e.ended == Some(false),
        (Cause::PacketDelay, Sure::Always(Likely)),
    ),
    // A probe of new data repairs nothing; which it is shows later.
    row(
        "probe of new data",
        PROBES,
        |e| e.jumped && e.timeouts == 0,
        (Cause::TailLoss, Sure::Always(Possible)),
    ),
    row(
        "repair not needed",
        "RFC 2883, section 4; RFC 3522",
        |e| e.spurious,
        (Cause::AckDelayedOrLost, Sure::Always(Certain)),
    ),
    // Acknowledgments asked for what was repaired, so the sender did not wait for its timer.
    row(
        "repaired by ACKs",
        FAST,
        |e| e.timeouts == 0 && e.repair.is_some_and(|r| r != Probe),
        (Cause::PacketDelay, Sure::Always(Likely)),
    ),
    row(
        "repaired before, and all was seen",
        TAPO,
        |e| e.double && e.echoes_repair == Some(true) && e.bare_ack && !e.hidden && !e.inferred,
        (Cause::DoubleRetransmission, Sure::Always(Certain)),
    ),
    row("repaired before", TAPO, |e| e.double, (Cause::DoubleRetransmission, Sure::Always(Likely))),
    row(
        "timeout in spite of ACKs, or two",
        TAPO,
        |e| (e.timeouts > 0 && e.told >= DUPTHRESH) || e.timeouts > 1,
        (Cause::DoubleRetransmission, Sure::IfSeen(Likely)),
    ),
    row("nothing followed", TAPO, |e| e.ended == Some(true), (Cause::TailLoss, Sure::IfSeen(Likely))),
    row(
        "application said all",
        TAPO,
        |e| e.ended.is_none() && e.told < DUPTHRESH && e.said_all,
        (Cause::TailLoss, Sure::IfSeen(Likely)),
    ),
    // A probe is sent where nothing else tells of the loss; what follows would show whether it was the tail.
    row(
        "probe, as it happens",
        PROBES,
        |e| e.live && e.told == 0 && e.repair == Some(Probe),
        (Cause::TailLoss, Sure::IfSeen(Likely)),
    ),
    row(
        "few under way, window full",
        TAPO,
        |e| too_few(e) && window_full(e),
        (Cause::SmallReceiveWindow, Sure::IfSeen(Likely)),
    ),
    row("few under way", TAPO, too_few, (Cause::SmallCongestionWindow, Sure::IfSeen(Likely))),
    row("nothing told of it", TAPO, |e| e.told == 0, (Cause::ContinuousLoss, Sure::IfSeen(Likely))),
    row("whole window", TAPO, |_| true, (Cause::ContinuousLoss, Sure::Always(Possible))),
];

const FAIR: &str =
    "Demers, Keshav and Shenker, SIGCOMM 1989: a fair queue of N flows serves each once a round";
const FIFO: &str = "one queue for all: others' packets pass it meanwhile";
const STAMP: &str = "RFC 7323, section 5.4: its timestamp tells when it was sent";
const IDENT: &str = "RFC 791, section 3.1; Linux counts a connection's packets in it: ip_select_ident_segs";
const PUSH: &str = "RFC 9293, section 3.9.1: PSH marks the end of what the application has written";

/// Why nothing was under way: what the window, missing packets, the sender's clock and other connections tell, from
/// the best evidence to the least. Only where all that the sender sends is seen is its application certain to be late.
pub static QUIETS: [QuietRow; 26] = [
    row("closed window", TAPO, |e| e.window == OfferedWindow::Closed, (Cause::ZeroWindow, Likely)),
    row("window just opened", TAPO, |e| e.window == OfferedWindow::JustOpened, (Cause::ZeroWindow, Certain)),
    row(
        "sent soon, others have turns",
        FAIR,
        |e| sent_soon(e) && takes_turns(e.others),
        (Cause::WaitsTurn, Likely),
    ),
    row("sent soon", STAMP, sent_soon, (Cause::QueueBefore, Likely)),
    row(
        "all that is sent passes here",
        STAMP,
        |e| !e.opener && e.clear_before && !e.losses && e.missing.unwrap_or(0) == 0,
        (Cause::DataUnavailable, Likely),
    ),
    row("opener's hole", STAMP, |e| e.opener && e.hole && !e.at_sender, (Cause::AnswerLost, Likely)),
    row("opener", TAPO, |e| e.opener && !e.more, (Cause::ClientIdle, Likely)),
    row("answer late at its sender", TAPO, |e| e.at_sender && e.answer, (Cause::DataUnavailable, Certain)),
    row("rest late at its sender", TAPO, |e| e.at_sender, (Cause::DataUnavailable, Likely)),
    row(
        "packets missing, and no acknowledgment is",
        IDENT,
        |e| e.answer && e.asked_came && e.missing > Some(0),
        (Cause::AnswerLost, Certain),
    ),
    row(
        "packets missing before a hole",
        IDENT,
        |e| e.hole && e.missing > Some(0),
        (Cause::AnswerLost, Likely),
    ),
    row(
        "sent late, packets missing",
        IDENT,
        |e| sent_late(e) && e.missing > Some(1),
        (Cause::AnswerLost, Likely),
    ),
    row(
        "sent late, one missing",
        IDENT,
        |e| sent_late(e) && e.missing == Some(1),
        (Cause::AnswerLost, Possible),
    ),
    row("hole", STAMP, |e| e.hole && !(sent_late(e) && e.missing == Some(0)), (Cause::AnswerLost, Likely)),
    row(
        "answer sent late, none missing",
        STAMP,
        |e| sent_late(e) && e.answer && e.missing == Some(0),
        (Cause::DataUnavailable, Likely),
    ),
    // A sender whose window is small sends the next when its turn is over.
    row(
        "rest sent late, others have a turn each",
        FAIR,
        |e| sent_late(e) && !e.answer && has_one_turn(e.others),
        (Cause::WaitsTurn, Possible),
    ),
    row("rest sent late, more was to come", PUSH, |e| sent_late(e) && e.more, (Cause::Unknown, Possible)),
    row(
        "rest sent late on a busy link",
        FIFO,
        |e| sent_late(e) && !e.answer && is_shared(e.others) && goes_on(e.others, e.length),
        (Cause::Unknown, Possible),
    ),
    row(
        "sent late, and others lose nothing",
        STAMP,
        |e| sent_late(e) && (e.missing == Some(0) || !e.losses),
        (Cause::DataUnavailable, Possible),
    ),
    row(
        "sent when a timer expires, and others lose",
        TIMER,
        |e| sent_late(e) && e.due,
        (Cause::AnswerLost, Possible),
    ),
    row("sent late, and others lose", STAMP, sent_late, (Cause::Unknown, Possible)),
    row("nothing else, others have turns", FAIR, |e| takes_turns(e.others), (Cause::WaitsTurn, Possible)),
    row(
        "others go on as slowly",
        FIFO,
        |e| e.missing == Some(0) && is_shared(e.others) && goes_on(e.others, e.length),
        (Cause::QueueBefore, Possible),
    ),
    row(
        "others lose nothing, and nothing is missing",
        IDENT,
        |e| e.missing == Some(0) && !e.losses,
        (Cause::DataUnavailable, Possible),
    ),
    row("nothing else passes", TAPO, |e| !e.losses && alone(e.others), (Cause::DataUnavailable, Possible)),
    row("nothing tells why", "none", |_| true, (Cause::Unknown, Possible)),
];

/// Why a handshake took long, and where. Some hosts echo the timestamp of the SYN that came first in every SYN-ACK, and
/// others that of the latest, so only an echo of the first tells a place.
pub static HANDSHAKES: [HandshakeRow; 8] = [
    row(
        "SYN never answered",
        TIMER,
        |e| !e.ended && e.syn_acks == 0,
        (Cause::NoAnswer, Place::Unknown, Certain),
    ),
    row(
        "answered again and again",
        "RFC 9293, section 3.5: the SYN-ACK, or what acknowledges it, was lost",
        |e| e.syn_acks > 1,
        (Cause::HandshakeLost, Place::Behind, Likely),
    ),
    row("never ended", TIMER, |e| !e.ended, (Cause::HandshakeLost, Place::Behind, Possible)),
    row(
        "a later SYN is answered",
        ECHO,
        // The earlier ones were lost, or the host that was called did not take them.
        |e| e.syns > 1 && e.echoes.is_some_and(|n| n > 1),
        (Cause::HandshakeLost, Place::Unknown, Likely),
    ),
    row(
        "the first SYN is answered late",
        ECHO,
        |e| e.syns > 1 && e.echoes == Some(1),
        (Cause::HandshakeLost, Place::Before, Likely),
    ),
    row("SYNs repeated", TIMER, |e| e.syns > 1, (Cause::HandshakeLost, Place::Unknown, Likely)),
    row(
        "nothing repeated, others wait as long",
        FIFO,
        |e| e.queue.is_some_and(|q| q >= e.length / 2),
        (Cause::QueueBefore, Place::Unknown, Likely),
    ),
    row("nothing repeated", TAPO, |_| true, (Cause::PacketDelay, Place::Unknown, Likely)),
];

const PTO: &str = "RFC 9002, section 6.2: a timer sends again what is not answered";
const EIFEL: &str = "RFC 3522: what comes sooner than any round trip answers something earlier";

/// Source of rows that rest on what a sender says of itself.
pub const QLOG: &str = "the sender's own log (draft-ietf-quic-qlog-quic-events)";

/// Why one end of a QUIC connection was silent. Losses are not seen: packets are encrypted, and sent again under new
/// numbers (RFC 9312).
pub static DATAGRAMS: [DatagramRow; 21] = [
    row(
        "sender: needless timeout, others have turns",
        QLOG,
        |e| needless(e) && takes_turns(e.others),
        (QuicCause::WaitsTurn, Likely),
    ),
    // Data under way when the timer expired has arrived and is answered: it only took longer than the timer.
    row("sender: needless timeout", QLOG, needless, (QuicCause::Queue, Certain)),
    row(
        "sender: timeout and loss in the handshake",
        QLOG,
        |e| e.opening && timed_out(e) && loses_packets(e),
        (QuicCause::HandshakeLost, Certain),
    ),
    row(
        "sender: timeout and loss",
        QLOG,
        |e| timed_out(e) && loses_packets(e),
        (QuicCause::Starved, Certain),
    ),
    row(
        "sender: nothing to send, the client asks",
        QLOG,
        // An earlier question of the client may have been lost.
        |e| is_idle_server(e) && e.client,
        (QuicCause::ClientIdle, Likely),
    ),
    row(
        "sender: nothing to send, then the server does",
        QLOG,
        |e| is_idle_server(e) && !e.client,
        (QuicCause::DataUnavailable, Certain),
    ),
    row(
        "never answered",
        PTO,
        |e| e.unanswered > 0 && e.since_last.is_none() && e.opening,
        (QuicCause::NoAnswer, Certain),
    ),
    row(
        "an earlier one is answered",
        EIFEL,
        |e| {
            e.unanswered > 0
                && e.since_last.zip(e.least_trip).is_some_and(|(since, trip)| since < SOONEST.of(trip))
        },
        (QuicCause::Queue, Likely),
    ),
    row(
        "asked again, others have turns",
        FAIR,
        |e| e.unanswered > 0 && takes_turns(e.others),
        (QuicCause::WaitsTurn, Possible),
    ),
    row(
        "asked again in the handshake",
        PTO,
        |e| e.unanswered > 0 && e.opening,
        (QuicCause::HandshakeLost, Likely),
    ),
    // The answer may be what was lost.
    row("sender: timeout", QLOG, |e| !e.opening && timed_out(e), (QuicCause::Starved, Likely)),
    row("asked again and again", PTO, |e| e.unanswered > 1, (QuicCause::Starved, Likely)),
    // Keep-alives are sent alone as well, and are answered.
    row("asked again", PTO, |e| e.unanswered > 0, (QuicCause::Starved, Possible)),
    row("the client asks", TAPO, |e| e.client && !e.more && e.asks, (QuicCause::ClientIdle, Likely)),
    row("the client acknowledges", TAPO, |e| e.client && !e.more, (QuicCause::ClientIdle, Possible)),
    row(
        "a datagram waits, others have turns",
        FAIR,
        |e| takes_turns(e.others),
        (QuicCause::WaitsTurn, Possible),
    ),
    row(
        "sender: data waits for an answer, no timeout",
        QLOG,
        // In the handshake a server may send three times of what it got, and then has no timer (RFC 9002, 6.2.2.1).
        |e| !e.opening && e.sender.is_some_and(|s| s.timeouts == 0 && s.idle == Some(false)),
        (QuicCause::Queue, Likely),
    ),
    row(
        "answer late at its server",
        TAPO,
        |e| !e.client && e.asked && e.at_server,
        (QuicCause::DataUnavailable, Likely),
    ),
    row(
        "a datagram waits, others go on as slowly",
        FIFO,
        |e| !e.at_server && is_shared(e.others) && goes_on(e.others, e.length),
        (QuicCause::Queue, Possible),
    ),
    row(
        "asked, and nothing else passes",
        TAPO,
        |e| !e.client && e.asked && alone(e.others),
        (QuicCause::DataUnavailable, Possible),
    ),
    row("nothing tells why a datagram is late", "none", |_| true, (QuicCause::Unknown, Possible)),
];

/// Whether the sender's log has an expiry of the sender's timer.
fn timed_out(e: &DatagramEvidence) -> bool {
    e.sender.is_some_and(|s| s.timeouts > 0)
}

/// Whether the timer expired though nothing was lost.
fn needless(e: &DatagramEvidence) -> bool {
    e.sender.is_some_and(|s| s.timeouts > 0 && s.needless)
}

/// Whether the sender's log has losses that were not taken back.
fn loses_packets(e: &DatagramEvidence) -> bool {
    e.sender.is_some_and(|s| s.lost > 0)
}

/// Whether the server's log says that it had nothing to send, while nobody asked.
fn is_idle_server(e: &DatagramEvidence) -> bool {
    e.unanswered == 0 && e.sender.is_some_and(|s| s.by == 1 && s.timeouts == 0 && s.idle == Some(true))
}

fn unrepaired(e: &SilenceEvidence) -> bool {
    e.repair.is_none() && e.dropped != Some(true)
}

/// Whether others have had turns: a few packets each, and none many more than others.
fn takes_turns(others: Option<Others>) -> bool {
    let fair = |o: &Others, most: u32| most <= TURNS || most * o.connections <= o.packets * TURNS;
    others.is_some_and(|o| o.is_shared() && o.most.is_some_and(|most| fair(&o, most)))
}

/// Whether no other connection is seen.
fn alone(others: Option<Others>) -> bool {
    others.is_none_or(|o| o.connections == 0)
}

/// Whether several others have had about one packet each.
fn has_one_turn(others: Option<Others>) -> bool {
    let few = |o: &Others| o.packets < o.connections * 2 && o.most.is_some_and(|most| most <= TURNS);
    others.is_some_and(|o| o.connections >= MANY_OTHERS && few(&o))
}

/// Whether others have had a few packets each.
fn is_shared(others: Option<Others>) -> bool {
    others.is_some_and(|o| o.is_shared())
}

/// Whether others' packets have come all the time.
fn goes_on(others: Option<Others>, length: Duration) -> bool {
    others.is_some_and(|o| o.connections > 0 && o.gap <= ALL_SILENT.of(length))
}

/// Whether the sender sent it soon by its clock, so it waited on its way.
fn sent_soon(e: &QuietEvidence) -> bool {
    e.sent_after.is_some_and(|after| after <= e.patience.max(e.length / 4))
}

/// Whether the sender sent it, by its clock, when the silence was nearly over.
fn sent_late(e: &QuietEvidence) -> bool {
    e.sent_after.is_some() && !sent_soon(e)
}

/// Segments under way: those seen, or as many as the window tells if that is more.
fn under_way(e: &SilenceEvidence) -> u32 {
    e.outstanding.max(e.flight.unwrap_or(0))
}

/// Whether too little came behind the loss to tell of it, though there was more to send.
fn too_few(e: &SilenceEvidence) -> bool {
    let hidden = e.outstanding == 0 && under_way(e) >= MANY;
    e.outstanding < TELLING && !hidden || (1..DUPTHRESH).contains(&e.told)
}

fn window_full(e: &SilenceEvidence) -> bool {
    e.window.is_some_and(|w| e.mss > 0 && w < e.mss * (under_way(e) + 1))
}

fn open(e: &RepairEvidence) -> bool {
    e.state == SenderState::Open
}

fn recovery(e: &RepairEvidence) -> bool {
    e.state == SenderState::Recovery
}

fn loss(e: &RepairEvidence) -> bool {
    e.state == SenderState::Loss
}

/// Whether the capture was taken at the sender.
fn near(e: &RepairEvidence) -> bool {
    e.sender.near.is_some()
}

/// Whether packets get lost before the capture.
fn loses(e: &RepairEvidence) -> bool {
    e.sender.losses == Some(true)
}

/// Whether the sender's clock is known.
fn clock(e: &RepairEvidence) -> bool {
    e.clock.is_some()
}

fn just_expired(e: &RepairEvidence) -> bool {
    e.timer.since_timeout.is_some_and(|since| since < LEAST_WAIT * 2)
}

/// Whether an ACK that the sender has just heard has let this go, at once or after RACK's reordering window (RFC 8985,
/// section 6.2). At a sender without SACK duplicates count, and all are seen.
fn answers(e: &RepairEvidence) -> bool {
    let window = e.timer.least_trip.unwrap_or_default() / RACK;
    let most = if e.segment.overtaken { ANSWER_BY_ECHO + window } else { ANSWER_BY_ECHO };
    (!near(e) || e.sender.selective) && e.acks.echoed.is_some_and(|echoed| echoed <= most)
}

/// Whether ACKs have told of a loss, if not of enough.
fn told(e: &RepairEvidence) -> bool {
    asks(e) || e.acks.hints.is_some()
}

/// Whether duplicate or selective ACKs tell of a gap in what is under way.
fn asks(e: &RepairEvidence) -> bool {
    e.acks.duplicates > 0 || e.acks.sacked > 0
}

/// Whether duplicate or selective ACKs, or an ACK of a later segment, tell of a loss.
fn asked(e: &RepairEvidence) -> bool {
    e.segment.overtaken || asks(e)
}

fn lost_again(e: &RepairEvidence) -> bool {
    e.segment.repair_lost || e.segment.passed_over
}

/// Whether the segment left at once after an ACK, seen at the sender.
fn at_once(e: &RepairEvidence) -> bool {
    e.sender.near.zip(e.acks.latest).is_some_and(|(least, latest)| latest <= least + ANSWER_AT_SENDER)
}

/// Whether the segment left, seen at the sender, at once after no ACK.
fn apart(e: &RepairEvidence) -> bool {
    near(e) && e.acks.latest.is_some() && !at_once(e)
}

fn expired_near(e: &RepairEvidence) -> bool {
    let rto = e.timer.rto_least.unwrap_or(e.timer.rto);
    e.timer.waited >= EARLY_AT_SENDER.of(rto * u64::from(e.timer.factor))
}

/// Whether the sender has neither heard nor sent anything for as long as Linux's timer runs at least.
fn quiet_near(e: &RepairEvidence) -> bool {
    e.acks.latest.zip(e.timer.quiet).is_some_and(|(latest, quiet)| latest.min(quiet) >= LINUX_LEAST)
}

/// Whether the sender had heard nothing that would let this go, and knew of no loss: so a timer did.
fn unprompted(e: &RepairEvidence) -> bool {
    let acks = &e.acks;
    let told = acks.hints.is_some_and(|hints| hints.first.plus(ANSWER_BY_ECHO).at_least(acks.react));
    let silent = acks.echoed.is_some_and(|echoed| echoed > ANSWER_BY_ECHO);
    open(e) && silent && !told && e.sender.selective
}

/// Whether the sender probes tails, and the segment is the last one.
fn may_probe(e: &RepairEvidence) -> bool {
    !e.sender.plain && !e.timer.probed && e.segment.last && !e.segment.hole
}

/// Whether an ACK passed so shortly before that a timer which selective acknowledgments restart too, as Linux's, has
/// not expired; and it did not wait for as long as the timer runs.
fn rearmed(e: &RepairEvidence) -> bool {
    let least = LINUX_LEAST.max(REARMED.of(e.timer.rto));
    let sees = near(e) && !clock(e) && e.sender.stamps && e.sender.selective;
    let (timer, waited) = (e.timer(), e.timer.waited);
    let off = waited.max(timer).saturating_sub(waited.min(timer));
    sees && e.acks.latest.is_some_and(|latest| latest < least) && off >= timer / OFF_AT_SENDER
}

/// Whether an ACK has reached the sender just before, by the sender's clock.
fn just_heard(e: &RepairEvidence) -> bool {
    e.acks.reached.is_some_and(|reached| reached <= TICK)
}

/// Whether an ACK that restarts its timer has reached it within half of what that takes. Of a Linux sender each ACK
/// does, unless that tells only of what was sent after the first was sent again (`tcp_clean_rtx_queue`), so what leaves
/// then was let go by ACKs, and is late because it paces. Of a sender whose timer only new data restarts (RFC 6298,
/// (5.3)), such repairs leave when it is due, and say so.
fn has_heard(e: &RepairEvidence) -> bool {
    e.sender.rearms && e.acks.reached.is_some_and(|reached| reached < e.timer.rto / 2)
}

/// Whether the sender has waited, by its clock, for as long as the timer or a probe takes.
fn due(e: &RepairEvidence) -> bool {
    e.clock.is_some_and(|c| e.timer.waited + tolerance(e.timer.srtt) >= c.due)
}

/// Error of the timer: one sample more or less moves SRTT by an eighth of what it differs.
pub(crate) fn tolerance(srtt: Option<Duration>) -> Duration {
    TICK.max(srtt.unwrap_or_default() / SAMPLE)
}

fn expired_by_clock(e: &RepairEvidence) -> bool {
    due(e) && !just_heard(e) && !has_heard(e)
}

fn fits(e: &RepairEvidence, which: fn(First, u32) -> bool) -> bool {
    e.clock.is_some_and(|c| which(c.first, c.expiries))
}

/// Whether the silence is long enough for the timer. A sender's floor may be lower than ours, so we ask for no more
/// than its round trip.
fn waits(e: &RepairEvidence) -> bool {
    waits_for_timer(e.timer.waited, e.timer.srtt)
}

/// Tells whether a silence of length `waited` is long enough for the timer.
pub(crate) fn waits_for_timer(waited: Duration, srtt: Option<Duration>) -> bool {
    waited >= LEAST_WAIT.max(TRIP.of(srtt.unwrap_or(LEAST_WAIT)))
}

/// Whether the silence is so long that the timer cannot have stood still. Where losses before the capture hide what the
/// sender does, other silences look much the same, so we ask for more.
fn must_have_expired(e: &RepairEvidence) -> bool {
    waits(e) && (e.timer.waited >= EARLY.of(e.timer.rto) || !(e.sender.losses != Some(false) || near(e)))
}

fn timer_in_recovery(e: &RepairEvidence) -> bool {
    let again = e.segment.copies.is_some_and(|n| n > 1) && !(e.sender.selective && e.sender.stamps);
    waits(e) && (again || (e.timer.waited >= NEARLY.of(e.timer.rto) && !near(e)))
}

/// The least time within which the sender reacts.
fn soonest(e: &RepairEvidence) -> Duration {
    if near(e) { Duration::ZERO } else { SOONEST.of(e.acks.react_least.unwrap_or_default()) }
}

/// Time by which the sender may react later than the sender's half of the round trip.
pub(crate) fn slack(by_clock: bool, guess: Duration) -> Duration {
    if by_clock { ANSWER } else { guess.max(LATE_LEAST).min(LATE_MOST) }
}

/// Whether an ACK passed to which the sender reacts with the segment.
fn by_ack(e: &RepairEvidence) -> bool {
    let most = e.acks.react + slack(clock(e), e.acks.react / 2);
    e.acks.reacted.is_some_and(|reacted| reacted <= most)
}

/// Whether enough ACKs have told of a loss, and it is not nearer to when the timer expires than to when they have their
/// effect.
fn told_in_time(e: &RepairEvidence) -> bool {
    let Some(told) = e.acks.told else { return false };
    let left = (e.timer() + told).saturating_sub(e.timer.waited + e.acks.react);
    let late = told.saturating_sub(e.acks.react) > (left / 2).max(NEARER_TIMER);
    told >= soonest(e) && !(late && waits(e))
}

/// Whether RACK finds it lost (RFC 8985, section 6.2): a segment is lost if one that was sent later has arrived, and it
/// has not within a quarter of a round trip.
fn by_rack(e: &RepairEvidence) -> bool {
    let Some(Hints { first, latest }) = e.acks.hints.filter(|_| e.sender.selective) else { return false };
    let trip = if e.sender.stamps { e.timer.srtt } else { e.timer.least_trip };
    let react = e.acks.react;
    let most = react + trip.unwrap_or_default() / RACK + slack(clock(e), react / RACK);
    [first, latest].iter().any(|age| age.at_least(soonest(e)) && age.at_most(most))
}

/// Whether the silence is a timer's: so it is, unless a sender whose timer each ACK restarts has heard of what is
/// selectively acknowledged.
fn by_timer(e: &RepairEvidence) -> bool {
    waits(e) && !(!clock(e) && has_heard(e) && e.acks.sacked > 0)
}

/// Whether it is a tail loss probe: once after the last ACK, two round trips and, of a single segment, a delayed ACK
/// later, the last segment is sent again (RFC 8985, section 7.2). The timer sends the first.
fn may_be_probe(e: &RepairEvidence) -> bool {
    e.sender.selective && may_probe(e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{AckEvidence, Age, ClockEvidence, SegmentEvidence, SenderEvidence, TimerEvidence};

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// The first of several segments, with a round trip of 100 ms and an RTO of 300, after that wait.
    fn waited(n: u64) -> RepairEvidence {
        let (rto, pto) = (ms(300), Some(ms(300)));
        let timer = TimerEvidence {
            waited: ms(n),
            rto,
            pto,
            factor: 1,
            srtt: Some(ms(100)),
            ..TimerEvidence::default()
        };
        let acks = AckEvidence { react: ms(50), react_least: Some(ms(40)), ..AckEvidence::default() };
        let segment = SegmentEvidence { first: true, ..SegmentEvidence::default() };
        RepairEvidence { segment, timer, acks, ..RepairEvidence::default() }
    }

    fn decides(e: &RepairEvidence) -> &'static str {
        judge_repair(e).name
    }

    #[test]
    fn names_are_unique_and_the_last_rows_always_fit() {
        let mut names: Vec<&str> = REPAIRS.iter().map(|r| r.name).collect();
        names.extend(CAUSES.iter().map(|r| r.name));
        names.extend(QUIETS.iter().map(|r| r.name));
        names.extend(DATAGRAMS.iter().map(|r| r.name));
        names.extend(HANDSHAKES.iter().map(|r| r.name));
        names.sort_unstable();
        names.dedup();
        assert_eq!(
            names.len(),
            REPAIRS.len() + CAUSES.len() + QUIETS.len() + HANDSHAKES.len() + DATAGRAMS.len()
        );
        let (repair, silence) = (RepairEvidence::default(), SilenceEvidence::default());
        assert!((REPAIRS[REPAIRS.len() - 1].when)(&repair) && (CAUSES[CAUSES.len() - 1].when)(&silence));
    }

    #[test]
    fn the_first_rows_need_neither_clock_nor_times() {
        assert_eq!(REPAIRS[EARLY_ROWS].name, "restarted timer");
        let mut e = waited(300);
        (e.acks.duplicates, e.acks.echoed) = (1, Some(ms(10)));
        let early = judge_early(&e).map(|row| row.name);
        e.clock = Some(ClockEvidence { due: ms(300), first: First::Nothing, expiries: 1 });
        (e.acks.reacted, e.acks.reached) = (Some(ms(50)), Some(ms(0)));
        assert_eq!((early, decides(&e)), (Some("answer tells of a loss"), "answer tells of a loss"));
        assert!(judge_early(&waited(300)).is_none());
    }

    #[test]
    fn the_times_between_other_packets() {
        // 170 ms are the least that a timer waits.
        assert_eq!([169, 170].map(|n| decides(&waited(n))), ["nothing tells", "timer"]);
        let mut e = waited(100);
        (e.acks.duplicates, e.acks.told) = (3, Some(ms(50)));
        assert_eq!(decides(&e), "duplicate ACKs");
        // Three quarters of 40 ms after the third duplicate are the soonest.
        e.acks.told = Some(ms(29));
        assert_eq!(decides(&e), "duplicate ACKs, too soon for the timer");
        // 200 ms after their effect, and 0 ms before the expiry.
        (e.acks.told, e.timer.waited) = (Some(ms(250)), ms(300));
        assert_eq!(decides(&e), "timer");
    }

    #[test]
    fn the_last_of_several_is_a_probe_where_the_sender_probes() {
        let mut e = waited(250);
        e.segment = SegmentEvidence { last: true, ..SegmentEvidence::default() };
        assert_eq!(decides(&e), "timer, not the first");
        e.sender.selective = true;
        assert_eq!(decides(&e), "probe of several");
        // A single segment: up to 5/4 of the 300 ms that a probe waits.
        e.segment.first = true;
        assert_eq!(decides(&e), "probe of one");
        e.timer.waited = ms(375);
        assert_eq!(decides(&e), "timer of one");
    }

    #[test]
    fn the_clock_and_the_echo_come_before_the_times() {
        let mut e = waited(300);
        e.clock = Some(ClockEvidence { due: ms(300), first: First::Nothing, expiries: 1 });
        assert_eq!(decides(&e), "clock: timer");
        e.clock = Some(ClockEvidence { due: ms(300), first: First::Fast, expiries: 0 });
        assert_eq!(decides(&e), "clock: fast retransmit");
        // The sender echoes an ACK of 35 ms ago, which told of a gap; 36 are too many.
        (e.acks.echoed, e.acks.sacked) = (Some(ms(35)), 1);
        assert_eq!(decides(&e), "answer tells of a loss");
        e.acks.echoed = Some(ms(36));
        assert_eq!(decides(&e), "clock: fast retransmit");
    }

    #[test]
    fn at_the_sender_all_is_seen() {
        let mut e = waited(250);
        e.sender = SenderEvidence { near: Some(ms(1)), ..SenderEvidence::default() };
        (e.state, e.acks.latest) = (SenderState::Recovery, Some(ms(3)));
        assert_eq!(decides(&e), "ACK at the sender in recovery");
        // No ACK for 195 ms and no data: the timer.
        (e.acks.latest, e.timer.quiet) = (Some(ms(195)), Some(ms(195)));
        assert_eq!(decides(&e), "timer at the sender");
        let told = Age::between(narrows_units::Instant::ZERO, narrows_units::Instant::ZERO + ms(60));
        assert!(told.at_least(ms(60)) && told.at_most(ms(60)) && !told.plus(ms(1)).at_most(ms(60)));
    }

    /// An answer that came 3 s after the server had acknowledged the question, far from the server, beside others.
    fn late_answer() -> QuietEvidence {
        let others = Some(Others { connections: 20, packets: 30, most: Some(12), gap: ms(20) });
        QuietEvidence {
            answer: true,
            asked_came: true,
            length: ms(3000),
            patience: ms(400),
            missing: Some(0),
            losses: true,
            others,
            ..Default::default()
        }
    }

    #[test]
    fn an_answer_is_late_for_certain_only_where_all_is_seen() {
        let told = |e: QuietEvidence| judge_quiet(&e).then;
        let e = late_answer();
        // Packets with numbers in between were sent after the acknowledgment, so they were the answer.
        assert_eq!(told(QuietEvidence { missing: Some(2), ..e }), (Cause::AnswerLost, Certain));
        // The acknowledgment may be what is missing, where none was seen.
        let unseen = QuietEvidence { asked_came: false, sent_after: Some(ms(2900)), ..e };
        assert_eq!(told(QuietEvidence { missing: Some(2), ..unseen }), (Cause::AnswerLost, Likely));
        assert_eq!(told(QuietEvidence { missing: Some(1), ..unseen }), (Cause::AnswerLost, Possible));
        // Sent 300 ms after the question, and not lost: it waited on its way, however long.
        let soon = QuietEvidence { sent_after: Some(ms(300)), missing: Some(2), ..e };
        assert_eq!(told(soon), (Cause::QueueBefore, Likely));
        let fair = Some(Others { connections: 20, packets: 40, most: Some(3), gap: ms(20) });
        assert_eq!(told(QuietEvidence { others: fair, ..soon }), (Cause::WaitsTurn, Likely));
        // Sent late, and nothing is missing: the application, but never for certain.
        assert_eq!(told(QuietEvidence { sent_after: Some(ms(2900)), ..e }), (Cause::DataUnavailable, Likely));
        assert_eq!(told(QuietEvidence { at_sender: true, ..e }), (Cause::DataUnavailable, Certain));
        // Neither clock nor numbers, and others lose packets.
        let most = Some(Others { connections: 20, packets: 400, most: Some(90), gap: ms(20) });
        assert_eq!(told(QuietEvidence { missing: None, others: most, ..e }), (Cause::Unknown, Possible));
        assert_eq!(told(QuietEvidence { opener: true, ..e }), (Cause::ClientIdle, Likely));
    }

    #[test]
    fn a_handshake_has_a_place_only_where_an_echo_tells_it() {
        let told = |e: HandshakeEvidence| judge_handshake(&e).then;
        let e =
            HandshakeEvidence { syns: 4, syn_acks: 1, ended: true, length: ms(7000), ..Default::default() };
        assert_eq!(told(e), (Cause::HandshakeLost, Place::Unknown, Likely));
        assert_eq!(
            told(HandshakeEvidence { echoes: Some(1), ..e }),
            (Cause::HandshakeLost, Place::Before, Likely)
        );
        assert_eq!(
            told(HandshakeEvidence { echoes: Some(3), ..e }),
            (Cause::HandshakeLost, Place::Unknown, Likely)
        );
        assert_eq!(
            told(HandshakeEvidence { syn_acks: 0, ended: false, ..e }),
            (Cause::NoAnswer, Place::Unknown, Certain)
        );
    }

    #[test]
    fn an_answer_of_quic_sooner_than_any_round_trip_had_waited() {
        let told = |e: DatagramEvidence| judge_datagrams(&e).then;
        let e = DatagramEvidence {
            unanswered: 2,
            since_last: Some(ms(40)),
            least_trip: Some(ms(100)),
            length: ms(3000),
            ..Default::default()
        };
        assert_eq!(told(e), (QuicCause::Queue, Likely));
        let after = DatagramEvidence { since_last: Some(ms(120)), ..e };
        assert_eq!(told(after), (QuicCause::Starved, Likely));
        assert_eq!(told(DatagramEvidence { opening: true, ..after }), (QuicCause::HandshakeLost, Likely));
        let never = DatagramEvidence { since_last: None, opening: true, ..e };
        assert_eq!(told(never), (QuicCause::NoAnswer, Certain));
    }

    #[test]
    fn what_waits_behind_others_is_told_from_what_is_late_alone() {
        let cause = |e: SilenceEvidence| judge_silence(&e).cause;
        let others =
            |packets, most, gap| Some(Others { connections: 20, packets, most: Some(most), gap: ms(gap) });
        let e = SilenceEvidence { length: ms(1000), by_data: Some(true), ..Default::default() };
        assert_eq!(cause(e), Cause::PacketDelay);
        assert_eq!(cause(SilenceEvidence { others: others(40, 3, 30), ..e }), Cause::WaitsTurn);
        let long = SilenceEvidence { others: others(200, 60, 30), ..e };
        assert_eq!(cause(SilenceEvidence { queue: Some(ms(500)), ..long }), Cause::QueueBefore);
        assert_eq!(cause(SilenceEvidence { by_data: Some(false), ..long }), Cause::QueueBehind);
        // Nothing at all passed for more than half of it: the link stood still.
        let silent = SilenceEvidence { by_data: Some(false), others: others(200, 60, 600), ..e };
        assert_eq!(cause(silent), Cause::PacketDelay);
    }

    #[test]
    fn causes_in_the_order_of_tapo() {
        let e = SilenceEvidence {
            repair: Some(Timeout),
            timeouts: 1,
            mss: 1000,
            outstanding: 2,
            ..Default::default()
        };
        let told = |e: SilenceEvidence| judge_silence(&e).cause;
        assert_eq!(told(e), Cause::SmallCongestionWindow);
        assert_eq!(told(SilenceEvidence { window: Some(2999), ..e }), Cause::SmallReceiveWindow);
        assert_eq!(told(SilenceEvidence { outstanding: 4, ..e }), Cause::ContinuousLoss);
        assert_eq!(told(SilenceEvidence { said_all: true, ..e }), Cause::TailLoss);
        assert_eq!(
            told(SilenceEvidence { said_all: true, ended: Some(false), ..e }),
            Cause::SmallCongestionWindow
        );
        assert_eq!(told(SilenceEvidence { timeouts: 2, ..e }), Cause::DoubleRetransmission);
        assert_eq!(told(SilenceEvidence { spurious: true, timeouts: 2, ..e }), Cause::AckDelayedOrLost);
        assert_eq!(told(SilenceEvidence { repair: None, timeouts: 0, closed: true, ..e }), Cause::ZeroWindow);
        assert_eq!(judge_silence(&SilenceEvidence { inferred: true, ..e }).certainty, Possible);
    }
}
