//! Findings: stalls and what a sender did, with their evidence. Times are seconds since the first frame of the capture.

use core::net::IpAddr;

use serde::Serialize;

use narrows_units::{Duration, Instant};

use crate::frames::Frames;

/// Cause for which a flow stood still. The taxonomy is that of TAPO (Zhou et al., "Demystifying and Mitigating TCP
/// Stalls at the Server Side", CoNEXT 2015, section 3), with the handshake and the end of a connection besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The application at the sender had nothing to send: it was asked, or was in the middle of what it had to say.
    DataUnavailable,
    /// An answer, or the rest of one, was sent and lost before the point of capture.
    AnswerLost,
    /// The question was not answered: it was lost, or filtered, or the answer was.
    NoAnswer,
    /// Packets waited their turn in a queue that serves flows in turn.
    WaitsTurn,
    /// Packets waited in a queue before the point of capture.
    QueueBefore,
    /// Packets, or the acknowledgments of packets, waited in a queue behind the point of capture.
    QueueBehind,
    /// The application that asks had nothing to ask. Nobody waited for the network.
    ClientIdle,
    /// The receiver had closed its window.
    ZeroWindow,
    /// A SYN or a SYN-ACK was lost.
    HandshakeLost,
    /// A repair was lost again.
    DoubleRetransmission,
    /// The end of what there was to send was lost, so that nothing behind it could tell of the loss.
    TailLoss,
    /// A loss, and too few packets under way to tell of it, because the congestion window was small.
    SmallCongestionWindow,
    /// A loss, and too few packets under way to tell of it, because the receiver's window was small.
    SmallReceiveWindow,
    /// All of a window of four packets or more was lost.
    ContinuousLoss,
    /// The sender repaired what the receiver had: the acknowledgment was delayed or lost.
    AckDelayedOrLost,
    /// Packets, or their acknowledgments, took that long, and nothing was repaired.
    PacketDelay,
    /// Only the end of the connection waited to be acknowledged.
    Closing,
    /// The packets seen here do not tell the cause.
    Unknown,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 18] = [
        Self::DataUnavailable,
        Self::AnswerLost,
        Self::NoAnswer,
        Self::WaitsTurn,
        Self::QueueBefore,
        Self::QueueBehind,
        Self::ClientIdle,
        Self::ZeroWindow,
        Self::HandshakeLost,
        Self::DoubleRetransmission,
        Self::TailLoss,
        Self::SmallCongestionWindow,
        Self::SmallReceiveWindow,
        Self::ContinuousLoss,
        Self::AckDelayedOrLost,
        Self::PacketDelay,
        Self::Closing,
        Self::Unknown,
    ];

    /// Names the cause in words, as the page of text does.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::DataUnavailable => "sender's application had nothing to send",
            Self::AnswerLost => "answer lost before here",
            Self::NoAnswer => "no answer (lost or filtered)",
            Self::WaitsTurn => "waits its turn in a fair queue",
            Self::QueueBefore => "queue before here",
            Self::QueueBehind => "queue behind here",
            Self::ClientIdle => "nobody asked for anything",
            Self::ZeroWindow => "receiver's window closed",
            Self::HandshakeLost => "handshake lost",
            Self::DoubleRetransmission => "retransmission lost too",
            Self::TailLoss => "last data of a transfer lost",
            Self::SmallCongestionWindow => "loss in a small congestion window",
            Self::SmallReceiveWindow => "loss in a small receive window",
            Self::ContinuousLoss => "whole window lost",
            Self::AckDelayedOrLost => "acknowledgment delayed or lost",
            Self::PacketDelay => "packets delayed",
            Self::Closing => "FIN lost while closing",
            Self::Unknown => "unknown",
        }
    }

    /// Whether packets were lost.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        matches!(
            self,
            Self::AnswerLost
                | Self::HandshakeLost
                | Self::DoubleRetransmission
                | Self::TailLoss
                | Self::SmallCongestionWindow
                | Self::SmallReceiveWindow
                | Self::ContinuousLoss
                | Self::Closing
        )
    }

    /// Whether packets were only late.
    #[must_use]
    pub const fn is_delay(self) -> bool {
        matches!(self, Self::PacketDelay | Self::WaitsTurn | Self::QueueBefore | Self::QueueBehind)
    }

    /// Whether an answer was late, for a reason that only what follows may show.
    pub(crate) const fn is_late_answer(self) -> bool {
        matches!(self, Self::DataUnavailable | Self::AnswerLost | Self::Unknown)
    }

    /// Whether somebody waited: something was outstanding, or was asked for.
    #[must_use]
    pub const fn counts(self) -> bool {
        !matches!(self, Self::ClientIdle)
    }
}

/// Reason for which a sender sent something again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// The retransmission timer (RFC 6298).
    Timeout,
    /// Further segments after that, as ACKs came.
    AfterTimeout,
    /// ACKs that told of a loss (RFC 5681, section 3.2; RFC 6675; RFC 8985).
    FastRetransmit,
    /// Further segments of a recovery that ACKs began.
    Recovery,
    /// A tail-loss probe (RFC 8985, section 7).
    Probe,
    /// A SYN or a SYN-ACK was sent again.
    Handshake,
    /// No reason that we can tell of.
    Unknown,
}

