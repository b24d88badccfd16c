//! `/metrics`: the status as Prometheus reads it, in the text format of OpenMetrics. Labels have few values: at most
//! 250 series for a link, however many connections there are. Of users the ten with most traffic are told, to readers
//! on this machine.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use narrows_qdisc::Reason;

use crate::{CauseJson, DirectionStatus, HistogramJson, SightJson, Status, TalkerJson};

/// Format of the answer, as told to a scrape.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

/// Most users that have series of their own.
const TOP_USERS: usize = 10;

/// Way to read a metric from a status: values by labels, if the metric has labels.
enum Read {
    Counts(fn(&Status) -> Vec<(Labels, u64)>),
    Seconds(fn(&Status) -> Vec<(Labels, f64)>),
    Gauges(fn(&Status) -> Vec<(Labels, f64)>),
    Histograms(fn(&Status) -> Vec<(Labels, &HistogramJson)>),
}

/// Metric; `name` lacks the unit and `_total` at the end.
struct Metric {
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    read: Read,
}

impl Metric {
    const fn kind(&self) -> MetricType {
        match self.read {
            Read::Counts(_) | Read::Seconds(_) => MetricType::Counter,
            Read::Gauges(_) => MetricType::Gauge,
            Read::Histograms(_) => MetricType::Histogram,
        }
    }
}

fn of_both<T>(s: &Status, read: fn(&DirectionStatus) -> Option<T>) -> Vec<(Labels, T)> {
    let both = [("down", &s.down), ("up", &s.up)];
    let one = |(name, d): (&str, &DirectionStatus)| {
        read(d).map(|value| (vec![("direction", name.to_owned())], value))
    };
    both.into_iter().filter_map(one).collect()
}

fn alone<T>(value: T) -> Vec<(Labels, T)> {
    vec![(Vec::new(), value)]
}

fn with<T>(label: &'static str, values: impl IntoIterator<Item = (String, T)>) -> Vec<(Labels, T)> {
    values.into_iter().map(|(name, value)| (vec![(label, name)], value)).collect()
}

fn counts(name: &'static str, help: &'static str, read: fn(&Status) -> Vec<(Labels, u64)>) -> Metric {
    Metric { name, unit: None, help, read: Read::Counts(read) }
}

fn gauges(name: &'static str, help: &'static str, read: fn(&Status) -> Vec<(Labels, f64)>) -> Metric {
    Metric { name, unit: None, help, read: Read::Gauges(read) }
}

fn seconds(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, unit: Some(Unit::Seconds), help, read }
}

/// Metrics of the box.
fn of_the_box() -> Vec<Metric> {
    vec![
        gauges("narrows_box_info", "Version and back end of the box", |s| {
            let labels = vec![("version", s.version.clone()), ("backend", s.backend.clone())];
            vec![(labels, 1.0)]
        }),
        seconds(
            "narrows_uptime",
            "Time since the box began to handle packets",
            Read::Gauges(|s| alone(s.uptime_s)),
        ),
        gauges("narrows_observing", "State of observe: 1 if the box only follows and reports", |s| {
            alone(f64::from(u8::from(s.observe)))
        }),
        gauges("narrows_notices", "Notices in force: interfaces missing, settings refused", |s| {
            alone(s.notices.len() as f64)
        }),
        counts("narrows_bypassed", "Times that traffic passed by the box because it did not answer", |s| {
            alone(s.bypassed)
        }),
        counts(
            "narrows_odd_packets",
            "Packets with errors: malformed, not seen, lost, or without a way out",
            |s| {
                let kinds =
                    [("malformed", s.malformed), ("unseen", s.unseen), ("lost", s.lost), ("gone", s.gone)];
                with("kind", kinds.map(|(kind, n)| (kind.to_owned(), n)))
            },
        ),
        counts(
            "narrows_answered_503",
            "Connections to port 80 that the box answered with 503 in place of the server",
            |s| alone(s.answered_503),
        ),
    ]
}

