//! The event queue: what happens next. Events of the same instant happen in the order in which they were scheduled, so
//! a run has one history. An event computed early ([`crate::drop_tail`]) carries
//! the time at which it would have been scheduled; ties are broken by it.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use narrows_units::Instant;

use crate::ids::{AppId, EndId, LinkId};
use crate::packet::Pkt;

/// Kinds of events, each with the packet, link or end that the event happens to.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet reaches the far end of the link it was on: the next link of its route, or the wire to its host.
    Arrive(Pkt),
    /// A packet is at the packet's destination host.
    Deliver(Pkt),
    /// A link has sent a packet and may take the next.
    Free(LinkId),
    /// A discipline asked to be looked at.
    Serve(LinkId),
    /// One end of a connection asked to be woken.
    End(EndId),
    /// A timer of an application rings: the application's place, and its own word for what is due.
    App { app: AppId, token: u32 },
    /// Probes look at the world.
    Probe(u32),
    /// The rate of a shaper may change.
    Shape(u32),
}

/// An event, its time, and the time at which it was scheduled. Of events that agree in both, the one put in first comes
/// first: lists are kept in that order, and sorting does not change it.
#[derive(Debug)]
struct Entry {
    at: u64,
    since: u64,
    event: Event,
}

impl Entry {
    const fn key(&self) -> u128 {
        (self.at as u128) << 64 | self.since as u128
    }
}

/// An entry of the heap, which would not keep the order in which they were put in.
#[derive(Debug)]
struct Far {
    entry: Entry,
    number: u64,
}

impl Far {
    const fn key(&self) -> (u128, u64) {
        (self.entry.key(), self.number)
    }
}

impl PartialEq for Far {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Far {}
impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Far {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Slots of a wheel.
const SLOTS: u64 = 1024;
const WORDS: usize = SLOTS as usize / 64;
/// A slot of the coarse wheel is a whole turn of the fine one.
const COARSER: u32 = SLOTS.trailing_zeros();
/// Width of a fine slot at the beginning, as a power of two of nanoseconds: 131 us.
const WIDTH: u32 = 17;
/// Events a slot should hold, on average, when its turn comes; outside of these the width changes.
const FEW: u64 = 2;
const MANY: u64 = 8;
/// Longest list that is sorted by insertion.
const SHORT: usize = 20;
/// Widest slot: a second.
const WIDEST: u32 = 30;
/// How many slots are emptied between two looks at the width.
const PERIOD: u64 = 4096;

/// Slots of equal width, unsorted, of which those after some number, and at most one turn of the wheel after it, are in
/// use.
#[derive(Debug)]
struct TimerWheel {
    slots: Box<[Vec<Entry>; SLOTS as usize]>,
    /// Bitmap of the slots that hold entries.
    occupied: [u64; WORDS],
}

impl Default for TimerWheel {
    fn default() -> Self {
        Self { slots: Box::new([const { Vec::new() }; SLOTS as usize]), occupied: [0; WORDS] }
    }
}

impl TimerWheel {
    #[inline(always)]
    fn put(&mut self, slot: u64, entry: Entry) {
        let i = (slot % SLOTS) as usize;
        self.slots[i].push(entry);
        self.occupied[i / 64] |= 1 << (i % 64);
    }

    /// Exchanges the contents of a slot for the empty `list`.
    fn take(&mut self, slot: u64, list: &mut Vec<Entry>) {
        let i = (slot % SLOTS) as usize;
        self.occupied[i / 64] &= !(1 << (i % 64));
        core::mem::swap(list, &mut self.slots[i]);
    }

    /// The first slot after `slot` that holds something.
    fn next_after(&self, slot: u64) -> Option<u64> {
        let first = slot + 1;
        let start = (first % SLOTS) as usize;
        let mut word = start / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (start % 64));
        // Once around, and the beginning of the first word again.
        for _ in 0..=WORDS {
            if bits != 0 {
                let found = word * 64 + bits.trailing_zeros() as usize;
                return Some(first + (found.wrapping_sub(start) as u64) % SLOTS);
            }
            word = (word + 1) % WORDS;
            bits = self.occupied[word];
        }
        None
    }

    fn drain(&mut self) -> impl Iterator<Item = Entry> {
        self.occupied = [0; WORDS];
        self.slots.iter_mut().flat_map(|slot| slot.drain(..))
    }
}

/// Two wheels of time slots, unsorted until their turn comes, and a heap for what lies beyond.
///
/// A heap alone decides log n times between events that are hard to tell apart, and each wrong guess of the processor
/// costs as much as ten right ones. Here an event is put into its slot by its time alone: soon ones into the fine
/// wheel, timers into the coarse one, whose slots are poured into the fine one when it gets there. Only the few events
/// of the slot whose turn it is are sorted. The width of a slot follows how many events it finds: a link of 10 Gbit/s
/// has a thousand times more of them in a millisecond than one of 10 Mbit/s.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Events of the present slot; the last one is the next to happen.
    current: Vec<Entry>,
    fine: TimerWheel,
    coarse: TimerWheel,
    /// The first coarse slot that holds something.
    next_coarse: Option<u64>,
    /// Lists of coarse slots that were poured out. A slot has one only while it holds something: a list that stayed
    /// with its slot would be kept, as long as it ever was, for a whole turn of the wheel.
    spare: Vec<Vec<Entry>>,
    far: BinaryHeap<Reverse<Far>>,
    /// Entries the heap has taken.
    taken: u64,
    /// Number of the current slot since the beginning of time.
    turn: u64,
    /// Events found in the slots that were emptied since the width was looked at.
    found: u64,
    /// Width of a fine slot: 2^width ns.
    width: u32,
    /// The last event was due then, and was so since then.
    now: (u64, u64),
    /// Whether what events need may be far from the processor.
    pub(crate) reads_ahead: bool,
    /// Slots emptied since the width was looked at.
    emptied: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            fine: TimerWheel::default(),
            coarse: TimerWheel::default(),
            next_coarse: None,
            spare: Vec::new(),
            far: BinaryHeap::new(),
            taken: 0,
            turn: 0,
            width: WIDTH,
            now: (0, 0),
            reads_ahead: false,
            emptied: 0,
            found: 0,
        }
    }
}

