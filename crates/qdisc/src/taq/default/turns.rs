//! The order of service: deficit round robin over flows, or over users and then each one's flows, and who goes before
//! it.
//!
//! A flow or a user that comes with a packet goes to one of three lists of a [`DeficitScheduler`] by the same rules
//! ([`Comer`]): sparse ones, which need no more than their share; new ones, which have a credit for their life, so that
//! first packets do not wait (the new list of RFC 8290, here a budget); and the round. New flows of a user that is not
//! new have a credit of their own ([`Users::credit_new_flow`]).
//!
//! Users of whom nothing has been heard share as one. Whoever sends to a range of addresses, as a scan does, makes a
//! new user of each, and new users go first. So what goes to somebody who has not sent a packet since it was last
//! forgotten has, all together, the share of one user. The first packet of a connection or of QUIC comes from the user,
//! so nobody who asked for something waits for this. Calls are left to admission control, and to the share of packets
//! without data. This holds only where users receive what is queued, and where the other direction is seen at all.

use narrows_flow::{FlowId, Tracker};
use narrows_lists::NIL;
use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_users::{Side, User, UserRule};

use super::control::ControlShare;
use super::queues::FlowState;
use super::{Arrival, signed};
use crate::deficit::{Carry, DeficitScheduler, Place, Terms, Turn, member};
use crate::new_flows::NewShare;
use crate::taq::{Common, DefaultConfig};
use crate::users::{CircuitRates, Users};
use crate::{Packet, Ppm, ShaperConfig};

/// Most bytes by which first flights bring a user ahead of its share, as a multiple of what a new user may send before
/// others: with half as much, those who fetch one object after another have paid too little when the next one begins.
const MOST_AHEAD: i32 = 6;

/// Length of a first flight where users share the link, as a multiple of what a new flow may send where none do: an
/// object of 6 kB. A first flight goes before older flows of its user, in turn with other first flights of it, and that
/// user's share pays for it.
const FIRST_FLIGHT: i32 = 4;

/// Flows of a user that are looked at in search of one that does not yield.
const LOOKED_AT: usize = 8;

/// No instant at which anything was sent.
const NEVER: Instant = Instant::FAR_FUTURE;

/// A flow's turn, and the flow's user.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[repr(C)]
pub struct FlowTurn {
    /// Time at which data was last sent on; [`NEVER`] before.
    served_at: Instant,
    turn: Turn,
    /// The record of its user: valid while packets wait, later perhaps another's.
    #[cfg_attr(feature = "handover", serde(skip, default = "nobody"))]
    user: u32,
}

/// The user of a flow that has just been taken over.
#[cfg(feature = "handover")]
const fn nobody() -> u32 {
    NIL
}

member!(FlowState: turn.turn);

impl Default for FlowTurn {
    fn default() -> Self {
        Self { served_at: NEVER, turn: Turn::default(), user: NIL }
    }
}

impl FlowTurn {
    /// The list the flow stands in.
    pub const fn place(&self) -> Place {
        self.turn.place()
    }

    /// Time at which data was last sent on, if any was.
    #[cfg(test)]
    pub fn served_at(&self) -> Option<Instant> {
        (self.served_at != NEVER).then_some(self.served_at)
    }

    /// Notes that data is sent on; tells whether the data is the flow's first.
    pub fn served(&mut self, now: Instant) -> bool {
        core::mem::replace(&mut self.served_at, now) == NEVER
    }

    /// Lets the flow send `bytes` more before the old ones.
    pub const fn add_credit(&mut self, bytes: i32) {
        self.turn.credit = self.turn.credit.saturating_add(bytes);
    }

    /// Notes that an acknowledgment is sent in turn.
    pub fn acknowledged(&mut self, now: Instant) {
        end_rest(&mut self.served_at, now);
    }

    /// A new connection of the same addresses, which has `credit`, keeps the place and the user.
    pub const fn restart(&mut self, credit: i32) {
        self.turn.restart(credit);
        self.served_at = NEVER;
    }
}

