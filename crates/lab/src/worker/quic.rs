//! The server's QUIC: answers as the other server does, and counts what its stack did.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use quinn::{Connection, ConnectionStats, Endpoint, Incoming, RecvStream, SendStream};
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use super::application::Application;
use super::request::{REQUEST, header, wanted};
use super::secure::{QuicSettings, SECURE_PORT, server_quic};
use super::web::{WEB_PORT, over_quic};

/// Counts of the server's QUIC stack over all connections.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QuicCounters {
    /// Connections that shook hands.
    pub connections: u64,
    /// Handshakes that failed.
    pub failed: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets the sender believes lost.
    pub lost: u64,
    /// Times it reduced its window.
    pub congestion_events: u64,
    /// Probe timeouts (RFC 9002, section 6.2), handshakes included.
    pub ptos: u64,
    /// UDP payload sent, bytes.
    pub bytes: u64,
    /// Congestion windows in bytes, those of all connections once a second.
    pub cwnd: Vec<u32>,
}

/// The connections and what came of those that are gone.
#[derive(Debug, Default)]
struct Books {
    gone: QuicCounters,
    live: BTreeMap<usize, Connection>,
}

/// A server of QUIC.
pub(super) struct QuicServer {
    endpoint: Endpoint,
    /// Endpoint that speaks HTTP/3.
    web: Option<Endpoint>,
    books: Arc<Mutex<Books>>,
    ptos: Arc<AtomicU64>,
    application: Arc<Application>,
}

impl QuicServer {
    /// Listens on [`SECURE_PORT`]; counts the probe timeouts of this process from here on.
    pub(super) fn new(
        tls: rustls::ServerConfig,
        settings: &QuicSettings,
        application: Arc<Application>,
    ) -> anyhow::Result<Self> {
        let endpoint = listen(tls, settings, SECURE_PORT)?;
        let ptos = Arc::new(AtomicU64::new(0));
        // A second server in one process would count into the first one's.
        let _ = tracing::subscriber::set_global_default(PtoCounter(ptos.clone()));
        Ok(Self { endpoint, web: None, books: Arc::default(), ptos, application })
    }

    /// Listens on [`WEB_PORT`] too, for HTTP/3.
    pub(super) fn also_web(
        &mut self,
        tls: rustls::ServerConfig,
        settings: &QuicSettings,
    ) -> anyhow::Result<()> {
        self.web = Some(listen(tls, settings, WEB_PORT)?);
        Ok(())
    }

    /// Serves for ever.
    pub(super) async fn serve(&self) {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                incoming = self.endpoint.accept() => match incoming {
                    Some(incoming) => drop(tokio::spawn(self.connection(incoming, false))),
                    None => return,
                },
                incoming = accept(self.web.as_ref()) => match incoming {
                    Some(incoming) => drop(tokio::spawn(self.connection(incoming, true))),
                    None => return,
                },
                _ = second.tick() => {
                    let mut books = lock(&self.books);
                    let now: Vec<u32> = books.live.values().map(|c| c.stats().path.cwnd as u32).collect();
                    books.gone.cwnd.extend(now);
                }
            }
        }
    }

    /// Serves one connection.
    fn connection(&self, incoming: Incoming, web: bool) -> impl Future<Output = ()> + Send + 'static {
        connection(incoming, self.books.clone(), self.application.clone(), web)
    }

    /// Counts so far, live connections included.
    pub(super) fn counters(&self) -> QuicCounters {
        let books = lock(&self.books);
        let mut all = books.gone.clone();
        books.live.values().for_each(|c| all.add(&c.stats()));
        all.ptos = self.ptos.load(Ordering::Relaxed);
        all
    }
}

impl QuicCounters {
    fn add(&mut self, stats: &ConnectionStats) {
        self.sent += stats.path.sent_packets;
        self.lost += stats.path.lost_packets;
        self.congestion_events += stats.path.congestion_events;
        self.bytes += stats.udp_tx.bytes;
    }
}

fn lock(books: &Mutex<Books>) -> std::sync::MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(tls: rustls::ServerConfig, settings: &QuicSettings, port: u16) -> anyhow::Result<Endpoint> {
    let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    Endpoint::server(server_quic(tls, settings)?, at).with_context(|| format!("listen on UDP port {port}"))
}

/// The next connection that arrives; none does where nothing listens.
async fn accept(endpoint: Option<&Endpoint>) -> Option<Incoming> {
    match endpoint {
        Some(endpoint) => endpoint.accept().await,
        None => std::future::pending().await,
    }
}

async fn connection(incoming: Incoming, books: Arc<Mutex<Books>>, application: Arc<Application>, web: bool) {
    let peer = incoming.remote_address();
    let Ok(connection) = incoming.await else {
        lock(&books).gone.failed += 1;
        return;
    };
    let id = connection.stable_id();
    {
        let mut books = lock(&books);
        books.gone.connections += 1;
        books.live.insert(id, connection.clone());
    }
    // A user who went away is the user's own record.
    if web {
        let _ = over_quic(connection.clone(), peer, application).await;
        connection.closed().await;
    } else {
        while let Ok((send, receive)) = connection.accept_bi().await {
            tokio::spawn(answer(send, receive, peer, application.clone()));
        }
    }
    let mut books = lock(&books);
    books.live.remove(&id);
    books.gone.add(&connection.stats());
}

async fn answer(
    mut send: SendStream,
    mut receive: RecvStream,
    peer: SocketAddr,
    application: Arc<Application>,
) -> anyhow::Result<()> {
    let request = receive.read_to_end(REQUEST * 4).await?;
    let size = wanted(&request)?;
    let plan = application.plan();
    application.pause(peer, plan.before).await?;
    send.write_all(&header(size)).await?;
    application.pause(peer, plan.middle).await?;
    let chunk = [b'.'; 16 * 1024];
    let mut left = size;
    while left > 0 {
        let n = left.min(chunk.len() as u64) as usize;
        send.write_all(&chunk[..n]).await?;
        left -= n as u64;
    }
    send.finish()?;
    Ok(())
}

/// Counts quinn's word for a probe timeout; it has no counter for them.
struct PtoCounter(Arc<AtomicU64>);

struct IsPto(bool);

impl Visit for IsPto {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}") == "PTO fired";
    }
}

impl Subscriber for PtoCounter {
    fn register_callsite(&self, at: &'static Metadata<'static>) -> Interest {
        let from_quinn = at.target().starts_with("quinn_proto::connection") && *at.level() == Level::TRACE;
        let like_it =
            at.is_event() && at.fields().field("in_flight").is_some() && at.fields().field("space").is_some();
        if from_quinn && like_it { Interest::always() } else { Interest::never() }
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn event(&self, event: &Event<'_>) {
        let mut pto = IsPto(false);
        event.record(&mut pto);
        self.0.fetch_add(u64::from(pto.0), Ordering::Relaxed);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
