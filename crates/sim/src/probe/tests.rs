//! Worlds small enough to measure by hand. In most of them nothing ever arrives, and a script says what happened.

mod names;
mod real;

use core::ops::ControlFlow;
use std::collections::BTreeMap;

use narrows_qdisc::{ShaperConfig, Spec};
use narrows_scenario::{Group, Series};
use narrows_tcp::{Config, Handshake, InitialWindow, Preset};
use narrows_units::{Bytes, Dscp, Rate};
use narrows_wire::{FlowKey, Header, Proto, capture};

use super::plan::Watched;
use super::*;
use crate::host_config::{DATA, HostConfig};
use crate::ids::{AppId, FlowId, HostId};
use crate::network::{LinkPlan, Network, QueuePlan};
use crate::packet::{DATAGRAM, Label, PayloadKind, address};
use crate::results::{Data, Results, Table};
use crate::transfer::{Happened, Transfer};
use crate::world::{App, World};

fn at(s: f64) -> Instant {
    Instant::from_nanos((s * 1e9).round() as u64)
}

const DAYS: Duration = Duration::from_secs(1_000_000);

/// Something a script does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Open(Transfer),
    /// An event of an end of the connection at a place.
    Tell(u32, usize, TcpEvent),
    Write(u32, u64),
    Retire(u32),
    /// A datagram of this many bytes from host 0 to host 1.
    Datagram(u64),
}

struct Script {
    acts: Vec<(f64, Act)>,
    /// Whether what is delivered is taken out of the world at once, and a new connection put in its place.
    again: Option<u64>,
}

impl App for Script {
    fn start(&mut self, world: &mut World, me: AppId) {
        for (token, (s, _)) in (0..).zip(&self.acts) {
            world.set_timer(me, token, at(*s));
        }
    }
    fn wake(&mut self, world: &mut World, token: u32) {
        match self.acts[token as usize].1 {
            Act::Open(transfer) => {
                world.open(AppId(0), transfer);
            }
            Act::Tell(place, end, event) => world.follow(FlowId(place), end, event),
            Act::Write(place, bytes) => world.write(FlowId(place), bytes),
            Act::Retire(place) => world.retire(FlowId(place)),
            Act::Datagram(len) => {
                let mut packet = world.net.pool.take();
                let route = world.net.route(HostId(0), HostId(1));
                let key = FlowKey::new(address(HostId(0)), address(HostId(1)), 1, 9, Proto::UDP);
                let p = &mut *packet.0;
                p.header = Header { key, len: Bytes(len), ..Header::default() };
                p.label = Label {
                    dst: HostId(1),
                    route,
                    end: DATAGRAM,
                    kind: PayloadKind::Datagram,
                    ..Label::default()
                };
                world.net.send_datagram(packet);
            }
        }
    }
    fn happened(&mut self, world: &mut World, place: FlowId, _tag: u32, what: Happened) {
        if let (Some(size), Happened::Closed) = (self.again, what) {
            let user = world.connections[place.index()].user;
            world.retire(place);
            world.open(AppId(0), Transfer { size, close: true, ..transfer(user) });
        }
    }
}

/// Transfer 0 to 1 of user 0 without end, opened by its sender.
fn transfer(user: u32) -> Transfer {
    Transfer {
        from: HostId(0),
        to: HostId(1),
        size: u64::MAX,
        header: 0,
        request: 0,
        tls: None,
        receiver_opens: false,
        close: false,
        config: [0, 0],
        dscp: Dscp::DEFAULT,
        class: 0,
        user,
        first_attempt: None,
        retries: 0,
        tag: user,
    }
}

/// An end whose timers do not expire within a test.
fn patient() -> Config {
    let mut tcp = Config::preset(Preset::Ns2);
    tcp.mss = 500;
    tcp.syn_timeout = DAYS;
    (tcp.rto.initial, tcp.rto.max) = (DAYS, DAYS);
    tcp
}

