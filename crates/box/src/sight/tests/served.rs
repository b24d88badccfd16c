//! Ten minutes of twenty users behind `taq`, with whole TCP at both ends: who is served in turn never stalls, and who
//! lost something does.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use narrows_qdisc::{Driver, Manage as _, Record as Queued, Report, ShaperConfig, Spec};
use narrows_tcp::{Config, Endpoint, Io, Segment, TcpEvent};
use narrows_units::{Duration, Rate};

use super::*;
use crate::lane::{LaneSettings, LinkQueue};

const USERS: u16 = 20;
/// Each fetches one object after the other on so many connections at a time.
const LOOPS: u16 = 2;
const REQUEST: u64 = 200;
const OBJECT: u64 = 30_000;
const MINUTES: u64 = 10;
/// From the box to the users, and to the servers.
const NEAR: Duration = Duration::from_millis(5);
const FAR: Duration = Duration::from_millis(30);

/// A connection: the user's end, and the server's.
struct Connection {
    user: u16,
    key: FlowKey,
    ends: [Endpoint; 2],
    lost: Vec<Loss>,
    /// When its server's timer expired.
    expired: Vec<Instant>,
    over: bool,
}

/// A packet that was lost: when, and when what it carried was acknowledged.
struct Loss {
    at: Instant,
    way: Direction,
    end: SeqNum,
    repaired: Option<Instant>,
}

impl Connection {
    fn loses(&mut self, at: Instant, way: Direction, header: &Header) {
        let end = header.tcp.map_or(SeqNum(0), |tcp| tcp.seq_end());
        self.lost.push(Loss { at, way, end, repaired: None });
    }

    fn acknowledged(&mut self, now: Instant, way: Direction, tcp: &TcpHeader) {
        for loss in &mut self.lost {
            if loss.repaired.is_none() && loss.way != way && loss.end.at_or_before(tcp.ack) {
                loss.repaired = Some(now);
            }
        }
    }

    /// Whether anything of it was lost and not repaired at some time of a stall.
    fn explains(&self, stall: &StallJson) -> bool {
        let s = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
        let (from, until) = (stall.from_s, stall.from_s + stall.length_s);
        self.lost.iter().any(|l| s(l.at) <= until && l.repaired.is_none_or(|at| s(at) > from + 1e-6))
    }
}

/// Packets and timers that an end asks for at once.
#[derive(Default)]
struct Did {
    segments: Vec<Segment>,
    events: Vec<TcpEvent>,
}

impl Io for Did {
    fn transmit(&mut self, segment: &Segment) {
        self.segments.push(*segment);
    }
    fn event(&mut self, event: TcpEvent) {
        self.events.push(event);
    }
}

/// Next event of a connection, which is named by its number.
enum Next {
    Open { user: u16 },
    ToBox { packet: u64 },
    ToEnd { packet: u64 },
    Wake { connection: usize, end: usize },
    Serve,
    Look,
}

/// A packet on its way.
struct Passing {
    connection: usize,
    way: Direction,
    mark: Mark,
    header: Header,
}

struct Village {
    config: Config,
    now: Instant,
    events: BTreeMap<u64, Next>,
    order: BinaryHeap<Reverse<(Instant, u64)>>,
    driver: Driver<Queued, LinkQueue<Queued>>,
    /// Time at which the box is served next.
    serves: Option<Instant>,
    sight: Sight,
    connections: Vec<Connection>,
    passing: Vec<Passing>,
    random: fastrand::Rng,
    /// Part of the packets that are lost behind the box.
    loss: f64,
    numbered: u64,
    /// All stalls that were told.
    told: BTreeMap<u64, StallJson>,
    most_waiting: u32,
    look: fn(&SightJson),
}

