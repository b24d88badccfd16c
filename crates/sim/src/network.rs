//! Nodes, hosts and links, and how a packet gets from one host to another.
//!
//! A route is the source's way out, the links between the two nodes, and the destination's way in. Where a link takes
//! packets from one place only, and those in order, it can be told of a packet before the packet is there: such links
//! cost no events of their own (`fused`).

mod changing;
mod routes;
mod service;
mod tail;
#[cfg(test)]
mod tests;

use narrows_qdisc::follow::FollowConfig;
use narrows_qdisc::{Fifo, Packet as _, ShaperConfig, Spec, Verdicts};
use narrows_units::{Bytes, Duration, Instant, Rate};

use crate::drop_tail::DropTail;
use crate::event::{Event, EventQueue};
use crate::link::{Access, Bottleneck, Changing, SimLink};
use crate::loss::Loss;
use crate::packet::{PacketPool, Pkt};
use crate::shaped::Shaped;
use crate::srpt::Srpt;
use crate::tap::Tap;

/// A host: its group, and the state of its two wires. Small, because there may be two for each flow, and never across
/// two cache lines.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Host {
    group: u32,
    /// Propagation of its wires, one way.
    delay: Duration,
    /// Until when its wire out sends.
    out_free: Instant,
    /// Until when the wire to it sends.
    in_free: Instant,
}

impl Host {
    /// Reads it, before a packet passes its wires.
    #[inline]
    pub(crate) fn prefetch(&self) -> u64 {
        self.in_free.as_nanos()
    }

    /// When a packet that comes to the host's own wire at `at` is at the host, which is one of `group`.
    fn pass_in(&mut self, group: &mut Access, at: Instant, len: Bytes) -> Instant {
        self.in_free = at.max(self.in_free) + group.time(len);
        self.in_free + self.delay
    }
}

/// What is to stand before a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueuePlan<'a> {
    Ours(&'a Spec),
    /// The bound that only the simulator has.
    Srpt,
}

/// Who shapes what enters a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum ShaperPlan<'a> {
    #[default]
    None,
    /// At a rate, which may change.
    At(Rate),
    /// At one that is found out.
    Follow(&'a FollowConfig),
}

/// A link between nodes, as it is to be built.
#[derive(Default)]
pub(crate) struct LinkPlan<'a> {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// `None` for a wire that takes no time to send.
    pub(crate) shape: Option<ShaperConfig>,
    pub(crate) delay: Duration,
    /// Needs a rate to queue for.
    pub(crate) discipline: Option<QueuePlan<'a>>,
    pub(crate) loss: Option<Loss>,
    /// For the discipline's hashing and tie-breaks.
    pub(crate) seed: u64,
    /// When it sends, if its rate changes.
    pub(crate) changing: Option<Changing>,
    /// Who shapes what enters it.
    pub(crate) shaper: ShaperPlan<'a>,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug)]
struct Hop {
    link: u32,
    from: u32,
    to: u32,
}

