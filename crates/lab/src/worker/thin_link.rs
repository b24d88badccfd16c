//! A thin link with a drop-tail queue, worked out ahead: when a packet comes, all that goes before it is there already,
//! so it is known at once when the packet has left. Without clock or socket; what it carried and how long packets were
//! there is counted as the simulator does.

use std::collections::VecDeque;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use narrows_qdisc::{Backlog, Limit};
use narrows_scenario::{Outages, Timetable};
use narrows_units::{Bytes, Instant};
use serde::{Deserialize, Serialize};

/// Longest time at the link that is told apart from longer ones, in microseconds: ten minutes.
const LONGEST_US: u64 = 600_000_000;

/// Result of a thin link, from the end of the warm-up to the end of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThinResult {
    /// Bytes that the link could have carried.
    pub capacity: u64,
    /// Bytes that the link carried.
    pub used: u64,
    /// Packets that came, from the beginning of the load on.
    pub arrived: u64,
    /// Packets that the full queue refused.
    pub dropped: u64,
    /// Number of outages: times of a second or longer in which the link carries nothing.
    pub outages: usize,
    /// Time from a packet's arrival until it has left, outside of outages: median, milliseconds.
    pub there_p50_ms: f64,
    /// Time at the link, 95th percentile, milliseconds.
    pub there_p95_ms: f64,
    /// Time at the link, 99th percentile, milliseconds.
    pub there_p99_ms: f64,
}

/// The part of a run that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) from: Instant,
    pub(super) to: Instant,
}

/// One way of a thin link. Times count from the beginning of the load.
pub(super) struct ThinLink {
    timetable: Timetable,
    limit: Limit,
    overhead: u32,
    /// Packets whose sending had not begun when the last one came: when it does, and their length.
    waiting: VecDeque<(Instant, Bytes)>,
    backlog: Backlog,
    busy_until: Instant,
    counted: Counted,
    outages: Outages,
    there_us: Histogram<u64>,
    result: ThinResult,
}

impl ThinLink {
    pub(super) fn new(
        timetable: Timetable,
        limit: Limit,
        overhead: u32,
        counted: Counted,
    ) -> anyhow::Result<Self> {
        let outages = timetable.outages(counted.to);
        let inside = |o: &&(Instant, Instant)| o.1 >= counted.from && o.1 < counted.to;
        Ok(Self {
            result: ThinResult {
                capacity: timetable.capacity(counted.from, counted.to),
                outages: outages.times().iter().filter(inside).count(),
                ..ThinResult::default()
            },
            timetable,
            limit,
            overhead,
            waiting: VecDeque::new(),
            backlog: Backlog::default(),
            busy_until: Instant::ZERO,
            counted,
            outages,
            there_us: Histogram::new_with_bounds(1, LONGEST_US, 3).context("histogram")?,
        })
    }

    /// Takes an IP packet of `len` that comes at `now`; gives the time at which it has left, or `None` if the queue is
    /// full.
    pub(super) fn take(&mut self, now: Instant, len: Bytes) -> Option<Instant> {
        self.result.arrived += 1;
        while let Some((_, begun)) = self.waiting.front().copied().filter(|(begins, _)| *begins <= now) {
            self.waiting.pop_front();
            self.backlog.sub(begun);
        }
        if now < self.busy_until && !self.limit.admits(self.backlog, len) {
            self.result.dropped += 1;
            return None;
        }
        let begins = now.max(self.busy_until);
        if begins > now {
            self.waiting.push_back((begins, len));
            self.backlog.add(len);
        }
        let on_link = len + Bytes(u64::from(self.overhead));
        let sent = self.timetable.send(begins, on_link);
        self.busy_until = sent;
        if self.counted.from <= sent && sent < self.counted.to {
            self.result.used += on_link.get();
            if !self.outages.met(now, sent) {
                self.there_us.saturating_record(sent.since(now).as_nanos() / 1000);
            }
        }
        Some(sent)
    }

