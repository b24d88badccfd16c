//! Colours of causes, told apart by colour-blind eyes as far as so many can be: losses warm, waits in a queue steel
//! blue, what no network is to blame for cool, what is not known grey.

use narrows_diagnose::{Cause, Repair};

pub const DATA: &str = "#3b4654";
pub const ACK: &str = "#009e73";
pub const WINDOW: &str = "#c9a400";
pub const SACK: &str = "#8e44ad";

pub const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::DataUnavailable => "#56b4e9",
        Cause::ClientIdle => "#e8edf1",
        Cause::ZeroWindow => "#0072b2",
        Cause::HandshakeLost => "#1b1f24",
        Cause::DoubleRetransmission => "#a50f15",
        Cause::TailLoss => "#e69f00",
        Cause::SmallCongestionWindow => "#e8602c",
        Cause::SmallReceiveWindow => "#7b3294",
        Cause::ContinuousLoss => "#cc79a7",
        Cause::AckDelayedOrLost => "#009e73",
        Cause::PacketDelay => "#b5a642",
        Cause::Closing => "#7f8a94",
        Cause::AnswerLost => "#8c510a",
        Cause::NoAnswer => "#c49c78",
        Cause::WaitsTurn => "#a9bdd3",
        Cause::QueueBefore => "#6f93ba",
        Cause::QueueBehind => "#3f6690",
        Cause::Unknown => "#b3afa8",
    }
}

/// Colour of a cause, light enough to lie behind lines.
pub const fn shade(cause: Cause) -> &'static str {
    match cause {
        Cause::DataUnavailable => "#e4f2fc",
        Cause::ClientIdle => "#f5f7f9",
        Cause::ZeroWindow => "#d6e6f2",
        Cause::HandshakeLost => "#dcdee0",
        Cause::DoubleRetransmission => "#f6dcdd",
        Cause::TailLoss => "#fbefd3",
        Cause::SmallCongestionWindow => "#fde4da",
        Cause::SmallReceiveWindow => "#ebdcf0",
        Cause::ContinuousLoss => "#f7e6ef",
        Cause::AckDelayedOrLost => "#d9f0e8",
        Cause::PacketDelay => "#f3f0dc",
        Cause::Closing => "#e8eaec",
        Cause::AnswerLost => "#eaddcf",
        Cause::NoAnswer => "#f3ebe4",
        Cause::WaitsTurn => "#eef2f6",
        Cause::QueueBefore => "#e3eaf1",
        Cause::QueueBehind => "#d7e0e9",
        Cause::Unknown => "#f0efed",
    }
}

/// Reason of a retransmission in words, and its colour.
pub const fn repair(repair: Option<Repair>) -> (&'static str, &'static str) {
    match repair {
        Some(Repair::Timeout) => ("timeout", "#a50f15"),
        Some(Repair::AfterTimeout) => ("after a timeout", "#f16913"),
        Some(Repair::FastRetransmit | Repair::Recovery) => ("fast retransmit, recovery", "#e69f00"),
        Some(Repair::Probe) => ("tail-loss probe", "#d6279b"),
        Some(Repair::Handshake | Repair::Unknown) | None => ("sent again, or overtaken", "#56b4e9"),
    }
}
