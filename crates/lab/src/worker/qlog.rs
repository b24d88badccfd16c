//! qlog of the server's first QUIC connections, in the form and with the name of the simulator's.
//!
//! quinn can write qlog itself, by the crate `qlog`; but that tells of no acknowledgment and no timer, and has
//! serde_json keep the order of all objects of the whole program. So this listens to what quinn tells of itself
//! (`tracing`): a span for each packet that is sent or received, with its number, and an event for frames, losses and
//! probe timeouts. Acknowledgments of Initial and handshake packets are not told; these are forgotten with their keys.
//! Of packets sent the frames that ask for an acknowledgment are told. Congestion window and round trip are looked at
//! ten times a second.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use narrows_units::Instant as Now;
use narrows_wire::qlog::{Millis, QlogTrace, packet_header};
use quinn::ConnectionStats;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

thread_local! {
    /// Connection that is being accepted: its first packet comes before quinn has a span for it.
    static ACCEPTED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Hears what quinn says: counts probe timeouts, and logs connections if that is wanted.
pub(super) struct QuinnListener {
    /// quinn's word for a probe timeout is counted; it has no counter for them.
    ptos: Arc<AtomicU64>,
    logs: Option<Arc<QuicLogs>>,
}

/// Logs of the first connections of a server.
#[derive(Debug)]
pub(super) struct QuicLogs {
    /// Connections to log at most.
    most: usize,
    begun: Instant,
    /// Beginning in nanoseconds since 1970.
    epoch: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    traces: Vec<Trace>,
    spans: HashMap<u64, Span>,
    /// Spans that are entered, the innermost last.
    entered: Vec<u64>,
    /// Number of the latest span.
    latest: u64,
}

/// A span of quinn.
#[derive(Debug)]
enum Span {
    /// A connection works.
    Drive(Option<usize>),
    /// A packet is written.
    Send,
    /// A packet is read.
    Receive,
}

/// Packet number space, named as the packet type in qlog.
type Space = &'static str;

/// Log of one connection.
#[derive(Debug)]
struct Trace {
    log: QlogTrace,
    /// Packets of the datagram that is being written.
    written: Vec<Packet>,
    read: Option<Packet>,
    /// Sizes of packets in flight.
    outstanding: BTreeMap<(Space, u64), u64>,
    in_flight: u64,
    /// State of the sender as told last.
    told: Option<Metrics>,
}

/// State of a sender that quinn counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Metrics {
    /// Congestion window, bytes.
    cwnd: u64,
    /// Smoothed round-trip time.
    rtt: std::time::Duration,
}

#[derive(Debug)]
struct Packet {
    space: Space,
    number: u64,
    frames: Vec<String>,
}

/// Fields of a span or an event.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    space: Option<Space>,
    number: Option<u64>,
    offset: Option<u64>,
    len: Option<u64>,
    in_flight: Option<u64>,
}

impl Fields {
    fn number(&mut self, name: &str, value: u64) {
        let place = match name {
            "pn" => &mut self.number,
            "off" => &mut self.offset,
            "len" => &mut self.len,
            "in_flight" => &mut self.in_flight,
            _ => return,
        };
        *place = Some(value);
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "space" => self.space = space(&format!("{value:?}")),
            _ => {}
        }
    }
}

fn space(name: &str) -> Option<Space> {
    match name {
        "Initial" => Some("initial"),
        "Handshake" => Some("handshake"),
        "Data" => Some("1RTT"),
        _ => None,
    }
}

impl QuinnListener {
    /// Listens to this process from here on. A second listener in one process is of no effect.
    pub(super) fn start(ptos: Arc<AtomicU64>, logs: Option<Arc<QuicLogs>>) {
        let _ = tracing::subscriber::set_global_default(Self { ptos, logs });
    }
}

