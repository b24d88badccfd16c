//! The lists flows stand in: one set for all of them, or one for each user.

use narrows_lists::List;
use narrows_units::{Instant, Rate};
use narrows_users::User;

use super::flow_state::{Drr, FlowList, FlowState};
use super::old_flows::{OldFlows, Patience};
use crate::Ppm;
use crate::new_flows::NewFlows;
use crate::taq::Order;
use crate::users::Users;

/// How flows share a link.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub link: Rate,
    pub new_share: Ppm,
    pub order: Order,
}

/// Flows with packets waiting, by how they are served.
#[derive(Debug)]
pub struct FlowLists {
    sparse: List<Drr>,
    new: NewFlows<Drr>,
    old: OldFlows,
}

impl FlowLists {
    pub fn new(rules: Rules) -> Self {
        let Rules { link, new_share, order } = rules;
        Self { sparse: List::EMPTY, new: NewFlows::new(link, new_share), old: OldFlows::new(order) }
    }

    fn reconfigure(&mut self, rules: Rules) {
        self.new.reconfigure(rules.link, rules.new_share);
        self.old.reorder(rules.order);
    }

    /// Puts a flow that stands in no list into one, at its end.
    pub fn push(&mut self, flows: &mut [FlowState], id: u32, place: FlowList) {
        let slot = &mut flows[id as usize];
        slot.place = place;
        match place {
            FlowList::Idle => return,
            FlowList::New => slot.due = self.new.due(self.old.len()),
            FlowList::Old => return self.old.push_back(flows, id),
            FlowList::Sparse => {}
        }
        if let Some(list) = self.list(place) {
            list.push_back(flows, id);
        }
    }

    /// Puts a flow that comes back within its turn before the others.
    fn push_front(&mut self, flows: &mut [FlowState], id: u32) {
        flows[id as usize].place = FlowList::Old;
        self.old.push_front(flows, id);
    }

    /// Takes a flow out of its list.
    fn remove(&mut self, flows: &mut [FlowState], id: u32) {
        let place = core::mem::take(&mut flows[id as usize].place);
        if place == FlowList::Old {
            self.old.remove(flows, id);
        } else if let Some(list) = self.list(place) {
            list.remove(flows, id);
        }
    }

    const fn list(&mut self, place: FlowList) -> Option<&mut List<Drr>> {
        match place {
            FlowList::Idle | FlowList::Old => None,
            FlowList::Sparse => Some(&mut self.sparse),
            FlowList::New => Some(&mut self.new.list),
        }
    }

    /// The flow to be served; `quantum` is what comes round for an old one, `first` for one that becomes old. Ends
    /// because each step over the old flows adds a quantum to one.
    fn next(
        &mut self,
        (now, patience): (Instant, Patience),
        flows: &mut [FlowState],
        first: i32,
        quantum: impl Fn(&FlowState) -> i32,
    ) -> Option<u32> {
        loop {
            if let Some(id) = self.before_old_flows(flows) {
                if flows[id as usize].credit > 0 {
                    return Some(id);
                }
                self.remove(flows, id);
                let slot = &mut flows[id as usize];
                slot.deficit = slot.deficit.min(0).saturating_add(first);
                self.push(flows, id, FlowList::Old);
            } else {
                let id = self.old.first(now, flows, patience)?;
                let slot = &mut flows[id as usize];
                if slot.deficit > 0 {
                    return Some(id);
                }
                slot.deficit = slot.deficit.saturating_add(quantum(slot));
                if self.old.is_in_turn() || slot.deficit <= 0 {
                    self.old.move_to_back(flows, id);
                }
            }
        }
    }

    /// The flow that goes before the old ones now, if one does.
    fn before_old_flows(&self, flows: &[FlowState]) -> Option<u32> {
        let goes = |new: &u32| self.old.is_empty() || self.new.may_go_first(flows[*new as usize].due);
        self.sparse.first().or_else(|| self.new.list.first().filter(goes))
    }

    fn charge(&mut self, flows: &mut [FlowState], (id, place): (u32, FlowList), cost: i32) {
        let slot = &mut flows[id as usize];
        if place == FlowList::Old {
            slot.deficit = slot.deficit.saturating_sub(cost);
            self.new.waited(cost);
            if slot.place == place {
                self.old.charged(flows, id);
            }
        } else {
            slot.credit = slot.credit.saturating_sub(cost);
            if place == FlowList::New && !self.old.is_empty() {
                self.new.passed(cost, slot.due);
            }
        }
    }

    /// The flow that is served last.
    fn last(&self) -> Option<u32> {
        self.old.last().or_else(|| self.new.list.last()).or_else(|| self.sparse.last())
    }
}

/// Users, and whose each flow is.
#[derive(Debug)]
pub struct ByUser {
    pub users: Users<FlowLists>,
    /// The user's record, by flow; valid while the flow has packets waiting.
    of: Vec<u32>,
    rules: Rules,
    new_quantum: i32,
}

impl ByUser {
    fn find_or_make(&mut self, user: User) -> u32 {
        let (rules, credit) = (self.rules, self.new_quantum);
        self.users.find_or_make(user, || (FlowLists::new(rules), credit))
    }

    /// The record of a flow's user, which may be another's by now if nothing of the flow waits.
    pub fn of(&self, id: u32) -> Option<u32> {
        self.of.get(id as usize).copied()
    }
}

