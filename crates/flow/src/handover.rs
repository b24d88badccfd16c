//! Handover of flow records from one tracker to another: a box is replaced while its flows live on.
//!
//! Both read one clock, and the records go over as they are, but for what belongs to a place in a table. What waits
//! goes another way, so no record that comes has packets waiting.

use narrows_units::Instant;

use crate::flags::FlowFlags;
use crate::table::Table;
use crate::{Flow, FlowId, Tracker};

/// Flows that go over at most, more than a thin link has at a time: to tell a full table of 65 536, as after a flood,
/// takes longer than packets should wait.
const IN_USE: usize = 4096;
const OTHERS: usize = 512;

/// Flags about a record's place in the table, not about the record's flow.
const OF_THE_PLACE: u32 = FlowFlags::LIVE | FlowFlags::LISTED | FlowFlags::LIST_PROVEN | FlowFlags::CROWD;

impl Tracker {
    /// The flows that are worth telling, the one longest unheard of first: of those in use the last [`IN_USE`] heard
    /// of, of others, of which a flood makes as many as there is room for, the last [`OTHERS`].
    #[must_use]
    pub fn known(&self, now: Instant) -> Vec<FlowId> {
        let slots = &self.table.slots;
        let age = |id: &FlowId| crate::times::Coarse::at(now).since(slots[id.index()].seen);
        if let Some(mut last) = self.table.last_heard([OTHERS, IN_USE]) {
            last.sort_by_key(|id| core::cmp::Reverse(age(id)));
            return last;
        }
        let live = (0..slots.len()).filter(|slot| slots[*slot].flags.has(FlowFlags::LIVE));
        let (mut used, mut others): (Vec<_>, Vec<_>) =
            live.map(|slot| FlowId(slot as u32)).partition(|id| Table::is_dear(&slots[id.index()]));
        for (flows, most) in [(&mut used, IN_USE), (&mut others, OTHERS)] {
            if flows.len() > most {
                // All are not put in order for the sake of a few.
                flows.select_nth_unstable_by_key(most, age);
                flows.truncate(most);
            }
        }
        used.append(&mut others);
        used.sort_by_key(|id| core::cmp::Reverse(age(id)));
        used
    }

    /// Goes on with a flow that another tracker has followed. `None` if it is known here already, or there is no room.
    pub fn adopt(&mut self, now: Instant, known: &Flow) -> Option<FlowId> {
        if self.table.find(&known.key).is_some() {
            return None;
        }
        let id = self.find_or_make(now, &known.key, self.table.likely(self.table.expect(&known.key)))?;
        let place = &mut self.table.slots[id.index()];
        let (mut flags, chain, generation) = (known.flags, place.chain, place.generation);
        flags.clear(OF_THE_PLACE | FlowFlags::ACTIVE | FlowFlags::REPORT_NEW | FlowFlags::REPORT_RESTARTED);
        flags.take_over(place.flags, OF_THE_PLACE);
        *place = Flow { flags, chain, generation, queued: 0, ..known.clone() };
        place.epoch.set_len(known.epoch_len(), &self.config);
        let (seen, phase, end) = (place.seen, place.phase(), place.quiet_at());
        if !place.is_quiescent() {
            self.wheel.sooner(&mut self.table.hooks, id.0, end);
        }
        if Table::moves(self.flow(id), seen) {
            self.table.relist(id.0);
        }
        if let Some(phase) = phase {
            self.by_phase[phase.index()] += 1;
        }
        if known.is_active() {
            self.count_active(now, id);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Duration;
    use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

    use super::*;
    use crate::TrackerConfig;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn segment(key: FlowKey, tcp: TcpHeader) -> Header {
        let len = narrows_units::Bytes(u64::from(tcp.payload) + 40);
        Header { key, len, tcp: Some(tcp), ..Header::default() }
    }

    /// A download whose handshake and first kilobyte have passed: 30 ms to the sender, 50 to the receiver.
    fn followed(tracker: &mut Tracker, port: u16) -> FlowKey {
        use narrows_units::SeqNum;
        let key = FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, 2].into(), 443, port, Proto::TCP);
        let scale = |scale, flags, seq, ack| TcpHeader {
            flags,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            window_scale: Some(scale),
            ..TcpHeader::default()
        };
        tracker.reverse(at(0), &segment(key.reverse(), scale(7, Flags::SYN, 100, 0)));
        let answer = segment(key, scale(9, Flags::SYN.and(Flags::ACK), 5000, 101));
        let id = tracker.forward(at(30), &answer).id.unwrap();
        tracker.departed(at(30), id, &answer);
        let ack = TcpHeader { flags: Flags::ACK, ack: SeqNum(5001), window: 500, ..TcpHeader::default() };
        tracker.reverse(at(80), &segment(key.reverse(), ack));
        let data = TcpHeader { flags: Flags::ACK, seq: SeqNum(5001), payload: 1000, ..TcpHeader::default() };
        let id = tracker.forward(at(110), &segment(key, data)).id.unwrap();
        tracker.departed(at(110), id, &segment(key, data));
        let ack = TcpHeader { ack: SeqNum(6001), ..ack };
        tracker.reverse(at(160), &segment(key.reverse(), ack));
        key
    }

    #[test]
    fn a_flood_does_not_go_over() {
        let mut old = Tracker::new(TrackerConfig::default(), 1);
        let used: Vec<_> = (1..=3).map(|port| followed(&mut old, port)).collect();
        for n in 0..20_000u32 {
            let [_, b, c, d] = n.to_be_bytes();
            let key = FlowKey::new([203, b, c, d].into(), [10, 0, 0, 2].into(), 7, 9, Proto::UDP);
            old.forward(at(170), &Header { key, len: narrows_units::Bytes(64), ..Header::default() });
        }
        let known = old.known(at(200));
        assert_eq!(known.len(), OTHERS + used.len());
        for key in used {
            assert!(known.contains(&old.lookup(&key).unwrap()), "{key:?}");
        }
    }

    #[test]
    fn what_was_known_is_known() {
        let mut old = Tracker::new(TrackerConfig::default(), 1);
        let keys: Vec<_> = (1..=3).map(|port| followed(&mut old, port)).collect();
        // One of them has packets waiting, which go another way.
        let waiting = old.lookup(&keys[1]).unwrap();
        old.queued(waiting);
        let mut new = Tracker::new(TrackerConfig::default(), 2);
        for id in old.known(at(200)) {
            assert!(new.adopt(at(200), old.flow(id)).is_some());
            assert!(new.adopt(at(200), old.flow(id)).is_none(), "once");
        }
        for key in keys {
            let (then, now) = (old.lookup(&key).unwrap(), new.lookup(&key).unwrap());
            let (then, now) = (old.flow(then).clone(), new.flow(now));
            assert_eq!((now.forward_scale(), now.reverse_scale()), (Some(9), Some(7)));
            assert_eq!(now.receiver_rtt(), Some(Duration::from_millis(50)));
            assert_eq!(now.sender_rtt(), then.sender_rtt());
            assert_eq!((now.max_seq(), now.phase(), now.queued()), (then.max_seq(), then.phase(), 0));
            assert!(now.is_active() == then.is_active() && now.initiator() == then.initiator());
        }
        assert_eq!(new.census(at(200)), old.census(at(200)));
        assert_eq!(new.active_flows(), old.active_flows());
        // The new tracker forgets an adopted flow in time, as any other.
        for ms in (200..1_000_000).step_by(1000) {
            new.tick(at(ms));
        }
        assert_eq!((new.census(at(1_000_000)).flows, new.active_flows()), (0, 0));
    }
}
