//! How many flows are active, together and in each pool: what a fair share is divided by.

use narrows_units::Instant;
use narrows_users::User;

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
    pub(crate) fn of(&self, user: User) -> usize {
        self.pools.get(user.address()).map_or(0, |p| p.state as usize)
    }

    #[inline(never)]
    pub(crate) fn add(&mut self, now: Instant, user: User) {
        self.flows += 1;
        self.join(now, user);
    }
    #[inline(never)]
    pub(crate) fn remove(&mut self, user: User) {
        self.flows -= 1;
        self.leave(user);
    }
    /// Moves a flow from the user `from` to the user `to`, when its opener turns out to be the other end.
    #[cold]
    pub(crate) fn move_over(&mut self, now: Instant, from: User, to: User) {
        self.leave(from);
        self.join(now, to);
    }

    fn join(&mut self, now: Instant, user: User) {
        match self.pools.get_mut(user.address()) {
            Some(p) => p.state += 1,
            None => drop(self.pools.insert(now, user.address(), 1, |_| false)),
        }
    }
    fn leave(&mut self, user: User) {
        if let Some(p) = self.pools.get_mut(user.address()) {
            p.state -= 1;
            if p.state == 0 {
                self.pools.remove(user.address());
            }
        }
    }
}