/// Notes that an acknowledgment is sent in the turn of somebody served at `served_at`: who acknowledges all the time
/// has not rested. Whoever was not sent data remains new.
fn end_rest(served_at: &mut Instant, now: Instant) {
    if *served_at != NEVER {
        *served_at = now;
    }
}

/// Rules by which the link is shared.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    link: ShaperConfig,
    /// The rule by which a packet has a user.
    users: UserRule,
    /// The part of the link that packets without data may have before all flows.
    control: Rate,
    /// Bytes that a round adds; 0: the largest recent packet.
    quantum: u32,
    /// Bytes that a new flow, or a new user, may send before the old ones.
    new_quantum: i32,
    new_share: Ppm,
    new_flows_first: bool,
    rested_first: bool,
}

impl Rules {
    pub fn new(common: &Common, config: &DefaultConfig, link: &ShaperConfig) -> Self {
        Self {
            link: *link,
            users: common.users(link, common.by_user()),
            control: Rate::from_bps(common.rho_r.of(link.rate.as_bps())),
            quantum: config.quantum,
            new_quantum: signed(config.new_quantum.into()),
            new_share: config.new_share,
            new_flows_first: config.new_flows_first,
            rested_first: config.rested_first,
        }
    }
}

/// Recent lengths of packets on the link, in bytes: quantum and round follow from them.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Average of data packets, in 1/16 bytes.
    mean: u64,
    /// The time the link takes for such a packet.
    time: Duration,
    largest: u64,
}

impl Lengths {
    fn new(link: &ShaperConfig) -> Self {
        let mut new = Self { mean: 1500 << 4, time: Duration::ZERO, largest: 0 };
        new.set_rate(link);
        new
    }

    fn set_rate(&mut self, link: &ShaperConfig) {
        self.time = link.rate.time_to_send(Bytes(self.mean >> 4));
    }

    /// Average of data packets, in bytes.
    pub const fn mean(&self) -> u64 {
        self.mean >> 4
    }

    /// Notes a packet that leaves and takes `cost` bytes of the link.
    fn note(&mut self, link: &ShaperConfig, cost: Bytes, data: bool) {
        // Packets that conntrack has put together leave in pieces again.
        let wire = if cost > link.mtu { cost.min(link.largest()) } else { cost }.get();
        self.largest = wire.max(self.largest - self.largest / 1024);
        if data {
            let before = self.mean();
            self.mean = self.mean - (self.mean >> 4) + wire;
            if self.mean() != before {
                self.set_rate(link);
            }
        }
    }

    /// The average in 1/16 bytes and the largest, for another process.
    #[cfg(feature = "handover")]
    pub const fn known(&self) -> (u64, u64) {
        (self.mean, self.largest)
    }

    /// Goes on with what another process knew, as far as it can be true of this link.
    #[cfg(feature = "handover")]
    fn learn(&mut self, link: &ShaperConfig, mean: u64, largest: u64) {
        let most = link.largest().get();
        self.largest = largest.min(most);
        self.mean = mean.clamp(1 << 4, most.max(1) << 4);
        self.set_rate(link);
    }
}

/// A packet of a flow that is sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub flow: u32,
    pub len: Bytes,
    /// Whether the packet has data.
    pub data: bool,
    /// Whether the packet is an acknowledgment and no more.
    pub acknowledges: bool,
    /// Whether nothing of the flow waits any more.
    pub last: bool,
}

/// Number of users that wait, or waited lately. The number grows at once; what is too much falls to less than half in
/// [`Self::FALLS_IN`].
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    thousandths: u64,
    at: Instant,
}

impl Lately {
    const FALLS_IN: Duration = Duration::from_secs(1);

    /// Notes how many wait now.
    fn note(&mut self, now: Instant, waiting: usize) {
        let waiting = waiting as u64 * 1000;
        let (time, all) = (now.since(self.at).min(Self::FALLS_IN), Self::FALLS_IN.as_nanos());
        let falls = self.thousandths.saturating_sub(waiting) * time.as_nanos() / all;
        (self.thousandths, self.at) = ((self.thousandths - falls).max(waiting), now);
    }
}

