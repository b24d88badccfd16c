//! The users: closed loops of objects over new connections, and flows that last the whole run.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use narrows_scenario::{Size, Transport};
use serde::{Deserialize, Serialize};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use super::connection::{Arrivals, Connection, Ways};
use super::patience::Patience;
use super::record::{ClientResult, LongRecord, ObjectRecord};
use super::secure::QuicSettings;
use super::server::{HEADER, congestion_control, stdin_ends};
use super::{Say, Tick, say};
use crate::scenario::Traffic;

/// How long a user waits after a connection attempt failed outright.
const RETRY: Duration = Duration::from_secs(1);

/// What the users are told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientSpec {
    /// Where to fetch from.
    pub server: SocketAddr,
    /// Congestion control of the requests.
    pub congestion_control: String,
    /// How QUIC sends.
    pub quic: QuicSettings,
    /// Decides sizes, start times and pauses.
    pub seed: u64,
    /// Seconds of load.
    pub duration: f64,
    /// Seconds not counted in a long flow's stall.
    pub warmup: f64,
    /// Users start within so many seconds.
    pub jitter: f64,
    /// Who does what.
    pub traffic: Vec<Traffic>,
}

/// The address of a user.
#[must_use]
pub fn user_address(user: u32) -> Ipv4Addr {
    let [_, _, high, low] = (user / 250 * 256 + user % 250 + 257).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

struct Run {
    spec: ClientSpec,
    begin: Instant,
    end: tokio::time::Instant,
    ways: Ways,
    patience: Patience,
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Run {
    fn now(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// Of an instant, as [`Self::now`] is of this one.
    fn at(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.begin).as_secs_f64()
    }
}

/// What one connection's life gave.
#[derive(Default)]
struct Life {
    user: u32,
    objects: Vec<ObjectRecord>,
    long: Option<LongRecord>,
    bins: Vec<u32>,
}

impl Life {
    fn receive(&mut self, run: &Run, now: f64, bytes: usize) {
        let at = (now as usize).min(run.spec.duration as usize);
        if self.bins.len() <= at {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] = self.bins[at].saturating_add(bytes as u32);
        run.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Loads the link for the time the spec says, or until standard input ends.
///
/// # Errors
/// If the congestion control or a user's address cannot be had.
pub fn run(spec: ClientSpec) -> anyhow::Result<ClientResult> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let probe = TcpSocket::new_v4()?;
        congestion_control(&probe, &spec.congestion_control)?;
        probe.bind((user_address(0), 0).into()).context("the users' addresses are not on this host")?;
        let begin = Instant::now();
        let run = Arc::new(Run {
            end: (begin + Duration::from_secs_f64(spec.duration)).into(),
            begin,
            ways: Ways::new(spec.server, spec.congestion_control.clone(), &spec.quic)?,
            patience: Patience::new(users(&spec), spec.warmup),
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            spec,
        });
        say(&Say::<()>::Ready);
        let mut lives = start(&run);
        let ticker = tokio::spawn(tick(run.clone()));
        let mut result =
            ClientResult { bins: vec![Vec::new(); users(&run.spec) as usize], ..ClientResult::default() };
        tokio::select! {
            () = collect(&mut lives, &mut result) => {}
            () = stdin_ends() => {}
        }
        ticker.abort();
        result.lasted = run.now().min(run.spec.duration);
        result.user_stalls = run.patience.longest();
        result.quic_bytes = run.ways.quic_bytes.load(Ordering::Relaxed);
        result.round();
        result.objects.sort_by(|a, b| a.start.total_cmp(&b.start));
        result.long.sort_by_key(|l| l.user);
        for bins in &mut result.bins {
            // What came in the instant of the end belongs to the last whole second.
            let whole = (run.spec.duration as usize).max(1);
            let late: u32 = bins.drain(whole.min(bins.len())..).sum();
            bins.resize(whole, 0);
            if let Some(last) = bins.last_mut() {
                *last += late;
            }
        }
        Ok(result)
    })
}

fn users(spec: &ClientSpec) -> u32 {
    spec.traffic.iter().map(Traffic::users).sum()
}

fn start(run: &Arc<Run>) -> JoinSet<Life> {
    let mut lives = JoinSet::new();
    let mut first = 0;
    for traffic in &run.spec.traffic {
        let (connections, what) = match traffic {
            Traffic::Objects { connections, think, size, .. } => (*connections, Some((think.secs(), size))),
            Traffic::Long { .. } => (1, None),
        };
        let transport = traffic.transport();
        for user in first..first + traffic.users() {
            for connection in 0..connections {
                let seed = run.spec.seed ^ (u64::from(user) << 32 | u64::from(connection) << 20);
                // fastrand mixes its seed; near seeds give unrelated streams.
                let rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let run = run.clone();
                match what {
                    Some((think, size)) => {
                        let who = Who { user, connection, transport };
                        lives.spawn(objects(run, who, think, size.clone(), rng))
                    }
                    None => lives.spawn(long(run, user, transport, rng)),
                };
            }
        }
        first += traffic.users();
    }
    lives
}

async fn collect(lives: &mut JoinSet<Life>, result: &mut ClientResult) {
    while let Some(life) = lives.join_next().await {
        // A life that panicked would be missing from the table: better none at all.
        let life = life.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()));
        result.objects.extend(life.objects);
        result.long.extend(life.long);
        let bins = &mut result.bins[life.user as usize];
        if bins.len() < life.bins.len() {
            bins.resize(life.bins.len(), 0);
        }
        for (sum, n) in bins.iter_mut().zip(life.bins) {
            *sum = sum.saturating_add(n);
        }
    }
}

