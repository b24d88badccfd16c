//! How many flows are active, together and in each pool: what a fair share is divided by.

use core::net::IpAddr;

use narrows_units::Instant;

use crate::flow::Flow;
use crate::pools::Pools;

/// Counts kept as flows come and go.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    flows: usize,
    /// Active flows of each pool that has any. As many pools as flows are possible, so there is always room.
    pools: Pools<u32>,
}

impl Active {
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        Self { flows: 0, pools: Pools::new(capacity, seed) }
    }
    pub(crate) const fn flows(&self) -> usize {
        self.flows
    }
    pub(crate) const fn pools(&self) -> usize {
        self.pools.len()
    }
    pub(crate) fn in_pool(&self, pool: IpAddr) -> usize {
        self.pools.get(pool).map_or(0, |p| p.state as usize)
    }

    pub(crate) fn add(&mut self, now: Instant, flow: &Flow) {
        self.flows += 1;
        self.join(now, flow.pool());
    }
    pub(crate) fn remove(&mut self, flow: &Flow) {
        self.flows -= 1;
        self.leave(flow.pool());
    }
    /// It turned out that the other end opened the connection.
    pub(crate) fn move_over(&mut self, now: Instant, flow: &Flow) {
        let (src, dst) = (flow.key().src(), flow.key().dst());
        let (from, to) = if flow.pool_is_dst() { (src, dst) } else { (dst, src) };
        self.leave(from);
        self.join(now, to);
    }

    fn join(&mut self, now: Instant, pool: IpAddr) {
        match self.pools.get_mut(pool) {
            Some(p) => p.state += 1,
            None => drop(self.pools.insert(now, pool, 1, |_| false)),
        }
    }
    fn leave(&mut self, pool: IpAddr) {
        if let Some(p) = self.pools.get_mut(pool) {
            p.state -= 1;
            if p.state == 0 {
                self.pools.remove(pool);
            }
        }
    }
}