/// Order in which flows are served.
#[derive(Debug)]
pub struct Turns {
    rules: Rules,
    lengths: Lengths,
    new_share: NewShare,
    control: ControlShare,
    /// All flows, where there are no users.
    all: DeficitScheduler,
    users: Option<Box<Users<DeficitScheduler>>>,
    /// Flows with packets waiting.
    flows: u32,
    /// Number of users that wait or did lately, where senders' packets wait before another link.
    lately: Option<Lately>,
}

impl Turns {
    /// Nobody. Records of `pools` users are kept where the link is shared between users.
    pub fn new(rules: Rules, by_user: bool, pools: usize, seed: u64) -> Self {
        let users = || Users::new(Carry::Forget, pools, rules.link.rate, rules.new_share, seed);
        Self {
            rules,
            lengths: Lengths::new(&rules.link),
            new_share: NewShare::new(rules.link.rate, rules.new_share),
            control: ControlShare::UNUSED,
            all: DeficitScheduler::EMPTY,
            users: by_user.then(|| Box::new(users())),
            flows: 0,
            lately: None,
        }
    }

    /// Says whether what senders have under way waits before another link, not in this queue.
    pub fn wait_elsewhere(&mut self, elsewhere: bool) {
        self.lately = elsewhere.then(Lately::default);
    }

    pub fn reconfigure(&mut self, rules: Rules) {
        self.rules = rules;
        self.lengths.set_rate(&rules.link);
        self.new_share = NewShare::new(rules.link.rate, rules.new_share);
        if let Some(users) = &mut self.users {
            users.reconfigure(rules.link.rate, rules.new_share);
        }
    }

    pub fn set_rates(&mut self, rates: &CircuitRates) {
        if let Some(users) = &mut self.users {
            users.set_rates(rates.clone());
        }
    }

    pub const fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    #[cfg(feature = "handover")]
    pub fn learn_lengths(&mut self, mean: u64, largest: u64) {
        self.lengths.learn(&self.rules.link, mean, largest);
    }

    /// Flows with packets waiting.
    pub const fn flows(&self) -> usize {
        self.flows as usize
    }

    /// Users with packets waiting, where there are users.
    pub fn users(&self) -> Option<usize> {
        self.users.as_ref().map(|users| users.waiting())
    }

    /// Time at which somebody may be served, where there are users.
    pub fn next_ready(&self, now: Instant) -> Option<Option<Instant>> {
        self.users.as_ref().map(|users| users.next_ready(now))
    }

    /// The quantum. With less than the largest packet a flow would miss a round now and then, with more it would have
    /// several packets in one: either way somebody waits longer than a round.
    pub fn quantum(&self) -> i32 {
        signed(if self.rules.quantum == 0 { self.lengths.largest.max(64) } else { self.rules.quantum.into() })
    }

    /// Bytes that a flow may send before the old ones of its user, or before all where there are no users.
    pub const fn first_flight(&self) -> i32 {
        let of_user = if self.users.is_some() { FIRST_FLIGHT } else { 1 };
        self.rules.new_quantum.saturating_mul(of_user)
    }

    /// The time the link takes for a quantum.
    pub fn quantum_time(&self) -> Duration {
        self.rules.link.rate.time_to_send(Bytes(u64::from(self.quantum().unsigned_abs())))
    }

    /// The time from one turn of a flow to the next: a round of users for each flow of its user.
    pub fn round(&self, flow: &FlowTurn) -> Duration {
        self.round_of(Some(flow.user))
    }

    /// The round by which a flow may have packets under way. Where those wait before another link, all count that
    /// waited here in the last second: with a round that is short for a moment, as nobody else waits, many would be
    /// permitted at once, and fill that link's queue.
    pub fn steady_round(&self, flow: &FlowTurn) -> Duration {
        let round = self.round(flow);
        let Some(lately) = self.lately else { return round };
        let now = self.waiting().max(1) as u64 * 1000;
        round * lately.thousandths.max(now) / now
    }

    /// Number of users with packets waiting, or of flows where there are no users.
    fn waiting(&self) -> usize {
        self.users().unwrap_or(self.flows())
    }