async fn tick(run: Arc<Run>) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        say(&Say::<()>::Tick(Tick {
            at_s: run.now(),
            objects: run.objects.load(Ordering::Relaxed),
            bytes: run.bytes.load(Ordering::Relaxed),
        }));
    }
}

/// One connection of a user, and what it is made by.
struct Who {
    user: u32,
    connection: u32,
    transport: Transport,
}

/// One connection of a closed-loop user.
async fn objects(run: Arc<Run>, who: Who, think: f64, size: Size, mut rng: fastrand::Rng) -> Life {
    let Who { user, connection, transport } = who;
    let mut life = Life { user, ..Life::default() };
    pause(&run, rng.f64() * run.spec.jitter).await;
    while tokio::time::Instant::now() < run.end {
        // A larger one would not come to its end either.
        let size = u32::try_from(size.sample(&mut || rng.f64())).unwrap_or(u32::MAX);
        let start = run.now();
        let mut gap = Gap { last: start, connected: start, arrivals: Arrivals::default() };
        run.patience.begin(user, start);
        let mut object = ObjectRecord { user, connection, size, start, ..ObjectRecord::default() };
        let fetch = fetch(&run, transport, &mut life, &mut object, &mut gap);
        let whole = tokio::time::timeout_at(run.end, fetch).await;
        object.end = run.now();
        gap.catch_up(&run, &mut object);
        run.patience.end(user, object_end(&run));
        match whole {
            Ok(()) if !object.broken => {
                object.done = Some(object.end);
                run.objects.fetch_add(1, Ordering::Relaxed);
            }
            // What is cut off counts with the stall it had.
            _ => gap.note(&mut object, object_end(&run)),
        }
        life.objects.push(object);
        if think > 0.0 {
            pause(&run, -think * (1.0 - rng.f64()).ln()).await;
        }
    }
    life
}

fn object_end(run: &Run) -> f64 {
    run.now().min(run.spec.duration)
}

async fn pause(run: &Run, secs: f64) {
    tokio::time::sleep_until(run.end.min(tokio::time::Instant::now() + Duration::from_secs_f64(secs))).await;
}

/// Since when nothing has come.
struct Gap {
    last: f64,
    connected: f64,
    /// What came that nobody has read yet.
    arrivals: Arrivals,
}

impl Gap {
    fn note(&mut self, object: &mut ObjectRecord, now: f64) {
        object.stall = object.stall.max(now - self.last);
        if object.connected.is_some() {
            object.stall_connected = object.stall_connected.max(now - self.connected);
        }
        self.last = now;
        self.connected = now;
    }

    /// Notes what came over the socket, when it came. Of a handshake cut off by the end of the run nothing counts.
    fn catch_up(&mut self, run: &Run, object: &mut ObjectRecord) {
        let arrivals = self.arrivals.take();
        if object.connected.is_none() {
            return;
        }
        for instant in arrivals {
            let at = run.at(instant);
            run.patience.arrival(object.user, at);
            self.note(object, at);
        }
    }
}

