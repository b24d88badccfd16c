//! Fair shares (paper, section 4.2; notes, 2.4): by flow or by user first, equal or in proportion to 1 / epoch length.
//!
//! With equal shares by flow the tracker's count of active flows is all it takes. The other models keep sums of weights
//! here: a flow has weight 1, or 1 / epoch; a pool shares what it gets among its own flows by their weights.
//! A flow counts from its packet on until it has sent nothing for max(2 s, 4 epochs), or while it is silent because of
//! a loss. That is looked at when packets arrive, so it does not depend on how often the driver asks.

use std::collections::BTreeMap;

use narrows_flow::{FlowId, Phase, Tracker};
use narrows_lists::{Links, List, NIL, Slab, linked};
use narrows_units::{Duration, Instant, Rate};
use narrows_users::User;

use super::victims::steps;
use crate::taq::{FairShare, Share};

/// A flow is active for this long after a packet, or for four epochs (notes, 2.4).
const ACTIVE: Duration = Duration::from_secs(2);
const ACTIVE_EPOCHS: u64 = 4;
/// A flow that is still active after that is looked at again this much later.
const AGAIN: Duration = Duration::from_secs(1);
/// Weight 1.
const UNIT: u64 = 1024;

#[derive(Clone, Copy, Debug)]
struct FlowShare {
    weight: u64,
    pool: u32,
    generation: u32,
    /// Time of the next check whether the flow is still active.
    look_at: Instant,
    list: u8,
    links: Links,
}

linked!(FlowShare, (): links);

const OUT: FlowShare = FlowShare {
    weight: 0,
    pool: NIL,
    generation: 0,
    look_at: Instant::ZERO,
    list: NOT_LISTED,
    links: Links::NONE,
};
/// List in the order of last packets.
const RECENT: u8 = 0;
/// Looked at and still active, in the order of the next look.
const LOOKED_AT: u8 = 1;
const NOT_LISTED: u8 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct PoolShare {
    address: u128,
    weight: u64,
    flows: u32,
}

/// A fair share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Due rate in bits per second.
    pub(super) bps: u64,
    /// The due rate on the logarithmic scale of [`steps`].
    pub(super) steps: u16,
}

impl Due {
    fn new(bps: u64) -> Self {
        Self { bps, steps: steps(bps) }
    }
}

/// Active flows and the flows' weights.
#[derive(Debug)]
pub(super) struct Shares {
    link_bps: u64,
    /// The share of each among so many: most packets find it as the last left it.
    equal: (usize, Due),
    share: Share,
    fair: FairShare,
    entries: Vec<FlowShare>,
    lists: [List; 2],
    weight: u64,
    pools: Slab<PoolShare>,
    by_address: BTreeMap<u128, u32>,
}

impl Shares {
    pub(super) fn new(link: Rate, share: Share, fair: FairShare) -> Self {
        Self {
            link_bps: link.as_bps(),
            equal: (1, Due::new(link.as_bps())),
            share,
            fair,
            entries: Vec::new(),
            lists: [List::EMPTY; 2],
            weight: 0,
            pools: Slab::new(),
            by_address: BTreeMap::new(),
        }
    }

    /// Another link, or another model: then the sums start again from the next packets.
    pub(super) fn reconfigure(&mut self, link: Rate, share: Share, fair: FairShare) {
        if (share, fair) == (self.share, self.fair) {
            self.link_bps = link.as_bps();
            self.equal = (1, Due::new(link.as_bps()));
        } else {
            *self = Self::new(link, share, fair);
        }
    }

    fn is_simple(&self) -> bool {
        self.share != Share::User && self.fair == FairShare::Queueing
    }

