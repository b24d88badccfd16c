//! Output of an end: segments become packets, and events are counted or kept for the world to follow.

use narrows_tcp::{Io, Segment, TcpEvent};
use narrows_units::{Bytes, Ecn};
use narrows_wire::{Flags, TcpHeader};

use crate::flow_stats::FlowStats;
use crate::host_config::{DATA, HostConfig, RECEIVER};
use crate::network::Network;
use crate::packet::{Label, NO_END, PayloadKind, Sealed};
use crate::path_split::PathSplit;
use crate::probe::ends::EndProbe;

/// Where an end's output goes: packets into the network, events to where they are counted, and those from which more
/// follows to whoever looks after the connection.
pub(crate) struct Port<'a> {
    pub(crate) net: &'a mut Network,
    pub(crate) probe: &'a mut EndProbe,
    pub(crate) events: &'a mut Vec<TcpEvent>,
    /// Label of the packets that the end sends.
    pub(crate) label: &'a Label,
    /// Settings of the end's host.
    pub(crate) config: &'a HostConfig,
    /// Split of the connection, if an edge divides it and this end sends the data.
    pub(crate) split: Option<&'a mut PathSplit>,
    /// Number of the end; the fields after it are what counting needs of the connection.
    pub(crate) end: usize,
    pub(crate) stats: &'a mut FlowStats,
    pub(crate) size: u64,
    pub(crate) user_index: u32,
}

impl Port<'_> {
    /// Counts an event of a TCP end; true if nothing else follows from the event.
    #[inline(always)]
    fn count(&mut self, event: TcpEvent) -> bool {
        match event {
            TcpEvent::Delivered { bytes }
                if self.end == RECEIVER && self.stats.delivered + bytes < self.size =>
            {
                self.probe.took(self.net.now, self.user_index, bytes);
                self.stats.took(self.net.now, bytes);
                true
            }
            TcpEvent::Acked { bytes } if self.end == DATA && self.stats.acked + bytes < self.size => {
                self.stats.acked += bytes;
                true
            }
            TcpEvent::FastRetransmit | TcpEvent::TailProbe => {
                self.probe.repairs.note(self.net.now, self.label, event);
                true
            }
            TcpEvent::Timeout { backoff } => {
                self.probe.repairs.note(self.net.now, self.label, event);
                self.probe.backed_off(self.end, backoff);
                true
            }
            TcpEvent::RttSample(_) | TcpEvent::Recovered | TcpEvent::EcnReduced => true,
            _ => false,
        }
    }
}

impl Io for Port<'_> {
    #[inline]
    fn transmit(&mut self, segment: &Segment) {
        self.compose(segment.ecn, |tcp| *tcp = segment.tcp);
    }
    /// Writes the header in the place where the packet lies.
    #[inline(always)]
    fn compose(&mut self, ecn: Ecn, fill: impl FnOnce(&mut TcpHeader)) {
        let mut packet = self.net.pool.take();
        let p = &mut *packet.0;
        p.label = *self.label;
        let tcp = p.header.tcp.insert(TcpHeader::default());
        fill(tcp);
        p.label.kind = PayloadKind::of(tcp);
        if self.net.tells_left {
            // Sequence numbers start at zero, and the SYN has the first.
            p.left = left(self.size, tcp.seq.0.saturating_sub(1).into());
        }
        if let Some(split) = &mut self.split
            && tcp.payload > 0
        {
            let way = split.sends();
            (p.label.route, p.label.dscp) = (way.route, way.dscp);
            p.sent = self.net.now;
        }
        p.header.quic = None;
        let len = wire_len(tcp, self.config.options_count);
        if self.probe.qlogs.are_wanted() && self.end == DATA {
            self.probe.qlogs.segment_sent(self.net.now, self.label, tcp, len);
        }
        p.header.len = Bytes(u64::from(len));
        (p.header.ecn, p.header.dscp) = (ecn, p.label.dscp);
        if self.config.opaque {
            p.sealed = p.header.tcp.take().map(|tcp| Box::new(Sealed::Tcp(tcp)));
        }
        self.net.send(packet);
    }
    #[inline(always)]
    fn event(&mut self, event: TcpEvent) {
        if self.probe.qlogs.are_wanted() && self.end == DATA {
            self.probe.qlogs.happened(self.net.now, self.label, event);
        }
        if !self.count(event) {
            self.events.push(event);
        }
    }
}

/// Bytes that a transfer of `size` has left from `offset` on, as a packet carries it; [`NO_END`] if too many.
pub(crate) fn left(size: u64, offset: u64) -> u32 {
    u32::try_from(size.saturating_sub(offset)).unwrap_or(NO_END)
}

/// IPv4 and TCP headers without options.
pub(crate) const BARE_HEADERS: u32 = 40;

/// Length of the IP packet: payload, 40 bytes of IPv4 and TCP header, and the options padded as stacks pad them (RFC
/// 7323, appendix A: timestamps 12 bytes; RFC 2018: 4 bytes and 8 a block; SYN: MSS 4, window scale 4, SACK permitted
/// in the timestamps' padding). Where options do not count, ns-2's `ts_option_size_` does.
#[inline]
pub(crate) fn wire_len(tcp: &TcpHeader, options_count: bool) -> u32 {
    if !options_count {
        return BARE_HEADERS + 10 * u32::from(tcp.timestamps.is_some()) + tcp.payload;
    }
    // Most have none of them.
    let mut len = BARE_HEADERS + tcp.payload;
    if !tcp.sack.is_empty() {
        len += 4 + 8 * tcp.sack.len() as u32;
    }
    if tcp.timestamps.is_some() {
        len += 12;
    }
    if tcp.flags.has(Flags::SYN) {
        len += 4 * (u32::from(tcp.mss.is_some()) + u32::from(tcp.window_scale.is_some()));
    }
    len
}
