//! qlog of the senders of the first connections, for qvis and other readers.
//!
//! [`QlogTrace`] has the format. Times are simulated milliseconds. QUIC's packets are those of the run. TCP has no
//! packet numbers, so each transmission of a segment has one here, and an acknowledgment names the last transmissions
//! of what it covers; a segment that is sent again was lost before. Where we differ: TCP's packets are all of type
//! 1RTT.

use core::fmt;
use core::net::SocketAddr;
use std::collections::VecDeque;

use narrows_quic::{Ack, Datagram, Frame, RangeSet, Space};
use narrows_tcp::TcpEvent;
use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::qlog::{Millis, QlogTrace, packet_header as header};
use narrows_wire::{Flags, TcpHeader};

use crate::ids::FlowId;
use crate::packet::{Label, address};

/// Logs of senders; none is kept unless logs are asked for.
#[derive(Debug, Default)]
pub(crate) struct Qlogs {
    /// Connections to log at most.
    most: usize,
    traces: Vec<Trace>,
}

/// The state of a sender after a call of the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SenderState {
    /// Congestion window, bytes.
    pub(crate) cwnd: u64,
    /// Slow start threshold, bytes; `None` for infinite.
    pub(crate) ssthresh: Option<u64>,
    /// Bytes in flight.
    pub(crate) in_flight: u64,
    /// Smoothed round-trip time.
    pub(crate) srtt: Duration,
    /// Whether losses are repaired.
    pub(crate) recovers: bool,
}

/// A segment that was sent and is not acknowledged cumulatively.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    seq: SeqNum,
    end: SeqNum,
    /// Number of the segment's last transmission.
    number: u64,
    /// Whether a SACK block has named the segment.
    sacked: bool,
}

/// Log of one sender.
#[derive(Debug)]
struct Trace {
    flow: FlowId,
    generation: u32,
    begun: Instant,
    log: QlogTrace,
    outstanding: VecDeque<Outstanding>,
    /// Packets of TCP sent and received so far.
    sent: u64,
    received: u64,
    /// Highest stream offset sent, from which the others are told.
    highest: u64,
    /// Latest and least round-trip time.
    rtt: Option<(Duration, Duration)>,
    told: Option<SenderState>,
    rtt_told: bool,
    phase: Option<&'static str>,
}

/// Ranges of packet numbers without their ends, written with them, as an ACK frame of qlog has them.
struct Ranges<'a>(&'a [(u64, u64)]);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, end)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}[{first},{}]", end - 1)?;
        }
        Ok(())
    }
}

impl Qlogs {
    /// Logs the first `most` connections.
    pub(crate) fn want(&mut self, most: usize) {
        self.most = most;
    }

    /// Whether logs are wanted.
    #[inline]
    pub(crate) const fn are_wanted(&self) -> bool {
        self.most > 0
    }

    /// Place of the log of the connection that `label` names.
    fn position(&self, label: &Label) -> Option<usize> {
        self.traces.iter().position(|t| (t.flow, t.generation) == (label.flow, label.generation))
    }

    /// The log of the connection that `label` names, if it is among the first.
    fn of(&mut self, now: Instant, label: &Label, protocol: &'static str) -> Option<&mut Trace> {
        if let Some(at) = self.position(label) {
            return self.traces.get_mut(at);
        }
        if self.traces.len() >= self.most {
            return None;
        }
        let end = |host, port| SocketAddr::new(address(host).to_canonical(), port);
        let (local, remote) = (end(label.src, label.ports.0), end(label.dst, label.ports.1));
        self.traces.push(Trace {
            flow: label.flow,
            generation: label.generation,
            begun: now,
            log: QlogTrace::new(now, protocol, local, remote),
            outstanding: VecDeque::new(),
            sent: 0,
            received: 0,
            highest: 0,
            rtt: None,
            told: None,
            rtt_told: false,
            phase: None,
        });
        self.traces.last_mut()
    }

    /// The sender of `label` sends a segment in an IP packet of `len` bytes.
    pub(crate) fn segment_sent(&mut self, now: Instant, label: &Label, tcp: &TcpHeader, len: u32) {
        if let Some(trace) = self.of(now, label, "TCP") {
            trace.segment_sent(now, tcp, len);
        }
    }

    /// A segment came to the sender whose packets begin with `label`.
    pub(crate) fn segment_received(&mut self, now: Instant, label: &Label, tcp: &TcpHeader, len: u32) {
        if let Some(trace) = self.of(now, label, "TCP") {
            trace.segment_received(now, tcp, len);
        }
    }

