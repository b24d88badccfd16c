//! The event queue: what happens next. Events of the same instant happen in the order in which they were scheduled, so a
//! run has one history.

use narrows_units::Instant;

/// What can happen. The number is the place of whatever it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first packet on a link reaches its far end.
    Arrive(u32),
    /// A link has sent a packet and may take the next.
    Free(u32),
    /// A discipline asked to be looked at.
    Serve(u32),
    /// One end of a connection asked to be woken: twice the connection's place, plus the end.
    End(u32),
    /// A timer of an application.
    App(u32),
    /// Probes look at the world.
    Probe(u32),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    seq: u64,
    event: Event,
}

impl Entry {
    const fn before(&self, other: &Self) -> bool {
        self.at < other.at || (self.at == other.at && self.seq < other.seq)
    }
}

/// A heap with four children a node: half as deep as a binary one, and the children share a cache line or two.
///
/// Taking an event leaves a hole at the root, which the next scheduled event fills: most events schedule one successor,
/// and that then costs one way down instead of a way down and a way up.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: Vec<Entry>,
    seq: u64,
    hole: bool,
}

const ARITY: usize = 4;

impl EventQueue {
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        let entry = Entry { at: at.as_nanos(), seq: self.seq, event };
        self.seq += 1;
        if self.hole {
            self.hole = false;
            self.sink(entry);
        } else {
            self.heap.push(entry);
            self.rise(self.heap.len() - 1);
        }
    }

    /// The next event, unless it lies after `end`.
    pub(crate) fn pop(&mut self, end: Instant) -> Option<(Instant, Event)> {
        self.fill();
        let first = *self.heap.first()?;
        if first.at > end.as_nanos() {
            return None;
        }
        self.hole = true;
        Some((Instant::from_nanos(first.at), first.event))
    }

    /// How many events wait.
    pub(crate) fn len(&self) -> usize {
        self.heap.len() - usize::from(self.hole)
    }

    fn fill(&mut self) {
        if self.hole {
            self.hole = false;
            if let Some(last) = self.heap.pop()
                && !self.heap.is_empty()
            {
                self.sink(last);
            }
        }
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    /// Puts `entry` at the root and lets it sink.
    fn sink(&mut self, entry: Entry) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let Some(children) = heap.get(first..heap.len().min(first + ARITY)) else { break };
            let Some(least) = least(children) else { break };
            if !children[least].before(&entry) {
                break;
            }
            heap[at] = children[least];
            at = first + least;
        }
        heap[at] = entry;
    }
}

fn least(children: &[Entry]) -> Option<usize> {
    let mut best = 0;
    for i in 1..children.len() {
        if children[i].before(&children[best]) {
            best = i;
        }
    }
    (!children.is_empty()).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_time_then_by_scheduling() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut queue = EventQueue::default();
        let mut model = std::collections::BTreeMap::new();
        let (mut n, mut now) = (0_u32, 0_u64);
        for _ in 0..20_000 {
            if rng.u32(0..5) < 3 || model.is_empty() {
                // Few distinct times, so that ties are common.
                let at = now + rng.u64(0..40);
                queue.push(Instant::from_nanos(at), Event::App(n));
                model.insert((at, n), ());
                n += 1;
            } else {
                let ((at, id), ()) = model.pop_first().unwrap();
                let end = Instant::from_nanos(u64::MAX);
                assert_eq!(queue.pop(end), Some((Instant::from_nanos(at), Event::App(id))));
                now = at;
            }
            assert_eq!(queue.len(), model.len());
        }
    }

    #[test]
    fn what_lies_after_the_end_stays() {
        let mut queue = EventQueue::default();
        queue.push(Instant::from_nanos(10), Event::Free(1));
        assert_eq!(queue.pop(Instant::from_nanos(9)), None);
        assert_eq!(queue.pop(Instant::from_nanos(10)), Some((Instant::from_nanos(10), Event::Free(1))));
        assert_eq!(queue.pop(Instant::from_nanos(99)), None);
    }
}
