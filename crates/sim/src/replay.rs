//! Recorded packets through a discipline: a capture replayed as arrivals at a box in front of a link.
//!
//! Both directions go through one [`Driver`], each behind a [`Shaper`] where it has a link, and the box is woken only
//! when it asks to be: the same calls in the same order as the live box makes them, so the verdicts are the same too.
//!
//! A recording does not listen. Senders that lost a packet here had not lost it when they were recorded: nobody slows
//! down, and nobody repairs what this queue dropped. So a replay tells what a discipline does with given arrivals
//! (which packets it drops, how long it lets them wait), not what TCP would make of it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use narrows_qdisc::{
    BoxedDiscipline, Direction, Driver, Event, Fifo, Limit, Packet as _, Reason, Record, Shaper,
    ShaperConfig, Spec, Verdict,
};
use narrows_units::{Duration, Instant};
pub use narrows_users::Prefix;
use narrows_wire::{FlowKey, Header};

/// A recorded packet on the way to the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time at which the packet came. One that came before its predecessor, as clocks may have it, comes together with
    /// it.
    pub at: Instant,
    /// Direction in which the packet goes.
    pub direction: Direction,
    /// The packet's headers.
    pub header: Header,
}

/// Link and discipline of one direction.
#[derive(Clone, Debug)]
pub struct ReplayLink {
    /// The link; `None` lets packets pass at once.
    pub link: Option<ShaperConfig>,
    /// Discipline in front of the link.
    pub discipline: Spec,
}

impl ReplayLink {
    /// A direction in which all passes.
    pub const OPEN: Self = Self { link: None, discipline: Spec::Fifo(Limit::Packets(usize::MAX)) };

    fn build(&self, seed: u64) -> BoxedDiscipline<Record> {
        match self.link {
            Some(link) => Box::new(Shaper::new(link, self.discipline.build::<Record>(&link, seed))),
            None => Box::new(Fifo::new(Limit::Packets(usize::MAX))),
        }
    }
}

/// Which way a packet goes: down to an address of `local`, up from one. `None` if both ends are local or neither is.
/// Where no prefix is given, all goes down.
#[must_use]
pub fn direction(local: &[Prefix], key: &FlowKey) -> Option<Direction> {
    if local.is_empty() {
        return Some(Direction::Down);
    }
    let is_local = |address| local.iter().any(|p| p.contains(address));
    match (is_local(key.src()), is_local(key.dst())) {
        (false, true) => Some(Direction::Down),
        (true, false) => Some(Direction::Up),
        _ => None,
    }
}

/// Counts of packets of a direction or a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets that came.
    pub arrived: u64,
    /// Bytes of the packets that came.
    pub arrived_bytes: u64,
    /// Packets that left.
    pub sent: u64,
    /// Bytes of the packets that left.
    pub sent_bytes: u64,
    /// Packets dropped, by [`Reason`] in the order of [`Reason::ALL`].
    pub dropped: [u64; Reason::ALL.len()],
    /// Superfluous copies discarded.
    pub suppressed: u64,
    /// SYNs turned away.
    pub refused: u64,
    /// Packets marked; a marked packet also counts as sent or dropped later.
    pub marked: u64,
    /// The longest time for which a packet waited before the packet left.
    pub longest: Duration,
}

impl PacketCounts {
    /// Sum of the drops.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

/// Result of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayDirection {
    /// Counts over all packets of the direction.
    pub counts: PacketCounts,
    /// Wait of each packet that left, shortest first: from its arrival at the box, a wait in admission control
    /// included, to the beginning of its sending.
    pub sojourns: Vec<Duration>,
}

