//! Writer of qlog for senders' connections: what a log says, and in which words.
//!
//! The format is qlog 0.3 (draft-ietf-quic-qlog-main-schema-02, section 3, and draft-ietf-quic-qlog-quic-events-01,
//! section 5), which qvis reads; later drafts rename events.

use core::fmt::{self, Display, Write as _};
use core::net::SocketAddr;

use narrows_units::Instant;

/// Most bytes of a connection's events: some hundred thousand packets, beyond which viewers in browsers stand still.
const MOST: usize = 32 << 20;

/// Milliseconds with the digits of nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Millis(
    /// Nanoseconds.
    pub u64,
);

impl Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Log of a sender's connection.
#[derive(Debug)]
pub struct QlogTrace {
    title: String,
    protocol: &'static str,
    /// Events as JSON, separated by commas.
    events: String,
    /// Events left out because there were too many.
    missed: u64,
}

impl QlogTrace {
    /// A log of the connection between `local`, the sender, and `remote`, which begins now. The first event names both
    /// ends, so that readers find the connection (quic-events-01, section 5.1.3).
    #[must_use]
    pub fn new(now: Instant, protocol: &'static str, local: SocketAddr, remote: SocketAddr) -> Self {
        let title = format!("{local} to {remote}");
        let mut trace = Self { title, protocol, events: String::new(), missed: 0 };
        let version = if local.is_ipv6() { "v6" } else { "v4" };
        let ([src, dst], [sport, dport]) = ([local.ip(), remote.ip()], [local.port(), remote.port()]);
        trace.event(
            now,
            "connectivity:connection_started",
            format_args!(
                "\"ip_version\":\"{version}\",\"src_ip\":\"{src}\",\"dst_ip\":\"{dst}\",\"protocol\":\"{protocol}\",\
                 \"src_port\":{sport},\"dst_port\":{dport}"
            ),
        );
        trace
    }

    /// Adds an event; `data` has the members of the event's object.
    pub fn event(&mut self, now: Instant, name: &str, data: fmt::Arguments<'_>) {
        if self.events.len() > MOST {
            self.missed += 1;
            return;
        }
        let comma = if self.events.is_empty() { "" } else { "," };
        let time = Millis(now.as_nanos());
        let _ = write!(self.events, "{comma}\n{{\"time\":{time},\"name\":\"{name}\",\"data\":{{{data}}}}}");
    }

    /// Adds a packet that the sender believes lost.
    pub fn packet_lost(&mut self, now: Instant, kind: &str, number: u64) {
        self.event(now, "recovery:packet_lost", format_args!("{}", packet_header(kind, number)));
    }

    /// Adds an expiry of the sender's retransmission timer.
    pub fn timer_expired(&mut self, now: Instant) {
        let data = format_args!("\"timer_type\":\"pto\",\"event_type\":\"expired\"");
        self.event(now, "recovery:loss_timer_updated", data);
    }

    /// Events so far, as JSON separated by commas.
    #[must_use]
    pub fn events(&self) -> &str {
        &self.events
    }

    /// A file with all logs of `program`; times are relative to `reference`, in milliseconds since 1970.
    #[must_use]
    pub fn file<'a>(
        program: &str,
        reference: impl Display,
        traces: impl IntoIterator<Item = &'a Self>,
    ) -> String {
        let mut out = format!(
            "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"title\":\"{program}\",\"traces\":["
        );
        for (at, Self { title, protocol, events, missed }) in traces.into_iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(
                out,
                "{comma}\n{{\"title\":\"{title}\",\"description\":\"{protocol}; {missed} events left out\",\
                 \"vantage_point\":{{\"name\":\"sender\",\"type\":\"server\"}},\"common_fields\":{{\"protocol_type\":\
                 [\"{protocol}\"],\"time_format\":\"relative\",\"reference_time\":{reference}}},\"events\":[{events}]}}"
            );
        }
        out.push_str("]}\n");
        out
    }
}

/// Member `header` of a packet: `kind` is `initial`, `handshake` or `1RTT`.
#[must_use]
pub fn packet_header(kind: &str, number: u64) -> String {
    format!("\"header\":{{\"packet_type\":\"{kind}\",\"packet_number\":{number}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_connections_and_tells_times_in_milliseconds() {
        let [server, user] = ["192.0.2.1:443", "10.0.0.1:50000"].map(|end| end.parse().unwrap());
        let mut trace = QlogTrace::new(Instant::ZERO, "QUIC", server, user);
        trace.packet_lost(Instant::from_nanos(1_500_007), "1RTT", 3);
        trace.timer_expired(Instant::from_nanos(2_000_000_000));
        assert_eq!(
            QlogTrace::file("narrows test", Millis(5_000_000), [&trace]),
            "{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"title\":\"narrows test\",\"traces\":[\n\
             {\"title\":\"192.0.2.1:443 to 10.0.0.1:50000\",\"description\":\"QUIC; 0 events left out\",\
             \"vantage_point\":{\"name\":\"sender\",\"type\":\"server\"},\"common_fields\":{\
             \"protocol_type\":[\"QUIC\"],\"time_format\":\"relative\",\"reference_time\":5.000000},\"events\":[\n\
             {\"time\":0.000000,\"name\":\"connectivity:connection_started\",\"data\":{\"ip_version\":\"v4\",\
             \"src_ip\":\"192.0.2.1\",\"dst_ip\":\"10.0.0.1\",\"protocol\":\"QUIC\",\"src_port\":443,\
             \"dst_port\":50000}},\n\
             {\"time\":1.500007,\"name\":\"recovery:packet_lost\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\
             \"packet_number\":3}}},\n\
             {\"time\":2000.000000,\"name\":\"recovery:loss_timer_updated\",\"data\":{\"timer_type\":\"pto\",\
             \"event_type\":\"expired\"}}]}]}\n"
        );
    }
}
