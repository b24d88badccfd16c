//! Packets that wait.
//!
//! A packet stands in three doubly linked lists: the FIFO of its class (4.2 s14), a bucket of those the class could
//! lose ([`Victims`]), and what waits of its flow. So it can be taken out of the middle of each at no cost. Packets of
//! one flow may stand in several classes, and then a later one may be sent first: the paper classifies packets, not
//! flows. Retransmissions stand in the recovery queue instead, ordered by their key (4.2 s5).

use core::cmp::Reverse;
use std::collections::BTreeMap;

use narrows_flow::PacketKind;
use narrows_lists::{Arena as _, Links, List, NIL, Slab, linked};
use narrows_units::{Duration, Instant};

use super::class::Class;
use super::victims::{LOOK, Victims};
use crate::taq::PoolId;
use crate::{Backlog, Packet};

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Node<P> {
    pub(super) packet: P,
    /// The slot of the packet's flow.
    pub(super) flow: u32,
    /// Order of arrival over the whole queue.
    pub(super) arrival: u64,
    /// Key of the packet in the recovery queue; zero for a packet in a FIFO.
    recovery_key: u64,
    pub(super) kind: PacketKind,
    pub(super) class: Class,
    /// Bucket of the packet among those that the packet's class could lose.
    pub(super) bucket: u16,
    in_class: Links,
    in_flow: Links,
    in_bucket: Links,
}

/// Lists of a class's packets.
#[derive(Debug)]
enum InClass {}

linked!(<P> Node<P>, InClass: in_class);

/// Lists of a flow's packets.
#[derive(Debug)]
enum InFlow {}

linked!(<P> Node<P>, InFlow: in_flow);

/// Lists of the packets in a bucket of [`Victims`].
#[derive(Clone, Debug)]
pub(super) enum InBucket {}

linked!(<P> Node<P>, InBucket: in_bucket);

/// Packets of one flow that wait, and state that is kept beside the flow's record: half a cache line, and never across
/// two.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct PaperFlow {
    packets: List<InFlow>,
    /// First packet of the flow that waits above the fair share; [`NIL`] if none does.
    above: u32,
    marks: u8,
    /// Time at which new data was last sent on, in units of 2^20 ns, modulo 2^32 (4.1 s17: the last normal
    /// transmission).
    last_normal: u32,
    /// Pool of the flow.
    pub(super) pool: PoolId,
}

const _: () = assert!(size_of::<PaperFlow>() == 32);

/// The flow lost a packet, here or elsewhere.
pub(super) const LOST: u8 = 1;
/// Packets of the flow may wait among the unknown: until those are gone the others go there too, behind them.
pub(super) const BEHIND_UNKNOWN: u8 = 2;

const UNIT: u32 = 20;

impl PaperFlow {
    /// Number of the flow's packets that wait in a FIFO.
    pub(super) const fn packets(&self) -> u32 {
        self.packets.len()
    }
    pub(super) const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
    pub(super) const fn put(&mut self, mark: u8, on: bool) {
        self.marks = if on { self.marks | mark } else { self.marks & !mark };
    }
    /// New data is sent on.
    pub(super) const fn transmits(&mut self, now: Instant) {
        self.last_normal = (now.as_nanos() >> UNIT) as u32;
    }
    /// Time since new data was last sent on.
    pub(super) const fn since_normal(&self, now: Instant) -> Duration {
        let units = ((now.as_nanos() >> UNIT) as u32).wrapping_sub(self.last_normal);
        Duration::from_nanos((units as u64) << UNIT)
    }
}

impl Default for PaperFlow {
    fn default() -> Self {
        Self { packets: List::EMPTY, above: NIL, marks: 0, last_normal: 0, pool: PoolId::NOBODY }
    }
}

/// Place of a packet: the packet's class, and the bucket there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) class: Class,
    pub(super) bucket: u16,
}

