//! Users who have nothing waiting, in the order in which they came to have none.
//!
//! Most come back soon. So they stand in no list, out of which each would have to be taken, with two neighbours that
//! are in no cache: what is noted of one stays, and counts only if nothing newer was noted of the same. Nothing newer
//! is noted within [`GRAIN`]: a user who comes and goes all the time costs nothing.

use std::collections::VecDeque;

use narrows_flow::Coarse;
use narrows_lists::Slab;
use narrows_units::{Duration, Instant};

use super::UserState;
use crate::deficit::Place;

/// Number of notes below which none is tidied up.
const SPARE: usize = 64;

/// Precision of the order: two seconds, as that of flows is.
const GRAIN: Duration = Duration::from_nanos(1 << 31);

/// Notes of when a user came to have nothing waiting, the first first.
#[derive(Debug, Default)]
pub struct Idle {
    notes: VecDeque<(u32, Coarse)>,
}

impl Idle {
    /// Notes that the user, of which this is the record, has nothing waiting from now on.
    #[inline]
    pub fn note<S>(&mut self, now: Instant, user: u32, state: &mut UserState<S>) {
        let now = Coarse::at(now);
        if !state.noted || now.since(state.rests) >= GRAIN {
            (state.rests, state.noted) = (now, true);
            self.notes.push_back((user, now));
        }
    }

    /// Forgets notes that do not count. Seldom: there are three new ones for each user in between.
    #[inline]
    pub fn tidy_up<S>(&mut self, users: &Slab<UserState<S>>) {
        if self.notes.len() > 4 * users.len() + SPARE {
            self.notes.retain(|&(user, at)| users.get(user).is_some_and(|u| counts(u, at)));
        }
    }

    /// The user that has had nothing waiting for the longest; it is noted no more.
    pub fn longest<S>(&mut self, users: &mut Slab<UserState<S>>) -> Option<u32> {
        while let Some((user, at)) = self.notes.pop_front() {
            let Some(state) = users.get_mut(user).filter(|u| counts(u, at)) else { continue };
            state.noted = false;
            if state.turn.place() == Place::Idle {
                return Some(user);
            }
        }
        None
    }
}

/// Whether a note is the newest of the user.
fn counts<S>(state: &UserState<S>, at: Coarse) -> bool {
    state.noted && state.rests == at
}