/// Two hosts and a link each way of `rate` behind `discipline`; the wires of the hosts take `delay`.
fn world(tcp: Config, rate: Rate, discipline: &str, delay: Duration, plan: ProbePlan) -> World {
    let mut net = Network::new(1);
    let (a, b) = (net.add_node(), net.add_node());
    let (spec, plain): (Spec, Spec) = (discipline.parse().unwrap(), "fifo:1000".parse().unwrap());
    let shape = Some(ShaperConfig::new(rate));
    let there =
        LinkPlan { from: a, to: b, shape, discipline: Some(QueuePlan::Ours(&spec)), ..LinkPlan::default() };
    let back =
        LinkPlan { from: b, to: a, shape, discipline: Some(QueuePlan::Ours(&plain)), ..LinkPlan::default() };
    let (there, back) = (net.add_link(there), net.add_link(back));
    net.pair(there, back);
    let (left, right) = (net.add_group(a, None), net.add_group(b, None));
    net.add_host(left, delay);
    net.add_host(right, delay);
    net.settle();
    let mut world = World::new(net, vec![HostConfig { options_count: false, ..HostConfig::of_tcp(tcp) }]);
    let links = vec![
        Watched { name: "thin".into(), link: there, rate },
        Watched { name: "thin.back".into(), link: back, rate },
    ];
    world.watch(ProbePlan { links, ..plan });
    world
}

fn run(mut world: World, acts: Vec<(f64, Act)>, again: Option<u64>, seconds: f64) -> Results {
    world.add_app(Box::new(Script { acts, again }));
    assert!(world.run(at(seconds), &mut |_| ControlFlow::Continue(())).is_continue());
    crate::conservation::check_conservation(&world.net).unwrap();
    let plan = world.probes.plan.clone();
    report(&plan, world.finish())
}

/// Runs a script in a world in which nothing arrives.
fn scripted(plan: ProbePlan, acts: Vec<(f64, Act)>, seconds: f64) -> Results {
    run(world(patient(), Rate::from_kbps(1000), "fifo:100", DAYS, plan), acts, None, seconds)
}

fn delivered(place: u32, bytes: u64) -> Act {
    Act::Tell(place, RECEIVER, TcpEvent::Delivered { bytes })
}

fn plan(warmup: f64) -> ProbePlan {
    ProbePlan { warmup: at(warmup), classes: vec!["long".into()], mss: 500, ..ProbePlan::default() }
}

#[track_caller]
fn expect(r: &Results, figures: &[(&str, f64)]) {
    for (name, value) in figures {
        let is = r.summary.get(*name).copied();
        assert!(is.is_some_and(|v| (v - value).abs() <= 1e-9 * value.abs()), "{name}: {is:?}, not {value}");
    }
}

fn table<'a>(r: &'a Results, name: &str) -> &'a Table {
    r.tables.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no table {name}"))
}

fn whole(r: &Results, name: &str, column: &str) -> Vec<u64> {
    let found = table(r, name).columns.iter().find(|c| c.name == column);
    match &found.unwrap_or_else(|| panic!("{name} has no {column}")).data {
        Data::U64(v) => v.clone(),
        other => panic!("{name}.{column}: {other:?}"),
    }
}

#[test]
fn slices_and_silences_by_hand() {
    let mut acts = vec![(1.0, Act::Open(transfer(0))), (1.0, Act::Open(transfer(1)))];
    acts.extend([5.0, 15.0, 25.0, 35.0, 45.0].map(|s| (s, delivered(0, 1000))));
    acts.push((12.0, delivered(1, 1000)));
    let r = scripted(plan(10.0), acts, 50.0);
    // Slices [10, 30): 2000 and 1000, Jain 9/(2*5); [30, 50): 2000 and 0, Jain 1/2. The top 40 % of two are one.
    expect(
        &r,
        &[("jain_20s", 0.7), ("jain_20s_min", 0.5), ("zero_slices", 0.25), ("top40_share", 5.0 / 6.0)],
    );
    // In all 4000 and 1000: 25/(2*17).
    expect(&r, &[("jain_long", 25.0 / 34.0), ("goodput_bps", 1000.0), ("goodput_kbps", 1.0)]);
    // Stalls after 10 s: 10 s between deliveries, and 12 s to the end.
    expect(&r, &[("flow_stall_p50_s", 24.0), ("flow_stall_max_s", 38.0)]);
    expect(&r, &[("user_stall_max_s", 38.0), ("user_stall_over_20s", 0.5), ("user_stall_over_60s", 0.0)]);
    assert_eq!(whole(&r, "slices", "delivered_bytes"), [3000, 2000]);
    assert_eq!(whole(&r, "slices", "zero_flows"), [0, 1]);
    assert_eq!(whole(&r, "shares", "delivered_bytes"), [2000, 1000, 2000, 0]);
    assert_eq!(whole(&r, "flows", "delivered_bytes"), [4000, 1000]);
}

