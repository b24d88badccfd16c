//! Flows, and what waits of each: the one place that inserts packets, takes them out, drops them and counts them.
//!
//! A packet that waits is known in six places: the slab, its flow's queue, the backlog, the buckets of the longest
//! flows, the tracker's record (which stays while anything waits) and the turns of flows and users. Only the methods
//! here touch any of them, and each brings all in line: [`FlowQueues::push`], [`FlowQueues::push_control`] and, for
//! packets that leave, [`FlowQueues::serve`], [`FlowQueues::pop_control`], [`FlowQueues::take`] and
//! [`FlowQueues::drop`]. Whoever else needs a packet reads it, or marks it where it stands.
//!
//! All packets lie in one slab with a doubly linked FIFO per flow: no allocation per packet, none per flow. They lie
//! apart from their links, so that each is copied once on its way in and once on its way out.

use std::cell::Cell;
use std::collections::VecDeque;

use narrows_flow::{Flow, FlowId, Micros, Observation, Tracker};
use narrows_lists::{Arena as _, Links, List, NIL, Slab, linked, prefetch};
use narrows_units::{Bytes, Duration, Instant, SeqNum};
use narrows_wire::{Flags, FlowKey, Header, TcpHeader};

use super::Arrival;
use super::clamp::WindowClamp;
use super::datagrams::Datagrams;
use super::duplicates::Departures;
use super::pending_repair::PendingRepair;
use super::turns::{FlowTurn, Rules, Sent, Turns};
use crate::deficit::Place;
use crate::{Ahead, Backlog, Packet};

/// A flow's queue: where it starts and ends in the slab, and what it holds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct FlowQueue {
    list: List,
    /// Bytes of the flow's packets: `memory_bytes` is below 2^32.
    bytes: u32,
    /// Neighbours among flows with as long a backlog.
    rank: Links,
    /// Packet before which no packet can be repaired; [`NIL`]: no packet at all can be repaired.
    repairable: u32,
}

impl Default for FlowQueue {
    fn default() -> Self {
        Self { list: List::EMPTY, bytes: 0, rank: Links::NONE, repairable: NIL }
    }
}

/// The timestamp that nothing which waits may fall behind, as a later one has overtaken it.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Raised {
    tsval: SeqNum,
    any: bool,
}

impl Raised {
    /// Raises the least timestamp to `tsval`, if that is later.
    pub fn to(&mut self, tsval: SeqNum) {
        *self = Self { tsval: self.least().map_or(tsval, |least| least.max(tsval)), any: true };
    }

    /// The least timestamp with which a packet may leave, if there is one.
    pub fn least(self) -> Option<SeqNum> {
        self.any.then_some(self.tsval)
    }
}

/// One flow, by cache line: what each packet touches, what answers and what is known of the connection, what has left.
/// The parts own their states: each is private to its file.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[repr(C, align(64))]
pub struct FlowState {
    #[cfg_attr(feature = "handover", serde(skip))]
    queue: FlowQueue,
    /// The tracker's count of flows that had this record, and one more; 0 if none had.
    generation: u32,
    pub turn: FlowTurn,
    pub clamp: WindowClamp,
    pub repair: PendingRepair,
    pub raised: Raised,
    pub datagrams: Datagrams,
    pub departures: Departures,
}

const _: () = assert!(size_of::<FlowState>() == 3 * 64);
const _: () = assert!(core::mem::offset_of!(FlowState, turn) < 64);
const _: () = assert!(core::mem::offset_of!(FlowState, departures) == 2 * 64 - 16);

impl FlowState {
    /// Starts a new connection of the same addresses. Waiting packets stay.
    fn restart(&mut self, generation: u32, credit: i32) {
        self.turn.restart(credit);
        *self = Self { queue: self.queue, turn: self.turn, generation, ..Self::default() };
    }

    /// Whether the record is of the flow that the tracker has there now.
    fn is_of(&self, flow: &Flow) -> bool {
        self.generation == flow.generation() + 1
    }

    /// Packets waiting.
    pub const fn waiting(&self) -> u32 {
        self.queue.list.len()
    }

    /// Bytes waiting.
    pub const fn bytes(&self) -> u64 {
        self.queue.bytes as u64
    }

