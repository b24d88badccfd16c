//! Connections over QUIC: the ends of `narrows-quic` in the place of TCP's, and what their events mean in TCP's words.

use narrows_quic::{Config, Datagram, Endpoint, Io, QuicEvent, Role, Space};
use narrows_tcp::{EndpointCounters, TcpEvent};
use narrows_units::{Bytes, Ecn, Instant};
use narrows_wire::{Header, QuicPacket};

use crate::connection::{Connection, DATA, HostConfig, OptionalInstant, RECEIVER, left};
use crate::edge::{Edges, PathSplit};
use crate::network::Network;
use crate::packet::{BULK_FROM, Label, Packet, PayloadKind, Sealed};
use crate::world::World;

/// IPv4 and UDP headers.
const HEADERS: u64 = 28;

/// What the application asks of an end of a connection, or time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    Open,
    Write(u64),
    /// Nothing more will be written.
    Finish,
    /// The connection is no longer needed.
    Close,
    Wake,
}

/// Both ends of a connection.
#[derive(Debug)]
pub(crate) struct QuicEnds {
    ends: [Endpoint; 2],
    /// When each wants to be woken.
    pub(crate) wake_at: [Instant; 2],
}

impl QuicEnds {
    pub(crate) fn new(config: &Config, receiver_opens: bool) -> Self {
        let sides = if receiver_opens { [Role::Server, Role::Client] } else { [Role::Client, Role::Server] };
        Self { ends: sides.map(|side| Endpoint::new(config, side)), wake_at: [Instant::FAR_FUTURE; 2] }
    }

    /// What an end counts, as TCP's ends do: a probe timeout of the handshake is a SYN that is sent again, a congestion
    /// event an entry into fast recovery.
    pub(crate) fn counters(&self, end: usize) -> EndpointCounters {
        let k = self.ends[end].counters();
        EndpointCounters {
            data_sent: k.data_sent,
            retransmitted: k.retransmitted,
            timeouts: k.ptos - k.handshake_ptos,
            fast_retransmits: k.congestion_events,
            syn_retries: k.handshake_ptos,
            max_backoff: k.max_backoff,
        }
    }

    /// Window and slow start threshold of the data end, full datagrams.
    pub(crate) fn windows(&self) -> (f64, f64) {
        let end = &self.ends[DATA];
        let datagrams = |bytes: u64| bytes as f64 / f64::from(end.datagram());
        (
            datagrams(end.cwnd()),
            if end.ssthresh() == u64::MAX { f64::INFINITY } else { datagrams(end.ssthresh()) },
        )
    }

    /// What the stack of the data end counts: packets believed lost, those that came nevertheless, series of probe
    /// timeouts that were not needed.
    pub(crate) fn spurious(&self) -> [u64; 3] {
        let k = self.ends[DATA].counters();
        [k.lost.into(), k.spurious.into(), k.spurious_ptos.into()]
    }
}

/// Where an end's output goes.
struct Port<'a> {
    net: &'a mut Network,
    events: &'a mut Vec<TcpEvent>,
    label: &'a Label,
    split: Option<&'a mut PathSplit>,
    end: usize,
    /// Whether the receiver has all that was to be delivered.
    served: bool,
    /// What is to be delivered, and what was.
    size: u64,
    delivered: u64,
}

impl Io for Port<'_> {
    fn send(&mut self, datagram: Datagram) {
        let mut packet = self.net.pool.take();
        let p = &mut *packet.0;
        p.label = *self.label;
        p.label.kind = match datagram.stream_offset() {
            None => PayloadKind::Control,
            Some(at) if at < u64::from(BULK_FROM) => PayloadKind::Small,
            Some(_) => PayloadKind::Bulk,
        };
        p.left = left(self.size, datagram.stream_offset().unwrap_or(self.delivered));
        if let Some(split) = &mut self.split
            && p.label.kind != PayloadKind::Control
        {
            (p.label.route, p.label.dscp) = split.sends();
            p.sent = self.net.now;
        }
        header(&datagram, &mut p.header);
        p.header.dscp = p.label.dscp;
        p.sealed = Some(Box::new(Sealed::Quic(datagram)));
        self.net.send(packet);
    }

    fn event(&mut self, event: QuicEvent) {
        self.events.push(match event {
            QuicEvent::Established => TcpEvent::Established,
            QuicEvent::Delivered { bytes } => TcpEvent::Delivered { bytes },
            QuicEvent::Acked { bytes } => TcpEvent::Acked { bytes },
            QuicEvent::RttSample(rtt) => TcpEvent::RttSample(rtt),
            QuicEvent::CongestionEvent | QuicEvent::PersistentCongestion => TcpEvent::FastRetransmit,
            QuicEvent::ProbeTimeout { backoff } => TcpEvent::Timeout { backoff },
            // The receiver closes when it has all, so nothing more happens at the data end.
            QuicEvent::PeerClosed => TcpEvent::Closed,
            QuicEvent::IdleTimeout if self.served && self.end == DATA => TcpEvent::Closed,
            QuicEvent::IdleTimeout if self.served => return,
            QuicEvent::IdleTimeout => TcpEvent::Failed,
        });
    }
}