/// Each direction of the link.
fn of_the_link() -> Vec<Metric> {
    vec![
        gauges("narrows_link_rate_bytes_per_second", "Rate of the link, as set or as found", |s| {
            of_both(s, |d| d.rate_bps.map(|bps| bps as f64 / 8.0))
        }),
        counts("narrows_arrived_packets", "Packets that arrived to be queued", |s| {
            of_both(s, |d| Some(d.report.counters.arrived))
        }),
        counts("narrows_offered_packets", "Packets that came to the box's place, queued or not", |s| {
            of_both(s, |d| Some(d.offered))
        }),
        counts(
            "narrows_unqueued_packets",
            "Packets that passed unqueued: too many, or read too slowly",
            |s| of_both(s, |d| Some(d.unqueued)),
        ),
        counts(
            "narrows_gone_packets",
            "Packets counted as sent that the kernel discarded before their turn",
            |s| of_both(s, |d| Some(d.gone)),
        ),
        counts("narrows_sent_packets", "Packets sent on the link", |s| {
            of_both(s, |d| Some(d.report.counters.sent))
        }),
        counts("narrows_dropped_packets", "Packets dropped by the discipline", dropped),
        counts(
            "narrows_suppressed_packets",
            "Retransmissions dropped whose original was still queued",
            |s| of_both(s, |d| Some(d.report.counters.suppressed)),
        ),
        counts("narrows_marked_packets", "Packets marked with congestion experienced (CE)", |s| {
            of_both(s, |d| Some(d.report.counters.marked))
        }),
        counts("narrows_refused_connections", "SYNs refused by admission control", |s| {
            of_both(s, |d| Some(d.report.counters.refused))
        }),
        gauges("narrows_backlog_packets", "Packets that wait for their turn in the queue", |s| {
            of_both(s, |d| Some(d.report.backlog.packets as f64))
        }),
        gauges("narrows_loss_ratio", "Loss rate over the window of the discipline, 0 to 1", |s| {
            of_both(s, |d| Some(f64::from(d.report.loss_ppm) / 1e6))
        }),
        gauges("narrows_waiting_users", "Users that wait for admission control", |s| {
            of_both(s, |d| d.report.admission.as_ref().map(|a| a.waiting as f64))
        }),
        gauges("narrows_admitted_users", "Users admitted now by admission control", |s| {
            of_both(s, |d| d.report.admission.as_ref().map(|a| a.admitted as f64))
        }),
        gauges("narrows_overloaded", "State of admission control: 1 if new users have to wait", |s| {
            of_both(s, |d| d.report.admission.as_ref().map(|a| f64::from(u8::from(a.overloaded))))
        }),
        seconds(
            "narrows_link_late",
            "Excess of the round trip over the shortest, where the rate is followed",
            Read::Gauges(|s| of_both(s, |d| d.report.follows.as_ref().map(|f| f.late.as_secs_f64()))),
        ),
    ]
}

/// Bytes of each direction of the link.
fn bytes_of_the_link() -> Vec<Metric> {
    let bytes = |name, help, read| Metric { name, unit: Some(Unit::Bytes), help, read };
    vec![
        bytes(
            "narrows_arrived",
            "Bytes of IP packets that arrived to be queued",
            Read::Counts(|s| of_both(s, |d| Some(d.report.counters.arrived_bytes.0))),
        ),
        bytes(
            "narrows_sent",
            "Bytes of IP packets sent on the link",
            Read::Counts(|s| of_both(s, |d| Some(d.report.counters.sent_bytes.0))),
        ),
        bytes(
            "narrows_goodput",
            "Bytes of new data acknowledged (TCP), and all bytes of other protocols that left",
            Read::Counts(|s| {
                let [down, up] = s.sight.goodput_bytes;
                with("direction", [("down".to_owned(), down), ("up".to_owned(), up)])
            }),
        ),
        bytes(
            "narrows_backlog",
            "Bytes of IP packets that wait for their turn in the queue",
            Read::Gauges(|s| of_both(s, |d| Some(d.report.backlog.bytes.0 as f64))),
        ),
    ]
}

