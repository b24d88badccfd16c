//! Lane of a packet: one of a number of buckets by hash, or one for each flow that has packets waiting.

use narrows_lists::{Chains, NIL, chained};
use narrows_units::{Duration, Instant};
use narrows_wire::FlowKey;

use crate::Buckets;

/// Lanes by flow. Only flows with packets waiting are known, so there are never more than packets.
#[derive(Debug)]
pub enum Classifier {
    /// Lanes by hash, as many as buckets; flows may meet.
    Hashed(Buckets),
    /// A lane for each flow.
    Exact(FlowsWaiting),
}

impl Classifier {
    pub fn hashed(buckets: u32, perturb: Duration, seed: u64) -> Self {
        Self::Hashed(Buckets::new(buckets, seed).perturbed(perturb))
    }
    pub fn exact(flows: usize, seed: u64) -> Self {
        Self::Exact(FlowsWaiting::new(flows, seed))
    }

    /// Number of lanes that there may be.
    pub fn lanes(&self) -> usize {
        match self {
            Self::Hashed(buckets) => buckets.count(),
            Self::Exact(flows) => flows.lanes.len(),
        }
    }

    /// See [`Buckets::changed`].
    pub fn changed(&mut self, now: Instant) -> bool {
        match self {
            Self::Hashed(buckets) => buckets.changed(now),
            Self::Exact(_) => false,
        }
    }

    /// The lane of a flow.
    pub fn lane(&mut self, key: &FlowKey) -> usize {
        match self {
            Self::Hashed(buckets) => buckets.of(key),
            Self::Exact(flows) => flows.lane(key),
        }
    }

    /// Forgets a lane in which nothing waits any more.
    pub fn emptied(&mut self, lane: usize) {
        if let Self::Exact(flows) = self {
            flows.forget(lane);
        }
    }
}

/// The flow that has a lane.
#[derive(Clone, Debug)]
struct LaneHolder {
    key: FlowKey,
    /// The next lane of the same bucket.
    next: u32,
}

chained!(LaneHolder: next);

/// Flows with packets waiting: hashed chains of lanes.
#[derive(Debug)]
pub struct FlowsWaiting {
    buckets: Buckets,
    chains: Chains,
    lanes: Vec<LaneHolder>,
    free: Vec<u32>,
}

impl FlowsWaiting {
    fn new(flows: usize, seed: u64) -> Self {
        let count = u32::try_from(flows).unwrap_or(u32::MAX).max(1);
        Self {
            buckets: Buckets::new(count, seed),
            chains: Chains::new(count as usize),
            lanes: vec![LaneHolder { key: FlowKey::default(), next: NIL }; count as usize],
            free: (0..count).rev().collect(),
        }
    }

    fn lane(&mut self, key: &FlowKey) -> usize {
        let bucket = self.buckets.of(key);
        if let Some(lane) = self.chains.find(&self.lanes, bucket, |holder| holder.key == *key) {
            return lane as usize;
        }
        let lane = self.free.pop().expect("a lane for each packet that may wait");
        self.lanes[lane as usize].key = *key;
        self.chains.push(&mut self.lanes, bucket, lane);
        lane as usize
    }

    fn forget(&mut self, lane: usize) {
        let bucket = self.buckets.of(&self.lanes[lane].key);
        self.chains.remove(&mut self.lanes, bucket, lane as u32);
        self.free.push(lane as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::Proto;

    #[test]
    fn each_flow_has_a_lane_while_it_waits() {
        let key = |n: u16| FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), n, 80, Proto::TCP);
        let mut flows = FlowsWaiting::new(64, 1);
        let lanes: Vec<_> = (0..64u16).map(|n| flows.lane(&key(n))).collect();
        let mut sorted = lanes.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..64).collect::<Vec<_>>());
        // Any order of leaving and coming back.
        for n in (0..64u16).step_by(3) {
            flows.forget(lanes[usize::from(n)]);
        }
        assert!((0..64).filter(|n| n % 3 > 0).all(|n| flows.lane(&key(n)) == lanes[usize::from(n)]));
        let others: Vec<_> = (100..122).map(|n| flows.lane(&key(n))).collect();
        assert!(others.iter().all(|l| lanes.iter().step_by(3).any(|x| x == l)));
    }
}
