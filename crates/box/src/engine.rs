//! The box's inner loop without its clock: one step takes what has come, asks the disciplines, and hands on what they
//! decided. All calls on the disciplines, and their order, are [`Driver`]'s.

mod handover;

use std::io;

use narrows_qdisc::follow::Decision;
use narrows_qdisc::{
    Ahead, CircuitRates, Direction, Driver, Event, Manage as _, Packet, Qdisc as _, Report, Verdict,
};
use narrows_units::{Instant, Rate};

pub use self::handover::EngineState;
use super::backend::Backend;
use super::lane::{LaneSettings, LinkQueue};

/// Outcome of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Time at which the next step is worth while though nothing arrives; an instant at or before `now` means at
    /// once.
    pub next: Option<Instant>,
    /// Whether more packets may be waiting already.
    pub more: bool,
    /// Whether anything came or went.
    pub active: bool,
    /// Whether packets left, down and up: on their way, or for good. None left where the back end keeps decisions.
    pub left: [bool; 2],
    /// Whether packets wait, down and up: for their turn, or for the kernel to take what was decided.
    pub waits: [bool; 2],
}

/// A box with two directions.
pub struct Engine<P> {
    driver: Driver<P, LinkQueue<P>>,
    arrivals: Vec<(Direction, P)>,
}

impl<P: Packet + Send + 'static> Engine<P> {
    /// A box that does as told, down first.
    #[must_use]
    pub fn new(settings: &[LaneSettings; 2]) -> Self {
        let [down, up] = settings;
        Self { driver: Driver::new(LinkQueue::new(down), LinkQueue::new(up)), arrivals: Vec::new() }
    }

    /// Takes the packets that came and sends those that may leave at `now`, which must not decrease between calls.
    ///
    /// # Errors
    /// Errors of the back end; nothing is lost by calling again.
    pub fn step<B: Backend<Packet = P>>(&mut self, now: Instant, backend: &mut B) -> io::Result<Step> {
        self.step_by(|| now, backend)
    }

    /// Does a step by a clock that goes on meanwhile: of many packets that came together, the last is handled at
    /// its own time, and what became due in between has left.
    ///
    /// # Errors
    /// Errors of the back end; nothing is lost by calling again.
    pub fn step_by<B: Backend<Packet = P>>(
        &mut self,
        mut clock: impl FnMut() -> Instant,
        backend: &mut B,
    ) -> io::Result<Step> {
        let mut now = clock();
        let received = backend.receive(now, &mut self.arrivals);
        for gone in backend.take_gone() {
            self.driver.discipline_mut(gone.direction).give_back(gone.len);
        }
        let mut active = !self.arrivals.is_empty();
        let mut left = [false; 2];
        let mut note = |event: &Event<P>| match event {
            Event::Send(direction, _) => left[*direction as usize] = true,
            Event::Verdict(_, Verdict::Marked { .. }) => {}
            Event::Verdict(direction, _) => left[*direction as usize] = true,
        };
        let mut arrivals = self.arrivals.drain(..);
        while let Some((direction, packet)) = arrivals.next() {
            for (packets, ahead) in [(Ahead::NEAR, Ahead::Near), (Ahead::FAR, Ahead::Far)] {
                if let Some((direction, packet)) = arrivals.as_slice().get(packets - 1) {
                    self.driver.coming(*direction, packet.header(), ahead);
                }
            }
            now = clock();
            self.driver.arrive(now, direction, packet, &mut |event| {
                note(&event);
                backend.apply(now, event);
            });
        }
        drop(arrivals);
        if !active {
            self.driver.service(now, &mut |event| {
                active = true;
                note(&event);
                backend.apply(now, event);
            });
        }
        backend.flush()?;
        let keeps = Direction::BOTH.map(|d| backend.keeps(d));
        for (left, keeps) in left.iter_mut().zip(keeps) {
            *left &= !keeps;
        }
        let waits = Direction::BOTH.map(|d| keeps[d as usize] || self.waiting(d) > 0);
        Ok(Step { next: self.driver.next_service(now), more: received?, active, left, waits })
    }

    /// Changes rates and disciplines. What waits is kept, in order, and leaves at the new rate; what the reverse path
    /// of a discipline that goes kept is released.
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
            let lane = self.driver.discipline_mut(direction);
            let settings = &settings[direction as usize];
            if lane.adjust(now, settings) {
                continue;
            }
            let mut verdicts = Vec::new();
            let held = lane.exchange(now, settings, &mut verdicts);
            hand_on(now, direction, verdicts, backend);
            let mut verdicts = Vec::new();
            let other = self.driver.discipline_mut(direction.other());
            held.into_iter().for_each(|p| other.enqueue(now, p, &mut verdicts));
            hand_on(now, direction.other(), verdicts, backend);
        }
        backend.flush()
    }

    /// Sets the rates of circuits, down and up.
    pub fn set_circuit_rates(&mut self, rates: &[CircuitRates; 2]) {
        for direction in Direction::BOTH {
            self.driver.discipline_mut(direction).set_circuit_rates(&rates[direction as usize]);
        }
    }

    /// Sends all that waits or is held, in order and at once: the box is about to go.
    ///
    /// # Errors
    /// Those of the back end.
    pub fn release_all<B: Backend<Packet = P>>(&mut self, now: Instant, backend: &mut B) -> io::Result<()> {
        for direction in Direction::BOTH {
            let mut verdicts = Vec::new();
            let lane = self.driver.discipline_mut(direction);
            let held = lane.release_held(now, &mut verdicts);
            let waiting = lane.drain(now, &mut verdicts);
            waiting.into_iter().for_each(|p| backend.apply(now, Event::Send(direction, p)));
            held.into_iter().for_each(|p| backend.apply(now, Event::Send(direction.other(), p)));
            hand_on(now, direction, verdicts, backend);
        }
        backend.flush()
    }

    /// Packets of one direction that wait.
    pub fn waiting(&self, direction: Direction) -> usize {
        self.driver.discipline(direction).backlog().packets
    }

    /// Rate found for one direction; `None` unless the direction follows its link's rate.
    pub fn followed(&self, now: Instant, direction: Direction) -> Option<Rate> {
        self.driver.discipline(direction).followed(now)
    }

    /// The oldest decision of one direction that was not fetched, where decisions are recorded.
    pub fn next_decision(&mut self, direction: Direction) -> Option<Decision> {
        self.driver.discipline_mut(direction).next_decision()
    }

    /// Report of one direction's state, for status and pages.
    pub fn report(&mut self, now: Instant, direction: Direction) -> Report {
        self.driver.discipline_mut(direction).report(now)
    }
}

