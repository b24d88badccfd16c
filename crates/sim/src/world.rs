//! The whole: network, connections, applications, and the loop that lets time pass.

use core::ops::ControlFlow;
use std::collections::BTreeMap;

use narrows_scenario::calls::CallWay;
use narrows_tcp::TcpEvent;
use narrows_units::Instant;

use crate::connection::{Connection, Timers};
use crate::edge::Edges;
use crate::ends::Ends;
use crate::event::Event;
use crate::flow_stats::{FlowStats, OptionalInstant};
use crate::host_config::{DATA, HostConfig, RECEIVER, SERVICE};
use crate::ids::{AppId, FlowId};
use crate::network::{Host, Network};
use crate::packet::{DATAGRAM, Label, OPAQUE_PORT, Packet, PayloadKind, Pkt, call_way};
use crate::port::Port;
use crate::probe::{PartEnd, ProbePlan, Probes, Sight};
use crate::request::Request;
use crate::transfer::{Happened, Transfer};

/// An application. An application is called with the world that the application lives in.
pub(crate) trait App {
    /// The run begins; `me` is the application's place, for timers and transfers.
    fn start(&mut self, world: &mut World, me: AppId);
    /// A timer set with `token` is due.
    fn wake(&mut self, world: &mut World, token: u32) {
        let _ = (world, token);
    }
    /// Something happened to the connection at `place`, which the application numbered `tag`.
    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        let _ = (world, place, tag, what);
    }
}

/// A simulated world.
pub(crate) struct World {
    pub(crate) net: Network,
    pub(crate) configs: Vec<HostConfig>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) probes: Probes,
    pub(crate) edges: Edges,
    /// Application that answers the packets of a call, and the token it is woken with.
    answerers: BTreeMap<FlowId, (AppId, u32)>,
    free: Vec<FlowId>,
    apps: Vec<Option<Box<dyn App>>>,
    /// Events of the ends that are being worked on, the one begun last at the end.
    pub(crate) events: Vec<TcpEvent>,
    /// Connections opened so far.
    serial: u64,
    /// Time at which nothing more happens.
    end: Instant,
}

/// Number of events between two looks at whether to go on.
const STRIDE: u64 = 1 << 16;

