//! The programs inside the namespaces: the users, the server, the link between, a listener. The lab starts them as
//! children of its own binary; they speak one JSON object a line on standard output and stop when standard input ends,
//! so nothing outlives the lab.

use std::io::{Read as _, Write as _};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub mod application;
pub mod browser;
pub mod calls;
pub mod capture;
mod cdp;
pub mod client;
mod congestion_control;
mod connection;
mod content;
pub mod emulator;
mod fetch;
mod http;
pub mod idle;
mod load;
mod long;
mod meter;
mod pages;
mod patience;
mod qlog;
pub mod quic;
pub mod record;
mod request;
pub mod secure;
pub mod server;
pub mod thin_link;
pub mod uploads;
pub mod user;
mod visits;
pub mod web;

pub use capture::{CaptureResult, CaptureSpec};
pub use emulator::{BeforeSpec, EmulatorResult, EmulatorSpec};
pub use idle::Cost;
pub use load::{BrowserSpec, ClientSpec};
pub use record::{ClientResult, ObjectRecord};
pub use server::{QlogSpec, ServerResult, ServerSpec};
pub use thin_link::ThinResult;
pub use uploads::UploadRecord;

/// Message of a worker, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Say<T> {
    /// The worker is in place.
    Ready,
    /// Progress of the worker, once a second.
    Tick(Tick),
    /// Result of the worker; the last line.
    Done(T),
    /// Failure of the worker; the last line.
    Failed(String),
}

/// Live progress of the users.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Tick {
    /// Seconds since the load began.
    pub at_s: f64,
    /// Objects done.
    pub objects: u64,
    /// Payload received.
    pub bytes: u64,
}

/// Writes one message as a line.
pub fn say<T: Serialize>(what: &Say<T>) {
    let mut out = std::io::stdout().lock();
    // A lab that no longer listens has gone; there is nobody left to tell.
    let _ = serde_json::to_writer(&mut out, what).map(|()| out.write_all(b"\n")).map(|_| out.flush());
}

/// Resolves when the lab lets go.
async fn stdin_ends() {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut sink = [0; 64];
        while matches!(std::io::stdin().read(&mut sink), Ok(n) if n > 0) {}
        let _ = tell.send(());
    });
    let _ = told.await;
}

/// Runs the worker called `role` with its JSON `spec` until it is done.
///
/// # Errors
/// An unknown role, a spec that does not fit it, or what went wrong in it.
pub fn main(role: &str, spec: &str) -> anyhow::Result<()> {
    fn run<S: DeserializeOwned, T: Serialize>(
        spec: &str,
        work: impl FnOnce(S) -> anyhow::Result<T>,
    ) -> anyhow::Result<()> {
        let result = serde_json::from_str(spec).map_err(anyhow::Error::from).and_then(work);
        match result {
            Ok(done) => say(&Say::Done(done)),
            Err(e) => say(&Say::<()>::Failed(format!("{e:#}"))),
        }
        Ok(())
    }
    match role {
        "client" => run(spec, client::run),
        "server" => run(spec, server::run),
        "emulator" => run(spec, emulator::run),
        "capture" => run(spec, capture::run),
        "idle" => run(spec, idle::run),
        _ => anyhow::bail!("lab worker '{role}': expected client, server, emulator, capture or idle"),
    }
}