    /// A packet of the flow arrived.
    pub(super) fn seen(&mut self, now: Instant, id: FlowId, tracker: &mut Tracker) {
        if self.is_simple() {
            return;
        }
        let flow = tracker.flow(id);
        let (generation, user) = (flow.generation(), tracker.user(id));
        let weight = match self.fair {
            FairShare::Queueing => UNIT,
            // Above 300 for the longest epoch of 3 s, below 2^31 for one of a microsecond.
            FairShare::Proportional => ((1 << 40) / flow.epoch_len().as_nanos().max(1000)).max(1),
        };
        let at = id.0 as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, OUT);
        }
        if self.entries[at].list != NOT_LISTED && self.entries[at].generation != generation {
            self.leave(id.0);
        }
        if self.entries[at].list == NOT_LISTED {
            let pool = if self.share == Share::User { self.join_pool(user) } else { NIL };
            self.entries[at] = FlowShare { pool, generation, ..OUT };
        } else {
            self.unlink(id.0);
        }
        self.set_weight(id.0, weight);
        self.link(id.0, RECENT, now + ACTIVE);
        self.expire(now, tracker);
    }

    /// The flow's fair share.
    pub(super) fn of(&mut self, id: FlowId, active_flows: usize) -> Due {
        if self.is_simple() {
            let among = active_flows.max(1);
            if self.equal.0 != among {
                self.equal = (among, Due::new(self.link_bps / among as u64));
            }
            return self.equal.1;
        }
        Due::new(self.weighted(id))
    }

    fn weighted(&self, id: FlowId) -> u64 {
        let each_pool = self.link_bps / (self.by_address.len().max(1) as u64);
        let Some(entry) = self.entries.get(id.0 as usize).filter(|e| e.list != NOT_LISTED) else {
            return each_pool;
        };
        let (link, among) = match self.pools.get(entry.pool) {
            Some(pool) => (each_pool, pool.weight),
            None => (self.link_bps, self.weight),
        };
        (u128::from(link) * u128::from(entry.weight) / u128::from(among.max(1))) as u64
    }

    fn expire(&mut self, now: Instant, tracker: &mut Tracker) {
        for list in [RECENT, LOOKED_AT] {
            while let Some(first) = self.lists[list as usize].first()
                && self.entries[first as usize].look_at <= now
            {
                let flow = tracker.flow_at(now, FlowId(first));
                let limit = ACTIVE.max(flow.epoch_len() * ACTIVE_EPOCHS);
                let silent = flow.phase().is_some_and(Phase::is_silent);
                let same = flow.generation() == self.entries[first as usize].generation;
                if same && (silent || flow.silence(now) < limit) {
                    self.unlink(first);
                    self.link(first, LOOKED_AT, now + AGAIN);
                } else {
                    self.leave(first);
                }
            }
        }
    }

    fn leave(&mut self, at: u32) {
        self.unlink(at);
        self.set_weight(at, 0);
        let entry = core::mem::replace(&mut self.entries[at as usize], OUT);
        if let Some(pool) = self.pools.get_mut(entry.pool) {
            pool.flows -= 1;
            if pool.flows == 0 {
                self.by_address.remove(&pool.address);
                self.pools.remove(entry.pool);
            }
        }
    }

    fn join_pool(&mut self, user: User) -> u32 {
        let address = user.bits();
        if let Some(&i) = self.by_address.get(&address) {
            if let Some(pool) = self.pools.get_mut(i) {
                pool.flows += 1;
            }
            return i;
        }
        let index = self.pools.insert(PoolShare { address, weight: 0, flows: 1 });
        self.by_address.insert(address, index);
        index
    }

    fn set_weight(&mut self, at: u32, weight: u64) {
        let entry = &mut self.entries[at as usize];
        let old = core::mem::replace(&mut entry.weight, weight);
        self.weight = self.weight - old + weight;
        if let Some(pool) = self.pools.get_mut(entry.pool) {
            pool.weight = pool.weight - old + weight;
        }
    }

    fn link(&mut self, at: u32, list: u8, look_at: Instant) {
        self.lists[list as usize].push_back(&mut self.entries, at);
        let entry = &mut self.entries[at as usize];
        (entry.list, entry.look_at) = (list, look_at);
    }

    fn unlink(&mut self, at: u32) {
        let list = self.entries[at as usize].list;
        self.lists[list as usize].remove(&mut self.entries, at);
    }
}

#[cfg(test)]
mod tests {
    use narrows_flow::TrackerConfig;
    use narrows_units::{Bytes, SeqNum};
    use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    struct Town {
        tracker: Tracker,
        shares: Shares,
    }