impl QuicLogs {
    /// Logs the first `most` connections.
    pub(super) fn new(most: usize) -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun = Instant::now();
        Self { most, begun, epoch: epoch.as_nanos() as u64, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the beginning.
    fn now(&self) -> Now {
        Now::from_nanos(self.begun.elapsed().as_nanos() as u64)
    }

    /// Runs `accept`, in which quinn takes a connection from `ends`, the server and its user; gives the place of its
    /// log, if it is among the first.
    pub(super) fn accepting<T>(
        &self,
        ends: [SocketAddr; 2],
        accept: impl FnOnce() -> T,
    ) -> (T, Option<usize>) {
        let place = {
            let mut state = self.state();
            let place = state.traces.len();
            (place < self.most).then(|| {
                state.traces.push(Trace::new(self.now(), ends));
                place
            })
        };
        ACCEPTED.set(place);
        let accepted = accept();
        ACCEPTED.set(None);
        (accepted, place)
    }

    /// Tells a connection's congestion window and round trip, where they have changed.
    pub(super) fn look(&self, place: usize, stats: &ConnectionStats) {
        let now = self.now();
        if let Some(trace) = self.state().traces.get_mut(place) {
            trace.look(now, Metrics { cwnd: stats.path.cwnd, rtt: stats.path.rtt });
        }
    }

    /// Writes all logs to a file.
    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let mut state = self.state();
        state.traces.iter_mut().for_each(|trace| trace.flush(self.now(), None));
        let logs = state.traces.iter().map(|trace| &trace.log);
        let out = QlogTrace::file("narrows lab", Millis(self.epoch), logs);
        std::fs::write(file, out).with_context(|| file.display().to_string())
    }

    /// Notes the begin of a span; returns the span's number.
    fn span(&self, name: &str, fields: &Fields) -> u64 {
        let now = self.now();
        let mut state = self.state();
        let span = match name {
            "drive" => Span::Drive(ACCEPTED.get()),
            "send" => Span::Send,
            _ => Span::Receive,
        };
        if let Some((space, number)) = fields.space.zip(fields.number)
            && let Some(trace) = state.current()
        {
            let packet = Packet { space, number, frames: Vec::new() };
            match span {
                Span::Send => trace.written.push(packet),
                _ => {
                    trace.flush(now, None);
                    trace.read = Some(packet);
                }
            }
        }
        state.latest += 1;
        let number = state.latest;
        state.spans.insert(number, span);
        number
    }

    /// Notes an event within the spans that are entered.
    fn event(&self, fields: &Fields) {
        let now = self.now();
        let mut state = self.state();
        let innermost = state.entered.iter().rev().find_map(|id| state.spans.get(id));
        let sends = matches!(innermost, Some(Span::Send));
        let Some(trace) = state.current() else { return };
        trace.happens(now, fields, sends);
    }
}

impl State {
    /// Log of the connection that works now.
    fn current(&mut self) -> Option<&mut Trace> {
        let driven = self.entered.iter().rev().find_map(|id| match self.spans.get(id) {
            Some(Span::Drive(place)) => Some(*place),
            _ => None,
        });
        self.traces.get_mut(driven.unwrap_or_else(|| ACCEPTED.get())?)
    }
}

impl Trace {
    fn new(now: Now, [local, remote]: [SocketAddr; 2]) -> Self {
        let mut log = QlogTrace::new(now, "QUIC", local, remote);
        // quinn does not tell the number of the packet that opens the connection.
        let opener = format_args!("\"header\":{{\"packet_type\":\"initial\"}},\"frames\":[]");
        log.event(now, "transport:packet_received", opener);
        Self { log, written: Vec::new(), read: None, outstanding: BTreeMap::new(), in_flight: 0, told: None }
    }

    /// Something that quinn tells of this connection; `sends` while it writes a packet.
    fn happens(&mut self, now: Now, fields: &Fields, sends: bool) {
        let message = fields.message.as_str();
        if sends {
            if let (Some(packet), Some(frame)) = (self.written.last_mut(), sent_frame(fields)) {
                packet.frames.push(frame);
            }
        } else if let Some(rest) = message.strip_prefix("sending ") {
            // A datagram is complete.
            self.flush(now, rest.split(' ').next().and_then(|n| n.parse().ok()));
        } else if message == "PTO fired" {
            self.flush(now, None);
            self.log.timer_expired(now);
            if let Some(bytes) = fields.in_flight {
                self.in_flight(now, bytes);
            }
        } else if let Some(rest) = message.strip_prefix("packets lost: [") {
            let space = self.read.as_ref().map(|p| p.space);
            self.flush(now, None);
            for number in numbers(rest.split(']').next().unwrap_or_default()) {
                self.lost(now, space, number);
            }
            self.in_flight(now, self.outstanding.values().sum());
        } else if message.starts_with("got frame Ack") {
            self.acked(message);
        } else if let Some(rest) = message.strip_prefix("discarding ") {
            let space = rest.split(' ').next().and_then(space);
            self.flush(now, None);
            self.outstanding.retain(|(of, _), _| Some(*of) != space);
            self.in_flight(now, self.outstanding.values().sum());
        }
    }

