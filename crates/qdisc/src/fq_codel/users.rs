//! Users of FQ-CoDel: which queue is whose.

use narrows_users::UserRule;

use super::FqCodelConfig;
use super::{FqCodelFlow, retire};
use crate::cake::{Found, Ways};
use crate::deficit::{Carry, DeficitScheduler, Place};
use crate::users::{Users, user_of};
use crate::{Dice, Packet, Ppm, ShaperConfig};

/// Users, and the queues of the users' flows.
#[derive(Debug)]
pub struct FqUsers {
    pub users: Users<DeficitScheduler>,
    rule: UserRule,
    quantum: i32,
    salt: u64,
    ways: Ways,
    /// The user's record, by queue.
    of: Vec<u32>,
    /// Whether a queue holds packets of flows that found no queue of their own, for each queue.
    guests: Vec<bool>,
}

impl FqUsers {
    pub fn new(config: &FqCodelConfig, link: &ShaperConfig, seed: u64) -> Self {
        let ways = Ways::new(config.flows as usize);
        // At most as many users as queues are in a list.
        let users = Users::new(Carry::Keep, config.flows as usize, link.rate, Ppm::ONE, seed);
        Self {
            users,
            rule: config.users(link),
            quantum: i32::try_from(config.quantum).unwrap_or(i32::MAX),
            salt: Dice::new(seed).roll(),
            of: vec![u32::MAX; ways.len()],
            guests: vec![false; ways.len()],
            ways,
        }
    }

    /// The queue of a packet; `taken` tells which are in a list. Where a flow has to share another's, that one's user
    /// pays for it.
    pub fn place<P: Packet>(&mut self, packet: &P, taken: impl Fn(usize) -> bool) -> usize {
        let guests = &self.guests;
        let found = self.ways.find(packet.header().key.hash(self.salt), &taken, |at| guests[at]);
        let at = found.index();
        if matches!(found, Found::Shared(_)) {
            self.guests[at] = true;
        }
        if !taken(at) {
            self.guests[at] = false;
            self.of[at] =
                self.users.find_or_make(user_of(&self.rule, packet), || (DeficitScheduler::EMPTY, 0));
        }
        at
    }

    /// The lists of the user of a queue.
    pub fn lists(&mut self, at: usize) -> &mut DeficitScheduler {
        &mut self.users.at_mut(self.of[at]).lists
    }

    /// Notes an arrival in a queue.
    pub fn pushed(&mut self, at: usize) {
        let user = self.of[at];
        self.users.queued(user);
        let state = self.users.at_mut(user);
        if state.turn.place() == Place::Idle {
            (state.turn.credit, state.turn.deficit) = (self.quantum, 0);
            self.users.join(user, Place::New);
        }
    }

    /// A packet has left a queue.
    pub fn popped(&mut self, at: usize) {
        self.users.at_mut(self.of[at]).unqueued();
    }

    /// The user's turn found nothing: a new one becomes old, an old one leaves.
    pub fn rest(&mut self, user: u32, flows: &mut Vec<FqCodelFlow>) {
        self.users.linger(user);
        let state = self.users.at_mut(user);
        if state.turn.place() == Place::Idle {
            while let Some(at) = state.lists.anybody() {
                state.lists.leave(flows, at);
            }
        }
    }

    /// Lets all users leave, since no packet waits.
    pub fn retire(&mut self, flows: &mut Vec<FqCodelFlow>) {
        while let Some(user) = self.users.anybody() {
            retire(&mut self.users.at_mut(user).lists, flows);
            self.users.leave(user);
        }
    }
}