fn hand_on<B: Backend>(
    now: Instant,
    direction: Direction,
    verdicts: Vec<Verdict<B::Packet>>,
    backend: &mut B,
) {
    verdicts.into_iter().for_each(|v| backend.apply(now, Event::Verdict(direction, v)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scripted;
    use crate::backend::GonePacket;
    use narrows_qdisc::{Record, ShaperConfig, Spec};
    use narrows_units::Bytes;

    fn lane(kbps: Option<u64>, spec: &str) -> LaneSettings {
        let link = kbps.map(|k| ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(k)) });
        LaneSettings::new(link, spec.parse::<Spec>().unwrap(), 1)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// A packet of 1500 bytes every 5 ms from 0 on, alternately down and up.
    fn packets(n: u64) -> Vec<(Instant, Direction, Record)> {
        let one = |id| {
            let mut record = Record { id, ..Record::default() };
            record.header.len = Bytes(1500);
            (at(5 * id), Direction::BOTH[id as usize % 2], record)
        };
        (0..n).map(one).collect()
    }

    fn sent(backend: &Scripted, direction: Direction) -> Vec<(u64, u64)> {
        let one = |(t, e): &(Instant, Event<Record>)| match e {
            Event::Send(d, p) if *d == direction => Some((t.as_nanos() / 1_000_000, p.id)),
            _ => None,
        };
        backend.log().iter().filter_map(one).collect()
    }

    #[test]
    fn a_shaped_and_an_open_direction() {
        // Down: 20 ms a packet, so those of 0, 10, 20 ms leave at 0, 20, 40 ms; up they leave as they come.
        let mut engine = Engine::new(&[lane(Some(600), "fifo:9"), lane(None, "fifo:9")]);
        let mut backend = Scripted::new(packets(6));
        backend.run(&mut engine, at(1000));
        assert_eq!(sent(&backend, Direction::Down), [(0, 0), (20, 2), (40, 4)]);
        assert_eq!(sent(&backend, Direction::Up), [(5, 1), (15, 3), (25, 5)]);
    }

    #[test]
    fn a_reload_loses_and_reorders_nothing_whatever_it_changes() {
        // From a long slow queue to: a shorter one, no shaping, an observer.
        let mut watched = lane(None, "fifo:9");
        watched.observe = true;
        for (name, to) in
            [("short", lane(Some(6000), "fifo:1")), ("open", lane(None, "fifo:9")), ("watched", watched)]
        {
            let mut engine = Engine::new(&[lane(Some(60), "fifo:99"), lane(None, "fifo:9")]);
            let mut backend = Scripted::new(packets(20));
            backend.run(&mut engine, at(95));
            assert_eq!(sent(&backend, Direction::Down).len(), 1, "200 ms a packet");
            engine.reconfigure(at(95), &[to, lane(None, "fifo:9")], &mut backend).unwrap();
            backend.run(&mut engine, at(95));
            let next = engine.step(at(96), &mut backend).unwrap().next;
            let mut now = next;
            while let Some(t) = now {
                now = engine.step(t.max(at(96)), &mut backend).unwrap().next;
            }
            let ids: Vec<u64> = sent(&backend, Direction::Down).iter().map(|s| s.1).collect();
            assert_eq!(ids, (0..20).step_by(2).collect::<Vec<_>>(), "{name}");
        }
    }

    #[test]
    fn what_waits_leaves_at_once_when_the_box_goes() {
        let mut engine = Engine::new(&[lane(Some(60), "fifo:99"), lane(None, "fifo:9")]);
        let mut backend = Scripted::new(packets(10));
        backend.run(&mut engine, at(50));
        engine.release_all(at(51), &mut backend).unwrap();
        let ids: Vec<u64> = sent(&backend, Direction::Down).iter().map(|s| s.1).collect();
        assert_eq!(ids, [0, 2, 4, 6, 8]);
    }

    #[test]
    fn it_tells_in_which_direction_packets_left() {
        // One of 1500 bytes at 60 kbit/s takes 200 ms; up they leave as they come.
        let mut engine = Engine::new(&[lane(Some(60), "fifo:99"), lane(None, "fifo:9")]);
        let mut backend = Scripted::new(packets(4));
        let left = [0, 5, 10, 15, 100, 200].map(|ms| engine.step(at(ms), &mut backend).unwrap().left);
        let [none, down, up] = [[false, false], [true, false], [false, true]];
        assert_eq!(left, [down, up, none, up, none, down]);
    }

    /// A kernel that takes no decision, and one that had lost every other packet before.
    struct Deaf {
        inner: Scripted,
        hears: bool,
        gone: Vec<GonePacket>,
    }

    impl Backend for Deaf {
        type Packet = Record;
        fn receive(&mut self, now: Instant, into: &mut Vec<(Direction, Record)>) -> io::Result<bool> {
            self.inner.receive(now, into)
        }
        fn apply(&mut self, now: Instant, event: Event<Record>) {
            if let Event::Send(direction, packet) = &event
                && packet.id % 4 == 2
            {
                self.gone.push(GonePacket { direction: *direction, len: packet.header.len });
            }
            self.inner.apply(now, event);
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn keeps(&self, _: Direction) -> bool {
            !self.hears
        }
        fn take_gone(&mut self) -> Vec<GonePacket> {
            std::mem::take(&mut self.gone)
        }
    }

    #[test]
    fn decisions_that_the_kernel_does_not_take_are_packets_that_wait() {
        let mut engine = Engine::new(&[lane(Some(60), "fifo:9"), lane(None, "fifo:9")]);
        let mut backend = Deaf { inner: Scripted::new(packets(1)), hears: false, gone: Vec::new() };
        let step = engine.step(at(0), &mut backend).unwrap();
        assert_eq!((step.left, step.waits), ([false, false], [true, true]), "sent, and not taken");
        backend.hears = true;
        assert_eq!(engine.step(at(1), &mut backend).unwrap().waits, [false, false]);
    }

    /// At 600 kbit/s a packet takes 20 ms. Of 0, 2, 4, 6, which came down by 30 ms, 2 and 6 were gone: they take no
    /// time.
    #[test]
    fn what_was_gone_takes_no_time_of_the_link() {
        let mut engine = Engine::new(&[lane(Some(600), "fifo:9"), lane(None, "fifo:9")]);
        let mut backend = Deaf { inner: Scripted::new(packets(8)), hears: true, gone: Vec::new() };
        for ms in 0..100 {
            engine.step(at(ms), &mut backend).unwrap();
        }
        assert_eq!(sent(&backend.inner, Direction::Down), [(0, 0), (20, 2), (21, 4), (40, 6)]);
    }

    #[test]
    fn an_observer_touches_nothing() {
        let mut lanes = [lane(Some(8), "fifo:1"), lane(Some(8), "fifo:1")];
        lanes.iter_mut().for_each(|l| l.observe = true);
        let mut engine = Engine::new(&lanes);
        let mut backend = Scripted::new(packets(40));
        backend.run(&mut engine, at(1000));
        let expected: Vec<_> = packets(40).into_iter().map(|(t, d, p)| (t, Event::Send(d, p))).collect();
        assert_eq!(backend.log(), expected);
        assert_eq!(engine.report(at(1000), Direction::Down).counters.arrived, 20);
    }
}
