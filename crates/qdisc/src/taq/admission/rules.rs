//! Whose a pool is, and who is admitted when.

use narrows_units::{Duration, Instant};
use narrows_users::{User, UserRule};

use super::{Admission, Load, RETURN_TIME, Rule, SynDirection};
use crate::Packet;
use crate::taq::PoolId;
use crate::taq::pools::List;

use super::PATIENCE;

impl<P: Packet> Admission<P> {
    /// Whose request this is.
    #[must_use]
    pub fn user(&self, way: SynDirection, packet: &P) -> User {
        let key = packet.header().key;
        // The rule is for packets of the queue's own direction.
        let rule = |users: &UserRule| match way {
            SynDirection::Own => users.user(&key, Some(false)),
            SynDirection::Reverse => users.user(&key.reverse(), Some(true)),
        };
        packet.circuit().map_or_else(|| rule(&self.config.users), User::circuit)
    }

    /// The pool of a packet's flow, if it is known: keep it beside the flow for [`Admission::refresh`] or
    /// [`Admission::prove`]. `by_destination` tells who opened the connection.
    #[must_use]
    pub fn of_flow(&self, packet: &P, by_destination: bool) -> Option<PoolId> {
        let by_rule = || self.config.users.user(&packet.header().key, Some(by_destination));
        self.pools.find(packet.circuit().map_or_else(by_rule, User::circuit))
    }

    /// The pool of an address.
    #[cfg(test)]
    pub(crate) fn pool(&self, address: core::net::IpAddr) -> Option<PoolId> {
        self.pools.find(User::of(address, 128))
    }

    pub(super) fn is_member(&self, now: Instant, id: PoolId) -> bool {
        self.pools.get(id).is_some_and(|p| match self.config.rule {
            _ if p.data.granted => now.since(p.seen) <= PATIENCE,
            Rule::Paper { join, .. } => now.since(p.since) < join,
            Rule::WaitQueue { idle, .. } => now.since(p.seen) < idle,
        })
    }

    pub(super) fn may_enter(&self, now: Instant, load: Load, id: PoolId) -> bool {
        let passed = |d: Duration| self.past.last_admission.is_none_or(|t| now >= t + d);
        match self.config.rule {
            Rule::Paper { wait, .. } => {
                let waited = |wait| self.pools.get(id).is_some_and(|p| now.since(p.since) >= wait);
                !load.overloaded || wait.is_some_and(waited)
            }
            Rule::WaitQueue { pace, guarantee, rounds, .. } => {
                if load.overloaded {
                    let since = self.pools.get(id).map_or(Instant::FAR_FUTURE, |p| p.since);
                    let waited_long = now >= Self::patience_ends(since, rounds, load);
                    guarantee.is_some_and(passed) || waited_long && passed(self.pace(pace))
                } else {
                    passed(self.pace(pace))
                }
            }
        }
    }

    /// When a pool that came at `since` has waited long enough, compared with those admitted.
    pub(super) fn patience_ends(since: Instant, rounds: u32, load: Load) -> Instant {
        if rounds == 0 { Instant::FAR_FUTURE } else { since + load.round * u64::from(rounds) }
    }

    pub(super) fn new_may_enter(&self, now: Instant, load: Load) -> bool {
        match self.config.rule {
            Rule::Paper { .. } => !load.overloaded,
            Rule::WaitQueue { pace, .. } => {
                !load.overloaded
                    && self.pools.len(List::Waiting) == 0
                    && self.past.last_admission.is_none_or(|t| now >= t + self.pace(pace))
            }
        }
    }

    pub(super) fn pace(&self, pace: Duration) -> Duration {
        if self.past.awaited { pace.max(RETURN_TIME) } else { pace }
    }

    /// Whether a SYN that has to wait is held.
    pub(super) fn is_held(&self, packet: &P) -> bool {
        self.config.hold && !packet.answerable()
    }
}
