//! Where each packet is. Every packet leaves exactly once, and what the discipline says waits is what did not leave.

use std::collections::BTreeMap;

use narrows_qdisc::{Direction, Discipline, Event, Record, Verdict};
use narrows_units::{Bytes, Instant};
use narrows_wire::FlowKey;

use super::traffic::Arrival;

/// Fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Sent(u64),
    /// A packet of the other direction went on its way, at once or after it was kept.
    Passed(u64),
    Dropped(u64),
    Suppressed(u64),
    Refused(u64),
    Marked,
}

/// Packets the discipline keeps outside its queue.
pub fn held(q: &dyn Discipline<Record>) -> usize {
    q.reverse_path().map_or(0, |path| path.held())
}

/// Packets on the books.
#[derive(Debug, Default)]
pub struct Ledger {
    waiting: BTreeMap<u64, Arrival>,
    /// Last packet in order that was sent of each flow.
    last_sent: BTreeMap<FlowKey, u64>,
    pub fates: Vec<(Instant, Fate)>,
    pub sent_lens: Vec<(Instant, Bytes)>,
    pub most_packets: usize,
    pub most_held: usize,
}

impl Ledger {
    pub fn arrive(&mut self, arrival: &Arrival) {
        self.waiting.insert(arrival.packet.id, *arrival);
    }

    fn leave(&mut self, now: Instant, id: u64, fate: Fate) -> Arrival {
        let known = self.waiting.remove(&id);
        self.fates.push((now, fate));
        known.unwrap_or_else(|| panic!("packet {id} left twice or never came"))
    }

    pub fn hear(&mut self, now: Instant, event: Event<Record>) {
        match event {
            Event::Send(Direction::Down, packet) => self.sent(now, &packet),
            Event::Send(Direction::Up, packet) => self.passed(now, &packet),
            Event::Verdict(_, verdict) => self.decided(now, verdict),
        }
    }

    fn sent(&mut self, now: Instant, packet: &Record) {
        let arrival = self.leave(now, packet.id, Fate::Sent(packet.id));
        assert!(arrival.forward, "packet {} of the other direction was queued", packet.id);
        assert_eq!(packet.header.len, arrival.packet.header.len);
        self.sent_lens.push((now, packet.header.len));
        if arrival.in_order {
            let before = self.last_sent.insert(packet.header.key, packet.id).unwrap_or(0);
            assert!(before < packet.id, "{}: new packet {before} overtook {}", packet.header.key, packet.id);
        }
    }

    fn passed(&mut self, now: Instant, packet: &Record) {
        let arrival = self.leave(now, packet.id, Fate::Passed(packet.id));
        assert!(!arrival.forward, "packet {} passed the queue by", packet.id);
    }

    fn decided(&mut self, now: Instant, verdict: Verdict<Record>) {
        match verdict {
            Verdict::Dropped { packet, .. } => {
                self.leave(now, packet.id, Fate::Dropped(packet.id));
            }
            Verdict::Suppressed { packet } => {
                self.leave(now, packet.id, Fate::Suppressed(packet.id));
            }
            Verdict::Refused { packet, .. } => {
                self.leave(now, packet.id, Fate::Refused(packet.id));
            }
            Verdict::Marked { header, .. } => {
                assert!(header.ecn.is_capable());
                self.fates.push((now, Fate::Marked));
            }
        }
    }

    /// Asserts that the discipline's account of itself is what the books say.
    pub fn balance(&mut self, q: &dyn Discipline<Record>) {
        let (backlog, held) = (q.backlog(), held(q));
        assert_eq!(backlog.packets + held, self.waiting.len(), "backlog and held against the books");
        if held == 0 {
            let bytes = self.waiting.values().map(|a| a.packet.header.len.get()).sum::<u64>();
            assert_eq!(backlog.bytes, Bytes(bytes));
        }
        self.most_packets = self.most_packets.max(backlog.packets);
        self.most_held = self.most_held.max(held);
    }

    pub fn count(&self, is: impl Fn(&Fate) -> bool) -> usize {
        self.fates.iter().filter(|(_, f)| is(f)).count()
    }
}