    /// Time from one turn of a flow of `user` to the flow's next.
    fn round_of(&self, user: Option<u32>) -> Duration {
        let Some(users) = &self.users else { return self.lengths.time * self.flows.max(1).into() };
        let user = user.and_then(|user| users.get(user));
        let flows = user.map_or(1, |user| user.flows.max(1));
        let own = user.and_then(|user| user.rate()).map(|rate| rate.time_to_send(Bytes(self.lengths.mean())));
        self.user_round().max(own.unwrap_or(Duration::ZERO)) * u64::from(flows)
    }

    /// Time to send a data packet of each waiting user.
    fn user_round(&self) -> Duration {
        self.lengths.time * self.users().unwrap_or(0).max(1) as u64
    }

    /// The user that a flow counts for; `told` is whose the driver says its packet is.
    fn user(&self, flow: &FlowTurn, tracker: &Tracker, id: FlowId, told: Option<User>) -> User {
        let user = told.unwrap_or_else(|| tracker.user(id));
        if user.as_circuit().is_some() {
            return user;
        }
        let Some(users) = self.users.as_ref().filter(|_| self.rules.link.users == Side::Destination) else {
            return user;
        };
        let stranger = !tracker.flow(id).is_call() && users.is_stranger(user, Some(flow.user));
        if stranger { User::STRANGERS } else { user }
    }

    /// The record of the user of a flow that has a packet from now on, made if there is none; `None` where there are no
    /// users.
    pub fn enter_user(
        &mut self,
        flow: &mut FlowTurn,
        tracker: &Tracker,
        id: FlowId,
        told: Option<User>,
    ) -> Option<u32> {
        let users = self.users.as_ref()?;
        // The user of a flow does not change while packets wait, and seldom else.
        let known = || {
            told.is_none_or(|user| user.as_circuit().is_none())
                && users.is_known(flow.user, told.unwrap_or_else(|| tracker.user(id)))
        };
        if flow.place() != Place::Idle || known() {
            return Some(flow.user);
        }
        let user = self.user(flow, tracker, id, told);
        let users = self.users.as_mut()?;
        if !users.is_of(flow.user, user) {
            flow.user = users.find_or_make(user, || (DeficitScheduler::EMPTY, self.rules.new_quantum));
        }
        Some(flow.user)
    }

    /// Notes who has sent a packet of the other direction, of a flow of ours if that is known.
    pub fn hear(
        &mut self,
        flow: Option<&FlowTurn>,
        tracker: &Tracker,
        id: Option<FlowId>,
        packet: &impl Packet,
    ) {
        if self.rules.link.users != Side::Destination || packet.circuit().is_some() {
            return;
        }
        let Some(users) = &mut self.users else { return };
        let user = || self.rules.users.user(&packet.header().key.reverse(), None);
        let user = packet.user().unwrap_or_else(|| id.map_or_else(user, |id| tracker.user(id)));
        let likely = flow.map(|flow| flow.user).filter(|at| users.is_of(*at, user));
        let credit = self.rules.new_quantum;
        let at = likely.unwrap_or_else(|| users.find_or_make(user, || (DeficitScheduler::EMPTY, credit)));
        users.hear(at);
    }

    /// Whether a packet without data may go before all flows: together they have their part of the link, and those of
    /// one user no more than its share.
    pub fn may_send_control(&mut self, now: Instant, user: Option<u32>, cost: Bytes) -> bool {
        let may = |control: &mut ControlShare| control.charge(now, self.rules.control, cost);
        match self.users.as_mut().zip(user) {
            Some((users, user)) => {
                let may = users.may_send_control(now, user) && may(&mut self.control);
                if may {
                    users.sent_control(now, user, self.rules.link.rate, cost);
                }
                may
            }
            None => may(&mut self.control),
        }
    }

    /// Counts a packet that went before all flows: its user's rate pays for it.
    pub fn sent_control(&mut self, now: Instant, packet: &impl Packet) {
        let cost = self.rules.link.wire_len(packet.len());
        if let (Some(users), Some(circuit)) = (&mut self.users, packet.circuit())
            && let Some(user) = users.find(User::circuit(circuit))
        {
            users.pay(now, user, signed(cost.get()));
        }
        self.lengths.note(&self.rules.link, cost, false);
    }

