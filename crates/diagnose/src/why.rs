//! Answer to "why was this said of that frame?": the evidence, and the row of the table that decided.

use serde::Serialize;

use narrows_units::Instant;

use crate::evidence::{HandshakeEvidence, Item, QuietEvidence, RepairEvidence, SilenceEvidence};
use crate::findings::{Cause, Certainty, Repair, seconds};
use crate::judge::{
    CAUSES, HANDSHAKES, HandshakeRow, JudgeRow, QUIETS, QuietRow, REPAIRS, RepairRow, SilenceVerdict,
};

/// Subject of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Data that was sent again, and the reason of the sender.
    Retransmission(Repair),
    /// A silence, and the cause of the silence.
    Silence(Cause),
}

/// A verdict, with the evidence that led to the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// Time of the verdict: that of the packet sent again, or of the end of the silence.
    #[serde(rename = "at_s", serialize_with = "seconds")]
    pub at: Instant,
    /// End whose data the verdict is about: 0 for the end that opened the connection.
    pub by: u8,
    /// Subject of the verdict, and the verdict.
    pub said: Subject,
    /// Certainty of the verdict.
    pub certainty: Certainty,
    /// Place of the row that decided, from 1.
    pub row: usize,
    /// Number of rows of the row's table.
    pub of: usize,
    /// Name of the row.
    pub name: &'static str,
    /// Source of the row.
    pub source: &'static str,
    /// Evidence that the table was asked with.
    pub evidence: Vec<Item>,
}

/// Place of a row in the row's table.
struct Placed {
    row: usize,
    of: usize,
    name: &'static str,
    source: &'static str,
}

impl Placed {
    fn in_table<E, V>(rows: &[JudgeRow<E, V>], row: &JudgeRow<E, V>) -> Self {
        let at = rows.iter().position(|r| core::ptr::eq(r, row)).unwrap_or(0);
        Self { row: at + 1, of: rows.len(), name: row.name, source: row.source }
    }

    /// The verdict on a subject, whose data is that of one end.
    fn says(self, at: Instant, by: u8, said: Subject, certainty: Certainty, evidence: Vec<Item>) -> Why {
        let Self { row, of, name, source } = self;
        Why { at, by, said, certainty, row, of, name, source, evidence }
    }
}

impl Why {
    pub(crate) fn repair(at: Instant, by: u8, e: &RepairEvidence, row: &'static RepairRow) -> Self {
        let (repair, certainty) = row.then;
        Placed::in_table(&REPAIRS, row).says(at, by, Subject::Retransmission(repair), certainty, e.items())
    }

    pub(crate) fn silence(at: Instant, by: u8, e: &SilenceEvidence, found: SilenceVerdict) -> Self {
        let SilenceVerdict { row, cause, certainty } = found;
        Placed::in_table(&CAUSES, row).says(at, by, Subject::Silence(cause), certainty, e.items())
    }

    pub(crate) fn quiet(at: Instant, by: u8, e: &QuietEvidence, row: &'static QuietRow) -> Self {
        let (cause, certainty) = row.then;
        Placed::in_table(&QUIETS, row).says(at, by, Subject::Silence(cause), certainty, e.items())
    }

    pub(crate) fn handshake(at: Instant, by: u8, e: &HandshakeEvidence, row: &'static HandshakeRow) -> Self {
        let (cause, _, certainty) = row.then;
        Placed::in_table(&HANDSHAKES, row).says(at, by, Subject::Silence(cause), certainty, e.items())
    }
}

/// The frame that is asked about, and the verdicts on the frame so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    frame: Option<u64>,
    whys: Vec<Why>,
}

impl Asked {
    pub(crate) fn about(frame: Option<u64>) -> Self {
        Self { frame, whys: Vec::new() }
    }

    /// Says whether the frame that is asked about is among `frames`.
    pub(crate) fn among(&self, mut frames: impl Iterator<Item = u64>) -> bool {
        self.frame.is_some_and(|frame| frames.any(|f| f == frame))
    }

    /// Takes a verdict down.
    pub(crate) fn note(&mut self, why: Why) {
        self.whys.push(why);
    }

    pub(crate) fn take(&mut self) -> Vec<Why> {
        core::mem::take(&mut self.whys)
    }
}
