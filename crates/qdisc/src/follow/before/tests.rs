//! The controller for a link before the box, with servers that send as much as is acknowledged.

use std::collections::BTreeMap;

use narrows_units::{Bytes, SeqNum};
use narrows_wire::{Flags, Proto, TcpHeader};

use super::*;
use crate::follow::{Controller, Follow, tests::ms};
use crate::{
    Backlog, Discipline, Fifo, Limit, Manage, Qdisc, Record, Report, ReversePath, ShaperConfig, Spec,
    Verdicts,
};

const PAYLOAD: u32 = 1448;

fn segment(user: u8, up: bool, timestamps: (u32, u32), number: u64) -> Record {
    let key = FlowKey::new([10, 0, 0, user].into(), [10, 0, 1, user].into(), 443, 4000, Proto::TCP);
    let mut r = Record { id: number, ..Record::default() };
    r.header.key = if up { key.reverse() } else { key };
    r.header.len = Bytes(if up { 52 } else { 1500 });
    let begins = SeqNum((number as u32).wrapping_mul(PAYLOAD));
    let (seq, ack, payload) =
        if up { (SeqNum(0), begins + PAYLOAD, 0) } else { (begins, SeqNum(0), PAYLOAD) };
    r.header.tcp = Some(TcpHeader {
        seq,
        ack,
        payload,
        flags: Flags::ACK,
        timestamps: Some(timestamps),
        ..TcpHeader::default()
    });
    r
}

enum Event {
    /// A packet of data comes to the queue before the link.
    Joins(u8, (u32, u32), u64),
    /// The packet comes out of the link.
    ComesOut(u8, (u32, u32), u64),
    /// A user's acknowledgment passes the box.
    Acknowledges(u8, u32, u64),
    /// The server has it.
    Answers(u8, u32),
    /// The box said that it has something to do.
    Wakes,
}

/// Time at which a link behind the box has sent a packet that came then, while those before it leave until another
/// time.
pub(in crate::follow) type Modem = fn(Instant, Instant) -> Instant;

/// Servers at some distance, a link with a queue, a box, another link, and users who acknowledge within a millisecond.
pub(in crate::follow) struct Path {
    pub shaper: Follow<Record, Fifo<Record>>,
    events: BTreeMap<(Instant, u64), Event>,
    scheduled: u64,
    free_at: Instant,
    behind: Modem,
    behind_free_at: Instant,
    wakes_at: Instant,
    /// Round trip on the far side, by user, without a queue.
    far: fn(u8, Instant) -> Duration,
    sent: u64,
    /// Times at which packets came out, with their time in the queue; those at which they left the box.
    pub came: Vec<(Instant, Duration)>,
    /// Times at which packets came out of the link behind the box, with their time in its queue.
    pub crossed: Vec<(Instant, Duration)>,
    pub left: Vec<(Instant, u64)>,
}

impl Path {
    /// Each of `users` has a server that keeps `window` packets under way.
    fn new(users: u8, window: u64, far: fn(u8, Instant) -> Duration) -> Self {
        Self::with("where=before", users, window, far)
    }

