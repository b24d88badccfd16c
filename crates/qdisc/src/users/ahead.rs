//! Records fetched from memory before they are needed.

use narrows_lists::prefetch;

use super::{UserList, UserState, Users};

impl<S> Users<S> {
    /// Has a record fetched from memory, should it be there. Nothing of it is read, or one would wait for it.
    pub fn prefetch(&self, at: u32) {
        self.slab.prefetch(at);
    }

    /// Has the lists of a record fetched of which the rest is there.
    pub fn prefetch_lists(&self, at: u32) {
        if let Some(state) = self.slab.get(at) {
            prefetch(&state.lists);
        }
    }

    /// The two most likely served next, the first first, while the records of those after them are fetched.
    pub fn soon(&self) -> [Option<&UserState<S>>; 2] {
        let lists = [&self.order.sparse, &self.order.new.list, &self.order.old];
        let Some(list) = lists.into_iter().find(|list| !list.is_empty()) else { return [None; 2] };
        let after = |at: Option<u32>| at.and_then(|at| list.after(&self.slab, at));
        let mut first = list.first();
        // Of the old ones who has been served its quantum goes to the end first.
        if first.is_some_and(|at| self.at(at).place == UserList::Old && self.at(at).deficit <= 0) {
            first = after(first).or(first);
        }
        let second = after(first);
        if let Some(third) = after(second) {
            self.prefetch_lists(third);
            if let Some(fourth) = list.after(&self.slab, third) {
                self.prefetch(fourth);
            }
        }
        [first, second].map(|user| user.map(|user| self.at(user)))
    }
}