    /// Has its lines fetched from memory together, before they are needed one by one.
    fn prefetch(&self) {
        prefetch(&self.queue);
        prefetch(&self.repair);
        prefetch(&self.departures);
    }
}

/// Lists of flows with as long a backlog.
#[derive(Debug)]
enum Rank {}

linked!(FlowState, Rank: queue.rank);

/// The flow with the longest backlog, found without a search: flows in buckets of 512 bytes; the last bucket holds all
/// from 32 kB on.
#[derive(Debug)]
struct Longest {
    buckets: Box<[List<Rank>; BUCKETS]>,
    used: u64,
}

const BUCKETS: usize = 64;
/// Flows with less than this many half-kilobytes are in no bucket: they are many, and never the longest.
const SHORTEST: u32 = 4;

impl Longest {
    fn new() -> Self {
        Self { buckets: Box::new([List::EMPTY; BUCKETS]), used: 0 }
    }

    const fn bucket(bytes: u32) -> usize {
        let halves = bytes >> 9;
        if halves < SHORTEST {
            0
        } else if halves < BUCKETS as u32 {
            halves as usize
        } else {
            BUCKETS - 1
        }
    }

    /// Moves a flow that had `before` bytes waiting to the bucket of its backlog.
    #[inline]
    fn update(&mut self, flows: &mut [FlowState], id: u32, before: u32) {
        let (old, new) = (Self::bucket(before), Self::bucket(flows[id as usize].queue.bytes));
        if old != new {
            self.move_to(flows, id, old, new);
        }
    }

    fn move_to(&mut self, flows: &mut [FlowState], id: u32, old: usize, new: usize) {
        if old != 0 {
            let list = &mut self.buckets[old];
            list.remove(flows, id);
            if list.is_empty() {
                self.used &= !(1 << old);
            }
        }
        if new != 0 {
            self.buckets[new].push_back(flows, id);
            self.used |= 1 << new;
        }
    }

    /// A flow of the fullest bucket: the one that has been in it for the longest, so that ties do not fall on new
    /// flows.
    fn flow(&self) -> Option<u32> {
        let top = 63u32.checked_sub(self.used.leading_zeros())?;
        self.buckets.get(top as usize)?.first()
    }
}

/// State of one waiting packet, beside the packet.
#[derive(Debug)]
struct Entry {
    links: Links,
    /// Whether the packet brings the receiver data that was not seen before.
    new_data: bool,
    /// Whether a copy of the packet has been suppressed: its sender may not hear of a loss of it for long.
    protected: bool,
    came: Micros,
}

linked!(Entry, (): links);

/// The end of a flow's queue that a packet comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Front,
    Back,
}

/// Flows, with the flows' queues and turns.
#[derive(Debug)]
pub struct FlowQueues<P> {
    tracker: Tracker,
    /// Flows by the tracker's slots.
    flows: Vec<FlowState>,
    slab: Slab<Entry>,
    /// Packets by the slab's places; `None` in a free place.
    packets: Vec<Option<P>>,
    /// Packets that go before all flows.
    control: VecDeque<(FlowId, P)>,
    control_bytes: Bytes,
    longest: Longest,
    turns: Turns,
    backlog: Backlog,
    /// The slot of the flow whose packet was announced last: by the next time its user can be read.
    announced: Cell<usize>,
}

/// Whether a packet is an acknowledgment and no more.
fn acknowledges(header: &Header) -> bool {
    header.tcp.as_ref().is_some_and(TcpHeader::is_pure_ack)
}

/// Reason why a place cannot be empty.
const IN_USE: &str = "queues hold only places in use";

/// Records of flows.
impl<P: Packet> FlowQueues<P> {
    pub fn new(tracker: Tracker, turns: Turns) -> Self {
        Self {
            tracker,
            flows: Vec::new(),
            slab: Slab::new(),
            packets: Vec::new(),
            control: VecDeque::new(),
            control_bytes: Bytes::ZERO,
            longest: Longest::new(),
            turns,
            backlog: Backlog::default(),
            announced: Cell::new(usize::MAX),
        }
    }

    pub fn reconfigure(&mut self, rules: Rules) {
        self.turns.reconfigure(rules);
    }