fn dropped(s: &Status) -> Vec<(Labels, u64)> {
    let of = |(name, d): (&'static str, &DirectionStatus)| -> Vec<(Labels, u64)> {
        let labels =
            |reason: Reason| vec![("direction", name.to_owned()), ("reason", reason.name().to_owned())];
        Reason::ALL.iter().map(|r| (labels(*r), d.report.counters.dropped[*r as usize])).collect()
    };
    [("down", &s.down), ("up", &s.up)].into_iter().flat_map(of).collect()
}

/// Causes of stalls. An application that has nothing to say stalls nobody.
fn of_the_network(s: &Status) -> impl Iterator<Item = &CauseJson> {
    s.sight.causes.iter().filter(|c| c.network)
}

/// Metrics of stalls by user and by cause.
fn of_sight() -> Vec<Metric> {
    vec![
        gauges(
            "narrows_connections",
            "Connections by state: waiting for a turn in the queue is no stall",
            |s| with("state", s.sight.states.iter().map(|(state, n)| (state.clone(), f64::from(*n)))),
        ),
        gauges(
            "narrows_users",
            "Users by kind: seen in the last 15 minutes, stalled in them, stalled for over 5 s at once, stalled now",
            |s| {
                let SightJson { users_seen, users_stalled_lately, users_stalled_long, users_stalled, .. } =
                    s.sight;
                let kinds = [
                    ("seen", users_seen as f64),
                    ("stalled_lately", users_stalled_lately as f64),
                    ("stalled_long", users_stalled_long as f64),
                    ("stalled", f64::from(users_stalled)),
                ];
                with("kind", kinds.map(|(kind, n)| (kind.to_owned(), n)))
            },
        ),
        seconds(
            "narrows_turn",
            "Mean wait of a packet with data in the box's queue",
            Read::Gauges(|s| {
                let [down, up] = s.sight.turn_s;
                with("direction", [("down".to_owned(), down), ("up".to_owned(), up)])
            }),
        ),
        gauges("narrows_stalled_connections", "Connections that stall now", |s| {
            with("cause", of_the_network(s).map(|c| (c.cause.clone(), f64::from(c.now))))
        }),
        counts("narrows_stalls", "Stalls that ended", |s| {
            with("cause", of_the_network(s).map(|c| (c.cause.clone(), c.total)))
        }),
        seconds(
            "narrows_stalled",
            "Time in stalls that ended, summed over connections",
            Read::Seconds(|s| with("cause", of_the_network(s).map(|c| (c.cause.clone(), c.total_s)))),
        ),
        seconds(
            "narrows_loss_stalled",
            "Time in ended stalls that losses caused, by the place of the loss, summed over connections",
            Read::Seconds(|s| with("place", s.sight.lost.iter().map(|l| (l.place.clone(), l.total_s)))),
        ),
        counts("narrows_sender_timeouts", "Expiries of senders' timers", |s| alone(s.sight.timeouts)),
        counts("narrows_fast_retransmits", "Recoveries of senders begun by ACKs, without a timeout", |s| {
            alone(s.sight.fast_retransmits)
        }),
        seconds("narrows_stall_length", "Lengths of stalls", Read::Histograms(|s| alone(&s.sight.stall_s))),
        seconds(
            "narrows_round_trip",
            "Round trips from the box to either side",
            Read::Histograms(|s| {
                let sides = [("lan", &s.sight.lan_round_trip_s), ("wan", &s.sight.wan_round_trip_s)];
                with("side", sides.map(|(side, h)| (side.to_owned(), h)))
            }),
        ),
        Metric {
            name: "narrows_round_trip_packets",
            unit: None,
            help: "New packets of a connection in a round trip",
            read: Read::Histograms(|s| alone(&s.sight.packets_per_round_trip)),
        },
    ]
}