    /// Figures of the link.
    pub(super) fn result(self) -> ThinResult {
        let ms = |q: f64| self.there_us.value_at_quantile(q) as f64 / 1e3;
        ThinResult { there_p50_ms: ms(0.5), there_p95_ms: ms(0.95), there_p99_ms: ms(0.99), ..self.result }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use narrows_qdisc::{Fifo, Packet as _, Qdisc as _, Record};
    use narrows_scenario::{DeliveryTrace, Service};
    use narrows_units::{Duration, Rate};

    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn all() -> Counted {
        Counted { from: ms(0), to: ms(10_000) }
    }

    fn link(service: &Service, limit: Limit, overhead: u32, counted: Counted) -> ThinLink {
        ThinLink::new(Timetable::new(service).unwrap(), limit, overhead, counted).unwrap()
    }

    fn steps(steps: &[(u64, u64)]) -> Service {
        let step = |&(at, kbps): &(u64, u64)| {
            let rate = if kbps == 0 { Rate::from_bps(1) } else { Rate::from_kbps(kbps) };
            (Duration::from_millis(at), rate)
        };
        Service::Steps(steps.iter().map(step).collect())
    }

    /// 1500 bytes take 12 ms at 1 Mbit/s.
    #[test]
    fn a_queue_of_two_drops_the_fourth() {
        let mut link = link(&steps(&[(0, 1000)]), Limit::Packets(2), 0, all());
        let full = Bytes(1500);
        let took: Vec<_> = (0..4).map(|_| link.take(ms(0), full)).collect();
        // One is sent, two wait.
        assert_eq!(took, [Some(ms(12)), Some(ms(24)), Some(ms(36)), None]);
        // At 12 ms the second begins, and a place is free.
        assert_eq!((link.take(ms(11), full), link.take(ms(12), full)), (None, Some(ms(48))));
        assert_eq!(link.take(ms(100), full), Some(ms(112)), "an idle link sends at once");
        let result = link.result();
        assert_eq!((result.arrived, result.dropped, result.used), (7, 2, 7500));
        // 1 Mbit/s for 10 s; 12, 24, 36, 36 and 12 ms there.
        assert_eq!((result.capacity, result.outages), (1_250_000, 0));
        assert!((24.0..24.1).contains(&result.there_p50_ms), "{result:?}");
        assert!((36.0..36.1).contains(&result.there_p95_ms), "{result:?}");
    }

    /// A link that asks the discipline `fifo` for a packet whenever it is free.
    struct Asking {
        fifo: Fifo<Record>,
        timetable: Timetable,
        free: Instant,
        /// Time at which each packet had left, by its number; `None` of one that was dropped or still waits.
        left: Vec<Option<Instant>>,
        dropped: usize,
    }

    impl Asking {
        fn send(&mut self, begins: Instant) -> bool {
            let Some(packet) = self.fifo.dequeue(begins, &mut Vec::new()) else { return false };
            self.free = self.timetable.send(begins, packet.len());
            self.left[packet.id as usize] = Some(self.free);
            true
        }

        fn take(&mut self, now: Instant, len: Bytes) {
            while self.free <= now && self.send(self.free) {}
            let mut packet = Record { id: self.left.len() as u64, ..Record::default() };
            packet.header.len = len;
            self.left.push(None);
            let mut verdicts = Vec::new();
            self.fifo.enqueue(now, packet, &mut verdicts);
            self.dropped += verdicts.len();
            if self.free <= now {
                self.send(now);
            }
        }
    }

    #[test]
    fn packets_leave_and_are_dropped_as_with_the_discipline_fifo() {
        let rates = steps(&[(0, 1000), (2000, 300), (4000, 0), (5500, 3000)]);
        for limit in [Limit::Packets(1), Limit::Packets(7), Limit::Bytes(Bytes(4000))] {
            let mut random = narrows_testing::Rng(3);
            let mut link = link(&rates, limit, 0, all());
            let timetable = Timetable::new(&rates).unwrap();
            let (fifo, left) = (Fifo::new(limit), Vec::new());
            let mut asking = Asking { fifo, timetable, free: ms(0), left, dropped: 0 };
            let (mut now, mut left) = (ms(0), Vec::new());
            for _ in 0..1000 {
                now += Duration::from_micros(random.below(16_000));
                let len = Bytes(40 + random.below(1461));
                asking.take(now, len);
                left.push(link.take(now, len));
            }
            while asking.send(asking.free) {}
            assert_eq!(left, asking.left, "{limit:?}");
            assert_eq!(link.result().dropped, asking.dropped as u64, "{limit:?}");
            assert!(asking.dropped > 20 && asking.dropped < 900, "{limit:?}: {}", asking.dropped);
        }
    }

    #[test]
    fn a_queue_in_bytes_and_the_link_layer() {
        // 1500 + 14 bytes at 1 Mbit/s are 12.112 ms.
        let mut link = link(&steps(&[(0, 1000)]), Limit::Bytes(Bytes(1600)), 14, all());
        assert_eq!(link.take(ms(0), Bytes(1500)).unwrap().as_nanos(), 12_112_000);
        assert!(link.take(ms(0), Bytes(1500)).is_some(), "1500 of 1600 bytes wait");
        assert_eq!(link.take(ms(0), Bytes(101)), None);
        assert!(link.take(ms(0), Bytes(100)).is_some(), "the bound counts IP packets");
        assert_eq!(link.result().used, 1514 + 1514 + 114);
    }

    #[test]
    fn a_trace_carries_a_full_packet_at_each_of_its_times() {
        let trace = DeliveryTrace::parse("t", "10\n20\n20\n50\n").unwrap();
        let mut link = link(&Service::Trace(Arc::new(trace)), Limit::Packets(9), 0, all());
        let left: Vec<_> = (0..5).map(|_| link.take(ms(0), Bytes(1500)).unwrap()).collect();
        assert_eq!(left, [ms(10), ms(20), ms(20), ms(50), ms(60)]);
        // Two small ones share an opportunity.
        assert_eq!(
            (link.take(ms(65), Bytes(700)), link.take(ms(65), Bytes(700))),
            (Some(ms(70)), Some(ms(70)))
        );
    }

    #[test]
    fn outages_and_the_warm_up_do_not_count() {
        // Nothing from 1 to 3 s; 1500 bytes take 100 ms else.
        let service = steps(&[(0, 120), (1000, 0), (3000, 120)]);
        let mut link = link(&service, Limit::Packets(9), 0, Counted { from: ms(500), to: ms(10_000) });
        for at in [0, 600, 950, 4000, 6000] {
            link.take(ms(at), Bytes(1500)).unwrap();
        }
        let result = link.result();
        // The packet of 0 s belongs to the warm-up. 500 ms before the outage and 7 s after it at 15 kB/s.
        assert_eq!((result.used, result.capacity, result.outages), (6000, 7500 + 105_000, 1));
        // The packets of 950 ms and 4 s met the outage or its two seconds; the others were there for 100 ms.
        assert!((100.0..100.2).contains(&result.there_p99_ms), "{result:?}");
    }
}
