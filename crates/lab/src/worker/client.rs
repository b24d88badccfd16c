//! The users: closed loops of objects over new connections, and flows that last the whole run.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use super::browser::{Browser, BrowserSpec, browse};
use super::calls::Caller;
use super::connection::Ways;
use super::fetch::{Who, objects};
use super::long::long;
use super::meter::{Gauge, Meter};
use super::pages::{Reader, pages};
use super::patience::Patience;
use super::record::{ClientResult, LongRecord, ObjectRecord, PageRecord, VisitRecord};
use super::secure::QuicSettings;
use super::server::{congestion_control, stdin_ends};
use super::visits::{Open, Visitor, come, finished};
use super::{Say, Tick, say};
use crate::scenario::{Calls, Traffic};

/// Pause of a user after a connection attempt that failed outright.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// Interface of the thin link in the users' namespace.
pub(super) const INTERFACE: &str = "cli0";

/// Settings of the users.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientSpec {
    /// Address of the server.
    pub server: SocketAddr,
    /// Congestion control of the requests.
    pub congestion_control: String,
    /// Window scales of TCP, given to users in turn; empty: the kernel's own.
    pub window_scales: Vec<u8>,
    /// Settings of QUIC's senders.
    pub quic: QuicSettings,
    /// Decides sizes, start times and pauses.
    pub seed: u64,
    /// Seconds of load.
    pub duration: f64,
    /// Seconds not counted in a long flow's stall.
    pub warmup: f64,
    /// Seconds within which users start.
    pub jitter: f64,
    /// Seconds there and back without a queue.
    pub rtt: f64,
    /// Largest IP packet.
    pub mtu: u32,
    /// Bytes of link layer per packet.
    pub overhead: u32,
    /// Settings of the browsers; `None` if there are none.
    pub browser: Option<BrowserSpec>,
    /// Groups of users and flows.
    pub traffic: Vec<Traffic>,
    /// Calls to make.
    pub calls: Vec<Calls>,
}

/// The address of a user.
#[must_use]
pub fn user_address(user: u32) -> Ipv4Addr {
    let [_, _, high, low] = (user / 250 * 256 + user % 250 + 257).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

/// Number of the user who has an address; `None` if no user has it.
pub(super) fn user_at(address: Ipv4Addr) -> Option<u32> {
    let [10, 77, high, low] = address.octets() else { return None };
    let n = (u32::from(high) * 256 + u32::from(low)).checked_sub(257)?;
    Some(n / 256 * 250 + n % 256).filter(|user| user_address(*user) == address)
}

/// The load, as all its parts know it.
pub(super) struct Run {
    pub(super) spec: ClientSpec,
    begin: Instant,
    pub(super) end: tokio::time::Instant,
    pub(super) ways: Ways,
    pub(super) patience: Patience,
    pub(super) objects: AtomicU64,
    bytes: AtomicU64,
}

impl Run {
    /// Seconds since the load began.
    pub(super) fn now(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// Whether the load has ended.
    pub(super) fn over(&self) -> bool {
        tokio::time::Instant::now() >= self.end
    }

    /// Seconds from the beginning of the load to `instant`; 0 for earlier ones.
    pub(super) fn at(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.begin).as_secs_f64()
    }
}

/// Records of one connection's life.
#[derive(Default)]
pub(super) struct Life {
    pub(super) user: u32,
    pub(super) objects: Vec<ObjectRecord>,
    pub(super) long: Option<LongRecord>,
    pub(super) pages: Vec<PageRecord>,
    pub(super) visit: Option<VisitRecord>,
    pub(super) bins: Vec<u32>,
}

impl Life {
    /// Counts payload.
    pub(super) fn receive(&mut self, run: &Run, now: f64, bytes: usize) {
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
            ways: Ways::new(spec.server, spec.congestion_control.clone(), &spec.quic, None)?
                .with_window_scales(spec.window_scales.clone()),
            patience: Patience::new(users(&spec), spec.warmup),
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            spec,
        });
        let meter = Meter::start(Gauge {
            interface: INTERFACE,
            overhead: run.spec.overhead,
            groups: run.spec.traffic.iter().map(Traffic::users).collect(),
            begin,
        })?;
        say(&Say::<()>::Ready);
        let mut lives = start(&run);
        let caller = caller(&run)?;
        let ticker = tokio::spawn(tick(run.clone()));
        let mut result =
            ClientResult { bins: vec![Vec::new(); users(&run.spec) as usize], ..ClientResult::default() };
        tokio::select! {
            () = collect(&mut lives, &mut result) => {}
            () = stdin_ends() => {}
        }
        ticker.abort();
        result.calls = caller.map(Caller::finish);
        result.link = meter.bins(whole(&run.spec));
        result.lasted = run.now().min(run.spec.duration);
        let stalls = run.patience.longest().into_iter().zip(run.patience.addresses());
        let nobodies = nobodies(&run.spec);
        (result.user_stalls, result.addresses) =
            (0..).zip(stalls).filter(|(person, _)| !nobodies.contains(person)).map(|(_, s)| s).unzip();
        result.visits.sort_by_key(|v| v.visitor);
        result.quic_bytes = run.ways.quic_bytes.load(Ordering::Relaxed);
        result.round();
        result.objects.sort_by(|a, b| a.start.total_cmp(&b.start));
        result.pages.sort_by(|a, b| a.start.total_cmp(&b.start));
        result.long.sort_by_key(|l| l.user);
        for bins in &mut result.bins {
            // Payload that came at the instant of the end belongs to the last whole second.
            let whole = whole(&run.spec);
            let late: u32 = bins.drain(whole.min(bins.len())..).sum();
            bins.resize(whole, 0);
            if let Some(last) = bins.last_mut() {
                *last += late;
            }
        }
        Ok(result)
    })
}