    /// Has a flow's turn, and that of its user, pay for an acknowledgment of `len` bytes that went before all flows: at
    /// most a turn of each, so that nobody owes for longer than a round.
    pub fn pay_in_turn(&mut self, flow: &mut FlowTurn, len: Bytes) {
        let (cost, quantum) = (signed(self.rules.link.wire_len(len).get()), self.quantum());
        // Whoever owes more already, for a packet of several segments, owes that.
        let pay = |turn: &mut Turn| {
            turn.deficit = turn.deficit.saturating_sub(cost).max(turn.deficit.min(-quantum));
        };
        pay(&mut flow.turn);
        if let Some(users) = &mut self.users {
            pay(&mut users.at_mut(flow.user).turn);
        }
    }

    /// Puts a flow into a list that had nothing waiting until this packet came, and its user, if that had nothing.
    pub fn join(
        &mut self,
        now: Instant,
        flows: &mut [FlowState],
        tracker: &Tracker,
        id: FlowId,
        first: &Arrival,
    ) {
        let user = self.enter_user(&mut flows[id.index()].turn, tracker, id, first.user);
        let quantum = self.quantum();
        let small = first.len.get() <= u64::from(quantum.unsigned_abs() / 2);
        let comer = Comer {
            now,
            round_time: self.round_of(user),
            quantum,
            new_quantum: self.rules.new_quantum,
            cost: first.cost,
            request: small && first.tcp && self.may_send_control(now, user, Bytes(first.cost)),
            new_flows_first: self.rules.new_flows_first,
            rested_first: self.rules.rested_first,
        };
        let flow = &mut flows[id.index()].turn;
        // Within its user a small packet does not wait for another flow's first flight, whatever it is.
        let request = comer.request || (small && self.users.is_some());
        let place = Comer { request, ..comer }.place(flow.served_at, &mut flow.turn);
        let new = place != Place::Old && flow.served_at == NEVER;
        let credit = if new { flow.turn.credit } else { 0 };
        self.flows += 1;
        let lists = match self.users.as_mut().zip(user) {
            Some((users, user)) => {
                let round_time = self.lengths.time * users.waiting().max(1) as u64;
                join_user(users, user, credit, Comer { round_time, ..comer });
                let state = users.at_mut(user);
                state.flows += 1;
                &mut state.lists
            }
            None => &mut self.all,
        };
        lists.enter(flows, id.0, place, quantum);
    }

    /// Takes a flow without backlog out of the list that the flow stands in.
    pub fn leave(&mut self, flows: &mut [FlowState], id: u32) {
        let FlowTurn { turn, user: at, .. } = flows[id as usize].turn;
        if turn.place() == Place::Idle {
            return;
        }
        self.flows -= 1;
        let Some(users) = &mut self.users else { return self.all.leave(flows, id) };
        let user = users.at_mut(at);
        user.lists.leave(flows, id);
        user.flows -= 1;
        if user.flows == 0 {
            users.leave(at);
        }
    }

    /// The flow to be served. One that `yields` lets others of its user go first; the time from one turn to the next
    /// is reckoned where that is asked for.
    pub fn next(
        &mut self,
        now: Instant,
        flows: &mut [FlowState],
        yields: impl Fn(u32, &dyn Fn() -> Duration) -> bool,
    ) -> Option<u32> {
        let quantum = self.quantum();
        let terms = Terms { quantum, carry: Carry::Forget, share: self.new_share };
        let Some(users) = &mut self.users else { return self.all.next(flows, &terms) };
        let user = users.next(now, quantum, |_| 1)?;
        let mut flow = users.at_mut(user).lists.next(flows, &terms)?;
        if users.at(user).flows == 1 {
            return Some(flow);
        }
        for _ in 0..LOOKED_AT {
            if !yields(flow, &|| self.round_of(Some(user))) {
                break;
            }
            let lists = &mut self.users.as_mut()?.at_mut(user).lists;
            lists.pass(flows, flow);
            flow = lists.next(flows, &terms)?;
        }
        Some(flow)
    }

