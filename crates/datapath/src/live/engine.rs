//! The box's inner loop without its clock: one step takes what has come, asks the disciplines, and hands on what they
//! decided. All decisions are made in [`Duplex`]; here are only order and bookkeeping.

use std::io;

use narrows_qdisc::{Direction, Duplex, Event, Packet, Qdisc, Report, Verdict};
use narrows_units::Instant;

use super::backend::Backend;
use super::lane::{Lane, LaneSettings};

/// What a step found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// When the next step is worth while though nothing arrives; an instant at or before `now` means at once.
    pub next: Option<Instant>,
    /// Whether more packets may be waiting already.
    pub more: bool,
    /// Whether anything came or went.
    pub active: bool,
}

/// A box with two directions.
pub struct Engine<P> {
    duplex: Duplex<P, Lane<P>>,
    arrivals: Vec<(Direction, P)>,
    events: Vec<Event<P>>,
}

impl<P: Packet + Send + 'static> Engine<P> {
    /// A box that does as told, down first.
    #[must_use]
    pub fn new(settings: &[LaneSettings; 2]) -> Self {
        let [down, up] = settings;
        Self { duplex: Duplex::new(Lane::new(down), Lane::new(up)), arrivals: Vec::new(), events: Vec::new() }
    }

    /// Takes what has come and sends what may leave at `now`, which must not decrease between calls.
    ///
    /// # Errors
    /// Those of the back end; nothing is lost by calling again.
    pub fn step<B: Backend<Packet = P>>(&mut self, now: Instant, backend: &mut B) -> io::Result<Step> {
        let received = backend.receive(now, &mut self.arrivals);
        let mut active = !self.arrivals.is_empty();
        // Each packet is served as if it had come alone: a full queue must not refuse what a free link would take.
        for (direction, packet) in self.arrivals.drain(..) {
            self.duplex.arrive(now, direction, packet, &mut self.events);
            self.duplex.serve(now, &mut self.events);
        }
        if !active {
            self.duplex.serve(now, &mut self.events);
        }
        active |= !self.events.is_empty();
        self.hand_on(now, backend)?;
        Ok(Step { next: self.duplex.next_ready(now), more: received?, active })
    }

    /// Exchanges rates and disciplines. What waits is kept, in order, and leaves at the new rate.
    ///
    /// # Errors
    /// Those of the back end.
    pub fn reconfigure<B: Backend<Packet = P>>(
        &mut self,
        now: Instant,
        settings: &[LaneSettings; 2],
        backend: &mut B,
    ) -> io::Result<()> {
        for direction in Direction::BOTH {
            let mut verdicts = Vec::new();
            self.duplex.discipline_mut(direction).reconfigure(
                now,
                &settings[direction as usize],
                &mut verdicts,
            );
            self.events.extend(verdicts.into_iter().map(|v| Event::Verdict(direction, v)));
        }
        self.hand_on(now, backend)
    }

    /// Sends all that waits, in order and at once: the box is about to go.
    ///
    /// # Errors
    /// Those of the back end.
    pub fn release_all<B: Backend<Packet = P>>(&mut self, now: Instant, backend: &mut B) -> io::Result<()> {
        for direction in Direction::BOTH {
            let mut verdicts: Vec<Verdict<P>> = Vec::new();
            let waiting = self.duplex.discipline_mut(direction).drain(now, &mut verdicts);
            self.events.extend(waiting.into_iter().map(|p| Event::Send(direction, p)));
            self.events.extend(verdicts.into_iter().map(|v| Event::Verdict(direction, v)));
        }
        self.hand_on(now, backend)
    }

    /// The state of one direction, for people.
    pub fn report(&mut self, now: Instant, direction: Direction) -> Report {
        self.duplex.discipline_mut(direction).report(now)
    }

    fn hand_on<B: Backend<Packet = P>>(&mut self, now: Instant, backend: &mut B) -> io::Result<()> {
        for event in self.events.drain(..) {
            backend.carry_out(now, event);
        }
        backend.flush()
    }
}
