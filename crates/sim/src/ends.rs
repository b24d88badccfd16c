//! Ends of a connection that speak TCP, QUIC or TFRC. An end takes the packets that come to it, what an
//! application wants, and time when it asked for it; its segments and events go to its [`Port`]. A datagram of no
//! connection comes to no end, as nobody answers it.

use narrows_tcp::cc::CcEstimates;
use narrows_tcp::{Config, Endpoint, EndpointCounters, LossPhase};
use narrows_units::Instant;

use crate::host_config::{DATA, HostConfig};
use crate::packet::{Packet, Sealed};
use crate::port::Port;
use crate::qlog::SenderState;
use crate::quic::QuicEnds;
use crate::request::Request;
use crate::tfrc::TfrcEnds;

/// Pair of ends. TCP's lie in the connection itself: there may be a million.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "TCP's ends are in place: a pointer more costs each packet a cache line"
)]
pub(crate) enum Ends {
    Tcp([Endpoint; 2]),
    Quic(Box<QuicEnds>),
    Tfrc(Box<TfrcEnds>),
}

impl Ends {
    /// Makes the ends of a connection from `configs`, the data end's settings first.
    pub(crate) fn new(configs: [&HostConfig; 2], receiver_opens: bool) -> Self {
        let config = configs[DATA];
        if config.tfrc {
            return Self::Tfrc(Box::new(TfrcEnds::new(config.tcp.mss)));
        }
        match &config.quic {
            Some(quic) => Self::Quic(Box::new(QuicEnds::new(quic, receiver_opens))),
            None => Self::Tcp(configs.map(HostConfig::end)),
        }
    }

    /// Gives the end of `port` a packet.
    #[inline(always)]
    pub(crate) fn on_packet(&mut self, packet: &Packet, port: &mut Port<'_>) {
        // TCP is asked for first: which of three it is takes longer to find out.
        if let Self::Tcp(ends) = self {
            if let Some(tcp) = packet.tcp() {
                let (config, now) = (&port.config.tcp, port.net.now);
                if port.probe.qlogs.are_wanted() && port.end == DATA {
                    let len = packet.header.len.get() as u32;
                    port.probe.qlogs.segment_received(now, port.label, tcp, len);
                }
                ends[port.end].receive(config, now, tcp, packet.header.ecn, port);
            }
        } else {
            self.on_sealed_packet(packet, port);
        }
    }

    /// Gives the end of `port` a packet of another protocol than TCP.
    #[inline(never)]
    fn on_sealed_packet(&mut self, packet: &Packet, port: &mut Port<'_>) {
        match self {
            Self::Tcp(_) => {}
            Self::Quic(quic) => {
                if let Some(Sealed::Quic(datagram)) = packet.sealed.as_deref() {
                    if port.probe.qlogs.are_wanted() && port.end == DATA {
                        port.probe.qlogs.datagram(port.net.now, port.label, datagram, false);
                    }
                    quic.on_datagram(datagram, packet.header.ecn, port);
                }
            }
            Self::Tfrc(tfrc) => {
                if let Some(Sealed::Tfrc(said)) = packet.sealed.as_deref() {
                    tfrc.on_packet(said, port);
                }
            }
        }
    }

    /// Does what is due at the instant that [`Ends::poll`] has told.
    pub(crate) fn on_time(&mut self, port: &mut Port<'_>) {
        match self {
            Self::Tcp(ends) => {
                let (config, now) = (&port.config.tcp, port.net.now);
                ends[port.end].wake(config, now, port);
            }
            Self::Quic(quic) => quic.on_time(port),
            Self::Tfrc(tfrc) => tfrc.on_time(port),
        }
    }

    /// Does what an application wants.
    pub(crate) fn on_request(&mut self, request: Request, port: &mut Port<'_>) {
        match self {
            Self::Tcp(ends) => {
                let (config, now): (&Config, Instant) = (&port.config.tcp, port.net.now);
                let end = &mut ends[port.end];
                match request {
                    Request::Open => end.open(config, now, port),
                    Request::Write(bytes) => end.write(config, now, bytes, port),
                    Request::Finish | Request::Close => end.close(config, now, port),
                }
            }
            Self::Quic(quic) => quic.on_request(request, port),
            Self::Tfrc(tfrc) => tfrc.on_request(request, port),
        }
    }

    /// Time at which an end wants [`Ends::on_time`]; [`Instant::FAR_FUTURE`] if never.
    #[inline(always)]
    pub(crate) fn poll(&self, end: usize) -> Instant {
        if let Self::Tcp(ends) = self {
            return ends[end].wake_at();
        }
        match self {
            Self::Tcp(_) => Instant::FAR_FUTURE,
            Self::Quic(quic) => quic.wake_at(end),
            Self::Tfrc(tfrc) => tfrc.wake_at(end),
        }
    }

    /// Whether a receiver that has all that it wanted closes the connection (RFC 9000, section 10.2).
    pub(crate) const fn receiver_closes(&self) -> bool {
        !matches!(self, Self::Tcp(_))
    }

    /// Counters of an end.
    pub(crate) fn counters(&self, end: usize) -> EndpointCounters {
        match self {
            Self::Tcp(ends) => ends[end].counters(),
            Self::Quic(quic) => quic.counters(end),
            Self::Tfrc(tfrc) => tfrc.counters(end),
        }
    }

    /// Window and slow start threshold of the data end, packets.
    pub(crate) fn windows(&self) -> (f64, f64) {
        match self {
            Self::Tcp(ends) => (ends[DATA].cwnd(), ends[DATA].ssthresh()),
            Self::Quic(quic) => quic.windows(),
            Self::Tfrc(tfrc) => tfrc.windows(),
        }
    }

    /// State of the data end for its log; `None` if its transport has no log.
    pub(crate) fn sender_state(&self, config: &HostConfig) -> Option<SenderState> {
        match self {
            Self::Tcp(ends) => {
                let (end, config) = (&ends[DATA], &config.tcp);
                let bytes = |segments: f64| (segments * f64::from(end.segment())) as u64;
                Some(SenderState {
                    cwnd: bytes(end.cwnd()),
                    ssthresh: Some(end.ssthresh()).filter(|s| s.is_finite()).map(bytes),
                    in_flight: end.in_flight(config),
                    srtt: end.srtt(config),
                    recovers: end.loss_phase() != LossPhase::Open,
                })
            }
            Self::Quic(quic) => Some(quic.sender_state()),
            Self::Tfrc(_) => None,
        }
    }

    /// Estimates of the congestion control of TCP's data end.
    pub(crate) fn cc_estimates(&self) -> Option<CcEstimates> {
        if let Self::Tcp(ends) = self { ends[DATA].cc_estimates() } else { None }
    }

    /// Counts of losses as QUIC's data end sees the losses; `None` without QUIC.
    pub(crate) fn spurious(&self) -> Option<[u64; 3]> {
        if let Self::Quic(quic) = self { Some(quic.spurious()) } else { None }
    }

    /// Reads a word of each cache line that a segment will need which comes to an end.
    #[inline]
    pub(crate) fn prefetch(&self, end: usize) -> u64 {
        match self {
            Self::Tcp(ends) => ends
                .get(end)
                .map_or(0, |end| u64::from(end.is_failed()) ^ end.unsent() ^ end.cwnd().to_bits()),
            _ => 0,
        }
    }
}
