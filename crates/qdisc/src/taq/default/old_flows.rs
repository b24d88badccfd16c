//! Old flows in the order in which they are served: in turn, or the short first as far as it costs nobody a stall.
//!
//! The mean time of transfers is least where the one with the fewest bytes left goes first (Schrage 1968), which a
//! queue cannot see. It sees what waits of a flow and what it has been served. A sender begins with a window of ten
//! packets (RFC 6928), QUIC with up to thirty-two: of a flow that has not sent more than that, all that is left waits
//! here. Of others the more is to come the more there has been (least attained service: Rai, Urvoy-Keller and Biersack
//! 2003).
//!
//! Flows stand in classes by that, an octave each, and in a class in turn; so all long transfers are served in turn.
//! The class with least goes first. But a flow that has waited longer than its patience goes before all, the one most
//! overdue first: if all wait for that long, they are served in turn. A long transfer, which takes many rounds in any
//! order, is ready to wait for some more.

use narrows_lists::List;
use narrows_units::{Duration, Instant};

use super::flow_state::{DrrList, FlowState, NEVER};
use crate::taq::Order;

/// The first has fewer than two kilobytes left, the last 32 or more.
const CLASSES: usize = 6;
/// The class of long transfers: more than a page's largest objects.
const LONG: usize = CLASSES - 1;
/// What a sender of TCP may send before it is answered: ten packets, and some more for what they are wrapped in.
const FIRST_WINDOW: u64 = 16_000;
/// The same of others: thirty-two packets.
const OTHERS_FIRST_WINDOW: u64 = 40_000;

/// How long a flow waits for shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// What any flow waits.
    pub any: Duration,
    /// What nobody shall wait longer than for the sake of others.
    pub most: Duration,
    /// What the link takes for a data packet: a round is one of each flow.
    pub packet: Duration,
    pub flows: u64,
}

impl Patience {
    /// Rounds that a long transfer waits besides.
    const ROUNDS: u64 = 4;

    /// What a long transfer waits. Reckoned only where one is asked: most packets need it not.
    fn long(&self) -> Duration {
        let rounds = self.packet * self.flows.max(1) * Self::ROUNDS;
        (self.any + rounds).min(self.most.max(self.any))
    }

    fn of(&self, class: usize) -> Duration {
        if class < LONG { self.any } else { self.long() }
    }
}

/// The flows. Where each user has such lists, the one list of those served in turn takes little room.
#[derive(Debug)]
pub struct OldFlows {
    /// In turn; empty where there are classes.
    turn: List<DrrList>,
    /// By class; once there are any they stay, and of those served in turn the first class has all.
    classes: Option<Box<Classes>>,
}

/// The flows by class.
#[derive(Debug)]
pub struct Classes {
    classes: [List<DrrList>; CLASSES],
    /// A bit for each class that has flows.
    used: u8,
    len: u32,
    order: Order,
    /// Whose turn is not over.
    serving: Option<u32>,
}

impl OldFlows {
    pub fn new(order: Order) -> Self {
        let mut new = Self { turn: List::EMPTY, classes: None };
        new.reorder(order);
        new
    }

