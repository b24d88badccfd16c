//! Deficit round robin with two lists before the round: one scheduler for flows, for users and for a user's flows.
//!
//! Each round adds a quantum of bytes to what a member may send (Shreedhar and Varghese, SIGCOMM 1995, section 3).
//! Members in two other lists go before the round and spend a credit: new ones, as in RFC 8290, section 4.2, and sparse
//! ones, which need no more than their share. A credit that is used up makes its member old: it takes its place in the
//! round. New members that go first have a part of the link ([`crate::new_flows`]); where that is all of it
//! ([`Ppm::ONE`](crate::Ppm::ONE)) they always go before the round.
//!
//! The scheduler knows members by their index in an [`Arena`] and touches nothing of them but their [`Turn`]. What
//! differs between disciplines comes as an argument: the quantum and what becomes of an overspent credit ([`Terms`]),
//! and what a member must have in hand for its next packet.
//!
//! Sizes are bytes on the link.

use narrows_lists::{Arena, Linked, Links, List};

use crate::new_flows::{NewFlows, NewShare};

/// The list a member stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// No list: nothing of the member waits.
    #[default]
    Idle,
    /// Served before all others: the member takes no more than its share of the time since it was last served.
    Sparse,
    /// Spends what a new member has, before the old ones or in turn with them.
    New,
    /// Served by deficit round robin.
    Old,
}

/// Treatment of a credit that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Bytes sent beyond it are forgotten; a debt of an earlier round is not.
    Forget,
    /// Bytes left of it, or sent beyond it, count in the first round (RFC 8290, section 4.2).
    Keep,
}

/// State that the scheduler keeps of a member.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Turn {
    #[cfg_attr(feature = "handover", serde(skip))]
    links: Links,
    /// Bytes that the member may send in this round; negative: a debt.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub deficit: i32,
    /// Bytes that the member may send before the old members.
    pub credit: i32,
    /// The latest time to serve a new member, as a count of packets of old ones ([`NewFlows::due`]).
    #[cfg_attr(feature = "handover", serde(skip))]
    due: u16,
    #[cfg_attr(feature = "handover", serde(skip))]
    place: Place,
}

impl Turn {
    /// A member in no list.
    pub const fn with_credit(credit: i32) -> Self {
        Self { links: Links::NONE, deficit: 0, credit, due: 0, place: Place::Idle }
    }

    /// The list that the member stands in, or returns to ([`DeficitScheduler::suspend`]).
    pub const fn place(&self) -> Place {
        self.place
    }

    /// A suspended member has nothing to come back for.
    pub const fn dismiss(&mut self) {
        self.place = Place::Idle;
    }

    /// Gives the place in the list to a new member with `credit`.
    pub const fn restart(&mut self, credit: i32) {
        *self = Self { links: self.links, place: self.place, ..Self::with_credit(credit) };
    }

    pub const fn links(&self) -> &Links {
        &self.links
    }
    pub const fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The lists of a [`DeficitScheduler`].
#[derive(Debug)]
pub enum Service {}

/// A record that can be scheduled. The macro [`member!`] implements this trait.
pub trait Member: Linked<Service> {
    fn turn(&self) -> &Turn;
    fn turn_mut(&mut self) -> &mut Turn;
}

/// Says in which field a record has its [`Turn`]: `member!(FlowState: turn);`.
macro_rules! member {
    (<$($generic:ident),*> $record:ty: $($field:ident).+) => {
        impl<$($generic),*> ::narrows_lists::Linked<$crate::deficit::Service> for $record {
            fn links(&self) -> &::narrows_lists::Links {
                self.$($field).+.links()
            }
            fn links_mut(&mut self) -> &mut ::narrows_lists::Links {
                self.$($field).+.links_mut()
            }
        }
        impl<$($generic),*> $crate::deficit::Member for $record {
            fn turn(&self) -> &$crate::deficit::Turn {
                &self.$($field).+
            }
            fn turn_mut(&mut self) -> &mut $crate::deficit::Turn {
                &mut self.$($field).+
            }
        }
    };
    ($record:ty: $($field:ident).+) => {
        $crate::deficit::member!(<> $record: $($field).+);
    };
}
pub(crate) use member;

/// The rules of service.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Bytes that a round adds.
    pub quantum: i32,
    pub carry: Carry,
    /// The part of the link that new members may have while old ones wait.
    pub share: NewShare,
}