#[test]
fn a_flow_that_ends_leaves_the_index_and_one_that_failed_does_not() {
    let mut acts: Vec<_> = (0..3).map(|user| (0.0, Act::Open(transfer(user)))).collect();
    acts.extend([(5.0, delivered(0, 700)), (25.0, delivered(0, 700))]);
    acts.extend([
        (10.0, Act::Retire(1)),
        (10.0, Act::Tell(2, DATA, TcpEvent::Failed)),
        (10.0, Act::Retire(2)),
    ]);
    let r = scripted(plan(0.0), acts, 40.0);
    assert_eq!(whole(&r, "slices", "flows"), [2, 2]);
    expect(&r, &[("jain_20s", 0.5), ("zero_slices", 0.5)]);
}

/// First tried at 4 s, failed at 12, tried again at 13, served at 14 and to the end; counted from 10 s on.
#[test]
fn a_flow_that_is_tried_again_has_not_waited_before_the_warm_up() {
    let again = Transfer { first_attempt: Some(at(4.0)), retries: 1, ..transfer(0) };
    let acts = vec![
        (4.0, Act::Open(transfer(0))),
        (12.0, Act::Tell(0, DATA, TcpEvent::Failed)),
        (12.0, Act::Retire(0)),
        (13.0, Act::Open(again)),
        (14.0, delivered(0, 700)),
    ];
    let r = scripted(plan(10.0), acts, 16.0);
    expect(&r, &[("flow_stall_max_s", 4.0)]);
}

#[test]
fn objects_by_hand() {
    let object =
        |user, size| Act::Open(Transfer { size, header: 200, receiver_opens: true, ..transfer(user) });
    let stands = |place| Act::Tell(place, RECEIVER, TcpEvent::Established);
    let again = Transfer { first_attempt: Some(at(4.0)), retries: 1, size: 2000, ..transfer(2) };
    let acts = vec![
        (2.0, object(0, 1000)),
        (2.5, stands(0)),
        (3.0, delivered(0, 500)),
        (9.0, delivered(0, 700)),
        (9.2, Act::Tell(0, DATA, TcpEvent::Acked { bytes: 1200 })),
        // An object whose connection is never established.
        (2.0, object(1, 30_000)),
        // An object whose connection fails at 12 s and is established at the second attempt.
        (4.0, object(2, 2000)),
        (12.0, Act::Tell(2, RECEIVER, TcpEvent::Failed)),
        (12.0, Act::Retire(2)),
        (13.0, Act::Open(Transfer { header: 200, receiver_opens: true, ..again })),
        (14.0, stands(2)),
        (20.0, delivered(2, 2200)),
    ];
    let r = scripted(ProbePlan { stalls: vec![Duration::from_secs(10)], ..plan(0.0) }, acts, 50.0);
    expect(&r, &[("objects_done", 2.0), ("objects_failed", 0.0), ("objects_cut", 1.0)]);
    // 7 s and 16 s; 7 and 8 s per kB; connected after 0.5, 48 (never) and 10 s.
    expect(
        &r,
        &[("object_min_s", 7.0), ("object_p50_s", 11.5), ("object_max_s", 16.0), ("small_p50_s", 11.5)],
    );
    expect(&r, &[("per_kb_p50_s", 7.5), ("connect_p50_s", 10.0), ("first_byte_p50_s", 8.5)]);
    // Stalls 6, 16 and 48 s; once connected 6 and 6 s.
    expect(&r, &[("stall_p50_s", 16.0), ("stall_max_s", 48.0), ("stall_over_5s", 1.0)]);
    expect(&r, &[("stall_over_20s", 1.0 / 3.0), ("admitted_stall_p99_s", 6.0)]);
    expect(&r, &[("never_in", 1.0), ("entry_p50_s", 10.0)]);
    // In the order in which they were over; 3 is what was tried again, 2 what was cut off.
    let outcomes = whole(&r, "transfers", "outcome");
    assert_eq!(outcomes, [3, 0, 2, 0]);
    // The retry is no fresh start: the user waited from 4 to 20 s.
    expect(&r, &[("user_stall_p50_s", 16.0), ("user_stall_max_s", 48.0), ("user_stall_over_10s", 2.0 / 3.0)]);
}

