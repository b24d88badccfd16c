//! Users who have nothing waiting, in the order in which they came to have none.
//!
//! Most come back soon. So they stand in no list, out of which each would have to be taken, with two neighbours that
//! are in no cache: what is noted of one stays, and counts only if nothing newer was noted of the same. Nothing newer
//! is noted within [`GRAIN`]: a user who comes and goes all the time costs nothing.

use std::collections::VecDeque;

use narrows_flow::Coarse;
use narrows_units::{Duration, Instant};

use super::{UserList, UserState, Users};

/// So few notes are never tidied up.
const SPARE: usize = 64;

/// To which the order is kept: two seconds, as that of flows is.
const GRAIN: Duration = Duration::from_nanos(1 << 31);

/// Notes of when a user came to have nothing waiting, the first first.
#[derive(Debug, Default)]
pub struct Idle {
    notes: VecDeque<(u32, Coarse)>,
}

impl Idle {
    /// The user, of which this is the record, has nothing waiting from now on.
    #[inline]
    pub(super) fn note<S>(&mut self, now: Instant, user: u32, state: &mut UserState<S>) {
        let now = Coarse::at(now);
        if !state.noted || now.since(state.rests) >= GRAIN {
            (state.rests, state.noted) = (now, true);
            self.notes.push_back((user, now));
        }
    }
}

impl<S> UserState<S> {
    fn is_noted(&self, at: Coarse) -> bool {
        self.noted && self.rests == at
    }
}

impl<S> Users<S> {
    /// After a note: forgets those that do not count. Seldom: there are three new ones for each user in between.
    #[inline]
    pub(super) fn tidy_up(&mut self) {
        if self.idle.notes.len() > 4 * self.slab.len() + SPARE {
            let Self { idle, slab, .. } = self;
            idle.notes.retain(|&(user, at)| slab.get(user).is_some_and(|u| u.is_noted(at)));
        }
    }

    /// Who has had nothing waiting for the longest; it is noted no more.
    pub(super) fn longest_idle(&mut self) -> Option<u32> {
        while let Some((user, at)) = self.idle.notes.pop_front() {
            let Some(state) = self.slab.get_mut(user).filter(|u| u.is_noted(at)) else { continue };
            state.noted = false;
            if state.place == UserList::Idle {
                return Some(user);
            }
        }
        None
    }
}
