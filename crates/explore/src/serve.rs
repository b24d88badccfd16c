//! The page over HTTP for browsers of this machine, with the simulator behind it.
//!
//! A question whose reader has gone away is stopped, so that questions do not pile up while somebody drags.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use crate::files::{ENGINE, FILES, kind};

/// Longest question, bytes.
const LONGEST: usize = 1 << 16;
/// Connections at a time; a browser has six.
const CONNECTIONS: usize = 64;
/// Time that a reader may take to ask.
const ASKING: Duration = Duration::from_secs(10);

/// Content security policy: a browser loads files of this program only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
                      img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Opens the page's socket on this machine's own address.
///
/// # Errors
/// If the port is taken.
pub fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).with_context(|| {
        format!("cannot serve the page at {address}: choose another with --port, 0 for any")
    })?;
    listener.set_nonblocking(true).context("the page's socket")?;
    Ok(listener)
}

/// Answers for as long as the program lives, with at most `jobs` simulations at a time.
///
/// # Errors
/// If the kernel has no thread or descriptor left.
pub fn serve(listener: TcpListener, jobs: usize) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(jobs)
        .thread_name("explore")
        .build()
        .context("the page")?;
    runtime.block_on(accept(listener, jobs))
}

async fn accept(listener: TcpListener, jobs: usize) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener).context("the page's socket")?;
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let cores = Arc::new(Semaphore::new(jobs));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is left: some will be.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let cores = cores.clone();
        tokio::spawn(async move {
            let connection =
                http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(ASKING).serve_connection(
                    TokioIo::new(stream),
                    service_fn(|request| respond(request, cores.clone())),
                );
            // A reader that goes away early is no concern of ours.
            let _ = connection.await;
            drop(place);
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    cores: Arc<Semaphore>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (code, kind, body) = answered(request, &cores).await;
    let response = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, kind)
        .header("Cache-Control", "no-store")
        .header("X-Content-Type-Options", "nosniff")
        .header("Content-Security-Policy", POLICY)
        .body(Full::new(body));
    Ok(response.unwrap_or_default())
}

type Answer = (StatusCode, &'static str, Bytes);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

async fn answered(request: Request<Incoming>, cores: &Semaphore) -> Answer {
    let refused = |code, why: &'static str| (code, TEXT, Bytes::from_static(why.as_bytes()));
    // A page of elsewhere whose name was made to lead here, or a form of elsewhere, is not answered.
    if !is_ours(request.headers()) {
        return refused(StatusCode::FORBIDDEN, "expected to be asked as localhost\n");
    }
    let path = request.uri().path();
    if request.method() == Method::POST && path == "/ask" {
        let json = request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == JSON.as_bytes());
        if !json {
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json\n");
        }
        let Ok(body) = Limited::new(request.into_body(), LONGEST).collect().await else {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "expected a question of at most 64 KiB\n");
        };
        let question = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        return (StatusCode::OK, JSON, Bytes::from(simulated(question, cores).await));
    }
    if request.method() != Method::GET {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "expected GET\n");
    }
    let name = match path {
        "/" => "index.html",
        path => &path[1..],
    };
    if name == ENGINE {
        return (StatusCode::OK, JSON, Bytes::from_static(br#"{"engine":"native"}"#));
    }
    match FILES.iter().find(|(file, _)| *file == name) {
        Some((file, text)) => (StatusCode::OK, kind(file), Bytes::from_static(text.as_bytes())),
        None => refused(StatusCode::NOT_FOUND, "no such file\n"),
    }
}

/// Whether a request names this machine by the machine's own address.
fn is_ours(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["localhost", "127.0.0.1"].contains(&name)
}

/// Stops a simulation for which nobody waits any more.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn simulated(question: String, cores: &Semaphore) -> String {
    let stop = Arc::new(AtomicBool::new(false));
    let wanted = Wanted(stop.clone());
    // The semaphore is never closed.
    let _core = cores.acquire().await;
    let work = move || {
        crate::answer(&question, &mut |_| {
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    };
    let answer = tokio::task::spawn_blocking(work).await;
    drop(wanted);
    answer.unwrap_or_else(|_| {
        r#"{"problems":[{"field":"","says":"the simulator broke: please report this link"}]}"#.to_owned()
    })
}
