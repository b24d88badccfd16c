//! The driver: two disciplines, one per direction of a link, and what passes between them. The order of calls on the
//! seam is here and nowhere else: the box, replays and tests go through it. (The simulator has its own, for
//! speed; `docs/decisions/the-seam.md` says why, and which test holds the two equal.)
//!
//! 1. A packet comes in one direction. The discipline of the *other* direction sees it first, if it has a reverse path:
//!    it may change, keep or refuse it; it is told before if packets wait in the packet's own. Then that takes it.
//! 2. Service: each reverse path releases what it kept; then each discipline sends what may leave.
//!
//! Verdicts are handed on as they are made, so each precedes the departures that follow it.

use narrows_units::Instant;
use narrows_wire::Header;

use crate::{Ahead, Discipline, Packet, Verdict, Verdicts};

/// A direction through the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Direction from the wide network to the users.
    Down,
    /// Direction from the users to the wide network.
    Up,
}

impl Direction {
    /// The two directions, down first.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];

    /// The opposite.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Down => Self::Up,
            Self::Up => Self::Down,
        }
    }
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// Fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<P> {
    /// A packet leaves the box in the direction given.
    Send(Direction, P),
    /// The discipline of the direction given decided other than to send a packet.
    Verdict(Direction, Verdict<P>),
}

/// Two disciplines that see each other's packets.
#[derive(Debug)]
pub struct Driver<P, Q> {
    disciplines: [Q; 2],
    verdicts: Verdicts<P>,
}

impl<P: Packet, Q: Discipline<P>> Driver<P, Q> {
    /// A box with one discipline for each direction.
    #[must_use]
    pub const fn new(down: Q, up: Q) -> Self {
        Self { disciplines: [down, up], verdicts: Vec::new() }
    }

    /// The discipline of one direction.
    pub const fn discipline(&self, direction: Direction) -> &Q {
        &self.disciplines[direction as usize]
    }

    /// The discipline of a direction, to change or to look into.
    pub const fn discipline_mut(&mut self, direction: Direction) -> &mut Q {
        &mut self.disciplines[direction as usize]
    }

    /// The two disciplines, down first.
    #[must_use]
    pub fn into_disciplines(self) -> [Q; 2] {
        self.disciplines
    }

    /// A packet comes soon that was received together with others.
    pub fn coming(&self, direction: Direction, header: &Header, ahead: Ahead) {
        self.disciplines[direction as usize].coming(&header.key, ahead);
        self.disciplines[direction.other() as usize].coming(&header.key.reverse(), ahead);
    }

    /// Takes a packet that came, and sends all that may leave then. Each packet is served as if it had come alone:
    /// a full queue must not refuse what a free link would take.
    pub fn arrive(&mut self, now: Instant, direction: Direction, packet: P, sink: &mut impl FnMut(Event<P>)) {
        let other = direction.other();
        let waits = self.disciplines[direction as usize].backlog().packets > 0;
        let passed = match self.disciplines[other as usize].reverse_path_mut() {
            Some(path) => {
                if waits {
                    path.behind_others();
                }
                path.reverse(now, packet, &mut self.verdicts)
            }
            None => Some(packet),
        };
        self.hand_on(other, sink);
        if let Some(packet) = passed {
            self.enqueue(now, direction, packet, sink);
        }
        self.service(now, sink);
    }

    /// Sends all that may leave now.
    pub fn service(&mut self, now: Instant, sink: &mut impl FnMut(Event<P>)) {
        // Packets that one direction's reverse path lets go are queued by the other, so releases come first.
        for direction in Direction::BOTH {
            while let Some(packet) = self.release(now, direction) {
                self.hand_on(direction, sink);
                self.enqueue(now, direction.other(), packet, sink);
            }
            self.hand_on(direction, sink);
        }
        for direction in Direction::BOTH {
            loop {
                let packet = self.disciplines[direction as usize].dequeue(now, &mut self.verdicts);
                self.hand_on(direction, sink);
                let Some(packet) = packet else { break };
                sink(Event::Send(direction, packet));
            }
        }
    }

    /// Time at which [`Driver::service`] is worth calling again; `None` if only an arrival can change anything.
    #[must_use]
    pub fn next_service(&self, now: Instant) -> Option<Instant> {
        let of = |q: &Q| [q.next_ready(now), q.reverse_path().and_then(|path| path.next_release(now))];
        self.disciplines.iter().flat_map(of).flatten().min()
    }

    /// Drives the box through `arrivals`, whose instants do not decrease, and on until nothing waits that time alone
    /// would let go. `sink` hears all that happens, in order.
    ///
    /// # Errors
    /// The first that `arrivals` or `sink` gives.
    pub fn run<E>(
        &mut self,
        arrivals: impl IntoIterator<Item = Result<(Instant, Direction, P), E>>,
        mut sink: impl FnMut(Instant, Event<P>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut arrivals = arrivals.into_iter();
        let mut next = arrivals.next().transpose()?;
        let (mut now, mut wake) = (Instant::ZERO, None);
        while let Some(at) = next.as_ref().map(|a| a.0).into_iter().chain(wake).min() {
            now = now.max(at);
            let mut outcome = Ok(());
            let mut hear = |event| {
                if outcome.is_ok() {
                    outcome = sink(now, event);
                }
            };
            match next.take_if(|a| a.0 <= now) {
                Some((_, direction, packet)) => {
                    self.arrive(now, direction, packet, &mut hear);
                    outcome?;
                    next = arrivals.next().transpose()?;
                }
                None => {
                    self.service(now, &mut hear);
                    outcome?;
                }
            }
            wake = self.next_service(now);
        }
        Ok(())
    }

    fn enqueue(&mut self, now: Instant, direction: Direction, packet: P, sink: &mut impl FnMut(Event<P>)) {
        self.disciplines[direction as usize].enqueue(now, packet, &mut self.verdicts);
        self.hand_on(direction, sink);
    }

    fn release(&mut self, now: Instant, direction: Direction) -> Option<P> {
        self.disciplines[direction as usize].reverse_path_mut()?.release(now, &mut self.verdicts)
    }

    fn hand_on(&mut self, direction: Direction, sink: &mut impl FnMut(Event<P>)) {
        self.verdicts.drain(..).for_each(|verdict| sink(Event::Verdict(direction, verdict)));
    }
}