    /// Logs a datagram that the sender of `label` sends or gets.
    pub(crate) fn datagram(&mut self, now: Instant, label: &Label, datagram: &Datagram, sent: bool) {
        let Some(trace) = self.of(now, label, "QUIC") else { return };
        let name = if sent { "transport:packet_sent" } else { "transport:packet_received" };
        for packet in &datagram.packets {
            let frames = frames_of(packet.ack.as_ref(), &packet.frames);
            let (kind, number, len) = (packet_type(packet.space), packet.number, packet.len);
            trace.log.event(
                now,
                name,
                format_args!("{},\"raw\":{{\"length\":{len}}},\"frames\":[{frames}]", header(kind, number)),
            );
        }
    }

    /// The sender of `label` believes a packet lost.
    pub(crate) fn packet_lost(&mut self, now: Instant, label: &Label, space: Space, number: u64) {
        if let Some(trace) = self.of(now, label, "QUIC") {
            trace.log.packet_lost(now, packet_type(space), number);
        }
    }

    /// Something happened at the sender of `label`.
    pub(crate) fn happened(&mut self, now: Instant, label: &Label, event: TcpEvent) {
        let Some(trace) = self.of(now, label, "TCP") else { return };
        match event {
            TcpEvent::RttSample(rtt) => {
                let least = trace.rtt.map_or(rtt, |(_, least)| least.min(rtt));
                (trace.rtt, trace.rtt_told) = (Some((rtt, least)), false);
            }
            TcpEvent::Timeout { .. } | TcpEvent::TailProbe => trace.log.timer_expired(now),
            _ => {}
        }
    }

    /// Logs the state of the sender of `label` after a call of the sender.
    pub(crate) fn worked(&mut self, now: Instant, label: &Label, state: SenderState) {
        if let Some(at) = self.position(label) {
            self.traces[at].worked(now, state);
        }
    }

    /// Adds the logs of another part of the run; [`Qlogs::settle`] puts them in order.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.traces.extend(other.traces);
    }

    /// Orders the logs by their beginning, when all parts are there, and drops those beyond the limit.
    pub(crate) fn settle(&mut self) {
        self.traces.sort_by_key(|trace| trace.begun);
        self.traces.truncate(self.most);
    }

    /// The file with all logs; `None` unless logs are asked for.
    pub(crate) fn file(&self) -> Option<String> {
        self.are_wanted()
            .then(|| QlogTrace::file("narrows sim", 0, self.traces.iter().map(|trace| &trace.log)))
    }
}

fn packet_type(space: Space) -> &'static str {
    match space {
        Space::Initial => "initial",
        Space::Handshake => "handshake",
        Space::Data => "1RTT",
    }
}

fn frames_of(ack: Option<&Ack>, frames: &[Frame]) -> String {
    let mut list = Vec::with_capacity(frames.len() + 1);
    if let Some(ack) = ack {
        let (delay, ranges) = (Millis(ack.delay.as_nanos()), Ranges(&ack.ranges));
        list.push(format!("{{\"frame_type\":\"ack\",\"ack_delay\":{delay},\"acked_ranges\":[{ranges}]}}"));
    }
    for frame in frames {
        list.push(match *frame {
            Frame::Ping => "{\"frame_type\":\"ping\"}".to_owned(),
            Frame::ImmediateAck => "{\"frame_type\":\"unknown\",\"raw_frame_type\":31}".to_owned(),
            Frame::Crypto { offset, len } => {
                format!("{{\"frame_type\":\"crypto\",\"offset\":{offset},\"length\":{len}}}")
            }
            Frame::Stream { offset, len, fin } => stream_frame(offset, len, fin),
            Frame::NewConnectionId => "{\"frame_type\":\"new_connection_id\"}".to_owned(),
            Frame::RetireConnectionId => "{\"frame_type\":\"retire_connection_id\"}".to_owned(),
            Frame::HandshakeDone => "{\"frame_type\":\"handshake_done\"}".to_owned(),
        });
    }
    list.join(",")
}

fn stream_frame(offset: u64, len: u64, fin: bool) -> String {
    let fin = if fin { ",\"fin\":true" } else { "" };
    format!("{{\"frame_type\":\"stream\",\"stream_id\":0,\"offset\":{offset},\"length\":{len}{fin}}}")
}

