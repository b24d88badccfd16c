//! The server: answers `GET /BYTES` with 200 bytes of header and as many bytes as asked for, then closes.
//!
//! HTTP in shape, so that a box which turns users away with a 503 is understood by them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::application::{Application, ApplicationSpec};
use super::calls::Caller;
use super::congestion_control::congestion_control;
use super::quic::{QuicCounters, QuicServer};
use super::record::CallEnds;
use super::request::{HEADER, REQUEST, header, wanted};
use super::secure::{Identity, QuicSettings, SECURE_PORT, server_tls};
use super::uploads::{UploadRecord, Uploads};
use super::web::{OVER_QUIC, OVER_TLS, WEB_PORT, over_tls};
use super::{Say, say, stdin_ends};
use crate::scenario::Calls;

/// Settings of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Port to listen on.
    pub port: u16,
    /// Congestion control of the replies.
    pub congestion_control: String,
    /// Whether TLS and QUIC are spoken too, on [`SECURE_PORT`], and how QUIC sends.
    pub secure: Option<QuicSettings>,
    /// Whether HTTP is spoken, on [`WEB_PORT`].
    pub web: bool,
    /// Certificate and key of the server.
    pub identity: Identity,
    /// Pauses of the server's application.
    #[serde(default)]
    pub application: ApplicationSpec,
    /// Calls to expect.
    #[serde(default)]
    pub calls: Vec<Calls>,
    /// QUIC connections to log, if any.
    #[serde(default)]
    pub qlog: Option<QlogSpec>,
}

/// Connections that a server logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QlogSpec {
    /// Number of connections, the first of the run.
    pub most: usize,
    /// File to write in the end.
    pub file: PathBuf,
}

/// Result of the server; most of the counts are from the server's kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerResult {
    /// Segments sent, retransmissions excluded (`OutSegs`).
    pub out_segs: u64,
    /// Segments retransmitted (`RetransSegs`).
    pub retrans_segs: u64,
    /// Retransmission timeouts (`TCPTimeouts`).
    pub timeouts: u64,
    /// Every TCP counter that is not zero, for the curious.
    pub counters: std::collections::BTreeMap<String, u64>,
    /// Counts of the QUIC stack, if QUIC was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicCounters>,
    /// Packets of calls at the server, until [`crate::metrics::records`] joins them with the users'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallEnds>,
    /// Payload of users who send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uploads: Vec<UploadRecord>,
}

/// Serves until standard input ends.
///
/// # Errors
/// If the port or the congestion control cannot be had.
pub fn run(spec: ServerSpec) -> anyhow::Result<ServerResult> {
    let before = kernel_counters()?;
    let application = Arc::new(Application::new(&spec.application)?);
    let uploads = Arc::<Uploads>::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let caller =
        (!spec.calls.is_empty()).then(|| Caller::server(&spec.calls, spec.application.seed)).transpose()?;
    let logged = spec.qlog.as_ref().map_or(0, |qlog| qlog.most);
    let quic = runtime.block_on(async {
        let plain = listen(&spec, spec.port)?;
        let pauses = application.clone();
        let taken = uploads.clone();
        tokio::spawn(accept(plain, move |stream, peer| answer(stream, peer, pauses.clone(), taken.clone())));
        let quic = match &spec.secure {
            Some(settings) => {
                let tls = |speak: &[&[u8]]| server_tls(&spec.identity, speak);
                let acceptor = |tls| TlsAcceptor::from(Arc::new(tls));
                let (plain, web) = (acceptor(tls(&[])?), acceptor(tls(&OVER_TLS)?));
                let secure = listen(&spec, SECURE_PORT)?;
                let pauses = application.clone();
                tokio::spawn(accept(secure, move |stream, peer| {
                    answer_over_tls(plain.clone(), stream, peer, pauses.clone())
                }));
                let mut quic = QuicServer::new(tls(&[])?, settings, logged, application.clone())?;
                if spec.web {
                    let listener = listen(&spec, WEB_PORT)?;
                    let pauses = application.clone();
                    tokio::spawn(accept(listener, move |stream, peer| {
                        over_tls(web.clone(), stream, peer, pauses.clone())
                    }));
                    quic.also_web(tls(&[OVER_QUIC])?, settings)?;
                }
                Some(quic)
            }
            None => None,
        };
        say(&Say::<()>::Ready);
        let serve = async {
            match &quic {
                Some(quic) => quic.serve().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = serve => {}
            () = stdin_ends() => {}
        }
        if let (Some(quic), Some(qlog)) = (&quic, &spec.qlog) {
            quic.write_logs(&qlog.file)?;
        }
        anyhow::Ok(quic.map(|q| q.counters()))
    })?;
    let counters = since(&before, kernel_counters()?);
    // Hundreds of unfinished replies need no farewell.
    runtime.shutdown_timeout(Duration::from_millis(50));
    let get = |name: &str| counters.get(name).copied().unwrap_or(0);
    Ok(ServerResult {
        out_segs: get("OutSegs"),
        retrans_segs: get("RetransSegs"),
        timeouts: get("TCPTimeouts"),
        counters,
        quic,
        calls: caller.map(Caller::finish),
        uploads: uploads.finish(),
    })
}

fn listen(spec: &ServerSpec, port: u16) -> anyhow::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    congestion_control(&socket, &spec.congestion_control)?;
    socket.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
    socket.listen(4096).with_context(|| format!("listen on port {port}"))
}

