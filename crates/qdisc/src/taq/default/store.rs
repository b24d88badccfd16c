//! Packets of all flows in one slab, a doubly linked FIFO per flow: no allocation per packet, none per flow.

/// No entry.
pub const NIL: u32 = u32::MAX;

/// One waiting packet.
#[derive(Debug)]
pub struct Entry<P> {
    pub packet: P,
    /// Payload the receiver has not been sent before.
    pub new_data: bool,
    /// A copy of this has been suppressed: the sender may not hear of a loss of it for long.
    pub protected: bool,
    prev: u32,
    next: u32,
}

/// A flow's queue: where it starts and ends in the slab.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    head: u32,
    tail: u32,
    pub packets: u32,
    pub bytes: u64,
}

impl<P> Entry<P> {
    pub const fn prev(&self) -> u32 {
        self.prev
    }
    pub const fn next(&self) -> u32 {
        self.next
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, packets: 0, bytes: 0 }
    }
}

impl Chain {
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }
    pub const fn head(&self) -> u32 {
        self.head
    }
    pub const fn tail(&self) -> u32 {
        self.tail
    }
}

#[derive(Debug)]
enum Cell<P> {
    Free(u32),
    Used(Entry<P>),
}

/// The slab.
#[derive(Debug)]
pub struct Store<P> {
    cells: Vec<Cell<P>>,
    free: u32,
    len: usize,
}

impl<P> Store<P> {
    pub const fn new() -> Self {
        Self { cells: Vec::new(), free: NIL, len: 0 }
    }
    pub const fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, at: u32) -> &Entry<P> {
        match self.cells.get(at as usize) {
            Some(Cell::Used(e)) => e,
            _ => unreachable!("a chain holds only used cells"),
        }
    }
    pub fn get_mut(&mut self, at: u32) -> &mut Entry<P> {
        match self.cells.get_mut(at as usize) {
            Some(Cell::Used(e)) => e,
            _ => unreachable!("a chain holds only used cells"),
        }
    }

    /// Has an entry fetched from memory.
    pub fn touch(&self, at: u32) {
        if let Some(Cell::Used(e)) = self.cells.get(at as usize) {
            core::hint::black_box(e.next);
        }
    }

    fn take_cell(&mut self, entry: Entry<P>) -> u32 {
        self.len += 1;
        if self.free == NIL {
            self.cells.push(Cell::Used(entry));
            return u32::try_from(self.cells.len() - 1).unwrap_or(NIL);
        }
        let at = self.free;
        if let Some(cell) = self.cells.get_mut(at as usize) {
            if let Cell::Free(next) = *cell {
                self.free = next;
            }
            *cell = Cell::Used(entry);
        }
        at
    }

    pub fn push_back(&mut self, c: &mut Chain, packet: P, len: u64, new_data: bool) {
        let entry = Entry { packet, new_data, protected: false, prev: c.tail, next: NIL };
        let at = self.take_cell(entry);
        if c.tail == NIL {
            c.head = at
        } else {
            self.get_mut(c.tail).next = at
        }
        c.tail = at;
        c.packets += 1;
        c.bytes += len;
    }

    pub fn push_front(&mut self, c: &mut Chain, packet: P, len: u64, new_data: bool) {
        let entry = Entry { packet, new_data, protected: false, prev: NIL, next: c.head };
        let at = self.take_cell(entry);
        if c.head == NIL {
            c.tail = at
        } else {
            self.get_mut(c.head).prev = at
        }
        c.head = at;
        c.packets += 1;
        c.bytes += len;
    }

    /// Takes one packet out of its flow's chain, wherever it stands.
    pub fn remove(&mut self, c: &mut Chain, at: u32, len: impl Fn(&P) -> u64) -> Entry<P> {
        let cell = core::mem::replace(&mut self.cells[at as usize], Cell::Free(self.free));
        let Cell::Used(entry) = cell else { unreachable!("a chain holds only used cells") };
        self.free = at;
        self.len -= 1;
        if entry.prev == NIL {
            c.head = entry.next
        } else {
            self.get_mut(entry.prev).next = entry.next
        }
        if entry.next == NIL {
            c.tail = entry.prev
        } else {
            self.get_mut(entry.next).prev = entry.prev
        }
        c.packets -= 1;
        c.bytes -= len(&entry.packet);
        entry
    }

    /// The chain's places from the front.
    pub fn places<'a>(&'a self, c: &Chain) -> impl Iterator<Item = (u32, &'a Entry<P>)> + 'a {
        let mut at = c.head;
        core::iter::from_fn(move || {
            if at == NIL {
                return None;
            }
            let (here, entry) = (at, self.get(at));
            at = entry.next;
            Some((here, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(s: &Store<u64>, c: &Chain) -> Vec<u64> {
        s.places(c).map(|(_, e)| e.packet).collect()
    }

    #[test]
    fn cells_are_used_again_and_chains_do_not_mix() {
        let (mut s, mut a, mut b) = (Store::new(), Chain::default(), Chain::default());
        for i in 0..4 {
            s.push_back(&mut a, i, 10, true);
            s.push_back(&mut b, 100 + i, 10, true);
        }
        s.push_front(&mut b, 99, 10, false);
        let second = s.places(&a).nth(1).unwrap().0;
        assert_eq!(s.remove(&mut a, second, |_| 10).packet, 1);
        assert_eq!(contents(&s, &a), [0, 2, 3]);
        assert_eq!(contents(&s, &b), [99, 100, 101, 102, 103]);
        let last = a.tail();
        s.remove(&mut a, last, |_| 10);
        assert_eq!((contents(&s, &a), a.packets, a.bytes, s.len()), (vec![0, 2], 2, 20, 7));
        let cells = s.cells.len();
        s.push_back(&mut a, 9, 10, true);
        s.push_back(&mut a, 8, 10, true);
        assert_eq!(s.cells.len(), cells, "freed cells come back first");
    }
}