impl Repair {
    /// Rank of the reason: the reason of the highest rank names a stall with several.
    #[must_use]
    pub const fn rank(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Recovery => 1,
            Self::AfterTimeout => 2,
            Self::FastRetransmit => 3,
            Self::Probe => 4,
            Self::Timeout => 5,
            Self::Handshake => 6,
        }
    }
}

/// Where packets were lost, seen from the point of capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// No packet was lost, or we cannot know.
    #[default]
    Unknown,
    /// Packets were lost between the sender and the capture, and never seen.
    Before,
    /// Packets were lost between the capture and the receiver, after they were seen.
    Behind,
    /// Packets were lost both before the capture and behind it.
    Both,
}

impl Place {
    /// Joins the places of two losses.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, place) | (place, Self::Unknown) => place,
            (Self::Before, Self::Before) => Self::Before,
            (Self::Behind, Self::Behind) => Self::Behind,
            _ => Self::Both,
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The finding is one of several explanations that are about as good.
    Possible,
    /// The finding fits the times, and nothing contradicts it.
    Likely,
    /// The packets show the finding.
    Certain,
}

impl Certainty {
    /// Names the certainty in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

/// A repair: a sender sent something again, or the sender's timer must have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Time of the event at the point of capture.
    #[serde(rename = "at_s", serialize_with = "seconds")]
    pub at: Instant,
    /// Number of the frame that shows the event.
    pub frame: u64,
    /// End that sent the packet: 0 for the end that opened the connection.
    pub by: u8,
    /// Reason for which the packet was sent again.
    pub repair: Repair,
    /// Whether the repair was not seen, but follows from what was.
    pub inferred: bool,
    /// Certainty of the verdict.
    pub certainty: Certainty,
    /// Place where the data that the event repairs was lost.
    pub lost: Place,
    /// Whether the receiver had the data already (DSACK, timestamps, or an ACK that came too soon).
    pub spurious: bool,
}

/// A time without progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stall {
    /// Time of the last progress before the stall.
    #[serde(rename = "from_s", serialize_with = "seconds")]
    pub from: Instant,
    /// The progress that ended the stall, or the end of the capture.
    #[serde(rename = "to_s", serialize_with = "seconds")]
    pub to: Instant,
    /// End whose data stood still: 0 for the end that opened the connection.
    pub by: u8,
    /// Cause of the stall.
    pub cause: Cause,
    /// Repair that ended the stall or tried to, by rank: a timeout before a probe before anything else.
    pub repair: Option<Repair>,
    /// How often the timer expired.
    pub timeouts: u32,
    /// The factor on the RTO at the end.
    pub backoff: u32,
    /// Segments under way when the stall began.
    pub outstanding: u32,
    /// Where packets were lost.
    pub lost: Place,
    /// How sure the cause is.
    pub certainty: Certainty,
    /// The frames that show the stall: the last progress, what was sent again (at most six), and what ended the stall.
    pub frames: Frames,
    /// Whether the stall was over before the capture or the connection ended.
    pub ended: bool,
}

impl Stall {
    /// Length of the stall.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// Writes a time as seconds, for JSON.
pub(crate) fn seconds<S: serde::Serializer>(at: &Instant, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f64(at.as_secs_f64())
}

/// Cause for which nothing passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QuicCause {
    /// The handshake was not answered.
    HandshakeLost,
    /// One end sent again and again, and the other was silent: packets, or what answers them, were lost.
    Starved,
    /// The datagrams were not answered: they were lost, or filtered, or the answer was.
    NoAnswer,
    /// Packets waited their turn in a queue that serves flows in turn.
    WaitsTurn,
    /// Packets waited in a queue on the way.
    Queue,
    /// The client had asked, and the server took a long time to answer.
    DataUnavailable,
    /// The client had nothing to ask.
    ClientIdle,
    /// The packets show no cause.
    Unknown,
}

impl QuicCause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::HandshakeLost,
        Self::Starved,
        Self::NoAnswer,
        Self::WaitsTurn,
        Self::Queue,
        Self::DataUnavailable,
        Self::ClientIdle,
        Self::Unknown,
    ];

    /// Names the cause in words, as the page of text does.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::HandshakeLost => "handshake lost",
            Self::Starved => "sent again and again without an answer",
            Self::NoAnswer => "no answer (lost or filtered)",
            Self::WaitsTurn => "waits its turn in a fair queue",
            Self::Queue => "queue on the way",
            Self::DataUnavailable => "server took its time",
            Self::ClientIdle => "nobody asked for anything",
            Self::Unknown => "unknown",
        }
    }

    /// Whether packets were lost, as far as can be told.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        matches!(self, Self::HandshakeLost | Self::Starved)
    }

    /// Whether packets were lost, or nothing came back at all.
    #[must_use]
    pub const fn is_loss_or_silence(self) -> bool {
        self.is_loss() || matches!(self, Self::NoAnswer)
    }
}

/// One end of a connection, by address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// Address of the end.
    pub address: IpAddr,
    /// Port of the end.
    pub port: u16,
}
