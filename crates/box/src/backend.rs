//! Interface between the engine and the network: packets come in, decisions about them go out.

use std::collections::VecDeque;
use std::io;

use narrows_qdisc::{Direction, Event, Packet, Record};
use narrows_units::{Bytes, Instant};

use super::engine::Engine;

/// A packet that was sent and did not leave: it was gone already, as the kernel said afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GonePacket {
    /// Direction in which the packet went.
    pub direction: Direction,
    /// Length of the IP packet in bytes.
    pub len: Bytes,
}

/// A way for packets in and out of the box.
pub trait Backend {
    /// Packet that the back end hands over.
    type Packet: Packet + Send + 'static;

    /// Appends the packets that have come, in the order in which they came, without waiting; at most a bounded number,
    /// so that a flood cannot keep the engine from its timers. Returns whether more may be there already.
    ///
    /// What cannot be queued (no IP, or malformed) is let through here and counted.
    ///
    /// # Errors
    /// If the interface or the kernel's queue is gone.
    fn receive(&mut self, now: Instant, into: &mut Vec<(Direction, Self::Packet)>) -> io::Result<bool>;

    /// Does what was decided: sends, or discards.
    fn apply(&mut self, now: Instant, event: Event<Self::Packet>);

    /// Hands the decisions of this step to the kernel.
    ///
    /// # Errors
    /// If the interface or the kernel's queue is gone.
    fn flush(&mut self) -> io::Result<()>;
    /// Tells whether decisions on packets of this direction still wait here because the kernel did not take them.
    fn keeps(&self, direction: Direction) -> bool {
        let _ = direction;
        false
    }
    /// Takes out what [`Backend::receive`] has heard of packets that were gone when they were sent.
    fn take_gone(&mut self) -> Vec<GonePacket> {
        Vec::new()
    }
}

/// A back end without a network: recorded arrivals in, a log out. Under a scripted clock it drives the engine that runs
/// live, so that what a simulator says of a discipline can be compared with what the box does.
#[derive(Debug, Default)]
pub struct Scripted {
    arrivals: VecDeque<(Instant, Direction, Record)>,
    log: Vec<(Instant, Event<Record>)>,
}

impl Scripted {
    /// A back end that receives these packets at these instants, which must not decrease.
    #[must_use]
    pub fn new(arrivals: impl IntoIterator<Item = (Instant, Direction, Record)>) -> Self {
        Self { arrivals: arrivals.into_iter().collect(), log: Vec::new() }
    }

    /// Time at which the next packet comes.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.arrivals.front().map(|a| a.0)
    }

    /// Steps the engine at arrivals and when it says, as the live loop does, up to `until`.
    ///
    /// # Panics
    /// Never: a script has no input or output to fail.
    pub fn run(&mut self, engine: &mut Engine<Record>, until: Instant) {
        let (mut now, mut next) = (Instant::ZERO, None);
        while let Some(at) = [self.next_arrival(), next].into_iter().flatten().min() {
            now = now.max(at);
            if now > until {
                return;
            }
            next = engine.step(now, self).expect("a script has no input or output to fail").next;
        }
    }

    /// Decisions of the engine and their times.
    #[must_use]
    pub fn log(&self) -> &[(Instant, Event<Record>)] {
        &self.log
    }
}

impl Backend for Scripted {
    type Packet = Record;

    fn receive(&mut self, now: Instant, into: &mut Vec<(Direction, Record)>) -> io::Result<bool> {
        let due = self.arrivals.partition_point(|a| a.0 <= now);
        into.extend(self.arrivals.drain(..due).map(|(_, direction, record)| (direction, record)));
        Ok(false)
    }

    fn apply(&mut self, now: Instant, event: Event<Record>) {
        self.log.push((now, event));
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
