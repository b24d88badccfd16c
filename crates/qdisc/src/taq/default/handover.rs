//! Knowledge of flows and users, as bytes for another process that takes this one's place.
//!
//! Not what waits, nor whose turn it is: a round is soon made up for, while a window scale is said once in a
//! connection's life and who was admitted would have to wait again.

use std::collections::VecDeque;

use narrows_flow::{Flow, FlowId};
use narrows_units::Instant;
use serde::{Deserialize, Serialize};

use super::DefaultMode;
use super::load::Coming;
use super::queues::FlowState;
use super::quic::QuicFlow;
use crate::Packet;
use crate::taq::admission::Known;

#[derive(Serialize, Deserialize)]
struct KnownFlow {
    record: Flow,
    state: Option<FlowState>,
    quic: Option<QuicFlow>,
}

#[derive(Serialize, Deserialize)]
struct Knowledge {
    flows: Vec<KnownFlow>,
    admission: Known,
    admitted_at: VecDeque<Instant>,
    mean_len: u64,
    largest: u64,
}

/// Knowledge of a queue, as bytes.
pub fn knowledge<P: Packet>(of: &DefaultMode<P>, now: Instant) -> Option<Vec<u8>> {
    let tracker = of.queues.tracker();
    let one = |id: FlowId| {
        let record = tracker.flow(id).clone();
        let quic = of.quic.get(id, &record).copied();
        KnownFlow { state: of.queues.known(id).cloned(), quic, record }
    };
    let (mean_len, largest) = of.queues.turns().lengths().known();
    let knowledge = Knowledge {
        flows: tracker.known(now).into_iter().map(one).collect(),
        admission: of.admission.known(),
        admitted_at: of.coming.known(),
        mean_len,
        largest,
    };
    postcard::to_stdvec(&knowledge).ok()
}

/// Has a queue go on with what another one knew; `false` if that cannot be read.
pub fn learn<P: Packet>(by: &mut DefaultMode<P>, now: Instant, bytes: &[u8]) -> bool {
    let Ok(knowledge) = postcard::from_bytes::<Knowledge>(bytes) else { return false };
    for known in knowledge.flows {
        let Some(id) = by.queues.tracker_mut().adopt(now, &known.record) else { continue };
        // Made, if there is none of this slot yet.
        by.queues.make_state(id, false);
        if let Some(state) = known.state {
            by.queues.learn(id, state);
        }
        if let Some(quic) = known.quic {
            by.quic.learn(id, by.queues.flow(id), quic);
        }
    }
    by.admission.learn(knowledge.admission);
    by.coming = Coming::learn(knowledge.admitted_at);
    by.queues.turns_mut().learn_lengths(knowledge.mean_len, knowledge.largest);
    true
}

#[cfg(test)]
mod tests {
    use narrows_units::{Bytes, Duration, Rate, SeqNum};
    use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

