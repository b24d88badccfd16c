//! Pages over HTTP: what the box does now, and for a user who waits, the position in the wait queue; a dashboard of the
//! last hour; metrics for Prometheus.
//!
//! A reader on this machine sees everything. Any other sees what concerns it: whether the link is full, and its own
//! place; other people's addresses are none of its business.

mod history;
mod metrics;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use narrows_users::User;
use tokio::sync::Semaphore;

use super::control::StatusPublisher;
use super::privilege;
use super::sight::StallJson;
use super::status::Status;

use self::history::History;

const PAGE: &str = include_str!("page.html");
const DASHBOARD: &str = include_str!("page/dashboard.html");
const STYLE: &str = include_str!("page/dashboard.css");
const SCRIPT: &str = include_str!("page/dashboard.js");
const PARTS: &str = include_str!("../../../web/parts.js");
const PARTS_STYLE: &str = include_str!("../../../web/parts.css");

/// Readers of other machines at a time. One more is turned away.
const READERS: usize = 64;
/// Readers of this machine at a time, who have places of their own: monitors of the box are among them.
const READERS_HERE: usize = 64;
/// Time that a reader may take to ask.
const ASKING: Duration = Duration::from_secs(5);
/// Longest time of a connection.
const CONNECTION: Duration = Duration::from_secs(30);
/// Threads that wait for the engine's answer.
const WAITING: usize = 4;

/// Policy of the pages: a browser loads what the box itself serves, and nothing else. The first page has its style and
/// script in it.
const POLICY: &str = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'";

/// Opens the page's socket.
///
/// # Errors
/// If the address cannot be bound.
pub fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .with_context(|| format!("cannot serve the status page at {address}: choose another with --page"))?;
    listener.set_nonblocking(true).context("the status page's socket")?;
    Ok(listener)
}

/// Answers readers for as long as the program lives, in a thread that may do nothing else.
///
/// # Errors
/// If the kernel has no thread or descriptor left.
pub fn serve(listener: TcpListener, publisher: Arc<StatusPublisher>) -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().name("page".into());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WAITING)
        .thread_name("page")
        .on_thread_start(|| privilege::give_up_all(None))
        .build()
        .context("the status page")?;
    let serving = move || {
        privilege::give_up_all(None);
        runtime.block_on(accept(listener, publisher));
    };
    thread.spawn(serving).context("the status page's thread").map(drop)
}

