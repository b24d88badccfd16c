//! Who is turned away, and who is forgotten.

use narrows_units::Instant;

use super::{Admission, Decisions, PATIENCE, Rule};
use crate::taq::PoolId;
use crate::taq::pools::List;
use crate::{Packet, Verdict};

impl<P: Packet> Admission<P> {
    /// Whether a pool can be added, if need be at the cost of one that proved nothing, of one that has long been idle,
    /// or of one that gave up.
    pub(super) fn make_room(&mut self, now: Instant, decisions: &mut Decisions<'_, P>) -> bool {
        if !self.pools.is_full() {
            return true;
        }
        let idle = |list| {
            let first = self.pools.first(list)?;
            self.pools.get(first).filter(|p| now.since(p.seen) > PATIENCE).map(|_| first)
        };
        let victim = self.pools.first(List::Unproven).or_else(|| idle(List::Proven));
        if let Some(victim) = victim {
            self.pools.remove(victim);
        } else if let Some(gone) = idle(List::Waiting) {
            self.dismiss(now, gone, decisions);
        }
        !self.pools.is_full()
    }

    /// Those at the head of the wait queue who no longer ask, and those who left: at most a few for each request.
    pub(super) fn forget_the_gone(&mut self, now: Instant, decisions: &mut Decisions<'_, P>) {
        for list in [List::Waiting, List::Unproven, List::Proven] {
            for _ in 0..4 {
                let Some(first) = self.pools.first(list) else { break };
                if self.pools.get(first).is_none_or(|p| now.since(p.seen) <= PATIENCE) {
                    break;
                }
                self.dismiss(now, first, decisions);
            }
        }
    }

    pub(super) fn dismiss(&mut self, now: Instant, id: PoolId, decisions: &mut Decisions<'_, P>) {
        let Some(gone) = self.pools.remove(id) else { return };
        for (_, packet) in gone.held {
            self.held -= 1;
            self.refuse(now, None, packet, decisions);
        }
    }

    pub(super) fn refuse(
        &mut self,
        now: Instant,
        id: Option<PoolId>,
        packet: P,
        decisions: &mut Decisions<'_, P>,
    ) -> Option<P> {
        decisions.counters.refused += 1;
        let pool = id.and_then(|id| self.pools.get(id));
        // One there is no room for would stand at the end.
        let position = pool.map_or(self.waiting() + 1, |p| self.position(p.data.ticket));
        let expected = self.expected(now, position, pool.map_or(now, |p| p.since));
        let retry_after = expected.unwrap_or(match self.config.rule {
            // The paper names no pause; its clients knock all the time (5.5).
            Rule::Paper { join, wait } => wait.unwrap_or(join),
            Rule::WaitQueue { pace, guarantee, .. } => guarantee.unwrap_or(pace),
        });
        decisions.verdicts.push(Verdict::Refused { packet, position, retry_after });
        None
    }

    /// The position of a waiting pool, from 1. Where SYNs are dropped pools also leave from the middle of the queue: it
    /// may be less then.
    pub(super) fn position(&self, ticket: u64) -> usize {
        let first = self.pools.first(List::Waiting).and_then(|id| self.pools.get(id));
        let before = first.map_or(0, |first| ticket.saturating_sub(first.data.ticket));
        usize::try_from(before + 1).unwrap_or(usize::MAX).min(self.waiting())
    }
}