/// What everybody on the way sees of a datagram. The key is filled in by [`Packet::address`].
fn header(datagram: &Datagram, header: &mut Header) {
    header.tcp = None;
    // Our ends let the spin bit rest (RFC 9000, section 17.4).
    header.quic = datagram.packets.first().map(|first| match first.space {
        Space::Initial => QuicPacket::Initial,
        Space::Handshake => QuicPacket::Handshake,
        Space::Data => QuicPacket::Short { spin: false },
    });
    header.len = Bytes(HEADERS + u64::from(datagram.len));
    header.ecn = datagram.ecn;
}

impl World {
    /// Asks something of an end of a connection over QUIC, and does what follows from its events.
    pub(crate) fn ask_quic(&mut self, place: u32, end: usize, what: Ask) {
        self.work_quic(place, end, |e, config, now, io| match what {
            Ask::Open => e.open(config, now, io),
            // What has an end is finished with its last byte, so that no FIN goes by itself.
            Ask::Write(u64::MAX) => e.write(config, now, u64::MAX, io),
            Ask::Write(bytes) => e.write_all(config, now, bytes, io),
            Ask::Finish => {}
            Ask::Close => e.close(config, now, io),
            Ask::Wake => e.wake(config, now, io),
        });
    }

    /// A datagram of QUIC is at its host.
    pub(crate) fn deliver_quic(&mut self, p: &Packet, datagram: &Datagram) {
        let Label { flow, generation, end, .. } = p.label;
        let end = usize::from(end);
        if end == RECEIVER {
            self.probes.arrived += datagram.payload();
        }
        // A late one for a connection that is gone: nobody answers, as where the port is closed.
        if self.connections.get(flow as usize).is_some_and(|c| c.live && c.generation == generation) {
            let ecn: Ecn = p.header.ecn;
            self.work_quic(flow, end, |e, config, now, io| e.receive(config, now, datagram, ecn, io));
        }
    }

    fn work_quic(
        &mut self,
        place: u32,
        end: usize,
        work: impl FnOnce(&mut Endpoint, &Config, Instant, &mut Port<'_>),
    ) {
        let connection = &mut self.connections[place as usize];
        let (generation, first) = (connection.generation, self.events.len());
        work_on(connection, end, (&self.configs, &mut self.net, &mut self.events, &mut self.edges), work);
        connection.ask_to_be_woken(place, end, &mut self.net);
        if self.events.len() > first {
            self.follow_all(place, end, generation, first);
        }
    }
}

type Around<'a> = (&'a [HostConfig], &'a mut Network, &'a mut Vec<TcpEvent>, &'a mut Edges);

/// Works on one end of a connection.
fn work_on(
    connection: &mut Connection,
    end: usize,
    (configs, net, events, edges): Around<'_>,
    work: impl FnOnce(&mut Endpoint, &Config, Instant, &mut Port<'_>),
) {
    let config = configs[usize::from(connection.config[end])].quic.as_deref();
    let (Some(quic), Some(config)) = (connection.other.as_deref_mut().and_then(|other| other.quic()), config)
    else {
        return;
    };
    let label = &connection.labels[end];
    let split = if end == DATA { edges.of(label.flow) } else { None };
    let served = connection.stats.delivered_at != OptionalInstant::NEVER;
    let now = net.now;
    let (size, delivered) = (connection.size, connection.stats.delivered);
    let mut port = Port { net, events, label, split, end, served, size, delivered };
    work(&mut quic.ends[end], config, now, &mut port);
    quic.wake_at[end] = quic.ends[end].wake_at(config);
}
