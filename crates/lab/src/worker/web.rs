//! The lab's web server: HTTP/1.1 and HTTP/2 over TLS, HTTP/3 over QUIC, on one port.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::application::Application;
use super::content::content;

/// Port of the web server, TCP and UDP.
pub const WEB_PORT: u16 = 8443;
/// Protocols that the server offers over TLS (RFC 7301).
pub(super) const OVER_TLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Protocol that the server offers over QUIC.
pub(super) const OVER_QUIC: &[u8] = b"h3";

fn reply(path: &str) -> Response<Bytes> {
    let (status, kind, body) = match content(path) {
        Some((kind, body)) => (StatusCode::OK, kind, body),
        None => (StatusCode::NOT_FOUND, "text/plain", Bytes::new()),
    };
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let length = reply.body().len();
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    reply
}

/// Answers after the pauses that the application makes: both come before the answer.
async fn serve(
    request: Request<Incoming>,
    peer: SocketAddr,
    application: Arc<Application>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let plan = application.plan();
    application.pause(peer, plan.before.or(plan.middle)).await?;
    Ok(reply(request.uri().path()).map(Full::new))
}

/// Serves a TCP connection until the connection ends.
pub(super) async fn over_tls(
    tls: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    application: Arc<Application>,
) -> anyhow::Result<()> {
    let stream = tls.accept(stream).await?;
    let two = stream.get_ref().1.alpn_protocol() == Some(OVER_TLS[0]);
    let io = TokioIo::new(stream);
    let service = service_fn(move |request| serve(request, peer, application.clone()));
    if two {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await?;
    } else {
        hyper::server::conn::http1::Builder::new().serve_connection(io, service).await?;
    }
    Ok(())
}

/// Serves a QUIC connection until the connection ends.
pub(super) async fn over_quic(
    connection: quinn::Connection,
    peer: SocketAddr,
    application: Arc<Application>,
) -> anyhow::Result<()> {
    let mut server = h3::server::Connection::<_, Bytes>::new(h3_quinn::Connection::new(connection)).await?;
    while let Some(resolver) = server.accept().await? {
        // A user who went away is the user's own record.
        let application = application.clone();
        tokio::spawn(async move {
            let (request, mut stream) = resolver.resolve_request().await?;
            let plan = application.plan();
            application.pause(peer, plan.before.or(plan.middle)).await?;
            let (head, body) = reply(request.uri().path()).into_parts();
            stream.send_response(Response::from_parts(head, ())).await?;
            stream.send_data(body).await?;
            stream.finish().await?;
            anyhow::Ok(())
        });
    }
    Ok(())
}