    /// Charges the flow that was chosen, and its user, for a packet that is sent.
    pub fn sent(&mut self, now: Instant, flows: &mut [FlowState], sent: Sent) {
        let Sent { len, data, acknowledges, last, .. } = sent;
        let waiting = self.waiting();
        if let Some(lately) = &mut self.lately {
            lately.note(now, waiting);
        }
        let cost = self.rules.link.wire_len(len);
        self.flows -= u32::from(last);
        match &mut self.users {
            None => charge(&mut self.all, flows, self.new_share, signed(cost.get()), sent),
            Some(users) => users.sent(now, signed(cost.get()), |user| {
                user.unqueued();
                user.flows -= u32::from(last);
                charge(&mut user.lists, flows, self.new_share, signed(cost.get()), sent);
                if !last && flows[sent.flow as usize].turn.place() == Place::New {
                    // A first packet of the user's other new flows comes before the second one of this flow.
                    user.lists.pass(flows, sent.flow);
                }
                if data {
                    user.served_at = now;
                } else if acknowledges {
                    end_rest(&mut user.served_at, now);
                }
            }),
        }
        self.lengths.note(&self.rules.link, cost, data);
    }

    /// Counts a packet of the flow that waits from now on.
    pub fn queued(&mut self, flow: &FlowTurn) {
        if let Some(users) = &mut self.users {
            users.queued(flow.user);
        }
    }

    /// Counts a packet of the flow that waits no longer, but is not sent.
    pub fn unqueued(&mut self, flow: &FlowTurn) {
        if let Some(users) = &mut self.users {
            users.at_mut(flow.user).unqueued();
        }
    }

    /// The flow that makes room where there are `limit` packets: one of a user who has more than its part of that; else
    /// `longest`, or if no flow has more than a packet or two, one that is served last.
    pub fn victim(&self, flows: &[FlowState], limit: usize, longest: Option<u32>) -> Option<u32> {
        let Some(users) = &self.users else { return longest.or_else(|| self.all.last()) };
        if let Some(user) = users.beyond(limit) {
            return longest
                .filter(|id| flows[*id as usize].turn.user == user)
                .or_else(|| users.at(user).lists.last());
        }
        longest.or_else(|| users.at(users.last()?).lists.last())
    }

    /// Has the record of a flow's user fetched that is needed soon.
    pub fn prefetch(&self, flow: &FlowTurn) {
        if let Some(users) = &self.users {
            users.prefetch(flow.user);
        }
    }

    /// The flows that are most likely served next, while the record of the user after theirs is fetched.
    pub fn soon(&self, flows: &[FlowState]) -> [Option<u32>; 2] {
        match &self.users {
            Some(users) => {
                let (first, second) = users.soon();
                [first, second].map(|lists| lists.and_then(|lists| lists.soon().first()))
            }
            None => {
                let list = self.all.soon();
                let first = list.first();
                [first, first.and_then(|first| list.after(flows, first))]
            }
        }
    }
}

/// Charges a flow for what is sent of it and takes `cost` bytes of the link; with its last packet it leaves its list.
#[inline]
fn charge(lists: &mut DeficitScheduler, flows: &mut [FlowState], share: NewShare, cost: i32, sent: Sent) {
    let place = flows[sent.flow as usize].turn.place();
    if sent.last {
        lists.leave(flows, sent.flow);
    }
    lists.charge(&mut flows[sent.flow as usize].turn.turn, share, place, cost);
}