    impl Town {
        fn new(share: Share, fair: FairShare) -> Self {
            Self {
                tracker: Tracker::new(TrackerConfig::default(), 1),
                shares: Shares::new(Rate::from_kbps(600), share, fair),
            }
        }
        fn packet(&mut self, ms: u64, user: u8, port: u16) -> FlowId {
            let key = FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, user].into(), 80, port, Proto::TCP);
            let tcp = TcpHeader {
                seq: SeqNum(u32::try_from(ms).unwrap() * 1000),
                flags: Flags::ACK,
                payload: 1000,
                ..TcpHeader::default()
            };
            let header = Header { key, len: Bytes(1040), tcp: Some(tcp), ..Header::default() };
            let id = self.tracker.forward(at(ms), &header).id.unwrap();
            self.shares.seen(at(ms), id, &mut self.tracker);
            id
        }
    }

    #[test]
    fn pools_share_first_and_their_flows_after() {
        let mut t = Town::new(Share::User, FairShare::Queueing);
        let one = t.packet(0, 1, 4000);
        let three = [4000, 4001, 4002].map(|port| t.packet(0, 2, port));
        // 600 kbit/s by two users, 300 each; three flows of the second have 100 each.
        assert_eq!(t.shares.of(one, 4).bps, 300_000);
        assert_eq!(three.map(|id| t.shares.of(id, 4).bps), [100_000; 3]);
        // Two of the three rest for more than 2 s; they are looked at with the next packet.
        t.packet(1_500, 1, 4000);
        t.packet(1_500, 2, 4000);
        t.packet(2_100, 1, 4000);
        assert_eq!(t.shares.of(three[0], 4).bps, 300_000);
    }

    #[test]
    fn a_share_in_proportion_to_one_over_the_epoch() {
        let mut t = Town::new(Share::Flow, FairShare::Proportional);
        let (a, b) = (t.packet(0, 1, 4000), t.packet(0, 2, 4000));
        let (x, y) = (t.shares.of(a, 2).bps, t.shares.of(b, 2).bps);
        assert!(x == y && x.abs_diff(300_000) <= 1, "{x} {y}");
        // By hand, epochs of 100 ms and 300 ms: 3 to 1.
        t.shares.set_weight(a.0, (1 << 40) / 100_000_000);
        t.shares.set_weight(b.0, (1 << 40) / 300_000_000);
        assert!(t.shares.of(a, 2).bps.abs_diff(450_000) < 50 && t.shares.of(b, 2).bps.abs_diff(150_000) < 50);
    }

    #[test]
    fn equal_shares_by_flow_count_what_the_tracker_counts() {
        let mut t = Town::new(Share::Flow, FairShare::Queueing);
        let a = t.packet(0, 1, 4000);
        assert_eq!((t.shares.of(a, 4).bps, t.shares.of(a, 0).bps), (150_000, 600_000));
    }

    #[test]
    fn who_is_silent_because_of_a_loss_keeps_his_share() {
        let mut t = Town::new(Share::User, FairShare::Queueing);
        let lost = t.packet(0, 1, 4000);
        let header = Header {
            key: *t.tracker.flow(lost).key(),
            len: Bytes(1040),
            tcp: Some(TcpHeader { seq: SeqNum(0), flags: Flags::ACK, payload: 1000, ..TcpHeader::default() }),
            ..Header::default()
        };
        t.tracker.dropped(at(0), lost, &header);
        let other = t.packet(10, 2, 4000);
        for ms in [3_000, 6_000, 9_000] {
            t.packet(ms, 2, 4000);
        }
        assert_eq!(t.shares.of(other, 2).bps, 300_000);
    }

    #[test]
    fn who_leaves_takes_his_weight_along() {
        let mut t = Town::new(Share::User, FairShare::Queueing);
        for user in 0..200 {
            t.packet(u64::from(user) * 10, user, 4000);
        }
        t.packet(60_000, 1, 4000);
        assert_eq!((t.shares.weight, t.shares.by_address.len()), (UNIT, 1));
        assert_eq!(t.shares.pools.len(), 1);
    }
}
