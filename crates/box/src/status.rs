//! State of the box as JSON: plain numbers, units in the names.

use narrows_qdisc::{AdmissionReport, Report};
use narrows_users::CircuitId;
use serde::{Deserialize, Serialize};

use super::sight::SightJson;

/// Status of a box or of one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this program.
    pub version: String,
    /// Number of the box's process.
    pub pid: u32,
    /// Seconds since packets are handled.
    pub uptime_s: f64,
    /// Name of the link among several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Interfaces of the users.
    pub lan: String,
    /// Interface of the wide network.
    pub wan: String,
    /// `nfqueue` or `packet`.
    pub backend: String,
    /// Tool that keeps the rules that lead packets here, as `nftables`; empty with packet sockets.
    #[serde(default)]
    pub rules: String,
    /// Whether the box only looks on.
    pub observe: bool,
    /// Direction from the wide network to the users.
    pub down: DirectionStatus,
    /// Direction from the users to the wide network.
    pub up: DirectionStatus,
    /// Packets that contradicted themselves. Malformed packets waited with what else of their user cannot be read;
    /// packets longer than their frame were discarded.
    pub malformed: u64,
    /// Packets that the kernel let through unqueued, because the box read too slowly or its queue was full.
    pub unseen: u64,
    /// Packets lost before the box could see them, or that it could not send whole (packet sockets only).
    pub lost: u64,
    /// Packets whose way was gone when their turn came: an interface went down, or would not take them.
    pub gone: u64,
    /// Connections to port 80 that were answered 503 (`http_503`).
    #[serde(default)]
    pub answered_503: u64,
    /// Times that the watchdog let traffic pass by the box because the box did not answer.
    #[serde(default)]
    pub bypassed: u64,
    /// Stalls by user and by cause.
    #[serde(default)]
    pub sight: SightJson,
    /// Troubles at present, a sentence each: a missing interface, a settings file that was refused.
    pub notices: Vec<String>,
    /// Status of each link of a box with several; the fields beside it then tell of the whole box.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Self>,
}

impl Status {
    /// Name of the link: from the settings, else made of the interfaces.
    #[must_use]
    pub fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{}-{}", self.lan, self.wan))
    }

    /// Status of every link; without `links`, the status of the box itself.
    #[must_use]
    pub fn each(&self) -> &[Self] {
        if self.links.is_empty() { std::slice::from_ref(self) } else { &self.links }
    }

    /// Admission control where users wait for it; where nobody does, that of one direction, if there is any.
    #[must_use]
    pub fn admissions(&self) -> Vec<&AdmissionReport> {
        let mut all: Vec<_> =
            [&self.down, &self.up].iter().filter_map(|d| d.report.admission.as_ref()).collect();
        if all.iter().any(|a| a.waiting > 0) {
            all.retain(|a| a.waiting > 0);
        } else {
            all.truncate(1);
        }
        all
    }

    /// Status of every link, mutable; without `links`, the status of the box itself.
    pub fn each_mut(&mut self) -> &mut [Self] {
        if self.links.is_empty() { std::slice::from_mut(self) } else { &mut self.links }
    }
}

/// Status of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// Rate of the link, as told or as believed; `None` if packets pass at once.
    pub rate_bps: Option<u64>,
    /// The rate that another program has told (`rate_from`), before bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_bps: Option<u64>,
    /// Bytes added to each packet.
    pub overhead: u32,
    /// Discipline, as the settings write the discipline.
    pub discipline: String,
    /// Packets that came to the box's place: those that arrived in the queue, the unqueued and the lost.
    #[serde(default)]
    pub offered: u64,
    /// Packets that the kernel let through unqueued, because the box read too slowly or its queue was full.
    #[serde(default)]
    pub unqueued: u64,
    /// Packets lost before they could be queued, or discarded because they contradict themselves.
    #[serde(default)]
    pub lost: u64,
    /// Packets that the queue has sent and that did not leave: they were gone when their turn came, as when a
    /// firewall's reload drops what waits, or their interface was. These packets are among those sent, and with NFQUEUE
    /// took no time on the link.
    #[serde(default)]
    pub gone: u64,
    /// State of the discipline.
    pub report: Report,
}