impl ReplayDirection {
    /// The sojourn that `per_mille` of a thousand packets did not exceed (nearest rank); `None` where none left.
    #[must_use]
    pub fn sojourn(&self, per_mille: usize) -> Option<Duration> {
        let rank = (self.sojourns.len() * per_mille).div_ceil(1000);
        self.sojourns.get(rank.max(1) - 1).copied()
    }
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayReport {
    /// The way down.
    pub down: ReplayDirection,
    /// The way up.
    pub up: ReplayDirection,
    /// Each direction of each flow by itself.
    pub flows: BTreeMap<FlowKey, PacketCounts>,
    /// Time at which the last packet came.
    pub last_arrival: Instant,
    /// Time at which the last packet began to leave.
    pub last_departure: Instant,
}

impl ReplayReport {
    const fn side(&mut self, direction: Direction) -> &mut ReplayDirection {
        match direction {
            Direction::Down => &mut self.down,
            Direction::Up => &mut self.up,
        }
    }

    /// Adds to the counts of a packet's direction and of the packet's flow.
    fn count(&mut self, packet: &Record, mut add: impl FnMut(&mut PacketCounts)) {
        add(&mut self.side(Ticket::of(packet).direction).counts);
        add(self.flows.entry(packet.header.key).or_default());
    }

    fn arrived(&mut self, now: Instant, packet: &Record) {
        self.last_arrival = now;
        self.count(packet, |c| {
            c.arrived += 1;
            c.arrived_bytes += packet.len().get();
        });
    }

    fn happened(&mut self, now: Instant, event: &Event<Record>) {
        match event {
            Event::Send(direction, packet) => {
                let sojourn = now.since(Ticket::of(packet).at);
                self.last_departure = now;
                self.side(*direction).sojourns.push(sojourn);
                self.count(packet, |c| {
                    c.sent += 1;
                    c.sent_bytes += packet.len().get();
                    c.longest = c.longest.max(sojourn);
                });
            }
            Event::Verdict(_, Verdict::Dropped { packet, reason }) => {
                self.count(packet, |c| c.dropped[*reason as usize] += 1);
            }
            Event::Verdict(_, Verdict::Suppressed { packet }) => self.count(packet, |c| c.suppressed += 1),
            Event::Verdict(_, Verdict::Refused { packet, .. }) => self.count(packet, |c| c.refused += 1),
            Event::Verdict(direction, Verdict::Marked { header, .. }) => {
                self.side(*direction).counts.marked += 1;
                self.flows.entry(header.key).or_default().marked += 1;
            }
        }
    }
}

/// Data that the replay needs of a packet when it leaves. The record's number holds it, so no table is needed.
struct Ticket {
    at: Instant,
    direction: Direction,
}

impl Ticket {
    fn record(arrival: &Arrival, now: Instant) -> Record {
        // Nanoseconds leave a bit: 292 years of recording.
        let id = now.as_nanos() << 1 | arrival.direction as u64;
        Record { id, header: arrival.header }
    }
    const fn of(packet: &Record) -> Self {
        let direction = if packet.id & 1 == Direction::Up as u64 { Direction::Up } else { Direction::Down };
        Self { at: Instant::from_nanos(packet.id >> 1), direction }
    }
}

/// Sends `arrivals` through a box with these lanes until nothing waits any more. `tell` hears all that happens, in
/// order; `seed` is for hashing and tie-breaks. Memory grows with the number of packets that leave (8 bytes each),
/// of flows and of what waits, not with the time it takes.
///
/// # Errors
/// The first that `arrivals` or `tell` gives.
pub fn replay<E>(
    arrivals: impl IntoIterator<Item = Result<Arrival, E>>,
    down: &ReplayLink,
    up: &ReplayLink,
    seed: u64,
    mut tell: impl FnMut(Instant, &Event<Record>) -> Result<(), E>,
) -> Result<ReplayReport, E> {
    let mut driver = Driver::new(down.build(seed), up.build(seed));
    let report = RefCell::new(ReplayReport::default());
    let mut now = Instant::ZERO;
    let arrivals = arrivals.into_iter().map(|arrival| {
        let arrival = arrival?;
        now = now.max(arrival.at);
        let packet = Ticket::record(&arrival, now);
        report.borrow_mut().arrived(now, &packet);
        Ok((now, arrival.direction, packet))
    });
    driver.run(arrivals, |now, event| {
        report.borrow_mut().happened(now, &event);
        tell(now, &event)
    })?;
    let mut report = report.into_inner();
    for side in [&mut report.down, &mut report.up] {
        side.sojourns.sort_unstable();
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use narrows_units::{Bytes, Rate};
    use narrows_wire::Proto;

    use super::*;

    fn packet(ms: u64, port: u16, direction: Direction, len: u64) -> Result<Arrival, Infallible> {
        let key = FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, 1].into(), 80, port, Proto::UDP);
        let key = if direction == Direction::Down { key } else { key.reverse() };
        let at = Instant::from_nanos(ms * 1_000_000);
        Ok(Arrival { at, direction, header: Header { key, len: Bytes(len), ..Header::default() } })
    }