    /// The packet that is read acknowledges others.
    fn acked(&mut self, message: &str) {
        let Some(packet) = &mut self.read else { return };
        let ranges: Vec<(u64, u64)> = ranges(message);
        for &(first, last) in &ranges {
            self.outstanding
                .retain(|(space, number), _| *space != packet.space || !(first..=last).contains(number));
        }
        let ranges: Vec<String> = ranges.iter().map(|(first, last)| format!("[{first},{last}]")).collect();
        packet.frames.push(format!("{{\"frame_type\":\"ack\",\"acked_ranges\":[{}]}}", ranges.join(",")));
    }

    fn lost(&mut self, now: Now, space: Option<Space>, number: u64) {
        // A timer's losses come without their space: the first that has the number in flight has older packets.
        let has = |space: &Space| self.outstanding.contains_key(&(*space, number));
        let space = space.into_iter().chain(["initial", "handshake", "1RTT"]).find(has).unwrap_or("1RTT");
        self.outstanding.remove(&(space, number));
        self.log.packet_lost(now, space, number);
    }

    fn in_flight(&mut self, now: Now, bytes: u64) {
        if std::mem::replace(&mut self.in_flight, bytes) != bytes {
            self.log.event(now, "recovery:metrics_updated", format_args!("\"bytes_in_flight\":{bytes}"));
        }
    }

    /// Tells the packets that were being read and written; `len` is the length of the datagram written.
    fn flush(&mut self, now: Now, len: Option<u64>) {
        if let Some(Packet { space, number, frames }) = self.read.take() {
            let (header, frames) = (packet_header(space, number), frames.join(","));
            self.log.event(now, "transport:packet_received", format_args!("{header},\"frames\":[{frames}]"));
        }
        let written = std::mem::take(&mut self.written);
        let count = written.len();
        for (at, Packet { space, number, frames }) in written.into_iter().enumerate() {
            // The last packet of a datagram is given the length of all: quinn does not tell theirs.
            let len = len.filter(|_| at + 1 == count);
            let raw = len.map_or(String::new(), |len| format!(",\"raw\":{{\"length\":{len}}}"));
            if !frames.is_empty() {
                self.outstanding.insert((space, number), len.unwrap_or(0));
            }
            let (header, frames) = (packet_header(space, number), frames.join(","));
            let data = format_args!("{header}{raw},\"frames\":[{frames}]");
            self.log.event(now, "transport:packet_sent", data);
        }
        self.in_flight(now, self.outstanding.values().sum());
    }

    fn look(&mut self, now: Now, metrics: Metrics) {
        if self.told.replace(metrics) != Some(metrics) {
            let Metrics { cwnd, rtt } = metrics;
            let rtt = Millis(rtt.as_nanos() as u64);
            let data = format_args!("\"congestion_window\":{cwnd},\"smoothed_rtt\":{rtt}");
            self.log.event(now, "recovery:metrics_updated", data);
        }
    }
}

/// A frame that quinn writes and that asks for an acknowledgment (RFC 9002, section 2), by its word for it.
fn sent_frame(fields: &Fields) -> Option<String> {
    // A probe of the path's MTU holds nothing but a PING (RFC 9000, section 14.4).
    let word = if fields.message == "writing MTUD probe" { "PING" } else { &*fields.message };
    let word = word.split([' ', ':']).next()?;
    if word.is_empty()
        || ["PADDING", "ACK", "CONNECTION_CLOSE"].contains(&word)
        || !word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    {
        return None;
    }
    let word = word.to_ascii_lowercase();
    Some(match fields.offset.zip(fields.len) {
        Some((offset, len)) if word == "stream" => {
            format!("{{\"frame_type\":\"stream\",\"offset\":{offset},\"length\":{len}}}")
        }
        _ => format!("{{\"frame_type\":\"{word}\"}}"),
    })
}

fn numbers(list: &str) -> impl Iterator<Item = u64> {
    list.split(',').filter_map(|n| n.trim().parse().ok())
}