/// Writes the names of circuits in place of their numbers.
pub(crate) fn name_circuits(admission: &mut AdmissionReport, name: impl Fn(CircuitId) -> Option<String>) {
    for waiting in &mut admission.queue {
        let number = waiting.pool.strip_prefix("circuit ").and_then(|n| n.parse().ok());
        if let Some(name) = number.and_then(|n| name(CircuitId(n))) {
            waiting.pool = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_qdisc::follow::{FollowPhase, FollowReport};
    use narrows_qdisc::{Backlog, ClassReport, Counters, Ppm, Reason, WaitingPool};
    use narrows_units::{Bytes, Duration};

    fn whole() -> Report {
        let ms = Duration::from_millis;
        let mut counters =
            Counters { arrived: 9, marked: 3, suppressed: 1, refused: 2, ..Counters::default() };
        counters.arrived_bytes = Bytes(4500);
        counters.drop_for(Reason::PushedOut);
        let backlog = Backlog { packets: 2, bytes: Bytes(1540) };
        let waiting = |user: &str, position, expected| WaitingPool {
            pool: user.to_owned(),
            position,
            waited: ms(1250),
            expected,
        };
        let mut short = ClassReport { name: "short".into(), backlog, flows: 1, ..ClassReport::default() };
        (short.share, short.up_to_packets) = (Some(Ppm(456_000)), Some(24));
        short.counters = Some(counters.clone());
        Report {
            name: "classes".into(),
            counters,
            backlog,
            classes: vec![short, ClassReport { name: "long".into(), ..ClassReport::default() }],
            states: [("slow_start".into(), 4), ("idle".into(), 1)].into(),
            flows: 5,
            active_flows: 3,
            stalled_flows: 1,
            longest_stall: ms(2300),
            loss_ppm: 12,
            admission: Some(AdmissionReport {
                overloaded: true,
                admitted: 4,
                admissions: 7,
                waiting: 2,
                queue: vec![waiting("10.0.0.1", 1, Some(ms(300))), waiting("10.0.0.2", 2, None)],
                wait_p50: Some(ms(100)),
                wait_p99: None,
            }),
            follows: Some(FollowReport {
                rate_bps: 640_000,
                found_bps: Some(640_000),
                side: None,
                phase: FollowPhase::Searching,
                base: Some(ms(40)),
                late: Duration::from_micros(1500),
                in_flight: 9000,
                window: 12_000,
                lost: 1,
                signals: None,
            }),
            bytes_per_flow: 250,
        }
    }

    /// Text of the same report as it was before these types wrote themselves: clients of other versions read it.
    const TEXT: &str = concat!(
        r#"{"name":"classes","counters":{"arrived":9,"arrived_bytes":4500,"sent":0,"sent_bytes":0,"goodput_bytes":0,"#,
        r#""dropped":{"admission":0,"duplicate":0,"early":0,"over_limit":0,"pushed_out":1,"repairable":0,"#,
        r#""sojourn":0},"dropped_total":1,"suppressed":1,"refused":2,"marked":3,"clamped":0,"restamped":0,"#,
        r#""evicted":0},"backlog":{"packets":2,"bytes":1540},"classes":[{"name":"short","backlog":{"packets":2,"#,
        r#""bytes":1540},"flows":1,"counters":{"arrived":9,"arrived_bytes":4500,"sent":0,"sent_bytes":0,"#,
        r#""goodput_bytes":0,"dropped":{"admission":0,"duplicate":0,"early":0,"over_limit":0,"pushed_out":1,"#,
        r#""repairable":0,"sojourn":0},"dropped_total":1,"suppressed":1,"refused":2,"marked":3,"clamped":0,"#,
        r#""restamped":0,"evicted":0},"share":0.456,"up_to_packets":24},{"name":"long","backlog":{"packets":0,"#,
        r#""bytes":0},"flows":0}],"states":{"idle":1,"slow_start":4},"flows":5,"active_flows":3,"stalled_flows":1,"#,
        r#""longest_stall_s":2.3,"loss_ppm":12,"admission":{"overloaded":true,"admitted":4,"admissions":7,"#,
        r#""waiting":2,"queue":[{"pool":"10.0.0.1","position":1,"waited_s":1.25,"expected_s":0.3},"#,
        r#"{"pool":"10.0.0.2","position":2,"waited_s":1.25,"expected_s":null}],"wait_p50_s":0.1,"wait_p99_s":null},"#,
        r#""follows":{"rate_bps":640000,"phase":"searching","#,
        r#""why":"the link has not been full yet: more is tried in each round trip","base_s":0.04,"late_s":0.0015,"#,
        r#""in_flight_bytes":9000,"window_bytes":12000,"lost":1},"bytes_per_flow":250}"#,
    );

    #[test]
    fn a_report_has_the_text_that_clients_know() {
        let text = serde_json::to_string(&whole()).unwrap();
        assert_eq!(text, TEXT);
        let read: Report = serde_json::from_str(&text).unwrap();
        // The rate that the discipline is told is not in the text.
        let follows = whole().follows.map(|f| FollowReport { rate_bps: 0, ..f });
        assert_eq!(read, Report { follows, ..whole() });
    }
}
