//! Cost of a packet: `cargo bench -p narrows-qdisc` measures all; `cargo bench -p narrows-qdisc -- taq:paper 10000`
//! measures one discipline and one number of flows.
//!
//! One step is one packet in and one out, at a steady backlog, with all tracking. Each flow sends five packets a second
//! whatever the number of flows, so only the tables grow; one packet in twenty is a retransmission. The right-hand
//! columns add one acknowledgment seen the other way for each two packets of data. Times are the lowest of three
//! medians over blocks of packets; the stream of packets is made outside the measured time. `fifo+lookup` is a
//! drop-tail queue and one look into the flow table for each packet: what any discipline that knows flows must pay. All
//! are told of packets that come, as the box tells of those it received together.
//!
//! A second table is of one flow with thousands of packets waiting, and what a packet costs whose bytes wait already,
//! which is what somebody would send to whom a box's work matters and not the bytes (`-- deep`).
//!
//! With `PER_PACKET_BLOCKS=20` in the environment so many blocks are measured and no time, so that two programs can be
//! compared by their instructions: `valgrind --tool=callgrind --toggle-collect='*per_packet*pass*'`.

use std::hint::black_box;

use narrows_flow::{Tracker, TrackerConfig};
use narrows_qdisc::{
    Ahead, BoxedDiscipline, Discipline, Fifo, Limit, Manage, Packet, Qdisc, Record, ReversePath,
    ShaperConfig, Side, Spec, Verdicts,
};
use narrows_units::{Bytes, Duration, Instant, Rate, SeqNum};
use narrows_wire::{Flags, FlowKey, Proto, TcpHeader};

/// Packets made and measured at a time: with their headers they fit a level-two cache.
const BLOCK: usize = 1024;
const LEN: u64 = 1000;
/// Packets a second of each flow.
const PER_FLOW: u64 = 5;
/// Time for which each cell is measured, and the number of times: the lowest median counts, since what disturbs a
/// measurement only adds to it.
const MEASURE: core::time::Duration = core::time::Duration::from_millis(400);
const ROUNDS: usize = 3;
/// Packets of one flow that wait in the second table.
const DEEP: usize = 3900;
/// Disciplines of the second table, with room for so many packets of one flow.
const DEEP_NAMES: &[&str] = &[
    "fifo",
    "cake:target=5s,interval=10s",
    "fq_codel:target=5s,interval=10s",
    "sfq:4000",
    "drr:4000",
    "taq:window_clamp=off",
    "taq:share=flow",
    "taq",
    "classes:borrow=on,buffer=8000",
    "taq:paper,buffer=4000",
];

/// Flows that send in an order that repeats only after a long time.
struct Stream {
    keys: Vec<FlowKey>,
    seqs: Vec<u32>,
    state: u64,
    now: Instant,
    gap: Duration,
}

impl Stream {
    fn new(flows: usize, flows_of_a_user: usize) -> Self {
        let key = |flow: usize| {
            let (n, port) = (flow / flows_of_a_user, (flow % flows_of_a_user) as u16);
            let user = [10, (n >> 14) as u8, (n >> 7) as u8 & 0x7f, n as u8 & 0x7f];
            FlowKey::new([192, 0, 2, 1].into(), user.into(), 80, 40_000 + port, Proto::TCP)
        };
        Self {
            keys: (0..flows).map(key).collect(),
            seqs: vec![1; flows],
            state: 1,
            now: Instant::from_nanos(1_000_000_000),
            gap: Duration::from_nanos(1_000_000_000 / (PER_FLOW * flows as u64)),
        }
    }

    fn link(&self) -> ShaperConfig {
        let rate = Rate::from_bps(self.keys.len() as u64 * PER_FLOW * LEN * 8);
        ShaperConfig { mtu: Bytes(1500), users: Side::Destination, ..ShaperConfig::new(rate) }
    }

    fn random(&mut self) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 33
    }

    fn packet(&mut self) -> (Instant, Record) {
        let flow = (self.random() % self.keys.len() as u64) as usize;
        self.now += self.gap;
        let payload = (LEN - 40) as u32;
        let repeats = self.random().is_multiple_of(20) && self.seqs[flow] > payload;
        if !repeats {
            self.seqs[flow] = self.seqs[flow].wrapping_add(payload);
        }
        let tcp = TcpHeader {
            seq: SeqNum(self.seqs[flow].wrapping_sub(payload)),
            flags: Flags::ACK,
            payload,
            window: 1000,
            timestamps: Some((self.now.as_nanos() as u32, 1)),
            ..TcpHeader::default()
        };
        let mut r = Record { id: flow as u64, ..Record::default() };
        r.header.key = self.keys[flow];
        r.header.len = Bytes(LEN);
        r.header.tcp = Some(tcp);
        (self.now, r)
    }

    /// The acknowledgment of what the flow of `data` has sent two packets ago.
    fn ack(&self, data: &Record) -> Record {
        let mut r = *data;
        r.header.key = data.header.key.reverse();
        r.header.len = Bytes(52);
        if let Some(tcp) = r.header.tcp.as_mut() {
            tcp.ack = SeqNum(tcp.seq.0.wrapping_sub(tcp.payload));
            tcp.payload = 0;
        }
        r
    }
}