/// Users with most traffic in the last hour.
fn of_users() -> Vec<Metric> {
    fn of_each<T>(s: &Status, read: impl Fn(&TalkerJson) -> Vec<(Labels, T)>) -> Vec<(Labels, T)> {
        let each = s.sight.talkers.iter().take(TOP_USERS);
        let one = |talker: &TalkerJson| {
            let who = [("user", talker.user.clone()), ("name", talker.name.clone().unwrap_or_default())];
            read(talker).into_iter().map(move |(labels, value)| ([who.to_vec(), labels].concat(), value))
        };
        each.flat_map(one).collect()
    }
    fn of_both([down, up]: [u64; 2]) -> Vec<(Labels, f64)> {
        with("direction", [("down".to_owned(), down as f64), ("up".to_owned(), up as f64)])
    }
    let bytes = |name, help, read| Metric { name, unit: Some(Unit::Bytes), help, read: Read::Gauges(read) };
    vec![
        bytes("narrows_top_user_hour_offered", "Bytes that came for a top user in the last hour", |s| {
            of_each(s, |talker| of_both(talker.hour_offered_bytes))
        }),
        bytes("narrows_top_user_hour_delivered", "Bytes of a top user that left in the last hour", |s| {
            of_each(s, |talker| of_both(talker.hour_bytes))
        }),
        seconds(
            "narrows_top_user_hour_wait",
            "Mean wait of a packet with data of a top user in the last hour",
            Read::Gauges(|s| of_each(s, |talker| alone(talker.hour_wait_s))),
        ),
    ]
}

fn all() -> Vec<Metric> {
    [of_the_box(), of_the_link(), bytes_of_the_link(), of_sight(), of_users()].into_iter().flatten().collect()
}

/// A label's value as the format has it between quotation marks (OpenMetrics 1.0, ABNF of `escaped-string`); the
/// library writes it as it is.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Text of the `/metrics` page.
#[must_use]
pub fn render(status: Status) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(status)));
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Scrape(Status);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in all() {
            let kind = metric.kind();
            let mut family =
                encoder.encode_descriptor(metric.name, metric.help, metric.unit.as_ref(), kind)?;
            self.0
                .each()
                .iter()
                .try_for_each(|link| write(&mut family, &metric.read, link, &link.called()))?;
        }
        Ok(())
    }
}

fn write(family: &mut MetricEncoder<'_>, read: &Read, status: &Status, link: &str) -> fmt::Result {
    let labelled = |labels: Labels| -> Labels {
        let link = std::iter::once(("link", link.to_owned()));
        link.chain(labels).map(|(label, value)| (label, escaped(&value))).collect()
    };
    match read {
        Read::Counts(read) => read(status).into_iter().try_for_each(|(labels, value)| {
            family.encode_family(&labelled(labels))?.encode_counter::<NoLabelSet, _, u64>(&value, None)
        }),
        Read::Seconds(read) => read(status).into_iter().try_for_each(|(labels, value)| {
            family.encode_family(&labelled(labels))?.encode_counter::<NoLabelSet, _, u64>(&value, None)
        }),
        Read::Gauges(read) => read(status)
            .into_iter()
            .try_for_each(|(labels, value)| family.encode_family(&labelled(labels))?.encode_gauge(&value)),
        Read::Histograms(read) => read(status).into_iter().try_for_each(|(labels, h)| {
            let bounds = h.bounds.iter().copied().chain([f64::MAX]);
            let buckets: Vec<(f64, u64)> = bounds.zip(h.counts.iter().copied()).collect();
            let count = h.counts.iter().sum();
            family
                .encode_family(&labelled(labels))?
                .encode_histogram::<NoLabelSet>(h.sum, count, &buckets, None)
        }),
    }
}

#[cfg(test)]
mod tests;
