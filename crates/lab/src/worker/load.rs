//! Load that users make: its settings, its clock and progress, and the records of each connection's life.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Tick;
use super::connection::Ways;
use super::patience::Patience;
use super::record::{LongRecord, ObjectRecord, PageRecord, VisitRecord};
use super::secure::QuicSettings;
use crate::scenario::{Calls, Traffic};

/// Pause of a user after a connection attempt that failed outright.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// Settings of the users.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientSpec {
    /// Address of the server.
    pub server: SocketAddr,
    /// Congestion control of the requests.
    pub congestion_control: String,
    /// Window scales of TCP, given to users in turn; empty: the kernel's own.
    pub window_scales: Vec<u8>,
    /// Settings of QUIC's senders.
    pub quic: QuicSettings,
    /// Decides sizes, start times and pauses.
    pub seed: u64,
    /// Seconds of load.
    pub duration: f64,
    /// Seconds not counted in a long flow's stall.
    pub warmup: f64,
    /// Seconds within which users start.
    pub jitter: f64,
    /// Seconds there and back without a queue.
    pub rtt: f64,
    /// Largest IP packet.
    pub mtu: u32,
    /// Bytes of link layer per packet.
    pub overhead: u32,
    /// Settings of the browsers; `None` if there are none.
    pub browser: Option<BrowserSpec>,
    /// Groups of users and flows.
    pub traffic: Vec<Traffic>,
    /// Calls to make.
    pub calls: Vec<Calls>,
}

#[cfg(test)]
impl ClientSpec {
    /// Load of ten seconds that has no users.
    pub(super) fn of_nobody() -> Self {
        Self {
            server: ([127, 0, 0, 1], 1).into(),
            congestion_control: "cubic".to_owned(),
            window_scales: Vec::new(),
            quic: QuicSettings::default(),
            seed: 1,
            duration: 10.0,
            warmup: 0.0,
            jitter: 0.0,
            rtt: 0.1,
            mtu: 1500,
            overhead: 0,
            browser: None,
            traffic: Vec::new(),
            calls: Vec::new(),
        }
    }
}

/// Settings of the browsers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BrowserSpec {
    /// The program.
    pub program: String,
    /// Folder in which each browser has a profile.
    pub dir: PathBuf,
    /// SHA-256 of the server's public key, which browsers accept.
    pub spki_sha256: Vec<u8>,
}

/// State of the load that all its parts share.
pub(super) struct Run {
    pub(super) spec: ClientSpec,
    begin: Instant,
    pub(super) end: tokio::time::Instant,
    pub(super) ways: Ways,
    pub(super) patience: Patience,
    pub(super) objects: AtomicU64,
    bytes: AtomicU64,
}

impl Run {
    /// Makes a load that began at `begin`.
    pub(super) fn new(spec: ClientSpec, begin: Instant) -> anyhow::Result<Self> {
        Ok(Self {
            end: (begin + Duration::from_secs_f64(spec.duration)).into(),
            begin,
            ways: Ways::new(spec.server, spec.congestion_control.clone(), &spec.quic, None)?
                .with_window_scales(spec.window_scales.clone()),
            patience: Patience::new(users(&spec), spec.warmup),
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            spec,
        })
    }

    /// Progress until now.
    pub(super) fn progress(&self) -> Tick {
        Tick {
            at_s: self.now(),
            objects: self.objects.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Seconds since the load began.
    pub(super) fn now(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// Whether the load has ended.
    pub(super) fn over(&self) -> bool {
        tokio::time::Instant::now() >= self.end
    }

    /// Seconds from the beginning of the load to `instant`; 0 for earlier ones.
    pub(super) fn at(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.begin).as_secs_f64()
    }
}

/// Records of one connection's life.
#[derive(Default)]
pub(super) struct Life {
    pub(super) user: u32,
    pub(super) objects: Vec<ObjectRecord>,
    pub(super) long: Option<LongRecord>,
    pub(super) pages: Vec<PageRecord>,
    pub(super) visit: Option<VisitRecord>,
    pub(super) bins: Vec<u32>,
}

impl Life {
    /// Counts payload that a user received.
    pub(super) fn receive(&mut self, run: &Run, now: f64, bytes: usize) {
        let at = (now as usize).min(run.spec.duration as usize);
        if self.bins.len() <= at {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] = self.bins[at].saturating_add(bytes as u32);
        run.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Addresses all groups take.
pub(super) fn users(spec: &ClientSpec) -> u32 {
    spec.traffic.iter().map(Traffic::users).sum()
}

/// Now, or the end of the load if that is over.
pub(super) fn object_end(run: &Run) -> f64 {
    run.now().min(run.spec.duration)
}

/// Waits, at most to the end of the load.
pub(super) async fn pause(run: &Run, secs: f64) {
    tokio::time::sleep_until(run.end.min(tokio::time::Instant::now() + Duration::from_secs_f64(secs))).await;
}