    pub fn len(&self) -> u32 {
        self.classes.as_ref().map_or(self.turn.len(), |by| by.len)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether none goes before another.
    pub fn is_in_turn(&self) -> bool {
        self.classes.as_ref().is_none_or(|by| by.order == Order::Turn)
    }

    /// Another order, from each flow's next turn on.
    pub fn reorder(&mut self, order: Order) {
        match &mut self.classes {
            Some(by) => (by.order, by.serving) = (order, None),
            None if order == Order::Turn => {}
            None => {
                let first = core::mem::take(&mut self.turn);
                self.classes = Some(Box::new(Classes::new(order, first)));
            }
        }
    }

    pub fn push_back(&mut self, flows: &mut [FlowState], id: u32) {
        self.enter(flows, id).push_back(flows, id);
    }

    /// A flow comes back within its turn: what it has left of it, it may send now.
    pub fn push_front(&mut self, flows: &mut [FlowState], id: u32) {
        self.enter(flows, id).push_front(flows, id);
    }

    /// The list of a flow that comes.
    fn enter(&mut self, flows: &mut [FlowState], id: u32) -> &mut List<DrrList> {
        match &mut self.classes {
            Some(by) => by.enter(flows, id),
            None => {
                flows[id as usize].due = 0;
                &mut self.turn
            }
        }
    }

    pub fn remove(&mut self, flows: &mut [FlowState], id: u32) {
        match &mut self.classes {
            Some(by) => by.remove(flows, id),
            None => self.turn.remove(flows, id),
        }
    }

    /// The flow has had its turn.
    pub fn move_to_back(&mut self, flows: &mut [FlowState], id: u32) {
        self.remove(flows, id);
        self.push_back(flows, id);
    }

    /// The flow was charged for a packet. With what it has left it goes on; else its turn is over, or it would stand
    /// before those of its class who have waited longer. (In turn that is seen to when it comes to it again.)
    pub fn charged(&mut self, flows: &mut [FlowState], id: u32) {
        let Some(by) = self.classes.as_mut().filter(|by| by.order != Order::Turn) else { return };
        if flows[id as usize].deficit > 0 {
            by.serving = Some(id);
        } else {
            self.move_to_back(flows, id);
        }
    }

    /// The flow that is served last.
    pub fn last(&self) -> Option<u32> {
        match &self.classes {
            Some(by) => by.classes.get(by.used.checked_ilog2()? as usize)?.last(),
            None => self.turn.last(),
        }
    }

    /// Some flows whose turn comes soon.
    pub fn soon(&self) -> Option<&List<DrrList>> {
        match &self.classes {
            Some(by) => by.classes.get(by.used.trailing_zeros() as usize),
            None => Some(&self.turn),
        }
    }

    /// The flow whose turn it is.
    pub fn first(&self, now: Instant, flows: &[FlowState], patience: Patience) -> Option<u32> {
        match &self.classes {
            Some(by) => by.first(now, flows, patience),
            None => self.turn.first(),
        }
    }
}

impl Classes {
    /// Those of `first` stand in the first class.
    fn new(order: Order, first: List<DrrList>) -> Self {
        let mut classes = [List::EMPTY; CLASSES];
        classes[0] = first;
        Self { classes, used: u8::from(!first.is_empty()), len: first.len(), order, serving: None }
    }

    fn enter(&mut self, flows: &mut [FlowState], id: u32) -> &mut List<DrrList> {
        let slot = &mut flows[id as usize];
        let class = class(self.order, slot);
        slot.due = class as u16;
        self.used |= 1 << class;
        self.len += 1;
        &mut self.classes[class]
    }

    fn remove(&mut self, flows: &mut [FlowState], id: u32) {
        self.serving = self.serving.filter(|serving| *serving != id);
        let class = usize::from(flows[id as usize].due);
        self.classes[class].remove(flows, id);
        if self.classes[class].is_empty() {
            self.used &= !(1 << class);
        }
        self.len -= 1;
    }

