//! A tiny world for tests: two nodes, hosts at both, a link each way; and a spy that writes down what applications
//! hear.

mod logs;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use core::ops::ControlFlow;

use narrows_qdisc::{Framing, Limit, Spec};
use narrows_scenario::calls;
use narrows_scenario::{
    Delays, Hosts, LabSettings, Link, LinkDiscipline, LogEntry, LogSource, LogTiming, Loss, Probes, Size,
    Topology, Transport, Web,
};
use narrows_tcp::{Config, Preset};
use narrows_units::{Dscp, Rate};

use super::*;
use crate::build::build;
use crate::ids::{AppId, FlowId, HostId};
use crate::parts::Parts;

/// State of a connection at the time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) what: Happened,
    pub(super) app: AppId,
    pub(super) user: u32,
    pub(super) hosts: [HostId; 2],
    /// Size of the object without the header.
    pub(super) size: u64,
    pub(super) opened: Instant,
    pub(super) first_attempt: Instant,
    pub(super) retries: u32,
}

#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) seen: Vec<Seen>,
    /// When which timer rang.
    pub(super) rang: Vec<(Instant, u32)>,
    /// Largest number of connections with data to come that a user had at once.
    pub(super) most: usize,
}

impl History {
    pub(super) fn delivered(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|s| s.what == Happened::Delivered)
    }
}

struct Spy {
    app: Box<dyn App>,
    history: Rc<RefCell<History>>,
}

impl App for Spy {
    fn start(&mut self, world: &mut World, me: AppId) {
        self.app.start(world, me);
    }
    fn wake(&mut self, world: &mut World, token: u32) {
        self.history.borrow_mut().rang.push((world.now(), token));
        self.app.wake(world, token);
    }
    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        let c = &world.connections[place.index()];
        let seen = Seen {
            at: world.now(),
            what,
            app: c.app,
            user: c.user,
            hosts: c.labels.map(|l| l.src),
            size: c.object(),
            opened: c.stats.opened,
            first_attempt: c.stats.first_attempt,
            retries: c.stats.retries.into(),
        };
        self.history.borrow_mut().seen.push(seen);
        self.app.happened(world, place, tag, what);
        let busy = world.connections.iter().filter(|c| {
            c.live && c.app == seen.app && c.user == seen.user && c.stats.delivered_at.come().is_none()
        });
        let mut history = self.history.borrow_mut();
        history.most = history.most.max(busy.count());
    }
}

/// 10 Mbit/s and 10 ms each way; nothing is dropped.
pub(super) fn scenario(seconds: u64, traffic: Vec<Traffic>) -> Scenario {
    let rate = Rate::from_kbps(10_000);
    let link = |from, to| Link {
        name: format!("{from}"),
        from,
        to,
        back: Some(to),
        rate,
        service: narrows_scenario::Service::Constant,
        shaping: narrows_scenario::Shaping::None,
        delay: Duration::from_millis(10),
        discipline: LinkDiscipline::Ours(Spec::Fifo(Limit::Packets(100_000))),
        overhead: 0,
        mpu: 0,
        framing: Framing::None,
        loss: Loss::None,
        drop: Vec::new(),
        drop_at: Vec::new(),
    };
    let hosts = |at| Hosts {
        name: format!("{at}"),
        at,
        count: 50,
        rate: Rate::from_kbps(100_000),
        delay: Delays::default(),
    };
    Scenario {
        name: "tiny".to_owned(),
        about: String::new(),
        duration: Duration::from_secs(seconds),
        warmup: Duration::default(),
        jitter: Duration::from_secs(5),
        dephase: Duration::default(),
        mtu: 1500,
        topology: Topology {
            nodes: vec!["a".to_owned(), "b".to_owned()],
            links: vec![link(0, 1), link(1, 0)],
            hosts: vec![hosts(0), hosts(1)],
            edges: Vec::new(),
        },
        thin: None,
        traffic,
        probes: Probes { interval: Duration::from_secs(1), stalls: Vec::new(), ..Probes::default() },
        lab: LabSettings::default(),
        text: String::new(),
        hash: String::new(),
    }
}

