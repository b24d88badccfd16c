//! Users who have nothing waiting, in the order in which they came to have none.
//!
//! Most come back soon. So they stand in no list, out of which each would have to be taken, with two neighbours that
//! are in no cache: what is noted of one stays, and counts only if nothing newer was noted of the same.

use std::collections::VecDeque;

use super::{UserList, UserState, Users};

/// So few notes are never tidied up.
const SPARE: usize = 64;

/// A note for each time a user came to have nothing waiting, the first first.
#[derive(Debug, Default)]
pub struct Idle {
    notes: VecDeque<(u32, u32)>,
    /// How many were ever made.
    made: u32,
}

impl<S> UserState<S> {
    fn rests_since(&self, note: u32) -> bool {
        self.place == UserList::Idle && self.rests == note
    }
}

impl<S> Users<S> {
    /// The user has nothing waiting from now on.
    pub(super) fn rest(&mut self, user: u32) {
        if self.idle.notes.len() >= 4 * self.slab.len() + SPARE {
            self.tidy_up();
        }
        let Self { idle, slab, .. } = self;
        idle.made = idle.made.wrapping_add(1);
        if let Some(state) = slab.get_mut(user) {
            state.rests = idle.made;
            idle.notes.push_back((user, idle.made));
        }
    }

    /// Forgets the notes that do not count. Seldom: there are three new ones for each user in between.
    #[cold]
    fn tidy_up(&mut self) {
        let Self { idle, slab, .. } = self;
        idle.notes.retain(|&(user, note)| slab.get(user).is_some_and(|u| u.rests_since(note)));
    }

    /// Who has had nothing waiting for the longest; it is noted no more.
    pub(super) fn longest_idle(&mut self) -> Option<u32> {
        while let Some((user, note)) = self.idle.notes.pop_front() {
            if self.slab.get(user).is_some_and(|u| u.rests_since(note)) {
                return Some(user);
            }
        }
        None
    }
}
