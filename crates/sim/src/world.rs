//! The whole: network, connections, applications, and the loop that lets time pass.

mod ends;

use core::ops::ControlFlow;

use narrows_tcp::{Endpoint, TcpEvent};
use narrows_units::{Dscp, Instant, SeqNum};

use crate::app::App;
use crate::connection::{
    Connection, DATA, FlowStats, HostConfig, OptionalInstant, OtherEnds, RECEIVER, SERVICE, Timers,
};
use crate::edge::Edges;
use crate::event::Event;
use crate::network::{Host, Network};
use crate::packet::{Label, OPAQUE_PORT, PayloadKind};
use crate::probe::Probes;
use crate::quic::Ask;

/// What an application wants carried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// The host with the data.
    pub(crate) from: u32,
    /// The host that takes it.
    pub(crate) to: u32,
    /// Size of the object; `u64::MAX` for a flow that does not end.
    pub(crate) size: u64,
    /// Bytes before the object: payload that is not part of its size.
    pub(crate) header: u64,
    /// What the receiver asks with before any data comes, when it opens; 0 for data at once.
    pub(crate) request: u32,
    /// Whether the receiver opens the connection (as a browser does) or the sender (as ns-2's agents do).
    pub(crate) receiver_opens: bool,
    /// Whether the sender closes after the last byte.
    pub(crate) close: bool,
    /// Settings of both ends, [`DATA`] first.
    pub(crate) config: [u16; 2],
    /// The codepoint of its packets.
    pub(crate) dscp: Dscp,
    /// Class in results.
    pub(crate) class: u16,
    /// Whose it is: users are numbered through all classes.
    pub(crate) user: u32,
    /// When the first connection for it was opened, if that was an earlier one.
    pub(crate) first_attempt: Option<Instant>,
    /// Connections for it that failed.
    pub(crate) retries: u32,
    /// The application's own number for it.
    pub(crate) tag: u32,
}

/// A simulated world.
pub(crate) struct World {
    pub(crate) net: Network,
    pub(crate) configs: Vec<HostConfig>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) probes: Probes,
    pub(crate) edges: Edges,
    free: Vec<u32>,
    apps: Vec<Option<Box<dyn App>>>,
    /// Events of the ends that are being worked on, the one begun last at the end.
    pub(crate) events: Vec<TcpEvent>,
    /// Connections opened so far.
    serial: u64,
    /// When nothing more happens.
    end: Instant,
}

/// How many events pass between two looks at whether to go on.
const STRIDE: u64 = 1 << 16;