pub(super) fn traffic(kind: TrafficKind) -> Traffic {
    let tcp = Config::preset(Preset::Linux);
    Traffic {
        name: kind.word().to_owned(),
        from: 0,
        to: 1,
        first: 0,
        beside: None,
        opened_by: OpenedBy::Receiver,
        request: 120,
        header: 200,
        dscp: Dscp::DEFAULT,
        tcp_from: tcp,
        tcp_to: tcp,
        opaque: false,
        transport: Transport::Tcp,
        web: Web::default(),
        quic: narrows_quic::Config::default(),
        start: Duration::from_secs(1),
        stop: Duration::from_secs(1_000_000),
        kind,
    }
}

/// Runs a scenario to its end.
pub(super) fn run(scenario: &Scenario, seed: u64) -> (World, History) {
    let (mut world, groups, configs) =
        build(scenario, seed, Parts::whole(scenario).part(0), &crate::Nothing).unwrap();
    let history = Rc::new(RefCell::new(History::default()));
    for app in apps(scenario, &groups, &configs, seed, Parts::whole(scenario).part(0)) {
        world.add_app(Box::new(Spy { app, history: history.clone() }));
    }
    let end = Instant::default() + scenario.duration;
    assert!(world.run(end, &mut |_| ControlFlow::Continue(())).is_continue());
    let history = history.take();
    (world, history)
}

fn secs(at: Instant) -> f64 {
    at.as_secs_f64()
}

fn live(world: &World) -> usize {
    world.connections.iter().filter(|c| c.live).count()
}

#[test]
fn long_flows_start_within_the_jitter_and_end_at_the_stop() {
    let long = Traffic { stop: Duration::from_secs(20), ..traffic(TrafficKind::Long { flows: 8 }) };
    let mut s = scenario(20, vec![long]);
    s.topology.links[0].discipline = LinkDiscipline::Ours(Spec::Fifo(Limit::Packets(100)));
    let (world, _) = run(&s, 1);
    assert_eq!(live(&world), 8);
    for user in 0..8 {
        let c = world.connections.iter().find(|c| c.user == user).unwrap();
        assert!((1.0..6.0).contains(&secs(c.stats.opened)), "{:?}", c.stats);
        assert!(c.stats.delivered > 100_000 && c.stats.delivered_at.come().is_none(), "{:?}", c.stats);
    }
    s.duration = Duration::from_secs(30);
    let (world, _) = run(&s, 1);
    assert_eq!(live(&world), 0);
    let last = world.connections.iter().map(|c| c.stats.last_delivery).max().unwrap();
    assert!((19.9..=20.0).contains(&secs(last)), "{last:?}");
}

#[test]
fn files_start_at_random_each_once() {
    let kind =
        TrafficKind::Files { flows: Some(2_000), arrivals: None, users: 2_000, size: Size::Fixed(10_000) };
    let s = Scenario { jitter: Duration::from_secs(50), ..scenario(60, vec![traffic(kind)]) };
    let (world, history) = run(&s, 2);
    let delivered: Vec<_> = history.delivered().collect();
    let mut users: Vec<_> = delivered.iter().map(|d| d.user).collect();
    users.sort_unstable();
    assert_eq!(users, (0..2_000).collect::<Vec<_>>());
    assert!(
        delivered.iter().all(|d| d.size == 10_000 && d.hosts == [d.user % 50, 50 + d.user % 50].map(HostId))
    );
    // Uniform on [1 s, 51 s): mean 26 s, standard error 50 / sqrt(12 * 2000) = 0.32 s.
    let mean = delivered.iter().map(|d| secs(d.opened)).sum::<f64>() / 2_000.0;
    assert!((mean - 26.0).abs() < 3.0 * 0.323, "{mean}");
    // Some 40 start in a second and each is gone after some round trips: places are used again.
    assert_eq!(live(&world), 0);
    assert!(world.connections.len() < 100, "{}", world.connections.len());
}

