//! The users: closed loops of objects over new connections, and flows that last the whole run.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use super::browser::Browsers;
use super::calls::Caller;
use super::congestion_control::congestion_control;
use super::fetch::{Who, objects};
use super::load::{ClientSpec, Life, Run, users};
use super::long::long;
use super::meter::{Gauge, Meter};
use super::pages::{Reader, pages};
use super::record::ClientResult;
use super::uploads::upload;
use super::user::{rng, user_address};
use super::visits::{Open, Visitor, come, finished};
use super::{Say, say, stdin_ends};
use crate::scenario::Traffic;

/// Interface of the thin link in the users' namespace.
pub(super) const INTERFACE: &str = "cli0";

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
        let browsers = Browsers::start(&spec).await?;
        let begin = Instant::now();
        let run = Arc::new(Run::new(spec, begin)?);
        let meter = Meter::start(Gauge {
            interface: INTERFACE,
            overhead: run.spec.overhead,
            groups: run.spec.traffic.iter().map(Traffic::users).collect(),
            begin,
        })?;
        say(&Say::<()>::Ready);
        let mut lives = start(&run);
        browsers.browse(&run, &mut lives);
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

/// Numbers that no user has, because arriving users have numbers of their own, and those of users who wait for nothing,
/// because they send.
fn nobodies(spec: &ClientSpec) -> BTreeSet<u32> {
    let waits = |group: &Traffic| group.visits().is_none() && !group.sends();
    Traffic::groups(&spec.traffic).filter(|(_, group)| !waits(group)).flat_map(|(users, _)| users).collect()
}

/// Whole seconds of load.
fn whole(spec: &ClientSpec) -> usize {
    (spec.duration as usize).max(1)
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
    for (users, traffic) in Traffic::groups(&run.spec.traffic) {
        match traffic.visits() {
            Some(visits) => {
                let open = Open { first: users.start, users: traffic.users(), visits };
                let traffic = traffic.clone();
                let live = move |lives: &mut JoinSet<_>, run: &Arc<Run>, visitor, seed| {
                    live(lives, run, &traffic, visitor, seed);
                };
                lives.spawn(come(run.clone(), open, live));
            }
            None => {
                for user in users {
                    live(&mut lives, run, traffic, Visitor { user, person: user }, run.spec.seed);
                }
            }
        }
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
        // `Browsers` have all begun together.
        Traffic::Browser { .. } => {}
        Traffic::Long { up: true, .. } => {
            let life = upload(run.clone(), user, rng(seed, user, 0));
            lives.spawn(async { vec![life.await] });
        }
        Traffic::Long { .. } => {
            let life = long(run.clone(), user, transport, rng(seed, user, 0));
            lives.spawn(async { vec![life.await] });
        }
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
        say(&Say::<()>::Tick(run.progress()));
    }
}
