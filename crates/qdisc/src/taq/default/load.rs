//! How loaded the link is, and who is admitted.

use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_users::{CircuitId, User};

use super::flow_state::FlowState;
use super::turns::{Rules, Turns};
use super::{DefaultMode, signed};
use crate::deficit::Carry;
use crate::deficit::Place;
use crate::taq::admission::{Admission, AdmissionConfig, Decisions, Load, Rule, SynDirection};
use crate::taq::{Common, DefaultConfig, WaitingSyn};
use crate::users::Users;
use crate::{Packet, ShaperConfig, Verdicts};

/// How long a connection counts as coming: a handshake and a request over a long path.
const COMING: Duration = Duration::from_secs(1);
/// Connections that can be coming at once: more than are ever admitted.
const MOST_COMING: usize = 4096;
/// Of one user: more than a page opens at once, so that who floods with requests is no crowd.
const MOST_OF_ONE: usize = 16;

impl<P: Packet> DefaultMode<P> {
    /// Whether new pools have to wait: a round of one full packet for each pool that is served takes longer than a
    /// stall may last. Served are the pools of the flows with packets waiting (a user with four connections stalls only
    /// if all four do), and the connections admitted a moment ago that have nothing to send yet.
    pub(super) fn load(&self, now: Instant) -> Load {
        let coming = self.admitted_at.len() - self.admitted_at.partition_point(|t| now.since(*t) >= COMING);
        let waiting = match &self.turns.by_user {
            Some(by) => by.users.waiting(),
            None => self.waiting().min(self.tracker.active_users()),
        };
        let round = self.quantum_time() * (waiting + coming) as u64;
        Load { overloaded: round >= self.config.round_limit_ms, round }
    }

    /// When [`Self::load`] may next change by time alone: as the first of those coming is no longer counted.
    pub(super) fn next_change(&self, now: Instant) -> Instant {
        let gone = self.admitted_at.partition_point(|t| now.since(*t) >= COMING);
        self.admitted_at.get(gone).map_or(Instant::FAR_FUTURE, |t| *t + COMING)
    }

    /// Notes a connection that was admitted, of a user of whom nothing else is active.
    pub(super) fn note_admission(&mut self, now: Instant, user: User) {
        let of_late = self.coming.iter().rev().zip(self.admitted_at.iter().rev());
        let of_one =
            of_late.take_while(|(_, t)| now.since(**t) < COMING).filter(|(other, _)| **other == user);
        if of_one.take(MOST_OF_ONE).count() == MOST_OF_ONE {
            return;
        }
        while self.admitted_at.front().is_some_and(|t| now.since(*t) >= COMING)
            || self.admitted_at.len() >= MOST_COMING
        {
            self.admitted_at.pop_front();
        }
        self.admitted_at.push_back(now);
        self.coming.push_back(user);
        // Whose those are that another box has handed over is not known; they are the oldest.
        while self.coming.len() > self.admitted_at.len() {
            self.coming.pop_front();
        }
    }

    pub(super) fn request(
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
        if self.tracker.active_of(user) == 0 {
            self.note_admission(now, user);
        }
        Some(packet)
    }

    /// The record of the user of a packet that comes for a flow, where there are users.
    pub(super) fn user_of(&mut self, id: u32, circuit: Option<CircuitId>) -> Option<u32> {
        self.turns.by_user.as_ref()?;
        // Whose a flow with packets waiting is does not change.
        if self.flows[id as usize].turn.place() != Place::Idle {
            return self.flows.get(id as usize).map(|flow| flow.user);
        }
        self.enter_user(id, circuit)
    }

    /// Whether a packet without data may go before all: together they have their part of the link, and those of one
    /// user no more than its share.
    pub(super) fn may_send_control(&mut self, now: Instant, user: Option<u32>, cost: Bytes) -> bool {
        let share = Rate::from_bps(self.common.rho_r.of(self.link.rate.as_bps()));
        let users = self.turns.by_user.as_mut().map(|by| &mut by.users).zip(user);
        match users {
            Some((users, user)) => {
                let may = users.may_send_control(now, user) && self.control.charge(now, share, cost);
                if may {
                    users.sent_control(now, user, self.link.rate, cost);
                }
                may
            }
            None => self.control.charge(now, share, cost),
        }
    }

    /// A packet without data goes before all; its user's rate pays for it.
    pub(super) fn pay_for_control(&mut self, now: Instant, packet: &P) {
        let (Some(by), Some(circuit)) = (&mut self.turns.by_user, packet.circuit()) else { return };
        if let Some(user) = by.users.find(User::circuit(circuit)) {
            by.users.pay(now, user, signed(self.link.wire_len(packet.len()).get()));
        }
    }
}

/// The first data of a flow was sent: whoever opened it is no made-up address.
pub(super) fn prove_user<P: Packet>(admission: &mut Admission<P>, flow: &FlowState, packet: &P) {
    if let Some(pool) = admission.of_flow(packet, flow.request_isn.is_some()) {
        admission.prove(pool);
    }
}

/// Whose turn it is: the users', where the link is shared between them.
pub(super) fn turns(common: &Common, config: &DefaultConfig, link: &ShaperConfig, seed: u64) -> Turns {
    let rules = rules(config, link);
    let users = || Users::new(Carry::Forget, common.pools as usize, link.rate, config.new_share, seed);
    let users = common.by_user().then(users);
    Turns::new(rules, signed(config.new_quantum.into()), users)
}

/// How flows share the link.
pub(super) const fn rules(config: &DefaultConfig, link: &ShaperConfig) -> Rules {
    Rules { link: link.rate, new_share: config.new_share }
}

/// The wait queue. A pool joins its own earlier connections for `t_pool`. After that it waits like any other, or those
/// who are admitted would stay so for as long as they have something to ask for.
pub(super) fn admission_config(
    common: &Common,
    config: &DefaultConfig,
    link: &ShaperConfig,
) -> AdmissionConfig {
    AdmissionConfig {
        rule: Rule::WaitQueue {
            idle: common.t_pool,
            pace: Duration::ZERO,
            guarantee: Some(common.t_wait),
            rounds: config.wait_rounds,
        },
        hold: common.waiting_syn != WaitingSyn::Drop,
        pools: common.pools as usize,
        users: common.users(link, common.by_user()),
    }
}
