//! Nodes, hosts and links, and how a packet gets from one host to another.
//!
//! A route is the source's own wire, the links between the two nodes, and the destination's own wire. A host sends a
//! packet ([`Network::send`]), and it arrives at a node ([`Network::arrive`]). Each link there is crossed in three
//! steps: [`Network::enqueue`] puts the packet before the link, [`Network::transmit`] puts it on the wire, and
//! [`Network::deliver`] says when it is at the far end.
//!
//! A discipline is asked for its next packet when its link is free, and when it said that it would have one
//! ([`Network::serve`], [`Network::service`]).

mod changing;
mod routes;
#[cfg(test)]
mod tests;

use narrows_qdisc::follow::FollowConfig;
use narrows_qdisc::{Fifo, Packet as _, Reason, ShaperConfig, Spec, Verdict, Verdicts};
use narrows_units::{Bytes, Duration, Instant, Rate};

use crate::drop_tail::DropTail;
use crate::event::{Event, EventQueue};
use crate::ids::{EndId, FlowId, GroupId, HostId, LinkId, NodeId, RouteId};
use crate::link::{Access, Before, Bottleneck, Changing, SimLink};
use crate::loss::Loss;
use crate::own::{Keeper, OwnQueue};
use crate::packet::{Label, Packet, PacketPool, Pkt};
use crate::shaped::Shaped;
use crate::srpt::Srpt;
use crate::tap::Tap;

/// A host: its group, and the state of its two wires. Small, because there may be two for each flow, and never across
/// two cache lines.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Host {
    group: GroupId,
    /// Propagation delay of each of the host's wires, one way.
    delay: Duration,
    /// Instant until which the wire from the host sends.
    out_free: Instant,
    /// Instant until which the wire to the host sends.
    in_free: Instant,
}

impl Host {
    /// Reads the host from memory, before a packet passes the host's wires.
    #[inline]
    pub(crate) fn prefetch(&self) -> u64 {
        self.in_free.as_nanos()
    }

    /// Time at which a packet that comes to the host's own wire at `at` is at the host, which is one of `group`.
    fn pass_in(&mut self, group: &mut Access, at: Instant, len: Bytes) -> Instant {
        self.in_free = at.max(self.in_free) + group.time(len);
        self.in_free + self.delay
    }
}

/// Plan of the queue before a link.
pub(crate) enum QueuePlan<'a> {
    Ours(&'a Spec),
    /// The bound that only the simulator has.
    Srpt,
    /// A discipline that the caller brings.
    Own(Box<dyn OwnQueue>),
}

/// Plan of the shaper at the entrance of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum ShaperPlan<'a> {
    #[default]
    None,
    /// Shaping at a given rate, which may change.
    At(Rate),
    /// Shaping at a rate that a controller finds.
    Follow(&'a FollowConfig),
}

/// Plan of a link between two nodes.
#[derive(Default)]
pub(crate) struct LinkPlan<'a> {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// Rate and framing; `None` for a wire that takes no time to send.
    pub(crate) shape: Option<ShaperConfig>,
    pub(crate) delay: Duration,
    /// Needs a rate to queue for.
    pub(crate) discipline: Option<QueuePlan<'a>>,
    pub(crate) loss: Option<Loss>,
    /// Seed of the discipline's hashing and tie-breaks.
    pub(crate) seed: u64,
    /// Times at which the link sends; `None` if the link's rate is constant.
    pub(crate) changing: Option<Changing>,
    /// Shaper at the entrance.
    pub(crate) shaper: ShaperPlan<'a>,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug)]
struct Hop {
    link: LinkId,
    from: NodeId,
    to: NodeId,
}

