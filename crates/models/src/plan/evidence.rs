//! Evidence for each conclusion, and its error where it could be compared. The commands of `docs/how-to/plan.md` make
//! the simulator's runs behind the errors again. Differences are the conclusion less the measurement, factors the
//! conclusion over the measurement.

use crate::operating::Stack;

/// Source of a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Follows from what was given.
    Arithmetic,
    /// The chain and the operating point.
    Model,
    /// Runs of the simulator.
    Simulation,
    /// Rule of thumb in the field.
    RuleOfThumb,
}

impl Basis {
    /// Names the source in a word or three.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Model => "model",
            Self::Simulation => "simulation",
            Self::RuleOfThumb => "rule of thumb",
        }
    }
}

/// Source of a conclusion, and the error of the conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Source of the conclusion.
    pub basis: Basis,
    /// Error of the conclusion against measurements, in words.
    pub error: &'static str,
}

const fn evidence(basis: Basis, error: &'static str) -> Evidence {
    Evidence { basis, error }
}

/// A model's, by the senders' stack.
const fn model(stack: Stack, linux: &'static str, rfc: &'static str) -> Evidence {
    evidence(
        Basis::Model,
        match stack {
            Stack::Linux => linux,
            Stack::Rfc => rfc,
        },
    )
}

/// The fair share.
pub const SHARE: Evidence = evidence(Basis::Arithmetic, "none");
/// The regime, by packets per round trip.
pub const REGIME: Evidence = evidence(Basis::RuleOfThumb, "boundaries are approximate");

/// Loss of drop-tail: 26 links and loads of each stack, flows that last and web objects.
#[must_use]
pub const fn loss(stack: Stack) -> Evidence {
    model(
        stack,
        "long flows -0.02 to +0.01, web objects -0.05 to +0.10",
        "long flows -0.01 to +0.03, web objects -0.01 to +0.12",
    )
}

/// Median longest stall in 600 s: the same runs, where it is 2 s and more.
#[must_use]
pub const fn stalls(stack: Stack) -> Evidence {
    model(
        stack,
        "median: long flows x0.9 to 1.3, web objects x0.8 to 1.8",
        "median: long flows x0.7 to 1.4, web objects x0.9 to 2.9",
    )
}

/// Drop-tail's buffer for a loss of [`super::P_THRESH`].
pub const BUFFER: Evidence = evidence(Basis::Model, "with it web objects lost 4 to 9 %, long flows 19 %");
/// A round of TAQ, and the longest silence of a user: 36 runs of 20 to 120 users with one connection for each object.
pub const ROUNDS: Evidence =
    evidence(Basis::Simulation, "TCP at most 2.7 rounds, TLS 3.3, QUIC 4.1 where memory sufficed");
/// Mean time of a fetch.
pub const FETCH: Evidence = evidence(Basis::Arithmetic, "under taq x0.94 to 1.06, from 1 s on");
/// Wait of a packet of a long transfer: two segments, the clamp's least, and with delayed ACKs more.
pub const WAIT: Evidence = evidence(Basis::Simulation, "least and most of medians, rounds of 1 s on");
/// Admission control of TAQ's default mode.
pub const ADMISSION: Evidence = evidence(Basis::Arithmetic, "wait x0.79 to 1.0 of the median");
/// Admission control that goes by the loss.
pub const LOSS_ADMISSION: Evidence = evidence(Basis::Model, "long flows x0.9 to 1, web objects x0.7 to 1.3");

/// Where the verdict changes: users at which a tenth is lost.
#[must_use]
pub const fn exits(stack: Stack) -> Evidence {
    model(
        stack,
        "users: long flows x0.9 to 1, web objects x0.7 to 1.3",
        "users: long flows x0.8 to 1, web objects below x0.7",
    )
}

/// The verdict.
#[must_use]
pub const fn verdict(stack: Stack) -> Evidence {
    exits(stack)
}
