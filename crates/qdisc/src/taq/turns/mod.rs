//! TAQ, mode `default`: turns.
//!
//! The published rule decides what to drop by what the flow's phase makes of it (mode `paper`). This one removes the
//! causes of drops first, and drops only what TCP repairs without a timeout:
//!
//! - **Control packets first** ([`control`]).
//! - **Turns.** A FIFO per flow, served by deficit round robin in bytes (Shreedhar and Varghese, 1995). A flow's backlog
//!   harms nobody but itself. A flow that waits for nothing is served first on a small credit, so that SYN-ACKs and
//!   first packets do not wait a round (the new list of RFC 8290, here a budget for each flow's life).
//! - **Swallowed duplicates** ([`duplicates`]).
//! - **The window clamp** ([`clamp`]).
//! - **Marks, or drops a flow can repair** ([`repair`]), where the clamp does not reach: no timestamps of the handshake,
//!   one-way view, another transport.
//! - **Memory bounds** ([`longest`]).
//! - **The door** ([`super::door`]): when a round takes longer than a silence may last, new pools wait outside.
//!
//! Each part can be switched off by name ([`super::Config`]). Times are in nanoseconds, sizes in bytes of IP packet;
//! turns are counted in bytes on the link, framing included.

mod clamp;
mod control;
mod duplicates;
mod lists;
mod longest;
mod repair;
mod reverse;
mod slot;
mod store;
#[cfg(test)]
mod tests;

use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};

use narrows_flow::{FlowId, Kind, Phase, Tracker, TrackerConfig};
use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_wire::{Header, TcpHeader};

use self::control::Control;
use self::lists::List;
use self::longest::Longest;
use self::slot::{Place, Slot};
use self::store::Store;
use super::door::{Door, DoorConfig, Rule, Way};
use super::{Config, LossWindow, Mode, Share};
use crate::{
    Backlog, ClassReport, Counters, Packet, Qdisc, Reason, Report, ShaperConfig, Spec, Verdict, Verdicts,
};

/// How long a connection counts as coming: a handshake and a request over a long path.
const COMING: Duration = Duration::from_secs(1);
/// Connections that can be coming at once: more than any door lets in.
const MOST_COMING: usize = 4096;

/// TAQ in its default mode, for one direction of a link.
#[derive(Debug)]
pub struct Turns<P> {
    config: Config,
    link: ShaperConfig,
    tracker: Tracker,
    slots: Vec<Slot>,
    store: Store<P>,
    control: Control<P>,
    first: List,
    round: List,
    longest: Longest,
    backlog: Backlog,
    counters: Counters,
    door: Door<P>,
    /// When connections were let in of late.
    entered: VecDeque<Instant>,
    loss: LossWindow,
    /// Flows with a backlog in each pool; kept only where pools share the link.
    busy: BTreeMap<IpAddr, u32>,
    /// Average length of a data packet on the link, in 1/16 bytes.
    mean_len: u64,
    /// The largest packet of late on the link, in bytes.
    largest: u64,
}

impl<P: Packet> Turns<P> {
    /// An empty queue for `link`; `seed` is for hashing.
    #[must_use]
    pub fn new(config: Config, link: ShaperConfig, seed: u64) -> Self {
        let tracker = TrackerConfig { capacity: config.flows as usize, ..TrackerConfig::default() };
        Self {
            tracker: Tracker::new(tracker, seed),
            config,
            link,
            slots: Vec::new(),
            store: Store::new(),
            control: Control::new(),
            first: List::default(),
            round: List::default(),
            longest: Longest::default(),
            backlog: Backlog::default(),
            counters: Counters::default(),
            door: Door::new(door_config(&config)),
            entered: VecDeque::new(),
            loss: LossWindow::new(config.w_loss),
            busy: BTreeMap::new(),
            mean_len: 1500 << 4,
            largest: 0,
        }
    }

    /// How long the link takes for a data packet.
    fn packet_time(&self) -> Duration {
        self.link.rate.time_to_send(Bytes(self.mean_len >> 4))
    }

    /// How long it takes to send one data packet of every flow that waits.
    fn round_time(&self) -> Duration {
        self.packet_time() * (self.first.len + self.round.len).max(1) as u64
    }

