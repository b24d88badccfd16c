//! The simulator's order of calls is its own, for speed. Here it is held against [`Driver`]'s, which the box goes
//! through: the same arrivals in both directions, the same discipline in each, all that each discipline was asked and
//! said.

use core::any::Any;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use narrows_qdisc::follow::{Decision, FollowConfig};
use narrows_qdisc::{
    Backlog, BoxedDiscipline, Direction, Discipline, Driver, Manage, Packet as _, Qdisc, Report, ReversePath,
    Settings, Shaper, ShaperConfig, Spec, Verdict, Verdicts,
};
use narrows_units::{Bytes, Duration, Ecn, Instant, Rate, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

use super::changing::behind_a_shaper;
use super::{LinkPlan, Network, ShaperPlan};
use crate::event::Event;
use crate::ids::FlowId;
use crate::link::{Before, Bottleneck};
use crate::packet::{DATAGRAM, Label, Packet, Pkt};

/// Every discipline, with settings that use what it can do.
const SPECS: &[&str] = &[
    "fifo:30",
    "cake:60",
    "cake:40,flows=16,ack_filter=aggressive",
    "codel:60",
    "drr:40",
    "fq_codel:60,flows=16",
    "pie:60,target=20ms",
    "red:30",
    "rio:ps,buffer=40",
    "sfq:40",
    "classes:buffer=40",
    "classes:share=0.2,packets=4,buffer=30",
    "classes:threshold=auto,split=auto,buffer=30",
    "classes:queue=red,packets=3,split=auto,buffer=30",
    "classes:random,share=0.9,buffer=30",
    "taq:round_limit_ms=200",
    "taq:round_limit_ms=200,waiting_syn=drop",
    "taq:round_limit_ms=200,share=user,t_wait=1",
    "taq:round_limit_ms=200,window_clamp=off,memory_packets=40",
    "taq:round_limit_ms=200,share=flow",
    "taq:mode=paper,p_admit=0.01,buffer=12",
    "taq:mode=paper,p_admit=0.01,waiting_syn=hold,buffer=12",
    "taq:mode=paper,p_admit=0.01,share=user,fair_share=proportional,buffer=12",
];

const LINKS: [ShaperConfig; 2] = [
    ShaperConfig { overhead: 14, ..ShaperConfig::new(Rate::from_kbps(601)) },
    ShaperConfig { overhead: 14, ..ShaperConfig::new(Rate::from_kbps(257)) },
];

/// Call or verdict of a discipline about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Queued,
    Sent,
    Passed,
    Kept,
    Released,
    Dropped,
    Suppressed,
    Refused,
    Marked,
}

type Entry = (Instant, What, u32, Header);
type Log = Arc<Mutex<Vec<Entry>>>;

/// A discipline that keeps a log, and another of what it decides.
struct Logged {
    inner: BoxedDiscipline<Pkt>,
    log: Log,
    decided: Arc<Mutex<Vec<Decision>>>,
}

impl Logged {
    fn note(&self, now: Instant, what: What, id: u32, header: Header) {
        self.log.lock().unwrap().push((now, what, id, header));
    }

    fn packet(&self, now: Instant, what: What, packet: &Pkt) {
        self.note(now, what, packet.0.label.flow.0, *packet.header());
    }

    fn verdicts(&self, now: Instant, made: &[Verdict<Pkt>]) {
        for verdict in made {
            match verdict {
                Verdict::Dropped { packet, .. } => self.packet(now, What::Dropped, packet),
                Verdict::Suppressed { packet } => self.packet(now, What::Suppressed, packet),
                Verdict::Refused { packet, .. } => self.packet(now, What::Refused, packet),
                Verdict::Marked { header, .. } => self.note(now, What::Marked, 0, *header),
            }
        }
    }

    fn path(&mut self) -> &mut dyn ReversePath<Pkt> {
        self.inner.reverse_path_mut().unwrap()
    }
}