impl World {
    pub(crate) fn new(net: Network, configs: Vec<HostConfig>) -> Self {
        Self {
            net,
            configs,
            connections: Vec::new(),
            probes: Probes::default(),
            edges: Edges::default(),
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

    /// When the run ends.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// So many connections will be open at a time: they get their room at once, rather than being moved as their number
    /// grows.
    pub(crate) fn expect(&mut self, connections: u32) {
        self.connections.reserve(connections as usize);
    }

    pub(crate) fn add_app(&mut self, app: Box<dyn App>) -> u32 {
        self.apps.push(Some(app));
        u32::try_from(self.apps.len() - 1).expect("a scenario is checked to have fewer applications")
    }

    /// Lets time pass until `end`. `go_on` is asked now and then.
    pub(crate) fn run(
        &mut self,
        end: Instant,
        go_on: &mut dyn FnMut(Instant) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.end = end;
        for app in 0..u32::try_from(self.apps.len()).unwrap_or(u32::MAX) {
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
            Event::End(place) => self.wake_end(place / 2, (place % 2) as usize),
            Event::App { app, token } => self.with_app(app, |a, world| a.wake(world, token)),
            Event::Probe(probe) => self.probe(probe),
            Event::Shape(place) => self.net.shape(place),
        }
    }

    /// Wakes an application at `at` with `token`.
    pub(crate) fn set_timer(&mut self, app: u32, token: u32, at: Instant) {
        self.net.events.push(at.max(self.net.now), Event::App { app, token });
    }

    /// Lets an application work on the world it is part of.
    fn with_app(&mut self, app: u32, work: impl FnOnce(&mut dyn App, &mut Self)) {
        // It is put back below: applications do not call each other.
        let Some(mut taken) = self.apps[app as usize].take() else { return };
        work(&mut *taken, self);
        self.apps[app as usize] = Some(taken);
    }

    /// Opens a connection and gives its place.
    pub(crate) fn open(&mut self, app: u32, transfer: Transfer) -> u32 {
        let now = self.now();
        self.serial += 1;
        let again = self.free.pop();
        let place = again.unwrap_or_else(|| {
            u32::try_from(self.connections.len()).expect("a scenario is checked to have fewer connections")
        });
        let generation = again.map_or(0, |p| self.connections[p as usize].generation + 1);
        let configs = transfer.config.map(|c| &self.configs[usize::from(c)].tcp);
        // Sequence numbers start at zero: captures are read by people.
        let ends = configs.map(|c| Endpoint::new(c, SeqNum(0)));
        let other =
            OtherEnds::new(&self.configs[usize::from(transfer.config[DATA])], transfer.receiver_opens);
        let connection = Connection {
            ends,
            other,
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
            request: if transfer.receiver_opens { transfer.request } else { 0 },
            size: transfer.size.saturating_add(transfer.header),
            header: u32::try_from(transfer.header).unwrap_or(u32::MAX),
            close: transfer.close,
            stats: FlowStats::new(now, transfer.first_attempt.unwrap_or(now), transfer.retries),
        };
        if again.is_some() {
            self.connections[place as usize] = connection;
        } else {
            self.connections.push(connection);
            self.net.events.reads_ahead = self.connections.len() > NEAR;
        }
        if !self.edges.is_empty() {
            self.edges.opened(place, &mut self.connections[place as usize], &self.configs);
        }
        self.probes.opened(place, &mut self.connections[place as usize]);
        let opener = if transfer.receiver_opens { RECEIVER } else { DATA };
        self.ask(place, opener, Ask::Open);
        place
    }

    /// What packets of each end begin with.
    fn labels(&self, place: u32, generation: u32, transfer: &Transfer) -> [Label; 2] {
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

    /// Gives a connection more to carry; before the data may flow, it waits.
    pub(crate) fn write(&mut self, place: u32, bytes: u64) {
        let connection = &mut self.connections[place as usize];
        self.probes.writes(self.net.now, connection, bytes);
        connection.size = connection.size.saturating_add(bytes);
        (connection.stats.delivered_at, connection.stats.acked_at) =
            (OptionalInstant::NEVER, OptionalInstant::NEVER);
        if !connection.begun {
            return;
        }
        self.ask(place, DATA, Ask::Write(bytes));
    }

    /// Takes a connection out of the world; its place is used again.
    pub(crate) fn retire(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        if connection.live {
            connection.live = false;
            let lost = self.net.tap.lost_of(place, connection.generation);
            self.probes.retired(self.net.now, connection, lost);
            self.free.push(place);
        }
    }
}

/// So many connections, of 704 bytes each, fit into a cache that is near: prefetching them costs more than it saves.
const NEAR: usize = 1024;

/// Reads what an event will need into the cache, and makes a number of it, so that it is not left out.
#[inline]
fn prefetch(connections: &[Connection], hosts: &[Host], event: &Event) -> u64 {
    let of_end = |place: u32, end: u8| {
        connections.get(place as usize).map_or(0, |connection| connection.prefetch(usize::from(end)))
    };
    match event {
        Event::Arrive(packet) => {
            let Label { flow, dst, hop, end, .. } = packet.0.label;
            let host = hosts.get(dst as usize).map_or(0, Host::prefetch);
            // Before it has crossed a link, an end is not needed soon.
            if hop > 0 { host ^ of_end(flow, end) } else { host }
        }
        Event::Deliver(packet) => of_end(packet.0.label.flow, packet.0.label.end),
        Event::End(place) => of_end(place / 2, (place % 2) as u8),
        _ => 0,
    }
}
