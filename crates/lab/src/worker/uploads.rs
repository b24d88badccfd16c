//! Flows that last from users to the server: a user sends as much as possible over one TCP connection, and the server
//! counts the payload of each second since the load began.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use super::load::{Life, RETRY, Run, pause};
use super::request::{REQUEST, padded};
use super::user::user_at;

/// Payload that one user sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UploadRecord {
    /// Number of the user's address.
    pub user: u32,
    /// Payload that came in each second of the load.
    pub bins: Vec<u32>,
    /// Longest time without payload after the warm-up, up to the end of the load.
    pub stall: f64,
}

/// An upload under way.
#[derive(Debug, Default)]
struct Upload {
    record: UploadRecord,
    /// Time of the last payload, seconds since the load began.
    last: f64,
}

/// The times of the load, as an upload's request tells them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    /// Nanoseconds since 1970 at which the load began.
    began_ns: u64,
    /// Milliseconds that do not count for stalls.
    warmup_ms: u64,
    /// Milliseconds of load.
    duration_ms: u64,
}

impl Times {
    /// Request of an upload that tells these times.
    fn request(self) -> [u8; REQUEST] {
        let Self { began_ns, warmup_ms, duration_ms } = self;
        padded(&format!("PUT /{began_ns}/{warmup_ms}/{duration_ms} HTTP/1.1\r\nHost: lab\r\nUser-Agent: "))
    }

    /// The times that a request tells; `None` if it is no upload's.
    fn read(request: &[u8]) -> Option<Self> {
        let path = std::str::from_utf8(request).ok()?.strip_prefix("PUT /")?.split(' ').next()?;
        let mut numbers = path.split('/').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { began_ns: next()?, warmup_ms: next()?, duration_ms: next()? })
    }

    /// Seconds since the load began.
    fn now(self) -> f64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (since_1970.as_nanos() as f64 - self.began_ns as f64) / 1e9
    }
}

impl Upload {
    /// Counts `bytes` that came at `now`, seconds since the load began; zero at its end.
    fn came(&mut self, now: f64, bytes: usize, times: Times) {
        let [warmup, duration] = [times.warmup_ms, times.duration_ms].map(|ms| ms as f64 / 1e3);
        if self.last >= duration {
            return;
        }
        let until = now.min(duration);
        self.record.stall = self.record.stall.max(until - self.last.max(warmup));
        self.last = until;
        if now < duration {
            let at = now.max(0.0) as usize;
            let bins = &mut self.record.bins;
            if bins.len() <= at {
                bins.resize(at + 1, 0);
            }
            bins[at] = bins[at].saturating_add(bytes as u32);
        }
    }
}

/// Uploads at the server.
#[derive(Debug, Default)]
pub(super) struct Uploads(Mutex<Vec<Upload>>);

impl Uploads {
    /// Takes what follows a request until the user ends; `false` at once if the request is no upload's.
    pub(super) async fn take(
        &self,
        request: &[u8],
        stream: &mut (impl AsyncRead + Unpin),
        peer: SocketAddr,
    ) -> bool {
        let Some(times) = Times::read(request) else { return false };
        let IpAddr::V4(address) = peer.ip() else { return true };
        let Some(user) = user_at(address) else { return true };
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = stream.read(&mut buffer).await;
            self.with(user, |upload| upload.came(times.now(), *read.as_ref().unwrap_or(&0), times));
            if !matches!(read, Ok(1..)) {
                return true;
            }
        }
    }

    fn with(&self, user: u32, count: impl FnOnce(&mut Upload)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|upload| upload.record.user == user).unwrap_or_else(|| {
            all.push(Upload { record: UploadRecord { user, ..UploadRecord::default() }, last: 0.0 });
            all.len() - 1
        });
        count(&mut all[at]);
    }

    /// Uploads of all users, by user.
    pub(super) fn finish(&self) -> Vec<UploadRecord> {
        let taken = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut all: Vec<UploadRecord> = taken.into_iter().map(|upload| upload.record).collect();
        all.sort_by_key(|record| record.user);
        for record in &mut all {
            record.stall = (record.stall * 1e4).round() / 1e4;
        }
        all
    }
}

/// Sends for the whole run; a broken connection is made again.
pub(super) async fn upload(run: Arc<Run>, user: u32, mut rng: fastrand::Rng) -> Life {
    pause(&run, rng.f64() * run.spec.jitter).await;
    let ms = |seconds: f64| (seconds * 1e3) as u64;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let began_ns = since_1970.saturating_sub((run.now() * 1e9) as u64);
    let times = Times { began_ns, warmup_ms: ms(run.spec.warmup), duration_ms: ms(run.spec.duration) };
    let send = async {
        loop {
            if let Ok(mut stream) = run.ways.tcp(user, run.ways.server).await
                && stream.write_all(&times.request()).await.is_ok()
            {
                let piece = vec![b'.'; 16 * 1024];
                while stream.write_all(&piece).await.is_ok() {}
            }
            tokio::time::sleep(RETRY).await;
        }
    };
    // Runs into the end of the run by design.
    let _: Result<(), _> = tokio::time::timeout_at(run.end, send).await;
    Life { user, ..Life::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times { began_ns: 7, warmup_ms: 2_000, duration_ms: 10_000 };

    #[test]
    fn a_request_tells_the_times() {
        assert_eq!(Times::read(&TIMES.request()), Some(TIMES));
        let get: [u8; REQUEST] = padded("GET /9 HTTP/1.1\r\nHost: lab");
        assert_eq!((Times::read(&get), Times::read(b"PUT /1/2 HTTP")), (None, None));
    }

    #[test]
    fn what_came_counts_in_its_second_and_silence_after_the_warm_up() {
        let mut upload = Upload::default();
        for (now, bytes) in [(0.5, 100), (0.9, 10), (4.5, 1), (5.0, 2)] {
            upload.came(now, bytes, TIMES);
        }
        // From the end of the warm-up at 2 s to 4.5 s.
        assert_eq!((&upload.record.bins[..], upload.record.stall), (&[110, 0, 0, 0, 1, 2][..], 2.5));
        upload.came(11.0, 50, TIMES);
        upload.came(30.0, 0, TIMES);
        assert_eq!((upload.record.bins.len(), upload.record.stall), (6, 5.0), "the load ended at 10 s");
    }
}