/// A drop-tail queue that finds the flow of each packet.
struct Looking {
    fifo: Fifo<Record>,
    tracker: Tracker,
}

impl Qdisc<Record> for Looking {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        let expected = self.tracker.expect(flow);
        if ahead == Ahead::Near {
            black_box(self.tracker.likely(expected));
        }
    }
    fn enqueue(&mut self, now: Instant, packet: Record, verdicts: &mut Verdicts<Record>) {
        black_box(self.tracker.lookup(&packet.header().key).map(|id| self.tracker.flow(id).max_seq()));
        self.fifo.enqueue(now, packet, verdicts);
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<Record>) -> Option<Record> {
        self.fifo.dequeue(now, verdicts)
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        self.fifo.next_ready(now)
    }
    fn backlog(&self) -> narrows_qdisc::Backlog {
        self.fifo.backlog()
    }
}

impl ReversePath<Record> for Looking {
    fn reverse(&mut self, _: Instant, packet: Record, _: &mut Verdicts<Record>) -> Option<Record> {
        black_box(
            self.tracker.lookup(&packet.header().key.reverse()).map(|id| self.tracker.flow(id).max_seq()),
        );
        Some(packet)
    }
}

impl Manage for Looking {
    fn report(&mut self, now: Instant) -> narrows_qdisc::Report {
        self.fifo.report(now)
    }
    fn reconfigure(&mut self, _: Instant, _: &dyn core::any::Any, _: &ShaperConfig) -> bool {
        false
    }
}

