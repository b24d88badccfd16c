//! What new flows of a user are sent before others.
//!
//! A new user goes first once. Its later flows are new as well, and who opens a connection for each object has nothing
//! else. They have a credit of their own, which each round fills a little: fifty new flows of one user go first no more
//! often than another's one after another.

use narrows_lists::Arena as _;

use super::{UserList, UserState, Users};

/// Which part of a quantum new flows of a user may be sent before others for each round: so much more than others, at
/// most, has one who opens connections all the time.
const FOR_NEW_FLOWS: i32 = 4;

impl<S> UserState<S> {
    /// So many rounds have passed.
    pub fn forget(&mut self, quantum: i32, rounds: i32) {
        self.spent = self.spent.saturating_sub((quantum / FOR_NEW_FLOWS).saturating_mul(rounds)).max(0);
    }
}

impl<S> Users<S> {
    /// Gives a user `wanted` bytes of credit for a new flow, or what is left to it of `most` ([`FOR_NEW_FLOWS`]). Who
    /// is in the round goes to `place`. Whether anything was left.
    pub fn credit_new_flow(&mut self, user: u32, wanted: i32, most: i32, place: UserList) -> bool {
        if wanted <= 0 {
            return false;
        }
        let due = self.due();
        let state = self.slab.at_mut(user);
        let credit = wanted.min(most - state.spent);
        if credit <= 0 || state.aside {
            return false;
        }
        state.credit = state.credit.max(0) + credit;
        state.spent += credit;
        if state.place == UserList::Old {
            (state.place, state.due) = (place, due);
            self.order.old.remove(&mut self.slab, user);
            self.order.list(place).push_back(&mut self.slab, user);
        }
        true
    }
}
