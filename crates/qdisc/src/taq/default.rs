//! TAQ's default mode.
//!
//! The paper's mode decides what to drop by what the flow's phase makes of it. This one removes the causes of drops
//! first, and drops only what TCP repairs without a timeout:
//!
//! - **Control packets first** ([`control`]).
//! - **A queue for each flow** ([`queues`]), served by deficit round robin in bytes (Shreedhar and Varghese, 1995). A
//!   flow's backlog harms nobody but itself. A sparse flow, which needs less than its share, is served at once. A new
//!   one goes before the old ones with a small credit ([`turns`]), on a part of the link ([`crate::new_flows`]).
//! - **Suppressed duplicates** ([`duplicates`]).
//! - **The window clamp** ([`clamp`]).
//! - **Marks, or drops a flow can repair** ([`repair`]), where the clamp does not reach: no timestamps of the
//!   handshake, one-way view, another transport.
//! - **Calls, games and marked packets first**, up to a share of the link ([`expedited`]).
//! - **QUIC**, known by its handshake, is held rather than dropped ([`quic`]).
//! - **Other datagrams** wait as long as their flow needs no more than its share, whole ([`datagrams`]).
//! - **Memory bounds** ([`backlog`]).
//! - **Admission control** ([`super::admission`]): new pools wait when a round takes longer than a stall may last.
//!
//! [`FlowQueues`] alone changes what waits. Each part is a struct with its own state, asked as a packet comes
//! ([`DefaultMode::admit`]), leaves ([`DefaultMode::send`]) or passes the other way ([`DefaultMode::pass_back`]). Each
//! can be switched off by name ([`super::DefaultConfig`]).
//!
//! Times are in nanoseconds, sizes in bytes of IP packet; DRR counts bytes on the link, framing included.

mod backlog;
mod clamp;
mod control;
mod datagrams;
mod duplicates;
mod expedited;
#[cfg(feature = "handover")]
mod handover;
mod load;
mod manage;
mod pending_repair;
mod per_flow;
mod queues;
mod quic;
mod repair;
#[cfg(test)]
mod tests;
mod turns;

use narrows_flow::{Flow, FlowId, Micros, PacketKind, Tracker, TrackerConfig};
use narrows_units::{Bytes, Dscp, Duration, Instant, SeqNum};
use narrows_users::User;
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

use self::expedited::{Asking, Expedited};
use self::load::Coming;
use self::queues::{End, FlowQueues, Raised};
use self::quic::QuicFlows;
use self::turns::{Rules, Turns};
use super::admission::{Admission, Decisions, Load, SynDirection};
use super::{Common, DefaultConfig, LossWindow};
use crate::{
    Ahead, Backlog, Counters, Discipline, Packet, Qdisc, Reason, ReversePath, ShaperConfig, Verdict,
    Verdicts, acks,
};

/// The round trip of a flow that is not TCP, as nothing tells its own: as CoDel assumes (RFC 8289, section 4.3).
const OTHERS_RTT: Duration = Duration::from_millis(100);

/// A retransmission that waits less goes behind its flow's older packets: overtaking would make the sender's RACK (RFC
/// 8985) take them for lost.
const FAR_OFF: Duration = Duration::from_millis(1500);

/// How far a retransmission may raise the timestamps of what waits: two minutes of a clock of microseconds, the fastest
/// in use. One that a stranger has raised further would make the receiver discard all that follows (PAWS).
const MOST_RAISED: u32 = 1 << 27;

/// How far beyond the number that the sender expects next the reset of its receiver may lie: what the receiver has sent
/// and the sender not yet acknowledged, on a path of a thin link.
const RESET_REACH: u32 = 64 << 10;

/// Default mode of TAQ, for one direction of a link.
#[derive(Debug)]
pub struct DefaultMode<P> {
    common: Common,
    config: DefaultConfig,
    link: ShaperConfig,
    queues: FlowQueues<P>,
    quic: QuicFlows,
    expedited: Expedited,
    admission: Admission<P>,
    coming: Coming,
    loss: LossWindow,
    counters: Counters,
}

/// A size as a credit or debt.
fn signed(bytes: u64) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// Facts about an arriving packet, read once.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    len: Bytes,
    /// Bytes on the link.
    cost: u64,
    /// The user, where the driver names the packet's user.
    user: Option<User>,
    tcp: bool,
}