    fn first(&self, now: Instant, flows: &[FlowState], patience: Patience) -> Option<u32> {
        if self.serving.is_some() {
            return self.serving;
        }
        let shortest = self.classes.get(self.used.trailing_zeros() as usize)?.first();
        if self.used.is_power_of_two() {
            return shortest;
        }
        let overdue = |(class, list): (usize, &List<DrrList>)| {
            let head = list.first()?;
            let (served_at, patience) = (flows[head as usize].served_at, patience.of(class));
            // What has only sent packets without data is behind those who have waited for theirs.
            let waited = if served_at == NEVER { patience } else { now.since(served_at) };
            (waited >= patience).then(|| (waited.saturating_sub(patience), head))
        };
        let all = self.classes.iter().enumerate().filter_map(overdue);
        let longest = all.reduce(|a, b| if b.0 > a.0 { b } else { a });
        longest.map(|(_, id)| id).or(shortest)
    }
}

/// The class of a flow.
fn class(order: Order, slot: &FlowState) -> usize {
    let (waits, served) = (slot.queue.bytes(), u64::from(slot.served));
    // What is not TCP has no segments.
    let window = if slot.segment == 0 { OTHERS_FIRST_WINDOW } else { FIRST_WINDOW };
    let bytes = match order {
        Order::Turn => 0,
        Order::Attained => served,
        Order::Short if waits + served <= window => waits,
        Order::Short => waits + served,
    };
    (bytes >> 10).checked_ilog2().map_or(0, |octave| (octave as usize).min(CLASSES - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long transfers wait a second.
    const PATIENCE: Patience = Patience { any: ms(600), most: ms(3000), packet: ms(50), flows: 2 };

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::ZERO + ms(n)
    }

    /// A flow of TCP with so much waiting and served, the last at 0.
    fn flow(waits: u64, served: u32) -> FlowState {
        let mut flow = FlowState::default();
        (flow.served, flow.served_at, flow.segment) = (served, Instant::ZERO, 1448);
        flow.queue.set_bytes(waits);
        flow
    }

    /// The same of another transport.
    fn other(waits: u64, served: u32) -> FlowState {
        let mut flow = flow(waits, served);
        flow.segment = 0;
        flow
    }

    #[test]
    fn classes_by_hand() {
        for (flow, attained, short) in [
            // Two packets of a first window are left, whatever came before.
            (flow(3000, 0), 0, 1),
            (flow(3000, 9000), 3, 1),
            (flow(15_000, 0), 0, 3),
            // Beyond the first window nobody knows: 18 kB so far.
            (flow(3000, 15_000), 3, 4),
            (flow(3000, 40_000), 5, 5),
            (flow(3000, 4_000_000), 5, 5),
            // What is not TCP may have a larger one.
            (other(3000, 15_000), 3, 1),
        ] {
            let classes = [Order::Turn, Order::Attained, Order::Short].map(|order| class(order, &flow));
            assert_eq!(classes, [0, attained, short], "{flow:?}");
        }
    }

    #[test]
    fn the_short_go_first_until_somebody_is_out_of_patience() {
        let mut flows = vec![flow(15_000, 0), flow(3000, 100_000), flow(3000, 0), flow(3000, 0)];
        let mut old = OldFlows::new(Order::Short);
        (0..4).for_each(|id| old.push_back(&mut flows, id));
        assert_eq!((old.len(), old.last()), (4, Some(1)));
        let first = |old: &OldFlows, flows: &[FlowState], n| old.first(at(n), flows, PATIENCE);
        assert_eq!(first(&old, &flows, 500), Some(2));
        flows[2].served_at = at(500);
        old.move_to_back(&mut flows, 2);
        assert_eq!(first(&old, &flows, 590), Some(3), "as short, and its turn");
        flows[3].served_at = at(590);
        old.move_to_back(&mut flows, 3);
        assert_eq!(first(&old, &flows, 610), Some(0), "10 ms overdue");
        flows[0].served_at = at(610);
        old.move_to_back(&mut flows, 0);
        assert_eq!(first(&old, &flows, 990), Some(2), "the long one waits longer");
        assert_eq!(first(&old, &flows, 1110), Some(1), "110 ms overdue; the other 10");
        old.remove(&mut flows, 1);
        assert_eq!(first(&old, &flows, 1205), Some(2), "105 ms; and one 95 ms and one 15 ms");
    }

    #[test]
    fn a_turn_ends_with_the_deficit() {
        let mut flows = vec![flow(3000, 100_000), flow(3000, 0), flow(3000, 0)];
        let mut old = OldFlows::new(Order::Short);
        (0..3).for_each(|id| old.push_back(&mut flows, id));
        let first = |old: &OldFlows, flows: &[FlowState]| old.first(at(0), flows, PATIENCE);
        flows[0].deficit = 100;
        old.charged(&mut flows, 0);
        assert_eq!(first(&old, &flows), Some(0), "a small packet: the rest of its quantum comes next");
        flows[0].deficit = -1300;
        old.charged(&mut flows, 0);
        assert_eq!(first(&old, &flows), Some(1));
        old.charged(&mut flows, 1);
        assert_eq!(first(&old, &flows), Some(2));
        flows[2].deficit = 1;
        old.charged(&mut flows, 2);
        old.remove(&mut flows, 2);
        assert_eq!(first(&old, &flows), Some(1), "who has left goes on no more");
    }

    #[test]
    fn how_long_a_long_transfer_waits() {
        let long = |packet, flows, most| {
            Patience { any: ms(600), most: ms(most), packet: ms(packet), flows }.of(LONG)
        };
        assert_eq!([long(50, 2, 3000), long(300, 3, 3000), long(0, 9, 500)], [ms(1000), ms(3000), ms(600)]);
        assert_eq!(long(100, 0, 3000), ms(1000), "as if one waited");
    }

    #[test]
    fn in_turn_all_are_alike() {
        let mut flows = vec![flow(3000, 100_000), flow(3000, 0), flow(15_000, 0)];
        let mut old = OldFlows::new(Order::Turn);
        for id in 0..3 {
            old.push_back(&mut flows, id);
        }
        let mut served = Vec::new();
        for n in 0..4 {
            let id = old.first(at(5000 * n), &flows, PATIENCE).unwrap();
            old.move_to_back(&mut flows, id);
            served.push(id);
        }
        assert_eq!(served, [0, 1, 2, 0]);
    }
}
