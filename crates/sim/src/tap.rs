//! Observations of packets on links: waits, losses, captures.

use narrows_qdisc::Packet as _;
use narrows_units::{Duration, Instant};
use narrows_wire::capture::Writer;

use crate::ids::{FlowId, LinkId};
use crate::packet::{DATAGRAM, PayloadKind, Pkt};
use crate::statistics::Histogram;

/// Most packets of a link that are captured: the file is then some 150 MB.
pub(crate) const MOST_CAPTURED: u64 = 2_000_000;

/// The headers of what a link carried, as a pcap file that grows.
pub(crate) struct Capture {
    pub(crate) link: LinkId,
    pub(crate) file: Writer<Vec<u8>>,
    /// Number of packets in the capture.
    pub(crate) packets: u64,
    /// Packets that came after the capture was full.
    pub(crate) missed: u64,
}

/// Waits of packets in a discipline, from arrival to the beginning of transmission, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits([Histogram; PayloadKind::COUNT]);

impl Waits {
    /// Waits of packets of a kind.
    pub(crate) fn of(&self, kind: PayloadKind) -> &Histogram {
        &self.0[kind as usize]
    }

    #[inline]
    pub(crate) fn add(&mut self, kind: PayloadKind, waited: Duration) {
        self.0[kind as usize].add(waited.as_nanos());
    }

    /// Forgets the waits before the end of the warm-up.
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(Histogram::clear);
    }
}

/// Lost data packets of the connection that has or had a place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    generation: u32,
    packets: u32,
    /// Bitmap of the first 64 segments: a bit is set if a copy of the segment was lost. Zero unless segments are
    /// recorded ([`Tap::tell_segments`]).
    pub(crate) segments: u64,
}

impl Lost {
    /// Number of lost data packets.
    pub(crate) fn packets(self) -> u64 {
        self.packets.into()
    }
}

/// Looks at packets on their way. Everything here is counted, nothing decided.
#[derive(Default)]
pub(crate) struct Tap {
    pub(crate) captures: Vec<Capture>,
    /// Losses, by place of the connection.
    lost: Vec<Lost>,
    /// Payload of a full segment in bytes; `None` unless segments are recorded.
    segment: Option<u32>,
    /// Packets of no connection that were dropped or lost, by user.
    pub(crate) datagrams_lost: Vec<u64>,
}

impl Tap {
    /// Begins to capture a link.
    pub(crate) fn capture_link(&mut self, link: LinkId) {
        if let Ok(file) = Writer::new(Vec::new()) {
            self.captures.push(Capture { link, file, packets: 0, missed: 0 });
        }
    }

    /// Begins to keep which segments of a connection are lost; full ones carry `mss` bytes.
    pub(crate) fn tell_segments(&mut self, mss: u32) {
        self.segment = Some(mss.max(1));
    }

    pub(crate) fn captures(&self, link: LinkId) -> bool {
        !self.captures.is_empty() && self.captures.iter().any(|c| c.link == link)
    }

    /// Captures a packet whose last bit left link `link` at `sent`.
    pub(crate) fn capture(&mut self, link: LinkId, sent: Instant, packet: &Pkt) {
        if let Some(c) = self.captures.iter_mut().find(|c| c.link == link) {
            // Writing to memory does not fail, and no run lasts 136 years.
            if c.packets < MOST_CAPTURED && c.file.write(sent, packet.header()).is_ok() {
                c.packets += 1;
            } else {
                c.missed += 1;
            }
        }
    }

    /// Counts a packet that a discipline dropped, or a wire lost.
    pub(crate) fn lost(&mut self, packet: &Pkt) {
        let p = &packet.0;
        let at = p.label.flow.index();
        if p.label.end == DATAGRAM {
            if at >= self.datagrams_lost.len() {
                self.datagrams_lost.resize(at + 1, 0);
            }
            self.datagrams_lost[at] += 1;
        } else if p.label.end < DATAGRAM && p.label.kind != PayloadKind::Control {
            if at >= self.lost.len() {
                self.lost.resize(at + 1, Lost::default());
            }
            let lost = &mut self.lost[at];
            if lost.generation != p.label.generation {
                *lost = Lost { generation: p.label.generation, ..Lost::default() };
            }
            lost.packets += 1;
            if let (Some(mss), Some(tcp)) = (self.segment, p.header.tcp.as_ref()) {
                // The SYN is 0, so data begins at 1.
                let at = tcp.seq.0.saturating_sub(1) / mss;
                lost.segments |= 1_u64.checked_shl(at).unwrap_or(0);
            }
        }
    }

    /// Losses so far of the connection at `place` with `generation`.
    pub(crate) fn lost_of(&self, place: FlowId, generation: u32) -> Lost {
        self.lost.get(place.index()).filter(|l| l.generation == generation).copied().unwrap_or_default()
    }
}
