//! Packets that wait: one FIFO per class through all its flows, and within it one FIFO per flow, so that a flow can leave
//! a class with all that it has there.

use narrows_units::Bytes;

use super::records::{NIL, Record};
use crate::{Backlog, Packet};

#[derive(Debug)]
struct Entry<P> {
    /// `None` while the entry is free; `next` then is the next free one.
    packet: Option<P>,
    flow: u32,
    prev: u32,
    next: u32,
    /// The next packet of the same flow.
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct Fifo {
    head: u32,
    tail: u32,
    backlog: Backlog,
}

/// The packets of both classes.
#[derive(Debug)]
pub(super) struct Store<P> {
    entries: Vec<Entry<P>>,
    free: u32,
    classes: [Fifo; 2],
}

impl<P: Packet> Store<P> {
    pub(super) fn new() -> Self {
        let empty = Fifo { head: NIL, tail: NIL, backlog: Backlog { packets: 0, bytes: Bytes::ZERO } };
        Self { entries: Vec::new(), free: NIL, classes: [empty; 2] }
    }

    pub(super) const fn backlog(&self, class: usize) -> Backlog {
        self.classes[class].backlog
    }

    pub(super) fn is_empty(&self, class: usize) -> bool {
        self.classes[class].head == NIL
    }

    /// Length of a class's first packet.
    pub(super) fn first_len(&self, class: usize) -> Option<Bytes> {
        let first = self.entries.get(self.classes[class].head as usize)?;
        first.packet.as_ref().map(Packet::len)
    }

    /// Appends a packet of the flow at `flow` to that flow's class.
    pub(super) fn push(&mut self, records: &mut [Record], flow: u32, packet: P) {
        let len = packet.len();
        let entry = Entry { packet: Some(packet), flow, prev: NIL, next: NIL, after: NIL };
        let at = if self.free == NIL {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            let at = self.free;
            let place = &mut self.entries[at as usize];
            self.free = place.next;
            *place = entry;
            at
        };
        let record = &mut records[flow as usize];
        if record.tail == NIL {
            record.head = at;
        } else {
            self.entries[record.tail as usize].after = at;
        }
        record.tail = at;
        self.link(usize::from(record.class), at);
        self.classes[usize::from(record.class)].backlog.add(len);
    }

    /// Takes the first packet of a class.
    pub(super) fn pop(&mut self, records: &mut [Record], class: usize) -> Option<P> {
        let at = self.classes[class].head;
        let entry = self.entries.get_mut(at as usize)?;
        let packet = entry.packet.take()?;
        let (flow, after) = (entry.flow, entry.after);
        self.unlink(class, at);
        self.classes[class].backlog.sub(packet.len());
        self.entries[at as usize].next = self.free;
        self.free = at;
        // A flow is all in one class, in order: what leaves is its first.
        let record = &mut records[flow as usize];
        record.head = after;
        if after == NIL {
            record.tail = NIL;
        }
        Some(packet)
    }

    /// How many packets of a flow wait.
    pub(super) fn waiting(&self, record: &Record) -> usize {
        let (mut n, mut at) = (0, record.head);
        while let Some(entry) = self.entries.get(at as usize) {
            n += 1;
            at = entry.after;
        }
        n
    }

    /// Moves all that a flow has in its class to the end of another.
    pub(super) fn move_to(&mut self, record: &mut Record, class: u8) {
        let (from, to) = (usize::from(record.class), usize::from(class));
        let mut at = record.head;
        while let Some(entry) = self.entries.get(at as usize) {
            let (after, len) = (entry.after, entry.packet.as_ref().map_or(Bytes::ZERO, Packet::len));
            self.unlink(from, at);
            self.classes[from].backlog.sub(len);
            self.link(to, at);
            self.classes[to].backlog.add(len);
            at = after;
        }
        record.class = class;
    }

    fn link(&mut self, class: usize, at: u32) {
        let fifo = &mut self.classes[class];
        let before = core::mem::replace(&mut fifo.tail, at);
        if before == NIL {
            fifo.head = at;
        } else {
            self.entries[before as usize].next = at;
        }
        let entry = &mut self.entries[at as usize];
        (entry.prev, entry.next) = (before, NIL);
    }

    fn unlink(&mut self, class: usize, at: u32) {
        let Entry { prev, next, .. } = self.entries[at as usize];
        let fifo = &mut self.classes[class];
        if prev == NIL {
            fifo.head = next;
        } else {
            self.entries[prev as usize].next = next;
        }
        if next == NIL {
            self.classes[class].tail = prev;
        } else {
            self.entries[next as usize].prev = prev;
        }
    }

    /// Flows of which packets wait, by class.
    pub(super) fn flows(records: &[Record]) -> [usize; 2] {
        let mut flows = [0; 2];
        for record in records.iter().filter(|r| r.waits()) {
            flows[usize::from(record.class)] += 1;
        }
        flows
    }
}
