//! A small status page over HTTP: what the box does now, and for a user who waits, the position in the wait queue.
//!
//! A reader on this machine sees everything. Any other sees what concerns it: whether the link is full, and its own
//! place; other people's addresses are none of its business.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use narrows_users::User;
use tiny_http::{Header, Response, Server};

use super::control::StatusPublisher;
use super::status::Status;

const PAGE: &str = include_str!("page.html");

/// Opens the page's socket.
///
/// # Errors
/// If the address cannot be bound.
pub fn listen(address: SocketAddr) -> anyhow::Result<Server> {
    Server::http(address).map_err(|e| anyhow::anyhow!("cannot serve the status page at {address}: {e}"))
}

/// Answers readers for as long as the program lives.
pub fn serve(server: Server, publisher: Arc<StatusPublisher>) {
    std::thread::spawn(move || {
        for request in server.incoming_requests() {
            let reader = request.remote_addr().map(SocketAddr::ip);
            let path = request.url().split('?').next().unwrap_or_default();
            let (code, kind, body) = match path {
                "/" | "/index.html" => (200, "text/html; charset=utf-8", PAGE.to_owned()),
                "/status.json" => match publisher.ask() {
                    Some(text) => (200, "application/json", for_reader(&text, reader)),
                    None => (503, "application/json", r#"{"error":"the box does not answer"}"#.to_owned()),
                },
                _ => (404, "text/plain; charset=utf-8", "expected / or /status.json\n".to_owned()),
            };
            let mut response = Response::from_string(body).with_status_code(code);
            for (name, value) in
                [("Content-Type", kind), ("Cache-Control", "no-store"), ("X-Frame-Options", "DENY")]
            {
                if let Ok(header) = Header::from_bytes(name, value) {
                    response.add_header(header);
                }
            }
            // A reader that goes away early is no concern of ours.
            let _ = request.respond(response);
        }
    });
}

/// What a reader may see.
fn for_reader(text: &str, reader: Option<IpAddr>) -> String {
    let reader = reader.map(|r| r.to_canonical());
    if reader.is_some_and(|r| r.is_loopback()) {
        return text.to_owned();
    }
    let Ok(mut status) = serde_json::from_str::<Status>(text) else { return "{}".to_owned() };
    for direction in [&mut status.down, &mut status.up] {
        if let Some(admission) = &mut direction.report.admission {
            admission.queue.retain(|p| reader.is_some_and(|reader| is_theirs(&p.pool, reader)));
        }
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
    use crate::{AdmissionJson, WaitingPoolJson};

    #[test]
    fn a_user_sees_its_own_place_and_nobody_elses() {
        let mut status = Status::default();
        let place = |n: u8| WaitingPoolJson {
            pool: format!("10.0.0.{n}"),
            position: n.into(),
            waited_s: 1.0,
            expected_s: None,
        };
        status.down.report.admission = Some(AdmissionJson {
            waiting: 3,
            queue: (1..=3).map(place).collect(),
            ..AdmissionJson::default()
        });
        let text = serde_json::to_string(&status).unwrap();
        let seen = |reader: Option<IpAddr>| {
            let s: Status = serde_json::from_str(&for_reader(&text, reader)).unwrap();
            let admission = s.down.report.admission.unwrap();
            (admission.waiting, admission.queue.iter().map(|p| p.position).collect::<Vec<_>>())
        };
        assert_eq!(seen(Some("127.0.0.1".parse().unwrap())), (3, vec![1, 2, 3]));
        assert_eq!(seen(Some("::ffff:10.0.0.2".parse().unwrap())), (3, vec![2]));
        assert_eq!(seen(Some("10.0.0.9".parse().unwrap())), (3, vec![]));
        assert_eq!(seen(None), (3, vec![]));
    }
}