/// Puts a user with a new backlog into a list. Where each user has one flow it goes where that would go if there were
/// no users. A new flow with `credit` of a user who is not new goes first if its user is not too far ahead of its
/// share.
fn join_user<S>(users: &mut Users<S>, at: u32, credit: i32, comer: Comer) {
    let Comer { quantum, new_quantum, new_flows_first, .. } = comer;
    // One packet. What a short answer of a handshake leaves of that lets the next packet go first as well: the first
    // data.
    let wanted = credit.min(new_quantum);
    let most = new_quantum.saturating_mul(MOST_AHEAD);
    let first = comer.first_of_new();
    match users.at(at).turn.place() {
        Place::Idle => {}
        Place::Old if new_flows_first => {
            users.credit_new_flow(at, wanted, most, first);
            return;
        }
        _ => return,
    }
    let user = users.at_mut(at);
    user.pay_back_the_rest();
    let place = comer.place(user.served_at, &mut user.turn);
    if user.is_ahead() {
        user.pay_back(comer.left_by_rest(user.served_at, place));
    }
    let credited = place == Place::Old && new_flows_first && users.credit_new_flow(at, wanted, most, first);
    users.enter(at, if credited { first } else { place }, quantum);
}

/// Somebody who has something waiting again, a flow or a user: what decides where it goes.
#[derive(Clone, Copy, Debug)]
struct Comer {
    now: Instant,
    round_time: Duration,
    quantum: i32,
    new_quantum: i32,
    /// Bytes of the link that the comer's packet takes.
    cost: u64,
    /// Whether the packet is of TCP and half a quantum at most, so mostly a request, to which the answer has a wait of
    /// its own; and such may go before all.
    request: bool,
    new_flows_first: bool,
    /// Whether a comer that has rested, or comes with a packet that it has saved up for, goes first.
    rested_first: bool,
}

impl Comer {
    /// List into which the flow goes. The flow's credit and debt are those it has from now on.
    fn place(&self, served_at: Instant, turn: &mut Turn) -> Place {
        let accrued = self.accrued(served_at, turn.deficit);
        let rested = self.rested_first && served_at != NEVER && self.now.since(served_at) >= self.round_time;
        if rested {
            // Nothing was sent to it for a round: it gets one quantum, and its debt is paid. With more, flows of small
            // packets whose round trip is longer than a round live off the credit, several packets a round trip, while
            // the others have one a round.
            turn.credit = turn.credit.max(self.new_quantum.min(self.quantum));
            turn.deficit = turn.deficit.max(0);
        } else {
            turn.credit = turn.credit.max(accrued);
        }
        // A packet that takes more than half of the credit has all of it. What it left, however little, would let a
        // second one go first: 8 bytes of 1514 where the MTU is 1492.
        let cost = signed(self.cost);
        if cost > turn.credit / 2 {
            turn.credit = turn.credit.min(cost);
        }
        if turn.credit <= 0 || !self.new_flows_first {
            Place::Old
        } else if rested || accrued > 0 {
            Place::Sparse
        } else {
            self.first_of_new()
        }
    }

    /// The list of a comer that has a part of the first credit left.
    const fn first_of_new(&self) -> Place {
        if self.request { Place::Sparse } else { Place::New }
    }

    /// Bytes of its share that the comer left to others since it was last served: a quantum for each round, but for the
    /// round with which it pays for going to `place`, before others.
    fn left_by_rest(&self, served_at: Instant, place: Place) -> i32 {
        if served_at == NEVER {
            return 0;
        }
        let rest = self.now.since(served_at);
        let rest = if place == Place::Sparse { rest.saturating_sub(self.round_time) } else { rest };
        let left = u128::from(self.quantum.unsigned_abs()) * u128::from(rest.as_nanos());
        i32::try_from(left / u128::from(self.round_time.as_nanos().max(1))).unwrap_or(i32::MAX)
    }

