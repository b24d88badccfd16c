//! Section 4 sentence by sentence, each by hand: a file for each section, [`text`](super::text) has the list. The link
//! is 600 kbit/s, an epoch 200 ms until something else is measured; flows are named by number.

mod ours;
mod section_3_3;
mod section_4;
mod section_4_1;
mod section_4_2;
mod section_4_3;

use narrows_flow::{Flow, Phase};
use narrows_units::{Ecn, SeqNum};
use narrows_wire::{Flags, FlowKey, TcpHeader};

use super::predict::NextState;
use super::*;
use crate::Record;
use crate::{Ppm, Reason, Settings as _, Verdict};

const SERVER: [u8; 4] = [192, 0, 2, 1];

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

struct Bench {
    q: PaperMode<Record>,
    verdicts: Verdicts<Record>,
    seqs: Vec<u32>,
    id: u64,
    ecn: Ecn,
}

impl Bench {
    fn new(settings: &[(&str, &str)]) -> Self {
        let mut settled = Config::read("paper,admission=off").unwrap();
        for (key, value) in settings {
            settled.set(key, value).unwrap();
        }
        let config = *settled.as_paper().unwrap();
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) };
        Self {
            q: PaperMode::new(settled.common, config, link, 1),
            verdicts: Vec::new(),
            seqs: vec![1; 64],
            id: 0,
            ecn: Ecn::NotEct,
        }
    }

    fn packet(&mut self, flow: u8, seq: u32, payload: u32, flags: Flags) -> Record {
        self.id += 1;
        let mut r = Record { id: self.id, ..Record::default() };
        let user = [10, 0, 0, flow];
        r.header.key = FlowKey::new(SERVER.into(), user.into(), 80, 4000 + u16::from(flow), Proto::TCP);
        r.header.len = Bytes(u64::from(payload) + 40);
        r.header.ecn = self.ecn;
        r.header.tcp = Some(TcpHeader { seq: SeqNum(seq), flags, payload, ..TcpHeader::default() });
        r
    }

    fn offer(&mut self, ms: u64, packet: Record) -> u64 {
        self.q.enqueue(at(ms), packet, &mut self.verdicts);
        packet.id
    }

    /// New data: an IP packet of `len` bytes. Returns its number.
    fn data(&mut self, ms: u64, flow: u8, len: u32) -> u64 {
        let seq = self.seqs[usize::from(flow)];
        self.seqs[usize::from(flow)] += len - 40;
        let p = self.packet(flow, seq, len - 40, Flags::ACK);
        self.offer(ms, p)
    }

    /// The last `len` bytes sent, again.
    fn again(&mut self, ms: u64, flow: u8, len: u32) -> u64 {
        let seq = self.seqs[usize::from(flow)] - (len - 40);
        let p = self.packet(flow, seq, len - 40, Flags::ACK);
        self.offer(ms, p)
    }

    fn syn(&mut self, ms: u64, flow: u8) -> u64 {
        let p = self.packet(flow, 0, 0, Flags::SYN.and(Flags::ACK));
        self.offer(ms, p)
    }

    fn send(&mut self, ms: u64) -> Option<u64> {
        self.q.dequeue(at(ms), &mut self.verdicts).map(|p| p.id)
    }

    fn drain(&mut self, ms: u64) -> Vec<u64> {
        std::iter::from_fn(|| self.send(ms)).collect()
    }

    fn id(&mut self, flow: u8) -> FlowId {
        let key = self.packet(flow, 0, 0, Flags::ACK).header.key;
        self.q.tracker.lookup(&key).unwrap()
    }

    /// The record at that time.
    fn flow(&mut self, ms: u64, flow: u8) -> &Flow {
        let id = self.id(flow);
        self.q.tracker.flow_at(at(ms), id)
    }

    /// Predicts the state after a loss of the flow's next new packet.
    fn next_state(&mut self, ms: u64, flow: u8) -> NextState {
        after_loss(self.flow(ms, flow), PacketKind::New)
    }

    /// The newest packet that waits of a flow is dropped.
    fn lose(&mut self, ms: u64, flow: u8) {
        let slot = slot(self.id(flow));
        let node = self.q.store.tail_of(slot).unwrap();
        self.q.drop_node(at(ms), node, Reason::PushedOut, &mut self.verdicts);
    }

    /// The retransmission of the lowest key is dropped.
    fn lose_recovery(&mut self, ms: u64) {
        let node = self.q.store.tail(Class::Recovery).unwrap();
        self.q.drop_node(at(ms), node, Reason::PushedOut, &mut self.verdicts);
    }

    /// The user acknowledges all that was sent.
    fn acks(&mut self, ms: u64, flow: u8) {
        let mut p = self.packet(flow, 0, 0, Flags::ACK);
        p.header.key = p.header.key.reverse();
        p.header.tcp.as_mut().unwrap().ack = SeqNum(self.seqs[usize::from(flow)]);
        self.q.reverse(at(ms), p, &mut self.verdicts);
    }

    fn waiting(&self, class: Class) -> usize {
        self.q.store.backlog(class).packets
    }

    fn dropped(&mut self) -> Vec<u64> {
        let ids = self.verdicts.drain(..).filter_map(|v| match v {
            Verdict::Dropped { packet, .. } => Some(packet.id),
            _ => None,
        });
        ids.collect()
    }

    /// A flow that sends `n` packets of 1000 B in the epoch (200 ms, the first guess) that ends at `ms`, and nothing
    /// more.
    fn past(&mut self, ms: u64, flow: u8, n: u32) {
        for _ in 0..n {
            self.data(ms - 200, flow, 1000);
            self.drain(ms - 200);
        }
    }
}