/// Numbers that no user has, because arriving users have numbers of their own.
fn nobodies(spec: &ClientSpec) -> BTreeSet<u32> {
    let mut first = 0;
    let mut all = BTreeSet::new();
    for traffic in &spec.traffic {
        if traffic.visits().is_some() {
            all.extend(first..first + traffic.users());
        }
        first += traffic.users();
    }
    all
}

/// Whole seconds of load.
fn whole(spec: &ClientSpec) -> usize {
    (spec.duration as usize).max(1)
}

/// Addresses all groups take.
pub(super) fn users(spec: &ClientSpec) -> u32 {
    spec.traffic.iter().map(Traffic::users).sum()
}

/// The draws of one connection of a user; fastrand mixes its seed, and near seeds give unrelated streams.
pub(super) fn rng(seed: u64, user: u32, connection: u32) -> fastrand::Rng {
    let seed = seed ^ (u64::from(user) << 32 | u64::from(connection) << 20);
    fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Begins the calls, if there are any.
fn caller(run: &Run) -> anyhow::Result<Option<Caller>> {
    let SocketAddr::V4(server) = run.spec.server else { return Ok(None) };
    let times = [run.spec.jitter, run.spec.duration].map(Duration::from_secs_f64);
    let caller = || Caller::users(&run.spec.calls, *server.ip(), run.spec.seed, times);
    (!run.spec.calls.is_empty()).then(caller).transpose()
}

fn start(run: &Arc<Run>) -> JoinSet<Vec<Life>> {
    let mut lives = JoinSet::new();
    if !run.spec.calls.is_empty() {
        // Calls last as long as the load does, whatever else there is.
        let end = run.end;
        lives.spawn(async move {
            tokio::time::sleep_until(end).await;
            Vec::new()
        });
    }
    let mut first = 0;
    for traffic in &run.spec.traffic {
        let users = traffic.users();
        match traffic.visits() {
            Some(visits) => {
                let open = Open { first, users, visits };
                let traffic = traffic.clone();
                let live = move |lives: &mut JoinSet<_>, run: &Arc<Run>, visitor, seed| {
                    live(lives, run, &traffic, visitor, seed);
                };
                lives.spawn(come(run.clone(), open, live));
            }
            None => {
                for user in first..first + users {
                    live(&mut lives, run, traffic, Visitor { user, person: user }, run.spec.seed);
                }
            }
        }
        first += users;
    }
    lives
}

/// Starts what one user does.
fn live(lives: &mut JoinSet<Vec<Life>>, run: &Arc<Run>, traffic: &Traffic, visitor: Visitor, seed: u64) {
    let Visitor { user, person } = visitor;
    let (transport, most) = (traffic.transport(), traffic.visits().map(|v| v.fetches));
    match traffic {
        Traffic::Objects { connections, think, size, .. } => {
            for connection in 0..*connections {
                let who = Who { user, visitor: person, connection, transport, most };
                let life = objects(run.clone(), who, think.secs(), size.clone(), rng(seed, user, connection));
                lives.spawn(async { vec![life.await] });
            }
        }
        Traffic::Pages { connections, page, think, http, .. } => {
            let reader =
                Reader { visitor, http: *http, connections: *connections, think: think.secs(), most };
            let life = pages(run.clone(), reader, page.clone(), rng(seed, user, 0));
            lives.spawn(async { vec![life.await] });
        }
        Traffic::Browser { page, think, http, .. } => {
            let number = run.spec.traffic.iter().scan(0, |first, t| Some(browsers(t, first, user))).sum();
            let browser = Browser { user, number, http: *http, page: page.clone(), think: think.secs() };
            let life = browse(run.clone(), browser, rng(seed, user, 0));
            lives.spawn(async { vec![life.await] });
        }
        Traffic::Long { .. } => {
            let life = long(run.clone(), user, transport, rng(seed, user, 0));
            lives.spawn(async { vec![life.await] });
        }
    }
}

/// Number of browsers of a group, whose first user is `first`, that come before `user`.
fn browsers(traffic: &Traffic, first: &mut u32, user: u32) -> u32 {
    let group = *first..*first + traffic.users();
    *first = group.end;
    if matches!(traffic, Traffic::Browser { .. }) {
        user.clamp(group.start, group.end) - group.start
    } else {
        0
    }
}

async fn collect(lives: &mut JoinSet<Vec<Life>>, result: &mut ClientResult) {
    while let Some(done) = lives.join_next().await {
        for life in finished(done) {
            result.objects.extend(life.objects);
            result.long.extend(life.long);
            result.pages.extend(life.pages);
            result.visits.extend(life.visit);
            let bins = &mut result.bins[life.user as usize];
            if bins.len() < life.bins.len() {
                bins.resize(life.bins.len(), 0);
            }
            for (sum, n) in bins.iter_mut().zip(life.bins) {
                *sum = sum.saturating_add(n);
            }
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

/// Now, or the end of the load if that is over.
pub(super) fn object_end(run: &Run) -> f64 {
    run.now().min(run.spec.duration)
}

/// Waits, at most to the end of the load.
pub(super) async fn pause(run: &Run, secs: f64) {
    tokio::time::sleep_until(run.end.min(tokio::time::Instant::now() + Duration::from_secs_f64(secs))).await;
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
        assert!([0, 249, 250, 9_999].into_iter().all(|u| user_at(user_address(u)) == Some(u)));
        assert_eq!(user_at(Ipv4Addr::new(10, 77, 1, 251)), None);
        assert_eq!(user_at(Ipv4Addr::new(10, 78, 1, 2)), None);
    }
}