impl World {
    pub(crate) fn new(net: Network, configs: Vec<HostConfig>) -> Self {
        Self {
            net,
            configs,
            connections: Vec::new(),
            probes: Probes::default(),
            edges: Edges::default(),
            answerers: BTreeMap::new(),
            free: Vec::new(),
            apps: Vec::new(),
            events: Vec::new(),
            serial: 0,
            end: Instant::default(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.net.now
    }

    /// Time at which the run ends.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Reserves room for this many open connections, so that they are not moved as their number grows.
    pub(crate) fn expect(&mut self, connections: u32) {
        self.connections.reserve(connections as usize);
    }

    pub(crate) fn add_app(&mut self, app: Box<dyn App>) -> AppId {
        self.apps.push(Some(app));
        AppId::of(self.apps.len() - 1)
    }

    /// Begins to record what `plan` says. To be called before time passes.
    pub(crate) fn watch(&mut self, plan: ProbePlan) {
        let Self { net, connections, edges, probes, .. } = self;
        probes.watch(plan, &mut Sight { net, connections, edges });
    }

    /// Takes the sample of the probe numbered `probe`.
    fn probe(&mut self, probe: u32) {
        let Self { net, connections, edges, probes, .. } = self;
        probes.look(probe, &mut Sight { net, connections, edges });
    }

    /// Gives the records of the run, when time is over.
    pub(crate) fn finish(self) -> PartEnd {
        self.probes.end(self.net, self.connections, &self.edges)
    }

    /// Lets time pass until `end`. `go_on` is asked now and then.
    pub(crate) fn run(
        &mut self,
        end: Instant,
        go_on: &mut dyn FnMut(Instant) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.end = end;
        for app in (0..self.apps.len()).map(AppId::of) {
            self.with_app(app, |a, world| a.start(world, app));
        }
        while self.take_steps(end) {
            go_on(self.net.now)?;
        }
        self.net.now = end;
        self.net.catch_up(end);
        ControlFlow::Continue(())
    }

    /// Lets [`STRIDE`] events happen, of those until `end`. Tells whether there were as many.
    fn take_steps(&mut self, end: Instant) -> bool {
        for _ in 0..STRIDE {
            let ahead = |event: &Event| prefetch(&self.connections, &self.net.hosts, event);
            let Some((at, event)) = self.net.events.pop(end, ahead) else { return false };
            self.net.now = at;
            match event {
                Event::Deliver(packet) => self.deliver(packet),
                Event::Arrive(packet) => self.net.arrive(packet),
                other => self.step(other),
            }
        }
        true
    }

    /// Anything but the arrival of a packet.
    #[inline(never)]
    fn step(&mut self, event: Event) {
        match event {
            Event::Arrive(_) | Event::Deliver(_) => unreachable!("the caller has seen to it"),
            Event::Free(link) => self.net.free(link),
            Event::Serve(link) => self.net.service(link),
            Event::End(id) => self.on_time(id.flow(), id.end()),
            Event::App { app, token } => self.with_app(app, |a, world| a.wake(world, token)),
            Event::Probe(probe) => self.probe(probe),
            Event::Shape(place) => self.net.shape(place),
        }
    }

    /// Wakes an application at `at` with `token`.
    pub(crate) fn set_timer(&mut self, app: AppId, token: u32, at: Instant) {
        self.net.events.push(at.max(self.net.now), Event::App { app, token });
    }

    /// Calls `work` with an application and the world.
    fn with_app(&mut self, app: AppId, work: impl FnOnce(&mut dyn App, &mut Self)) {
        // The application is taken out while it works and put back below: applications do not call each other.
        let Some(mut taken) = self.apps[app.index()].take() else { return };
        work(&mut *taken, self);
        self.apps[app.index()] = Some(taken);
    }

    /// Opens a connection and returns the connection's place.
    pub(crate) fn open(&mut self, app: AppId, transfer: Transfer) -> FlowId {
        let now = self.now();
        self.serial += 1;
        let again = self.free.pop();
        let place = again.unwrap_or_else(|| FlowId::of(self.connections.len()));
        let generation = again.map_or(0, |p| self.connections[p.index()].generation + 1);
        let configs = transfer.config.map(|c| &self.configs[usize::from(c)]);
        let ends = Ends::new(configs, transfer.receiver_opens);
        let [with_request, with_object] =
            transfer.tls.map_or([0; 2], |tls| [tls.with_request, tls.with_object]);
        let header = transfer.header + u64::from(with_object);
        let connection = Connection {
            ends,
            timers: [Timers::default(); 2],
            labels: self.labels(place, generation, &transfer),
            config: transfer.config,
            generation,
            app,
            tag: transfer.tag,
            class: transfer.class,
            user: transfer.user,
            user_index: 0,
            live: true,
            begun: false,
            request: if transfer.receiver_opens { transfer.request + with_request } else { 0 },
            tls: transfer.tls.map_or_else(Default::default, |tls| tls.handshake),
            size: transfer.size.saturating_add(header),
            header: u32::try_from(header).unwrap_or(u32::MAX),
            close: transfer.close,
            stats: FlowStats::new(now, transfer.first_attempt.unwrap_or(now), transfer.retries),
        };
        if again.is_some() {
            self.connections[place.index()] = connection;
        } else {
            self.connections.push(connection);
            self.net.events.reads_ahead = self.connections.len() > NEAR;
        }
        if !self.edges.is_empty() {
            self.edges.opened(place, &mut self.connections[place.index()], &self.configs);
        }
        self.probes.opened(place, &mut self.connections[place.index()]);
        let opener = if transfer.receiver_opens { RECEIVER } else { DATA };
        self.ask(place, opener, Request::Open);
        place
    }

    /// Labels of the packets that each end will send.
    fn labels(&self, place: FlowId, generation: u32, transfer: &Transfer) -> [Label; 2] {
        let port = u16::try_from(1024 + self.serial % 64_000).unwrap_or(u16::MAX);
        let opaque = self.configs[usize::from(transfer.config[DATA])].opaque;
        let service = if opaque { OPAQUE_PORT } else { SERVICE };
        let hosts = [transfer.from, transfer.to];
        [DATA, RECEIVER].map(|end| {
            let (src, dst) = (hosts[end], hosts[1 - end]);
            let opens = (end == RECEIVER) == transfer.receiver_opens;
            Label {
                flow: place,
                generation,
                src,
                dst,
                route: self.net.route(src, dst),
                hop: 0,
                end: if end == DATA { RECEIVER as u8 } else { DATA as u8 },
                kind: PayloadKind::Control,
                ports: if opens { (port, service) } else { (service, port) },
                dscp: transfer.dscp,
            }
        })
    }

    /// Gives a connection more data to carry; data waits until the connection is established.
    pub(crate) fn write(&mut self, place: FlowId, bytes: u64) {
        let connection = &mut self.connections[place.index()];
        self.probes.writes(self.net.now, connection, bytes);
        connection.size = connection.size.saturating_add(bytes);
        (connection.stats.delivered_at, connection.stats.acked_at) =
            (OptionalInstant::NEVER, OptionalInstant::NEVER);
        if !connection.begun {
            return;
        }
        self.ask(place, DATA, Request::Write(bytes));
    }

    /// Takes a connection out of the world; the connection's place is used again.
    pub(crate) fn retire(&mut self, place: FlowId) {
        let connection = &mut self.connections[place.index()];
        if connection.live {
            connection.live = false;
            let lost = self.net.tap.lost_of(place, connection.generation);
            self.probes.retired(self.net.now, connection, lost);
            self.free.push(place);
        }
    }

    /// Takes a packet that is at the packet's destination host.
    #[inline(always)]
    fn deliver(&mut self, packet: Pkt) {
        if packet.0.label.end >= DATAGRAM {
            self.on_datagram(&packet.0);
        } else {
            self.on_packet(&packet.0);
        }
        self.net.pool.give(packet);
    }

    /// Takes a packet of no connection that is at its destination host.
    #[inline(never)]
    fn on_datagram(&mut self, packet: &Packet) {
        let Label { flow, end, .. } = packet.label;
        let Some(way) = call_way(end) else { return self.probes.datagram(self.net.now, packet) };
        let added = self.net.now.since(packet.sent).saturating_sub(self.net.least_delay(packet));
        self.probes.calls.arrived(packet.sent, flow.0, way, added);
        if way == CallWay::Up
            && let Some(&(app, token)) = self.answerers.get(&flow)
        {
            self.set_timer(app, token, self.net.now);
        }
    }

    /// Wakes `app` with `token` from now on at each packet that a user sends in the call numbered `flow`.
    pub(crate) fn answered(&mut self, flow: FlowId, app: AppId, token: u32) {
        self.answerers.insert(flow, (app, token));
    }

    /// Takes a packet of a connection that is at its destination host.
    #[inline(always)]
    fn on_packet(&mut self, packet: &Packet) {
        let Label { flow, generation, end, .. } = packet.label;
        let end = usize::from(end);
        if end == RECEIVER {
            self.probes.arrived += packet.payload();
        }
        // A late copy for a connection that is gone is taken from the wire; a real host would answer with a reset that
        // nobody awaits, or not at all.
        if self.connections.get(flow.index()).is_none_or(|c| c.generation != generation || !c.live) {
            return;
        }
        if end == RECEIVER && !self.edges.is_empty() {
            self.edges.arrived(packet);
        }
        self.at_end(flow, end, |ends, port| ends.on_packet(packet, port));
    }

    /// Wakes one end, unless the end has asked to be woken later.
    fn on_time(&mut self, place: FlowId, end: usize) {
        let now = self.net.now;
        let connection = &mut self.connections[place.index()];
        if !connection.timers[end].came(now) || !connection.live {
            return;
        }
        if connection.ends.poll(end) > now {
            connection.ask_to_be_woken(place, end, &mut self.net);
        } else {
            self.at_end(place, end, |ends, port| ends.on_time(port));
        }
    }

    /// Asks something of one end of a connection, and does what follows from its events.
    fn ask(&mut self, place: FlowId, end: usize, request: Request) {
        self.at_end(place, end, |ends, port| ends.on_request(request, port));
    }

    /// Lets one end of a connection work, and does what follows from its events.
    #[inline(always)]
    fn at_end(&mut self, place: FlowId, end: usize, work: impl FnOnce(&mut Ends, &mut Port<'_>)) {
        let connection = &mut self.connections[place.index()];
        let (generation, first) = (connection.generation, self.events.len());
        let mut port = Port {
            net: &mut self.net,
            probe: &mut self.probes.ends,
            events: &mut self.events,
            label: &connection.labels[end],
            config: &self.configs[usize::from(connection.config[end])],
            split: if end == DATA { self.edges.of(place) } else { None },
            end,
            stats: &mut connection.stats,
            // A handshake of TLS is no part of the object, so nothing of it may be counted before it is followed.
            size: if connection.tls.is_under_way() { 0 } else { connection.size },
            user_index: connection.user_index,
        };
        work(&mut connection.ends, &mut port);
        if self.probes.ends.qlogs.are_wanted() && end == DATA {
            let config = &self.configs[usize::from(connection.config[end])];
            if let Some(state) = connection.ends.sender_state(config) {
                self.probes.ends.qlogs.worked(self.net.now, &connection.labels[end], state);
            }
        }
        connection.ask_to_be_woken(place, end, &mut self.net);
        if self.events.len() > first {
            self.follow_all(place, end, generation, first);
        }
    }

    /// Does what follows from the events of one end of a connection, from number `first` on. This may let an end work
    /// again, whose events come after these.
    #[inline(never)]
    pub(crate) fn follow_all(&mut self, place: FlowId, end: usize, generation: u32, first: usize) {
        let mut at = first;
        // An application may retire the connection and open another in its place.
        let same = |c: &Connection| c.live && c.generation == generation;
        while let Some(&event) = self.events.get(at)
            && same(&self.connections[place.index()])
        {
            at += 1;
            self.follow(place, end, event);
        }
        self.events.truncate(first);
    }

    /// Does what an event of an end means for the transfer.
    pub(crate) fn follow(&mut self, place: FlowId, end: usize, event: TcpEvent) {
        let now = self.net.now;
        let Some(event) = self.follow_handshake(place, end, event) else { return };
        let connection = &mut self.connections[place.index()];
        self.probes.on_event(now, end, event, connection);
        match event {
            TcpEvent::Established if end == RECEIVER => {
                connection.stats.established.note(now);
                if connection.request > 0 {
                    let bytes = u64::from(connection.request);
                    self.ask(place, RECEIVER, Request::Write(bytes));
                }
            }
            TcpEvent::Established => {
                connection.stats.established.note(now);
                if connection.request == 0 {
                    self.begin(place);
                }
            }
            TcpEvent::Delivered { bytes } if end == DATA => {
                let asked = connection.request > 0;
                connection.request =
                    connection.request.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
                if asked && connection.request == 0 {
                    self.begin(place);
                }
            }
            TcpEvent::Delivered { bytes } => {
                let stats = &mut connection.stats;
                stats.took(now, bytes);
                if stats.delivered >= connection.size && stats.delivered_at == OptionalInstant::NEVER {
                    stats.delivered_at = OptionalInstant::at(now);
                    if connection.ends.receiver_closes() {
                        self.ask(place, RECEIVER, Request::Close);
                    }
                    self.tell_app(place, Happened::Delivered);
                }
            }
            TcpEvent::Acked { bytes } if end == DATA => {
                let stats = &mut connection.stats;
                stats.acked += bytes;
                if stats.acked >= connection.size && stats.acked_at == OptionalInstant::NEVER {
                    stats.acked_at = OptionalInstant::at(now);
                    self.tell_app(place, Happened::Acked);
                }
            }
            TcpEvent::PeerClosed if end == RECEIVER => {
                self.ask(place, RECEIVER, Request::Close);
            }
            TcpEvent::Closed if end == DATA => self.tell_app(place, Happened::Closed),
            TcpEvent::Failed if !connection.stats.failed => {
                connection.stats.failed = true;
                self.tell_app(place, Happened::Failed);
            }
            _ => {}
        }
    }

    /// Does what an event means for the handshake of TLS, and tells what is left of it for the transfer: the connection
    /// is established once the client has the server's flight.
    fn follow_handshake(&mut self, place: FlowId, end: usize, event: TcpEvent) -> Option<TcpEvent> {
        let tls = &mut self.connections[place.index()].tls;
        if !tls.is_under_way() {
            return Some(event);
        }
        let says = match event {
            TcpEvent::Established if end == RECEIVER => tls.hello(),
            TcpEvent::Established => 0,
            TcpEvent::Delivered { bytes } if end == DATA => match tls.asked(bytes) {
                Some(flight) => flight,
                None => return Some(event),
            },
            TcpEvent::Delivered { bytes } => match tls.answered(bytes) {
                Some(true) => return Some(TcpEvent::Established),
                Some(false) => 0,
                None => return Some(event),
            },
            TcpEvent::Acked { bytes } if end == DATA => {
                let bytes = tls.acked(bytes);
                return (bytes > 0).then_some(TcpEvent::Acked { bytes });
            }
            _ => return Some(event),
        };
        if says > 0 {
            self.ask(place, end, Request::Write(says));
        }
        None
    }

    /// Makes the data end send the data that the end is to carry.
    fn begin(&mut self, place: FlowId) {
        let connection = &mut self.connections[place.index()];
        connection.begun = true;
        let (size, close) = (connection.size, connection.close);
        if size > 0 {
            self.ask(place, DATA, Request::Write(size));
        }
        if close && size < u64::MAX {
            self.ask(place, DATA, Request::Finish);
        }
    }

    pub(super) fn tell_app(&mut self, place: FlowId, what: Happened) {
        let connection = &self.connections[place.index()];
        let (app, tag) = (connection.app, connection.tag);
        self.with_app(app, |a, world| a.happened(world, place, tag, what));
    }
}

/// Connections, of 704 bytes each, that fit into a near cache: prefetching them costs more than it saves.
const NEAR: usize = 1024;

/// Prefetches an event's data. Returns a checksum so that the compiler keeps the reads.
#[inline]
fn prefetch(connections: &[Connection], hosts: &[Host], event: &Event) -> u64 {
    let of_end = |place: FlowId, end: usize| {
        connections.get(place.index()).map_or(0, |connection| connection.prefetch(end))
    };
    match event {
        Event::Arrive(packet) => {
            let Label { flow, dst, hop, end, .. } = packet.0.label;
            let host = hosts.get(dst.index()).map_or(0, Host::prefetch);
            // Before it has crossed a link, an end is not needed soon.
            if hop > 0 { host ^ of_end(flow, end.into()) } else { host }
        }
        Event::Deliver(packet) => of_end(packet.0.label.flow, packet.0.label.end.into()),
        Event::End(id) => of_end(id.flow(), id.end()),
        _ => 0,
    }
}