impl Arrival {
    fn new(packet: &impl Packet, link: &ShaperConfig) -> Self {
        let (len, tcp) = (packet.len(), packet.header().tcp.is_some());
        Self { len, cost: link.wire_len(len).get(), user: packet.user(), tcp }
    }
}

/// Facts about a packet that leaves, read once.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    len: Bytes,
    /// Whether the packet brings the receiver data that was not sent before.
    new_data: bool,
    /// Time at which the packet came.
    came: Micros,
    tcp: Option<Segment>,
}

/// A segment that leaves.
#[derive(Clone, Copy, Debug)]
struct Segment {
    seq: SeqNum,
    end: SeqNum,
    payload: u32,
    /// [`duplicates::told`].
    told: u16,
}

impl Leaving {
    fn new(header: &Header, new_data: bool, came: Micros) -> Self {
        let segment = |tcp: &TcpHeader| Segment {
            seq: tcp.seq,
            end: tcp.seq_end(),
            payload: tcp.payload,
            told: duplicates::told(tcp),
        };
        Self { len: header.len, new_data, came, tcp: header.tcp.as_ref().map(segment) }
    }

    /// Whether the packet carries data; every packet other than TCP does.
    fn is_data(&self) -> bool {
        self.tcp.is_none_or(|segment| segment.payload > 0)
    }
}

impl<P: Packet> DefaultMode<P> {
    /// An empty queue for `link`; `seed` is for hashing.
    #[must_use]
    pub fn new(common: Common, config: DefaultConfig, link: ShaperConfig, seed: u64) -> Self {
        let tracker = TrackerConfig {
            capacity: common.flows as usize,
            users: common.users(&link, common.by_user()),
            ..TrackerConfig::default()
        };
        let rules = Rules::new(&common, &config, &link);
        let turns = Turns::new(rules, common.by_user(), common.pools as usize, seed);
        Self {
            common,
            config,
            link,
            queues: FlowQueues::new(Tracker::new(tracker, seed), turns),
            quic: QuicFlows::default(),
            expedited: Expedited::default(),
            admission: Admission::new(load::admission_config(&common, &config, &link)),
            coming: Coming::default(),
            loss: LossWindow::new(common.w_loss),
            counters: Counters::default(),
        }
    }

    /// Queues a packet that may pass, unless the packet need not be sent.
    fn admit(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.loss.arrival(now);
        let seen = self.queues.arrived(now, packet.header());
        self.counters.evicted += u64::from(seen.evicted_in_use);
        let Some(id) = seen.id else {
            // The table is full of flows with a backlog.
            self.counters.drop_packet(packet, Reason::OverLimit, verdicts);
            return;
        };
        if let Some(tcp) = packet.header().tcp.as_ref() {
            self.queues.note_segment(id, tcp);
        }
        let arrival = Arrival::new(&packet, &self.link);
        // Only a copy, or a packet that is not TCP, can be of no use.
        let doubtful = seen.kind == PacketKind::Retransmission || !arrival.tcp;
        if doubtful {
            // A copy of the header, seldom made: with a reference the packet itself would be copied at each call.
            let header = *packet.header();
            if self.is_of_no_use(now, id, &header, seen.kind, verdicts) {
                self.counters.suppressed += 1;
                verdicts.push(Verdict::Suppressed { packet });
                return;
            }
        }
        let idle = self.queues.state(id).waiting() == 0;
        if !arrival.tcp && self.refuses(now, id, packet.header(), idle) {
            self.loss.drop(now);
            self.counters.drop_packet(packet, Reason::Sojourn, verdicts);
            return;
        }
        let first = control::goes_first(&self.config, packet.header(), idle);
        if (first && self.may_go_before_flows(now, id, &arrival))
            || self.is_expedited(now, id, &packet, &arrival)
        {
            self.queues.push_control(id, packet);
        } else if first && !idle && self.is_last_superseded(id, packet.header()) {
            self.supersede(id, packet, verdicts);
        } else {
            let repairs = seen.kind == PacketKind::Retransmission
                && packet.header().tcp.as_ref().is_some_and(|tcp| self.overtakes(id, tcp));
            let end = if repairs { End::Front } else { End::Back };
            let new_data = matches!(
                seen.kind,
                PacketKind::New | PacketKind::Fin | PacketKind::Reordered | PacketKind::NotTcp
            );
            self.queues.push(now, id, packet, end, new_data, &arrival);
            self.manage_queue(now, id, verdicts);
        }
        self.bound_memory(now, verdicts);
    }

