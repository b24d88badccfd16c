//! The ends of connections at work, and what their events mean for transfers and applications.

use narrows_tcp::{Endpoint, TcpEvent};
use narrows_units::Instant;
use narrows_wire::TcpHeader;

use super::World;
use crate::app::Happened;
use crate::connection::{Connection, DATA, HostConfig, OptionalInstant, OtherEnds, Port, RECEIVER};
use crate::edge::Edges;
use crate::network::Network;
use crate::packet::{DATAGRAM, Label, Packet, Pkt, Sealed};
use crate::probe::Probes;
use crate::quic::Ask;

impl World {
    /// A packet is at its host.
    #[inline(always)]
    pub(super) fn deliver(&mut self, packet: Pkt) {
        match &packet.0.header.tcp {
            Some(tcp) if packet.0.label.end != DATAGRAM => self.deliver_tcp(&packet.0, tcp),
            _ => self.deliver_other(&packet.0),
        }
        self.net.pool.give(packet);
    }

    /// The same of one without a TCP header that can be seen.
    #[inline(never)]
    fn deliver_other(&mut self, p: &Packet) {
        if p.label.end == DATAGRAM {
            return self.probes.datagram(self.net.now, p);
        }
        match p.sealed.as_deref() {
            Some(Sealed::Tcp(tcp)) => self.deliver_tcp(p, tcp),
            Some(Sealed::Quic(datagram)) => self.deliver_quic(p, datagram),
            Some(Sealed::Tfrc(said)) => self.deliver_tfrc(&p.label, said),
            None => {}
        }
    }

    #[inline(always)]
    fn deliver_tcp(&mut self, p: &Packet, tcp: &TcpHeader) {
        let Label { flow, generation, end, .. } = p.label;
        let end = usize::from(end);
        if end == RECEIVER {
            self.probes.arrived += u64::from(tcp.payload);
        }
        // A late copy for a connection that is gone is taken from the wire; a real host would answer with a reset that
        // nobody awaits.
        let Some(connection) = self.connections.get_mut(flow as usize) else { return };
        if connection.generation != generation || !connection.live {
            return;
        }
        debug_assert!(self.events.is_empty(), "nothing else is being worked on");
        if end == RECEIVER && !self.edges.is_empty() {
            self.edges.arrived(p);
        }
        let around = (&self.configs[..], &mut self.net, &mut self.probes, &mut self.events, &mut self.edges);
        let ecn = p.header.ecn;
        work_on(connection, end, around, |e, config, now, io| e.receive(config, now, tcp, ecn, io));
        if !self.events.is_empty() {
            self.follow_all(flow, end, generation, 0);
        }
    }

    pub(super) fn wake_end(&mut self, place: u32, end: usize) {
        let now = self.net.now;
        let connection = &mut self.connections[place as usize];
        if !connection.timers[end].came(now) || !connection.live {
            return;
        }
        if connection.wake_at(end) > now {
            connection.ask_to_be_woken(place, end, &mut self.net);
        } else {
            self.ask(place, end, Ask::Wake);
        }
    }

    /// Asks something of one end of a connection, and does what follows from its events.
    pub(crate) fn ask(&mut self, place: u32, end: usize, what: Ask) {
        match self.connections[place as usize].other.as_deref() {
            Some(OtherEnds::Quic(_)) => return self.ask_quic(place, end, what),
            Some(OtherEnds::Tfrc(_)) => return self.ask_tfrc(place, end, what),
            None => {}
        }
        self.work(place, end, |e, config, now, io| match what {
            Ask::Open => e.open(config, now, io),
            Ask::Write(bytes) => e.write(config, now, bytes, io),
            Ask::Finish | Ask::Close => e.close(config, now, io),
            Ask::Wake => e.wake(config, now, io),
        });
    }

    /// Works on one end of a connection, and does what follows from its events.
    #[inline(always)]
    fn work(
        &mut self,
        place: u32,
        end: usize,
        work: impl FnOnce(&mut Endpoint, &narrows_tcp::Config, Instant, &mut Port<'_>),
    ) {
        let connection = &mut self.connections[place as usize];
        let (generation, first) = (connection.generation, self.events.len());
        let around = (&self.configs[..], &mut self.net, &mut self.probes, &mut self.events, &mut self.edges);
        work_on(connection, end, around, work);
        if self.events.len() > first {
            self.follow_all(place, end, generation, first);
        }
    }

    /// Does what follows from what the events of one end of a connection: all from number `first` on. What follows may
    /// work on an end again, whose events come after these.
    #[inline(never)]
    pub(crate) fn follow_all(&mut self, place: u32, end: usize, generation: u32, first: usize) {
        let mut at = first;
        // An application may retire the connection and open another in its place.
        let same = |c: &Connection| c.live && c.generation == generation;
        while let Some(&event) = self.events.get(at)
            && same(&self.connections[place as usize])
        {
            at += 1;
            self.follow(place, end, event);
        }
        self.events.truncate(first);
    }

    /// What an event of an end means for the transfer.
    pub(crate) fn follow(&mut self, place: u32, end: usize, event: TcpEvent) {
        let now = self.net.now;
        let connection = &mut self.connections[place as usize];
        self.probes.on_event(now, end, event, connection);
        match event {
            TcpEvent::Established if end == RECEIVER => {
                connection.stats.established.note(now);
                if connection.request > 0 {
                    let bytes = u64::from(connection.request);
                    self.ask(place, RECEIVER, Ask::Write(bytes));
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
                    if connection.other.is_some() {
                        // Who has what it wanted closes (RFC 9000, section 10.2).
                        self.ask(place, RECEIVER, Ask::Close);
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
                self.ask(place, RECEIVER, Ask::Close);
            }
            TcpEvent::Closed if end == DATA => self.tell_app(place, Happened::Closed),
            TcpEvent::Failed if !connection.stats.failed => {
                connection.stats.failed = true;
                self.tell_app(place, Happened::Failed);
            }
            _ => {}
        }
    }

    /// The data end sends what it is to carry.
    fn begin(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        connection.begun = true;
        let (size, close) = (connection.size, connection.close);
        if size > 0 {
            self.ask(place, DATA, Ask::Write(size));
        }
        if close && size < u64::MAX {
            self.ask(place, DATA, Ask::Finish);
        }
    }

    pub(super) fn tell_app(&mut self, place: u32, what: Happened) {
        let connection = &self.connections[place as usize];
        let (app, tag) = (connection.app, connection.tag);
        self.with_app(app, |a, world| a.happened(world, place, tag, what));
    }
}

/// What an end works with besides itself: settings, the network, probes, and the list of events.
type Around<'a> = (&'a [HostConfig], &'a mut Network, &'a mut Probes, &'a mut Vec<TcpEvent>, &'a mut Edges);

/// Works on one end of a connection.
#[inline(always)]
fn work_on(
    connection: &mut Connection,
    end: usize,
    (configs, net, probes, events, edges): Around<'_>,
    work: impl FnOnce(&mut Endpoint, &narrows_tcp::Config, Instant, &mut Port<'_>),
) {
    let config = &configs[usize::from(connection.config[end])];
    let now = net.now;
    let label = &connection.labels[end];
    let mut port = Port {
        net: &mut *net,
        probes,
        events,
        label,
        options_count: config.options_count,
        opaque: config.opaque,
        split: if end != DATA { None } else { edges.of(label.flow) },
        end,
        stats: &mut connection.stats,
        size: connection.size,
        user_index: connection.user_index,
    };
    work(&mut connection.ends[end], &config.tcp, now, &mut port);
    let place = label.flow;
    connection.ask_to_be_woken(place, end, net);
}