impl Discipline<Record> for Looking {
    fn reverse_path(&self) -> Option<&dyn ReversePath<Record>> {
        Some(self)
    }
    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<Record>> {
        Some(self)
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time; no discipline sees it")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Passes a block through the discipline: each packet in, and one out; with `acks`, half an acknowledgment too.
#[inline(never)]
fn pass(
    q: &mut dyn Discipline<Record>,
    block: &[(Instant, Record, Record)],
    acks: bool,
    verdicts: &mut Verdicts<Record>,
) {
    for (n, (now, packet, ack)) in block.iter().enumerate() {
        let now = *now;
        for (packets, ahead) in [(Ahead::NEAR, Ahead::Near), (Ahead::FAR, Ahead::Far)] {
            if let Some((_, packet, _)) = block.get(n + packets) {
                q.coming(&packet.header.key, ahead);
            }
        }
        q.enqueue(now, *packet, verdicts);
        if acks && n % 2 == 0 {
            black_box(match q.reverse_path_mut() {
                Some(path) => path.reverse(now, *ack, verdicts),
                None => Some(*ack),
            });
        }
        black_box(q.dequeue(now, verdicts));
        verdicts.clear();
    }
}

/// Number of blocks to measure by PER_PACKET_BLOCKS; without it the clock decides.
fn blocks() -> Option<usize> {
    std::env::var("PER_PACKET_BLOCKS").ok()?.parse().ok()
}

/// Median nanoseconds of one packet in and one out; with `acks`, and half an acknowledgment.
fn measure(q: &mut dyn Discipline<Record>, mut stream: Stream, acks: bool) -> f64 {
    let flows = stream.keys.len();
    let mut verdicts = Verdicts::new();
    // A backlog of half a packet a flow, at most 2000; and every flow known before the clock starts.
    let backlog = (flows / 2).min(2000);
    for n in 0..6 * flows {
        let (now, packet) = stream.packet();
        q.enqueue(now, packet, &mut verdicts);
        if n >= backlog {
            black_box(q.dequeue(now, &mut verdicts));
        }
        verdicts.clear();
    }
    let mut times = Vec::new();
    let mut block = Vec::with_capacity(BLOCK);
    let begin = clock();
    while blocks().map_or_else(|| begin.elapsed() < MEASURE, |most| times.len() < most) {
        block.clear();
        block.extend((0..BLOCK).map(|_| {
            let (now, packet) = stream.packet();
            (now, packet, stream.ack(&packet))
        }));
        let start = clock();
        pass(q, &block, acks, &mut verdicts);
        times.push(start.elapsed().as_nanos() as f64 / BLOCK as f64);
    }
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A flow of segments of one byte each, as many as may wait, and then either more of them, or copies of those in the
/// middle with a later timestamp. Median nanoseconds of a packet.
fn measure_deep(q: &mut dyn Discipline<Record>, copies: bool) -> f64 {
    let key = Stream::new(1, 1).keys[0];
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut sent = 0u32;
    let mut packet = |now: Instant, seq: Option<u32>| {
        sent += u32::from(seq.is_none());
        let tcp = TcpHeader {
            seq: SeqNum(seq.map_or(sent, |nth| (sent - nth).max(1))),
            flags: Flags::ACK,
            payload: 1,
            window: 1000,
            timestamps: Some((now.as_nanos() as u32 >> 10, 1)),
            ..TcpHeader::default()
        };
        let mut r = Record::default();
        (r.header.key, r.header.len, r.header.tcp) = (key, Bytes(53), Some(tcp));
        r
    };
    let mut verdicts = Verdicts::new();
    for _ in 0..DEEP {
        now += Duration::from_micros(800);
        q.enqueue(now, packet(now, None), &mut verdicts);
    }
    let mut times = Vec::new();
    let begin = clock();
    while blocks().map_or_else(|| begin.elapsed() < MEASURE, |most| times.len() < most) {
        let start = clock();
        for n in 0..BLOCK {
            now += Duration::from_micros(800);
            let place = (n as u32 * 7) % (DEEP as u32 / 2) + DEEP as u32 / 4;
            q.enqueue(now, packet(now, copies.then_some(place)), &mut verdicts);
            while q.backlog().packets > DEEP {
                black_box(q.dequeue(now, &mut verdicts));
            }
            verdicts.clear();
        }
        times.push(start.elapsed().as_nanos() as f64 / BLOCK as f64);
    }
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The second table. A copy must cost no more than twice what an ordinary packet does.
fn deep(wanted: &[&str]) {
    println!("{:>8}  {:<44} {:>8} {:>9} {:>13}", "waiting", "discipline", "ns", "ns a copy", "times");
    let link = ShaperConfig {
        mtu: Bytes(1500),
        users: Side::Destination,
        ..ShaperConfig::new(Rate::from_kbps(512))
    };
    for name in DEEP_NAMES.iter().filter(|name| wanted.is_empty() || wanted.contains(name)) {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for copies in [false, true] {
                let spec: Spec =
                    if *name == "fifo" { "fifo:4000" } else { name }.parse().expect("a discipline");
                let ns = measure_deep(&mut *spec.build(&link, 1), copies);
                best[usize::from(copies)] = best[usize::from(copies)].min(ns);
            }
        }
        let [plain, copy] = best;
        println!("{DEEP:>8}  {name:<44} {plain:>8.1} {copy:>9.1} {:>13.2}", copy / plain);
    }
}

/// All rows of the table. Buffers are larger than the backlog, and targets than the delay, so that what is measured is
/// a packet that stays.
const NAMES: &[&str] = &[
    "fifo",
    "fifo+lookup",
    "cake:target=1s,interval=2s",
    "codel:4000,target=1s,interval=2s",
    "fq_codel:target=1s,interval=2s",
    "pie:4000,target=1s",
    "red:4000,min=100,max=3900,max_p=0.01",
    "rio:ps,buffer=40000",
    "sfq:4000",
    "drr:4000",
    "drr:4000,share=hash",
    "classes:borrow=on,buffer=8000",
    "fq_codel:target=1s,interval=2s,share=user",
    "drr:4000,share=user",
    "taq:share=flow",
    "taq",
    "taq:paper",
];

/// A stream for the discipline of this name. Where the link is shared between users, each has ten flows.
fn stream(name: &str, flows: usize) -> Stream {
    let by_user = name.parse::<Spec>().is_ok_and(|spec| spec.shares_between_users());
    Stream::new(flows, if by_user { 10 } else { 1 })
}

struct Cell {
    name: String,
    flows: usize,
    plain: f64,
    acked: f64,
    bytes: usize,
}

fn build(name: &str, flows: usize) -> BoxedDiscipline<Record> {
    let link = stream(name, flows).link();
    let spec = |text: &str| text.parse::<Spec>().unwrap_or_else(|e| panic!("{text}: {e}"));
    match name {
        "fifo" => spec("fifo:100000").build(&link, 1),
        "fifo+lookup" => {
            let mut tracker = Tracker::new(TrackerConfig::default(), 1);
            let mut stream = Stream::new(flows, 1);
            for _ in 0..6 * flows {
                let (now, packet) = stream.packet();
                tracker.forward(now, packet.header());
            }
            Box::new(Looking { fifo: Fifo::new(Limit::Packets(100_000)), tracker })
        }
        // Admission control sees no SYN here, so its state does not matter.
        text => spec(text).build(&link, 1),
    }
}

fn main() {
    // Cargo passes `--bench`; what is left are names of disciplines and numbers of flows.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let numbers: Vec<usize> = wanted.iter().filter_map(|a| a.parse().ok()).collect();
    let names: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|a| a.parse::<usize>().is_err()).collect();
    if names.first() == Some(&"deep") {
        return deep(&names[1..]);
    }
    let flows = if numbers.is_empty() { vec![100, 10_000, 50_000] } else { numbers };
    let names = if names.is_empty() { NAMES.to_vec() } else { names };
    println!(
        "{:>8}  {:<44} {:>8} {:>9} {:>13} {:>9} {:>11}",
        "flows", "discipline", "ns", "x lookup", "ns with ACKs", "x lookup", "bytes/flow"
    );
    let mut cells: Vec<Cell> = Vec::new();
    for &flows in &flows {
        for cell in measure_all(&names, flows) {
            row(&cells, &cell);
            cells.push(cell);
        }
    }
    if wanted.is_empty() {
        verdict(&cells);
        deep(&[]);
    }
}

/// All disciplines in turn, and again, so that a busy spell of the machine does not fall on one of them.
fn measure_all(names: &[&str], flows: usize) -> Vec<Cell> {
    let empty = |&name: &&str| Cell {
        name: name.to_owned(),
        flows,
        plain: f64::INFINITY,
        acked: f64::INFINITY,
        bytes: 0,
    };
    let mut cells: Vec<Cell> = names.iter().map(empty).collect();
    for _ in 0..ROUNDS {
        for cell in &mut cells {
            cell.plain =
                cell.plain.min(measure(&mut *build(&cell.name, flows), stream(&cell.name, flows), false));
            let mut q = build(&cell.name, flows);
            cell.acked = cell.acked.min(measure(&mut *q, stream(&cell.name, flows), true));
            cell.bytes = q.report(Instant::FAR_FUTURE).bytes_per_flow;
        }
    }
    cells
}

fn row(above: &[Cell], cell: &Cell) {
    let same = |c: &&Cell| c.name == "fifo+lookup" && c.flows == cell.flows;
    let base = above.iter().rfind(same).or_else(|| Some(cell).filter(same));
    let times = |of: fn(&Cell) -> f64| base.map_or_else(String::new, |b| format!("{:.2}", of(cell) / of(b)));
    println!(
        "{:>8}  {:<44} {:>8.1} {:>9} {:>13.1} {:>9} {:>11}",
        cell.flows,
        cell.name,
        cell.plain,
        times(|c| c.plain),
        cell.acked,
        times(|c| c.acked),
        if cell.bytes > 0 { cell.bytes.to_string() } else { String::new() },
    );
}

/// The bounds: of TAQ at 10 000 flows at most 200 ns and three times `fifo+lookup`, from 100 to 50 000 flows within
/// two; of every other discipline at most 150 ns at 10 000 flows.
fn verdict(cells: &[Cell]) {
    let ns = |name: &str, flows: usize| {
        cells.iter().find(|c| c.name == name && c.flows == flows).map_or(f64::NAN, |c| c.plain)
    };
    for name in ["taq:share=flow", "taq", "taq:paper"] {
        let (at, base) = (ns(name, 10_000), ns("fifo+lookup", 10_000));
        let growth = ns(name, 50_000) / ns(name, 100);
        let says = |ok: bool| if ok { "kept" } else { "MISSED" };
        println!(
            "{name}: {at:.0} ns at 10 000 flows (bound 200: {}), {:.2} times fifo+lookup (bound 3: {}), \
             {growth:.2} times from 100 to 50 000 flows (bound 2: {})",
            says(at <= 200.0),
            at / base,
            says(at <= 3.0 * base),
            says(growth <= 2.0),
        );
    }
    for name in NAMES.iter().filter(|n| !n.starts_with("fifo") && !n.starts_with("taq")) {
        let at = ns(name, 10_000);
        println!(
            "{name}: {at:.0} ns at 10 000 flows (bound 150: {})",
            if at <= 150.0 { "kept" } else { "MISSED" }
        );
    }
}