impl Village {
    fn new(loss: f64, look: fn(&SightJson)) -> Self {
        let lane = |kbps| {
            let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(kbps)) };
            LinkQueue::new(&LaneSettings::new(Some(link), "taq".parse::<Spec>().unwrap(), 1))
        };
        let mut village = Self {
            config: "linux".parse().unwrap(),
            now: Instant::ZERO,
            events: BTreeMap::new(),
            order: BinaryHeap::new(),
            driver: Driver::new(lane(600), lane(128)),
            serves: None,
            sight: Sight::new(Instant::ZERO, 1),
            connections: Vec::new(),
            passing: Vec::new(),
            random: fastrand::Rng::with_seed(11),
            loss,
            numbered: 0,
            told: BTreeMap::new(),
            most_waiting: 0,
            look,
        };
        for n in 0..USERS * LOOPS {
            village.after(Duration::from_millis(250 * u64::from(n)), Next::Open { user: n % USERS });
        }
        village.after(Duration::from_millis(100), Next::Look);
        village
    }

    fn after(&mut self, time: Duration, next: Next) {
        self.numbered += 1;
        self.events.insert(self.numbered, next);
        self.order.push(Reverse((self.now + time, self.numbered)));
    }

    fn run(&mut self) {
        let end = Instant::ZERO + Duration::from_secs(60 * MINUTES);
        while let Some(Reverse((at, number))) = self.order.pop().filter(|Reverse((at, _))| *at < end) {
            self.now = at;
            self.sight.tick(at);
            match self.events.remove(&number) {
                Some(Next::Open { user }) => self.open(user),
                Some(Next::ToBox { packet }) => self.reaches_the_box(packet as usize),
                Some(Next::ToEnd { packet }) => self.reaches_its_end(packet as usize),
                Some(Next::Wake { connection, end }) => {
                    let (config, now) = (self.config, self.now);
                    if self.connections[connection].ends[end].next_wake().is_some_and(|at| at <= now) {
                        self.act(connection, end, |e, io| e.wake(&config, now, io));
                    }
                }
                Some(Next::Serve) => self.serve(),
                Some(Next::Look) => self.look_at_it(),
                None => unreachable!("each event is there once"),
            }
        }
    }

    fn open(&mut self, user: u16) {
        let n = self.connections.len();
        let address = [10, 0, 0, user as u8 + 1];
        let key = FlowKey::new([192, 0, 2, 1].into(), address.into(), 80, 2000 + n as u16, Proto::TCP);
        let ends = [1000, 5_000_000].map(|isn| Endpoint::new(&self.config, SeqNum(isn)));
        self.connections.push(Connection { user, key, ends, lost: vec![], expired: vec![], over: false });
        let (config, now) = (self.config, self.now);
        self.act(n, 0, |e, io| e.open(&config, now, io));
    }

    /// One end does something; the applications answer to what happens.
    fn act(&mut self, n: usize, end: usize, what: impl FnOnce(&mut Endpoint, &mut Did)) {
        let (config, now) = (self.config, self.now);
        let mut did = Did::default();
        what(&mut self.connections[n].ends[end], &mut did);
        let mut seen = 0;
        while let Some(event) = did.events.get(seen).copied() {
            seen += 1;
            let connection = &mut self.connections[n];
            let own = &mut connection.ends[end];
            match (end, event) {
                (0, TcpEvent::Established) => own.write(&config, now, REQUEST, &mut did),
                (1, TcpEvent::Delivered { .. }) => {
                    own.write(&config, now, OBJECT, &mut did);
                    own.close(&config, now, &mut did);
                }
                (0, TcpEvent::PeerClosed) => own.close(&config, now, &mut did),
                (1, TcpEvent::Timeout { .. }) => connection.expired.push(now),
                (0, TcpEvent::Closed | TcpEvent::Failed) if !connection.over => {
                    connection.over = true;
                    let user = connection.user;
                    self.after(Duration::from_millis(200), Next::Open { user });
                }
                _ => {}
            }
        }
        for segment in did.segments {
            let (way, far) = if end == 0 { (UP, NEAR) } else { (DOWN, FAR) };
            let key = self.connections[n].key;
            let header = Header {
                key: if way == DOWN { key } else { key.reverse() },
                len: Bytes(u64::from(segment.tcp.payload) + 52),
                ecn: segment.ecn,
                tcp: Some(segment.tcp),
                ..Header::default()
            };
            let packet = self.passing.len() as u64;
            self.passing.push(Passing { connection: n, way, mark: Mark::default(), header });
            self.after(far, Next::ToBox { packet });
        }
        if let Some(at) = self.connections[n].ends[end].next_wake() {
            self.after(at.since(now), Next::Wake { connection: n, end });
        }
    }

    fn reaches_the_box(&mut self, id: usize) {
        let packet = &mut self.passing[id];
        packet.mark = self.sight.arrived(self.now, packet.way, &packet.header, None);
        let (way, queued) = (packet.way, Queued { id: id as u64, header: packet.header });
        if let Some(tcp) = &queued.header.tcp {
            self.connections[packet.connection].acknowledged(self.now, way, tcp);
        }
        let mut events = Vec::new();
        self.driver.arrive(self.now, way, queued, &mut |event| events.push(event));
        self.decided(events);
    }

    fn serve(&mut self) {
        if self.serves.is_none_or(|at| at > self.now) {
            return;
        }
        self.serves = None;
        let mut events = Vec::new();
        self.driver.service(self.now, &mut |event| events.push(event));
        self.decided(events);
    }

    fn decided(&mut self, events: Vec<Event<Queued>>) {
        for event in events {
            match event {
                Event::Send(way, queued) => self.leaves(way, &queued),
                Event::Verdict(_, Verdict::Dropped { packet, .. }) => {
                    let Passing { way, mark, connection, .. } = self.passing[packet.id as usize];
                    self.sight.dropped(way, mark, &packet.header);
                    self.connections[connection].loses(self.now, way, &packet.header);
                }
                Event::Verdict(_, Verdict::Suppressed { packet }) => {
                    let Passing { way, mark, .. } = self.passing[packet.id as usize];
                    self.sight.gone(way, mark);
                }
                Event::Verdict(_, Verdict::Refused { packet, .. }) => {
                    let Passing { way, mark, .. } = self.passing[packet.id as usize];
                    self.sight.refused(way, mark);
                }
                Event::Verdict(_, Verdict::Marked { .. }) => {}
            }
        }
        let next = self.driver.next_service(self.now);
        if let Some(at) = next.filter(|at| self.serves.is_none_or(|known| *at < known)) {
            self.serves = Some(at);
            self.after(at.since(self.now), Next::Serve);
        }
    }

    fn leaves(&mut self, way: Direction, queued: &Queued) {
        let id = queued.id as usize;
        self.sight.left(self.now, way, self.passing[id].mark, &queued.header);
        self.passing[id].header = queued.header;
        if way == DOWN && self.random.f64() < self.loss {
            let connection = self.passing[id].connection;
            self.connections[connection].loses(self.now, way, &queued.header);
            return;
        }
        self.after(if way == DOWN { NEAR } else { FAR }, Next::ToEnd { packet: queued.id });
    }

    fn reaches_its_end(&mut self, id: usize) {
        let Passing { connection, way, header, .. } = self.passing[id];
        let Some(tcp) = header.tcp else { return };
        let (config, now) = (self.config, self.now);
        let end = if way == DOWN { 0 } else { 1 };
        self.act(connection, end, |e, io| e.receive(&config, now, &tcp, header.ecn, io));
    }

    fn look_at_it(&mut self) {
        let report = self.sight.report(self.now, |user| user.to_string());
        for stall in &report.stalls_last {
            self.told.insert(stall.number, stall.clone());
        }
        self.most_waiting = self.most_waiting.max(report.states["waiting"]);
        let passed = self.now.since(Instant::ZERO).as_secs_f64();
        for user in &report.users {
            assert!(user.stalled_s <= passed && user.stalled_s >= user.longest_s - 0.1, "{user:?}");
        }
        let network = report.causes.iter().filter(|c| c.network);
        assert_eq!(network.map(|c| c.now).sum::<u32>(), report.states["stalled"], "one kind of stalled");
        (self.look)(&report);
        self.after(Duration::from_millis(100), Next::Look);
    }

    fn queue(&mut self) -> Report {
        self.driver.discipline_mut(DOWN).report(self.now)
    }

    /// Objects that have come.
    fn objects(&self) -> usize {
        self.connections.iter().filter(|c| c.over).count()
    }
}

