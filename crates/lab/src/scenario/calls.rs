//! Calls, as the lab's workers are told: which users make them, and what both ends send.

use narrows_scenario::calls::{CallShape, Pattern};
use narrows_scenario::{Scenario, TrafficKind};
use narrows_units::Duration;
use serde::{Deserialize, Serialize};

use super::{Span, text};

/// Serde by the word of a pattern.
mod pattern {
    use narrows_scenario::calls::Pattern;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(value: &Pattern, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(value.word())
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Pattern, D::Error> {
        let word = String::deserialize(d)?;
        Pattern::ALL.into_iter().find(|p| p.word() == word).ok_or_else(|| D::Error::custom(word))
    }
}

/// Calls that are alike, each by another user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calls {
    /// The user who makes the first: users of other traffic, or numbers after all of theirs.
    pub first: u32,
    /// Number of calls.
    pub flows: u32,
    /// IP bytes of a packet to the user.
    pub down: u32,
    /// IP bytes of a packet from the user.
    pub up: u32,
    /// Nanoseconds from a packet to the next.
    pub interval_ns: u64,
    /// When packets are sent.
    #[serde(with = "pattern")]
    pub pattern: Pattern,
    /// DSCP of the calls' packets, 0 to 63.
    pub dscp: u8,
    /// Time at which the calls begin.
    #[serde(with = "text")]
    pub start: Span,
    /// Time at which the calls end.
    #[serde(with = "text")]
    pub stop: Span,
}

impl Calls {
    /// Packets that both ends send.
    #[must_use]
    pub const fn call(&self) -> CallShape {
        CallShape {
            down: self.down,
            up: self.up,
            interval: Duration::from_nanos(self.interval_ns),
            pattern: self.pattern,
        }
    }

    /// Calls of a scenario, and the number of users of all its traffic.
    pub(super) fn of(scenario: &Scenario) -> (Vec<Self>, u32) {
        let is_call = |kind: &TrafficKind| matches!(kind, TrafficKind::Calls { .. });
        // Users of traffic are numbered first, then those who do nothing but call.
        let others = || scenario.traffic.iter().filter(|t| !is_call(&t.kind));
        let (mut next, mut alone) = (0, others().fold(0_u32, |sum, t| sum.saturating_add(t.users())));
        let mut firsts: Vec<u32> = Vec::new();
        let mut all = Vec::new();
        for t in &scenario.traffic {
            let own = if is_call(&t.kind) { &mut alone } else { &mut next };
            let first = match t.beside {
                Some(other) => firsts[other],
                None => std::mem::replace(own, own.saturating_add(t.users())),
            };
            firsts.push(first);
            if let TrafficKind::Calls { flows, call } = t.kind {
                all.push(Self {
                    first,
                    flows,
                    down: call.down,
                    up: call.up,
                    interval_ns: call.interval.as_nanos(),
                    pattern: call.pattern,
                    dscp: t.dscp.get(),
                    start: t.start.into(),
                    stop: t.stop.into(),
                });
            }
        }
        (all, alone)
    }
}