/// Accepts connections, and serves each by the future that `serve` makes.
async fn accept<S>(listener: TcpListener, serve: impl Fn(TcpStream, SocketAddr) -> S)
where
    S: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    loop {
        match listener.accept().await {
            // A user who went away is the user's own record.
            Ok((stream, peer)) => {
                if stream.set_nodelay(true).is_ok() {
                    drop(tokio::spawn(serve(stream, peer)));
                }
            }
            // Out of descriptors or memory: those in the backlog wait.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn answer_over_tls(
    tls: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    application: Arc<Application>,
) -> anyhow::Result<()> {
    answer(tls.accept(stream).await?, peer, application, Arc::default()).await
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    application: Arc<Application>,
    uploads: Arc<Uploads>,
) -> anyhow::Result<()> {
    let mut request = Vec::with_capacity(REQUEST);
    while !request.ends_with(b"\r\n\r\n") {
        // No more than a request: what follows may be an upload.
        let mut piece = [0; REQUEST];
        let wanted = REQUEST - request.len().min(REQUEST - 1);
        let n = stream.read(&mut piece[..wanted]).await?;
        if n == 0 || request.len() > 4096 {
            return Ok(());
        }
        request.extend_from_slice(&piece[..n]);
    }
    if uploads.take(&request, &mut stream, peer).await {
        return Ok(());
    }
    let size = wanted(&request)?;
    let plan = application.plan();
    application.pause(peer, plan.before).await?;
    let whole = HEADER as u64 + size;
    let mut left = whole;
    let mut chunk = vec![b'.'; 16 * 1024];
    chunk[..HEADER].copy_from_slice(&header(size));
    while left > 0 {
        // The part before the pause in the middle ends at half of the bytes.
        let half = left.saturating_sub(whole / 2);
        let until = if plan.middle.is_some() && half > 0 { half } else { left };
        let n = until.min(chunk.len() as u64) as usize;
        stream.write_all(&chunk[..n]).await?;
        chunk[..HEADER].fill(b'.');
        left -= n as u64;
        if left == whole / 2 && left > 0 {
            stream.flush().await?;
            application.pause(peer, plan.middle).await?;
        }
    }
    stream.shutdown().await?;
    // Keep the socket until the user has closed too, as a web server's lingering close does.
    let _ = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut chunk)).await;
    Ok(())
}

/// Counters of TCP that are not zero, by name.
type Counters = std::collections::BTreeMap<String, u64>;

fn kernel_counters() -> anyhow::Result<Counters> {
    let mut counters = Counters::new();
    for (file, group) in [("/proc/self/net/snmp", "Tcp:"), ("/proc/self/net/netstat", "TcpExt:")] {
        let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
        let mut lines = text.lines().filter(|l| l.starts_with(group));
        if let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()).skip(1) {
                if let Ok(v @ 1..) = value.parse::<u64>() {
                    counters.insert(name.to_owned(), v);
                }
            }
        }
    }
    Ok(counters)
}

/// Subtracts the counters as they were at `before`; gauges stay as they are.
fn since(before: &Counters, mut now: Counters) -> Counters {
    for (name, v) in &mut now {
        if !matches!(name.as_str(), "RtoAlgorithm" | "RtoMin" | "RtoMax" | "CurrEstab") {
            *v -= before.get(name).copied().unwrap_or(0).min(*v);
        }
    }
    now.retain(|_, v| *v > 0);
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_since_counts() {
        let of = |pairs: [(&str, u64); 3]| Counters::from(pairs.map(|(k, v)| (k.to_owned(), v)));
        let before = of([("OutSegs", 40), ("RtoMin", 200), ("TCPTimeouts", 2)]);
        let now = of([("OutSegs", 100), ("RtoMin", 200), ("TCPTimeouts", 2)]);
        let left = since(&before, now);
        assert_eq!((left["OutSegs"], left["RtoMin"], left.len()), (60, 200, 2));
    }
}
