//! Two ends and a path between them, for tests: delay, rate and whatever fate each segment is to have. Everything that
//! happens is logged.

#![allow(dead_code, unused_must_use, reason = "each test file uses its part")]

use std::collections::BTreeMap;

use narrows_tcp::{Config, Endpoint, Io, Segment, TcpEvent};
use narrows_units::{Bytes, Duration, Ecn, Instant, Rate, SeqNum};
use narrows_wire::Flags;

/// End of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The first end.
    A,
    /// The second end.
    B,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        if self == Self::A { Self::B } else { Self::A }
    }
}

/// Fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentFate {
    /// The segment arrives.
    Pass,
    /// The segment is lost.
    Drop,
    /// The segment arrives twice.
    Twice,
    /// The segment arrives later by this time.
    Late(Duration),
    /// The segment arrives with a mark: congestion experienced (RFC 3168).
    Mark,
}

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoggedSegment {
    /// Time at which the segment left.
    pub at: Instant,
    /// End that sent the segment.
    pub from: Side,
    /// The segment itself.
    pub segment: Segment,
    /// Fate of the segment.
    pub fate: SegmentFate,
}

/// A path's two directions are alike.
#[derive(Clone, Copy, Debug)]
pub struct WirePath {
    /// Propagation, one way.
    pub delay: Duration,
    /// Serialisation; `None` for none. The queue before it has no end.
    pub rate: Option<Rate>,
    /// Bytes on the wire beside the payload.
    pub header: u32,
}

impl WirePath {
    /// Delay only.
    pub fn delay_ms(ms: u64) -> Self {
        Self { delay: Duration::from_millis(ms), rate: None, header: 40 }
    }
}

type Script<'a> = Box<dyn FnMut(Side, Instant, &Segment) -> SegmentFate + 'a>;

/// Two ends, wired back to back.
pub struct Wire<'a> {
    pub config: [Config; 2],
    pub ends: [Endpoint; 2],
    pub path: WirePath,
    pub now: Instant,
    pub log: Vec<LoggedSegment>,
    pub events: Vec<(Instant, Side, TcpEvent)>,
    script: Script<'a>,
    in_network: BTreeMap<(Instant, u64), (Side, Segment)>,
    sequence: u64,
    free_at: [Instant; 2],
}

#[derive(Default)]
struct Tray {
    segments: Vec<Segment>,
    events: Vec<TcpEvent>,
}

impl Io for Tray {
    fn transmit(&mut self, segment: &Segment) {
        self.segments.push(*segment);
    }
    fn event(&mut self, event: TcpEvent) {
        self.events.push(event);
    }
}

impl<'a> Wire<'a> {
    /// Two ends of the same settings; `script` is asked about each segment when it leaves.
    pub fn new(
        config: Config,
        path: WirePath,
        script: impl FnMut(Side, Instant, &Segment) -> SegmentFate + 'a,
    ) -> Self {
        Self::of([config, config], [SeqNum(1000), SeqNum(1000)], path, script)
    }

    /// Two ends.
    pub fn of(
        config: [Config; 2],
        isn: [SeqNum; 2],
        path: WirePath,
        script: impl FnMut(Side, Instant, &Segment) -> SegmentFate + 'a,
    ) -> Self {
        Self {
            ends: [Endpoint::new(&config[0], isn[0]), Endpoint::new(&config[1], isn[1])],
            config,
            path,
            now: Instant::ZERO,
            log: vec![],
            events: vec![],
            script: Box::new(script),
            in_network: BTreeMap::new(),
            sequence: 0,
            free_at: [Instant::ZERO; 2],
        }
    }

    /// Lets an application act.
    pub fn act(&mut self, side: Side, act: Act) {
        let mut tray = Tray::default();
        let config = &self.config[side as usize];
        let end = &mut self.ends[side as usize];
        match act {
            Act::Open => end.open(config, self.now, &mut tray),
            Act::Write(bytes) => end.write(config, self.now, bytes, &mut tray),
            Act::Close => end.close(config, self.now, &mut tray),
        }
        self.take(side, tray);
    }