/// Fetches one object, trying until a connection stands.
async fn fetch(run: &Run, transport: Transport, life: &mut Life, object: &mut ObjectRecord, gap: &mut Gap) {
    loop {
        let connect = run.ways.connect(object.user, transport, u64::from(object.size), &gap.arrivals);
        let Ok(mut stream) = connect.await else {
            gap.arrivals.take();
            object.refused += 1;
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let now = run.now();
        object.connected = Some(now);
        gap.connected = now;
        match receive(run, life, object, gap, &mut stream).await {
            Reply::Whole => return,
            Reply::Broken => {
                object.broken = true;
                return;
            }
            Reply::TurnedAway(wait) => {
                object.turned_away += 1;
                object.connected = None;
                tokio::time::sleep(wait).await;
            }
        }
    }
}

enum Reply {
    Whole,
    Broken,
    TurnedAway(Duration),
}

async fn receive(
    run: &Run,
    life: &mut Life,
    object: &mut ObjectRecord,
    gap: &mut Gap,
    stream: &mut Connection,
) -> Reply {
    let expected = HEADER + object.size as usize;
    let (mut got, mut head) = (0, Vec::with_capacity(HEADER));
    let mut buffer = Vec::with_capacity(32 * 1024);
    while got < expected {
        let Some(n) = stream.read(&mut buffer).await else {
            return if head.starts_with(b"HTTP/1.1 503") {
                Reply::TurnedAway(retry_after(&head))
            } else {
                Reply::Broken
            };
        };
        if head.len() < HEADER {
            head.extend_from_slice(&buffer[..n.min(HEADER - head.len())]);
        }
        gap.catch_up(run, object);
        let now = run.now();
        got += n;
        // A refusal ends no stall: the user still has nothing of the object.
        if !head.starts_with(b"HTTP/1.1 503") {
            object.first_byte.get_or_insert(now);
            gap.note(object, now);
            run.patience.arrival(object.user, now);
            life.receive(run, now, n);
        }
    }
    Reply::Whole
}

/// Seconds of `Retry-After` (RFC 9110, section 10.2.3), at most a minute; 5 if it is missing.
fn retry_after(head: &[u8]) -> Duration {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let secs = text
        .split("retry-after:")
        .nth(1)
        .and_then(|t| t.split("\r\n").next()?.trim().parse::<u64>().ok())
        .unwrap_or(5);
    Duration::from_secs(secs.min(60))
}

/// One flow that lasts the whole run; a broken one connects again.
async fn long(run: Arc<Run>, user: u32, transport: Transport, mut rng: fastrand::Rng) -> Life {
    let mut life = Life { user, ..Life::default() };
    pause(&run, rng.f64() * run.spec.jitter).await;
    let mut record = LongRecord { user, start: run.now(), ..LongRecord::default() };
    let mut last = record.start;
    run.patience.begin(user, last);
    // Runs into the end of the run by design.
    let _ = tokio::time::timeout_at(run.end, stay(&run, transport, &mut life, &mut record, &mut last)).await;
    run.patience.end(user, object_end(&run));
    note_stall(&mut record, last, object_end(&run), run.spec.warmup);
    life.long = Some(record);
    life
}

async fn stay(run: &Run, transport: Transport, life: &mut Life, record: &mut LongRecord, last: &mut f64) {
    let mut buffer = Vec::with_capacity(32 * 1024);
    let arrivals = Arrivals::default();
    loop {
        if let Ok(mut stream) = run.ways.connect(record.user, transport, 1 << 50, &arrivals).await {
            record.connected.get_or_insert(run.now());
            while let Some(n) = stream.read(&mut buffer).await {
                for at in arrivals.take().into_iter().map(|i| run.at(i)) {
                    run.patience.arrival(record.user, at);
                    note_stall(record, *last, at, run.spec.warmup);
                    *last = at;
                }
                let now = run.now();
                run.patience.arrival(record.user, now);
                life.receive(run, now, n);
                note_stall(record, *last, now, run.spec.warmup);
                *last = now;
            }
        }
        record.failures += 1;
        tokio::time::sleep(RETRY).await;
    }
}

/// Counts the part of a stall that lies after the warm-up.
fn note_stall(record: &mut LongRecord, from: f64, to: f64, warmup: f64) {
    record.stall = record.stall.max(to - from.max(warmup));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_an_address_of_its_own() {
        assert_eq!(user_address(0), Ipv4Addr::new(10, 77, 1, 1));
        assert_eq!(user_address(249), Ipv4Addr::new(10, 77, 1, 250));
        assert_eq!(user_address(250), Ipv4Addr::new(10, 77, 2, 1));
        assert_eq!(user_address(9_999), Ipv4Addr::new(10, 77, 40, 250));
    }

    #[test]
    fn silences_by_hand() {
        // Connected at 1 s, payload at 3 s and 4 s, cut off at 10 s.
        let mut o = ObjectRecord::default();
        let mut gap = Gap { last: 0.0, connected: 0.0, arrivals: Arrivals::default() };
        o.connected = Some(1.0);
        gap.connected = 1.0;
        gap.note(&mut o, 3.0);
        assert_eq!((o.stall, o.stall_connected), (3.0, 2.0));
        gap.note(&mut o, 4.0);
        gap.note(&mut o, 10.0);
        assert_eq!((o.stall, o.stall_connected), (6.0, 6.0));
        // A long flow silent from 15 s to 24 s with 20 s of warm-up: 4 s of it count.
        let mut l = LongRecord::default();
        note_stall(&mut l, 15.0, 24.0, 20.0);
        note_stall(&mut l, 10.0, 19.0, 20.0);
        assert_eq!(l.stall, 4.0);
    }

    #[test]
    fn waits_the_box_asks_for() {
        assert_eq!(retry_after(b"HTTP/1.1 503 x\r\nRetry-After: 7\r\n\r\n"), Duration::from_secs(7));
        assert_eq!(retry_after(b"HTTP/1.1 503 x\r\nretry-after: 9999\r\n"), Duration::from_secs(60));
        assert_eq!(retry_after(b"HTTP/1.1 503 x\r\n\r\n"), Duration::from_secs(5));
    }
}