    pub const fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// The tracker, for callers that tell the tracker nothing of packets that wait.
    pub const fn tracker_mut(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    pub const fn turns(&self) -> &Turns {
        &self.turns
    }

    /// The turns, for what concerns no flow.
    pub const fn turns_mut(&mut self) -> &mut Turns {
        &mut self.turns
    }

    /// The tracker's record of a flow.
    pub fn flow(&self, id: FlowId) -> &Flow {
        self.tracker.flow(id)
    }

    /// State of a flow whose first packet has been seen.
    pub fn state(&self, id: FlowId) -> &FlowState {
        &self.flows[id.index()]
    }

    /// State of a flow whose first packet has been seen, to be changed.
    pub fn state_mut(&mut self, id: FlowId) -> &mut FlowState {
        &mut self.flows[id.index()]
    }

    /// The state of a flow, if there is any.
    pub fn find(&self, id: FlowId) -> Option<&FlowState> {
        self.flows.get(id.index())
    }

    /// All states, also of flows that are gone.
    pub fn states(&self) -> impl Iterator<Item = &FlowState> {
        self.flows.iter()
    }

    /// The state of a flow, as new if the flow is; `restarted` says that a new connection took the same key.
    pub fn make_state(&mut self, id: FlowId, restarted: bool) -> &mut FlowState {
        if id.index() >= self.flows.len() {
            self.flows.resize(id.index() + 1, FlowState::default());
        }
        let flow = self.tracker.flow(id);
        let state = &mut self.flows[id.index()];
        if restarted || !state.is_of(flow) {
            state.restart(flow.generation() + 1, self.turns.first_flight());
        }
        state
    }

    /// Shows an arriving packet to the tracker, which makes a record of its flow.
    pub fn arrived(&mut self, now: Instant, header: &Header) -> Observation {
        // The index, then the record and the state together, come from memory while other things are done.
        let expected = self.tracker.expect(&header.key);
        self.tracker.tick(now);
        let likely = self.tracker.likely(expected);
        let seen = self.tracker.forward_from(now, header, likely);
        if let Some(id) = seen.id
            && (seen.fresh || seen.restarted)
        {
            self.make_state(id, seen.restarted);
            if let Some(state) = self.tracker.prefetch_least_needed().and_then(|id| self.find(id)) {
                state.prefetch();
            }
        }
        seen
    }

    /// Notes a segment that has arrived, for the clamp.
    pub fn note_segment(&mut self, id: FlowId, tcp: &TcpHeader) {
        self.note_mss(id, tcp);
        let flow = self.tracker.flow(id);
        self.flows[id.index()].clamp.note_arrival(tcp, || flow.has_passed(tcp));
    }

    /// Notes what a SYN of either side says of segments, for the clamp: one that comes before data.
    pub fn note_mss(&mut self, id: FlowId, tcp: &TcpHeader) {
        if tcp.flags.has(Flags::SYN) && self.tracker.flow(id).phase().is_none() {
            self.flows[id.index()].clamp.note_mss(tcp);
        }
    }

    /// The state of a flow for another process; `None` for a state of an earlier flow.
    #[cfg(feature = "handover")]
    pub fn known(&self, id: FlowId) -> Option<&FlowState> {
        self.find(id).filter(|state| state.is_of(self.tracker.flow(id)))
    }

    /// Goes on with the state that another process had of a flow, unless packets of it wait here.
    #[cfg(feature = "handover")]
    pub fn learn(&mut self, id: FlowId, known: FlowState) {
        let generation = self.tracker.flow(id).generation() + 1;
        let state = self.make_state(id, false);
        if state.turn.place() == Place::Idle {
            *state = FlowState { generation, ..known };
        }
    }

    /// The time from one turn of a flow to the next.
    pub fn round(&self, id: FlowId) -> Duration {
        self.turns.round(&self.flows[id.index()].turn)
    }

    /// The round by which a flow may have packets under way.
    pub fn steady_round(&self, id: FlowId) -> Duration {
        self.turns.steady_round(&self.flows[id.index()].turn)
    }

    /// Says whether what senders have under way waits before another link, not here.
    pub fn wait_elsewhere(&mut self, elsewhere: bool) {
        self.turns.wait_elsewhere(elsewhere);
    }

    /// Notes who has sent a packet of the other direction, of flow `id` if that is known.
    pub fn hear(&mut self, id: Option<FlowId>, packet: &P) {
        let turn = id.and_then(|id| self.flows.get(id.index())).map(|state| &state.turn);
        self.turns.hear(turn, &self.tracker, id, packet);
    }
}

/// Reading of packets that wait.
impl<P: Packet> FlowQueues<P> {
    /// Packets and bytes that wait.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Backlog of packets without data, which wait before all flows.
    pub fn control(&self) -> Backlog {
        Backlog { packets: self.control.len(), bytes: self.control_bytes }
    }

