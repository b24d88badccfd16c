//! The server's QUIC: answers as the other server does, and counts what its stack did.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use quinn::{
    Connecting, Connection, ConnectionError, ConnectionStats, Endpoint, Incoming, RecvStream, SendStream,
};
use serde::{Deserialize, Serialize};

use super::application::Application;
use super::qlog::{QuicLogs, QuinnListener};
use super::request::{REQUEST, header, wanted};
use super::secure::{QuicSettings, SECURE_PORT, server_quic};
use super::web::{WEB_PORT, over_quic};

/// Time between two looks at the windows of connections that are logged.
const LOOK: Duration = Duration::from_millis(100);

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
    /// Number of times that a sender reduced its congestion window.
    pub congestion_events: u64,
    /// Probe timeouts (RFC 9002, section 6.2), handshakes included.
    pub ptos: u64,
    /// UDP payload sent, bytes.
    pub bytes: u64,
    /// Congestion windows in bytes, one sample of each connection a second.
    pub cwnd: Vec<u32>,
}

/// Live connections, and the counters of closed ones.
#[derive(Debug, Default)]
struct Books {
    gone: QuicCounters,
    /// Live connections, each with the index of its log.
    live: BTreeMap<usize, (Connection, Option<usize>)>,
}

/// A server of QUIC.
pub(super) struct QuicServer {
    endpoint: Endpoint,
    /// Endpoint that speaks HTTP/3.
    web: Option<Endpoint>,
    books: Arc<Mutex<Books>>,
    ptos: Arc<AtomicU64>,
    logs: Option<Arc<QuicLogs>>,
    application: Arc<Application>,
}

impl QuicServer {
    /// Listens on [`SECURE_PORT`]; counts the probe timeouts of this process from here on, and logs the first `qlog`
    /// connections.
    pub(super) fn new(
        tls: rustls::ServerConfig,
        settings: &QuicSettings,
        qlog: usize,
        application: Arc<Application>,
    ) -> anyhow::Result<Self> {
        let endpoint = listen(tls, settings, SECURE_PORT)?;
        let ptos = Arc::new(AtomicU64::new(0));
        let logs = (qlog > 0).then(|| Arc::new(QuicLogs::new(qlog)));
        // A second server in one process would count into the first one's.
        QuinnListener::start(ptos.clone(), logs.clone());
        Ok(Self { endpoint, web: None, books: Arc::default(), ptos, logs, application })
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
        let mut look = tokio::time::interval(LOOK);
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
                    let now: Vec<u32> = books.live.values().map(|(c, _)| c.stats().path.cwnd as u32).collect();
                    books.gone.cwnd.extend(now);
                }
                _ = look.tick(), if self.logs.is_some() => self.look(),
            }
        }
    }

    /// Serves one connection.
    fn connection(&self, incoming: Incoming, web: bool) -> impl Future<Output = ()> + Send + 'static {
        let peer = incoming.remote_address();
        let port = if web { WEB_PORT } else { SECURE_PORT };
        let local = SocketAddr::new(incoming.local_ip().unwrap_or(Ipv4Addr::UNSPECIFIED.into()), port);
        let (accepted, log) = match &self.logs {
            Some(logs) => logs.accepting([local, peer], || incoming.accept()),
            None => (incoming.accept(), None),
        };
        let user = User { peer, log, web };
        connection(accepted, user, self.books.clone(), self.application.clone())
    }

    /// Writes the state of each live connection to the connection's log.
    fn look(&self) {
        let Some(logs) = &self.logs else { return };
        for (connection, log) in lock(&self.books).live.values() {
            if let Some(log) = log {
                logs.look(*log, &connection.stats());
            }
        }
    }

    /// Writes the logs of connections to `file`, if logs are wanted.
    pub(super) fn write_logs(&self, file: &Path) -> anyhow::Result<()> {
        self.logs.as_ref().map_or(Ok(()), |logs| logs.write(file))
    }

    /// Counts so far, live connections included.
    pub(super) fn counters(&self) -> QuicCounters {
        let books = lock(&self.books);
        let mut all = books.gone.clone();
        books.live.values().for_each(|(c, _)| all.add(&c.stats()));
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

/// Other end of a connection.
#[derive(Clone, Copy, Debug)]
struct User {
    peer: SocketAddr,
    /// Place of the connection's log.
    log: Option<usize>,
    /// Whether the connection speaks HTTP/3.
    web: bool,
}

async fn connection(
    accepted: Result<Connecting, ConnectionError>,
    user: User,
    books: Arc<Mutex<Books>>,
    application: Arc<Application>,
) {
    let User { peer, log, web } = user;
    let established = match accepted {
        Ok(connecting) => connecting.await,
        Err(why) => Err(why),
    };
    let Ok(connection) = established else {
        lock(&books).gone.failed += 1;
        return;
    };
    let id = connection.stable_id();
    {
        let mut books = lock(&books);
        books.gone.connections += 1;
        books.live.insert(id, (connection.clone(), log));
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
