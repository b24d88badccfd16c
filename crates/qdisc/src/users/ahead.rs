//! Records fetched from memory before they are needed.

use narrows_lists::prefetch;

use super::{Order, UserList, UserState, Users};

impl<S> Users<S> {
    /// Has a record fetched from memory, should it be there. Nothing of it is read, or one would wait for it.
    pub fn prefetch(&self, at: u32) {
        self.slab.prefetch(at);
    }

    /// What belongs to the two most likely served next, the first first, while the records of those after them are
    /// fetched.
    pub fn soon(&self) -> (Option<&S>, Option<&S>) {
        let Order { sparse, new, old } = &self.order;
        let list = if sparse.is_empty() { &new.list } else { sparse };
        let list = if list.is_empty() { old } else { list };
        let Some(mut first) = list.first().map(|at| self.at(at)) else { return (None, None) };
        let after = |state: &UserState<S>| state.links.next().map(|at| self.at(at));
        // Of the old ones who has been served its quantum goes to the end first.
        if first.place == UserList::Old && first.deficit <= 0 {
            first = after(first).unwrap_or(first);
        }
        let Some(second) = after(first) else { return (Some(&first.lists), None) };
        if let Some(third) = after(second) {
            prefetch(&third.lists);
            if let Some(fourth) = third.links.next() {
                self.prefetch(fourth);
            }
        }
        (Some(&first.lists), Some(&second.lists))
    }
}