    /// A path like [`Path::new`] with these settings of the controller.
    pub fn with(settings: &str, users: u8, window: u64, far: fn(u8, Instant) -> Duration) -> Self {
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1000)) };
        let config = crate::Settings::read(settings).unwrap();
        let spec: Spec = "fifo:5000".parse().unwrap();
        let shaper = Follow::new(config, link, spec, Fifo::new(Limit::Packets(5000)), 1);
        let mut path = Self {
            shaper,
            events: BTreeMap::new(),
            scheduled: 0,
            free_at: Instant::ZERO,
            behind: |came, _| came,
            behind_free_at: Instant::ZERO,
            wakes_at: Instant::ZERO,
            far,
            sent: 0,
            came: Vec::new(),
            crossed: Vec::new(),
            left: Vec::new(),
        };
        for user in 0..users {
            for n in 0..window {
                // Connections open one after the other.
                path.at(ms(100 * u64::from(user) + n), Event::Acknowledges(user, 0, 0));
            }
        }
        path
    }

    /// This path with another link behind the box.
    pub fn and(self, behind: Modem) -> Self {
        Self { behind, ..self }
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    /// Lets time pass up to `to`. `rate` gives the time at which a packet that begins to leave has left the link. With
    /// `polls` the box is asked also when it did not say so.
    pub fn run(&mut self, to: Instant, polls: bool, rate: impl Fn(Instant) -> Instant) {
        let mut v = Vec::new();
        while let Some(first) = self.events.first_entry().filter(|e| e.key().0 < to) {
            let ((now, _), event) = first.remove_entry();
            let clock = (now.as_nanos() / 1_000_000) as u32;
            match event {
                Event::Joins(user, timestamps, number) => {
                    self.free_at = rate(self.free_at.max(now));
                    self.came.push((self.free_at, self.free_at.since(now)));
                    self.at(self.free_at, Event::ComesOut(user, timestamps, number));
                }
                Event::ComesOut(user, timestamps, number) => {
                    self.shaper.enqueue(now, segment(user, false, timestamps, number), &mut v);
                }
                Event::Acknowledges(user, echo, number) => {
                    self.shaper.reverse(now, segment(user, true, (clock, echo), number), &mut v);
                    self.at(now + (self.far)(user, now) / 2, Event::Answers(user, clock));
                }
                Event::Answers(user, echo) => {
                    self.sent += 1;
                    self.at(now + (self.far)(user, now) / 2, Event::Joins(user, (clock, echo), self.sent));
                }
                Event::Wakes => {}
            }
            while let Some(packet) = self.shaper.dequeue(now, &mut v) {
                self.left.push((now, packet.id));
                let (sent, _) = packet.header.tcp.unwrap().timestamps.unwrap();
                let user = packet.header.key.dst_bits() as u8;
                let free_at = (self.behind)(now, self.behind_free_at);
                self.behind_free_at = free_at;
                self.crossed.push((free_at, free_at.since(now)));
                self.at(free_at + Duration::from_millis(1), Event::Acknowledges(user, sent, packet.id));
            }
            let ready = self.shaper.next_ready(now).filter(|at| *at > now);
            let poll = polls.then(|| now + Duration::from_micros(700));
            if let Some(at) = ready.into_iter().chain(poll).min()
                && (self.wakes_at <= now || at < self.wakes_at)
            {
                self.wakes_at = at;
                self.at(at, Event::Wakes);
            }
        }
    }

    /// Bytes that came out from one time to another, in kbit/s, and p95 of their times in the queue.
    pub fn came(&self, from: Instant, to: Instant) -> (u64, Duration) {
        carried(&self.came, from, to)
    }

    pub fn told(&self, now: Instant) -> u64 {
        self.shaper.belief(now).rate_bps / 1000
    }
}

/// Bytes that crossed a link from one time to another, in kbit/s, and p95 of their times in its queue.
pub(in crate::follow) fn carried(
    crossed: &[(Instant, Duration)],
    from: Instant,
    to: Instant,
) -> (u64, Duration) {
    let mut waits: Vec<_> = crossed.iter().filter(|c| (from..to).contains(&c.0)).map(|c| c.1).collect();
    waits.sort_unstable();
    let kbps = waits.len() as u64 * 12_000 / to.since(from).as_millis();
    (kbps, waits.get(waits.len() * 95 / 100).copied().unwrap_or_default())
}

pub(in crate::follow) fn constant(kbps: u64) -> impl Fn(Instant) -> Instant {
    move |from| from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
}

pub(in crate::follow) fn near_and_far(user: u8, _: Instant) -> Duration {
    Duration::from_millis(20 + 26 * u64::from(user % 6))
}

#[test]
fn a_fixed_rate_is_found_and_the_queue_stands_in_the_box() {
    for (kbps, window) in [(64, 8), (256, 10), (1_000, 40), (5_000, 60)] {
        let mut path = Path::new(6, window, near_and_far);
        path.run(ms(60_000), false, constant(kbps));
        let told = path.told(ms(60_000));
        assert!((kbps * 93..=kbps * 107).contains(&(told * 100)), "{kbps} kbit/s: told {told}");
        path.run(ms(90_000), false, constant(kbps));
        let (carried, wait) = path.came(ms(60_000), ms(90_000));
        assert!(carried * 100 >= kbps * 90, "{kbps} kbit/s: carried {carried}");
        // 2.2 times the target of 30 ms and half a packet; two packets that are always let go, a burst of two, and what
        // the other paths than the average add.
        let bound = Rate::from_kbps(kbps).time_to_send(Bytes(6000)) + Duration::from_millis(150);
        assert!(wait <= bound, "{kbps} kbit/s: {wait} in the queue");
    }
}