    /// Whether a packet that has just come need not be sent. Out of line as it is rare: in line, the code that a packet
    /// passes through is larger than a level-one cache, which costs 5 % (`per_packet`, `taq:share=flow` at 10 000
    /// flows: 154 ns for 146, with [`DefaultMode::manage_backlog`]).
    #[inline(never)]
    fn is_of_no_use(
        &mut self,
        now: Instant,
        id: FlowId,
        header: &Header,
        kind: PacketKind,
        verdicts: &mut Verdicts<P>,
    ) -> bool {
        match header.tcp.as_ref() {
            Some(tcp) if kind == PacketKind::Retransmission => self.is_superfluous(now, id, tcp),
            _ if header.key.proto == Proto::UDP => {
                let arrived = self.quic.arrived(now, &mut self.queues, id, header, &self.config);
                if let Some(packet) = arrived.probe {
                    self.counters.suppressed += 1;
                    verdicts.push(Verdict::Suppressed { packet });
                }
                arrived.useless
            }
            _ => false,
        }
    }

    /// Whether a copy can be discarded (see [`duplicates`]).
    fn is_superfluous(&mut self, now: Instant, id: FlowId, copy: &TcpHeader) -> bool {
        if !self.config.suppress_duplicates || !copy.sack.as_slice().is_empty() {
            return false;
        }
        if duplicates::waits(&mut self.queues, id, copy) {
            return true;
        }
        let flow = self.queues.flow(id);
        let (near, far) = (flow.receiver_rtt(), flow.sender_rtt());
        self.config.suppress_departed && self.queues.state_mut(id).departures.excuse(now, copy, near, far)
    }

    /// Whether there is room before all flows and a share of the link left for it; if so, the packet is charged for it.
    fn may_go_before_flows(&mut self, now: Instant, id: FlowId, packet: &Arrival) -> bool {
        self.has_room() && self.queues.may_send_control(now, id, packet)
    }

    /// Whether one more packet may wait before all flows.
    fn has_room(&self) -> bool {
        self.queues.backlog().packets < self.config.memory_packets as usize
    }

    /// Whether the acknowledgment that waits last in the flow's queue says nothing that this later one does not.
    /// Acknowledgments wait in a flow's queue only beyond the share of packets without data: where the link is so much
    /// thinner than the way of the data that they fill it (RFC 3449, section 5.2.1).
    fn is_last_superseded(&self, id: FlowId, later: &Header) -> bool {
        let last = self.queues.back(id).filter(|_| self.config.ack_filter);
        last.is_some_and(|last| acks::superfluous(self.queues.packet(last).header(), later))
    }

    /// Puts an acknowledgment in the place of the one that waits last: the flow keeps its turn, and has no other.
    #[cold]
    fn supersede(&mut self, id: FlowId, later: P, verdicts: &mut Verdicts<P>) {
        if let Some(packet) = self.queues.replace_last(id, later) {
            self.counters.suppressed += 1;
            verdicts.push(Verdict::Suppressed { packet });
        }
    }

    /// Whether the packet goes before all flows by the rules of [`expedited`]; if so, it is charged for that.
    #[inline]
    fn is_expedited(&mut self, now: Instant, id: FlowId, packet: &P, arrival: &Arrival) -> bool {
        let header = packet.header();
        if arrival.tcp && header.dscp == Dscp::DEFAULT {
            return false;
        }
        let waiting = self.queues.state(id).waiting();
        let asking = Asking { id, flow: self.queues.flow(id), header, waiting };
        let kind = self.expedited.kind(now, &asking, &self.quic, &self.config, self.link.users);
        if kind.single && self.config.new_flows_first && self.may_go_before_flows(now, id, arrival) {
            return true;
        }
        let user = arrival.user.unwrap_or_else(|| self.queues.tracker().user(id));
        kind.expedited
            && self.has_room()
            && self.expedited.admits(now, user, arrival, &self.config, &self.link)
    }