    /// The bytes that its packet takes of the link, if its share of the time since it was last served is as much; else
    /// nothing. By this rule keystrokes, calls and queries, which come more than once a round and need less than a
    /// quantum, do not wait for a round. At once or later, such a comer has its share, and nobody else's.
    fn accrued(&self, served_at: Instant, deficit: i32) -> i32 {
        if !self.rested_first || self.cost == 0 || served_at == NEVER || deficit < 0 {
            return 0;
        }
        let waited = self.now.since(served_at).min(self.round_time).as_nanos();
        let share = u128::from(self.quantum.unsigned_abs()) * u128::from(waited);
        let due = u128::from(self.cost) * u128::from(self.round_time.as_nanos());
        if share >= due { signed(self.cost) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// At 1 s, rounds of 100 ms, quanta of 1000 bytes, new ones may send 1500; a packet of so many bytes.
    fn comer(cost: u64) -> Comer {
        Comer {
            now: at(1000),
            round_time: Duration::from_millis(100),
            quantum: 1000,
            new_quantum: 1500,
            cost,
            request: false,
            new_flows_first: true,
            rested_first: true,
        }
    }

    /// The place of a comer, with the credit and deficit that the comer has there.
    fn goes(comer: Comer, served_at: Instant, credit: i32, deficit: i32) -> (Place, i32, i32) {
        let mut turn = Turn::with_credit(credit);
        turn.deficit = deficit;
        (comer.place(served_at, &mut turn), turn.credit, turn.deficit)
    }

    #[test]
    fn a_new_comer_spends_its_credit_and_a_request_goes_first() {
        assert_eq!(goes(comer(600), NEVER, 1500, 0), (Place::New, 1500, 0));
        assert_eq!(goes(comer(800), NEVER, 1500, 0), (Place::New, 800, 0), "more than half: all of it");
        assert_eq!(goes(Comer { request: true, ..comer(100) }, NEVER, 1500, 0).0, Place::Sparse);
        assert_eq!(goes(comer(600), NEVER, 0, 0).0, Place::Old);
        assert_eq!(goes(Comer { new_flows_first: false, ..comer(600) }, NEVER, 1500, 0).0, Place::Old);
    }

    #[test]
    fn who_has_rested_for_a_round_has_a_quantum_and_no_debt() {
        assert_eq!(goes(comer(400), at(900), -700, -300), (Place::Sparse, 1000, 0));
        let unrested = Comer { rested_first: false, ..comer(400) };
        assert_eq!(goes(unrested, at(900), -700, -300), (Place::Old, 0, -300));
    }

    #[test]
    fn who_needs_no_more_than_its_share_is_sparse() {
        // 50 ms of 100 are half a round: 500 bytes.
        assert_eq!(goes(comer(500), at(950), 0, 0), (Place::Sparse, 500, 0));
        assert_eq!(goes(comer(501), at(950), 0, 0).0, Place::Old);
        assert_eq!(goes(comer(500), at(950), 0, -1).0, Place::Old, "a debt comes first");
    }

    #[test]
    fn what_a_rest_leaves_to_others() {
        // 50 ms of 100 are half of 1000 bytes. A comer that goes first for its rest has had a round of it.
        assert_eq!(comer(600).left_by_rest(at(950), Place::Old), 500);
        assert_eq!(comer(600).left_by_rest(at(950), Place::Sparse), 0);
        assert_eq!(comer(600).left_by_rest(at(750), Place::Sparse), 1500);
        assert_eq!(comer(600).left_by_rest(NEVER, Place::New), 0);
    }

    #[test]
    fn those_who_waited_lately_count_for_a_second() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut lately = Lately::default();
        lately.note(at(10_000), 5);
        assert_eq!(lately.thousandths, 5000);
        // Half of the four that are too many go in half a second, the rest in a second.
        lately.note(at(10_500), 1);
        assert_eq!(lately.thousandths, 3000);
        lately.note(at(11_500), 1);
        assert_eq!(lately.thousandths, 1000);
        lately.note(at(11_501), 7);
        assert_eq!(lately.thousandths, 7000);
    }

    #[test]
    fn lengths_follow_what_leaves() {
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) };
        let mut lengths = Lengths::new(&link);
        assert_eq!((lengths.mean(), lengths.time), (1500, Duration::from_millis(20)));
        lengths.note(&link, Bytes(300), true);
        // 15/16 of 1500 and 1/16 of 300.
        assert_eq!((lengths.mean(), lengths.largest), (1425, 300));
        assert_eq!(lengths.time, Duration::from_millis(19));
        lengths.note(&link, Bytes(60_000), false);
        assert_eq!((lengths.mean(), lengths.largest), (1425, 1500), "it leaves in pieces; and is no data");
    }
}
