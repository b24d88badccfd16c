//! A user's connection to the server, by whichever transport, and when something came over it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use narrows_netio::tcp_socket::set_window_clamp;
use narrows_scenario::Transport;
use quinn::{Endpoint, RecvStream};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::congestion_control::congestion_control;
use super::request::{REQUEST, padded};
use super::secure::{HOST, QuicSettings, SECURE_PORT, client_quic, client_tls};
use super::user::user_address;
use super::web::{OVER_QUIC, OVER_TLS};

/// Settings that the users' connections share.
pub(super) struct Ways {
    pub(super) server: SocketAddr,
    congestion_control: String,
    tls: TlsConnector,
    quic: quinn::ClientConfig,
    /// TLS and QUIC settings for connections over which HTTP follows.
    pub(super) http1: TlsConnector,
    pub(super) http2: TlsConnector,
    pub(super) http3: quinn::ClientConfig,
    /// Bytes a connection lets be under way, if not as many as its stack would.
    window: Option<u32>,
    /// Window scales, given to users in turn; empty: the kernel's own.
    window_scales: Vec<u8>,
    /// UDP payload that live QUIC connections took.
    pub(super) quic_bytes: Arc<AtomicU64>,
}

impl Ways {
    /// Settings for connections to `server`, plain; the other transports use [`SECURE_PORT`] there.
    pub(super) fn new(
        server: SocketAddr,
        congestion_control: String,
        quic: &QuicSettings,
        window: Option<u32>,
    ) -> anyhow::Result<Self> {
        let tls = |speak| anyhow::Ok(TlsConnector::from(Arc::new(client_tls(speak)?)));
        Ok(Self {
            http1: tls(Some(OVER_TLS[1]))?,
            http2: tls(Some(OVER_TLS[0]))?,
            http3: client_quic(client_tls(Some(OVER_QUIC))?, quic, window)?,
            window,
            window_scales: Vec::new(),
            server,
            congestion_control,
            tls: tls(None)?,
            quic: client_quic(client_tls(None)?, quic, window)?,
            quic_bytes: Arc::default(),
        })
    }

    /// Sets the window scales that users get in turn.
    pub(super) fn with_window_scales(self, window_scales: Vec<u8>) -> Self {
        Self { window_scales, ..self }
    }

    /// Connects from the user's address, shakes hands, and asks for `size` bytes.
    pub(super) async fn connect(
        &self,
        user: u32,
        transport: Transport,
        size: u64,
        arrivals: &Arrivals,
    ) -> anyhow::Result<Connection> {
        let request: [u8; REQUEST] = padded(&format!("GET /{size} HTTP/1.1\r\nHost: lab\r\nUser-Agent: "));
        let secure = SocketAddr::new(self.server.ip(), SECURE_PORT);
        match transport {
            Transport::Tcp => {
                let mut stream = self.tcp(user, self.server).await?;
                stream.write_all(&request).await?;
                Ok(Connection::Tcp(stream))
            }
            Transport::Tls => {
                let socket = Socket { stream: self.tcp(user, secure).await?, arrivals: arrivals.clone() };
                let mut stream = self.tls.connect(ServerName::try_from(HOST)?, socket).await?;
                stream.write_all(&request).await?;
                stream.flush().await?;
                // The server's part of the handshake is no payload.
                arrivals.take();
                Ok(Connection::Tls(Box::new(stream)))
            }
            Transport::Quic => self.quic(user, secure, &request).await.map(Connection::Quic),
            Transport::Tfrc => anyhow::bail!("only the simulator has TFRC"),
        }
    }