/// All that packets pass through.
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
    /// For each ordered pair of nodes, the links between them; empty before [`Network::settle`].
    routes: Vec<Box<[u32]>>,
    verdicts: Verdicts<Pkt>,
    rng: fastrand::Rng,
    /// Whether a queue asks what a transfer has left ([`crate::srpt`]).
    pub(crate) tells_left: bool,
    /// Shapers that are told their rates.
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

    pub(crate) fn add_node(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes - 1
    }

    pub(crate) fn add_link(&mut self, plan: LinkPlan<'_>) -> u32 {
        let mut link = SimLink::new(plan.shape, plan.delay);
        link.loss = plan.loss.map(Box::new);
        link.changing = plan.changing.map(Box::new);
        match (plan.discipline, plan.shape) {
            (Some(QueuePlan::Ours(spec)), Some(shape)) if !matches!(plan.shaper, ShaperPlan::None) => {
                let discipline = changing::behind_a_shaper(spec, &shape, plan.shaper, plan.seed);
                link.queue = Some(Box::new(Bottleneck::new(discipline)));
            }
            (Some(QueuePlan::Ours(Spec::Fifo(limit))), Some(_)) if link.loss.is_none() => {
                link.tail = Some(DropTail::new(*limit));
            }
            (Some(QueuePlan::Ours(spec)), Some(shape)) => {
                link.queue = Some(Box::new(Bottleneck::new(spec.build(&shape, plan.seed))));
            }
            (Some(QueuePlan::Srpt), Some(_)) => {
                self.tells_left = true;
                link.queue = Some(Box::new(Bottleneck::new(Box::new(Srpt::default()))));
            }
            _ => {}
        }
        let id = self.push_link(link);
        self.edges.push(Hop { link: id, from: plan.from, to: plan.to });
        id
    }

    /// Makes two links the two directions of one, whose disciplines see each other's packets.
    pub(crate) fn pair(&mut self, a: u32, b: u32) {
        for (one, other) in [(a, b), (b, a)] {
            self.links[one as usize].watched =
                self.links[other as usize].queue.as_ref().is_some_and(|q| q.watches);
            self.links[one as usize].reverse = Some(other);
        }
    }

    /// Adds a group of hosts at a node, each with two wires of `rate`.
    pub(crate) fn add_group(&mut self, node: u32, rate: Option<Rate>) -> u32 {
        self.groups.push(Access::new(node, rate));
        u32::try_from(self.groups.len() - 1).expect("a scenario is checked to have fewer groups")
    }

    /// Adds a host to a group; `delay` is that of its wires, one way.
    pub(crate) fn add_host(&mut self, group: u32, delay: Duration) -> u32 {
        let never = Instant::ZERO;
        self.hosts.push(Host { group, delay, out_free: never, in_free: never });
        u32::try_from(self.hosts.len() - 1).expect("a scenario is checked to have fewer hosts")
    }

    /// Begins to capture a link. Only what it has begun to send is in the capture, so its discipline has to be asked.
    pub(crate) fn capture(&mut self, id: u32) {
        self.tap.capture_link(id);
        let link = &mut self.links[id as usize];
        if let Some(tail) = link.tail.take() {
            link.queue = Some(Box::new(Bottleneck::new(Box::new(Fifo::new(tail.limit())))));
        }
    }

    /// The node a host hangs at.
    fn node_of(&self, host: u32) -> u32 {
        self.groups[self.hosts[host as usize].group as usize].node
    }

    fn push_link(&mut self, link: SimLink) -> u32 {
        self.links.push(link);
        u32::try_from(self.links.len() - 1).expect("a scenario is checked to have fewer links")
    }

    /// The place of the route between two hosts.
    pub(crate) fn route(&self, src: u32, dst: u32) -> u32 {
        self.node_of(src) * self.nodes + self.node_of(dst)
    }

    /// Sends a packet of no connection.
    pub(crate) fn send_datagram(&mut self, mut packet: Pkt) {
        packet.0.sent = self.now;
        self.send(packet);
    }

    /// Sends a packet from its host.
    #[inline(always)]
    pub(crate) fn send(&mut self, packet: Pkt) {
        let len = packet.len();
        let host = &mut self.hosts[packet.0.label.src as usize];
        let group = &mut self.groups[host.group as usize];
        let mut at = self.now;
        if group.dephase > Duration::ZERO {
            // In order: a host does not overtake itself, as its wire has sent what left it before.
            at += Duration::from_nanos(self.rng.u64(0..group.dephase.as_nanos()));
        }
        host.out_free = at.max(host.out_free) + group.time(len);
        let at = host.out_free + host.delay;
        self.events.push(at, Event::Arrive(packet));
    }

    /// Wakes an end at `at`. Few calls of those who ask come to this, and `push` is long.
    #[inline(never)]
    pub(crate) fn wake(&mut self, at: Instant, end: u32) {
        self.events.push(at, Event::End(end));
    }

    /// A packet has arrived somewhere. Gives it back if nothing else comes before it is at its host.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, packet: Pkt) -> Option<Pkt> {
        let hop = usize::from(packet.0.label.hop);
        let route = &self.routes[packet.0.label.route as usize];
        if let Some(&id) = route.get(hop) {
            let link = &mut self.links[id as usize];
            if link.tail.is_none() || link.watched {
                self.enter(id, packet, self.now);
                return None;
            }
            let (len, is_last) = (packet.len(), hop + 1 == route.len());
            link.counters.arrive(len);
            let Some((begins, at)) = link.take(self.now, self.events.since(), len, packet.0.label.kind)
            else {
                self.overflow(id, packet);
                return None;
            };
            if is_last {
                return self.go_now(packet, begins, at);
            }
            self.go(packet, begins, at);
        } else {
            let host = &mut self.hosts[packet.0.label.dst as usize];
            let at = host.pass_in(&mut self.groups[host.group as usize], self.now, packet.len());
            self.events.push(at, Event::Deliver(packet));
        }
        None
    }

    /// A packet comes to a link at `at`, which is later than now only where no other packet can come between.
    #[inline(never)]
    fn enter(&mut self, mut id: u32, mut packet: Pkt, mut at: Instant) {
        loop {
            let len = packet.len();
            let mut link = &mut self.links[id as usize];
            link.counters.arrive(len);
            if link.watched {
                let Some(passed) = self.show(id, packet) else { return };
                packet = passed;
                link = &mut self.links[id as usize];
            }
            if link.tail.is_some() {
                return self.queue_up(id, packet);
            }
            if link.queue.is_some() {
                return self.enqueue(id, packet);
            }
            let sent = link.pass(at, len);
            at = sent + link.delay;
            if link.put_on_wire(id, &mut packet, sent, &mut self.tap) {
                return self.pool.give(packet);
            }
            match self.launch(packet, self.now, at) {
                Some((next, same)) => (id, packet) = (next, same),
                None => return,
            }
        }
    }

    /// A packet will be at the far end of a link at `at`, which it begins to leave at `since`. Gives it back with the
    /// next link if that may be told at once.
    #[inline(always)]
    fn launch(&mut self, mut packet: Pkt, since: Instant, mut at: Instant) -> Option<(u32, Pkt)> {
        packet.0.label.hop += 1;
        let route = &self.routes[packet.0.label.route as usize];
        if let Some(next) = route.get(usize::from(packet.0.label.hop)) {
            if self.links[*next as usize].fused {
                return Some((*next, packet));
            }
        } else {
            let host = &mut self.hosts[packet.0.label.dst as usize];
            let group = &mut self.groups[host.group as usize];
            if group.single {
                at = host.pass_in(group, at, packet.len());
                self.events.push_since(since, at, Event::Deliver(packet));
                return None;
            }
        }
        self.events.push_since(since, at, Event::Arrive(packet));
        None
    }

    /// Shows a packet to the discipline of the other direction.
    fn show(&mut self, id: u32, mut packet: Pkt) -> Option<Pkt> {
        packet.0.address();
        let link = &self.links[id as usize];
        let waits = link.makes_wait(self.now);
        let reverse = link.reverse.expect("only one of a pair is watched");
        let queue = self.links[reverse as usize].queue.as_mut().expect("only a discipline watches");
        if waits {
            queue.reverse_path().behind_others();
        }
        let passed = queue.reverse_path().reverse(self.now, packet, &mut self.verdicts);
        self.apply_verdicts(id);
        self.schedule(reverse);
        passed
    }

    /// All links count what they have begun to send by now, as seen by an event scheduled at `since`.
    pub(crate) fn catch_up(&mut self, since: Instant) {
        for link in &mut self.links {
            link.catch_up(self.now, since);
        }
    }

    #[inline(always)]
    fn enqueue(&mut self, id: u32, packet: Pkt) {
        self.put(id, packet);
        self.attend(id);
    }

    /// Gives a packet to the discipline of a link.
    #[inline(always)]
    fn put(&mut self, id: u32, mut packet: Pkt) {
        packet.0.queued = self.now;
        packet.0.address();
        let queue = self.links[id as usize].queue.as_mut().expect("the caller has looked");
        queue.discipline.enqueue(self.now, packet, &mut self.verdicts);
        if !self.verdicts.is_empty() {
            self.apply_verdicts(id);
        }
        if self.links[id as usize].feeds.is_some() {
            self.note_waiting(id);
        }
    }

    /// A discipline has taken something: it is served if its link is idle, else when that is free.
    #[inline(always)]
    fn attend(&mut self, id: u32) {
        let queue = self.links[id as usize].queue.as_mut().expect("the caller has looked");
        if !queue.free_due {
            if queue.busy_until <= self.now {
                return self.serve(id);
            }
            queue.due_when_free(id, &mut self.events);
        }
        // What it took may let go what its reverse path keeps.
        if queue.watches {
            self.schedule(id);
        }
    }

    /// The link has sent a packet.
    pub(crate) fn free(&mut self, id: u32) {
        if let Some(queue) = &mut self.links[id as usize].queue {
            queue.free_due = false;
        }
        self.serve(id);
    }

    /// Sends the next packet of an idle link, if there is one.
    fn serve(&mut self, id: u32) {
        let queue = self.links[id as usize].queue.as_mut().expect("only a discipline is served");
        let next = queue.discipline.dequeue(self.now, &mut self.verdicts);
        // One that keeps packets back although the link is free wakes by itself, and so may one that watches.
        let wakes = queue.watches || (next.is_none() && queue.discipline.backlog().packets > 0);
        if let Some(packet) = next {
            self.transmit(id, packet);
        }
        if self.links[id as usize].feeds.is_some() {
            self.note_waiting(id);
        }
        if !self.verdicts.is_empty() {
            self.apply_verdicts(id);
        }
        if wakes {
            self.schedule(id);
        }
    }

    #[inline]
    fn transmit(&mut self, id: u32, mut packet: Pkt) {
        let link = &mut self.links[id as usize];
        let time = match (&mut link.changing, &link.queue) {
            (Some(changing), Some(queue)) => {
                changing.transmit(packet.0.queued, self.now, packet.len(), queue.busy_until)
            }
            _ => link.time_to_send(packet.len()),
        };
        link.busy += time;
        let sent = self.now + time;
        let at = sent + link.delay;
        let queue = link.queue.as_mut().expect("only a discipline is served");
        queue.busy_until = sent;
        if queue.discipline.backlog().packets > 0 {
            queue.due_when_free(id, &mut self.events);
        }
        if let Some(waits) = &mut link.waits {
            waits.add(packet.0.label.kind, self.now.since(packet.0.queued));
        }
        if link.put_on_wire(id, &mut packet, sent, &mut self.tap) {
            return self.pool.give(packet);
        }
        self.go(packet, self.now, at);
    }

    /// A packet that begins to leave a link at `since` arrives at `at`.
    fn go(&mut self, packet: Pkt, since: Instant, at: Instant) {
        if let Some((next, packet)) = self.launch(packet, since, at) {
            self.enter(next, packet, at);
        }
    }
}
