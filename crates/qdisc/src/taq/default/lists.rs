//! Lists of flows, linked through the flows' own slots, so that a flow costs two words per list it can be in.

use super::store::NIL;

/// A flow's neighbours in one list.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    prev: u32,
    next: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { prev: NIL, next: NIL }
    }
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub head: u32,
    pub tail: u32,
    pub len: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }
}

impl List {
    /// Appends `id`; `links` finds a flow's links.
    pub fn push_back<S>(&mut self, slots: &mut [S], id: u32, links: impl Fn(&mut S) -> &mut Links) {
        *links(&mut slots[id as usize]) = Links { prev: self.tail, next: NIL };
        if self.tail == NIL {
            self.head = id;
        } else {
            links(&mut slots[self.tail as usize]).next = id;
        }
        self.tail = id;
        self.len += 1;
    }

    /// Takes `id` out; it must be in this list.
    pub fn remove<S>(&mut self, slots: &mut [S], id: u32, links: impl Fn(&mut S) -> &mut Links) {
        let Links { prev, next } = core::mem::take(links(&mut slots[id as usize]));
        if prev == NIL {
            self.head = next;
        } else {
            links(&mut slots[prev as usize]).next = next;
        }
        if next == NIL {
            self.tail = prev;
        } else {
            links(&mut slots[next as usize]).prev = prev;
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_any_member_can_leave() {
        let mut slots = vec![Links::default(); 5];
        let mut list = List::default();
        for id in [3, 1, 4, 0] {
            list.push_back(&mut slots, id, |l| l);
        }
        list.remove(&mut slots, 1, |l| l);
        list.remove(&mut slots, 0, |l| l);
        list.remove(&mut slots, 3, |l| l);
        list.push_back(&mut slots, 2, |l| l);
        assert_eq!((list.head, list.tail, list.len), (4, 2, 2));
        assert_eq!(slots[4].next, 2);
    }
}
