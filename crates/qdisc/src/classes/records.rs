//! Records of flows: a bounded table of small records, from which a hand that goes round evicts.
//!
//! A record with packets waiting stays. Of the next eight others under the hand goes the one that never got past its
//! first packet of data, else the one unheard of for longest: near enough to the oldest of all, and a list that is kept
//! in order would cost each packet two more lines of memory.

use narrows_lists::{Chains, NIL, Queue, chained};
use narrows_units::Instant;
use narrows_wire::FlowKey;

/// Records among which the hand chooses.
const CHOICE: usize = 8;

/// Milliseconds since the driver's epoch; they wrap after 49 days, which matters to no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Millis(pub u32);

impl Millis {
    pub(super) const fn of(now: Instant) -> Self {
        Self((now.as_nanos() / 1_000_000) as u32)
    }
    pub(super) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// Fate of a flow's last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Sent,
    /// The packet was dropped here: a flow that is silent after that waits for its timer.
    Lost,
    /// The packet had FIN or RST, and the flow is over.
    Closed,
}

/// A flow.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Record {
    pub key: FlowKey,
    pub class: u8,
    pub last: Last,
    /// Packets of data so far.
    pub count: u32,
    pub begun: Millis,
    pub seen: Millis,
    /// Packets of the flow that wait.
    pub queue: Queue,
    chain: u32,
}

const _: () = assert!(size_of::<Record>() == 64);

impl Record {
    pub(super) fn closed(&self) -> bool {
        self.last == Last::Closed
    }

    /// Notes that the last packet of the flow was dropped.
    pub(super) fn lose(&mut self) {
        if !self.closed() {
            self.last = Last::Lost;
        }
    }

    const fn new(key: FlowKey, class: u8, now: Millis) -> Self {
        Self {
            key,
            class,
            last: Last::Sent,
            count: 0,
            begun: now,
            seen: now,
            queue: Queue::EMPTY,
            chain: NIL,
        }
    }

    pub(super) const fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Begins again, as a flow nobody has heard of.
    pub(super) fn renew(&mut self, class: u8, now: Millis) {
        *self = Self { chain: self.chain, ..Self::new(self.key, class, now) };
    }
}

chained!(Record: chain);

/// The records by key.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) all: Vec<Record>,
    chains: Chains,
    seed: u64,
    capacity: usize,
    hand: usize,
}

impl Records {
    pub(super) fn new(capacity: usize, seed: u64) -> Self {
        let buckets = 1_usize << (2 * capacity).ilog2();
        Self { all: Vec::new(), chains: Chains::new(buckets), seed, capacity, hand: 0 }
    }

    pub(super) fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(self.seed)
    }

    fn bucket(&self, hash: u64) -> usize {
        (hash & (self.chains.buckets() as u64 - 1)) as usize
    }

    pub(super) fn find(&self, key: &FlowKey, hash: u64) -> Option<u32> {
        self.chains.find(&self.all, self.bucket(hash), |record| record.key == *key)
    }

    /// Makes a record for a key that has none. Tells whether another, of a flow not older than `timeout` and not
    /// closed, had to go for it.
    pub(super) fn make(
        &mut self,
        key: FlowKey,
        hash: u64,
        class: u8,
        now: Millis,
        timeout: u32,
    ) -> (u32, bool) {
        let mut lost = false;
        let at = if self.all.len() < self.capacity {
            self.all.push(Record::new(key, class, now));
            self.all.len() - 1
        } else {
            let victim = self.least_needed(now);
            let old = &self.all[victim];
            lost = !old.closed() && now.since(old.seen) <= timeout;
            let bucket = self.bucket(self.hash(&old.key));
            self.chains.remove(&mut self.all, bucket, victim as u32);
            self.all[victim] = Record::new(key, class, now);
            victim
        };
        // The capacity is far below 2^32.
        let (bucket, at) = (self.bucket(hash), at as u32);
        self.chains.push(&mut self.all, bucket, at);
        (at, lost)
    }

    /// Finds the record to evict. More records than packets may wait, so one without packets exists.
    fn least_needed(&mut self, now: Millis) -> usize {
        let mut best: Option<(bool, u32, usize)> = None;
        let mut seen = 0;
        while seen < CHOICE || best.is_none() {
            let at = self.hand;
            self.hand = if at + 1 == self.all.len() { 0 } else { at + 1 };
            seen += 1;
            let record = &self.all[at];
            if record.waits() {
                continue;
            }
            let worth = (record.count <= 1 || record.closed(), now.since(record.seen), at);
            if best.is_none_or(|b| worth > b) {
                best = Some(worth);
            }
        }
        best.map_or(0, |b| b.2)
    }

    /// Flows of each class that are not forgotten yet.
    pub(super) fn known(&self, now: Millis, timeout: u32) -> [usize; 2] {
        let mut known = [0; 2];
        for r in &self.all {
            if r.waits() || (!r.closed() && now.since(r.seen) <= timeout) {
                known[usize::from(r.class)] += 1;
            }
        }
        known
    }
}