/// Queue of one class.
#[derive(Debug)]
struct ClassQueue {
    packets: List<InClass>,
    backlog: Backlog,
    victims: Victims,
}

/// All that waits.
#[derive(Debug)]
pub(super) struct PaperQueues<P> {
    nodes: Slab<Node<P>>,
    /// Flows by slot.
    pub(super) flows: Vec<PaperFlow>,
    classes: [ClassQueue; 4],
    recovery: BTreeMap<(Reverse<u64>, u64), u32>,
    recovery_backlog: Backlog,
    arrivals: u64,
}

impl<P: Packet> PaperQueues<P> {
    pub(super) fn new() -> Self {
        let empty =
            || ClassQueue { packets: List::EMPTY, backlog: Backlog::default(), victims: Victims::new() };
        Self {
            nodes: Slab::new(),
            flows: Vec::new(),
            classes: [empty(), empty(), empty(), empty()],
            recovery: BTreeMap::new(),
            recovery_backlog: Backlog::default(),
            arrivals: 0,
        }
    }

    /// Backlog of a class.
    pub(super) fn backlog(&self, class: Class) -> Backlog {
        match class.fifo() {
            Some(i) => self.classes[i].backlog,
            None => self.recovery_backlog,
        }
    }

    /// Flows with packets in a class: for reports, because it looks at each packet.
    pub(super) fn flows_in(&self, class: Class) -> usize {
        let mut flows: Vec<u32> = match class.fifo() {
            Some(i) => self.classes[i].packets.iter(&self.nodes).map(|n| self.node(n).flow).collect(),
            None => self.recovery.values().map(|&n| self.node(n).flow).collect(),
        };
        flows.sort_unstable();
        flows.dedup();
        flows.len()
    }

    pub(super) fn node(&self, node: u32) -> &Node<P> {
        self.nodes.at(node)
    }

    pub(super) fn packet(&self, node: u32) -> Option<&P> {
        self.nodes.get(node).map(|n| &n.packet)
    }

    pub(super) fn packet_mut(&mut self, node: u32) -> Option<&mut P> {
        self.nodes.get_mut(node).map(|n| &mut n.packet)
    }

    /// The oldest packet of a class.
    pub(super) fn head(&self, class: Class) -> Option<u32> {
        match class.fifo() {
            Some(i) => self.classes[i].packets.first(),
            None => self.recovery.first_key_value().map(|(_, &n)| n),
        }
    }

    /// The packet a class would lose last in, first out: the newest; of the recovery queue the newest of the lowest
    /// key.
    pub(super) fn tail(&self, class: Class) -> Option<u32> {
        match class.fifo() {
            Some(i) => self.classes[i].packets.last(),
            None => self.recovery.last_key_value().map(|(_, &n)| n),
        }
    }

    /// Whether `node` is the packet that came last of all.
    pub(super) fn is_newest(&self, node: u32) -> bool {
        self.node(node).arrival == self.arrivals
    }

    /// The newest packet of a flow.
    #[cfg(test)]
    pub(super) fn tail_of(&self, flow: u32) -> Option<u32> {
        self.flows[flow as usize].packets.last()
    }

    /// The cheapest consequence that a loss in the FIFO would have.
    pub(super) fn cheapest(&self, fifo: usize) -> Option<usize> {
        self.classes[fifo].victims.cheapest()
    }

    /// Packets of a FIFO that could be lost first.
    pub(super) fn candidates(&self, fifo: usize) -> ([u32; LOOK], usize) {
        self.classes[fifo].victims.candidates(&self.nodes)
    }

    fn insert(&mut self, packet: P, flow: u32, kind: PacketKind, key: u64, place: Place) -> u32 {
        self.arrivals += 1;
        self.nodes.insert(Node {
            packet,
            flow,
            kind,
            arrival: self.arrivals,
            recovery_key: key,
            class: place.class,
            bucket: place.bucket,
            in_class: Links::NONE,
            in_flow: Links::NONE,
            in_bucket: Links::NONE,
        })
    }