    /// A retransmission goes before the flow's older packets when they have long to wait; their timestamps are raised
    /// to its own, or the receiver would discard them as old duplicates (PAWS, RFC 7323, section 5). The copy must be
    /// of what the sender has under way: only the two ends know which numbers these are.
    #[cold]
    fn overtakes(&mut self, id: FlowId, copy: &TcpHeader) -> bool {
        let waiting = self.queues.state(id).waiting();
        if !self.config.retransmissions_first
            || waiting == 0
            || self.queues.round(id) * u64::from(waiting) < FAR_OFF
        {
            return false;
        }
        let flow = self.queues.flow(id);
        if !flow.has_passed(copy) || flow.highest_ack().is_some_and(|ack| copy.seq_end().at_or_before(ack)) {
            return false;
        }
        let Some((tsval, _)) = copy.timestamps else { return true };
        // If the first can be changed, so can all: signed are all segments of a connection, or none. The others are
        // changed as they leave, so that it costs as much however many there are.
        let Some(front) = self.queues.front(id) else { return true };
        let first = self.queues.packet_mut(front);
        let raised =
            first.header().tcp.and_then(|t| t.timestamps).map(|(older, _)| tsval.wrapping_sub(older));
        match raised {
            Some(1..=MOST_RAISED) if !first.set_tsval(tsval) => return false,
            Some(1..=MOST_RAISED) => self.counters.restamped += 1,
            Some(by) if by.cast_signed() > 0 => return false,
            _ => {}
        }
        self.queues.state_mut(id).raised.to(SeqNum(tsval));
        true
    }

    /// Raises the timestamp of a packet that leaves to that of one that has overtaken it.
    #[cold]
    fn restamp(&mut self, id: FlowId, at: u32) {
        let state = self.queues.state_mut(id);
        let Some(least) = state.raised.least() else { return };
        if state.waiting() == 1 {
            state.raised = Raised::default();
        }
        let packet = self.queues.packet_mut(at);
        let older = packet.header().tcp.and_then(|t| t.timestamps).is_some_and(|t| SeqNum(t.0).before(least));
        if older && packet.set_tsval(least.0) {
            self.counters.restamped += 1;
        }
    }

    /// Sends the first of the packets that go before all flows.
    fn send_control(&mut self, now: Instant) -> Option<P> {
        let (id, packet) = self.queues.pop_control(now)?;
        self.note_departure(now, id, &Leaving::new(packet.header(), false, Micros::at(now)));
        Some(packet)
    }

    /// Sends the first packet of the flow whose turn it is. The packet stays at its place until all is noted, so that
    /// it is copied once, to where the driver wants it.
    fn send(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        let quic = &self.quic;
        let id = self.queues.next_flow(now, |id, flow, round| quic.yields(now, id, flow, round))?;
        let at = self.queues.front(id)?;
        if self.queues.state(id).raised.least().is_some() {
            self.restamp(id, at);
        }
        let (new_data, came) = (self.queues.is_new_data(at), self.queues.came(at));
        let leaving = Leaving::new(self.queues.packet(at).header(), new_data, came);
        let first_data = self.queues.serve(now, id, at, leaving.len, leaving.is_data());
        self.note_departure(now, id, &leaving);
        let packet = self.queues.packet(at);
        if first_data && leaving.tcp.is_some() && self.common.admission {
            // Whoever opened the flow is no made-up address.
            let opened = self.queues.flow(id).is_called_for();
            if let Some(pool) = self.admission.of_flow(packet, opened) {
                self.admission.prove(pool);
            }
        }
        let header = packet.header();
        if header.key.proto == Proto::UDP
            && self.quic.departed(now, id, self.queues.flow(id), header.len, quic::is_handshake(header))
        {
            self.purge(now, id, verdicts);
        }
        self.queues.fetch_next();
        self.queues.release(at)
    }