impl EventQueue {
    /// Lets something happen at `at`.
    #[inline(always)]
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        self.push_since(Instant::from_nanos(self.now.0), at, event);
    }

    /// Schedules `event` at `at`, ordered among simultaneous events as if scheduled at `since`, which is not before
    /// now.
    #[inline(always)]
    pub(crate) fn push_since(&mut self, since: Instant, at: Instant, event: Event) {
        self.place(Entry { at: at.as_nanos(), since: since.as_nanos(), event });
    }

    /// Time at which the event was scheduled that happens now.
    #[inline]
    pub(crate) fn since(&self) -> Instant {
        Instant::from_nanos(self.now.1)
    }

    /// The next event, unless it lies after `end`. `ahead` is shown the events of a slot when its turn comes, if that
    /// is wanted ([`EventQueue::reads_ahead`]), and reads what they will need.
    #[inline(always)]
    pub(crate) fn pop(&mut self, end: Instant, ahead: impl Fn(&Event) -> u64) -> Option<(Instant, Event)> {
        while self.current.is_empty() {
            if !self.turn_on(&ahead) {
                return None;
            }
        }
        let next = self.current.pop_if(|next| next.at <= end.as_nanos())?;
        self.now = (next.at, next.since);
        Some((Instant::from_nanos(next.at), next.event))
    }

    /// The packets under way, in no order that means anything.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Pkt> {
        let slots = self.fine.slots.iter().chain(self.coarse.slots.iter()).flatten();
        let waiting = self.current.iter().chain(slots).chain(self.far.iter().map(|e| &e.0.entry));
        waiting.filter_map(|entry| match &entry.event {
            Event::Arrive(packet) | Event::Deliver(packet) => Some(packet),
            _ => None,
        })
    }

    // In line, so that an entry goes from registers into its slot: written to the stack in parts and read back as a
    // whole it stalls the processor for longer than all the rest takes.
    #[inline(always)]
    fn place(&mut self, entry: Entry) {
        let slot = entry.at >> self.width;
        // Below the slot after this one it wraps around.
        if slot.wrapping_sub(self.turn + 1) < SLOTS {
            self.fine.put(slot, entry);
        } else {
            self.place_elsewhere(slot, entry);
        }
    }

    /// Puts an event among the events of the current slot, or into a wheel or the heap if the event is later.
    #[inline(never)]
    fn place_elsewhere(&mut self, slot: u64, entry: Entry) {
        if slot <= self.turn {
            // Most belong near the end: what is scheduled now comes soon.
            let last = self.current.len();
            self.current.push(entry);
            return sink(&mut self.current, last);
        }
        let coarse = slot >> COARSER;
        if coarse - (self.turn >> COARSER) <= SLOTS {
            let list = &mut self.coarse.slots[(coarse % SLOTS) as usize];
            if list.capacity() == 0 {
                *list = self.spare.pop().unwrap_or_default();
            }
            self.coarse.put(coarse, entry);
            self.next_coarse = Some(self.next_coarse.map_or(coarse, |next| next.min(coarse)));
        } else {
            self.far.push(Reverse(Far { entry, number: self.taken }));
            self.taken += 1;
        }
    }

    /// Goes on to the next slot that holds something, or to where a coarse one is to be poured out. Tells whether
    /// anything is left.
    #[inline(never)]
    fn turn_on(&mut self, ahead: impl Fn(&Event) -> u64) -> bool {
        if self.emptied >= PERIOD {
            self.fit_width();
            if !self.current.is_empty() {
                // In slots that are wider now the next event may lie in the one whose turn it is.
                return true;
            }
        }
        let fine = self.fine.next_after(self.turn);
        match (fine, self.next_coarse) {
            // Something in the coarse slot may come before all that is in the fine wheel.
            (_, Some(coarse)) if fine.is_none_or(|fine| coarse << COARSER <= fine) => self.pour(coarse),
            (Some(fine), _) => self.begin(fine, ahead),
            _ => return self.reach_far(),
        }
        true
    }

    /// Makes a slot the current one.
    fn begin(&mut self, slot: u64, ahead: impl Fn(&Event) -> u64) {
        self.turn = slot;
        self.fine.take(slot, &mut self.current);
        // With many flows nothing of what these events need is in a near cache. Asked for all at once it comes
        // together, not one after another.
        if self.reads_ahead {
            core::hint::black_box(self.current.iter().fold(0, |read, entry| read ^ ahead(&entry.event)));
        }
        self.emptied += 1;
        self.found += self.current.len() as u64;
        sort(&mut self.current);
    }

    /// Moves the events of a coarse slot into the fine wheel, which is at its beginning now.
    #[inline(never)]
    fn pour(&mut self, coarse: u64) {
        // The slot before: then all slots of the coarse one are ahead. Nothing else lies between.
        self.turn = self.turn.max((coarse << COARSER) - 1);
        let mut poured = Vec::new();
        self.coarse.take(coarse, &mut poured);
        self.next_coarse = self.coarse.next_after(coarse);
        for entry in poured.drain(..) {
            self.place(entry);
        }
        self.spare.push(poured);
        self.fetch_far();
    }

    /// Advances to the first event of the heap, when both wheels are empty. Returns false if the heap is empty too.
    #[inline(never)]
    fn reach_far(&mut self) -> bool {
        let Some(first) = self.far.peek() else { return false };
        self.turn = self.turn.max((first.0.entry.at >> self.width) - 1);
        self.fetch_far();
        true
    }

    /// Takes what the wheels have come near to out of the heap.
    fn fetch_far(&mut self) {
        let end = (self.turn >> COARSER) + SLOTS;
        while let Some(first) = self.far.peek()
            && first.0.entry.at >> self.width >> COARSER <= end
            && let Some(Reverse(Far { entry, .. })) = self.far.pop()
        {
            self.place(entry);
        }
    }

    /// Makes slots narrower where they hold many events, wider where they hold few.
    #[inline(never)]
    fn fit_width(&mut self) {
        let (emptied, found) = (self.emptied, self.found);
        (self.emptied, self.found) = (0, 0);
        let width = if found > MANY * emptied && self.width > 0 {
            self.width - 1
        } else if found < FEW * emptied && self.width < WIDEST {
            self.width + 1
        } else {
            return;
        };
        let mut all: Vec<Entry> = self.fine.drain().chain(self.coarse.drain()).collect();
        all.extend(core::mem::take(&mut self.far).into_sorted_vec().into_iter().rev().map(|e| e.0.entry));
        // Nothing that waits lies before the slot just emptied, so its beginning is a safe place to go on from.
        self.turn = (self.turn << self.width) >> width;
        self.next_coarse = None;
        self.width = width;
        for entry in all {
            self.place(entry);
        }
    }
}

/// Turns a slot's events round, the last first; of those that agree, what was put in last. Slots hold few.
fn sort(list: &mut [Entry]) {
    if list.len() > SHORT {
        list.reverse();
        return list.sort_by_key(|e| Reverse(e.key()));
    }
    for at in 1..list.len() {
        sink(list, at);
    }
}

/// Moves an event to its place among those before it, which are turned round already.
#[inline(always)]
fn sink(list: &mut [Entry], mut at: usize) {
    let key = list[at].key();
    while at > 0 && list[at - 1].key() <= key {
        if let [.., before, after] = &mut list[..=at] {
            core::mem::swap(before, after);
        }
        at -= 1;
    }
}

#[cfg(test)]
mod tests;