#[test]
fn arrivals_are_poisson() {
    let kind = |flows| TrafficKind::Files { flows, arrivals: Some(50.0), users: 7, size: Size::Web };
    let (_, history) = run(&scenario(101, vec![traffic(kind(None))]), 3);
    let opened: Vec<_> = history.delivered().map(|d| secs(d.opened)).collect();
    let expected = 5_000.0_f64;
    assert!((opened.len() as f64 - expected).abs() < 3.0 * expected.sqrt(), "{}", opened.len());
    // Index of dispersion of counts per second is 1; its standard error sqrt(2 / 99).
    let mut counts = [0.0; 100];
    opened.iter().for_each(|at| counts[(at - 1.0) as usize] += 1.0);
    let mean = counts.iter().sum::<f64>() / 100.0;
    let variance = counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / 99.0;
    assert!((variance / mean - 1.0).abs() < 3.0 * 0.142, "{}", variance / mean);
    let users: std::collections::BTreeSet<_> = history.seen.iter().map(|s| s.user).collect();
    assert_eq!(users.len(), 7);
    // A given number of them is exactly that.
    let (_, history) = run(&scenario(101, vec![traffic(kind(Some(40)))]), 3);
    assert_eq!(history.delivered().count(), 40);
}

#[test]
fn users_have_no_more_connections_than_they_may_and_pause_as_long_as_said() {
    let kind = |think| TrafficKind::Objects {
        users: 10,
        connections: 4,
        think,
        size: Size::List([500, 9_000].into()),
    };
    let (_, history) = run(&scenario(60, vec![traffic(kind(Duration::default()))]), 4);
    assert_eq!(history.most, 4);
    let sizes: Vec<_> = history.delivered().map(|d| d.size).collect();
    let small = sizes.iter().filter(|s| **s == 500).count() as f64;
    let n = sizes.len() as f64;
    assert!(n > 10_000.0 && (small - n / 2.0).abs() < 3.0 * (n / 4.0).sqrt(), "{small} of {n}");
    // With a pause of 2 s on average, each of 40 lines is busy for some 60 ms every 2.06 s.
    let (_, history) = run(&scenario(600, vec![traffic(kind(Duration::from_secs(2)))]), 4);
    let expected = 40.0 * 596.0 / 2.06_f64;
    let n = history.delivered().count() as f64;
    // Counts of a renewal process with exponential gaps; the busy time is known to 2 %.
    assert!((n - expected).abs() < 3.0 * expected.sqrt() + 0.02 * expected, "{n} {expected}");
}

#[test]
fn a_page_s_own_object_comes_first() {
    let kind = TrafficKind::Pages {
        users: 3,
        connections: 3,
        objects: Size::Fixed(8),
        size: Size::Web,
        think: Duration::from_secs(1),
    };
    let (_, history) = run(&scenario(60, vec![traffic(kind)]), 5);
    assert_eq!(history.most, 3);
    for user in 0..3 {
        let mut of_user: Vec<_> = history.delivered().filter(|d| d.user == user).copied().collect();
        of_user.sort_by_key(|d| d.opened);
        assert!(of_user.len() > 100);
        for page in of_user.chunks_exact(8) {
            // The first object alone; the last of the page before the next page's first.
            assert!(page[1..].iter().all(|d| d.opened >= page[0].at));
            assert_eq!(page[1..4].iter().filter(|d| d.opened == page[0].at).count(), 3);
        }
        for two in of_user.chunks_exact(8).collect::<Vec<_>>().windows(2) {
            assert!(two[0].iter().all(|d| d.at < two[1][0].opened));
        }
    }
}

#[test]
fn telnet_writes_small_and_stays() {
    let kind = TrafficKind::Telnet { flows: 6, interval: Duration::from_secs(1), bytes: 64 };
    let telnet = Traffic { header: 0, ..traffic(kind) };
    let (world, history) = run(&scenario(1_006, vec![telnet]), 6);
    assert_eq!((live(&world), world.connections.len()), (6, 6));
    let bytes: u64 = world.connections.iter().map(|c| c.stats.delivered).sum();
    let writes = bytes as f64 / 64.0;
    // 6 flows for some 1002.5 s, a write per second.
    assert!((writes - 6_015.0).abs() < 3.0 * 78.0, "{writes}");
    assert!(history.seen.iter().all(|s| s.what != Happened::Failed));
}

