//! A user's connection to the web server, by whichever version of HTTP.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;
use bytes::{Buf as _, Bytes};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use narrows_scenario::Http;
use quinn::Endpoint;
use rustls::pki_types::ServerName;
use tokio::task::JoinHandle;

use super::connection::{Arrivals, Socket, Ways};
use super::secure::HOST;
use super::user::user_address;
use super::web::WEB_PORT;

/// A connection over which requests go: one after another with HTTP/1.1, side by side through clones else.
#[derive(Clone)]
pub(super) struct Client {
    sends: Sends,
    /// Driver that keeps the connection going; the last clone's drop closes the connection.
    _driver: Arc<Driver>,
}

enum Sends {
    One(Box<Option<http1::SendRequest<Empty<Bytes>>>>),
    Two(http2::SendRequest<Empty<Bytes>>),
    Three(h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>),
}

impl Clone for Sends {
    fn clone(&self) -> Self {
        match self {
            // A clone has nothing to send with, since HTTP/1.1 has one request at a time.
            Self::One(_) => Self::One(Box::new(None)),
            Self::Two(send) => Self::Two(send.clone()),
            Self::Three(send) => Self::Three(send.clone()),
        }
    }
}

/// Task that drives the connection, ended when the last client is dropped.
struct Driver {
    task: JoinHandle<()>,
    quic: Option<(quinn::Connection, Arc<AtomicU64>)>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
        if let Some((connection, bytes)) = &self.quic {
            connection.close(0x100_u32.into(), b"");
            bytes.fetch_add(connection.stats().udp_rx.bytes, Ordering::Relaxed);
        }
    }
}

impl Client {
    /// Connects from the user's address and shakes hands.
    pub(super) async fn connect(
        ways: &Ways,
        user: u32,
        http: Http,
        arrivals: &Arrivals,
    ) -> anyhow::Result<Self> {
        let server = SocketAddr::new(ways.server.ip(), WEB_PORT);
        if http == Http::Three {
            return Self::quic(ways, user, server).await;
        }
        let socket = Socket { stream: ways.tcp(user, server).await?, arrivals: arrivals.clone() };
        let tls = if http == Http::Two { &ways.http2 } else { &ways.http1 };
        let io = TokioIo::new(tls.connect(ServerName::try_from(HOST)?, socket).await?);
        let (sends, task) = if http == Http::Two {
            let (send, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            (Sends::Two(send), tokio::spawn(async { drop(connection.await) }))
        } else {
            let (send, connection) = http1::handshake(io).await?;
            (Sends::One(Box::new(Some(send))), tokio::spawn(async { drop(connection.await) }))
        };
        Ok(Self { sends, _driver: Arc::new(Driver { task, quic: None }) })
    }

    async fn quic(ways: &Ways, user: u32, server: SocketAddr) -> anyhow::Result<Self> {
        // A socket each, so that each is a flow of its own and nobody answers for it when it is gone.
        let endpoint = Endpoint::client((IpAddr::V4(user_address(user)), 0).into())?;
        let connection = endpoint.connect_with(ways.http3.clone(), server, HOST)?.await?;
        let (mut driver, send) = h3::client::new(h3_quinn::Connection::new(connection.clone())).await?;
        let task = tokio::spawn(async move {
            std::future::poll_fn(|cx| driver.poll_close(cx)).await;
        });
        let driver = Driver { task, quic: Some((connection, ways.quic_bytes.clone())) };
        Ok(Self { sends: Sends::Three(send), _driver: Arc::new(driver) })
    }

    /// Fetches `path`; `came` is called with the length of each piece of the body.
    pub(super) async fn get(&mut self, path: &str, mut came: impl FnMut(usize)) -> anyhow::Result<()> {
        let whole = format!("https://{HOST}:{WEB_PORT}{path}");
        match &mut self.sends {
            Sends::Three(send) => {
                let mut stream = send.send_request(Request::get(whole).body(())?).await?;
                stream.finish().await?;
                let status = stream.recv_response().await?.status();
                ensure!(status == StatusCode::OK, "{status}");
                while let Some(piece) = stream.recv_data().await? {
                    came(piece.remaining());
                }
                Ok(())
            }
            Sends::Two(send) => {
                let reply = send.send_request(Request::get(whole).body(Empty::new())?).await?;
                body(reply, came).await
            }
            Sends::One(send) => {
                let Some(send) = send.as_mut() else { anyhow::bail!("a copy of an HTTP/1.1 connection") };
                send.ready().await?;
                let request = Request::get(path).header(http::header::HOST, HOST).body(Empty::new())?;
                body(send.send_request(request).await?, came).await
            }
        }
    }
}

async fn body(
    reply: http::Response<hyper::body::Incoming>,
    mut came: impl FnMut(usize),
) -> anyhow::Result<()> {
    ensure!(reply.status() == StatusCode::OK, "{}", reply.status());
    let mut body = reply.into_body();
    while let Some(frame) = body.frame().await {
        if let Some(piece) = frame?.data_ref() {
            came(piece.len());
        }
    }
    Ok(())
}
