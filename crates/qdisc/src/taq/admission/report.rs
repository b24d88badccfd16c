//! Report of admission control, for status and pages.

use narrows_units::{Duration, Instant};

use super::{Admission, Rule};
use crate::taq::pools::List;
use crate::{AdmissionReport, Packet, WaitingPool};

/// Positions a report lists.
const LISTED: usize = 100;

impl<P: Packet> Admission<P> {
    /// Report with at most a hundred positions of the queue, and the waits of the last 512 pools admitted from it.
    #[must_use]
    pub fn report(&self, now: Instant, overloaded: bool) -> AdmissionReport {
        let mut waits: Vec<_> = self.past.waits.iter().copied().collect();
        waits.sort_unstable();
        // Nearest rank: the smallest wait that at least this part of them do not exceed.
        let rank = |percent: usize| waits.get((waits.len() * percent).div_ceil(100).max(1) - 1).copied();
        let queue = self.pools.iter(List::Waiting).take(LISTED).enumerate();
        AdmissionReport {
            overloaded,
            admitted: self.pools.len(List::Unproven) + self.pools.len(List::Proven),
            admissions: self.past.admissions,
            waiting: self.waiting(),
            queue: queue
                .map(|(i, p)| WaitingPool {
                    pool: p.user.to_string(),
                    position: i + 1,
                    waited: now.since(p.since),
                    expected: self.expected(now, i + 1, p.since),
                })
                .collect(),
            wait_p50: rank(50),
            wait_p99: rank(99),
        }
    }

    /// How much longer the pool at `position` waits: by the guarantee in the paper's rule, if it gives one, else by the
    /// pace of the last sixteen admissions.
    pub(super) fn expected(&self, now: Instant, position: usize, since: Instant) -> Option<Duration> {
        if let Rule::Paper { wait, .. } = self.config.rule {
            return wait.map(|wait| (since + wait).since(now));
        }
        let n = self.past.grants.len().min(16);
        let (newest, oldest) = (self.past.grants.back()?, self.past.grants.get(self.past.grants.len() - n)?);
        (n > 1).then(|| newest.since(*oldest) * position as u64 / (n as u64 - 1))
    }
}
