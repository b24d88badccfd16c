//! Scheduler of the two classes: two pipes with a rate each, or deficit round robin.

use narrows_units::{Bytes, Duration, Instant, Rate};

use crate::{Ppm, ShaperConfig};

/// The class scheduler at the bottleneck (notes, section 2.2).
#[derive(Clone, Debug)]
pub(super) struct Scheduler {
    borrow: bool,
    link: ShaperConfig,
    pipes: [Pipe; 2],
    /// Class whose turn it is, with borrowing.
    turn: usize,
    /// Lateness up to which a packet still counts as sent on time: two packets of the link, because one class waits
    /// while the other's is being sent, and a millisecond, because drivers come late.
    slack: Duration,
}

#[derive(Clone, Debug)]
struct Pipe {
    rate: Rate,
    /// Time at which the next packet of the class may leave, without borrowing.
    next_allowed: Instant,
    /// Time to send the latest length: packets have few lengths.
    last_time: (Bytes, Duration),
    /// Bytes it may still send in this turn, and how many a turn adds, with borrowing.
    deficit: u64,
    quantum: u64,
}

impl Pipe {
    fn time_to_send(&mut self, len: Bytes) -> Duration {
        if self.last_time.0 != len {
            self.last_time = (len, self.rate.time_to_send(len));
        }
        self.last_time.1
    }
}

impl Scheduler {
    pub(super) fn new(borrow: bool, link: ShaperConfig, share: Ppm) -> Self {
        let pipe = Pipe {
            rate: link.rate,
            next_allowed: Instant::ZERO,
            last_time: (Bytes(u64::MAX), Duration::ZERO),
            deficit: 0,
            quantum: 0,
        };
        let slack = link.rate.time_to_send(Bytes(2 * link.largest().get())) + Duration::from_millis(1);
        let mut new = Self { borrow, link, pipes: [pipe.clone(), pipe], turn: 0, slack };
        new.set_share(share);
        new
    }

    /// Takes over from `before` what each class has used up; on a faster link no class waits for longer than one
    /// packet.
    pub(super) fn follow(&mut self, now: Instant, before: &Self) {
        let largest = self.link.largest();
        for (pipe, old) in self.pipes.iter_mut().zip(&before.pipes) {
            pipe.next_allowed = old.next_allowed.min(now + pipe.rate.time_to_send(largest));
            pipe.deficit = old.deficit;
        }
        self.turn = before.turn;
    }

    /// Gives the short class `share` of the link, the long one the rest.
    pub(super) fn set_share(&mut self, share: Ppm) {
        let shares = [share, Ppm(Ppm::ONE.0 - share.0)];
        let least = u64::from(shares[0].0.min(shares[1].0).max(1));
        for (pipe, share) in self.pipes.iter_mut().zip(shares) {
            pipe.rate = Rate::from_bps(share.of(self.link.rate.as_bps()).max(1));
            pipe.last_time = (Bytes(u64::MAX), Duration::ZERO);
            // A turn of the class with the least share is one packet (Shreedhar and Varghese 1995: O(1) then).
            pipe.quantum = self.link.largest().get().max(64) * u64::from(share.0) / least;
        }
    }

    /// Notes an arrival in a class that was empty: time in which it sent nothing is not saved up.
    pub(super) fn wakes(&mut self, class: usize, now: Instant) {
        let pipe = &mut self.pipes[class];
        pipe.next_allowed = pipe.next_allowed.max(now);
    }

    /// Time at which a class may send, of those with packets: now, with borrowing.
    pub(super) fn ready(&self, now: Instant, has: [bool; 2]) -> Option<Instant> {
        if self.borrow {
            return (has[0] || has[1]).then_some(now);
        }
        self.due(has).map(|class| self.pipes[class].next_allowed)
    }

    /// The class that is due first; the short one among equals.
    fn due(&self, has: [bool; 2]) -> Option<usize> {
        match has {
            [false, false] => None,
            [true, false] => Some(0),
            [false, true] => Some(1),
            [true, true] => Some(usize::from(self.pipes[1].next_allowed < self.pipes[0].next_allowed)),
        }
    }

    /// The class to send from now; `first` are the lengths of the classes' first packets. The packet is taken as sent.
    pub(super) fn choose(&mut self, now: Instant, first: [Option<Bytes>; 2]) -> Option<usize> {
        let first = first.map(|len| len.map(|len| self.link.wire_len(len)));
        if self.borrow {
            return self.take_turns(first);
        }
        let class = self.due(first.map(|len| len.is_some()))?;
        let pipe = &mut self.pipes[class];
        if pipe.next_allowed > now {
            return None;
        }
        let time = pipe.time_to_send(first[class]?);
        pipe.next_allowed = pipe.next_allowed.max(now - self.slack) + time;
        Some(class)
    }

    fn take_turns(&mut self, first: [Option<Bytes>; 2]) -> Option<usize> {
        if first == [None, None] {
            return None;
        }
        loop {
            let pipe = &mut self.pipes[self.turn];
            match first[self.turn] {
                None => pipe.deficit = 0,
                Some(len) if len.get() <= pipe.deficit => {
                    pipe.deficit -= len.get();
                    return Some(self.turn);
                }
                Some(_) => {}
            }
            self.turn = 1 - self.turn;
            let pipe = &mut self.pipes[self.turn];
            if first[self.turn].is_some() {
                pipe.deficit += pipe.quantum;
            }
        }
    }
}