    /// The oldest packet of a flow.
    pub fn front(&self, id: FlowId) -> Option<u32> {
        self.flows[id.index()].queue.list.first()
    }

    /// The newest packet of a flow.
    pub fn back(&self, id: FlowId) -> Option<u32> {
        self.flows[id.index()].queue.list.last()
    }

    /// The packet of the same flow behind one.
    pub fn behind(&self, at: u32) -> Option<u32> {
        self.slab.at(at).links.next()
    }

    /// A packet that waits.
    pub fn packet(&self, at: u32) -> &P {
        self.packets[at as usize].as_ref().expect(IN_USE)
    }

    /// A packet that waits, to be marked. The packet's length must stay.
    pub fn packet_mut(&mut self, at: u32) -> &mut P {
        self.packets[at as usize].as_mut().expect(IN_USE)
    }

    /// Time at which a packet came.
    pub fn came(&self, at: u32) -> Micros {
        self.slab.at(at).came
    }

    /// A flow's packets from the front.
    pub fn packets(&self, id: FlowId) -> impl Iterator<Item = &P> {
        self.flows[id.index()].queue.list.iter(&self.slab).map(|at| self.packet(at))
    }

    /// A flow's packets from the back, with the packets' places.
    pub fn packets_back(&self, id: FlowId) -> impl Iterator<Item = (u32, &P)> {
        self.flows[id.index()].queue.list.iter_back(&self.slab).map(|at| (at, self.packet(at)))
    }

    /// Whether a packet has payload that the receiver has not been sent before.
    pub fn is_new_data(&self, at: u32) -> bool {
        self.slab.at(at).new_data
    }

    /// Notes that a copy of the packet has been suppressed.
    pub fn protect(&mut self, at: u32) {
        self.slab.at_mut(at).protected = true;
    }

    /// The first packet of a flow whose sender hears of its loss, and which brings new data. None becomes one that was
    /// not, so each is passed over once, however often this is asked.
    pub fn first_repairable(&mut self, id: FlowId) -> Option<u32> {
        let queue = &mut self.flows[id.index()].queue;
        while queue.repairable != NIL {
            let at = queue.repairable;
            let entry = self.slab.at(at);
            let data = self.packets[at as usize].as_ref().is_some_and(|p| p.header().is_tcp_data());
            if data && entry.new_data && !entry.protected {
                return Some(at);
            }
            queue.repairable = entry.links.next().unwrap_or(NIL);
        }
        None
    }

    /// The flow to be served. A flow that `yields` lets other flows of its user go first; how often its turn comes is
    /// reckoned where that is asked for.
    pub fn next_flow(
        &mut self,
        now: Instant,
        yields: impl Fn(FlowId, &Flow, &dyn Fn() -> Duration) -> bool,
    ) -> Option<FlowId> {
        let tracker = &self.tracker;
        let yields = |id, round: &dyn Fn() -> Duration| yields(FlowId(id), tracker.flow(FlowId(id)), round);
        self.turns.next(now, &mut self.flows, yields).map(FlowId)
    }

    /// The flow that makes room where there are `limit` packets.
    pub fn victim(&self, limit: usize) -> Option<FlowId> {
        self.turns.victim(&self.flows, limit, self.longest.flow()).map(FlowId)
    }
}

/// Changes of the packets that wait.
impl<P: Packet> FlowQueues<P> {
    /// Whether a packet without data may go before all flows; if so, it is charged for that.
    pub fn may_send_control(&mut self, now: Instant, id: FlowId, packet: &Arrival) -> bool {
        let turn = &mut self.flows[id.index()].turn;
        let user = self.turns.enter_user(turn, &self.tracker, id, packet.user);
        self.turns.may_send_control(now, user, Bytes(packet.cost))
    }