#[test]
fn udp_sends_at_equal_gaps_and_is_off_as_long_as_said() {
    // 500 kbit/s in packets of 1000 bytes: one every 16 ms.
    let kind = |on, off| TrafficKind::Udp {
        flows: 1,
        rate: Rate::from_kbps(500),
        packet: 1_000,
        on: Duration::from_millis(on),
        off: Duration::from_millis(off),
    };
    let until = |kind| Traffic { stop: Duration::from_secs(201), ..traffic(kind) };
    let mut s = scenario(300, vec![until(kind(0, 0))]);
    s.jitter = Duration::default();
    let (world, history) = run(&s, 7);
    let link = &world.net.links[0].counters;
    assert_eq!((link.arrived, link.sent, link.sent_bytes), (12_500, 12_500, 12_500_000));
    let gaps = history.rang.windows(2).map(|w| w[1].0.since(w[0].0));
    assert!(gaps.into_iter().all(|gap| gap == Duration::from_millis(16)));
    // On for 0.5 s and off for 1.5 s on average, some 2 s a cycle and half a packet more of it on.
    let mut s =
        scenario(10_001, vec![Traffic { stop: Duration::from_secs(10_001), ..until(kind(500, 1_500)) }]);
    s.jitter = Duration::default();
    let (world, history) = run(&s, 7);
    let sent = world.net.links[0].counters.sent as f64;
    // Packets of a phase: 1 + the gaps that fit: 1 / (1 - e^(-16/500)) = 31.75 on average; 5000 phases, and both their
    // lengths and their number are exponential-like: a standard error of 2 %.
    assert!((sent / (5_000.0 * 31.75) - 1.0).abs() < 0.06, "{sent}");
    assert!(history.rang.windows(2).all(|w| w[1].0.since(w[0].0) >= Duration::from_millis(16)));
}

#[test]
fn calls_send_both_ways_and_queries_are_answered() {
    let shape = |name: &str| calls::CallShape::NAMED.iter().find(|(n, _)| *n == name).unwrap().1;
    let scenario = |name: &str| Scenario {
        jitter: Duration::ZERO,
        ..scenario(10, vec![traffic(TrafficKind::Calls { flows: 2, call: shape(name) })])
    };
    // From 1 s to 10 s a packet every 20 ms, from each of four ends.
    let (world, history) = run(&scenario("g711"), 1);
    assert_eq!(world.net.links[0].counters.arrived + world.net.links[1].counters.arrived, 4 * 450);
    assert_eq!(history.rang.iter().filter(|r| r.0 == Instant::from_nanos(1_040_000_000)).count(), 4);
    // Queries leave every 2 s; each answer leaves 10 ms and a transmission time after its query arrived.
    let (_, history) = run(&scenario("dns"), 1);
    let (server, user): (Vec<(Instant, u32)>, Vec<_>) = history.rang.iter().partition(|r| r.1 % 2 == 0);
    // At 1, 3, 5, 7 and 9 s.
    assert_eq!((server.len(), user.len()), (10, 10));
    // 70 bytes: twice 5.6 us at 100 Mbit/s, and 56 us at 10 Mbit/s, for which the second user's waits.
    let took: Vec<u64> = user.iter().zip(&server).map(|(u, s)| s.0.since(u.0).as_nanos()).collect();
    assert_eq!(took[..3], [10_067_200, 10_123_200, 10_067_200]);
}

#[test]
fn a_connection_that_fails_is_tried_again_and_the_time_runs_on() {
    let mut objects = traffic(TrafficKind::Objects {
        users: 1,
        connections: 1,
        think: Duration::from_secs(100),
        size: Size::Fixed(5_000),
    });
    // SYNs at 1 s and 2 s are lost: given up at 4 s; SYNs at 5 s and 6 s are lost: given up at 8 s.
    objects.tcp_to.syn_retries = 1;
    let mut s = scenario(60, vec![objects]);
    s.jitter = Duration::default();
    s.topology.links[1].drop = vec![1, 2, 3, 4];
    let (world, history) = run(&s, 10);
    let seen: Vec<_> = history
        .seen
        .iter()
        .map(|s| (s.what, secs(s.opened), secs(s.first_attempt), s.retries))
        .take(5)
        .collect();
    assert_eq!(
        seen,
        [
            (Happened::Failed, 1.0, 1.0, 0),
            (Happened::Failed, 5.0, 1.0, 1),
            (Happened::Delivered, 9.0, 1.0, 2),
            (Happened::Acked, 9.0, 1.0, 2),
            (Happened::Closed, 9.0, 1.0, 2),
        ]
    );
    assert_eq!(live(&world), 0);
}