/// The network: links, hosts, packets under way, and the queue of events.
pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) events: EventQueue,
    pub(crate) pool: PacketPool,
    pub(crate) links: Vec<SimLink>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) groups: Vec<Access>,
    pub(crate) tap: Tap,
    nodes: u32,
    edges: Vec<Hop>,
    /// Routes by ordered pair of nodes, as lists of links; empty before [`Network::settle`].
    routes: Vec<Box<[LinkId]>>,
    verdicts: Verdicts<Pkt>,
    rng: fastrand::Rng,
    /// Whether a queue asks what a transfer has left ([`crate::srpt`]).
    pub(crate) tells_left: bool,
    /// Shapers whose rate is set from outside.
    shaped: Vec<Shaped>,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Instant::default(),
            events: EventQueue::default(),
            pool: PacketPool::default(),
            links: Vec::new(),
            hosts: Vec::new(),
            groups: Vec::new(),
            tap: Tap::default(),
            nodes: 0,
            edges: Vec::new(),
            routes: Vec::new(),
            verdicts: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
            tells_left: false,
            shaped: Vec::new(),
        }
    }

    pub(crate) fn add_node(&mut self) -> NodeId {
        self.nodes += 1;
        NodeId(self.nodes - 1)
    }

    pub(crate) fn add_link(&mut self, plan: LinkPlan<'_>) -> LinkId {
        let mut link = SimLink::new(plan.shape, plan.delay);
        link.loss = plan.loss.map(Box::new);
        link.changing = plan.changing.map(Box::new);
        let discipline = |discipline| Before::Discipline(Box::new(Bottleneck::new(discipline)));
        link.before = match (plan.discipline, plan.shape) {
            (Some(QueuePlan::Ours(spec)), Some(shape)) if !matches!(plan.shaper, ShaperPlan::None) => {
                discipline(changing::behind_a_shaper(spec, &shape, plan.shaper, plan.seed))
            }
            (Some(QueuePlan::Ours(Spec::Fifo(limit))), Some(_)) if link.loss.is_none() => {
                Before::DropTail(Box::new(DropTail::new(*limit)))
            }
            (Some(QueuePlan::Ours(spec)), Some(shape)) => discipline(spec.build(&shape, plan.seed)),
            (Some(QueuePlan::Srpt), Some(_)) => {
                self.tells_left = true;
                discipline(Box::<Srpt>::default())
            }
            (Some(QueuePlan::Own(queue)), Some(_)) => discipline(Box::new(Keeper::new(queue))),
            _ => Before::Nothing,
        };
        let id = self.push_link(link);
        self.edges.push(Hop { link: id, from: plan.from, to: plan.to });
        id
    }

    /// Makes two links the two directions of one, whose disciplines see each other's packets.
    pub(crate) fn pair(&mut self, a: LinkId, b: LinkId) {
        for (one, other) in [(a, b), (b, a)] {
            self.links[one.index()].watched =
                self.links[other.index()].discipline().is_some_and(|q| q.watches);
            self.links[one.index()].reverse = Some(other);
        }
    }

    /// Adds a group of hosts at a node, each with two wires of `rate`.
    pub(crate) fn add_group(&mut self, node: NodeId, rate: Option<Rate>) -> GroupId {
        self.groups.push(Access::new(node, rate));
        GroupId::of(self.groups.len() - 1)
    }

    /// Adds a host to a group; `delay` is the propagation of the host's wires, one way.
    pub(crate) fn add_host(&mut self, group: GroupId, delay: Duration) -> HostId {
        self.hosts.push(Host { group, delay, out_free: Instant::ZERO, in_free: Instant::ZERO });
        HostId::of(self.hosts.len() - 1)
    }

    /// Begins to capture a link. Only what it has begun to send is in the capture, so its discipline has to be asked.
    pub(crate) fn capture(&mut self, id: LinkId) {
        self.tap.capture_link(id);
        let link = &mut self.links[id.index()];
        if let Before::DropTail(tail) = &link.before {
            let fifo = Fifo::new(tail.limit());
            link.before = Before::Discipline(Box::new(Bottleneck::new(Box::new(fifo))));
        }
    }

    /// The node a host hangs at.
    fn node_of(&self, host: HostId) -> NodeId {
        self.groups[self.hosts[host.index()].group.index()].node
    }

    fn push_link(&mut self, link: SimLink) -> LinkId {
        self.links.push(link);
        LinkId::of(self.links.len() - 1)
    }

    /// The place of the route between two hosts.
    pub(crate) fn route(&self, src: HostId, dst: HostId) -> RouteId {
        self.between(self.node_of(src), self.node_of(dst))
    }

    /// Time of a packet from host to host if the packet never waits.
    pub(crate) fn least_delay(&mut self, packet: &Packet) -> Duration {
        let (Label { src, dst, route, .. }, len) = (packet.label, packet.header.len);
        let mut least = Duration::ZERO;
        for host in [src, dst].map(|host| &self.hosts[host.index()]) {
            least += self.groups[host.group.index()].time(len) + host.delay;
        }
        for id in &self.routes[route.index()] {
            least += self.links[id.index()].least_delay(len);
        }
        least
    }

    /// Sends a packet of no connection.
    pub(crate) fn send_datagram(&mut self, mut packet: Pkt) {
        packet.0.sent = self.now;
        self.send(packet);
    }

    /// Sends a packet from the packet's source host.
    #[inline(always)]
    pub(crate) fn send(&mut self, packet: Pkt) {
        let len = packet.len();
        let host = &mut self.hosts[packet.0.label.src.index()];
        let group = &mut self.groups[host.group.index()];
        let mut at = self.now;
        if group.dephase > Duration::ZERO {
            // In order: a host does not overtake itself, as its wire has sent what left it before.
            at += Duration::from_nanos(self.rng.u64(0..group.dephase.as_nanos()));
        }
        host.out_free = at.max(host.out_free) + group.time(len);
        let at = host.out_free + host.delay;
        self.events.push(at, Event::Arrive(packet));
    }

    /// Wakes an end at `at`. Not inlined: called rarely, and `push` is large.
    #[inline(never)]
    pub(crate) fn wake(&mut self, at: Instant, place: FlowId, end: usize) {
        self.events.push(at, Event::End(EndId::of(place, end)));
    }

    /// A packet is at a node: it comes to the next link of its route, or to the wire of its host.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, packet: Pkt) {
        let Label { route, hop, dst, .. } = packet.0.label;
        if let Some(&id) = self.routes[route.index()].get(usize::from(hop)) {
            return self.enqueue(id, packet);
        }
        let host = &mut self.hosts[dst.index()];
        let at = host.pass_in(&mut self.groups[host.group.index()], self.now, packet.len());
        self.events.push(at, Event::Deliver(packet));
    }

    /// A packet comes to a link.
    #[inline(always)]
    fn enqueue(&mut self, id: LinkId, mut packet: Pkt) {
        let link = &mut self.links[id.index()];
        link.counters.arrive(packet.len());
        if link.watched {
            let Some(passed) = self.reverse(id, packet) else { return };
            packet = passed;
        }
        if self.accept(id, packet) {
            self.attend(id);
        }
    }

    /// Puts a packet into what stands before a link. Tells whether that is a discipline, which is asked for it.
    #[inline(always)]
    fn accept(&mut self, id: LinkId, mut packet: Pkt) -> bool {
        let link = &mut self.links[id.index()];
        match &mut link.before {
            Before::Nothing => {
                self.transmit(id, packet);
                false
            }
            Before::DropTail(_) => {
                match link.take(self.now, self.events.since(), packet.len(), packet.0.label.kind) {
                    Some((begins, at)) => self.deliver(packet, begins, at),
                    None => self.overflow(id, packet),
                }
                false
            }
            Before::Discipline(queue) => {
                packet.0.queued = self.now;
                packet.0.address();
                queue.discipline.enqueue(self.now, packet, &mut self.verdicts);
                if !self.verdicts.is_empty() {
                    self.apply_verdicts(id);
                }
                if self.links[id.index()].feeds.is_some() {
                    self.note_waiting(id);
                }
                true
            }
        }
    }

    /// A drop-tail queue has no room for a packet.
    #[inline(never)]
    fn overflow(&mut self, id: LinkId, packet: Pkt) {
        self.links[id.index()].counters.dropped[Reason::OverLimit as usize] += 1;
        self.tap.lost(&packet);
        self.pool.give(packet);
    }

    /// A link without a queue, or one whose discipline was asked, begins to send a packet.
    fn transmit(&mut self, id: LinkId, mut packet: Pkt) {
        let link = &mut self.links[id.index()];
        let sent = link.send(id, self.now, &packet, &mut self.events);
        let at = sent + link.delay;
        if link.loses(sent, packet.len()) {
            self.tap.lost(&packet);
            return self.pool.give(packet);
        }
        if self.tap.captures(id) {
            packet.0.address();
            self.tap.capture(id, sent, &packet);
        }
        self.deliver(packet, self.now, at);
    }

    /// A packet that begins to leave a link at `since` will be at the link's far end at `at`. A host's own wire is
    /// first in, first out too: if a single link leads to it, when the packet is at its host is computed ahead as well.
    #[inline(always)]
    fn deliver(&mut self, mut packet: Pkt, since: Instant, at: Instant) {
        packet.0.label.hop += 1;
        let Label { route, hop, dst, .. } = packet.0.label;
        if usize::from(hop) == self.routes[route.index()].len() {
            let host = &mut self.hosts[dst.index()];
            let group = &mut self.groups[host.group.index()];
            if group.single {
                let at = host.pass_in(group, at, packet.len());
                return self.events.push_since(since, at, Event::Deliver(packet));
            }
        }
        self.events.push_since(since, at, Event::Arrive(packet));
    }

    /// Shows a packet that enters link `id` to the discipline of the other direction, which may keep it.
    #[inline(never)]
    fn reverse(&mut self, id: LinkId, mut packet: Pkt) -> Option<Pkt> {
        packet.0.address();
        let link = &self.links[id.index()];
        let waits = link.makes_wait(self.now);
        let reverse = link.reverse.expect("only one of a pair is watched");
        let queue = self.links[reverse.index()].discipline_mut().expect("only a discipline watches");
        if waits {
            queue.reverse_path().behind_others();
        }
        let passed = queue.reverse_path().reverse(self.now, packet, &mut self.verdicts);
        self.apply_verdicts(id);
        self.schedule(reverse);
        passed
    }

    /// Lets all links count the sendings begun until now, as seen by an event scheduled at `since`.
    pub(crate) fn catch_up(&mut self, since: Instant) {
        for link in &mut self.links {
            link.catch_up(self.now, since);
        }
    }

    /// A discipline has taken something: it is served if its link is idle, else when that is free.
    fn attend(&mut self, id: LinkId) {
        let queue = self.links[id.index()].discipline_mut().expect("the caller has looked");
        if !queue.free_due {
            if queue.busy_until <= self.now {
                return self.serve(id);
            }
            queue.due_when_free(id, &mut self.events);
        }
        // The packet taken may let the reverse path release what it holds.
        if queue.watches {
            self.schedule(id);
        }
    }

    /// The link has sent a packet.
    pub(crate) fn free(&mut self, id: LinkId) {
        if let Some(queue) = self.links[id.index()].discipline_mut() {
            queue.free_due = false;
        }
        self.serve(id);
    }

    /// Sends the next packet of an idle link, if there is one.
    fn serve(&mut self, id: LinkId) {
        let queue = self.links[id.index()].discipline_mut().expect("only a discipline is served");
        let next = queue.discipline.dequeue(self.now, &mut self.verdicts);
        // A wake-up is due for a discipline that holds packets though the link is free, or whose reverse path may hold
        // some.
        let wakes = queue.watches || (next.is_none() && queue.discipline.backlog().packets > 0);
        if let Some(packet) = next {
            self.transmit(id, packet);
        }
        if self.links[id.index()].feeds.is_some() {
            self.note_waiting(id);
        }
        if !self.verdicts.is_empty() {
            self.apply_verdicts(id);
        }
        if wakes {
            self.schedule(id);
        }
    }

    /// A discipline asked to be called now: what the reverse paths of the pair keep and may go is released first, the
    /// lower link's before the other's, and then each is served, as [`narrows_qdisc::Driver`] has it.
    pub(crate) fn service(&mut self, id: LinkId) {
        let pair = match self.links[id.index()].reverse {
            Some(other) if other < id => [Some(other), Some(id)],
            other => [Some(id), other],
        };
        if let Some(queue) = self.links[id.index()].discipline_mut() {
            queue.serve_due = None;
        }
        for link in pair.into_iter().flatten() {
            if self.links[link.index()].discipline().is_some_and(|q| q.watches) {
                self.release(link);
            }
        }
        for link in pair.into_iter().flatten() {
            let Some(queue) = self.links[link.index()].discipline_mut() else { continue };
            let waits = queue.discipline.backlog().packets > 0;
            if queue.busy_until <= self.now && !queue.free_due && (link == id || waits) {
                self.serve(link);
                continue;
            }
            if waits && !queue.free_due {
                queue.due_when_free(link, &mut self.events);
            }
            if queue.watches || link == id {
                self.schedule(link);
            }
        }
    }

    /// Lets go what the reverse path of link `id` keeps and may go now.
    fn release(&mut self, id: LinkId) {
        let Some(reverse) = self.links[id.index()].reverse else { return };
        while let Some(packet) = self.links[id.index()]
            .discipline_mut()
            .and_then(|q| q.reverse_path().release(self.now, &mut self.verdicts))
        {
            self.apply_verdicts(reverse);
            self.accept(reverse, packet);
        }
        self.apply_verdicts(reverse);
    }

    /// Schedules the event for a discipline that wakes by itself.
    fn schedule(&mut self, id: LinkId) {
        let Some(queue) = self.links[id.index()].discipline_mut() else { return };
        let ready = if queue.free_due || queue.busy_until > self.now {
            None
        } else {
            queue.discipline.next_ready(self.now)
        };
        let release = queue.discipline.reverse_path().and_then(|path| path.next_release(self.now));
        let Some(at) = ready.into_iter().chain(release).min() else { return };
        // At the same instant it would be asked for ever if it had nothing to say.
        let at = at.max(self.now + Duration::from_nanos(1));
        if queue.serve_due.is_none_or(|due| due <= self.now || at < due) {
            queue.serve_due = Some(at);
            self.events.push(at, Event::Serve(id));
        }
    }

    /// Counts what the discipline of link `id`, or the one that watches it, decided, and takes the boxes back. What a
    /// reverse path lets go may push out a packet of the other direction: each counts at the link it came to.
    fn apply_verdicts(&mut self, id: LinkId) {
        let routes = &self.routes;
        let at = |packet: &Pkt| {
            let label = &packet.0.label;
            routes[label.route.index()].get(usize::from(label.hop)).copied().unwrap_or(id).index()
        };
        for verdict in self.verdicts.drain(..) {
            let packet = match verdict {
                Verdict::Marked { .. } => {
                    self.links[id.index()].counters.marked += 1;
                    continue;
                }
                Verdict::Dropped { packet, reason } => {
                    self.links[at(&packet)].counters.dropped[reason as usize] += 1;
                    self.tap.lost(&packet);
                    packet
                }
                Verdict::Suppressed { packet } => {
                    self.links[at(&packet)].counters.suppressed += 1;
                    packet
                }
                Verdict::Refused { packet, .. } => {
                    self.links[at(&packet)].counters.refused += 1;
                    packet
                }
            };
            self.pool.give(packet);
        }
    }
}