    /// Puts a packet before all flows.
    pub fn push_control(&mut self, id: FlowId, packet: P) {
        self.backlog.add(packet.len());
        self.control_bytes += packet.len();
        self.tracker.queued(id);
        self.control.push_back((id, packet));
    }

    /// Whether an acknowledgment waits last in a flow's queue: the flow has more of them than go before all flows.
    fn is_acknowledgment_last(&self, id: FlowId) -> bool {
        self.back(id).is_some_and(|last| acknowledges(self.packet(last).header()))
    }

    /// Takes the first of the packets that go before all flows, to be sent.
    pub fn pop_control(&mut self, now: Instant) -> Option<(FlowId, P)> {
        let (id, packet) = self.control.pop_front()?;
        self.backlog.sub(packet.len());
        self.control_bytes -= packet.len();
        self.tracker.unqueued(id);
        self.turns.sent_control(now, &packet);
        if acknowledges(packet.header()) && self.is_acknowledgment_last(id) {
            self.turns.pay_in_turn(&mut self.flows[id.index()].turn, packet.len());
        }
        self.tracker.departed(now, id, packet.header());
        Some((id, packet))
    }

    /// Puts a packet into its flow's queue, and the flow into a list if it had nothing waiting. New data comes to the
    /// back.
    #[inline]
    pub fn push(&mut self, now: Instant, id: FlowId, packet: P, end: End, new_data: bool, arrival: &Arrival) {
        let at =
            self.slab.insert(Entry { links: Links::NONE, new_data, protected: false, came: Micros::at(now) });
        match self.packets.get_mut(at as usize) {
            Some(place) => *place = Some(packet),
            None => self.packets.push(Some(packet)),
        }
        let state = &mut self.flows[id.index()];
        let before = state.queue.bytes;
        match end {
            End::Front => state.queue.list.push_front(&mut self.slab, at),
            End::Back => {
                state.queue.list.push_back(&mut self.slab, at);
                if state.queue.repairable == NIL {
                    state.queue.repairable = at;
                }
            }
        }
        state.queue.bytes += arrival.len.get() as u32;
        let idle = state.turn.place() == Place::Idle;
        self.backlog.add(arrival.len);
        self.tracker.queued(id);
        self.longest.update(&mut self.flows, id.0, before);
        if idle {
            self.turns.join(now, &mut self.flows, &self.tracker, id, arrival);
        }
        self.turns.queued(&self.flows[id.index()].turn);
    }

    /// Takes a packet of `len` bytes out of its flow's queue and the counts; whether it was the last.
    #[inline]
    fn unlink(&mut self, id: FlowId, at: u32, len: Bytes) -> bool {
        let queue = &mut self.flows[id.index()].queue;
        let before = queue.bytes;
        if queue.repairable == at {
            queue.repairable = self.slab.at(at).links.next().unwrap_or(NIL);
        }
        queue.list.remove(&mut self.slab, at);
        queue.bytes -= len.get() as u32;
        let last = queue.list.is_empty();
        self.backlog.sub(len);
        self.tracker.unqueued(id);
        self.longest.update(&mut self.flows, id.0, before);
        last
    }

    /// Counts packet `at`, of `len` bytes, of the flow that was chosen as sent; whether it is the flow's first data.
    /// The packet stays at its place until [`Self::release`], so that it is copied once, to where the driver wants it.
    pub fn serve(&mut self, now: Instant, id: FlowId, at: u32, len: Bytes, data: bool) -> bool {
        let last = self.unlink(id, at, len);
        let packet = self.packets[at as usize].as_ref().expect(IN_USE);
        let acknowledges = !data && acknowledges(packet.header());
        self.turns.sent(now, &mut self.flows, Sent { flow: id.0, len, data, acknowledges, last });
        self.tracker.departed(now, id, packet.header());
        let turn = &mut self.flows[id.index()].turn;
        if acknowledges {
            turn.acknowledged(now);
        }
        data && turn.served(now)
    }

    /// Gives out a packet that was served.
    #[inline]
    pub fn release(&mut self, at: u32) -> Option<P> {
        self.slab.remove(at);
        self.packets[at as usize].take()
    }