/// Outcome of a member's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The member may send.
    Serve,
    /// The member stood in this list. It now stands at the end of the round, with a quantum more.
    Later(Place),
}

/// Members with something waiting, in the order in which they are served.
#[derive(Debug)]
pub struct DeficitScheduler {
    sparse: List<Service>,
    new: List<Service>,
    old: List<Service>,
    ahead: NewFlows,
}

impl DeficitScheduler {
    /// A scheduler without members.
    pub const EMPTY: Self =
        Self { sparse: List::EMPTY, new: List::EMPTY, old: List::EMPTY, ahead: NewFlows::NONE };

    /// Members in lists.
    pub const fn len(&self) -> usize {
        (self.sparse.len() + self.new.len() + self.old.len()) as usize
    }

    const fn list(&mut self, place: Place) -> &mut List<Service> {
        match place {
            Place::Sparse => &mut self.sparse,
            Place::New => &mut self.new,
            Place::Idle | Place::Old => &mut self.old,
        }
    }

    /// Puts a member that stands in no list at the end of one.
    pub fn join<M: Member>(&mut self, members: &mut (impl Arena<Item = M> + ?Sized), at: u32, place: Place) {
        let due = self.ahead.due(self.old.len());
        let turn = members.at_mut(at).turn_mut();
        debug_assert!(turn.place == Place::Idle && place != Place::Idle);
        (turn.place, turn.due) = (place, due);
        self.list(place).push_back(members, at);
    }

    /// Puts a member that had nothing waiting into a list. One that comes to the round within its turn, with a part of
    /// its quantum left, may send that now; any other one gets a quantum for its first turn.
    pub fn enter<M: Member>(
        &mut self,
        members: &mut (impl Arena<Item = M> + ?Sized),
        at: u32,
        place: Place,
        quantum: i32,
    ) {
        let turn = members.at_mut(at).turn_mut();
        if place == Place::Old && turn.deficit > 0 {
            debug_assert!(turn.place == Place::Idle);
            turn.place = Place::Old;
            return self.old.push_front(members, at);
        }
        if place == Place::Old {
            turn.deficit = turn.deficit.saturating_add(quantum);
        }
        self.join(members, at, place);
    }

    /// Takes a member out of the list that the member stands in.
    pub fn leave<M: Member>(&mut self, members: &mut (impl Arena<Item = M> + ?Sized), at: u32) {
        let place = core::mem::take(&mut members.at_mut(at).turn_mut().place);
        self.list(place).remove(members, at);
    }

    /// Takes a member out of the list that the member stands in, until [`Self::resume`].
    pub fn suspend<M: Member>(&mut self, members: &mut (impl Arena<Item = M> + ?Sized), at: u32) {
        let place = members.at(at).turn().place;
        self.list(place).remove(members, at);
    }

    /// Puts a suspended member at the end of the list that the member was taken from.
    pub fn resume<M: Member>(&mut self, members: &mut (impl Arena<Item = M> + ?Sized), at: u32) {
        let place = members.at(at).turn().place;
        self.list(place).push_back(members, at);
    }

    /// Puts an old member into a list before the round.
    pub fn promote<M: Member>(
        &mut self,
        members: &mut (impl Arena<Item = M> + ?Sized),
        at: u32,
        place: Place,
    ) {
        let due = self.ahead.due(self.old.len());
        self.old.remove(members, at);
        let turn = members.at_mut(at).turn_mut();
        (turn.place, turn.due) = (place, due);
        self.list(place).push_back(members, at);
    }

    /// A member of which nothing waits stays for a round as an old one, so that it is not new with each packet (RFC
    /// 8290, section 4.2). An old one leaves.
    pub fn linger<M: Member>(&mut self, members: &mut (impl Arena<Item = M> + ?Sized), at: u32) {
        let turn = members.at_mut(at).turn_mut();
        if turn.place == Place::Old {
            return self.leave(members, at);
        }
        turn.deficit = turn.credit;
        self.age(members, at);
    }

    /// The member that is asked first.
    #[inline]
    pub fn first<M: Member>(
        &self,
        members: &(impl Arena<Item = M> + ?Sized),
        share: NewShare,
    ) -> Option<u32> {
        let goes =
            |new: &u32| self.old.is_empty() || self.ahead.may_go_first(share, members.at(*new).turn().due);
        self.sparse.first().or_else(|| self.new.first().filter(goes)).or_else(|| self.old.first())
    }