    use super::*;
    use crate::taq::{Common, DefaultConfig};
    use crate::{Manage as _, Qdisc as _, Record, ReversePath as _, ShaperConfig};

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn mode() -> DefaultMode<Record> {
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) };
        DefaultMode::new(Common::default(), DefaultConfig::default(), link, 7)
    }

    fn packet(key: FlowKey, tcp: TcpHeader) -> Record {
        let len = Bytes(u64::from(tcp.payload) + 40);
        Record { id: 0, header: Header { key, len, tcp: Some(tcp), ..Header::default() } }
    }

    fn scaled(flags: Flags, seq: u32, ack: u32) -> TcpHeader {
        let (seq, ack) = (SeqNum(seq), SeqNum(ack));
        TcpHeader {
            flags,
            seq,
            ack,
            window: 1000,
            mss: Some(1460),
            window_scale: Some(7),
            ..TcpHeader::default()
        }
    }

    /// A download under way, and what the window of its next acknowledgment becomes.
    fn open(q: &mut DefaultMode<Record>, key: FlowKey) {
        let mut verdicts = Vec::new();
        q.reverse(at(0), packet(key.reverse(), scaled(Flags::SYN, 100, 0)), &mut verdicts).unwrap();
        q.enqueue(at(20), packet(key, scaled(Flags::SYN.and(Flags::ACK), 5000, 101)), &mut verdicts);
        assert!(q.dequeue(at(20), &mut verdicts).is_some());
        let ack = TcpHeader { window_scale: None, mss: None, ..scaled(Flags::ACK, 101, 5001) };
        q.reverse(at(40), packet(key.reverse(), ack), &mut verdicts).unwrap();
        let data = TcpHeader { flags: Flags::ACK, seq: SeqNum(5001), ack: SeqNum(101), payload: 1448, ..ack };
        q.enqueue(at(60), packet(key, data), &mut verdicts);
        assert!(q.dequeue(at(60), &mut verdicts).is_some());
    }

    fn window_after(q: &mut DefaultMode<Record>, key: FlowKey) -> u16 {
        let ack = TcpHeader {
            flags: Flags::ACK,
            ack: SeqNum(6449),
            seq: SeqNum(101),
            window: 8000,
            ..TcpHeader::default()
        };
        q.reverse(at(80), packet(key.reverse(), ack), &mut Vec::new()).unwrap().header.tcp.unwrap().window
    }

    #[test]
    fn the_clamp_goes_on_after_a_handover() {
        let key = FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, 2].into(), 443, 4000, Proto::TCP);
        let mut old = mode();
        open(&mut old, key);
        let knowledge = old.export(at(70)).unwrap();
        let (mut new, mut ignorant) = (mode(), mode());
        assert!(new.import(at(75), &knowledge));
        let window = window_after(&mut old, key);
        assert!(window < 8000, "{window}");
        assert_eq!(window_after(&mut new, key), window);
        assert_eq!(window_after(&mut ignorant, key), 8000, "without the scales it is inert");
        assert!(!ignorant.import(at(75), &knowledge[..knowledge.len() / 2]), "cut off");
    }

    #[test]
    fn who_was_admitted_stays_so_and_who_waits_keeps_the_place() {
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1)) };
        let mode = || -> DefaultMode<Record> {
            // A single user who is served makes others wait.
            let config =
                DefaultConfig { round_limit_ms: Duration::from_nanos(1), ..DefaultConfig::default() };
            DefaultMode::new(Common::default(), config, link, 7)
        };
        let mut old = mode();
        let syn = |user: u8| {
            let key = FlowKey::new([10, 0, 0, user].into(), [192, 0, 2, 1].into(), 4000, 443, Proto::TCP);
            packet(key, scaled(Flags::SYN, 1, 0))
        };
        let passes: Vec<_> = (1..=4)
            .map(|user| old.reverse(at(10 * u64::from(user)), syn(user), &mut Vec::new()).is_some())
            .collect();
        assert_eq!(passes, [true, false, false, false]);
        let knowledge = old.export(at(100)).unwrap();
        let mut new = mode();
        assert!(new.import(at(100), &knowledge));
        // Held packets come again from the old box, here the last first.
        for user in [4, 3, 2] {
            assert!(new.reverse(at(110), syn(user), &mut Vec::new()).is_none());
        }
        assert!(new.reverse(at(111), syn(1), &mut Vec::new()).is_some());
        let report = new.report(at(120)).admission.unwrap();
        let queue: Vec<_> = report.queue.iter().map(|p| p.pool.to_string()).collect();
        assert_eq!(queue, ["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
        assert_eq!((report.admitted, new.held()), (1, 3));
    }

    #[test]
    fn what_is_told_of_a_flow_is_of_the_format_that_is_numbered() {
        let key = FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, 2].into(), 443, 4000, Proto::TCP);
        let mut mode = mode();
        open(&mut mode, key);
        // Bytes do not describe themselves. Whoever changes what is told raises FORMAT (narrows-box,
        // handover/link_state.rs) and this number.
        assert_eq!(mode.export(at(70)).map(|told| told.len()), Some(215));
    }
}
