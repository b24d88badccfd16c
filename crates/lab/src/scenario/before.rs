//! A link before the box, as the emulator is told.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use narrows_qdisc::Limit;
use narrows_scenario::{BeforeBox, BeforeWay, Delays, DeliveryTrace, Service, Spacing, Timetable};
use narrows_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Link whose queue stands before the box.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Before {
    /// Name of the link in the file.
    pub name: String,
    /// Way towards the users.
    pub down: ThinWay,
    /// Way towards the servers.
    pub up: ThinWay,
    /// Propagation of the servers' own links.
    pub servers: Far,
}

/// One way of a link: a drop-tail queue, a transmitter, a wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThinWay {
    /// Rates in bit/s, each from its nanosecond on; empty if a trace tells the rate.
    rates: Vec<(u64, u64)>,
    /// Name of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace_name: Option<String>,
    /// The trace itself, which is passed in a file: results and command lines are no place for it.
    #[serde(skip)]
    trace: Option<Arc<DeliveryTrace>>,
    /// Bound of the queue in packets; `None` if it is in bytes.
    queue_packets: Option<usize>,
    /// Bound of the queue in bytes of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue_bytes: Option<u64>,
    /// Bytes of link layer per packet.
    pub overhead: u32,
    /// Mean of the trace or the first rate, bit/s.
    mean_bps: u64,
    /// Nanoseconds from the end of the link to the users, or to the servers' own links.
    pub delay_ns: u64,
    /// Probability that a packet is lost after it has been sent.
    pub loss: f64,
}

/// Propagation of the servers' own links, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Far {
    /// Least, in nanoseconds.
    low_ns: u64,
    /// Greatest, in nanoseconds.
    high_ns: u64,
    /// Number of servers: user `u` is served by server `u % count`.
    count: u32,
    /// Whether values are drawn rather than spaced evenly.
    random: bool,
}

impl Before {
    /// The link as a scenario has it.
    pub(super) fn of(link: &BeforeBox) -> Self {
        Self {
            name: link.name.clone(),
            down: ThinWay::of(&link.down, link.overhead),
            up: ThinWay::of(&link.up, link.overhead),
            servers: Far {
                low_ns: link.servers.low.as_nanos(),
                high_ns: link.servers.high.as_nanos(),
                count: link.count,
                random: link.servers.spread == Spacing::Random,
            },
        }
    }

    /// The two ways, towards the users and towards the servers, with words for them.
    pub fn ways(&mut self) -> [(&'static str, &mut ThinWay); 2] {
        [("down", &mut self.down), ("up", &mut self.up)]
    }
}

impl ThinWay {
    fn of(way: &BeforeWay, overhead: u32) -> Self {
        let (rates, trace) = match &way.service {
            Service::Constant => (vec![(0, way.rate.as_bps())], None),
            Service::Steps(steps) => {
                (steps.iter().map(|(at, r)| (at.as_nanos(), r.as_bps())).collect(), None)
            }
            Service::Trace(trace) => (Vec::new(), Some(trace.clone())),
        };
        let (queue_packets, queue_bytes) = match way.queue {
            Limit::Packets(n) => (Some(n), None),
            Limit::Bytes(b) => (None, Some(b.get())),
        };
        Self {
            rates,
            trace_name: trace.as_ref().map(|t| t.name.clone()),
            trace,
            queue_packets,
            queue_bytes,
            overhead,
            mean_bps: way.rate.as_bps(),
            delay_ns: way.delay.as_nanos(),
            loss: way.loss,
        }
    }

    /// Mean of the trace, or the first of the rates.
    #[must_use]
    pub const fn mean(&self) -> Rate {
        Rate::from_bps(self.mean_bps)
    }

    /// Bound of the queue.
    #[must_use]
    pub fn queue(&self) -> Limit {
        match (self.queue_packets, self.queue_bytes) {
            (Some(n), _) => Limit::Packets(n),
            (None, bytes) => Limit::Bytes(Bytes(bytes.unwrap_or(0))),
        }
    }

    /// Times at which the link sends; [`ThinWay::take_trace`] comes first where a trace tells them.
    ///
    /// # Errors
    /// If the trace is missing.
    pub fn timetable(&self) -> anyhow::Result<Timetable> {
        let steps = self.rates.iter().map(|(at, bps)| (Duration::from_nanos(*at), Rate::from_bps(*bps)));
        let service = match &self.trace_name {
            None => Service::Steps(steps.collect()),
            Some(name) => {
                Service::Trace(self.trace.clone().with_context(|| format!("trace {name}: missing"))?)
            }
        };
        Timetable::new(&service).context("a link without a rate")
    }

    /// The trace in the form of its file; `None` if rates tell when the link sends.
    #[must_use]
    pub fn trace_text(&self) -> Option<String> {
        let trace = self.trace.as_ref()?;
        Some(trace.opportunities().iter().map(|ms| format!("{ms}\n")).collect())
    }

    /// Reads the trace from a file that holds [`ThinWay::trace_text`], if a trace tells when the link sends.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn take_trace(&mut self, file: &Path) -> anyhow::Result<()> {
        if let Some(name) = &self.trace_name {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            self.trace = Some(Arc::new(DeliveryTrace::parse(name, &text).map_err(anyhow::Error::msg)?));
        }
        Ok(())
    }
}

impl Far {
    /// Nanoseconds of each server's own link; the seed draws them where the file says so.
    #[must_use]
    pub fn delays(&self, seed: u64) -> Vec<u64> {
        let spread = if self.random { Spacing::Random } else { Spacing::Even };
        let delays = Delays {
            low: Duration::from_nanos(self.low_ns),
            high: Duration::from_nanos(self.high_ns),
            spread,
        };
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..self.count).map(|server| delays.of(server, self.count, rng.u64(..)).as_nanos()).collect()
    }
}
