//! Packets of many queues in one slab, each with the time at which it came: no allocation per packet, none per queue.

use narrows_units::Instant;

/// No place.
pub const NIL: u32 = u32::MAX;

/// A queue in a [`Slab`]: its first and last place.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    head: u32,
    tail: u32,
}

impl Line {
    pub const EMPTY: Self = Self { head: NIL, tail: NIL };

    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

#[derive(Debug)]
struct Cell<P> {
    /// `None` in a free cell.
    packet: Option<P>,
    since: Instant,
    /// Behind it in its line, or the next free cell.
    next: u32,
}

/// The packets.
#[derive(Debug)]
pub struct Slab<P> {
    cells: Vec<Cell<P>>,
    free: u32,
}

impl<P> Slab<P> {
    pub const fn new() -> Self {
        Self { cells: Vec::new(), free: NIL }
    }

    pub fn push_back(&mut self, line: &mut Line, since: Instant, packet: P) {
        let cell = Cell { packet: Some(packet), since, next: NIL };
        let at = self.free;
        let at = match self.cells.get_mut(at as usize) {
            Some(place) => {
                self.free = place.next;
                *place = cell;
                at
            }
            None => {
                self.cells.push(cell);
                u32::try_from(self.cells.len() - 1).unwrap_or(NIL)
            }
        };
        match self.cells.get_mut(line.tail as usize) {
            Some(last) => last.next = at,
            None => line.head = at,
        }
        line.tail = at;
    }

    pub fn pop_front(&mut self, line: &mut Line) -> Option<(Instant, P)> {
        let at = line.head;
        let cell = self.cells.get_mut(at as usize)?;
        let taken = cell.packet.take().map(|packet| (cell.since, packet));
        line.head = cell.next;
        cell.next = self.free;
        self.free = at;
        if line.head == NIL {
            line.tail = NIL;
        }
        taken
    }

    /// The packets of a line from the front, with their places.
    pub fn iter(&self, line: &Line) -> impl Iterator<Item = (u32, &P)> {
        let mut at = line.head;
        core::iter::from_fn(move || {
            let cell = self.cells.get(at as usize)?;
            let here = core::mem::replace(&mut at, cell.next);
            Some((here, cell.packet.as_ref()?))
        })
    }

    /// Takes out the packet behind `at`.
    pub fn remove_behind(&mut self, line: &mut Line, at: u32) -> Option<P> {
        let gone = self.cells.get(at as usize)?.next;
        let cell = self.cells.get_mut(gone as usize)?;
        let (packet, next) = (cell.packet.take(), cell.next);
        cell.next = self.free;
        self.free = gone;
        self.cells[at as usize].next = next;
        if line.tail == gone {
            line.tail = at;
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_mix_and_cells_come_back() {
        let (mut slab, mut a, mut b) = (Slab::new(), Line::EMPTY, Line::EMPTY);
        for n in 0..4u64 {
            slab.push_back(&mut a, Instant::from_nanos(n), n);
            slab.push_back(&mut b, Instant::ZERO, 100 + n);
        }
        assert_eq!(slab.pop_front(&mut a), Some((Instant::ZERO, 0)));
        let place = |slab: &Slab<u64>, line: &Line, n: usize| slab.iter(line).nth(n).unwrap().0;
        let (first, third) = (place(&slab, &a, 0), place(&slab, &b, 2));
        assert_eq!(slab.remove_behind(&mut a, first), Some(2));
        assert_eq!(slab.remove_behind(&mut b, third), Some(103));
        assert_eq!(slab.remove_behind(&mut b, third), None);
        (4..7).for_each(|n| slab.push_back(&mut a, Instant::ZERO, n));
        slab.push_back(&mut b, Instant::ZERO, 104);
        assert_eq!(slab.cells.len(), 9, "freed cells come back first");
        let mut drain =
            |line: &mut Line| std::iter::from_fn(|| slab.pop_front(line)).map(|(_, p)| p).collect::<Vec<_>>();
        assert_eq!(drain(&mut a), [1, 3, 4, 5, 6]);
        assert_eq!(drain(&mut b), [100, 101, 102, 104]);
        assert!(a.is_empty() && a.tail == NIL && b.is_empty());
    }
}