    /// A retransmission joins the recovery queue; the larger key goes first, equal keys in order of arrival. Keys are
    /// above zero.
    pub(super) fn push_recovery(&mut self, packet: P, flow: u32, key: u64) {
        self.recovery_backlog.add(packet.len());
        let place = Place { class: Class::Recovery, bucket: 0 };
        let node = self.insert(packet, flow, PacketKind::Retransmission, key, place);
        self.recovery.insert((Reverse(key), self.arrivals), node);
    }

    /// A packet joins the FIFO of a class.
    pub(super) fn push(&mut self, packet: P, flow: u32, kind: PacketKind, place: Place) {
        let Some(fifo) = place.class.fifo() else { return };
        let len = packet.len();
        let node = self.insert(packet, flow, kind, 0, place);
        let kept = &mut self.flows[flow as usize];
        kept.packets.push_back(&mut self.nodes, node);
        if place.class == Class::Above && kept.above == NIL {
            kept.above = node;
        }
        let class = &mut self.classes[fifo];
        class.packets.push_back(&mut self.nodes, node);
        class.backlog.add(len);
        class.victims.add(&mut self.nodes, node, place.bucket);
    }

    /// Moves what a flow has above its fair share to the end of the over-penalised, in its order (4.2 s19). Each packet
    /// is looked at once, however often a flow is penalised.
    pub(super) fn over_penalise(&mut self, flow: u32) {
        let (Some(from), Some(to)) = (Class::Above.fifo(), Class::Over.fifo()) else { return };
        let packets = self.flows[flow as usize].packets;
        let above = core::mem::replace(&mut self.flows[flow as usize].above, NIL);
        let mut next = (above != NIL).then_some(above);
        while let Some(at) = next {
            next = packets.after(&self.nodes, at);
            let &Node { class, bucket, .. } = self.nodes.at(at);
            if class != Class::Above {
                continue;
            }
            let len = self.nodes.at(at).packet.len();
            self.nodes.at_mut(at).class = Class::Over;
            self.classes[from].packets.remove(&mut self.nodes, at);
            self.classes[from].backlog.sub(len);
            self.classes[from].victims.remove(&mut self.nodes, at, bucket);
            self.classes[to].packets.push_back(&mut self.nodes, at);
            self.classes[to].backlog.add(len);
            self.classes[to].victims.add(&mut self.nodes, at, bucket);
        }
    }

    /// Removes a packet from the recovery queue or FIFO that the packet stands in.
    pub(super) fn remove(&mut self, node: u32) -> Node<P> {
        let &Node { flow, recovery_key: key, arrival, class, bucket, .. } = self.nodes.at(node);
        let len = self.nodes.at(node).packet.len();
        match class.fifo() {
            None => {
                self.recovery.remove(&(Reverse(key), arrival));
                self.recovery_backlog.sub(len);
            }
            Some(fifo) => {
                let kept = &mut self.flows[flow as usize];
                if kept.above == node {
                    kept.above = kept.packets.after(&self.nodes, node).unwrap_or(NIL);
                }
                kept.packets.remove(&mut self.nodes, node);
                let class = &mut self.classes[fifo];
                class.packets.remove(&mut self.nodes, node);
                class.backlog.sub(len);
                class.victims.remove(&mut self.nodes, node, bucket);
            }
        }
        self.nodes.remove(node)
    }

    /// Puts a packet of a FIFO where it belongs among those that could be lost.
    pub(super) fn replace(&mut self, node: u32, bucket: u16) {
        let &Node { class, bucket: old, .. } = self.nodes.at(node);
        let Some(fifo) = class.fifo() else { return };
        self.classes[fifo].victims.remove(&mut self.nodes, node, old);
        self.nodes.at_mut(node).bucket = bucket;
        self.classes[fifo].victims.add(&mut self.nodes, node, bucket);
    }
}