async fn accept(listener: TcpListener, publisher: Arc<StatusPublisher>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let [others, here] = [READERS, READERS_HERE].map(|places| Arc::new(Semaphore::new(places)));
    let history = Arc::new(History::default());
    tokio::spawn(remember(publisher.clone(), history.clone()));
    loop {
        let Ok((stream, reader)) = listener.accept().await else {
            // No descriptor is left: some will be.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let places = if reader.ip().to_canonical().is_loopback() { &here } else { &others };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let source = Source { publisher: publisher.clone(), history: history.clone() };
        tokio::spawn(async move {
            let answer = |request| answer(request, reader.ip(), source.clone());
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(ASKING)
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            // A reader that goes away early is no concern of ours.
            let _ = tokio::time::timeout(CONNECTION, connection).await;
            drop(place);
        });
    }
}

/// Source of answers.
#[derive(Clone)]
struct Source {
    publisher: Arc<StatusPublisher>,
    history: Arc<History>,
}

impl Source {
    async fn status(&self) -> Option<Arc<str>> {
        let publisher = self.publisher.clone();
        tokio::task::spawn_blocking(move || publisher.ask()).await.ok().flatten()
    }

    /// Metrics, with users if the reader sees `all`.
    async fn metrics(&self, all: bool) -> Option<String> {
        let mut status: Status = serde_json::from_str(&self.status().await?).ok()?;
        if !all {
            status.each_mut().iter_mut().for_each(|link| link.sight.talkers.clear());
        }
        Some(metrics::render(status))
    }
}

/// Samples the status again and again, so that the last hour is kept.
async fn remember(publisher: Arc<StatusPublisher>, history: Arc<History>) {
    let source = Source { publisher, history };
    let mut pace = tokio::time::interval(history::PACE);
    loop {
        pace.tick().await;
        if let Some(status) = source.status().await.and_then(|text| serde_json::from_str(&text).ok()) {
            source.history.take(&status);
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    reader: IpAddr,
    source: Source,
) -> Result<Response<Full<Bytes>>, Infallible> {
    const JSON: &str = "application/json";
    const TEXT: &str = "text/plain; charset=utf-8";
    let all = sees_all(reader, request.headers());
    let status = || source.status();
    let silent = || r#"{"error":"the box does not answer"}"#.to_owned();
    let (code, kind, body) = match request.uri().path() {
        "/" | "/index.html" => (200, "text/html; charset=utf-8", PAGE.to_owned()),
        "/dashboard" => (200, "text/html; charset=utf-8", DASHBOARD.to_owned()),
        "/dashboard.css" => (200, "text/css; charset=utf-8", STYLE.to_owned()),
        "/dashboard.js" => (200, "text/javascript; charset=utf-8", SCRIPT.to_owned()),
        "/parts.css" => (200, "text/css; charset=utf-8", PARTS_STYLE.to_owned()),
        "/parts.js" => (200, "text/javascript; charset=utf-8", PARTS.to_owned()),
        "/history.json" => {
            let shown = |stall: &StallJson| all || is_theirs(&stall.user, reader.to_canonical());
            let (link, since) = asked(request.uri().query());
            (200, JSON, source.history.since(link.as_deref(), since, shown))
        }
        "/metrics" => match source.metrics(all).await {
            Some(text) => (200, metrics::CONTENT_TYPE, text),
            None => (503, TEXT, "the box does not answer\n".to_owned()),
        },
        "/status.json" => match status().await {
            Some(text) if all => (200, JSON, text.to_string()),
            Some(text) => (200, JSON, for_reader(&text, reader)),
            None => (503, JSON, silent()),
        },
        "/health" => match status().await {
            Some(_) => (200, TEXT, "the box answers\n".to_owned()),
            None => (503, TEXT, "the box does not answer\n".to_owned()),
        },
        "/ready" => match status().await.map(|text| missing(&text)) {
            Some(None) => (200, TEXT, "packets are handled\n".to_owned()),
            Some(Some(what)) => (503, TEXT, what + "\n"),
            None => (503, TEXT, "the box does not answer\n".to_owned()),
        },
        _ => (404, TEXT, "expected /, /dashboard, /status.json, /metrics, /health or /ready\n".to_owned()),
    };
    let response = Response::builder()
        .status(code)
        .header("Content-Type", kind)
        .header("Cache-Control", "no-store")
        .header("X-Frame-Options", "DENY")
        .header("Content-Security-Policy", POLICY)
        .body(Full::new(Bytes::from(body)));
    Ok(response.unwrap_or_default())
}

/// Link and time from which on history is asked for: `link=north&since=12.5`.
fn asked(query: Option<&str>) -> (Option<String>, f64) {
    let value = |key: &str| {
        let pairs = query.unwrap_or_default().split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    (value("link").map(str::to_owned), value("since").and_then(|text| text.parse().ok()).unwrap_or(f64::MIN))
}

/// Whether a reader sees everything: it sits at this machine. Not if a proxy speaks for others, nor by a name, which
/// could be a stranger's that points here (DNS rebinding).
fn sees_all(reader: IpAddr, headers: &HeaderMap) -> bool {
    let forwarded = ["forwarded", "x-forwarded-for", "via"].iter().any(|name| headers.contains_key(*name));
    let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let literal = host.parse::<IpAddr>().is_ok() || host.parse::<SocketAddr>().is_ok();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    reader.to_canonical().is_loopback() && !forwarded && (literal || name == "localhost")
}

/// The interface that is missing, or the link that is not handled, if there is one.
fn missing(text: &str) -> Option<String> {
    let status: Status = serde_json::from_str(text).unwrap_or_default();
    let links = status.each().iter().flat_map(|link| &link.notices);
    let mut all = status.notices.iter().chain(links);
    all.find(|notice| ["interface ", "link "].iter().any(|what| notice.starts_with(what))).cloned()
}

/// Status for a reader with limited view: totals, and its own place in the queue.
fn for_reader(text: &str, reader: IpAddr) -> String {
    let Ok(mut status) = serde_json::from_str::<Status>(text) else { return "{}".to_owned() };
    for link in status.each_mut() {
        for direction in [&mut link.down, &mut link.up] {
            if let Some(admission) = &mut direction.report.admission {
                admission.queue.retain(|p| is_theirs(&p.pool, reader.to_canonical()));
            }
        }
        link.notices.clear();
        let theirs = |user: &str| is_theirs(user, reader.to_canonical());
        link.sight.users.retain(|u| theirs(&u.user));
        link.sight.talkers.retain(|t| theirs(&t.user));
        link.sight.stalls_now.retain(|s| theirs(&s.user));
        link.sight.stalls_last.retain(|s| theirs(&s.user));
    }
    status.notices.clear();
    serde_json::to_string(&status).unwrap_or_default()
}

/// Whether a pool is the reader's: its address, or its IPv6 prefix of 64 bits.
fn is_theirs(pool: &str, reader: IpAddr) -> bool {
    [128, 64].iter().any(|bits| User::of(reader, *bits).to_string() == pool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_qdisc::{AdmissionReport, WaitingPool};
    use narrows_units::Duration;

    #[test]
    fn a_user_sees_its_own_place_and_nobody_elses() {
        let mut status = Status::default();
        let place = |n: u8| WaitingPool {
            pool: format!("10.0.0.{n}"),
            position: n.into(),
            waited: Duration::from_secs(1),
            expected: None,
        };
        status.down.report.admission = Some(AdmissionReport {
            waiting: 3,
            queue: (1..=3).map(place).collect(),
            ..AdmissionReport::default()
        });
        let text = serde_json::to_string(&status).unwrap();
        let seen = |reader: &str| {
            let s: Status = serde_json::from_str(&for_reader(&text, reader.parse().unwrap())).unwrap();
            let admission = s.down.report.admission.unwrap();
            (admission.waiting, admission.queue.iter().map(|p| p.position).collect::<Vec<_>>())
        };
        assert_eq!(seen("::ffff:10.0.0.2"), (3, vec![2]));
        assert_eq!(seen("10.0.0.9"), (3, vec![]));
        assert_eq!(seen("127.0.0.1"), (3, vec![]), "through a proxy");
    }

    #[test]
    fn nobody_sees_whose_stalls_others_are() {
        let mut status = Status::default();
        let stall = |user: &str| StallJson { user: user.to_owned(), ..StallJson::default() };
        status.sight.stalls_now = vec![stall("10.0.0.1"), stall("10.0.0.2")];
        status.sight.stalls_last = vec![stall("10.0.0.1")];
        status.sight.users = vec![crate::UserJson { user: "10.0.0.1".into(), ..Default::default() }];
        let text = serde_json::to_string(&status).unwrap();
        let seen: Status = serde_json::from_str(&for_reader(&text, "10.0.0.2".parse().unwrap())).unwrap();
        assert_eq!(seen.sight.stalls_now, [stall("10.0.0.2")]);
        assert_eq!((seen.sight.stalls_last.len(), seen.sight.users.len()), (0, 0));
        let links = vec![Status { name: Some("north".into()), ..status }];
        let text = serde_json::to_string(&Status { links, ..Status::default() }).unwrap();
        let seen: Status = serde_json::from_str(&for_reader(&text, "10.0.0.2".parse().unwrap())).unwrap();
        assert_eq!((seen.links[0].sight.stalls_now.len(), seen.links[0].sight.users.len()), (1, 0));
    }

    #[test]
    fn history_is_asked_for_by_link_and_time() {
        assert_eq!(asked(Some("a=1&since=12.5&link=north")), (Some("north".to_owned()), 12.5));
        assert_eq!(asked(Some("since=x")), (None, f64::MIN));
        assert_eq!(asked(None), (None, f64::MIN));
    }

    #[test]
    fn who_sees_all() {
        let sees = |reader: &str, headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect();
            sees_all(reader.parse().unwrap(), &headers)
        };
        for host in ["127.0.0.1:8088", "localhost:8088", "localhost", "[::1]:8088", "127.0.0.1"] {
            assert!(sees("127.0.0.1", &[("host", host)]), "{host}");
        }
        assert!(!sees("10.0.0.2", &[("host", "127.0.0.1:8088")]), "from another machine");
        assert!(!sees("127.0.0.1", &[("host", "stranger.example:8088")]), "a name that points here");
        assert!(!sees("127.0.0.1", &[]));
        assert!(!sees("127.0.0.1", &[("host", "localhost"), ("x-forwarded-for", "10.0.0.2")]), "a proxy");
    }
}
