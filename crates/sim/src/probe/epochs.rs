//! Flows epoch by epoch: who sent, who fell silent, who stays silent (figure 9 of the TAQ paper), and how many packets
//! a flow sent in an epoch (its figure 6).
//!
//! The paper draws four counts and does not define them to the packet. Here a flow is active in an epoch in which its
//! sender sent a data packet, and silent otherwise. Of the flows on which data was due throughout this epoch and the
//! one before, each is one of: maintained (active, active), dropped (active, silent), arriving (silent, active),
//! stalled (silent, silent).

use narrows_units::{Duration, Instant};

use super::report::{Tables, integers, numbers, share};
use crate::connection::Connection;
use crate::host_config::DATA;
use crate::statistics::add_each;

/// Most epochs in the table; the figures are of all.
const MOST: usize = 1 << 20;
/// Packets per epoch from which on flows share one bucket.
const MANY: usize = 64;
/// Fractions of 0 to 6 packets are in the summary: the models of the paper end at a window of 6.
const WINDOW: usize = 6;

/// State of the connection at a place.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    generation: u32,
    /// Epochs for which the connection has been watched, at most 2.
    epochs: u8,
    active: bool,
    /// Data packets sent when the epoch began.
    sent: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    start: Instant,
    maintained: u32,
    dropped: u32,
    arriving: u32,
    stalled: u32,
}

/// Measurements of all epochs.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    known: Vec<Known>,
    epochs: Vec<Epoch>,
    start: Instant,
    /// Epochs seen, and flows in each state summed over all epochs.
    count: u64,
    sums: [u64; 4],
    /// Number of (flow, epoch) pairs, by packets sent.
    sent: Vec<u64>,
}

impl Epochs {
    /// Watching begins.
    pub(super) fn begin(&mut self, now: Instant, connections: &[Connection]) {
        self.start = now;
        for (place, c) in connections.iter().enumerate() {
            self.look(place, c);
        }
    }

    /// An epoch ends and the next begins.
    pub(super) fn end(&mut self, now: Instant, connections: &[Connection]) {
        let mut epoch = Epoch { start: self.start, ..Epoch::default() };
        for (place, c) in connections.iter().enumerate() {
            if let Some((before, active)) = self.look(place, c) {
                match (before, active) {
                    (true, true) => epoch.maintained += 1,
                    (true, false) => epoch.dropped += 1,
                    (false, true) => epoch.arriving += 1,
                    (false, false) => epoch.stalled += 1,
                }
            }
        }
        let states = [epoch.maintained, epoch.dropped, epoch.arriving, epoch.stalled];
        for (sum, n) in self.sums.iter_mut().zip(states) {
            *sum += u64::from(n);
        }
        self.count += 1;
        if self.epochs.len() < MOST {
            self.epochs.push(epoch);
        }
        self.start = now;
    }

    /// Whether the connection was active in the epoch before and in this one, if it was there for both.
    fn look(&mut self, place: usize, c: &Connection) -> Option<(bool, bool)> {
        if place >= self.known.len() {
            self.known.resize(place + 1, Known::default());
        }
        let known = &mut self.known[place];
        let sent = c.ends.counters(DATA).data_sent;
        if !c.live || c.stats.failed || c.stats.delivered >= c.size {
            known.epochs = 0;
            return None;
        }
        // Watched from the first boundary on at which it is there.
        let watched = known.epochs > 0 && known.generation == c.generation;
        // Where data became due within the epoch, the epoch is none of its.
        if !watched || c.stats.due_since > self.start {
            *known = Known { generation: c.generation, epochs: 1, active: false, sent };
            return None;
        }
        let packets = (sent - known.sent) as usize;
        let (before, active, whole) = (known.active, packets > 0, known.epochs > 1);
        (known.active, known.epochs, known.sent) = (active, 2, sent);
        if self.sent.len() <= MANY {
            self.sent.resize(MANY + 1, 0);
        }
        self.sent[packets.min(MANY)] += 1;
        whole.then_some((before, active))
    }

    /// Adds the flows of another part, which has the same epochs.
    pub(super) fn absorb(&mut self, other: &Self) {
        for (own, more) in self.epochs.iter_mut().zip(&other.epochs) {
            own.maintained += more.maintained;
            own.dropped += more.dropped;
            own.arriving += more.arriving;
            own.stalled += more.stalled;
        }
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, n)| *sum += n);
        add_each(&mut self.sent, &other.sent);
    }

    pub(super) fn report(&self, length: Duration, out: &mut Tables) {
        let flows: u64 = self.sums.iter().sum();
        for (name, sum) in ["maintained", "dropped", "arriving", "stalled"].into_iter().zip(self.sums) {
            out.put(format!("epoch_{name}"), share(sum, self.count));
            out.put(format!("epoch_{name}_share"), share(sum, flows));
        }
        let all: u64 = self.sent.iter().sum();
        for packets in 0..=WINDOW {
            out.put(format!("epoch_sent_{packets}"), self.sent.get(packets).and_then(|n| share(*n, all)));
        }
        let more = self.sent.iter().skip(WINDOW + 1).sum();
        out.put("epoch_sent_more", share(more, all));
        out.put("epoch_s", length.as_secs_f64());
        let e = || self.epochs.iter();
        out.table(
            "epochs",
            vec![
                numbers("start_s", e().map(|e| e.start.as_secs_f64())),
                integers("maintained", e().map(|e| e.maintained.into())),
                integers("dropped", e().map(|e| e.dropped.into())),
                integers("arriving", e().map(|e| e.arriving.into())),
                integers("stalled", e().map(|e| e.stalled.into())),
            ],
        );
        let sent = || self.sent.iter().enumerate().filter(|(_, n)| **n > 0);
        out.table(
            "epoch_packets",
            vec![
                integers("sent", sent().map(|(packets, _)| packets as u64)),
                integers("epochs", sent().map(|(_, n)| *n)),
                numbers("share", sent().map(|(_, n)| *n as f64 / all as f64)),
            ],
        );
    }
}
