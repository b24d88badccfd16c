//! Cost of fetching on the idle link. Before the load begins, one user fetches objects of several sizes by each way the
//! load will use, and the meter reads what each took: handshake, headers, acknowledgments, QUIC's probes for a larger
//! packet (RFC 8899), and the farewell.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use narrows_scenario::{Http, Transport};
use serde::{Deserialize, Serialize};

use super::client::INTERFACE;
use super::connection::{Arrivals, Ways};
use super::http::Client;
use super::load::{ClientSpec, users};
use super::meter::{Gauge, Meter};
use super::request::HEADER;
use super::{Say, say, stdin_ends};
use crate::scenario::Traffic;

/// Payload of the smallest object.
const SMALL: u64 = 1_000;
/// Full segments by which each object is larger than the smallest, and how often it is fetched. The cheapest fetch
/// counts, because an early timer repeats what was not lost. The last two tell what a long transfer costs.
const SIZES: [(u64, usize); 4] = [(0, 2), (5, 2), (20, 1), (60, 1)];
/// IP and TCP header with time stamps.
const HEADERS: u32 = 52;
/// Bytes the user lets be under way: enough for the second size in one round trip, and too few for a queue of some tens
/// of packets to overflow.
const WINDOW: u32 = 16_384;
/// Longest time for one object.
const PATIENCE: Duration = Duration::from_secs(10);

/// Cost of a way of fetching on the idle link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Payload of one connection, and the bytes it took on the link; at least two, by size.
    pub points: Vec<(u64, u64)>,
}

impl Cost {
    /// Bytes on the link for a connection with this much payload: straight lines through the points, continued beyond
    /// them.
    #[must_use]
    pub fn of(&self, payload: f64) -> f64 {
        let above = self.points.iter().position(|(size, _)| *size as f64 > payload);
        let last = above.unwrap_or(self.points.len()).clamp(1, self.points.len() - 1);
        let ((x0, y0), (x1, y1)) = (self.points[last - 1], self.points[last]);
        let slope = (y1 as f64 - y0 as f64) / (x1 as f64 - x0 as f64);
        y0 as f64 + slope * (payload - x0 as f64)
    }

    /// Bytes on the link for one byte more of a long transfer.
    #[must_use]
    pub fn byte(&self) -> f64 {
        let end = self.points.last().map_or(0.0, |(size, _)| *size as f64);
        self.of(end + 1.0) - self.of(end)
    }
}

/// Measures, for each group of the load, or says `None` where nothing came within the time.
///
/// # Errors
/// If the meter or the users' addresses cannot be had.
pub fn run(spec: ClientSpec) -> anyhow::Result<Vec<Option<Cost>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let user = users(&spec);
        let gauge = Gauge {
            interface: INTERFACE,
            overhead: spec.overhead,
            groups: vec![user + 1],
            begin: Instant::now(),
        };
        let idle = Idle {
            user,
            ways: Ways::new(spec.server, spec.congestion_control.clone(), &spec.quic, Some(WINDOW))?,
            meter: Meter::start(gauge)?,
            quiet: Duration::from_secs_f64(0.1 + 2.0 * spec.rtt),
        };
        say(&Say::<()>::Ready);
        let segment = u64::from(spec.mtu.saturating_sub(HEADERS).max(1));
        let mut known: Vec<(Way, Option<Cost>)> = Vec::new();
        let mut costs = Vec::new();
        for way in spec.traffic.iter().map(Way::of) {
            let cost = match known.iter().find(|(w, _)| *w == way) {
                Some((_, cost)) => cost.clone(),
                None => tokio::select! {
                    cost = idle.cost(way, segment) => cost.ok(),
                    () = stdin_ends() => None,
                },
            };
            known.push((way, cost.clone()));
            costs.push(cost);
        }
        Ok(costs)
    })
}

/// Way in which objects are fetched.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Each object over a connection of its own.
    Bare(Transport),
    /// Payload of several objects over one connection of this HTTP version, of `object` bytes on average.
    Web { http: Http, object: u64 },
}

impl Way {
    fn of(traffic: &Traffic) -> Self {
        match traffic {
            Traffic::Pages { http, page, .. } => {
                Self::Web { http: *http, object: page.mean().max(1.0) as u64 }
            }
            Traffic::Browser { http, page, .. } => {
                Self::Web { http: *http, object: page.iter().sum::<u64>() / page.len().max(1) as u64 }
            }
            Traffic::Objects { transport, .. } | Traffic::Long { transport, .. } => Self::Bare(*transport),
        }
    }
}

struct Idle {
    user: u32,
    ways: Ways,
    meter: Meter,
    /// Time without a packet after which a connection counts as over.
    quiet: Duration,
}

impl Idle {
    async fn cost(&self, way: Way, segment: u64) -> anyhow::Result<Cost> {
        let mut points = Vec::new();
        for (segments, times) in SIZES {
            let payload = SMALL + segments * segment;
            let mut least = u64::MAX;
            for _ in 0..times {
                let before = self.meter.total();
                tokio::time::timeout(PATIENCE, self.fetch(way, payload)).await.context("no answer")??;
                self.settle().await;
                least = least.min(self.meter.total() - before);
            }
            points.push((payload, least));
        }
        Ok(Cost { points })
    }

    async fn fetch(&self, way: Way, payload: u64) -> anyhow::Result<()> {
        let transport = match way {
            Way::Bare(transport) => transport,
            Way::Web { http, object } => return self.browse(http, object, payload).await,
        };
        let size = payload - HEADER as u64;
        let mut connection = self.ways.connect(self.user, transport, size, &Arrivals::default()).await?;
        let (mut got, mut buffer) = (0, Vec::with_capacity(32 * 1024));
        while got < payload {
            got += connection.read(&mut buffer).await.context("broken")? as u64;
        }
        Ok(())
    }

    /// The payload as objects of the usual size, one after another.
    async fn browse(&self, http: Http, object: u64, mut payload: u64) -> anyhow::Result<()> {
        let mut client = Client::connect(&self.ways, self.user, http, &Arrivals::default()).await?;
        while payload > 0 {
            let size = payload.min(object);
            client.get(&format!("/{size}"), |_| ()).await?;
            payload -= size;
        }
        Ok(())
    }

    /// Waits until nothing comes any more.
    async fn settle(&self) {
        let mut last = self.meter.total();
        loop {
            tokio::time::sleep(self.quiet).await;
            let now = self.meter.total();
            if now == last {
                return;
            }
            last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_through_what_was_measured() {
        let cost = Cost { points: vec![(1_000, 2_500), (5_000, 8_500), (15_000, 19_500)] };
        assert_eq!((cost.of(1_000.0), cost.of(3_000.0), cost.of(10_000.0)), (2_500.0, 5_500.0, 14_000.0));
        assert_eq!((cost.of(0.0), cost.of(25_000.0)), (1_000.0, 30_500.0), "on along the first and the last");
        assert!((cost.byte() - 1.1).abs() < 1e-9, "{}", cost.byte());
    }
}
