//! First in, first out, with a limit in packets or bytes: the drop-tail queue every other discipline is measured
//! against.

use core::any::Any;
use std::collections::VecDeque;

use narrows_units::{Bytes, Instant};

use crate::{Backlog, Counters, Discipline, Manage, Packet, Qdisc, Reason, Report, ShaperConfig, Verdicts};

/// Size of a FIFO. The packet on the wire does not count: it has been dequeued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Size in packets.
    Packets(usize),
    /// Size in bytes of IP packets.
    Bytes(Bytes),
}

impl Limit {
    /// Whether a packet of `len` fits beside what waits.
    #[must_use]
    #[inline]
    pub fn admits(self, backlog: Backlog, len: Bytes) -> bool {
        match self {
            Self::Packets(n) => backlog.packets < n,
            Self::Bytes(b) => backlog.bytes + len <= b,
        }
    }
}

/// A drop-tail queue.
#[derive(Debug)]
pub struct Fifo<P> {
    limit: Limit,
    queue: VecDeque<P>,
    backlog: Backlog,
    counters: Counters,
}

impl<P: Packet> Fifo<P> {
    /// An empty queue.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self { limit, queue: VecDeque::new(), backlog: Backlog::default(), counters: Counters::default() }
    }
}

impl<P: Packet> Qdisc<P> for Fifo<P> {
    fn enqueue(&mut self, _now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        let len = packet.len();
        self.counters.arrive(len);
        if self.limit.admits(self.backlog, len) {
            self.backlog.add(len);
            self.queue.push_back(packet);
        } else {
            self.counters.drop_packet(packet, Reason::OverLimit, verdicts);
        }
    }

    fn dequeue(&mut self, _now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        let packet = self.queue.pop_front()?;
        self.backlog.sub(packet.len());
        self.counters.send(packet.len());
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> Manage for Fifo<P> {
    /// A smaller limit turns new packets away; what waits stays.
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, _link: &ShaperConfig) -> bool {
        let Some(limit) = settings.downcast_ref::<Limit>() else { return false };
        self.limit = *limit;
        true
    }

    fn report(&mut self, _now: Instant) -> Report {
        Report {
            name: "fifo".into(),
            counters: self.counters.clone(),
            backlog: self.backlog,
            ..Report::default()
        }
    }
}

impl<P: Packet> Discipline<P> for Fifo<P> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::samples::packet;

    #[test]
    fn two_fit_the_third_is_lost_and_order_is_kept() {
        let (mut q, mut v) = (Fifo::new(Limit::Packets(2)), Vec::new());
        for id in 0..3 {
            q.enqueue(Instant::ZERO, packet(id, 500), &mut v);
        }
        assert_eq!(v, [Verdict::Dropped { packet: packet(2, 500), reason: Reason::OverLimit }]);
        assert_eq!(q.backlog(), Backlog { packets: 2, bytes: Bytes(1000) });
        let ids: Vec<_> = std::iter::from_fn(|| q.dequeue(Instant::ZERO, &mut v)).map(|p| p.id).collect();
        assert_eq!(ids, [0, 1]);
        assert_eq!(q.next_ready(Instant::ZERO), None);
    }

    #[test]
    fn a_byte_limit_lets_a_small_packet_in_where_a_large_one_is_lost() {
        let (mut q, mut v) = (Fifo::new(Limit::Bytes(Bytes(2000))), Vec::new());
        for (id, len) in [(0, 1500), (1, 1500), (2, 500)] {
            q.enqueue(Instant::ZERO, packet(id, len), &mut v);
        }
        assert_eq!(v.len(), 1);
        assert_eq!(q.backlog(), Backlog { packets: 2, bytes: Bytes(2000) });
    }
}