    /// Has the parts note what leaves.
    fn note_departure(&mut self, now: Instant, id: FlowId, leaving: &Leaving) {
        self.counters.send(leaving.len);
        let Some(Segment { seq, end, payload, told }) = leaving.tcp else { return };
        let max_seq = self.queues.flow(id).max_seq();
        let state = self.queues.state_mut(id);
        let waiting = state.waiting();
        state.clamp.note_departure(end, payload, waiting, max_seq);
        if payload > 0 && leaving.new_data {
            state.departures.note(seq, end, told, leaving.came, Micros::at(now));
            self.counters.goodput_bytes += Bytes(u64::from(payload));
        }
    }

    /// Shows a packet of the other direction to the flow it answers, and clamps its window.
    fn pass_back(&mut self, now: Instant, mut packet: P, verdicts: &mut Verdicts<P>) -> P {
        let late = self.queues.tracker().is_behind_others();
        if let Some(refused) = packet.header().refused() {
            self.refused(now, &refused, verdicts);
        }
        let id = self.queues.tracker_mut().reverse(now, packet.header());
        self.queues.hear(id, &packet);
        let Some(id) = id else { return packet };
        if packet.header().key.proto == Proto::UDP {
            self.quic.answered(now, id, self.queues.flow(id), packet.header());
            let flow = self.queues.flow(id);
            self.expedited.answered(now, id, flow, packet.header(), &self.config, self.link.users);
        }
        let Some(tcp) = packet.header().tcp else { return packet };
        let begins = tcp.flags.has(Flags::SYN) && self.queues.tracker_mut().take_restart(id);
        self.queues.make_state(id, begins);
        self.queues.note_mss(id, &tcp);
        if tcp.flags.has(Flags::RST) {
            if self.is_reset(id, &tcp) {
                self.purge(now, id, verdicts);
            }
        } else if tcp.flags.has(Flags::ACK) && self.queues.flow(id).permits(tcp.ack) {
            let state = self.queues.state_mut(id);
            if state.departures.acknowledged(now, &tcp) {
                state.repair.acknowledged(tcp.ack);
            }
            // A segment within a tunnel cannot be changed, so its window stays.
            if !packet.header().key.is_in_tunnel()
                && let Some(window) = self.clamped_window(id, &tcp, late)
                && packet.set_window(window)
            {
                self.counters.clamped += 1;
            }
        }
        packet
    }

    /// A host says that nobody listens on a port of its own any more. Anybody can say so in its name who knows the
    /// ports, so it is believed only of a receiver that has fallen silent.
    fn refused(&mut self, now: Instant, key: &FlowKey, verdicts: &mut Verdicts<P>) {
        let Some(id) = self.queues.tracker().lookup(key) else { return };
        if self.quic.is_silent(id, self.queues.flow(id)) {
            self.purge(now, id, verdicts);
        }
    }

    /// Whether a reset of the receiver is of this connection: its number is what the data that waits says to be
    /// expected next (RFC 9293, section 3.10.7.4), or of what the receiver has sent since.
    fn is_reset(&self, id: FlowId, rst: &TcpHeader) -> bool {
        let oldest = self.queues.front(id).and_then(|at| self.queues.packet(at).header().tcp.as_ref());
        oldest.is_some_and(|tcp| rst.seq - tcp.ack < RESET_REACH)
    }

    /// The window that an acknowledgment is to tell, if another than it tells. The acknowledgment is `late` if it has
    /// to wait here.
    fn clamped_window(&mut self, id: FlowId, tcp: &TcpHeader, late: bool) -> Option<u16> {
        if tcp.flags.0 & (Flags::SYN.0 | Flags::RST.0) != 0 {
            return None;
        }
        let flow = self.queues.flow(id);
        let scale = self.clamped_scale(flow)?;
        let (segments, max_seq) = (self.in_flight(id), flow.max_seq());
        self.queues.state_mut(id).clamp.window(tcp, scale, segments, max_seq, late)
    }

    /// The scale of the window of a flow whose sender may be held back; `None` if the sender is not.
    fn clamped_scale(&self, flow: &Flow) -> Option<u8> {
        // Without the far side's round trip nobody can say how much must be under way.
        flow.sender_rtt().filter(|_| self.config.window_clamp)?;
        // A scale is in force only if both sides have offered one (RFC 7323, section 2.2).
        flow.forward_scale().and(flow.reverse_scale())
    }

