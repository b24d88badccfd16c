//! Records fetched from memory before they are needed.

use narrows_lists::prefetch;

use super::{UserState, Users};

impl<S> Users<S> {
    /// Has a record fetched from memory, should it be there.
    pub fn prefetch(&self, at: u32) {
        if let Some(state) = self.slab.get(at) {
            prefetch(&state.user);
            prefetch(&state.lists);
        }
    }

    /// The user most likely served next, while the record of the one after it is fetched.
    pub fn soon(&self) -> Option<&UserState<S>> {
        let lists = [&self.order.sparse, &self.order.new.list, &self.order.old];
        let (list, first) = lists.iter().find_map(|list| Some((list, list.first()?)))?;
        if let Some(after) = list.after(&self.slab, first) {
            self.prefetch(after);
        }
        Some(self.at(first))
    }
}
