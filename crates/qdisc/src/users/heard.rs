//! Users of whom something has been heard: others share as strangers where anything is heard at all.

use narrows_lists::Arena as _;
use narrows_users::User;

use super::Users;

impl<S> Users<S> {
    /// A user has sent something.
    pub fn hear(&mut self, at: u32) {
        self.heard = true;
        self.slab.at_mut(at).heard = true;
    }

    /// Whether nothing has been heard of this user, while others are heard. `likely` may be its record.
    pub fn is_stranger(&self, user: User, likely: Option<u32>) -> bool {
        let known = || likely.filter(|at| self.is_of(*at, user)).or_else(|| self.find(user));
        self.heard && !known().is_some_and(|at| self.at(at).heard)
    }

    /// Whether a record that may be gone is this user's, who is no stranger.
    pub fn is_known(&self, at: u32, user: User) -> bool {
        self.slab.get(at).is_some_and(|state| state.user == user && (state.heard || !self.heard))
    }
}