    /// Takes a packet out that is not sent; the flow leaves its list if that was the last.
    pub fn take(&mut self, id: FlowId, at: u32) -> Option<P> {
        let last = self.unlink(id, at, self.packet(at).len());
        self.turns.unqueued(&self.flows[id.index()].turn);
        if last {
            self.turns.leave(&mut self.flows, id.0);
        }
        self.release(at)
    }

    /// Puts a packet in the place of the newest of a flow that has one, which it gives out.
    pub fn replace_last(&mut self, id: FlowId, packet: P) -> Option<P> {
        let at = self.back(id)?;
        let (new, old) = (packet.len(), self.packet(at).len());
        let queue = &mut self.flows[id.index()].queue;
        let before = queue.bytes;
        queue.bytes = before - old.get() as u32 + new.get() as u32;
        self.backlog.sub(old);
        self.backlog.add(new);
        self.longest.update(&mut self.flows, id.0, before);
        self.packets[at as usize].replace(packet)
    }

    /// Takes a packet out that is lost.
    pub fn drop(&mut self, now: Instant, id: FlowId, at: u32) -> Option<P> {
        let packet = self.take(id, at)?;
        self.tracker.dropped(now, id, packet.header());
        Some(packet)
    }
}

/// Records fetched from memory before they are needed. Nothing but speed depends on it: without [`FlowQueues::fetch`]
/// a packet takes twice as long (`per_packet`, `taq` at 10 000 flows: 461 ns for 205).
impl<P: Packet> FlowQueues<P> {
    /// Fetches the records that a packet of the flow `key`, which comes soon, will need.
    pub fn fetch(&self, key: &FlowKey, ahead: Ahead) {
        let expected = self.tracker.expect(key);
        if ahead == Ahead::Far {
            return;
        }
        let likely = self.tracker.likely(expected);
        if let Some(state) = self.flows.get(likely.index()) {
            state.prefetch();
        }
        let before = self.announced.replace(likely.index());
        if let Some(state) = self.flows.get(before) {
            self.turns.prefetch(&state.turn);
        }
    }

    /// Fetches what comes next while the driver does something else. Of the flow after the next one the records are
    /// fetched, which by then show which packet is its first.
    pub fn fetch_next(&self) {
        let [next, later] = self.turns.soon(&self.flows);
        if let Some(at) = next.and_then(|next| self.front(FlowId(next))) {
            self.slab.prefetch(at);
            if let Some(packet) = self.packets.get(at as usize) {
                prefetch(packet);
            }
        }
        if let Some(later) = later {
            self.flows[later as usize].prefetch();
            self.tracker.prefetch(FlowId(later));
        }
    }
}

#[cfg(test)]
pub mod samples {
    use narrows_flow::TrackerConfig;
    use narrows_units::Rate;
    use narrows_wire::TcpHeader;

    use super::*;
    use crate::taq::{Common, DefaultConfig};
    use crate::{Record, ShaperConfig};

    /// A data packet of one flow.
    pub fn data(seq: u32, payload: u32) -> Record {
        let tcp = TcpHeader { seq: SeqNum(seq), payload, ..TcpHeader::default() };
        let header = Header { len: Bytes(u64::from(payload)), tcp: Some(tcp), ..Header::default() };
        Record { id: u64::from(seq), header }
    }

    /// Queues a data packet of one flow.
    pub fn push(queues: &mut FlowQueues<Record>, id: FlowId, seq: u32, payload: u32, new_data: bool) {
        let packet = data(seq, payload);
        let arrival = Arrival::new(&packet, &link());
        queues.push(Instant::ZERO, id, packet, End::Back, new_data, &arrival);
    }

