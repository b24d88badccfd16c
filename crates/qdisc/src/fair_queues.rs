//! Common part of SFQ and DRR: flows sorted into lanes, of which the longest pays when all is full.
//!
//! What a packet passes through is in line, so that the packet is moved no more often than in one function.

use narrows_units::Instant;

use crate::flows_waiting::Classifier;
use crate::lanes::{Lanes, Measure};
use crate::users::{LaneUsers, user_of};
use crate::{Backlog, Counters, Packet, Report, Verdicts};

/// The lanes, who is in which, and how much may wait.
#[derive(Debug)]
pub struct FairQueues<P> {
    pub(super) classifier: Classifier,
    pub(super) lanes: Lanes<P>,
    /// The most packets that wait.
    limit: usize,
    pub(super) counters: Counters,
    /// Users of the lanes, where the link is shared between users first.
    pub(super) by_user: Option<Box<LaneUsers>>,
}

impl<P: Packet> FairQueues<P> {
    /// Empty lanes for `limit` packets, few of which are ever longer than `longest` in units of `measure`. A round adds
    /// `quantum` bytes to what a lane may send.
    pub fn new(classifier: Classifier, limit: usize, measure: Measure, longest: u64, quantum: i32) -> Self {
        let lanes = Lanes::new(classifier.lanes(), measure, longest, quantum);
        Self { classifier, lanes, limit, counters: Counters::default(), by_user: None }
    }

    /// A packet arrives. If that is one too many the longest lane loses its last.
    #[inline(always)]
    pub fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if self.classifier.changed(now) {
            self.rehash();
        }
        let own = self.place(packet);
        // More than one only after the limit was lowered.
        while self.lanes.backlog().packets > self.limit
            && let Some(lane) = self.push_out(own, verdicts)
        {
            self.left(lane);
        }
    }

    /// The longest lane pays; or, if one user has more waiting than its part of the buffer and that in several lanes,
    /// one of these.
    fn push_out(&mut self, own: usize, verdicts: &mut Verdicts<P>) -> Option<usize> {
        let user = self.by_user.as_ref().and_then(|by| by.users.beyond(self.limit));
        match user.and_then(|user| self.lanes.last_of(user)) {
            Some(lane) => self.lanes.push_out_of(lane, own, &mut self.counters, verdicts),
            None => self.lanes.push_out(own, &mut self.counters, verdicts),
        }
    }

    /// Moves every waiting packet to the lane that the new hash gives.
    #[cold]
    fn rehash(&mut self) {
        for waiting in self.lanes.drain() {
            self.place(waiting);
        }
    }

    /// Takes over what waited, and the counts. What a smaller limit has no room for goes when the next packet comes.
    pub fn follow(&mut self, before: &mut Self) {
        self.counters = core::mem::take(&mut before.counters);
        for waiting in before.lanes.drain() {
            self.place(waiting);
        }
    }

    /// All that waits.
    pub const fn backlog(&self) -> Backlog {
        self.lanes.backlog()
    }

    /// Report under the discipline's name.
    pub fn report(&self, name: &'static str) -> Report {
        Report {
            name: name.into(),
            counters: self.counters.clone(),
            backlog: self.backlog(),
            flows: self.lanes.active(),
            active_flows: self.lanes.active(),
            bytes_per_flow: Lanes::<P>::LANE_BYTES,
            ..Report::default()
        }
    }

    #[inline(always)]
    fn place(&mut self, packet: P) -> usize {
        let lane = self.classifier.lane(&packet.header().key);
        if let Some(by) = &mut self.by_user {
            if self.lanes.backlog_of(lane).packets == 0 {
                self.lanes.assign(lane, by.enter(user_of(&by.rule, &packet)));
            }
            by.users.queued(self.lanes.round_of(lane));
        }
        self.lanes.push(lane, packet);
        lane
    }

    /// Takes note that a packet of `lane` has gone.
    #[inline(always)]
    pub fn left(&mut self, lane: usize) {
        let empty = self.lanes.backlog_of(lane).packets == 0;
        if empty {
            self.classifier.emptied(lane);
        }
        if let Some(by) = &mut self.by_user {
            by.left(self.lanes.round_of(lane), empty);
        }
    }
}