#[test]
fn after_a_step_the_queue_is_short_and_the_link_is_used() {
    let rate = |from: Instant| {
        let kbps = if (ms(30_000)..ms(60_000)).contains(&from) { 500 } else { 5_000 };
        from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
    };
    let mut path = Path::new(6, 60, near_and_far);
    path.run(ms(90_000), false, rate);
    let after = path.came.iter().filter(|c| (ms(35_300)..ms(60_000)).contains(&c.0));
    let longest = after.map(|c| c.1).max().unwrap();
    assert!(longest < Duration::from_millis(500), "{longest}");
    let (carried, _) = path.came(ms(69_000), ms(70_000));
    assert!(carried >= 2_500, "ten seconds after the step up: {carried} kbit/s");
}

#[test]
fn a_link_with_room_is_not_slowed() {
    // Two packets of one user each 40 ms are 600 kbit/s, of 20 Mbit/s that the link carries.
    let mut path = Path::new(1, 2, |_, _| Duration::from_millis(39));
    path.run(ms(20_000), false, constant(20_000));
    let waited = path.left.iter().zip(&path.came).map(|(left, came)| left.0.since(came.0)).max().unwrap();
    assert_eq!(waited, Duration::ZERO);
}

#[test]
fn an_outage_is_not_filled_and_its_end_is_seen() {
    let rate = |from: Instant| {
        let from = if (ms(20_000)..ms(30_000)).contains(&from) { ms(30_000) } else { from };
        from + Rate::from_kbps(1_000).time_to_send(Bytes(1500))
    };
    let mut path = Path::new(6, 30, near_and_far);
    path.run(ms(60_000), false, rate);
    // The believed queue leaves, the packets on their way to it, half of the rate until a second has passed without an
    // arrival, and two packets now and then.
    let meanwhile = path.left.iter().filter(|l| (ms(20_300)..ms(30_000)).contains(&l.0)).count();
    assert!((1..=130).contains(&meanwhile), "{meanwhile} packets");
    let (carried, _) = path.came(ms(32_000), ms(34_000));
    assert!(carried >= 850, "{carried} kbit/s");
}

/// Windows of 10 packets are all under way in the outage, so that none waits in the box; of larger ones many wait.
#[test]
fn the_time_of_an_outage_is_not_counted_to_the_rate() {
    for window in [10, 20, 60] {
        let rate = |from: Instant| {
            let from = if (ms(20_000)..ms(28_000)).contains(&from) { ms(28_000) } else { from };
            from + Rate::from_kbps(2_000).time_to_send(Bytes(1500))
        };
        let mut path = Path::new(6, window, near_and_far);
        path.run(ms(31_000), false, rate);
        let (carried, _) = path.came(ms(28_500), ms(31_000));
        assert!(carried >= 1_900, "windows of {window}: {carried} kbit/s");
    }
}

/// A step may come while the queue is let run empty. That the queue grows then does not say that paths are longer.
#[test]
fn a_link_that_became_slower_is_not_taken_for_longer_paths() {
    for step in (30_000..40_000).step_by(500) {
        let rate = |from: Instant| {
            let kbps = if from < ms(step) { 5_000 } else { 500 };
            from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
        };
        let mut path = Path::with("where=before,target=60ms", 6, 60, near_and_far);
        path.run(ms(step + 30_000), false, rate);
        // 2.3 s of packets are under way at the step, and the box lets go half of what comes.
        let (_, wait) = path.came(ms(step + 9_000), ms(step + 30_000));
        assert!(wait <= Duration::from_millis(600), "a step after {step} ms: {wait}");
    }
}

/// While a long queue stands, the target decides how much is let go all the same.
#[test]
fn who_aims_at_no_queue_lets_least_go_while_one_stands() {
    let let_go = |settings: &str| {
        // 5 Mbit/s fall to 100 kbit/s: what was under way takes 10 s to come.
        let rate = |from: Instant| {
            let kbps = if from < ms(30_000) { 5_000 } else { 100 };
            from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
        };
        let mut path = Path::with(settings, 6, 60, near_and_far);
        path.run(ms(36_000), false, rate);
        path.left.iter().filter(|l| (ms(31_500)..ms(34_500)).contains(&l.0)).count()
    };
    // In 3 s 25 packets come.
    let [default, between, least] =
        ["where=before", "where=before,target=15ms", "where=before,target=0ms"].map(let_go);
    assert!((12..=14).contains(&default), "half of what comes, and a little: {default}");
    assert!((6..=8).contains(&between), "a little more than a quarter: {between}");
    assert!((1..=2).contains(&least), "a twentieth: {least}");
}

