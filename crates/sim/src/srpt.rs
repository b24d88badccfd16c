//! Shortest remaining processing time (Schrage 1968): the transfer with the fewest bytes left goes first. No order of
//! service has a lower mean time, if senders send what they are let and nothing waits for anything but the link. SRPT
//! needs to know what no queue can see, how much each transfer has left, so only the simulator has it: the bound that
//! others are measured by.
//!
//! A packet says how much of its transfer is left from its own first byte on. A transfer has a FIFO, and the rank of
//! the first packet in it; among equals, who has waited longer goes first. What belongs to no transfer, or to one
//! without end, goes last. Nothing is dropped but what no memory could hold; but what is of no use does not take the
//! link's time: copies of what waits, and path MTU probes, are discarded.

use core::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use narrows_qdisc::{
    Backlog, Counters, Discipline, Manage, Packet as _, Qdisc, Reason, Report, ShaperConfig, Verdict,
    Verdicts,
};
use narrows_units::{Bytes, Instant};

use crate::ids::FlowId;
use crate::packet::{PayloadKind, Pkt};

/// Most packets that wait in the queue.
const MOST: usize = 1 << 20;

/// The least that QUIC's initial datagrams have, with headers of IPv4 and UDP.
const LEAST_DATAGRAM: Bytes = Bytes(1228);

/// Place and generation of a connection.
type Transfer = (FlowId, u32);
/// Bytes left, number of the packet among all arrivals, and transfer.
type Rank = (u32, u64, Transfer);

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Srpt {
    waiting: BTreeMap<Transfer, VecDeque<(u64, Pkt)>>,
    /// The first packet of each transfer.
    ranks: BTreeSet<Rank>,
    came: u64,
    backlog: Backlog,
    counters: Counters,
}

fn transfer(packet: &Pkt) -> Transfer {
    (packet.0.label.flow, packet.0.label.generation)
}

/// Whether a waiting packet carries all the data of another.
fn covers(waiting: &Pkt, other: &Pkt) -> bool {
    let (w, o) = (&waiting.0, &other.0);
    let data = |kind| matches!(kind, PayloadKind::Small | PayloadKind::Bulk);
    data(w.label.kind) && data(o.label.kind) && w.left == o.left && w.header.len >= o.header.len
}

/// Whether it is a path MTU probe: no data, and larger than the datagrams of a handshake (RFC 9000, section 14.1).
fn is_padding(packet: &Pkt) -> bool {
    packet.0.label.kind == PayloadKind::Control && packet.len() > LEAST_DATAGRAM
}

impl Qdisc<Pkt> for Srpt {
    fn enqueue(&mut self, _now: Instant, packet: Pkt, verdicts: &mut Verdicts<Pkt>) {
        let (len, whose) = (packet.len(), transfer(&packet));
        self.counters.arrive(len);
        if self.backlog.packets >= MOST {
            return self.counters.drop_packet(packet, Reason::OverLimit, verdicts);
        }
        let queue = self.waiting.entry(whose).or_default();
        if is_padding(&packet) || queue.iter().any(|(_, waiting)| covers(waiting, &packet)) {
            self.counters.suppressed += 1;
            return verdicts.push(Verdict::Suppressed { packet });
        }
        self.backlog.add(len);
        self.came += 1;
        if queue.is_empty() {
            self.ranks.insert((packet.0.left, self.came, whose));
        }
        queue.push_back((self.came, packet));
    }

    fn dequeue(&mut self, _now: Instant, _verdicts: &mut Verdicts<Pkt>) -> Option<Pkt> {
        let (_, _, whose) = self.ranks.pop_first()?;
        let queue = self.waiting.get_mut(&whose)?;
        let (_, packet) = queue.pop_front()?;
        if let Some((number, next)) = queue.front() {
            self.ranks.insert((next.0.left, *number, whose));
        } else {
            self.waiting.remove(&whose);
        }
        self.backlog.sub(packet.len());
        self.counters.send(packet.len());
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl Manage for Srpt {
    fn reconfigure(&mut self, _now: Instant, _settings: &dyn Any, _link: &ShaperConfig) -> bool {
        false
    }

    fn report(&mut self, _now: Instant) -> Report {
        Report {
            name: "srpt".into(),
            counters: self.counters.clone(),
            backlog: self.backlog,
            ..Report::default()
        }
    }
}

impl Discipline<Pkt> for Srpt {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;

    /// A packet of 500 bytes of connection `flow` with `left` bytes left.
    fn packet(flow: u32, left: u32) -> Pkt {
        let mut packet = Packet { left, ..Packet::default() };
        packet.label.flow = FlowId(flow);
        packet.header.len = Bytes(500);
        Pkt(Box::new(packet))
    }

    fn order(q: &mut Srpt, packets: usize) -> Vec<(u32, u32)> {
        let served = (0..packets).filter_map(|_| q.dequeue(Instant::ZERO, &mut Vec::new()));
        served.map(|p| (p.0.label.flow.0, p.0.left)).collect()
    }

    /// Transfers of 1500, 1000 and 2000 bytes; when the second has been served, one of 700 comes.
    #[test]
    fn the_one_with_least_left_goes_first_by_hand() {
        let (mut q, mut v) = (Srpt::default(), Vec::new());
        let mut come = |q: &mut Srpt, flow, left: &[u32]| {
            left.iter().for_each(|left| q.enqueue(Instant::ZERO, packet(flow, *left), &mut v));
        };
        come(&mut q, 1, &[1500, 1000, 500]);
        come(&mut q, 2, &[1000, 500]);
        come(&mut q, 3, &[2000, 1500]);
        assert_eq!(order(&mut q, 3), [(2, 1000), (2, 500), (1, 1500)]);
        // The first has 1000 left: one of 700 comes between, one of 1000 waits behind it.
        come(&mut q, 4, &[700, 200]);
        come(&mut q, 5, &[1000]);
        assert_eq!(order(&mut q, 4), [(4, 700), (4, 200), (1, 1000), (1, 500)]);
        // A handshake that comes late does not overtake its own transfer, and counts with all that is left.
        come(&mut q, 3, &[2000]);
        come(&mut q, 6, &[1600]);
        assert_eq!(order(&mut q, 9), [(5, 1000), (6, 1600), (3, 2000), (3, 1500), (3, 2000)]);
        assert_eq!((q.backlog(), v.len()), (Backlog::default(), 0));
    }

    #[test]
    fn what_is_of_no_use_is_discarded() {
        let (mut q, mut v) = (Srpt::default(), Vec::new());
        let data = |left| {
            let mut packet = packet(1, left);
            packet.0.label.kind = PayloadKind::Small;
            packet
        };
        let mut probe = packet(1, 2000);
        probe.0.header.len = Bytes(1480);
        for packet in [data(2000), data(1500), data(2000), probe, data(1000)] {
            q.enqueue(Instant::ZERO, packet, &mut v);
        }
        assert!(matches!(&v[..], [Verdict::Suppressed { .. }, Verdict::Suppressed { .. }]), "{v:?}");
        // A segment that has left may be sent again.
        assert_eq!(order(&mut q, 1), [(1, 2000)]);
        q.enqueue(Instant::ZERO, data(2000), &mut v);
        assert_eq!(order(&mut q, 4), [(1, 1500), (1, 1000), (1, 2000)]);
    }
}
