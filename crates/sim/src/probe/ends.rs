//! Counts of what ends of connections tell as packets come and go, which need no look at the connection.

use narrows_units::Instant;

use super::repairs::Repairs;
use super::report::{Tables, integers, share};
use super::shares::Shares;
use super::users::Users;
use crate::host_config::DATA;
use crate::qlog::Qlogs;

/// Factors on the RTO up to 2^31.
const BACKOFFS: usize = 32;

/// Counts of what ends tell.
#[derive(Debug, Default)]
pub(crate) struct EndProbe {
    /// Payload delivered in order, and the part delivered before counting began, bytes.
    delivered: u64,
    delivered_before: u64,
    pub(super) users: Users,
    pub(super) shares: Shares,
    /// Log of timeouts, fast retransmits and probes of senders, if wanted.
    pub(crate) repairs: Repairs,
    /// Logs of the first senders, if wanted.
    pub(crate) qlogs: Qlogs,
    /// Expiries of data senders' timers by the factor's logarithm.
    backoffs: [u64; BACKOFFS],
}

impl EndProbe {
    /// Counts bytes that a user got.
    #[inline]
    pub(crate) fn took(&mut self, now: Instant, user_index: u32, bytes: u64) {
        self.delivered += bytes;
        self.users.took(now, user_index);
        self.shares.took(user_index, bytes);
    }

    /// Counts an expiry of an end's timer; `backoff` is the new back-off factor.
    #[inline]
    pub(crate) fn backed_off(&mut self, end: usize, backoff: u32) {
        if end == DATA {
            self.backoffs[backoff.max(1).ilog2() as usize] += 1;
        }
    }

    /// Payload delivered in order since the beginning.
    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Payload delivered in order since counting began.
    pub(super) const fn counted(&self) -> u64 {
        self.delivered - self.delivered_before
    }

    /// Begins to count: the warm-up is over.
    pub(super) fn warm_up(&mut self, now: Instant) {
        self.users.warm_up(now);
        self.shares.warm_up();
        self.delivered_before = self.delivered;
        self.backoffs = [0; BACKOFFS];
    }

    /// Adds what another part has recorded; repairs are in order only when [`EndProbe::settle`] has put them so.
    pub(super) fn absorb(&mut self, other: Self) {
        let users = self.users.absorb(other.users);
        self.shares.absorb(other.shares, users);
        self.delivered += other.delivered;
        self.delivered_before += other.delivered_before;
        self.repairs.absorb(other.repairs);
        self.qlogs.absorb(other.qlogs);
        for (sum, n) in self.backoffs.iter_mut().zip(other.backoffs) {
            *sum += n;
        }
    }

    /// Puts in order what all parts have recorded.
    pub(super) fn settle(&mut self) {
        self.shares.settle();
        self.repairs.settle();
        self.qlogs.settle();
    }

    /// Tells of timeouts; `due` is in connections times nanoseconds.
    pub(super) fn report_timeouts(&self, due: u128, out: &mut Tables) {
        let all: u64 = self.backoffs.iter().sum();
        out.put("timeouts", all as f64);
        out.put("timeouts_per_flow_s", (due > 0).then(|| all as f64 / (due as f64 / 1e9)));
        let seen = || self.backoffs.iter().enumerate().filter(|(_, n)| **n > 0);
        out.put("backoff_max", seen().map(|(depth, _)| (1_u64 << depth) as f64).next_back());
        out.put("backoff_deep", share(self.backoffs.iter().skip(2).sum(), all));
        out.table(
            "backoffs",
            vec![
                integers("factor", seen().map(|(depth, _)| 1 << depth)),
                integers("timeouts", seen().map(|(_, n)| *n)),
            ],
        );
    }
}
