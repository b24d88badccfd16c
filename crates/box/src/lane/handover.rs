//! A direction goes over to another box, or comes from one.

use std::collections::VecDeque;

use narrows_qdisc::{Manage as _, Packet, Qdisc as _, Verdicts};
use narrows_units::Instant;

use super::LinkQueue;

/// State that another box needs to go on with a direction.
#[derive(Debug)]
pub struct LaneState<P> {
    /// Knowledge of the discipline about flows and users.
    pub knowledge: Option<Vec<u8>>,
    /// Time at which the link has sent every packet handed to the link so far.
    pub free_at: Instant,
    /// Packets that wait, first to leave first.
    pub waiting: VecDeque<P>,
    /// Packets of the other direction that admission control holds, in order.
    pub held: Vec<P>,
}

impl<P> LaneState<P> {
    /// Knowledge alone: a box that was stopped has left no packets.
    pub fn of_knowledge(knowledge: Option<Vec<u8>>) -> Self {
        Self { knowledge, free_at: Instant::ZERO, waiting: VecDeque::new(), held: Vec::new() }
    }
}

impl<P: Packet + Send + 'static> LinkQueue<P> {
    /// Exports the discipline's knowledge of flows for another discipline of the same kind.
    pub fn knowledge(&self, now: Instant) -> Option<Vec<u8>> {
        match self {
            Self::Open(_) => None,
            Self::Shaped(q) => q.export(now),
            Self::Followed(q) => q.export(now),
            Self::Watched(q) => q.export(now),
        }
    }

    /// Takes all packets out of the lane. What is left is of no use.
    pub fn take_apart(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> LaneState<P> {
        // Before packets are taken out, which would change it.
        let knowledge = self.knowledge(now);
        let free_at = if let Self::Shaped(q) = self { q.free_at() } else { Instant::ZERO };
        let held = self.release_held(now, verdicts);
        LaneState { knowledge, free_at, waiting: self.drain(now, verdicts), held }
    }

    /// Goes on where another stopped, but for what is held; for one that knows nothing yet. A discipline that is no
    /// longer the same learns nothing; what waits leaves first, in order, at this one's rate.
    pub fn resume(&mut self, now: Instant, state: LaneState<P>, verdicts: &mut Verdicts<P>) {
        let LaneState { knowledge, free_at, waiting, held: _ } = state;
        let knowledge = knowledge.as_deref();
        match self {
            Self::Open(q) => q.put_before(waiting),
            Self::Shaped(q) => {
                let _ = knowledge.is_some_and(|k| q.import(now, k));
                // No later than a full packet would take: the rate may be another.
                let link = *q.config();
                let free_at = free_at.min(now + link.rate.time_to_send(link.largest()));
                q.resume(free_at, !waiting.is_empty());
                q.inner_mut().put_before(waiting);
            }
            // The estimate of the link stays behind: the new process finds it in a few round trips.
            Self::Followed(q) => {
                let _ = knowledge.is_some_and(|k| q.import(now, k));
                q.inner_mut().put_before(waiting);
            }
            Self::Watched(q) => {
                let _ = knowledge.is_some_and(|k| q.import(now, k));
                waiting.into_iter().for_each(|packet| q.enqueue(now, packet, verdicts));
            }
        }
    }
}
