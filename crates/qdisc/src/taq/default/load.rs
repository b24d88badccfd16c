//! Connections that were admitted and have nothing to send yet, and by what rule others are.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};
use narrows_users::User;

use crate::ShaperConfig;
use crate::taq::admission::{AdmissionConfig, Rule};
use crate::taq::{Common, DefaultConfig, WaitingSyn};

/// Time for which a connection counts as coming: a handshake and a request over a long path.
const COMING: Duration = Duration::from_secs(1);
/// Connections that can be coming at once: more than are ever admitted.
const MOST_COMING: usize = 4096;
/// Connections of one user that can be coming: more than a page opens at once, so that a flood of requests is no
/// crowd.
const MOST_OF_ONE: usize = 16;

/// Connections admitted a moment ago, the first first.
#[derive(Debug, Default)]
pub struct Coming {
    /// Times at which pools were admitted, each with its user. The user of one that another box has handed over is not
    /// known.
    admitted: VecDeque<(Instant, Option<User>)>,
}

impl Coming {
    /// Number of connections that are coming.
    pub fn count(&self, now: Instant) -> usize {
        self.admitted.len() - self.gone(now)
    }

    /// Time at which [`Self::count`] may next change by time alone: the first of them is no longer counted then.
    pub fn next_change(&self, now: Instant) -> Instant {
        self.admitted.get(self.gone(now)).map_or(Instant::FAR_FUTURE, |(at, _)| *at + COMING)
    }

    fn gone(&self, now: Instant) -> usize {
        self.admitted.partition_point(|(at, _)| now.since(*at) >= COMING)
    }

    /// Notes a connection that was admitted, of a user of whom nothing else is active.
    pub fn note(&mut self, now: Instant, user: User) {
        let of_late = self.admitted.iter().rev().take_while(|(at, _)| now.since(*at) < COMING);
        let of_one = of_late.filter(|(_, other)| *other == Some(user));
        if of_one.take(MOST_OF_ONE).count() == MOST_OF_ONE {
            return;
        }
        while self.admitted.front().is_some_and(|(at, _)| now.since(*at) >= COMING)
            || self.admitted.len() >= MOST_COMING
        {
            self.admitted.pop_front();
        }
        self.admitted.push_back((now, Some(user)));
    }

    /// Times at which connections were admitted, for another process.
    #[cfg(feature = "handover")]
    pub fn known(&self) -> VecDeque<Instant> {
        self.admitted.iter().map(|(at, _)| *at).collect()
    }

    /// Goes on with what another process knew.
    #[cfg(feature = "handover")]
    pub fn learn(admitted_at: VecDeque<Instant>) -> Self {
        Self { admitted: admitted_at.into_iter().map(|at| (at, None)).collect() }
    }
}

/// The wait queue. A pool joins its own earlier connections for `t_pool`. After that it waits like any other, or those
/// who are admitted would stay so for as long as they have something to ask for.
pub fn admission_config(common: &Common, config: &DefaultConfig, link: &ShaperConfig) -> AdmissionConfig {
    AdmissionConfig {
        rule: Rule::WaitQueue {
            idle: common.t_pool,
            pace: Duration::ZERO,
            guarantee: Some(common.t_wait),
            rounds: config.wait_rounds,
        },
        hold: common.waiting_syn != WaitingSyn::Drop,
        pools: common.pools as usize,
        users: common.users(link, common.by_user()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn user(n: u8) -> User {
        User::of([10, 0, 0, n].into(), 128)
    }

    #[test]
    fn a_connection_is_coming_for_a_second() {
        let mut coming = Coming::default();
        coming.note(at(0), user(1));
        coming.note(at(400), user(2));
        assert_eq!((coming.count(at(999)), coming.next_change(at(999))), (2, at(1000)));
        assert_eq!((coming.count(at(1000)), coming.next_change(at(1000))), (1, at(1400)));
        assert_eq!((coming.count(at(1400)), coming.next_change(at(1400))), (0, Instant::FAR_FUTURE));
    }

    #[test]
    fn sixteen_of_one_user_count() {
        let mut coming = Coming::default();
        (0..20).for_each(|n| coming.note(at(n), user(1)));
        assert_eq!(coming.count(at(20)), 16);
        coming.note(at(21), user(2));
        assert_eq!(coming.count(at(21)), 17);
        // The first four of the sixteen are gone.
        coming.note(at(1004), user(1));
        assert_eq!(coming.count(at(1004)), 13);
    }
}