/// Six downloads fill the queue with four seconds of packets before the box starts: no round trip that it sees is the
/// path alone.
#[test]
fn a_box_that_starts_on_a_full_link_finds_the_paths() {
    let mut path = Path::with("", 6, 60, near_and_far);
    path.run(ms(3_000), false, constant(1_000));
    path.shaper = Path::new(0, 0, near_and_far).shaper;
    path.run(ms(60_000), false, constant(1_000));
    let (_, wait) = path.came(ms(3_000), ms(6_000));
    assert!(wait >= Duration::from_secs(3), "{wait} at the start");
    // Four seconds pass until the queue is empty.
    let (carried, wait) = path.came(ms(15_000), ms(60_000));
    assert!(carried >= 950, "{carried} kbit/s");
    // Two packet times and 150 ms are aimed at, and two packets are always let go.
    assert!(wait <= Duration::from_millis(198), "{wait} in the queue");
}

/// A tunnel or a modem that was asleep answers what was asked in the first second only after 2.7 s, and from then on
/// the link is never without a queue: no round trip has measured a path.
#[test]
fn first_answers_that_were_late_do_not_make_paths_long() {
    let far = |user, asked| {
        if asked < ms(1_000) { Duration::from_millis(2_700) } else { near_and_far(user, asked) }
    };
    let mut path = Path::new(6, 40, far);
    path.run(ms(60_000), false, constant(1_000));
    let (carried, wait) = path.came(ms(30_000), ms(60_000));
    assert!(carried >= 950, "{carried} kbit/s");
    assert!(wait <= Duration::from_millis(200), "{wait} in the queue");
}

#[test]
fn paths_that_all_become_longer_are_found_out() {
    // A handover after 30 s, and 80 ms more on each path.
    let far = |user: u8, now: Instant| {
        near_and_far(user, now) + Duration::from_millis(if now < ms(30_000) { 0 } else { 80 })
    };
    let mut path = Path::new(6, 30, far);
    path.run(ms(80_000), false, constant(1_000));
    let (carried, wait) = path.came(ms(60_000), ms(80_000));
    assert!(carried >= 800, "{carried} kbit/s");
    // Two packet times and 150 ms are aimed at. What a queue holds that is let run empty but is not counts as path too:
    // as much again as the 80 ms at most, and two packets.
    assert!(wait <= Duration::from_millis(278), "{wait}");
}

#[test]
fn another_place_takes_another_controller() {
    let mut path = Path::new(6, 30, near_and_far);
    path.run(ms(30_000), false, constant(1_000));
    assert!(path.shaper.belief(ms(30_000)).signals.is_some());
    let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1000)) };
    let mut adopt = |settings: &str| {
        let spec: Spec = "fifo:5000".parse().unwrap();
        assert!(path.shaper.adopt(ms(30_000), crate::Settings::read(settings).unwrap(), &spec, &link));
        path.shaper.belief(ms(30_000))
    };
    assert!(adopt("where=before,max=900").found_bps.is_some(), "what is known stays");
    assert_eq!(adopt("where=behind").signals, None);
}

#[test]
fn asked_oftener_it_says_the_same() {
    let rate = |from: Instant| {
        let kbps = if (from.as_nanos() / 1_000_000_000).is_multiple_of(2) { 300 } else { 2_000 };
        from + Rate::from_kbps(kbps).time_to_send(Bytes(1500))
    };
    let (mut told, mut polled) = (Path::new(6, 20, near_and_far), Path::new(6, 20, near_and_far));
    told.run(ms(8_000), false, rate);
    polled.run(ms(8_000), true, rate);
    assert_eq!(told.left, polled.left);
}

/// Queue that notes where the link is said to lie, and that lets no sender send more.
#[derive(Debug)]
struct Told {
    queue: Fifo<Record>,
    before: Vec<bool>,
}