    pub(super) async fn tcp(&self, user: u32, server: SocketAddr) -> anyhow::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        congestion_control(&socket, &self.congestion_control)?;
        if let Some(window) = self.window {
            socket.set_recv_buffer_size(window)?;
        }
        if !self.window_scales.is_empty() {
            let scale = self.window_scales[user as usize % self.window_scales.len()];
            set_window_clamp(socket.as_fd(), 1 << (15 + scale))?;
        }
        socket.bind((user_address(user), 0).into())?;
        let stream = socket.connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn quic(&self, user: u32, server: SocketAddr, request: &[u8]) -> anyhow::Result<Quic> {
        // A socket each, so that each is a flow of its own and nobody answers for it when it is gone.
        let endpoint = Endpoint::client((IpAddr::V4(user_address(user)), 0).into())?;
        let connection = endpoint.connect_with(self.quic.clone(), server, HOST)?.await?;
        let (mut send, receive) = connection.open_bi().await?;
        send.write_all(request).await?;
        send.finish()?;
        Ok(Quic { connection, receive, bytes: self.quic_bytes.clone() })
    }
}

/// A connection over which a reply comes.
pub(super) enum Connection {
    Tcp(TcpStream),
    Tls(Box<TlsStream<Socket>>),
    Quic(Quic),
}

impl Connection {
    /// Reads the bytes that have arrived; `None` once there will be no more. Bytes are those of the reply, in the order
    /// of their arrival: over QUIC that need not be the order in which they were sent.
    pub(super) async fn read(&mut self, buffer: &mut Vec<u8>) -> Option<usize> {
        buffer.clear();
        match self {
            Self::Tcp(stream) => stream.read_buf(buffer).await.ok().filter(|n| *n > 0),
            Self::Tls(stream) => stream.read_buf(buffer).await.ok().filter(|n| *n > 0),
            Self::Quic(quic) => {
                let chunk = quic.receive.read_chunk(32 * 1024, false).await.ok()??;
                buffer.extend_from_slice(&chunk.bytes);
                Some(chunk.bytes.len())
            }
        }
    }
}

/// A QUIC connection; closed at once when dropped, as by a user who goes away.
pub(super) struct Quic {
    connection: quinn::Connection,
    receive: RecvStream,
    bytes: Arc<AtomicU64>,
}

impl Drop for Quic {
    fn drop(&mut self) {
        self.connection.close(0_u32.into(), b"");
        self.bytes.fetch_add(self.connection.stats().udp_rx.bytes, Ordering::Relaxed);
    }
}

/// When how many bytes came from the socket below TLS, which hands on whole records of up to 16 kB. Empty for the
/// others: there it came when it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    noted: Arc<Mutex<Vec<(Instant, usize)>>>,
    ear: Option<Arc<Ear>>,
}

/// Listener that is called at each arrival, once listening is switched on.
pub(super) struct Ear {
    listens: AtomicBool,
    hear: Box<dyn Fn(Instant) + Send + Sync>,
}

impl Ear {
    pub(super) fn new(hear: impl Fn(Instant) + Send + Sync + 'static) -> Self {
        Self { listens: AtomicBool::new(false), hear: Box::new(hear) }
    }

    pub(super) fn listen(&self) {
        self.listens.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Ear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ear").field(&self.listens).finish()
    }
}

impl Arrivals {
    /// Creates arrivals that are passed to `ear` and not kept.
    pub(super) fn told_to(ear: Arc<Ear>) -> Self {
        Self { ear: Some(ear), ..Self::default() }
    }

    /// Takes the arrivals noted since the last call, in order.
    pub(super) fn take(&self) -> Vec<(Instant, usize)> {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that so many bytes came `at` this instant.
    pub(super) fn note(&self, at: Instant, bytes: usize) {
        let noted = || self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.ear {
            None => noted().push((at, bytes)),
            Some(ear) if ear.listens.load(Ordering::Relaxed) => (ear.hear)(at),
            Some(_) => {}
        }
    }
}

/// A TCP socket that says when something came.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    pub(super) arrivals: Arrivals,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let came = buffer.filled().len() - before;
        if came > 0 {
            self.arrivals.note(Instant::now(), came);
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
