//! Records fetched from memory before they are needed.

use narrows_lists::prefetch;

use super::{UserList, Users};

impl<S> Users<S> {
    /// Has a record fetched from memory, should it be there.
    pub fn prefetch(&self, at: u32) {
        if let Some(state) = self.slab.get(at) {
            prefetch(&state.user);
            prefetch(&state.lists);
        }
    }

    /// Those most likely served next, the first first, while the record of the last is fetched.
    pub fn soon(&self) -> [Option<u32>; 3] {
        let lists = [&self.order.sparse, &self.order.new.list, &self.order.old];
        let Some(list) = lists.into_iter().find(|list| !list.is_empty()) else { return [None; 3] };
        let after = |at: Option<u32>| at.and_then(|at| list.after(&self.slab, at));
        // Of the old ones who has been served its quantum goes to the end first.
        let is_done = |at: &u32| self.at(*at).place == UserList::Old && self.at(*at).deficit <= 0;
        let first = list.first();
        let first = first.filter(is_done).and_then(|at| list.after(&self.slab, at)).or(first);
        let second = after(first);
        let third = after(second);
        if let Some(third) = third {
            self.prefetch(third);
        }
        [first, second, third]
    }
}