/// Who is served next.
#[derive(Debug)]
pub struct Turns {
    /// All flows, where there are no users.
    all: FlowLists,
    pub by_user: Option<Box<ByUser>>,
    /// Flows with packets waiting.
    flows: u32,
}

impl Turns {
    /// Nobody; `users` for two levels.
    pub fn new(rules: Rules, new_quantum: i32, users: Option<Users<FlowLists>>) -> Self {
        let by_user = users.map(|users| Box::new(ByUser { users, of: Vec::new(), rules, new_quantum }));
        Self { all: FlowLists::new(rules), by_user, flows: 0 }
    }

    pub fn reconfigure(&mut self, rules: Rules, new_quantum: i32) {
        self.all.reconfigure(rules);
        if let Some(by) = &mut self.by_user {
            by.users.reconfigure(rules.link, rules.new_share);
            (by.rules, by.new_quantum) = (rules, new_quantum);
            by.users.for_each(|lists| lists.reconfigure(rules));
        }
    }

    /// Flows with packets waiting.
    pub const fn flows(&self) -> usize {
        self.flows as usize
    }

    /// The user of a flow that has a packet from now on; `None` where there are no users.
    pub fn enter(&mut self, id: u32, user: User) -> Option<u32> {
        let by = self.by_user.as_mut()?;
        let at = id as usize;
        if by.of.len() <= at {
            by.of.resize(at + 1, u32::MAX);
        }
        // It mostly is whose it was.
        if !by.users.is_of(by.of[at], user) {
            by.of[at] = by.find_or_make(user);
        }
        Some(by.of[at])
    }

    /// A user has sent something, of flow `id` if that is known.
    pub fn hear(&mut self, user: User, id: Option<u32>) {
        let Some(by) = &mut self.by_user else { return };
        let likely = id.and_then(|id| by.of(id)).filter(|at| by.users.is_of(*at, user));
        let at = likely.unwrap_or_else(|| by.find_or_make(user));
        by.users.hear(at);
    }

    /// Has the record of a flow's user fetched that is needed soon.
    pub fn prefetch(&self, id: usize) {
        if let Some(by) = &self.by_user
            && let Some(user) = by.of.get(id)
        {
            by.users.prefetch(*user);
        }
    }

    fn lists(&mut self, id: u32) -> &mut FlowLists {
        match &mut self.by_user {
            Some(by) => &mut by.users.at_mut(by.of[id as usize]).lists,
            None => &mut self.all,
        }
    }

    /// Puts a flow with a new backlog into a list; `again`: of one of the old ones, within its turn.
    pub fn push(&mut self, flows: &mut [FlowState], id: u32, place: FlowList, again: bool) {
        let lists = self.lists(id);
        if again {
            lists.push_front(flows, id)
        } else {
            lists.push(flows, id, place)
        }
        self.flows += 1;
        if let Some(by) = &mut self.by_user {
            by.users.at_mut(by.of[id as usize]).flows += 1;
        }
    }

    /// Takes a flow without backlog out of its list.
    pub fn leave(&mut self, flows: &mut [FlowState], id: u32) {
        if flows[id as usize].place == FlowList::Idle {
            return;
        }
        self.flows -= 1;
        self.lists(id).remove(flows, id);
        if let Some(by) = &mut self.by_user {
            let user = by.of[id as usize];
            let state = by.users.at_mut(user);
            state.flows -= 1;
            if state.flows == 0 {
                by.users.leave(user);
            }
        }
    }

    /// The flow to be served; see [`FlowLists::next`].
    pub fn next(
        &mut self,
        (now, patience): (Instant, Patience),
        flows: &mut [FlowState],
        first: i32,
        quantum: impl Fn(&FlowState) -> i32,
    ) -> Option<u32> {
        let lists = match &mut self.by_user {
            Some(by) => {
                let user = by.users.next(now, first, |_| 1)?;
                &mut by.users.at_mut(user).lists
            }
            None => &mut self.all,
        };
        lists.next((now, patience), flows, first, quantum)
    }

    /// Charges a flow of list `place` for what it was served, and its user.
    pub fn charge(&mut self, now: Instant, flows: &mut [FlowState], flow: (u32, FlowList), cost: i32) {
        self.lists(flow.0).charge(flows, flow, cost);
        if let Some(by) = &mut self.by_user {
            by.users.charge(now, cost);
        }
    }

    /// A packet of the flow waits from now on, or no longer.
    pub fn queued(&mut self, id: u32, more: bool) {
        if let Some(by) = &mut self.by_user {
            let user = by.of[id as usize];
            if more { by.users.queued(user) } else { by.users.unqueued(user) }
        }
    }

    /// Data of the flow was sent on.
    pub fn served(&mut self, now: Instant, id: u32) {
        if let Some(by) = &mut self.by_user
            && let Some(user) = by.of(id).filter(|user| by.users.get(*user).is_some())
        {
            by.users.at_mut(user).served_at = now;
        }
    }

    /// Who makes room where there are `limit` packets: a flow of a user who has more than its part of that; else
    /// `longest`, or if no flow has more than a packet or two, one that is served last.
    pub fn victim(&self, limit: usize, longest: Option<u32>) -> Option<u32> {
        let Some(by) = &self.by_user else { return longest.or_else(|| self.all.last()) };
        if let Some(user) = by.users.beyond(limit) {
            return longest.filter(|id| by.of(*id) == Some(user)).or_else(|| by.users.at(user).lists.last());
        }
        longest.or_else(|| by.users.at(by.users.last()?).lists.last())
    }
}