impl Qdisc<Record> for Told {
    fn enqueue(&mut self, now: Instant, packet: Record, verdicts: &mut Verdicts<Record>) {
        self.queue.enqueue(now, packet, verdicts);
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<Record>) -> Option<Record> {
        self.queue.dequeue(now, verdicts)
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

impl ReversePath<Record> for Told {
    fn reverse(&mut self, _: Instant, packet: Record, _: &mut Verdicts<Record>) -> Option<Record> {
        Some(packet)
    }
    fn link_is_before(&mut self, before: bool) {
        self.before.push(before);
    }
    fn brings_more(&self, _: &Header) -> bool {
        false
    }
}

impl Manage for Told {
    fn report(&mut self, now: Instant) -> Report {
        self.queue.report(now)
    }
    fn reconfigure(&mut self, _: Instant, _: &dyn core::any::Any, _: &ShaperConfig) -> bool {
        true
    }
}

impl Discipline<Record> for Told {
    fn reverse_path(&self) -> Option<&dyn ReversePath<Record>> {
        Some(self)
    }
    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<Record>> {
        Some(self)
    }
}

#[test]
fn the_discipline_is_told_where_the_link_lies_and_asked_who_sends_more() {
    let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1000)) };
    let spec: Spec = "fifo:5000".parse().unwrap();
    let config = |settings: &str| crate::Settings::read(settings).unwrap();
    let told = Told { queue: Fifo::new(Limit::Packets(5000)), before: Vec::new() };
    let mut shaper = Follow::new(config("where=before"), link, spec.clone(), told, 1);
    let mut v = Vec::new();
    for n in 0..20_u64 {
        let clock = (n * 20) as u32;
        shaper.reverse(ms(n * 20), segment(1, true, (clock, 0), 0), &mut v);
        shaper.enqueue(ms(n * 20 + 10), segment(1, false, (clock + 5, clock), n), &mut v);
        while shaper.dequeue(ms(n * 20 + 10), &mut v).is_some() {}
    }
    assert_eq!(shaper.inner_mut().before, [true], "told once");
    assert_eq!(shaper.belief(ms(400)).in_flight, 0, "none of the packets counts that left after it was told");
    assert!(shaper.adopt(ms(400), config("where=behind"), &spec, &link));
    assert_eq!(shaper.into_inner().before, [true, false], "a discipline of a link of a given rate");
}

/// A host was asked before an outage of 20 s and answers after it: what is let go for it then joins the queue soon all
/// the same.
#[test]
fn an_answer_that_met_an_outage_is_no_long_way() {
    let mut control = Before::new(crate::Settings::read("where=before").unwrap(), 1);
    control.returns(ms(1_000), &segment(1, true, (1_000, 0), 0).header);
    control.arrives(ms(21_000), &segment(1, false, (20_990, 1_000), 1).header, 1500);
    let packet = segment(1, false, (20_990, 1_000), 2);
    let departure = Departure { header: &packet.header, bytes: 1500, waiting: true, brings_more: true };
    control.departs(ms(21_000), &departure);
    control.outside.pass(ms(22_400));
    assert_eq!(control.outside.coming, 1500);
    control.outside.pass(ms(22_500));
    assert_eq!(control.outside.coming, 0, "a second and a half is the longest way");
}

/// One host answers each request after 10 ms. Another is asked five times, and its answers come when an outage is over.
#[test]
fn no_path_is_as_long_as_an_outage() {
    let mut control = Before::new(crate::Settings::read("where=before").unwrap(), 1);
    for n in 0..100_u64 {
        let clock = (n * 20) as u32;
        control.returns(ms(n * 20), &segment(2, true, (clock, 0), 0).header);
        control.arrives(ms(n * 20 + 10), &segment(2, false, (clock + 5, clock), n).header, 1500);
    }
    for n in 0..5_u32 {
        control.returns(ms(2_000 + u64::from(n)), &segment(1, true, (2_000 + n, 0), 0).header);
    }
    for n in 0..5_u32 {
        let answer = segment(1, false, (21_990 + n, 2_000 + n), 100);
        control.arrives(ms(22_000 + u64::from(n)), &answer.header, 1500);
    }
    let path = control.paths.to(server(&segment(1, false, (0, 0), 0).header, 1));
    assert!(path <= Duration::from_millis(20), "{path}");
}

#[test]
fn what_brings_no_more_is_not_waited_for() {
    let mut control = Before::new(crate::Settings::read("where=before").unwrap(), 1);
    let packet = segment(1, false, (5, 0), 1);
    let departure = Departure { header: &packet.header, bytes: 1500, waiting: true, brings_more: false };
    control.departs(ms(10), &departure);
    assert_eq!(control.outside.bytes(), 0.0);
    control.departs(ms(20), &Departure { brings_more: true, ..departure });
    assert_eq!(control.outside.bytes(), 1500.0);
}

