//! Counts and instants of a connection: what came, when, and how long it was waited for.

use narrows_units::{Duration, Instant};

/// An instant that may not have come: half as long as an `Option<Instant>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OptionalInstant(Instant);

impl OptionalInstant {
    pub(crate) const NEVER: Self = Self(Instant::FAR_FUTURE);

    pub(crate) const fn at(at: Instant) -> Self {
        Self(at)
    }
    pub(crate) fn come(self) -> Option<Instant> {
        (self != Self::NEVER).then_some(self.0)
    }
    /// Sets the instant to `now` unless an earlier instant is set.
    pub(crate) fn note(&mut self, now: Instant) {
        self.0 = self.0.min(now);
    }
}

impl Default for OptionalInstant {
    fn default() -> Self {
        Self::NEVER
    }
}

/// Measurements of one connection, in simulated time. Fields that change with every delivery come first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FlowStats {
    /// Payload delivered in order.
    pub(crate) delivered: u64,
    pub(crate) acked: u64,
    /// The last delivery of data; before any, or when data became due after all had been delivered, that instant.
    pub(crate) last_delivery: Instant,
    /// The longest time without a delivery while data was due, from the first delivery on.
    pub(crate) longest_stall: Duration,
    /// The first delivery of data.
    pub(crate) first_delivery: OptionalInstant,
    /// Wait for the first delivery, from the time at which the data became due.
    pub(crate) first_stall: Duration,
    /// Time at which the receiver had all data in order.
    pub(crate) delivered_at: OptionalInstant,
    /// Time at which all data was acknowledged to the sender.
    pub(crate) acked_at: OptionalInstant,
    /// Time at which the first connection for this transfer was opened: this one, unless earlier ones failed.
    pub(crate) first_attempt: Instant,
    pub(crate) opened: Instant,
    pub(crate) established: OptionalInstant,
    /// Time at which data became due after all before it had been delivered: the first attempt, or a write.
    pub(crate) due_since: Instant,
    /// Row among the flows of the probes, if the flow lasts; [`NO_ROW`] otherwise.
    pub(crate) row: u32,
    /// Connections for this transfer that failed before this one, as far as they can be counted here.
    pub(crate) retries: u16,
    /// Whether the application wrote while the connection was open.
    pub(crate) written: bool,
    pub(crate) failed: bool,
}

/// The place of what is not among the flows of the probes.
pub(crate) const NO_ROW: u32 = u32::MAX;

impl FlowStats {
    /// Starts the measurements of a connection opened `now`; `first_attempt` is when its transfer was first tried.
    pub(crate) fn new(now: Instant, first_attempt: Instant, retries: u32) -> Self {
        Self {
            first_attempt,
            opened: now,
            established: OptionalInstant::NEVER,
            delivered_at: OptionalInstant::NEVER,
            acked_at: OptionalInstant::NEVER,
            delivered: 0,
            acked: 0,
            first_delivery: OptionalInstant::NEVER,
            last_delivery: first_attempt,
            first_stall: Duration::ZERO,
            longest_stall: Duration::ZERO,
            due_since: first_attempt,
            row: NO_ROW,
            retries: u16::try_from(retries).unwrap_or(u16::MAX),
            written: false,
            failed: false,
        }
    }

    /// Data was delivered.
    #[inline]
    pub(crate) fn took(&mut self, now: Instant, bytes: u64) {
        let stall = now.since(self.last_delivery);
        if self.delivered == 0 {
            self.first_delivery = OptionalInstant::at(now);
            self.first_stall = stall;
        } else {
            self.longest_stall = self.longest_stall.max(stall);
        }
        self.last_delivery = now;
        self.delivered += bytes;
    }

    /// Data is due, and nothing was.
    pub(crate) fn wants(&mut self, now: Instant) {
        (self.last_delivery, self.due_since) = (now, now);
    }
}