impl Trace {
    /// The stream offset of a sequence number near the highest that was sent.
    fn offset(&self, seq: SeqNum) -> u64 {
        let ahead = seq.distance_from(SeqNum(self.highest as u32));
        self.highest.saturating_add_signed(ahead.into())
    }

    fn segment_sent(&mut self, now: Instant, tcp: &TcpHeader, len: u32) {
        let number = self.sent;
        self.sent += 1;
        let (seq, end) = (tcp.seq, tcp.seq_end());
        let mut frames = String::new();
        if seq != end {
            let held = self.outstanding.iter_mut().find(|o| o.seq.at_or_before(seq) && seq.before(o.end));
            let lost = held.map(|held| core::mem::replace(&mut held.number, number));
            match lost {
                Some(lost) => {
                    self.log.packet_lost(now, "1RTT", lost);
                }
                None => self.outstanding.push_back(Outstanding { seq, end, number, sacked: false }),
            }
            // The SYN has the first sequence number, and data begins at offset 0.
            let offset = self.offset(seq).saturating_sub(u64::from(!tcp.flags.has(Flags::SYN)));
            frames = stream_frame(offset, tcp.payload.into(), tcp.flags.has(Flags::FIN));
            self.highest = self.highest.max(self.offset(end));
        }
        let header = header("1RTT", number);
        self.log.event(
            now,
            "transport:packet_sent",
            format_args!("{header},\"raw\":{{\"length\":{len}}},\"frames\":[{frames}]"),
        );
    }

    fn segment_received(&mut self, now: Instant, tcp: &TcpHeader, len: u32) {
        let number = self.received;
        self.received += 1;
        let mut acked = RangeSet::default();
        while tcp.flags.has(Flags::ACK)
            && let Some(first) = self.outstanding.front()
            && first.end.at_or_before(tcp.ack)
        {
            if !first.sacked {
                acked.insert(first.number, first.number + 1);
            }
            self.outstanding.pop_front();
        }
        for &(left, right) in tcp.sack.as_slice() {
            for held in &mut self.outstanding {
                if !held.sacked && left.at_or_before(held.seq) && held.end.at_or_before(right) {
                    held.sacked = true;
                    acked.insert(held.number, held.number + 1);
                }
            }
        }
        let ack = if acked.is_empty() {
            String::new()
        } else {
            format!("{{\"frame_type\":\"ack\",\"acked_ranges\":[{}]}}", Ranges(acked.as_slice()))
        };
        let header = header("1RTT", number);
        self.log.event(
            now,
            "transport:packet_received",
            format_args!("{header},\"raw\":{{\"length\":{len}}},\"frames\":[{ack}]"),
        );
    }

    /// Tells what has changed of the sender's state.
    fn worked(&mut self, now: Instant, state: SenderState) {
        let mut members = vec![];
        let before = self.told.replace(state);
        let mut number = |name: &str, old: Option<u64>, new: u64| {
            if old != Some(new) {
                members.push(format!("\"{name}\":{new}"));
            }
        };
        number("congestion_window", before.map(|b| b.cwnd), state.cwnd);
        number("bytes_in_flight", before.map(|b| b.in_flight), state.in_flight);
        if let Some(ssthresh) = state.ssthresh {
            number("ssthresh", before.and_then(|b| b.ssthresh), ssthresh);
        }
        if before.is_none_or(|b| b.srtt != state.srtt) && state.srtt > Duration::ZERO {
            members.push(format!("\"smoothed_rtt\":{}", Millis(state.srtt.as_nanos())));
        }
        if let Some((latest, least)) = self.rtt.filter(|_| !core::mem::replace(&mut self.rtt_told, true)) {
            let (latest, least) = (Millis(latest.as_nanos()), Millis(least.as_nanos()));
            members.push(format!("\"latest_rtt\":{latest},\"min_rtt\":{least}"));
        }
        if !members.is_empty() {
            self.log.event(now, "recovery:metrics_updated", format_args!("{}", members.join(",")));
        }
        let phase = match state {
            SenderState { recovers: true, .. } => "recovery",
            SenderState { ssthresh: Some(ssthresh), cwnd, .. } if cwnd >= ssthresh => "congestion_avoidance",
            _ => "slow_start",
        };
        if self.phase != Some(phase) {
            let old = self.phase.map_or(String::new(), |old| format!("\"old\":\"{old}\","));
            self.phase = Some(phase);
            self.log.event(
                now,
                "recovery:congestion_state_updated",
                format_args!("{old}\"new\":\"{phase}\""),
            );
        }
    }
}