/// Six downloads have filled 1 Mbit/s, and far more is outside than may be.
#[test]
fn what_brings_no_more_leaves_without_waiting() {
    let mut path = Path::new(6, 40, near_and_far);
    path.run(ms(20_000), false, constant(1_000));
    let Controller::Before(control) = &mut path.shaper.control else { panic!("before the box") };
    control.outside.add(ms(60_000), 1_000_000);
    let packet = segment(1, false, (5, 0), 1);
    let brings = Departure { header: &packet.header, bytes: 1500, waiting: true, brings_more: true };
    control.departs(ms(20_000), &brings);
    // Half of the rate: a packet that brings more leaves each 24 ms.
    let next = control.ready(ms(20_000), 1500);
    assert!((ms(20_023)..=ms(20_025)).contains(&next), "{next:?}");
    for n in 1..8 {
        control.departs(ms(20_000 + n), &Departure { brings_more: false, ..brings });
        assert_eq!(control.ready(ms(20_000 + n), 1500), next);
    }
    control.departs(next, &brings);
    assert!(control.ready(next, 1500) >= next + Duration::from_millis(23));
}

/// Servers have sent first flights of six packets each. The next handshake counts as six packets and its own bytes, and
/// as much time passes as half of the link takes for them.
#[test]
fn a_handshake_counts_as_the_first_flight_that_it_brings() {
    let mut path = Path::new(6, 40, near_and_far);
    path.run(ms(20_000), false, constant(1_000));
    let Controller::Before(control) = &mut path.shaper.control else { panic!("before the box") };
    let handshake = |user| {
        let mut packet = segment(user, false, (5, 0), 1);
        packet.header.len = Bytes(60);
        packet.header.tcp = Some(TcpHeader { flags: Flags::SYN.and(Flags::ACK), ..TcpHeader::default() });
        packet
    };
    let asks = |control: &mut Before, user| {
        let mut packet = segment(user, true, (5, 0), 1);
        packet.header.tcp = Some(TcpHeader { flags: Flags::SYN, ..TcpHeader::default() });
        control.returns(ms(20_000), &packet.header);
    };
    let leaves = |control: &mut Before, packet: &Record, bytes| {
        let departure = Departure { header: &packet.header, bytes, waiting: true, brings_more: true };
        control.departs(ms(20_000), &departure);
    };
    (11..13).for_each(|user| asks(control, user));
    leaves(control, &handshake(11), 60);
    let data = segment(11, false, (5, 0), 1);
    (0..6).for_each(|_| _ = control.arrives(ms(20_000), &data.header, 1500));
    leaves(control, &data, 1500);
    control.arrives(ms(25_000), &data.header, 1500);
    // Far more is outside than may be.
    control.outside.add(ms(60_000), 1_000_000);
    let (before, aimed_at) = (control.outside.bytes(), control.stands());
    leaves(control, &handshake(12), 60);
    assert_eq!(control.outside.bytes() - before, 9060.0);
    assert_eq!(control.stands() - aimed_at, 9000.0, "a first flight more");
    let queue = control.rate.time_for(control.aimed_at());
    assert!(queue < Duration::from_millis(100), "{queue}: what others share is told by a queue without it");
    let trickles = control.loaded_at + control.rate.time_for(9000.0 / TRICKLE);
    assert_eq!(control.room(ms(20_000), 1500), Some(trickles));
    leaves(control, &handshake(12), 60);
    assert_eq!(control.outside.bytes() - before, 9120.0, "it has left before");
}

/// Its server answers a request after a second, while others' packets come without having waited.
#[test]
fn a_server_that_thinks_is_not_taken_for_a_queue() {
    let mut control = Before::new(crate::Settings::read("where=before").unwrap(), 1);
    for n in 0..100_u64 {
        for user in 1..3 {
            let (asked, clock) = (ms(n * 20), (n * 20) as u32);
            control.returns(asked, &segment(user, true, (clock, 0), 0).header);
            let answer = segment(user, false, (clock + 5, clock), n);
            control.arrives(ms(n * 20 + 10), &answer.header, 1500);
        }
    }
    control.returns(ms(2_000), &segment(1, true, (2_000, 0), 0).header);
    for n in 0..50_u64 {
        let (asked, clock) = (ms(2_000 + n * 20), (2_000 + n * 20) as u32);
        control.returns(asked, &segment(2, true, (clock, 0), 0).header);
        control.arrives(ms(2_010 + n * 20), &segment(2, false, (clock + 5, clock), 100 + n).header, 1500);
    }
    // By its round trip it waited for 1001 ms; the other's last packet joined the queue 21 ms ago at the earliest.
    control.arrives(ms(3_011), &segment(1, false, (3_006, 2_000), 100).header, 1500);
    assert!(control.late <= Duration::from_millis(21), "{}", control.late);
    assert!(control.signals.round_trips > 200 && control.signals.clocks > 100, "{:?}", control.signals);
}