#[test]
fn groups_by_hand() {
    let object = |user, size| Act::Open(Transfer { size, ..transfer(user) });
    let mut acts = vec![];
    // Sizes, and when each is delivered; acknowledged 1 s later. All begin at 1 s.
    for (place, (size, done)) in (0_u32..).zip([(1000, 2.0), (1000, 4.0), (2000, 6.0), (2001, 31.0)]) {
        acts.push((1.0, object(place, size)));
        acts.push((done, delivered(place, size)));
        acts.push((done + 1.0, Act::Tell(place, DATA, TcpEvent::Acked { bytes: size })));
    }
    let group =
        |name: &str, over, up_to| Group { name: name.into(), traffic: vec![0], over, up_to, shares: false };
    let groups = vec![group("mice", 0, 2000), group("rest", 2000, u64::MAX), group("none", 5000, u64::MAX)];
    let r = scripted(ProbePlan { groups, ..plan(0.0) }, acts, 50.0);
    // 1, 3 and 5 s: variance (4 + 0 + 4) / 3. Acknowledged after 2, 4 and 6 s.
    expect(
        &r,
        &[
            ("of_mice_done", 3.0),
            ("of_mice_mean_s", 3.0),
            ("of_mice_p50_s", 3.0),
            ("of_mice_cov", (8.0_f64 / 3.0).sqrt() / 3.0),
            ("of_mice_below_mean", 2.0 / 3.0),
            ("of_mice_acked_mean_s", 4.0),
            ("of_mice_acked_p50_s", 4.0),
        ],
    );
    expect(
        &r,
        &[("of_rest_done", 1.0), ("of_rest_mean_s", 30.0), ("of_rest_cov", 0.0), ("of_none_done", 0.0)],
    );
    assert!(!r.summary.contains_key("of_none_mean_s"), "nobody, no mean");
}

#[test]
fn groups_lose_what_they_sent() {
    // Two and three packets at once: one is on the wire, two wait, two are dropped, and no timer has expired yet.
    let object = |user, size| Act::Open(Transfer { size, ..transfer(user) });
    let tcp = Config { handshake: Handshake::None, ..patient() };
    let tcp = Config { initial_window: narrows_tcp::InitialWindow::Segments(10), ..tcp };
    let group =
        |name: &str, over, up_to| Group { name: name.into(), traffic: vec![0], over, up_to, shares: false };
    let groups = vec![group("mice", 0, 1000), group("rest", 1000, u64::MAX), group("all", 0, u64::MAX)];
    let world = world(tcp, Rate::from_bps(8000), "fifo:2", Duration::ZERO, ProbePlan { groups, ..plan(0.0) });
    let r = run(world, vec![(0.0, object(0, 1000)), (0.0, object(1, 1500))], None, 3.0);
    expect(&r, &[("of_mice_data_sent", 2.0), ("of_mice_lost", 0.0), ("of_mice_loss", 0.0)]);
    expect(&r, &[("of_rest_data_sent", 3.0), ("of_rest_lost", 2.0), ("of_rest_loss", 2.0 / 3.0)]);
    expect(&r, &[("of_all_data_sent", 5.0), ("of_all_loss", 0.4), ("of_all_timeouts", 0.0)]);
}

#[test]
fn a_pause_is_no_hang() {
    let object = Act::Open(Transfer { size: 1000, ..transfer(0) });
    let acts = vec![
        (0.0, object),
        (1.0, delivered(0, 1000)),
        (1.0, Act::Retire(0)),
        // The next one after 30 s of reading takes 4 s; two more at once, of which one gets nothing.
        (31.0, object),
        (35.0, delivered(0, 1000)),
        (35.0, object),
        (37.0, delivered(1, 400)),
        (38.0, delivered(1, 600)),
    ];
    let r = scripted(plan(0.0), acts, 45.0);
    expect(&r, &[("user_stall_max_s", 4.0), ("stall_max_s", 4.0), ("objects_done", 3.0)]);
}

#[test]
fn keystrokes_by_hand() {
    let acts = vec![
        (0.0, Act::Open(Transfer { size: 0, ..transfer(0) })),
        (5.0, Act::Write(0, 10)),
        (6.0, delivered(0, 10)),
        (20.0, Act::Write(0, 10)),
        (21.0, Act::Write(0, 10)),
        (23.0, delivered(0, 20)),
    ];
    let r = scripted(plan(0.0), acts, 40.0);
    // 1 s, and 3 s for both: they wait from the first of them on. Nothing is due in between.
    assert!((r.summary["write_p50_s"] - 1.0).abs() < 1.0 / 256.0);
    expect(&r, &[("write_max_s", 3.0), ("user_stall_max_s", 3.0)]);
    assert!(!r.summary.contains_key("jain_20s"), "it takes what it needs");
}

