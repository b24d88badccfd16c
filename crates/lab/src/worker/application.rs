//! The server's application: pauses before an answer, or in its middle, as a database or a slow disk makes it, and
//! writes down when it did. A verdict on a silence is held against that.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// Share of the answers that begin after a pause, and of those that stop for one.
const SHARE: f64 = 0.2;

/// Settings of the server's application.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ApplicationSpec {
    /// Mean pause, seconds; 0: none.
    pub pause: f64,
    /// Seed of the pauses.
    pub seed: u64,
    /// File for the pauses, one JSON object a line; `None`: they are not written down.
    pub log: Option<PathBuf>,
}

/// A pause that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Address and port of the user who waited.
    pub peer: SocketAddr,
    /// Begin of the pause in nanoseconds since 1970, the time of captures.
    pub from_ns: u64,
    /// End of the pause in nanoseconds since 1970.
    pub to_ns: u64,
}

/// Pauses of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Pause before the first byte.
    pub(super) before: Option<Duration>,
    /// Pause after half of the bytes.
    pub(super) middle: Option<Duration>,
}

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Application {
    pause: f64,
    rng: Mutex<fastrand::Rng>,
    log: Option<Mutex<File>>,
}

impl Application {
    /// Creates the log, if there is to be one.
    pub(super) fn new(spec: &ApplicationSpec) -> anyhow::Result<Self> {
        let create = |path: &PathBuf| File::create(path).with_context(|| path.display().to_string());
        let log = spec.log.as_ref().map(create).transpose()?.map(Mutex::new);
        Ok(Self { pause: spec.pause, rng: Mutex::new(fastrand::Rng::with_seed(spec.seed)), log })
    }

    /// Draws the pauses of the next answer.
    pub(super) fn plan(&self) -> Plan {
        if self.pause <= 0.0 {
            return Plan::default();
        }
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let place = rng.f64();
        let length = Some(Duration::from_secs_f64(-self.pause * (1.0 - rng.f64()).ln()));
        match () {
            () if place < SHARE => Plan { before: length, middle: None },
            () if place < 2.0 * SHARE => Plan { before: None, middle: length },
            () => Plan::default(),
        }
    }

    /// Makes the user wait for `length`, and writes the pause to the log.
    pub(super) async fn pause(&self, peer: SocketAddr, length: Option<Duration>) -> anyhow::Result<()> {
        let Some(length) = length else { return Ok(()) };
        let from_ns = now_ns();
        tokio::time::sleep(length).await;
        if let Some(log) = &self.log {
            let line = serde_json::to_string(&Pause { peer, from_ns, to_ns: now_ns() })?;
            writeln!(log.lock().unwrap_or_else(PoisonError::into_inner), "{line}")
                .context("the log of the server's pauses")?;
        }
        Ok(())
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_pauses_before_and_a_fifth_in_the_middle() {
        let of = |pause| Application::new(&ApplicationSpec { pause, seed: 1, log: None }).unwrap();
        let application = of(0.5);
        let plans: Vec<Plan> = (0..5000).map(|_| application.plan()).collect();
        let before: Vec<f64> = plans.iter().filter_map(|p| p.before.map(|d| d.as_secs_f64())).collect();
        let middle = plans.iter().filter(|p| p.middle.is_some()).count();
        assert!((900..1100).contains(&before.len()) && (900..1100).contains(&middle));
        let mean = before.iter().sum::<f64>() / before.len() as f64;
        assert!((0.45..0.55).contains(&mean), "{mean}");
        assert!((0..100).all(|_| of(0.0).plan() == Plan::default()));
    }

    #[test]
    fn what_was_waited_is_written_down() {
        let log = std::env::temp_dir().join(format!("narrows-pauses-{}", std::process::id()));
        let application = Application::new(&ApplicationSpec { log: Some(log.clone()), ..Default::default() });
        let peer: SocketAddr = "10.0.0.1:4000".parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(application.unwrap().pause(peer, Some(Duration::from_millis(20)))).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        let pause: Pause = serde_json::from_str(text.trim()).unwrap();
        assert!(pause.peer == peer && pause.to_ns - pause.from_ns >= 20_000_000);
    }
}