    /// The slot of a flow, as new if the flow is; `restarted` says that a new connection took the same key.
    fn slot(&mut self, id: FlowId, restarted: bool) -> &mut Slot {
        let at = id.0 as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Slot::default());
        }
        let generation = self.tracker.flow(id).generation();
        let slot = &mut self.slots[at];
        if restarted || slot.generation != Some(generation) {
            slot.restart(generation, i64::from(self.config.new_bytes));
        }
        slot
    }

    /// Puts a flow with a new backlog into a list.
    fn join(&mut self, now: Instant, id: u32) {
        let (round_time, turn) = (self.round_time(), self.turn_bytes());
        let slot = &mut self.slots[id as usize];
        if slot.place != Place::Out {
            return;
        }
        if self.config.share == Share::Pool {
            *self.busy.entry(self.tracker.flow(FlowId(id)).pool()).or_default() += 1;
        }
        let rested = slot.served_at.is_some_and(|t| now.since(t) >= round_time);
        if rested {
            // It has had nothing for a round: what it is owed is one turn, and its debt is paid.
            slot.credit = slot.credit.max(i64::from(self.config.new_bytes));
            slot.deficit = slot.deficit.max(0);
        }
        if self.config.new_first && slot.credit > 0 {
            slot.place = Place::First;
            self.first.push_back(&mut self.slots, id, |s| &mut s.turn);
        } else {
            slot.place = Place::Round;
            if slot.deficit <= 0 {
                slot.deficit += turn;
            }
            self.round.push_back(&mut self.slots, id, |s| &mut s.turn);
        }
    }

    /// Takes a flow without backlog out of its list.
    fn leave(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        let list = match core::mem::take(&mut slot.place) {
            Place::Out => return,
            Place::First => &mut self.first,
            Place::Round => &mut self.round,
        };
        list.remove(&mut self.slots, id, |s| &mut s.turn);
        if self.config.share == Share::Pool {
            let pool = self.tracker.flow(FlowId(id)).pool();
            if let Some(flows) = self.busy.get_mut(&pool) {
                *flows -= 1;
                if *flows == 0 {
                    self.busy.remove(&pool);
                }
            }
        }
    }

    /// The flow whose turn it is. Ends because each step of the round adds a quantum to somebody.
    fn next_flow(&mut self) -> Option<u32> {
        let turn = self.turn_bytes();
        loop {
            if self.first.len > 0 {
                let id = self.first.head;
                if self.slots[id as usize].credit > 0 {
                    return Some(id);
                }
                self.first.remove(&mut self.slots, id, |s| &mut s.turn);
                let slot = &mut self.slots[id as usize];
                slot.place = Place::Round;
                slot.deficit = slot.deficit.min(0) + turn;
                self.round.push_back(&mut self.slots, id, |s| &mut s.turn);
            } else if self.round.len > 0 {
                let id = self.round.head;
                if self.slots[id as usize].deficit > 0 {
                    return Some(id);
                }
                let quantum = self.quantum(id);
                self.slots[id as usize].deficit += quantum;
                self.round.remove(&mut self.slots, id, |s| &mut s.turn);
                self.round.push_back(&mut self.slots, id, |s| &mut s.turn);
            } else {
                return None;
            }
        }
    }

    /// What a turn is worth. With less than the largest packet a flow would miss a turn now and then, with more it would
    /// have several packets in one: either way somebody waits longer than a round.
    fn turn_bytes(&self) -> i64 {
        let auto = self.largest.max(64);
        i64::try_from(if self.config.quantum == 0 { auto } else { u64::from(self.config.quantum) })
            .unwrap_or(1514)
    }

    /// What a turn adds to a flow's deficit: more while it is young, so that short transfers end sooner.
    fn quantum(&self, id: u32) -> i64 {
        let slot = &self.slots[id as usize];
        let young = slot.served.get() < u64::from(self.config.young_kb) * 1000;
        let percent = if young { i64::from(self.config.young_weight) } else { 100 };
        let quantum = self.turn_bytes() * percent / 100;
        match self.config.share {
            Share::Flow => quantum,
            // A pool's flows divide its turn; eight bytes keep the round finite.
            Share::Pool => {
                let pool = self.tracker.flow(FlowId(id)).pool();
                (quantum / i64::from(self.busy.get(&pool).copied().unwrap_or(1))).max(8)
            }
        }
    }

    /// Takes a packet of a flow out of the store; the flow leaves its list if that was the last.
    fn take(&mut self, id: u32, at: u32) -> store::Entry<P> {
        let slot = &mut self.slots[id as usize];
        let entry = self.store.remove(&mut slot.chain, at, |p: &P| p.len().get());
        self.backlog.sub(entry.packet.len());
        self.tracker.unqueued(FlowId(id));
        self.longest.update(&mut self.slots, id);
        if self.slots[id as usize].chain.is_empty() {
            self.leave(id);
        }
        entry
    }

    fn drop_at(&mut self, now: Instant, id: u32, at: u32, reason: Reason, verdicts: &mut Verdicts<P>) {
        let packet = self.take(id, at).packet;
        self.tracker.dropped(now, FlowId(id), packet.header());
        self.loss.drop(now);
        self.counters.drop_for(reason);
        verdicts.push(Verdict::Dropped { packet, reason });
    }

    /// How many segments beyond what is served a sender may have under way: two for the turn, so that one waits while
    /// the other is answered, and what the round trip takes beside the turns of others.
    fn allowance(&self, id: u32) -> u32 {
        let slot = &self.slots[id as usize];
        let near = self.tracker.flow(FlowId(id)).min_rtt().unwrap_or(Duration::ZERO);
        let rtt = near + slot.far_rtt.unwrap_or(Duration::from_millis(100));
        let turn = self.round_time().as_nanos().max(1);
        let under_way = (2 * rtt.as_nanos() + turn / 2) / turn;
        let wanted = u64::from(self.config.clamp_min) + u64::from(slot.extra) + under_way;
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.config.clamp_max)
    }

    /// Answers a backlog beyond what the flow's turns need: by a mark, by a drop TCP repairs, or not yet.
    fn restrain(&mut self, now: Instant, id: u32, verdicts: &mut Verdicts<P>) {
        let slot = &self.slots[id as usize];
        let obeys = || slot.clamp.obeyed(self.tracker.flow(FlowId(id)).max_seq());
        if slot.chain.packets <= self.config.k || (self.config.clamp && obeys()) {
            return;
        }
        let limit = self.config.k.max(2 * self.allowance(id));
        let waiting = self.slots[id as usize].chain.packets;
        let grace = self.config.first_window_grace
            && waiting <= limit + 8
            && self.tracker.flow(FlowId(id)).sent_packets() <= 10;
        let patience = self.round_time() * 4 + Duration::from_secs(1);
        let slot = &self.slots[id as usize];
        if waiting <= limit || grace || slot.repair.is_open(now, patience) {
            return;
        }
        if let Some(at) = repair::pick(&self.store, &slot.chain) {
            self.mark_or_drop(now, id, at, verdicts);
        } else if !self.tracker.flow(FlowId(id)).is_tcp() && waiting > 2 * limit {
            self.drop_at(now, id, self.slots[id as usize].chain.head(), Reason::Sojourn, verdicts);
        }
    }

    fn mark_or_drop(&mut self, now: Instant, id: u32, at: u32, verdicts: &mut Verdicts<P>) {
        let entry = self.store.get_mut(at);
        let end = entry.packet.header().tcp.map(|t| t.seq_end()).unwrap_or_default();
        if self.config.mark && entry.packet.mark_ce() {
            self.counters.marked += 1;
            verdicts.push(Verdict::Marked { header: *entry.packet.header(), reason: Reason::Sojourn });
        } else if self.config.repairable {
            self.drop_at(now, id, at, Reason::Repairable, verdicts);
        } else {
            return;
        }
        self.slots[id as usize].repair.open(end, now);
    }

    /// Makes room: the longest backlog pays, with a packet it can repair if it has one.
    fn bound_memory(&mut self, now: Instant, verdicts: &mut Verdicts<P>) {
        while self.first.len + self.round.len > 0
            && (self.store.len() + self.control.len() > self.config.memory_packets as usize
                || self.backlog.bytes > self.config.memory_bytes)
        {
            // Where no flow has more than a packet or two, the one whose turn is farthest off.
            let tail = if self.round.len > 0 { self.round.tail } else { self.first.tail };
            let id = self.longest.flow().unwrap_or(tail);
            let chain = self.slots[id as usize].chain;
            let at = repair::pick(&self.store, &chain).unwrap_or(chain.tail());
            self.drop_at(now, id, at, Reason::OverLimit, verdicts);
        }
    }

    /// Whether a copy can be discarded (see [`duplicates`]).
    fn is_superfluous(&mut self, now: Instant, id: u32, tcp: &TcpHeader) -> bool {
        if !self.config.swallow {
            return false;
        }
        let (seq, end) = (tcp.seq, tcp.seq_end());
        let near = self.tracker.flow(FlowId(id)).min_rtt();
        let slot = &mut self.slots[id as usize];
        if duplicates::waits(&mut self.store, &slot.chain, seq, end) {
            return true;
        }
        if !self.config.swallow_departed {
            return false;
        }
        // A quarter more than the shortest round trip seen, for its jitter.
        let margin = |rtt: Duration| rtt + rtt / 4 + Duration::from_millis(2);
        if slot.highest_ack.is_some_and(|a| end.at_or_before(a)) {
            return slot.far_rtt.is_some_and(|far| now.since(slot.acked_at) < margin(far));
        }
        // 40 ms: the delayed acknowledgment of common stacks.
        near.zip(slot.far_rtt).is_some_and(|(near, far)| {
            slot.departures.swallow(end, now, margin(near + far) + Duration::from_millis(40))
        })
    }

    /// A retransmission goes before the flow's older packets when their turns are far off; their timestamps are raised
    /// to its own, or the receiver would discard them as old duplicates (PAWS, RFC 7323, section 5).
    fn goes_to_the_front(&mut self, id: u32, tcp: &TcpHeader) -> bool {
        let chain = self.slots[id as usize].chain;
        // Below this wait, overtaking makes the sender's RACK (RFC 8985) take the overtaken packets for lost.
        let far_off = Duration::from_millis(1500);
        if !self.config.front || chain.is_empty() || self.round_time() * u64::from(chain.packets) < far_off {
            return false;
        }
        let Some((tsval, _)) = tcp.timestamps else { return true };
        let mut at = chain.head();
        for _ in 0..chain.packets {
            let entry = self.store.get_mut(at);
            let older = entry
                .packet
                .header()
                .tcp
                .and_then(|t| t.timestamps)
                .is_some_and(|(v, _)| narrows_units::SeqNum(v).before(narrows_units::SeqNum(tsval)));
            if older {
                if !entry.packet.set_tsval(tsval) {
                    return false;
                }
                self.counters.restamped += 1;
            }
            at = entry.next();
        }
        true
    }

    fn note_arrival(&mut self, now: Instant, id: u32, kind: Kind, tcp: &TcpHeader) {
        let slot = &mut self.slots[id as usize];
        if kind == Kind::SynAck {
            slot.answered(now);
        }
        if let Some(mss) = tcp.mss {
            // Timestamps take 12 of it (RFC 7323, appendix A).
            let options = if tcp.timestamps.is_some() { 12 } else { 0 };
            let mss = mss.saturating_sub(options).max(1);
            slot.segment = if slot.segment == 0 { mss } else { slot.segment.min(mss) };
        }
        let payload = u16::try_from(tcp.payload).unwrap_or(u16::MAX);
        slot.segment = slot.segment.max(payload);
    }

    fn put(&mut self, now: Instant, id: u32, packet: P, kind: Kind, verdicts: &mut Verdicts<P>) {
        let len = packet.len();
        let idle = self.slots[id as usize].chain.is_empty();
        let room = self.store.len() + self.control.len() < self.config.memory_packets as usize;
        if room && self.config.new_first && Control::<P>::is_control(packet.header(), idle) {
            let share = Rate::from_bps(self.config.rho_r.of(self.link.rate.as_bps()));
            if self.control.pay(now, share, self.link.wire_len(len)) {
                self.backlog.add(len);
                self.tracker.queued(FlowId(id));
                self.control.push(id, packet);
                self.bound_memory(now, verdicts);
                return;
            }
        }
        let tcp = packet.header().tcp;
        let front = kind == Kind::Retransmission && tcp.is_some_and(|t| self.goes_to_the_front(id, &t));
        let new_data = matches!(kind, Kind::New | Kind::Fin | Kind::Reordered | Kind::NotTcp);
        let slot = &mut self.slots[id as usize];
        if front {
            self.store.push_front(&mut slot.chain, packet, len.get(), new_data);
        } else {
            self.store.push_back(&mut slot.chain, packet, len.get(), new_data);
        }
        self.backlog.add(len);
        self.tracker.queued(FlowId(id));
        self.longest.update(&mut self.slots, id);
        self.join(now, id);
        self.restrain(now, id, verdicts);
        self.bound_memory(now, verdicts);
    }

    fn note_departure(&mut self, now: Instant, id: u32, header: &Header, new_data: bool) {
        let wire = self.link.wire_len(header.len);
        let held = |slot: &Slot, max| slot.clamp.holds(max, u32::from(slot.segment));
        let max_seq = self.tracker.flow(FlowId(id)).max_seq();
        let slot = &mut self.slots[id as usize];
        if header.tcp.is_none_or(|t| t.payload > 0) {
            slot.served += header.len;
            slot.served_at = Some(now);
        }
        if let Some(tcp) = header.tcp {
            let end = tcp.seq_end();
            slot.served_end = Some(slot.served_end.map_or(end, |e| e.max(end)));
            if tcp.payload > 0 {
                if new_data {
                    slot.departures.note(end, now);
                    self.counters.goodput_bytes += Bytes(u64::from(tcp.payload));
                }
                if slot.chain.is_empty() && held(slot, max_seq) {
                    slot.extra = slot.extra.saturating_add(1).min(64);
                } else if slot.chain.packets >= 3 {
                    slot.extra = slot.extra.saturating_sub(1);
                }
            }
        }
        self.largest = wire.get().max(self.largest - self.largest / 1024);
        if header.is_tcp_data() || header.tcp.is_none() {
            self.mean_len = self.mean_len - (self.mean_len >> 4) + wire.get().min(1 << 16);
        }
        self.tracker.departed(now, FlowId(id), header);
    }

    /// A packet that may be queued.
    fn admit(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.loss.arrival(now);
        self.tracker.tick(now);
        let seen = self.tracker.forward(now, packet.header());
        self.counters.evicted += u64::from(seen.evicted_in_use);
        let Some(flow) = seen.id else {
            // The table is full of flows with a backlog: there is no turn to give.
            self.counters.drop_for(Reason::OverLimit);
            verdicts.push(Verdict::Dropped { packet, reason: Reason::OverLimit });
            return;
        };
        self.slot(flow, seen.fresh && seen.kind == Kind::Syn);
        if let Some(tcp) = packet.header().tcp {
            self.note_arrival(now, flow.0, seen.kind, &tcp);
            if seen.kind == Kind::Retransmission && self.is_superfluous(now, flow.0, &tcp) {
                self.counters.swallowed += 1;
                verdicts.push(Verdict::Swallowed { packet });
                return;
            }
        }
        self.put(now, flow.0, packet, seen.kind, verdicts);
    }

    /// Whether new pools have to wait: a round of one packet for everybody who is in takes longer than a silence may
    /// last. In are the flows that wait for a turn, and the connections let in a moment ago that have nothing to send yet.
    fn is_closed(&self, now: Instant) -> bool {
        let coming = self.entered.iter().rev().take_while(|t| now.since(**t) < COMING).count();
        let flows = (self.first.len + self.round.len + coming) as u64;
        self.packet_time() * flows >= self.config.round_limit_ms
    }

    /// Notes a connection that was let in.
    fn note_entry(&mut self, now: Instant) {
        while self.entered.front().is_some_and(|t| now.since(*t) >= COMING)
            || self.entered.len() >= MOST_COMING
        {
            self.entered.pop_front();
        }
        self.entered.push_back(now);
    }

    fn knock(&mut self, now: Instant, way: Way, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        if !self.config.admission || !Door::<P>::is_knock(packet.header()) {
            return Some(packet);
        }
        let closed = self.is_closed(now);
        let packet = self.door.knock(now, closed, way, packet, &mut self.counters, verdicts)?;
        self.note_entry(now);
        Some(packet)
    }
}

