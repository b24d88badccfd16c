//! TAQ's default mode.
//!
//! The paper's mode decides what to drop by what the flow's phase makes of it. This one removes the causes of drops
//! first, and drops only what TCP repairs without a timeout:
//!
//! - **Control packets first** ([`control`]).
//! - **A queue for each flow**, served by deficit round robin in bytes (Shreedhar and Varghese, 1995). A flow's backlog
//!   harms nobody but itself. A sparse flow, which needs less than its share, is served at once. A new one goes before
//!   the old ones with a small credit, so that first packets do not wait (the new list of RFC 8290, here a budget for
//!   each flow's life), on a part of the link ([`crate::new_flows`]).
//! - **Suppressed duplicates** ([`duplicates`]).
//! - **The window clamp** ([`clamp`]).
//! - **Marks, or drops a flow can repair** ([`repair`]), where the clamp does not reach: no timestamps of the
//!   handshake, one-way view, another transport.
//! - **Memory bounds** ([`longest`]).
//! - **Admission control** ([`super::admission`]): new pools wait when a round takes longer than a stall may last.
//!
//! Each part can be switched off by name ([`super::DefaultConfig`]). Times are in nanoseconds, sizes in bytes of IP
//! packet; DRR counts bytes on the link, framing included.

mod ahead;
mod aqm;
mod arrive;
mod clamp;
mod control;
mod drr;
mod duplicates;
mod flow_state;
#[cfg(feature = "handover")]
mod handover;
mod load;
mod longest;
mod manage;
mod packets;
mod quic;
mod repair;
mod reverse;
mod send;
mod strangers;
#[cfg(test)]
mod tests;
mod turns;

use std::cell::Cell;
use std::collections::VecDeque;

use narrows_flow::{FlowId, Tracker, TrackerConfig};
use narrows_units::{Bytes, Duration, Instant};
use narrows_users::User;
use narrows_wire::{FlowKey, TcpHeader};

use self::arrive::Arrival;
use self::control::ControlPackets;
use self::flow_state::FlowState;
use self::longest::Longest;
use self::packets::PacketSlab;
use self::quic::QuicFlow;
use self::turns::Turns;
use super::admission::{Admission, Decisions, SynDirection};
use super::{Common, DefaultConfig, LossWindow};
use crate::{
    Ahead, Backlog, Counters, Discipline, Packet, Qdisc, Reason, ReversePath, ShaperConfig, Verdicts,
};

/// TAQ in its default mode, for one direction of a link.
#[derive(Debug)]
pub struct DefaultMode<P> {
    common: Common,
    config: DefaultConfig,
    link: ShaperConfig,
    tracker: Tracker,
    flows: Vec<FlowState>,
    /// By the same slots; as long as the last flow of QUIC needs.
    quic: Vec<QuicFlow>,
    packets: PacketSlab<P>,
    control: ControlPackets<P>,
    turns: Turns,
    longest: Longest,
    backlog: Backlog,
    counters: Counters,
    admission: Admission<P>,
    /// When connections were admitted of late.
    admitted_at: VecDeque<Instant>,
    /// Whose they are.
    coming: VecDeque<User>,
    loss: LossWindow,
    /// Average length of a data packet on the link, in 1/16 bytes.
    mean_len: u64,
    /// How long the link takes for such a packet.
    packet_time: Duration,
    /// The largest packet of late on the link, in bytes.
    largest: u64,
    /// The slot of the flow whose packet was announced last: by the next time its user can be read.
    announced: Cell<usize>,
}