    /// Gives the first member its turn. `need` says what an old one must have in hand for its next packet: 1 where a
    /// packet may be larger than what is left. Each step over an old member adds a quantum to it, so that some member
    /// is served after a finite number of steps.
    #[inline]
    pub fn step<M: Member>(
        &mut self,
        members: &mut (impl Arena<Item = M> + ?Sized),
        at: u32,
        terms: &Terms,
        need: impl FnOnce() -> i32,
    ) -> Step {
        let turn = members.at_mut(at).turn_mut();
        let place = turn.place;
        if place == Place::Old {
            if turn.deficit >= need() {
                return Step::Serve;
            }
            turn.deficit = turn.deficit.saturating_add(terms.quantum);
            self.old.move_to_back(members, at);
        } else {
            if turn.credit > 0 {
                return Step::Serve;
            }
            let left = if terms.carry == Carry::Keep { turn.credit } else { turn.deficit.min(0) };
            turn.deficit = left.saturating_add(terms.quantum);
            self.age(members, at);
        }
        Step::Later(place)
    }

    /// The member to be served, where a packet may be larger than what is left of a turn.
    #[inline]
    pub fn next<M: Member>(
        &mut self,
        members: &mut (impl Arena<Item = M> + ?Sized),
        terms: &Terms,
    ) -> Option<u32> {
        loop {
            let at = self.first(members, terms.share)?;
            if self.step(members, at, terms, || 1) == Step::Serve {
                return Some(at);
            }
        }
    }

    /// Charges a member, chosen when it stood in `place`, for a packet of `cost` bytes. It may have left its list.
    #[inline]
    pub fn charge(&mut self, turn: &mut Turn, share: NewShare, place: Place, cost: i32) {
        if place == Place::Old {
            turn.deficit = turn.deficit.saturating_sub(cost);
            self.ahead.waited(share, cost);
        } else {
            turn.credit = turn.credit.saturating_sub(cost);
            if place == Place::New && !self.old.is_empty() {
                self.ahead.passed(share, cost, turn.due);
            }
        }
    }

    /// Ends the turn of a member: the member goes to the end of its list.
    pub fn pass<M: Member>(&mut self, members: &mut (impl Arena<Item = M> + ?Sized), at: u32) {
        let place = members.at(at).turn().place;
        self.list(place).move_to_back(members, at);
    }

    /// Makes an old member of one that stands in a list before.
    fn age<M: Member>(&mut self, members: &mut (impl Arena<Item = M> + ?Sized), at: u32) {
        let place = core::mem::replace(&mut members.at_mut(at).turn_mut().place, Place::Old);
        self.list(place).remove(members, at);
        self.old.push_back(members, at);
    }

    /// The list whose first is most likely served next.
    pub const fn soon(&self) -> &List<Service> {
        let list = if self.sparse.is_empty() { &self.new } else { &self.sparse };
        if list.is_empty() { &self.old } else { list }
    }

    /// Anybody in a list.
    pub fn anybody(&self) -> Option<u32> {
        [&self.sparse, &self.new, &self.old].iter().find_map(|list| list.first())
    }