impl<P: Packet> Qdisc<P> for Turns<P> {
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if let Some(packet) = self.knock(now, Way::Own, packet, verdicts) {
            self.admit(now, packet, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        if let Some((id, packet)) = self.control.pop() {
            self.backlog.sub(packet.len());
            self.tracker.unqueued(FlowId(id));
            self.note_departure(now, id, packet.header(), false);
            self.counters.send(packet.len());
            return Some(packet);
        }
        let id = self.next_flow()?;
        let slot = &mut self.slots[id as usize];
        let on_credit = slot.place == Place::First;
        let at = slot.chain.head();
        let entry = self.take(id, at);
        let cost = i64::try_from(self.link.wire_len(entry.packet.len()).get()).unwrap_or(i64::MAX);
        let slot = &mut self.slots[id as usize];
        if on_credit {
            slot.credit -= cost;
        } else {
            slot.deficit -= cost;
        }
        self.note_departure(now, id, entry.packet.header(), entry.new_data);
        self.counters.send(entry.packet.len());
        Some(entry.packet)
    }

    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        let packet = self.knock(now, Way::Reverse, packet, verdicts)?;
        Some(self.pass_back(now, packet))
    }

    fn release_reverse(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        loop {
            let closed = self.is_closed(now);
            let released = self.door.release(now, closed, &mut self.counters, verdicts)?;
            self.note_entry(now);
            match released {
                (Way::Own, packet) => self.admit(now, packet, verdicts),
                (Way::Reverse, packet) => return Some(self.pass_back(now, packet)),
            }
        }
    }

