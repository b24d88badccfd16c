//! Connections over QUIC: the ends of `narrows-quic` in the place of TCP's, and what their events mean in TCP's words.

use narrows_quic::{Config, Datagram, Endpoint, Io, QuicEvent, Role, Space};
use narrows_tcp::{EndpointCounters, TcpEvent};
use narrows_units::{Bytes, Ecn, Instant};
use narrows_wire::{Header, QuicPacket};

use crate::flow_stats::OptionalInstant;
use crate::host_config::DATA;
use crate::packet::{BULK_FROM, PayloadKind, Sealed};
use crate::port::{Port, left};
use crate::qlog::SenderState;
use crate::request::Request;

/// IPv4 and UDP headers.
const HEADERS: u64 = 28;

/// The two ends of a QUIC connection.
#[derive(Debug)]
pub(crate) struct QuicEnds {
    ends: [Endpoint; 2],
    /// Instant at which each end wants to be woken, noted here since only a call with the end's settings gives it.
    wake_at: [Instant; 2],
}

impl QuicEnds {
    pub(crate) fn new(config: &Config, receiver_opens: bool) -> Self {
        let sides = if receiver_opens { [Role::Server, Role::Client] } else { [Role::Client, Role::Server] };
        Self { ends: sides.map(|side| Endpoint::new(config, side)), wake_at: [Instant::FAR_FUTURE; 2] }
    }

    pub(crate) fn wake_at(&self, end: usize) -> Instant {
        self.wake_at[end]
    }

    /// Gives the end of `port` a datagram.
    pub(crate) fn on_datagram(&mut self, datagram: &Datagram, ecn: Ecn, port: &mut Port<'_>) {
        self.at_end(port, |e, config, now, io| e.receive(config, now, datagram, ecn, io));
    }

    pub(crate) fn on_time(&mut self, port: &mut Port<'_>) {
        self.at_end(port, |e, config, now, io| e.wake(config, now, io));
    }

    pub(crate) fn on_request(&mut self, request: Request, port: &mut Port<'_>) {
        self.at_end(port, |e, config, now, io| match request {
            Request::Open => e.open(config, now, io),
            // A transfer that ends is finished with its last byte, so that no FIN goes by itself.
            Request::Write(u64::MAX) => e.write(config, now, u64::MAX, io),
            Request::Write(bytes) => e.write_all(config, now, bytes, io),
            Request::Finish => {}
            Request::Close => e.close(config, now, io),
        });
    }

    /// Lets the end of `port` work.
    fn at_end(
        &mut self,
        port: &mut Port<'_>,
        work: impl FnOnce(&mut Endpoint, &Config, Instant, &mut QuicPort<'_, '_>),
    ) {
        let Some(config) = port.config.quic.as_deref() else { return };
        let (end, now) = (port.end, port.net.now);
        let served = port.stats.delivered_at != OptionalInstant::NEVER;
        let delivered = port.stats.delivered;
        work(&mut self.ends[end], config, now, &mut QuicPort { port, served, delivered });
        self.wake_at[end] = self.ends[end].wake_at(config);
    }

    /// Counters of one end in TCP's terms: a probe timeout of the handshake counts as a repeated SYN, a congestion
    /// event as an entry into fast recovery.
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

    /// State of the data end for the log of the data end.
    pub(crate) fn sender_state(&self) -> SenderState {
        let end = &self.ends[DATA];
        SenderState {
            cwnd: end.cwnd(),
            ssthresh: Some(end.ssthresh()).filter(|s| *s != u64::MAX),
            in_flight: end.in_flight(),
            srtt: end.srtt(),
            recovers: false,
        }
    }

    /// Counters of the data end's loss detection: packets declared lost, those that came nevertheless, needless series
    /// of probe timeouts.
    pub(crate) fn spurious(&self) -> [u64; 3] {
        let k = self.ends[DATA].counters();
        [k.lost.into(), k.spurious.into(), k.spurious_ptos.into()]
    }
}

/// Port to which an end's output goes.
struct QuicPort<'a, 'b> {
    port: &'a mut Port<'b>,
    /// Whether the receiver had all that was to be delivered, and how much it had, when the end began to work.
    served: bool,
    delivered: u64,
}

impl Io for QuicPort<'_, '_> {
    fn send(&mut self, datagram: Datagram) {
        let port = &mut *self.port;
        let mut packet = port.net.pool.take();
        let p = &mut *packet.0;
        p.label = *port.label;
        p.label.kind = match datagram.stream_offset() {
            None => PayloadKind::Control,
            Some(at) if at < u64::from(BULK_FROM) => PayloadKind::Small,
            Some(_) => PayloadKind::Bulk,
        };
        p.left = left(port.size, datagram.stream_offset().unwrap_or(self.delivered));
        if let Some(split) = &mut port.split
            && p.label.kind != PayloadKind::Control
        {
            let way = split.sends();
            (p.label.route, p.label.dscp) = (way.route, way.dscp);
            p.sent = port.net.now;
        }
        if port.probe.qlogs.are_wanted() && port.end == DATA {
            port.probe.qlogs.datagram(port.net.now, port.label, &datagram, true);
        }
        header(&datagram, &mut p.header);
        p.header.dscp = p.label.dscp;
        p.sealed = Some(Box::new(Sealed::Quic(datagram)));
        port.net.send(packet);
    }

    fn event(&mut self, event: QuicEvent) {
        let happened = match event {
            QuicEvent::Established => TcpEvent::Established,
            QuicEvent::Delivered { bytes } => TcpEvent::Delivered { bytes },
            QuicEvent::Acked { bytes } => TcpEvent::Acked { bytes },
            QuicEvent::RttSample(rtt) => TcpEvent::RttSample(rtt),
            QuicEvent::CongestionEvent | QuicEvent::PersistentCongestion => TcpEvent::FastRetransmit,
            QuicEvent::ProbeTimeout { backoff } => TcpEvent::Timeout { backoff },
            // The receiver closes when it has all, so nothing more happens at the data end.
            QuicEvent::PeerClosed => TcpEvent::Closed,
            QuicEvent::IdleTimeout if self.served && self.port.end == DATA => TcpEvent::Closed,
            QuicEvent::IdleTimeout if self.served => return,
            QuicEvent::IdleTimeout => TcpEvent::Failed,
            QuicEvent::PacketLost { space, number } => {
                let port = &mut *self.port;
                if port.probe.qlogs.are_wanted() && port.end == DATA {
                    port.probe.qlogs.packet_lost(port.net.now, port.label, space, number);
                }
                return;
            }
        };
        let port = &mut *self.port;
        if port.probe.qlogs.are_wanted() && port.end == DATA {
            port.probe.qlogs.happened(port.net.now, port.label, happened);
        }
        port.events.push(happened);
    }
}

/// Fills in the header of a datagram as queues on the way can read it. The key is filled in by [`Packet::address`].
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