/// Ranges of an acknowledgment as quinn prints it: `ranges: "[3..=5,0..=1]"`.
fn ranges(message: &str) -> Vec<(u64, u64)> {
    let list = message.split_once("ranges: ").map_or("", |(_, rest)| rest);
    let list = list.split_once('[').map_or("", |(_, rest)| rest);
    let list = list.split(']').next().unwrap_or_default();
    let both = |range: &str| {
        let (first, last) = range.split_once("..=")?;
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    list.split(',').filter_map(both).collect()
}

impl Subscriber for QuinnListener {
    fn register_callsite(&self, at: &'static Metadata<'static>) -> Interest {
        let of_quinn = at.target().starts_with("quinn_proto::connection");
        let interests = if at.is_span() {
            let driven = at.target().starts_with("quinn::connection") && at.name() == "drive";
            self.logs.is_some() && (driven || of_quinn && matches!(at.name(), "send" | "recv"))
        } else {
            let fields = at.fields();
            let like_pto = fields.field("in_flight").is_some() && fields.field("space").is_some();
            of_quinn && *at.level() == Level::TRACE && (like_pto || self.logs.is_some())
        };
        if interests { Interest::always() } else { Interest::never() }
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.ptos.fetch_add(u64::from(fields.message == "PTO fired"), Ordering::Relaxed);
        if let Some(logs) = &self.logs {
            logs.event(&fields);
        }
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let Some(logs) = &self.logs else { return Id::from_u64(1) };
        let mut fields = Fields::default();
        span.record(&mut fields);
        Id::from_u64(logs.span(span.metadata().name(), &fields))
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, span: &Id) {
        if let Some(logs) = &self.logs {
            logs.state().entered.push(span.into_u64());
        }
    }
    fn exit(&self, span: &Id) {
        let Some(logs) = &self.logs else { return };
        let mut state = logs.state();
        if matches!(state.spans.get(&span.into_u64()), Some(Span::Receive | Span::Drive(_)))
            && let Some(trace) = state.current()
        {
            trace.flush(logs.now(), None);
        }
        if let Some(at) = state.entered.iter().rposition(|id| *id == span.into_u64()) {
            state.entered.remove(at);
        }
    }
    fn try_close(&self, span: Id) -> bool {
        if let Some(logs) = &self.logs {
            logs.state().spans.remove(&span.into_u64());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now::from_nanos(ms * 1_000_000)
    }

    fn said(message: &str) -> Fields {
        Fields { message: message.to_owned(), ..Fields::default() }
    }

    #[test]
    fn what_quinn_says_is_understood() {
        let ack = "got frame Ack(Ack { largest: 5, delay: 2, ecn: None, ranges: \"[3..=5,0..=1]\" })";
        assert_eq!(ranges(ack), [(3, 5), (0, 1)]);
        assert_eq!(ranges("got frame Ack"), []);
        let stream = Fields { offset: Some(7), len: Some(9), ..said("STREAM") };
        assert_eq!(
            sent_frame(&stream).as_deref(),
            Some("{\"frame_type\":\"stream\",\"offset\":7,\"length\":9}")
        );
        assert_eq!(sent_frame(&said("CRYPTO: off 0 len 90")).as_deref(), Some("{\"frame_type\":\"crypto\"}"));
        assert_eq!(sent_frame(&said("writing MTUD probe")).as_deref(), Some("{\"frame_type\":\"ping\"}"));
        for silent in ["PADDING * 3", "wrote 3 bytes", "ACK ArrayRangeSet([0..1]), Delay = 25us"] {
            assert_eq!(sent_frame(&said(silent)), None);
        }
    }

    #[test]
    fn packets_are_in_flight_until_they_are_acknowledged_or_lost() {
        let ends = ["192.0.2.1:443", "10.0.0.1:50000"].map(|end| end.parse().unwrap());
        let mut trace = Trace::new(Now::ZERO, ends);
        for number in 0..4 {
            trace.written.push(Packet { space: "1RTT", number, frames: vec![] });
            // The last one acknowledges alone.
            if number < 3 {
                trace.happens(at(1), &said("PING"), true);
            }
            trace.happens(at(1), &said("sending 1000 bytes in 1 datagrams"), false);
        }
        assert_eq!(trace.in_flight, 3000);
        trace.read = Some(Packet { space: "1RTT", number: 0, frames: vec![] });
        trace.happens(at(2), &said("got frame Ack(Ack { ranges: \"[1..=1]\" })"), false);
        trace.happens(at(2), &said("packets lost: [0], bytes lost: 1000"), false);
        assert_eq!(trace.in_flight, 1000);
        trace.happens(at(3), &Fields { in_flight: Some(1000), ..said("PTO fired") }, false);
        let of = |number: u64| {
            format!("\"data\":{{\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{number}}}")
        };
        let acks = "\"frames\":[{\"frame_type\":\"ack\",\"acked_ranges\":[[1,1]]}]";
        for event in [
            format!("packet_sent\",{},\"raw\":{{\"length\":1000}},\"frames\":[]", of(3)),
            format!("packet_received\",{},{acks}", of(0)),
            format!("packet_lost\",{}}}", of(0)),
            "{\"time\":3.000000,\"name\":\"recovery:loss_timer_updated\"".to_owned(),
        ] {
            assert!(trace.log.events().contains(&event), "{event}: {}", trace.log.events());
        }
    }
}
