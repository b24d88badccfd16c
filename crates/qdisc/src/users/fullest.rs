//! Who has most packets waiting: where room is short, it pays.

use narrows_lists::Arena as _;

use super::{UserState, Users};

impl<S> UserState<S> {
    /// A packet of the user waits no longer.
    pub const fn unqueued(&mut self) {
        self.packets -= 1;
    }
}

impl<S> Users<S> {
    /// A packet of the user waits from now on.
    pub fn queued(&mut self, user: u32) {
        let state = self.slab.at_mut(user);
        state.packets += 1;
        let packets = state.packets;
        if self.slab.get(self.fullest).is_none_or(|f| f.packets < packets) {
            self.fullest = user;
        }
    }

    /// Whether nothing of the user waits.
    pub fn is_empty(&self, user: u32) -> bool {
        self.at(user).packets == 0
    }

    /// The user with most packets waiting, if they are of several flows and more than its part of `limit`. Where room
    /// is short it pays: many flows with little each must not push out those who have one.
    pub fn beyond(&self, limit: usize) -> Option<u32> {
        let fullest = self.fullest()?;
        let state = self.at(fullest);
        let several = state.flows > 1 && state.packets as usize * self.with_packets() > limit;
        several.then_some(fullest)
    }

    /// Who has most packets waiting, or nearly.
    pub(super) fn fullest(&self) -> Option<u32> {
        self.slab.get(self.fullest).filter(|f| f.packets > 0).map(|_| self.fullest)
    }
}