#[test]
fn agents_without_a_fin_are_retired_when_all_is_acknowledged() {
    let tcp = Config::preset(Preset::Ns2);
    let files = Traffic {
        opened_by: OpenedBy::Sender,
        request: 0,
        header: 0,
        tcp_from: tcp,
        tcp_to: tcp,
        ..traffic(TrafficKind::Files {
            flows: Some(100),
            arrivals: None,
            users: 10,
            size: Size::Fixed(32_000),
        })
    };
    let (world, history) = run(&scenario(60, vec![files]), 11);
    let count = |what| history.seen.iter().filter(|s| s.what == what).count();
    assert_eq!((count(Happened::Delivered), count(Happened::Acked), count(Happened::Closed)), (100, 100, 0));
    assert_eq!(live(&world), 0);
}

#[test]
fn one_more_traffic_shifts_no_other_and_a_seed_has_one_history() {
    let files = traffic(TrafficKind::Files { flows: None, arrivals: Some(5.0), users: 10, size: Size::Web });
    let objects = traffic(TrafficKind::Objects {
        users: 3,
        connections: 2,
        think: Duration::from_millis(300),
        size: Size::Web,
    });
    let opened = |history: &History, app| {
        let of = history.delivered().filter(|d| d.app == app);
        of.map(|d| (d.opened, d.size)).collect::<std::collections::BTreeSet<_>>()
    };
    let (_, alone) = run(&scenario(60, vec![files.clone()]), 12);
    let both = scenario(60, vec![files, objects]);
    let (_, first) = run(&both, 12);
    let (_, second) = run(&both, 12);
    assert_eq!(first.seen, second.seen);
    assert!(opened(&first, AppId(1)).len() > 100);
    // Transfers that start shortly before the end may finish in one run and not in the other.
    let early = |set: std::collections::BTreeSet<(Instant, u64)>| {
        set.into_iter().filter(|s| secs(s.0) < 59.0).collect::<Vec<_>>()
    };
    assert_eq!(early(opened(&alone, AppId(0))), early(opened(&first, AppId(0))));
    let users = |app| first.seen.iter().filter(move |s| s.app == app).map(|s| s.user);
    assert_eq!(
        (users(AppId(0)).max(), users(AppId(1)).min(), users(AppId(1)).max()),
        (Some(9), Some(10), Some(12))
    );
    let (_, other) = run(&both, 13);
    assert_ne!(first.seen, other.seen);
}

#[test]
fn nothing_new_begins_after_the_stop() {
    let stop = |kind| Traffic { stop: Duration::from_secs(10), ..traffic(kind) };
    let think = Duration::from_millis(100);
    let kinds = [
        TrafficKind::Files { flows: None, arrivals: Some(50.0), users: 5, size: Size::Web },
        TrafficKind::Objects { users: 5, connections: 2, think, size: Size::Web },
        TrafficKind::Pages { users: 5, connections: 2, objects: Size::Fixed(5), size: Size::Web, think },
        TrafficKind::Log {
            source: LogSource::Synthetic { requests: 20.0, clients: 9, zipf: 0.8, size: Size::Web },
            clients: 9,
            connections: 2,
            timing: LogTiming::BackToBack,
            retry: think,
        },
    ];
    let (world, history) = run(&scenario(20, kinds.into_iter().map(stop).collect()), 14);
    for app in 0..4 {
        let last = history.delivered().filter(|d| d.app == AppId(app)).map(|d| d.opened).max().unwrap();
        // A page that is under way comes to its end: 5 objects of a few round trips of 20 ms.
        let latest = if app == 2 { 11.0 } else { 10.0 };
        assert!(secs(last) < latest, "{app} {last:?}");
    }
    assert_eq!(live(&world), 0);
}

#[test]
fn memory_is_bounded_by_what_is_open() {
    let kind =
        TrafficKind::Files { flows: Some(20_000), arrivals: None, users: 50, size: Size::Fixed(5_000) };
    let s = Scenario { jitter: Duration::from_secs(180), ..scenario(200, vec![traffic(kind)]) };
    let (world, history) = run(&s, 15);
    assert_eq!(history.delivered().count(), 20_000);
    assert!(world.connections.len() < 100, "{}", world.connections.len());
    assert_eq!(world.net.pool.out(), 0);
}
