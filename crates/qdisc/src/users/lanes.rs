//! Users whose flows have a lane each: what the fair queues with lanes keep of them.

use narrows_units::Rate;
use narrows_users::{User, UserRule};

use super::Users;
use crate::Ppm;
use crate::deficit::{Carry, Place};

/// Users by the round their lanes take part in, which has the number of the user's record.
#[derive(Debug)]
pub struct LaneUsers {
    pub users: Users<()>,
    pub rule: UserRule,
    /// Bytes that a user may send in a turn.
    quantum: i32,
}

impl LaneUsers {
    /// Makes an empty table of users. At most `waiting` have packets.
    pub fn new(rule: UserRule, link: Rate, waiting: usize, quantum: i32, seed: u64) -> Self {
        // Nobody goes first, so there is nothing to share between new and old.
        Self { users: Users::new(Carry::Forget, waiting, link, Ppm::ONE, seed), rule, quantum }
    }

    /// Counts a lane of `user` that has a packet from now on. Returns the user's record.
    pub fn enter(&mut self, user: User) -> u32 {
        let at = self.users.find_or_make(user, || ((), 0));
        let state = self.users.at_mut(at);
        state.flows += 1;
        if state.turn.place() == Place::Idle {
            state.turn.deficit = self.quantum;
            self.users.join(at, Place::Old);
        }
        at
    }

    /// A packet of the user has gone; `empty` says that it was the last of its lane.
    pub fn left(&mut self, at: u32, empty: bool) {
        let state = self.users.at_mut(at);
        state.unqueued();
        state.flows -= u32::from(empty);
        if state.flows == 0 {
            self.users.leave(at);
        }
    }
}