    /// The member that is served last.
    pub fn last(&self) -> Option<u32> {
        [&self.old, &self.new, &self.sparse].iter().find_map(|list| list.last())
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Rate;

    use super::*;
    use crate::Ppm;

    struct Flow {
        turn: Turn,
    }
    member!(Flow: turn);

    struct Queue {
        scheduler: DeficitScheduler,
        flows: Vec<Flow>,
        terms: Terms,
    }

    impl Queue {
        /// Makes flows with the given places, credits and deficits.
        fn new(carry: Carry, flows: &[(Place, i32, i32)]) -> Self {
            let share = NewShare::new(Rate::from_kbps(600), Ppm::ONE);
            let mut q = Self {
                scheduler: DeficitScheduler::EMPTY,
                flows: Vec::new(),
                terms: Terms { quantum: 1000, carry, share },
            };
            for (at, &(place, credit, deficit)) in (0..).zip(flows) {
                q.flows.push(Flow { turn: Turn { deficit, ..Turn::with_credit(credit) } });
                q.scheduler.join(&mut q.flows, at, place);
            }
            q
        }

        fn serve(&mut self, cost: i32) -> Option<u32> {
            let at = self.scheduler.next(&mut self.flows, &self.terms)?;
            let turn = self.flows[at as usize].turn_mut();
            let place = turn.place();
            self.scheduler.charge(turn, self.terms.share, place, cost);
            Some(at)
        }

        fn order(&mut self, n: usize, cost: i32) -> Vec<u32> {
            (0..n).map_while(|_| self.serve(cost)).collect()
        }
    }

    #[test]
    fn sparse_before_new_before_old() {
        let mut q = Queue::new(
            Carry::Forget,
            &[(Place::Old, 0, 1000), (Place::New, 1000, 0), (Place::Sparse, 400, -300)],
        );
        // The sparse one owed 300 and begins its round with 700; what it sent beyond its credit is forgotten.
        assert_eq!(q.order(7, 500), [2, 1, 1, 0, 0, 2, 2]);
        assert_eq!(q.scheduler.len(), 3);
    }

    #[test]
    fn what_is_carried_of_a_credit() {
        for (carry, deficit) in [(Carry::Forget, 1000), (Carry::Keep, 800)] {
            let mut q = Queue::new(carry, &[(Place::New, 300, 0)]);
            assert_eq!(q.serve(500), Some(0));
            assert_eq!(q.scheduler.next(&mut q.flows, &q.terms), Some(0));
            assert_eq!((q.flows[0].turn.place(), q.flows[0].turn.deficit), (Place::Old, deficit));
        }
    }

    #[test]
    fn a_large_packet_waits_until_it_is_paid_for() {
        // Figure 3 of the paper: flow 0 has packets of 1500 bytes, flow 1 of 500; a quantum of 1000.
        let mut q = Queue::new(Carry::Forget, &[(Place::Old, 0, 1000), (Place::Old, 0, 1000)]);
        let mut order = Vec::new();
        while order.len() < 8 {
            let at = q.scheduler.first(&q.flows, q.terms.share).unwrap();
            let len = if at == 0 { 1500 } else { 500 };
            if q.scheduler.step(&mut q.flows, at, &q.terms, || len) == Step::Serve {
                q.scheduler.charge(&mut q.flows[at as usize].turn, q.terms.share, Place::Old, len);
                order.push(at);
            }
        }
        assert_eq!(order, [1, 1, 0, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn who_comes_back_within_its_turn_goes_on() {
        let mut q = Queue::new(Carry::Forget, &[(Place::Old, 0, 1000), (Place::Old, 0, 1000)]);
        assert_eq!(q.serve(300), Some(0));
        q.scheduler.leave(&mut q.flows, 0);
        q.scheduler.enter(&mut q.flows, 0, Place::Old, 1000);
        assert_eq!((q.serve(900), q.flows[0].turn.deficit), (Some(0), -200), "700 were left");
        q.scheduler.leave(&mut q.flows, 0);
        q.scheduler.enter(&mut q.flows, 0, Place::Old, 1000);
        assert_eq!((q.serve(900), q.flows[0].turn.deficit), (Some(1), 800), "behind the other");
    }

    #[test]
    fn who_lingers_is_old_once_and_then_gone() {
        let mut q = Queue::new(Carry::Keep, &[(Place::New, 300, 0)]);
        q.scheduler.linger(&mut q.flows, 0);
        assert_eq!((q.flows[0].turn.place(), q.flows[0].turn.deficit), (Place::Old, 300));
        q.scheduler.linger(&mut q.flows, 0);
        assert_eq!((q.flows[0].turn.place(), q.scheduler.anybody()), (Place::Idle, None));
    }

    #[test]
    fn who_is_suspended_keeps_its_list() {
        let mut q = Queue::new(Carry::Forget, &[(Place::New, 900, 0), (Place::New, 900, 0)]);
        q.scheduler.suspend(&mut q.flows, 0);
        assert_eq!((q.scheduler.len(), q.serve(100)), (1, Some(1)));
        q.scheduler.resume(&mut q.flows, 0);
        assert_eq!(
            (q.flows[0].turn.place(), q.serve(100), q.scheduler.last()),
            (Place::New, Some(1), Some(0))
        );
    }
}