    fn take(&mut self, side: Side, tray: Tray) {
        for event in tray.events {
            self.events.push((self.now, side, event));
        }
        for segment in tray.segments {
            let fate = (self.script)(side, self.now, &segment);
            self.log.push(LoggedSegment { at: self.now, from: side, segment, fate });
            let size = Bytes(u64::from(segment.tcp.payload + self.path.header));
            let busy = self.path.rate.map_or(Duration::ZERO, |rate| rate.time_to_send(size));
            let free = &mut self.free_at[side as usize];
            *free = (*free).max(self.now) + busy;
            let at = *free + self.path.delay;
            let (copies, at) = match fate {
                SegmentFate::Pass | SegmentFate::Mark => (1, at),
                SegmentFate::Drop => (0, at),
                SegmentFate::Twice => (2, at),
                SegmentFate::Late(by) => (1, at + by),
            };
            let mut segment = segment;
            if fate == SegmentFate::Mark {
                segment.ecn = Ecn::Ce;
            }
            for _ in 0..copies {
                self.sequence += 1;
                self.in_network.insert((at, self.sequence), (side.other(), segment));
            }
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Instant> {
        let arrival = self.in_network.keys().next().map(|key| key.0);
        let wakes = self.ends.iter().filter_map(Endpoint::next_wake);
        arrival.into_iter().chain(wakes).min()
    }

    /// Does the next thing; `false` if nothing is left to do. Arrivals come before wake-ups of the same instant.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next() else { return false };
        assert!(at >= self.now, "time runs backwards: {at:?} after {:?}", self.now);
        self.now = at;
        let first = self.in_network.first_key_value().filter(|(key, _)| key.0 == at).map(|(key, _)| *key);
        if let Some((side, segment)) = first.and_then(|key| self.in_network.remove(&key)) {
            self.arrive(side, at, &segment);
            return true;
        }
        for side in [Side::A, Side::B] {
            if self.ends[side as usize].next_wake().is_some_and(|wake| wake <= at) {
                let mut tray = Tray::default();
                self.ends[side as usize].wake(&self.config[side as usize], at, &mut tray);
                let next = self.ends[side as usize].next_wake();
                assert!(
                    next.is_none_or(|next| next > at) || !tray.segments.is_empty(),
                    "a wake-up that does nothing"
                );
                self.take(side, tray);
                return true;
            }
        }
        unreachable!("nothing was due")
    }

    fn arrive(&mut self, side: Side, at: Instant, segment: &Segment) {
        let mut tray = Tray::default();
        let config = &self.config[side as usize];
        self.ends[side as usize].receive(config, at, &segment.tcp, segment.ecn, &mut tray);
        self.take(side, tray);
    }

    /// Runs until nothing is left to do or until `end`.
    pub fn run_until(&mut self, end: Instant) {
        while self.next().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Runs until nothing is left to do; fails after a million steps.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not end");
    }

    /// Bytes given to the application of `side`.
    pub fn delivered(&self, side: Side) -> u64 {
        self.events
            .iter()
            .filter(|e| e.1 == side)
            .map(|e| if let TcpEvent::Delivered { bytes } = e.2 { bytes } else { 0 })
            .sum()
    }

    /// How often `event` happened at `side`.
    pub fn count(&self, side: Side, event: impl Fn(&TcpEvent) -> bool) -> usize {
        self.events.iter().filter(|e| e.1 == side && event(&e.2)).count()
    }

    /// The data segments `side` sent, as (milliseconds, number of the segment counted from 1, if all are `mss` long).
    pub fn data(&self, side: Side) -> Vec<(u64, u32)> {
        let isn = self.log.iter().find(|s| s.from == side).map_or(SeqNum(0), |s| {
            if s.segment.tcp.flags.has(Flags::SYN) {
                s.segment.tcp.seq
            } else {
                SeqNum(s.segment.tcp.seq.0 - 1)
            }
        });
        let mss = self.config[side as usize].mss;
        self.log
            .iter()
            .filter(|s| s.from == side && s.segment.tcp.payload > 0)
            .map(|s| (s.at.as_nanos() / 1_000_000, (s.segment.tcp.seq - isn) / mss + 1))
            .collect()
    }
}

/// Act of an application.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Opens actively.
    Open,
    /// Writes this many bytes.
    Write(u64),
    /// Closes.
    Close,
}

/// Number of a segment of 1000 bytes, from 1; the first byte is 1001.
fn number(segment: &Segment) -> u32 {
    (segment.tcp.seq.0 - 1001) / 1000 + 1
}

/// `fate` is asked for each copy, counted from 1, of each segment of the first end's data.
pub fn of_copies<'a>(
    mut fate: impl FnMut(u32, usize) -> SegmentFate + 'a,
) -> impl FnMut(Side, Instant, &Segment) -> SegmentFate + 'a {
    let mut copies = [0; 100];
    move |side, _, segment| {
        if side == Side::B || segment.tcp.payload == 0 {
            return SegmentFate::Pass;
        }
        copies[number(segment) as usize] += 1;
        fate(number(segment), copies[number(segment) as usize])
    }
}