#[test]
fn timeouts_by_hand() {
    let expires = |place, backoff| Act::Tell(place, DATA, TcpEvent::Timeout { backoff });
    let acts = vec![
        (1.0, Act::Open(transfer(0))),
        (5.0, expires(0, 2)),
        (12.0, expires(0, 2)),
        (14.0, expires(0, 4)),
        (20.0, Act::Open(transfer(1))),
        (30.0, expires(1, 2)),
    ];
    let r = scripted(plan(10.0), acts, 50.0);
    // 40 s of one flow and 30 of the other.
    expect(&r, &[("timeouts", 3.0), ("timeouts_per_flow_s", 3.0 / 70.0)]);
    expect(&r, &[("backoff_max", 4.0), ("backoff_deep", 1.0 / 3.0)]);
    assert_eq!(whole(&r, "backoffs", "factor"), [2, 4]);
    assert_eq!(whole(&r, "backoffs", "timeouts"), [2, 1]);
}

#[test]
fn epochs_by_hand() {
    let write = |s, bytes| (s, Act::Write(0, bytes));
    let acts = vec![
        (0.0, Act::Open(Transfer { size: 0, ..transfer(0) })),
        write(0.5, 500),
        write(1.5, 500),
        write(2.5, 500),
        write(5.5, 1000),
    ];
    let tcp = Config { handshake: Handshake::None, ..patient() };
    let tcp = Config { initial_window: narrows_tcp::InitialWindow::Segments(10), ..tcp };
    let plan = ProbePlan { epoch: Some(Duration::from_secs(1)), ..plan(0.0) };
    let r = run(world(tcp, Rate::from_kbps(1000), "fifo:100", DAYS, plan), acts, None, 6.5);
    // Watched from 1 s on: one packet, one, none, none, two. The first of these has nothing before it.
    assert_eq!(whole(&r, "epochs", "maintained"), [0, 0, 1, 0, 0, 0]);
    assert_eq!(whole(&r, "epochs", "dropped"), [0, 0, 0, 1, 0, 0]);
    assert_eq!(whole(&r, "epochs", "stalled"), [0, 0, 0, 0, 1, 0]);
    assert_eq!(whole(&r, "epochs", "arriving"), [0, 0, 0, 0, 0, 1]);
    assert_eq!(whole(&r, "epoch_packets", "sent"), [0, 1, 2]);
    assert_eq!(whole(&r, "epoch_packets", "epochs"), [2, 2, 1]);
    expect(
        &r,
        &[("epoch_sent_0", 0.4), ("epoch_sent_1", 0.4), ("epoch_sent_2", 0.2), ("epoch_sent_more", 0.0)],
    );
    expect(&r, &[("epoch_stalled_share", 0.25), ("epoch_maintained", 1.0 / 6.0)]);
}

#[test]
fn a_link_by_hand() {
    // 1000 bytes take a second; of four at once one is sent, two wait and one is dropped.
    let acts = || vec![(0.0, Act::Datagram(1000)); 4];
    let queue = |plan| world(patient(), Rate::from_bps(8000), "fifo:2", Duration::ZERO, plan);
    let series = vec![Series::Queue, Series::Throughput];
    let r = run(queue(ProbePlan { series, ..plan(0.0) }), acts(), None, 10.0);
    expect(&r, &[("utilisation", 0.3), ("loss", 0.25), ("dropped", 0.25), ("dropped_over_limit", 0.25)]);
    expect(
        &r,
        &[("arrived", 4.0), ("lost", 0.0), ("wait_datagram_max_s", 2.0), ("utilisation_thin_back", 0.0)],
    );
    expect(&r, &[("throughput_peak_thin_kbps", 8.0)]);
    expect(&r, &[("datagram_loss", 0.25), ("datagram_kbps", 2.4), ("datagram_delay_max_s", 3.0)]);
    assert_eq!((whole(&r, "datagrams", "delivered"), whole(&r, "datagrams", "lost")), (vec![3], vec![1]));
    assert!((r.summary["wait_datagram_p50_s"] - 1.0).abs() < 1.0 / 256.0);
    // Sampled at 0 s before anything happens, then each second before what is due then happens, which was scheduled
    // later.
    assert_eq!(whole(&r, "queue", "thin_pkts")[..4], [0, 2, 1, 0]);
    assert_eq!(whole(&r, "throughput", "thin_bytes").iter().sum::<u64>(), 3000);
    // Counting from 2.5 s finds the last half of the third packet.
    let r = run(queue(plan(2.5)), acts(), None, 10.0);
    expect(
        &r,
        &[("utilisation", 0.5 / 7.5), ("arrived", 0.0), ("datagram_kbps", 8.0 / 7.5), ("datagram_loss", 0.0)],
    );
    assert!(!r.summary.contains_key("loss"), "nothing came, so nothing can be said");
}