impl Qdisc<Pkt> for Logged {
    fn enqueue(&mut self, now: Instant, packet: Pkt, verdicts: &mut Verdicts<Pkt>) {
        self.packet(now, What::Queued, &packet);
        let before = verdicts.len();
        self.inner.enqueue(now, packet, verdicts);
        self.verdicts(now, &verdicts[before..]);
        self.decided.lock().unwrap().extend(std::iter::from_fn(|| self.inner.next_decision()));
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<Pkt>) -> Option<Pkt> {
        let before = verdicts.len();
        let packet = self.inner.dequeue(now, verdicts);
        self.verdicts(now, &verdicts[before..]);
        packet.inspect(|p| self.packet(now, What::Sent, p))
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        self.inner.next_ready(now)
    }
    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

impl ReversePath<Pkt> for Logged {
    fn reverse(&mut self, now: Instant, packet: Pkt, verdicts: &mut Verdicts<Pkt>) -> Option<Pkt> {
        let (before, id, header) = (verdicts.len(), packet.0.label.flow.0, *packet.header());
        let passed = self.path().reverse(now, packet, verdicts);
        self.verdicts(now, &verdicts[before..]);
        match &passed {
            Some(packet) => self.packet(now, What::Passed, packet),
            None => self.note(now, What::Kept, id, header),
        }
        passed
    }
    fn release(&mut self, now: Instant, verdicts: &mut Verdicts<Pkt>) -> Option<Pkt> {
        let before = verdicts.len();
        let released = self.path().release(now, verdicts);
        self.verdicts(now, &verdicts[before..]);
        released.inspect(|p| self.packet(now, What::Released, p))
    }
    fn next_release(&self, now: Instant) -> Option<Instant> {
        self.inner.reverse_path().unwrap().next_release(now)
    }
    fn held(&self) -> usize {
        self.inner.reverse_path().unwrap().held()
    }
    fn release_all(&mut self, now: Instant) {
        self.path().release_all(now);
    }
}

impl Manage for Logged {
    fn report(&mut self, now: Instant) -> Report {
        self.inner.report(now)
    }
    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        self.inner.reconfigure(now, settings, link)
    }
}

impl Discipline<Pkt> for Logged {
    fn reverse_path(&self) -> Option<&dyn ReversePath<Pkt>> {
        self.inner.reverse_path().map(|_| self as _)
    }
    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<Pkt>> {
        self.inner.reverse_path().is_some().then_some(self as _)
    }
}

/// Builds the same discipline for both directions, each with a log.
fn logged(build: &Build<'_>) -> ([Logged; 2], [Log; 2]) {
    let logs = [Log::default(), Log::default()];
    let one = |at: usize| {
        let mut inner = build(&LINKS[at]);
        inner.record_decisions(true);
        Logged { inner, log: logs[at].clone(), decided: Arc::default() }
    };
    ([one(0), one(1)], logs)
}

/// Makes a discipline for a link.
type Build<'a> = dyn Fn(&ShaperConfig) -> BoxedDiscipline<Pkt> + 'a;

/// Calls, reports and decisions of the disciplines of both directions.
type Told = ([Log; 2], [Report; 2], [Vec<Decision>; 2]);

/// Users who download and upload: handshakes, data, copies of it, acknowledgments, ends, some ECN, some UDP. New users
/// come all the time, so that admission control has something to decide.
fn arrivals(seed: u64, packets: u32) -> Vec<(Instant, Direction, Header)> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut now, mut next) = (0, vec![0_u32; 4000]);
    let mut all = Vec::new();
    for n in 0..packets {
        now += rng.u64(1..14_000_000);
        let user = (n / 12 + rng.u32(0..40)) % 4000;
        let key = FlowKey::new(
            [192, 0, 2, 1].into(),
            [10, 0, (user >> 8) as u8, user as u8].into(),
            if user.is_multiple_of(3) { 80 } else { 443 },
            40_000,
            if user.is_multiple_of(11) { Proto::UDP } else { Proto::TCP },
        );
        // Every fifth user uploads.
        let uploads = user.is_multiple_of(5);
        let (forward, back) =
            if uploads { (Direction::Up, Direction::Down) } else { (Direction::Down, Direction::Up) };
        let sent = &mut next[user as usize];
        let segment = |index: u32| SeqNum(1 + index * 1000);
        let base = TcpHeader {
            flags: Flags::ACK,
            window: 600,
            timestamps: Some((n, n / 2)),
            window_scale: None,
            ..TcpHeader::default()
        };
        let syn = TcpHeader { window_scale: Some(7), mss: Some(1460), ..base };
        let (direction, tcp) = match (*sent, rng.u32(0..10)) {
            (0, _) => {
                *sent = 1;
                (Direction::Up, TcpHeader { flags: Flags::SYN, ..syn })
            }
            (1, _) => {
                *sent = 2;
                (Direction::Down, TcpHeader { flags: Flags::SYN.and(Flags::ACK), ack: SeqNum(1), ..syn })
            }
            (k, 0..=4) => {
                *sent = k + 1;
                (forward, TcpHeader { seq: segment(k - 2), payload: 1000, ..base })
            }
            (k, 5..=6) if k > 3 => {
                (forward, TcpHeader { seq: segment(rng.u32(0..k - 2)), payload: 1000, ..base })
            }
            // A server may open connections too.
            (_, 7) if user.is_multiple_of(7) => (Direction::Down, TcpHeader { flags: Flags::SYN, ..syn }),
            (k, _) => (back, TcpHeader { ack: segment(k.saturating_sub(3)), ..base }),
        };
        let len = Bytes(52 + u64::from(tcp.payload));
        let ecn = if user.is_multiple_of(4) { Ecn::Ect0 } else { Ecn::NotEct };
        let header = Header {
            key: if direction == Direction::Down { key } else { key.reverse() },
            len,
            ecn,
            tcp: (key.proto == Proto::TCP).then_some(tcp),
            ..Header::default()
        };
        all.push((Instant::from_nanos(now), direction, header));
    }
    all
}

