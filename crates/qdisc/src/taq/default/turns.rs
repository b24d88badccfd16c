//! The lists flows stand in: one set for all of them, or one for each user.

use narrows_units::{Instant, Rate};
use narrows_users::User;

use super::flow_state::FlowState;
use crate::Ppm;
use crate::deficit::{Carry, DeficitScheduler, Place, Terms};
use crate::new_flows::NewShare;
use crate::users::Users;

/// How flows share a link.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub link: Rate,
    pub new_share: Ppm,
}

/// What is sent of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub flow: u32,
    /// The list it stood in.
    pub place: Place,
    /// Bytes on the link.
    pub cost: i32,
    /// Whether it is data.
    pub data: bool,
    /// Whether nothing of the flow waits any more.
    pub last: bool,
}

/// Users, and whose each flow is.
#[derive(Debug)]
pub struct ByUser {
    pub users: Users<DeficitScheduler>,
    new_quantum: i32,
}

impl ByUser {
    fn find_or_make(&mut self, user: User) -> u32 {
        let credit = self.new_quantum;
        self.users.find_or_make(user, || (DeficitScheduler::EMPTY, credit))
    }
}

/// Who is served next.
#[derive(Debug)]
pub struct Turns {
    /// All flows, where there are no users.
    all: DeficitScheduler,
    pub by_user: Option<Box<ByUser>>,
    new_share: NewShare,
    /// Flows with packets waiting.
    flows: u32,
}

impl Turns {
    /// Nobody; `users` for two levels.
    pub fn new(rules: Rules, new_quantum: i32, users: Option<Users<DeficitScheduler>>) -> Self {
        let Rules { link, new_share } = rules;
        let by_user = users.map(|users| Box::new(ByUser { users, new_quantum }));
        Self { all: DeficitScheduler::EMPTY, by_user, new_share: NewShare::new(link, new_share), flows: 0 }
    }

    pub fn reconfigure(&mut self, rules: Rules, new_quantum: i32) {
        self.new_share = NewShare::new(rules.link, rules.new_share);
        if let Some(by) = &mut self.by_user {
            by.users.reconfigure(rules.link, rules.new_share);
            by.new_quantum = new_quantum;
        }
    }

    /// Flows with packets waiting.
    pub const fn flows(&self) -> usize {
        self.flows as usize
    }

    /// The user of a flow that has a packet from now on; `None` where there are no users.
    pub fn enter(&mut self, flow: &mut FlowState, user: User) -> Option<u32> {
        let by = self.by_user.as_mut()?;
        // It mostly is whose it was.
        if !by.users.is_of(flow.user, user) {
            flow.user = by.find_or_make(user);
        }
        Some(flow.user)
    }

    /// A user has sent something, of `flow` if that is known.
    pub fn hear(&mut self, user: User, flow: Option<&FlowState>) {
        let Some(by) = &mut self.by_user else { return };
        let likely = flow.map(|flow| flow.user).filter(|at| by.users.is_of(*at, user));
        let at = likely.unwrap_or_else(|| by.find_or_make(user));
        by.users.hear(at);
    }

    /// Has the record of a flow's user fetched that is needed soon.
    pub fn prefetch(&self, flow: &FlowState) {
        if let Some(by) = &self.by_user {
            by.users.prefetch(flow.user);
        }
    }

    /// The flows that are most likely served next, while the record of the user after theirs is fetched.
    pub fn soon(&self, flows: &[FlowState]) -> [Option<u32>; 2] {
        match &self.by_user {
            Some(by) => {
                let (first, second) = by.users.soon();
                [first.and_then(|lists| lists.soon().first()), second.and_then(|lists| lists.soon().first())]
            }
            None => {
                let list = self.all.soon();
                let first = list.first();
                [first, first.and_then(|first| list.after(flows, first))]
            }
        }
    }

    /// Puts a flow with a new backlog into a list; see [`DeficitScheduler::enter`].
    pub fn enter_list(&mut self, flows: &mut [FlowState], id: u32, place: Place, quantum: i32) {
        self.flows += 1;
        let lists = match &mut self.by_user {
            Some(by) => {
                let user = by.users.at_mut(flows[id as usize].user);
                user.flows += 1;
                &mut user.lists
            }
            None => &mut self.all,
        };
        lists.enter(flows, id, place, quantum);
    }

    /// Takes a flow without backlog out of its list.
    pub fn leave(&mut self, flows: &mut [FlowState], id: u32) {
        if flows[id as usize].turn.place() == Place::Idle {
            return;
        }
        self.flows -= 1;
        let Some(by) = &mut self.by_user else { return self.all.leave(flows, id) };
        let at = flows[id as usize].user;
        let user = by.users.at_mut(at);
        user.lists.leave(flows, id);
        user.flows -= 1;
        if user.flows == 0 {
            by.users.leave(at);
        }
    }

    /// The flow to be served.
    pub fn next(&mut self, now: Instant, quantum: i32, flows: &mut [FlowState]) -> Option<u32> {
        let lists = match &mut self.by_user {
            Some(by_user) => {
                let user = by_user.users.next(now, quantum, |_| 1)?;
                &mut by_user.users.at_mut(user).lists
            }
            None => &mut self.all,
        };
        lists.next(flows, &Terms { quantum, carry: Carry::Forget, share: self.new_share })
    }

    /// A packet of the flow that was chosen is sent: it is charged for it, and so is its user.
    pub fn sent(&mut self, now: Instant, flows: &mut [FlowState], sent: Sent) {
        self.flows -= u32::from(sent.last);
        let Some(by) = &mut self.by_user else {
            if sent.last {
                self.all.leave(flows, sent.flow);
            }
            self.all.charge(&mut flows[sent.flow as usize].turn, self.new_share, sent.place, sent.cost);
            return;
        };
        let new_share = self.new_share;
        by.users.sent(now, sent.cost, |user| {
            user.unqueued();
            if sent.last {
                user.lists.leave(flows, sent.flow);
                user.flows -= 1;
            }
            user.lists.charge(&mut flows[sent.flow as usize].turn, new_share, sent.place, sent.cost);
            if sent.data {
                user.served_at = now;
            }
        });
    }

    /// A packet of the flow waits from now on, or no longer.
    pub fn queued(&mut self, flow: &FlowState, more: bool) {
        if let Some(by) = &mut self.by_user {
            if more { by.users.queued(flow.user) } else { by.users.at_mut(flow.user).unqueued() }
        }
    }

    /// Who makes room where there are `limit` packets: a flow of a user who has more than its part of that; else
    /// `longest`, or if no flow has more than a packet or two, one that is served last.
    pub fn victim(&self, flows: &[FlowState], limit: usize, longest: Option<u32>) -> Option<u32> {
        let Some(by) = &self.by_user else { return longest.or_else(|| self.all.last()) };
        if let Some(user) = by.users.beyond(limit) {
            return longest
                .filter(|id| flows[*id as usize].user == user)
                .or_else(|| by.users.at(user).lists.last());
        }
        longest.or_else(|| by.users.at(by.users.last()?).lists.last())
    }
}
