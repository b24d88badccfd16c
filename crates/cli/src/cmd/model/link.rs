//! `narrows model link`: the operating point, bare.

use narrows_models::declared::operating::{BUFFER_PACKETS, FLOWS, RTO_MIN_S, RTT_S, STACK, WINDOW};
use narrows_models::declared::taq_chain::{BACKOFF_ENDS, ENDS};
use narrows_models::declared::yardsticks::{PACKET_BYTES, RATE_BPS};
use narrows_models::operating::{Bottleneck, OperatingPoint, Stack, operating_point};
use narrows_models::taq_chain::BackoffUntil;
use narrows_plot::{Chart, Line, Panel};
use narrows_units::{Bytes, Duration, Rate};
use serde_json::json;

use super::flags::word;
use super::taq::OTHER_ENDS;
use super::{Answer, time_s, usual};

/// Silences that are told, s.
const STALLS_S: [f64; 4] = [2.0, 5.0, 20.0, 60.0];

flags! {
    /// Arguments of `narrows model link`.
    pub struct Args {
        rate: Rate = RATE_BPS;
        flows: u32 = FLOWS;
        rtt: f64 = RTT_S [value_parser = time_s];
        buffer: Option<u32> = BUFFER_PACKETS;
        packet: u64 = PACKET_BYTES [default_value_t = usual(&PACKET_BYTES)];
        window: u32 = WINDOW [default_value_t = usual(&WINDOW)];
        stack: usize = STACK [value_parser = word(&STACK, &[]), default_value = "linux"];
        rto_min: f64 = RTO_MIN_S [default_value_t = usual(&RTO_MIN_S), value_parser = time_s];
        /// End of a back-off [default: new_ack with --stack linux, else new_sample]
        backoff_ends: Option<usize> [alias = "memory", value_parser = word(&BACKOFF_ENDS, &OTHER_ENDS)];
    }
}

impl Args {
    fn link(&self) -> anyhow::Result<Bottleneck> {
        let time = |parameter: &'static str, s: f64| {
            let domain = 0.0..=1e6;
            let error = narrows_models::Error { parameter, value: s, expected: "0 to 1000000 seconds" };
            if domain.contains(&s) { Ok(Duration::from_nanos((s * 1e9).round() as u64)) } else { Err(error) }
        };
        let (packet, rtt) = (Bytes(self.packet), time("rtt", self.rtt)?);
        let (stack, ends) =
            [(Stack::Linux, BackoffUntil::NewAck), (Stack::Rfc, BackoffUntil::NewSample)][self.stack];
        let bdp = self.rate.bdp(rtt).0 / self.packet.max(1);
        Ok(Bottleneck {
            packet,
            buffer_packets: self.buffer.unwrap_or_else(|| u32::try_from(bdp).unwrap_or(u32::MAX).max(4)),
            rto_min: time("rto-min", self.rto_min)?,
            stack,
            backoff_ends: self.backoff_ends.map_or(ends, |at| ENDS[at]),
            window: self.window,
            ..Bottleneck::new(self.rate, rtt, self.flows)
        })
    }

    /// The operating point.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let link = self.link()?;
        let point = operating_point(&link)?;
        let longer: Vec<_> = STALLS_S
            .iter()
            .map(|&s| json!({ "longer_than_s": s, "share_of_flows": point.silent_longer_than(s) }))
            .collect();
        let json = json!({
            "loss": point.loss,
            "share_packets_per_rtt": point.share_packets_per_rtt,
            "class": point.class.name(),
            "buffer_packets": link.buffer_packets,
            "rtt_s": point.rtt_s,
            "queue_s": point.queue_s,
            "utilisation": point.utilisation,
            "packets_per_epoch": point.packets_per_epoch,
            "t0_epochs": point.t0_epochs,
            "timeouts_per_flow_s": point.chain.timeouts_per_epoch() / point.rtt_s,
            "silent": point.silent,
            "silences_per_flow_s": point.silences_per_s(),
            "silence_s": {
                "p50": point.silence_quantile_s(0.5),
                "p90": point.silence_quantile_s(0.9),
                "p99": point.silence_quantile_s(0.99),
            },
            "silent_longer_than": longer,
        });
        Ok(Answer { json, text: text(&link, &point), chart: chart(&link, &point)? })
    }
}

fn text(link: &Bottleneck, point: &OperatingPoint) -> String {
    let mut text = format!("{} flows on {}, packets of {} bytes\n\n", link.flows, link.rate, link.packet.0);
    let mut row = |name: &str, value: String| text += &format!("{name:42}{value}\n");
    row(
        "fair share",
        format!("{:.2} packets per round trip: {}", point.share_packets_per_rtt, point.class.name()),
    );
    row("round trip with the queue", format!("{:.3} s, of which {:.3} s queue", point.rtt_s, point.queue_s));
    row("loss", format!("{:.3}", point.loss));
    row("link used", format!("{:.1} %", 100.0 * point.utilisation));
    row("a flow sends, with what is lost", format!("{:.2} packets per round trip", point.packets_per_epoch));
    row("flows that send nothing in a round trip", format!("{:.1} %", 100.0 * point.silent));
    for s in STALLS_S {
        row(
            &format!("flows with nothing for more than {s} s"),
            format!("{:.2} %", 100.0 * point.silent_longer_than(s)),
        );
    }
    let quantiles = [0.5, 0.9, 0.99].map(|q| format!("{:.1}", point.silence_quantile_s(q)));
    row(
        "silences, p50, p90, p99",
        format!("{} s, {:.2} a minute and flow", quantiles.join(", "), 60.0 * point.silences_per_s()),
    );
    text
}

/// Loss and silence against the number of flows.
fn chart(link: &Bottleneck, here: &OperatingPoint) -> anyhow::Result<Chart> {
    let points = (0..=120)
        .map(|i| f64::from(link.flows) * 100.0_f64.powf(f64::from(i) / 120.0 - 0.5))
        .map(|flows| (flows.round() as u32).max(1));
    let mut points: Vec<u32> = points.collect();
    points.dedup();
    let points = points
        .into_iter()
        .map(|flows| Ok((f64::from(flows), operating_point(&Bottleneck { flows, ..*link })?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let line = |name: &str, value: &dyn Fn(&OperatingPoint) -> f64| {
        [
            Line { name: name.to_owned(), points: points.iter().map(|(x, p)| (*x, [value(p); 3])).collect() },
            Line { name: "here".to_owned(), points: vec![(f64::from(link.flows), [value(here); 3])] },
        ]
    };
    let panel = |title: &str, y_name: &str, lines: Vec<Line>| Panel {
        title: title.to_owned(),
        x_name: "flows".to_owned(),
        y_name: y_name.to_owned(),
        lines,
        ..Panel::default()
    };
    let longer = |s: f64| line(&format!("more than {s} s"), &move |p| p.silent_longer_than(s));
    Ok(Chart {
        title: "Operating point".to_owned(),
        subtitle: format!(
            "{}, {} s, packets of {} bytes, a buffer of {} packets",
            link.rate,
            link.rtt.as_secs_f64(),
            link.packet.0,
            link.buffer_packets
        ),
        panels: vec![
            panel("Loss", "share of packets", line("loss", &|p| p.loss).into()),
            panel("Fair share", "packets per round trip", line("share", &|p| p.share_packets_per_rtt).into()),
            panel("Flows with nothing", "share of flows", STALLS_S.iter().flat_map(|&s| longer(s)).collect()),
        ],
    })
}