    /// Whether new pools have to wait: a round of one full packet for each pool that is served takes longer than a
    /// stall may last. Served are the pools of the flows with packets waiting (a user with four connections stalls only
    /// if all four do), and the connections admitted a moment ago that have nothing to send yet.
    fn load(&self, now: Instant) -> Load {
        let turns = self.queues.turns();
        let flows = || turns.flows().min(self.queues.tracker().active_users());
        let waiting = turns.users().unwrap_or_else(flows);
        let round = turns.quantum_time() * (waiting + self.coming.count(now)) as u64;
        Load { overloaded: round >= self.config.round_limit_ms, round }
    }

    /// Lets a packet pass that asks for no connection, or for one that is admitted; else keeps or refuses it.
    fn request(
        &mut self,
        now: Instant,
        way: SynDirection,
        packet: P,
        verdicts: &mut Verdicts<P>,
    ) -> Option<P> {
        if !self.common.admission || !Admission::<P>::is_connection_request(packet.header()) {
            return Some(packet);
        }
        let load = self.load(now);
        let mut decisions = Decisions { counters: &mut self.counters, verdicts };
        let packet = self.admission.request(now, load, way, packet, &mut decisions)?;
        let user = self.admission.user(way, &packet);
        if self.queues.tracker().active_of(user) == 0 {
            self.coming.note(now, user);
        }
        Some(packet)
    }

    /// Holds a packet that asks for a connection until admission, or queues the packet at once.
    #[cold]
    fn enqueue_request(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        if let Some(packet) = self.request(now, SynDirection::Own, packet, verdicts) {
            self.admit(now, packet, verdicts);
        }
    }
}

impl<P: Packet> Qdisc<P> for DefaultMode<P> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        self.queues.fetch(flow, ahead);
    }

    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if self.common.admission && Admission::<P>::is_connection_request(packet.header()) {
            self.enqueue_request(now, packet, verdicts);
        } else {
            self.admit(now, packet, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        let mut packet =
            if self.queues.control().packets > 0 { self.send_control(now) } else { self.send(now, verdicts) };
        if self.config.wash
            && let Some(packet) = &mut packet
            && packet.header().dscp != Dscp::DEFAULT
        {
            packet.set_dscp(Dscp::DEFAULT);
        }
        packet
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        match self.queues.turns().next_ready(now) {
            Some(ready) if self.queues.control().packets == 0 => ready,
            _ => (self.backlog().packets > 0).then_some(now),
        }
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}

impl<P: Packet> ReversePath<P> for DefaultMode<P> {
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        let packet = self.request(now, SynDirection::Reverse, packet, verdicts)?;
        Some(self.pass_back(now, packet, verdicts))
    }

    fn behind_others(&mut self) {
        self.queues.tracker_mut().behind_others();
    }

    fn link_is_before(&mut self, before: bool) {
        self.queues.wait_elsewhere(before);
        self.quic.link_is_before(before);
    }

    fn brings_more(&self, left: &Header) -> bool {
        let Some(id) = left.tcp.and_then(|_| self.queues.tracker().lookup(&left.key)) else { return true };
        let flow = self.queues.flow(id);
        self.clamped_scale(flow).is_none()
            || self.queues.state(id).clamp.permits_more(self.in_flight(id), flow.max_seq())
    }

    fn release(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        loop {
            let load = self.load(now);
            let mut decisions = Decisions { counters: &mut self.counters, verdicts };
            let (way, packet) = self.admission.release(now, load, &mut decisions)?;
            self.coming.note(now, self.admission.user(way, &packet));
            match way {
                SynDirection::Own => self.admit(now, packet, verdicts),
                SynDirection::Reverse => return Some(self.pass_back(now, packet, verdicts)),
            }
        }
    }

    fn next_release(&self, now: Instant) -> Option<Instant> {
        if self.admission.held() == 0 {
            return None;
        }
        self.admission.next_release(now, self.load(now), self.coming.next_change(now))
    }

    fn held(&self) -> usize {
        self.admission.held()
    }

    fn release_all(&mut self, now: Instant) {
        self.admission.release_all(now);
    }
}

impl<P: Packet> Discipline<P> for DefaultMode<P> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        Some(self)
    }

    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        Some(self)
    }
}