    fn link() -> ShaperConfig {
        ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) }
    }

    /// Queues with packets of one flow, numbered from 0 in place of a sequence: their lengths, and whether they are
    /// new.
    pub fn queued(packets: &[(u32, bool)]) -> (FlowQueues<Record>, FlowId) {
        let (common, config) = (Common::default(), DefaultConfig::default());
        let tracker = Tracker::new(TrackerConfig::default(), 7);
        let turns = Turns::new(Rules::new(&common, &config, &link()), true, 64, 7);
        let mut queues = FlowQueues::new(tracker, turns);
        let id = queues.arrived(Instant::ZERO, &data(0, 100).header).id.unwrap();
        for (n, &(payload, new)) in (0..).zip(packets) {
            push(&mut queues, id, n, payload, new);
        }
        (queues, id)
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{data, push, queued};
    use super::*;
    use crate::Record;

    fn contents(queues: &FlowQueues<Record>, id: FlowId) -> Vec<u64> {
        queues.packets(id).map(|p| p.id).collect()
    }

    fn counts(queues: &FlowQueues<Record>, id: FlowId) -> (u32, u64, u32, Backlog) {
        let state = queues.state(id);
        (state.waiting(), state.bytes(), queues.flow(id).queued(), queues.backlog())
    }

    #[test]
    fn each_way_in_and_out_is_counted_everywhere() {
        let (mut queues, id) = queued(&[(10, true), (20, true), (30, true)]);
        assert_eq!(counts(&queues, id), (3, 60, 3, Backlog { packets: 3, bytes: Bytes(60) }));
        let second = queues.behind(queues.front(id).unwrap()).unwrap();
        assert_eq!(queues.drop(Instant::ZERO, id, second).map(|p| p.id), Some(1));
        assert_eq!((contents(&queues, id), queues.turns().users()), (vec![0, 2], Some(1)));
        queues.push_control(id, data(7, 5));
        assert_eq!(counts(&queues, id), (2, 40, 3, Backlog { packets: 3, bytes: Bytes(45) }));
        assert_eq!(queues.pop_control(Instant::ZERO).map(|(_, p)| p.id), Some(7));
        assert_eq!(queues.next_flow(Instant::ZERO, |_, _, _| false), Some(id));
        let first = queues.front(id).unwrap();
        assert!(queues.serve(Instant::ZERO, id, first, Bytes(10), true), "its first data");
        assert_eq!(queues.release(first).map(|p| p.id), Some(0));
        let last = queues.back(id).unwrap();
        assert_eq!(queues.take(id, last).map(|p| p.id), Some(2));
        assert_eq!(counts(&queues, id), (0, 0, 0, Backlog::default()));
        assert_eq!((queues.turns().flows(), queues.turns().users()), (0, Some(0)));
    }

    #[test]
    fn places_are_used_again_and_a_repair_goes_to_the_front() {
        let (mut queues, id) = queued(&[(10, true), (10, true)]);
        let places = queues.slab.places();
        let back = queues.back(id).unwrap();
        queues.take(id, back);
        let packet = data(9, 10);
        let arrival = Arrival::new(&packet, &crate::ShaperConfig::new(narrows_units::Rate::from_kbps(1)));
        queues.push(Instant::ZERO, id, packet, End::Front, false, &arrival);
        assert_eq!((contents(&queues, id), queues.slab.places()), (vec![9, 0], places));
    }

    #[test]
    fn the_longest_is_found_and_ties_fall_on_the_eldest() {
        let mut flows = vec![FlowState::default(); 4];
        let mut longest = Longest::new();
        let set = |flows: &mut Vec<FlowState>, longest: &mut Longest, id: u32, bytes: u32| {
            let before = core::mem::replace(&mut flows[id as usize].queue.bytes, bytes);
            longest.update(flows, id, before);
        };
        set(&mut flows, &mut longest, 0, 1500);
        assert_eq!(longest.flow(), None);
        set(&mut flows, &mut longest, 1, 6000);
        set(&mut flows, &mut longest, 2, 6000);
        assert_eq!(longest.flow(), Some(1));
        set(&mut flows, &mut longest, 3, 1_000_000);
        assert_eq!(longest.flow(), Some(3));
        set(&mut flows, &mut longest, 3, 0);
        set(&mut flows, &mut longest, 1, 0);
        assert_eq!(longest.flow(), Some(2));
    }

    #[test]
    fn a_flow_that_restarts_keeps_what_waits() {
        let (mut queues, id) = queued(&[(10, true), (10, true)]);
        queues.state_mut(id).raised.to(SeqNum(5));
        let state = queues.make_state(id, true);
        assert_eq!((state.waiting(), state.raised.least(), state.turn.served_at()), (2, None, None));
        push(&mut queues, id, 2, 10, true);
        assert_eq!(contents(&queues, id), [0, 1, 2]);
    }
}