    fn lane(spec: &str) -> ReplayLink {
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) };
        ReplayLink { link: Some(link), discipline: spec.parse().unwrap() }
    }

    #[test]
    fn five_packets_by_hand() {
        // 1500 B at 600 kbit/s take 20 ms. Four come at once to a queue of two: the first leaves at once, two wait 20
        // and 40 ms, the fourth is dropped. The fifth comes at 70 ms to an empty queue and a free link.
        let d = Direction::Down;
        let arrivals = [(0, 1), (0, 2), (0, 3), (0, 4), (70, 1)].map(|(ms, port)| packet(ms, port, d, 1500));
        let mut left = Vec::new();
        let report = replay(arrivals, &lane("fifo:2"), &ReplayLink::OPEN, 1, |now, event| {
            if let Event::Send(Direction::Down, p) = event {
                left.push((now.as_nanos() / 1_000_000, p.header.key.dport));
            }
            Ok(())
        });
        let report = report.unwrap();
        assert_eq!(left, [(0, 1), (20, 2), (40, 3), (70, 1)]);
        let ms = Duration::from_millis;
        assert_eq!(report.down.sojourns, [ms(0), ms(0), ms(20), ms(40)]);
        let quantiles = [1, 500, 501, 750, 1000].map(|p| report.down.sojourn(p));
        assert_eq!(quantiles, [0, 0, 20, 20, 40].map(|n| Some(ms(n))));
        let c = report.down.counts;
        assert_eq!((c.arrived, c.arrived_bytes, c.sent, c.sent_bytes), (5, 7500, 4, 6000));
        assert_eq!((c.dropped_total(), c.dropped[Reason::OverLimit as usize], c.longest), (1, 1, ms(40)));
        assert_eq!(
            (report.last_arrival.as_nanos(), report.last_departure.as_nanos()),
            (70_000_000, 70_000_000)
        );
        let flows: Vec<_> =
            report.flows.iter().map(|(k, c)| (k.dport, c.arrived, c.sent, c.longest)).collect();
        assert_eq!(flows, [(1, 2, 2, ms(0)), (2, 1, 1, ms(20)), (3, 1, 1, ms(40)), (4, 1, 0, ms(0))]);
        assert_eq!(report.up, ReplayDirection::default());
    }

    #[test]
    fn the_way_up_is_open_or_has_a_link_of_its_own() {
        let u = Direction::Up;
        let arrivals = || [0, 0, 1].map(|ms| packet(ms, 1, u, 1500));
        let open = replay(arrivals(), &lane("taq"), &ReplayLink::OPEN, 1, |_, _| Ok(())).unwrap();
        assert_eq!((open.up.counts.sent, open.up.counts.longest), (3, Duration::ZERO));
        let thin = replay(arrivals(), &lane("taq"), &lane("fifo:9"), 1, |_, _| Ok(())).unwrap();
        assert_eq!((thin.up.counts.sent, thin.up.counts.longest), (3, Duration::from_millis(39)));
    }

    #[test]
    fn clocks_that_go_back_and_errors_on_the_way() {
        let d = Direction::Down;
        let back = [packet(50, 1, d, 1500), packet(20, 1, d, 1500)];
        let report = replay(back, &lane("fifo:9"), &ReplayLink::OPEN, 1, |_, _| Ok(())).unwrap();
        assert_eq!(report.down.sojourns, [Duration::ZERO, Duration::from_millis(20)]);
        let whole = |a: Result<Arrival, Infallible>| a.map_err(|e| match e {});
        let broken = [whole(packet(0, 1, d, 1500)), Err("cut")];
        assert_eq!(replay(broken, &lane("fifo:9"), &ReplayLink::OPEN, 1, |_, _| Ok(())), Err("cut"));
        let told = replay([whole(packet(0, 1, d, 1500))], &ReplayLink::OPEN, &ReplayLink::OPEN, 1, |_, _| {
            Err("full")
        });
        assert_eq!(told, Err("full"));
    }

    #[test]
    fn every_packet_is_accounted_for() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for spec in ["fifo:5", "taq", "taq:mode=paper"] {
            let mut ms = 0;
            let arrivals: Vec<_> = (0..3_000)
                .map(|_| {
                    ms += rng.u64(0..20);
                    let direction = if rng.bool() { Direction::Down } else { Direction::Up };
                    packet(ms, rng.u16(1..40), direction, rng.u64(40..1500))
                })
                .collect();
            let run = || {
                replay(arrivals.iter().copied(), &lane(spec), &lane("fifo:9"), seed, |_, _| Ok(())).unwrap()
            };
            let report = run();
            let sides = [report.down.counts, report.up.counts];
            for c in report.flows.values().chain(&sides) {
                assert_eq!(c.arrived, c.sent + c.dropped_total() + c.suppressed + c.refused, "{spec}");
            }
            assert_eq!(sides.iter().map(|c| c.arrived).sum::<u64>(), 3_000);
            let of_flows = |f: fn(&PacketCounts) -> u64| report.flows.values().map(f).sum::<u64>();
            assert_eq!(of_flows(|c| c.sent), sides.iter().map(|c| c.sent).sum());
            assert_eq!(
                of_flows(PacketCounts::dropped_total),
                sides.iter().map(PacketCounts::dropped_total).sum()
            );
            assert!(report.down.sojourns.is_sorted());
            assert_eq!(report.down.sojourn(1000), Some(report.down.counts.longest));
            assert_eq!(run(), report, "{spec}: the same twice");
        }
    }

    #[test]
    fn prefixes_tell_the_way() {
        let key =
            |src: &str, dst: &str| FlowKey::new(src.parse().unwrap(), dst.parse().unwrap(), 1, 2, Proto::TCP);
        let local: Vec<Prefix> =
            ["10.0.0.0/8", "2001:db8::/33", "192.0.2.7"].map(|p| p.parse().unwrap()).into();
        for (src, dst, way) in [
            ("10.255.0.1", "11.0.0.1", Some(Direction::Up)),
            ("11.0.0.1", "10.0.0.1", Some(Direction::Down)),
            ("11.0.0.1", "192.0.2.7", Some(Direction::Down)),
            ("11.0.0.1", "192.0.2.6", None),
            ("10.0.0.1", "192.0.2.7", None),
            ("2001:db8:7fff::1", "2001:db8:8000::1", Some(Direction::Up)),
            ("::a00:1", "2001:db8::1", Some(Direction::Down)),
        ] {
            assert_eq!(direction(&local, &key(src, dst)), way, "{src} {dst}");
        }
        assert_eq!(direction(&[], &key("1.1.1.1", "2.2.2.2")), Some(Direction::Down));
        assert_eq!(direction(&["::/0".parse().unwrap()], &key("1.1.1.1", "::1")), None);
        assert!("0.0.0.0/0".parse::<Prefix>().unwrap().contains([9, 9, 9, 9].into()));
        assert!(!"0.0.0.0/0".parse::<Prefix>().unwrap().contains("::1".parse().unwrap()));
        for wrong in ["10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "home"] {
            assert!(wrong.parse::<Prefix>().unwrap_err().contains(wrong));
        }
    }
}