    fn next_release(&self, now: Instant) -> Option<Instant> {
        // How many flows are active changes by time alone; a tenth of a second is soon enough for somebody who waits
        // for seconds, and counted from a fixed origin, so that it does not depend on who asks when.
        let step = 100_000_000;
        let recheck = Instant::from_nanos((now.as_nanos() / step + 1) * step);
        self.door.next_release(now, self.is_closed(now), recheck)
    }

    fn held(&self) -> usize {
        self.door.held()
    }

    fn release_all(&mut self, now: Instant) {
        self.door.release_all(now);
    }

    fn reconfigure(&mut self, _now: Instant, spec: &Spec, link: &ShaperConfig) -> bool {
        match spec {
            Spec::Taq(config) if config.mode == Mode::Default => {
                self.config = Config { flows: self.config.flows, ..*config };
                self.link = *link;
                self.door.reconfigure(door_config(config));
                true
            }
            _ => false,
        }
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        (self.backlog.packets > 0).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn report(&mut self, now: Instant) -> Report {
        let census = self.tracker.census(now);
        let class = |name, place, flows| {
            let mut backlog = Backlog::default();
            for slot in self.slots.iter().filter(|s| s.place == place) {
                backlog.packets += slot.chain.packets as usize;
                backlog.bytes += Bytes(slot.chain.bytes);
            }
            ClassReport { name, backlog, flows }
        };
        Report {
            name: "taq",
            counters: self.counters.clone(),
            backlog: self.backlog,
            classes: vec![
                ClassReport {
                    name: "control",
                    backlog: Backlog { packets: self.control.len(), bytes: self.control.bytes() },
                    flows: self.control.len(),
                },
                class("first", Place::First, self.first.len),
                class("round", Place::Round, self.round.len),
            ],
            states: Phase::ALL
                .iter()
                .map(|p| (p.name(), census.by_phase[p.index()]))
                .chain([("no_data_yet", census.unphased), ("not_tcp", census.not_tcp)])
                .collect(),
            flows: census.flows,
            active_flows: census.active,
            silent_flows: census.silent,
            longest_silence: census.longest_silence,
            loss_ppm: self.loss.rate(now).0,
            door: self.config.admission.then(|| self.door.report(now, self.is_closed(now))),
            bytes_per_flow: Tracker::BYTES_PER_FLOW + size_of::<Slot>(),
        }
    }
}

/// The line at the door. A pool joins its own earlier connections for `t_pool`; after that it stands in line like any
/// other, or those who are in would stay in for as long as they have something to ask for.
fn door_config(config: &Config) -> DoorConfig {
    DoorConfig {
        rule: Rule::Line { idle: config.t_pool, pace: Duration::ZERO, guarantee: Some(config.t_wait) },
        hold: config.holds_syns(),
        pools: config.pools as usize,
    }
}