fn through_network(
    build: &Build<'_>,
    shapes: [Option<ShaperConfig>; 2],
    arrivals: &[(Instant, Direction, Header)],
) -> Told {
    let mut net = Network::new(1);
    let (server, users) = (net.add_node(), net.add_node());
    let hosts = [server, users].map(|node| {
        let group = net.add_group(node, None);
        net.add_host(group, Duration::ZERO)
    });
    let ends = [(server, users), (users, server)];
    let links = [0, 1].map(|at| {
        let (from, to) = ends[at];
        net.add_link(LinkPlan { from, to, shape: shapes[at], ..LinkPlan::default() })
    });
    let (disciplines, logs) = logged(build);
    let decided = disciplines.each_ref().map(|discipline| discipline.decided.clone());
    for (link, discipline) in links.into_iter().zip(disciplines) {
        net.links[link.index()].before = Before::Discipline(Box::new(Bottleneck::new(Box::new(discipline))));
    }
    net.pair(links[0], links[1]);
    net.settle();
    for (id, (at, direction, header)) in arrivals.iter().enumerate() {
        let (src, dst) = match direction {
            Direction::Down => (hosts[0], hosts[1]),
            Direction::Up => (hosts[1], hosts[0]),
        };
        let label = Label {
            flow: FlowId(id as u32),
            src,
            dst,
            route: net.route(src, dst),
            end: DATAGRAM,
            ..Label::default()
        };
        let mut packet = net.pool.take();
        *packet.0 = Packet { label, header: *header, ..Packet::default() };
        net.events.push(*at, Event::Arrive(packet));
    }
    while let Some((at, event)) = net.events.pop(Instant::FAR_FUTURE, |_| 0) {
        net.now = at;
        match event {
            Event::Arrive(packet) => net.arrive(packet),
            Event::Deliver(packet) => net.pool.give(packet),
            Event::Free(link) => net.free(link),
            Event::Serve(link) => net.service(link),
            _ => unreachable!("nobody else schedules"),
        }
    }
    let report = links
        .map(|id| net.links[id.index()].discipline_mut().unwrap().discipline.report(Instant::FAR_FUTURE));
    (logs, report, decided.map(|decided| std::mem::take(&mut *decided.lock().unwrap())))
}

fn through_driver(build: &Build<'_>, arrivals: &[(Instant, Direction, Header)]) -> Told {
    let (disciplines, logs) = logged(build);
    let decided = disciplines.each_ref().map(|discipline| discipline.decided.clone());
    let [down, up] = disciplines;
    let mut driver = Driver::new(Shaper::new(LINKS[0], down), Shaper::new(LINKS[1], up));
    let Ok(()) = driver.run(packets(arrivals), |_, _| Ok(()));
    let report = Direction::BOTH.map(|d| driver.discipline_mut(d).report(Instant::FAR_FUTURE));
    (logs, report, decided.map(|decided| std::mem::take(&mut *decided.lock().unwrap())))
}

/// The arrivals as a driver takes them.
fn packets(
    arrivals: &[(Instant, Direction, Header)],
) -> impl Iterator<Item = Result<(Instant, Direction, Pkt), Infallible>> {
    arrivals.iter().enumerate().map(|(id, (at, direction, header))| {
        let label = Label { flow: FlowId(id as u32), end: DATAGRAM, ..Label::default() };
        let packet = Packet { label, header: *header, ..Packet::default() };
        Ok((*at, *direction, Pkt(Box::new(packet))))
    })
}

/// The simulator asks a reverse path again a nanosecond after the event that lets a packet go, so what follows from it
/// may be that much later.
const SLACK: Duration = Duration::from_nanos(8);