#[test]
fn nobody_stalls_who_is_served_in_turn() {
    let mut village = Village::new(0.0, |report| {
        assert_eq!(
            (report.states["stalled"], report.users_stalled_lately),
            (0, 0),
            "{:?}",
            report.stalls_now
        );
    });
    village.run();
    let report = village.sight.report(village.now, |user| user.to_string());
    assert_eq!(report.words, "None of 20 users stalled since the start.");
    assert!(village.told.is_empty(), "{:?}", village.told);
    assert!(report.causes.iter().all(|c| c.total == 0) && report.lost.iter().all(|l| l.total_s == 0.0));
    // Forty connections of a packet each in 1500 * 8 / 600 000 s: 0.8 s.
    assert!(village.most_waiting > 20, "{} wait for their turn", village.most_waiting);
    let carried = village.queue().counters.sent_bytes.0 * 8 / (60 * MINUTES);
    assert!(carried > 500_000, "the link is full: {carried} bit/s");
    assert!(village.objects() > 1000, "{}", village.objects());
    let bytes: u64 = report.users.iter().map(|u| u.bytes[0]).sum();
    assert_eq!((report.users.len(), bytes), (20, village.queue().counters.sent_bytes.0));
}

#[test]
fn who_lost_something_stalls_and_nobody_else() {
    let mut village = Village::new(0.02, |_| ());
    village.run();
    let before = |a: Instant, s: f64| a.since(Instant::ZERO).as_secs_f64() <= s;
    let stalls: Vec<StallJson> = village.told.values().cloned().collect();
    let of = |stall: &StallJson| {
        village
            .connections
            .iter()
            .find(|c| stall.flow.starts_with(&format!("{}:{} ", c.key.dst(), c.key.dport)))
    };
    let needless: Vec<&StallJson> = stalls.iter().filter(|s| !of(s).is_some_and(|c| c.explains(s))).collect();
    assert!(needless.is_empty(), "{} of {}: {needless:#?}", needless.len(), stalls.len());
    assert!(stalls.iter().all(|s| s.cause != "data_unavailable"), "the server always answers at once");
    // Timers that expired because something was lost: each is seen in a stall.
    let mut silent = 0;
    for connection in village.connections.iter().filter(|c| c.over) {
        let name = format!("{}:{} ", connection.key.dst(), connection.key.dport);
        for expired in &connection.expired {
            let seen = stalls.iter().any(|s| {
                s.flow.starts_with(&name)
                    && !before(*expired, s.from_s)
                    && before(*expired, s.from_s + s.length_s)
            });
            let lost =
                connection.lost.iter().any(|l| l.at <= *expired && l.repaired.is_none_or(|at| at > *expired));
            silent += usize::from(lost && !seen);
        }
    }
    let expired: usize = village.connections.iter().map(|c| c.expired.len()).sum();
    println!("{} stalls, {expired} timers, {silent} of them in no stall", stalls.len());
    assert!(
        stalls.len() > 20 && silent * 10 <= expired,
        "{silent} of {expired} timers, {} stalls",
        stalls.len()
    );
}
