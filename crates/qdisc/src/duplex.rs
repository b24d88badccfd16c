//! Two disciplines, one per direction of a link, and what passes between them: a box without input or output.
//!
//! The live box and the simulator both drive this, so they cannot differ in the order of calls.

use narrows_units::Instant;

use crate::{Packet, Qdisc, Verdict, Verdicts};

/// A direction through the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the wide network to the users.
    Down,
    /// From the users to the wide network.
    Up,
}

impl Direction {
    /// Both, down first.
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

/// What the box did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<P> {
    /// A packet goes on its way in this direction.
    Send(Direction, P),
    /// The discipline of this direction decided something else.
    Verdict(Direction, Verdict<P>),
}

/// Two disciplines that see each other's packets.
#[derive(Debug)]
pub struct Duplex<P, Q> {
    disciplines: [Q; 2],
    verdicts: Verdicts<P>,
}

impl<P: Packet, Q: Qdisc<P>> Duplex<P, Q> {
    /// A box with these disciplines.
    #[must_use]
    pub const fn new(down: Q, up: Q) -> Self {
        Self { disciplines: [down, up], verdicts: Vec::new() }
    }

    /// The discipline of one direction.
    pub const fn discipline_mut(&mut self, direction: Direction) -> &mut Q {
        &mut self.disciplines[direction as usize]
    }

    /// Takes both disciplines out, down first.
    #[must_use]
    pub fn into_disciplines(self) -> [Q; 2] {
        self.disciplines
    }

    /// A packet came in. The discipline of the other direction sees it first (it may clamp, hold or refuse), then its
    /// own queues it. Call [`Duplex::serve`] afterwards.
    pub fn arrive(&mut self, now: Instant, direction: Direction, packet: P, out: &mut Vec<Event<P>>) {
        let other = direction.other();
        let passed = self.disciplines[other as usize].reverse(now, packet, &mut self.verdicts);
        self.tell(other, out);
        if let Some(packet) = passed {
            self.disciplines[direction as usize].enqueue(now, packet, &mut self.verdicts);
            self.tell(direction, out);
        }
    }

    /// Sends all that may leave now.
    pub fn serve(&mut self, now: Instant, out: &mut Vec<Event<P>>) {
        // What one door lets go is queued by the other direction, so doors come first.
        for direction in Direction::BOTH {
            while let Some(packet) =
                self.disciplines[direction as usize].release_reverse(now, &mut self.verdicts)
            {
                self.tell(direction, out);
                self.disciplines[direction.other() as usize].enqueue(now, packet, &mut self.verdicts);
                self.tell(direction.other(), out);
            }
            self.tell(direction, out);
        }
        for direction in Direction::BOTH {
            loop {
                let packet = self.disciplines[direction as usize].dequeue(now, &mut self.verdicts);
                self.tell(direction, out);
                let Some(packet) = packet else { break };
                out.push(Event::Send(direction, packet));
            }
        }
    }

    /// When [`Duplex::serve`] is worth calling again; `None` if only an arrival can change anything.
    #[must_use]
    pub fn next_ready(&self, now: Instant) -> Option<Instant> {
        self.disciplines.iter().flat_map(|q| [q.next_ready(now), q.next_release(now)]).flatten().min()
    }

    fn tell(&mut self, direction: Direction, out: &mut Vec<Event<P>>) {
        out.extend(self.verdicts.drain(..).map(|v| Event::Verdict(direction, v)));
    }
}