/// Asserts that both logs have equal entries in equal order at equal instants. Where the reverse paths of both
/// directions let packets go at one instant, the driver asks down first and the simulator in the order in which they
/// asked: so with `slack`, entries that are no further apart may stand in any order.
fn assert_same(net: &[Entry], driven: &[Entry], slack: Duration) {
    let mut at = 0;
    while at < driven.len() {
        let together = driven[at..].iter().take_while(|e| e.0 <= driven[at].0 + slack).count();
        let end = at + if slack > Duration::ZERO { together } else { 1 };
        let sorted = |log: &[Entry]| {
            let mut some = log[at..end.min(log.len())].to_vec();
            some.sort_by_key(|e| (e.2, e.1 as u8));
            some
        };
        for (x, y) in sorted(net).iter().zip(&sorted(driven)) {
            let same = (x.1, x.2, x.3) == (y.1, y.2, y.3) && x.0 >= y.0 && x.0 <= y.0 + slack;
            assert!(same, "about entry {at}: {x:?}, {y:?}\n{}", context(net, driven, at));
        }
        at = end;
    }
    assert_eq!(net.len(), driven.len());
}

fn context(net: &[Entry], driven: &[Entry], at: usize) -> String {
    let short = |e: &Entry| format!("{} {:?} {}", e.0.as_nanos(), e.1, e.2);
    let lines = net.iter().zip(driven).skip(at.saturating_sub(6)).take(24);
    lines.map(|(x, y)| format!("{:40} | {}\n", short(x), short(y))).collect()
}

#[test]
fn every_discipline_is_asked_the_same_as_by_the_driver() {
    for name in Spec::NAMES {
        assert!(SPECS.iter().any(|s| s.split(':').next() == Some(name)), "{name} is missing");
    }
    for text in SPECS {
        for seed in [1, 2] {
            println!("{text} seed {seed}");
            let spec: Spec = text.parse().unwrap();
            let arrivals = arrivals(seed, 4_000);
            let build = |link: &ShaperConfig| spec.build(link, 1);
            let ((net, net_report, _), (driven, report, _)) =
                (through_network(&build, LINKS.map(Some), &arrivals), through_driver(&build, &arrivals));
            let mut seen = Vec::new();
            for (a, b) in net.iter().zip(&driven) {
                let (a, b) = (a.lock().unwrap(), b.lock().unwrap());
                assert_same(&a, &b, if spec.name() == "taq" { SLACK } else { Duration::ZERO });
                seen.extend(a.iter().map(|entry| entry.1));
            }
            let counters = |r: &Report| r.counters.clone();
            assert_eq!(net_report.each_ref().map(counters), report.each_ref().map(counters));
            if spec.name() == "taq" {
                let refuses = text.contains("drop") || !text.contains("hold") && text.contains("paper");
                let decided = if refuses { What::Refused } else { What::Released };
                assert!(seen.contains(&decided), "admission control had nothing to do");
            }
        }
    }
}

/// A shaper that follows its link decides the same in the simulator as behind the box's driver, and records the same.
/// Nothing but the shaper holds packets back, as in a box.
#[test]
fn decisions_are_those_of_the_driver() {
    for place in ["find", "before", "behind"] {
        let follow: FollowConfig = Settings::read(&format!("where={place},max=600")).unwrap();
        let spec: Spec = "fifo:30".parse().unwrap();
        let build = |link: &ShaperConfig| behind_a_shaper(&spec, link, ShaperPlan::Follow(&follow), 1);
        let arrivals = arrivals(1, 4_000);
        let (.., net) = through_network(&build, [None; 2], &arrivals);
        let (disciplines, _) = logged(&build);
        let decided = disciplines.each_ref().map(|discipline| discipline.decided.clone());
        let [down, up] = disciplines;
        let Ok(()) = Driver::new(down, up).run(packets(&arrivals), |_, _| Ok(()));
        for (net, driven) in net.iter().zip(decided) {
            let driven = driven.lock().unwrap();
            for (own, other) in net.iter().zip(driven.iter()) {
                let late = own.at.since(other.at).max(other.at.since(own.at));
                assert!(late <= SLACK, "{place}: {own:?} {other:?}");
                // Nanoseconds of difference are none in a file.
                assert_eq!(own.cells(), other.cells(), "{place}");
            }
            assert_eq!(net.len(), driven.len(), "{place}");
        }
        let count: usize = net.iter().map(Vec::len).sum();
        assert!(count > 4, "{place}: {count}");
    }
}