/// A size as a credit or debt.
fn signed(bytes: u64) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
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
        Self {
            tracker: Tracker::new(tracker, seed),
            common,
            config,
            link,
            flows: Vec::new(),
            quic: Vec::new(),
            packets: PacketSlab::new(),
            control: ControlPackets::new(),
            turns: load::turns(&common, &config, &link, seed),
            longest: Longest::default(),
            backlog: Backlog::default(),
            counters: Counters::default(),
            admission: Admission::new(load::admission_config(&common, &config, &link)),
            admitted_at: VecDeque::new(),
            coming: VecDeque::new(),
            loss: LossWindow::new(common.w_loss),
            mean_len: 1500 << 4,
            packet_time: link.rate.time_to_send(Bytes(1500)),
            largest: 0,
            announced: Cell::new(usize::MAX),
        }
    }

    /// The state of a flow, as new if the flow is; `restarted` says that a new connection took the same key.
    fn flow_state(&mut self, id: FlowId, restarted: bool) -> &mut FlowState {
        let at = id.0 as usize;
        if at >= self.flows.len() {
            self.flows.resize(at + 1, FlowState::default());
        }
        let generation = self.tracker.flow(id).generation();
        let slot = &mut self.flows[at];
        if restarted || slot.generation != generation {
            slot.restart(generation, signed(self.config.new_quantum.into()));
        }
        slot
    }

    /// Takes a packet of a flow out of the store; the flow leaves its list if that was the last.
    fn take(&mut self, id: u32, at: u32) -> Option<P> {
        let slot = &mut self.flows[id as usize];
        let len = self.packets.get(at).len();
        self.packets.unlink(&mut slot.queue, at, len.get());
        self.backlog.sub(len);
        self.tracker.unqueued(FlowId(id));
        self.longest.update(&mut self.flows, id);
        self.turns.queued(&self.flows[id as usize], false);
        if self.flows[id as usize].queue.is_empty() {
            self.leave(id);
        }
        self.packets.release(at)
    }

    #[cold]
    fn drop_at(&mut self, now: Instant, id: u32, at: u32, reason: Reason, verdicts: &mut Verdicts<P>) {
        let Some(packet) = self.take(id, at) else { return };
        self.tracker.dropped(now, FlowId(id), packet.header());
        self.loss.drop(now);
        self.counters.drop_packet(packet, reason, verdicts);
    }

    /// Whether a copy can be discarded (see [`duplicates`]).
    #[inline(never)]
    fn is_superfluous(&mut self, now: Instant, id: u32, copy: &TcpHeader) -> bool {
        if !self.config.suppress_duplicates || !copy.sack.as_slice().is_empty() {
            return false;
        }
        let (seq, end) = (copy.seq, copy.seq_end());
        let flow = self.tracker.flow(FlowId(id));
        let (near, far) = (flow.receiver_rtt(), flow.sender_rtt());
        let slot = &mut self.flows[id as usize];
        if duplicates::waits(&mut self.packets, &slot.queue, copy) {
            return true;
        }
        if !self.config.suppress_departed || slot.departures.told_else(seq, end, duplicates::told(copy)) {
            return false;
        }
        // A quarter more than the shortest round trip seen, for its jitter.
        let margin = |rtt: Duration| rtt + rtt / 4 + Duration::from_millis(2);
        if slot.highest_ack.is_some_and(|a| end.at_or_before(a)) {
            return far.is_some_and(|far| now.since(slot.acked_at) < margin(far));
        }
        if slot.repair.shows_loss() && slot.highest_ack.is_some_and(|a| a.at_or_before(seq)) {
            // Lost behind the box.
            return false;
        }
        // 40 ms: the delayed acknowledgment of common stacks.
        near.zip(far).is_some_and(|(near, far)| {
            slot.departures.suppress(seq, end, now, margin(near + far) + Duration::from_millis(40))
        })
    }

    /// A packet that asks for a connection, and may have to wait.
    #[cold]
    fn enqueue_request(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        if let Some(packet) = self.request(now, SynDirection::Own, packet, verdicts) {
            self.admit(now, packet, verdicts);
        }
    }
}

impl<P: Packet> Qdisc<P> for DefaultMode<P> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        self.fetch(flow, ahead);
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
        if self.control.len() > 0 {
            return self.send_control(now);
        }
        let id = self.next_flow(now)?;
        let slot = &self.flows[id as usize];
        let at = slot.queue.head()?;
        self.send(now, id, at, verdicts)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        match &self.turns.by_user {
            Some(by) if self.control.len() == 0 => by.users.next_ready(now),
            _ => (self.backlog.packets > 0).then_some(now),
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> ReversePath<P> for DefaultMode<P> {
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        let packet = self.request(now, SynDirection::Reverse, packet, verdicts)?;
        Some(self.pass_back(now, packet, verdicts))
    }

    fn behind_others(&mut self) {
        self.tracker.behind_others();
    }

    fn release(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        loop {
            let load = self.load(now);
            let mut decisions = Decisions { counters: &mut self.counters, verdicts };
            let released = self.admission.release(now, load, &mut decisions)?;
            self.note_admission(now, self.admission.user(released.0, &released.1));
            match released {
                (SynDirection::Own, packet) => {
                    self.admit(now, packet, verdicts);
                }
                (SynDirection::Reverse, packet) => return Some(self.pass_back(now, packet, verdicts)),
            }
        }
    }

    fn next_release(&self, now: Instant) -> Option<Instant> {
        if self.admission.held() == 0 {
            return None;
        }
        self.admission.next_release(now, self.load(now), self.next_change(now))
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
