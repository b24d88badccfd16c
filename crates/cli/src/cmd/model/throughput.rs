//! `narrows model throughput`.

use std::fmt::Write;

use narrows_models::Result;
use narrows_models::declared::throughput::LOSS;
use narrows_models::throughput::{LongFlow, mathis, padhye, padhye_approximate, padhye_throughput, tfrc};
use narrows_plot::{Chart, Line, Panel};
use serde_json::{Value, json};

use super::{Answer, Segments, Timing};

flags! {
    /// Arguments of `narrows model throughput`.
    pub struct Args {
        loss: f64 = LOSS;
        @timing: Timing;
        @segments: Segments;
    }
}

/// Packets per second of one formula.
type Formula = fn(&LongFlow) -> Result<f64>;

/// The formulas: the name in JSON, in words, and packets per second.
const FORMULAS: [(&str, &str, Formula); 5] = [
    ("mathis", "Mathis", |f| Ok(mathis(f.loss, f.b)? / f.rtt_s)),
    ("padhye", "Padhye, sent", padhye),
    ("padhye_throughput", "Padhye, delivered", padhye_throughput),
    ("padhye_approximate", "Padhye, short form", padhye_approximate),
    // As RFC 5348 recommends, whatever the receiver's ACKs.
    ("tfrc", "TFRC", |f| tfrc(f.loss, f.rtt_s, 1.0)),
];

impl Args {
    /// Each formula's rate.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let flow = self.flow(self.loss);
        // First the full model, which says of every quantity when it is outside its domain.
        padhye(&flow)?;
        let mut json = json!({
            "loss": self.loss, "rtt_s": self.timing.rtt, "rto_s": self.timing.rto, "mss_bytes": self.segments.mss,
            "wmax_packets": self.segments.wmax, "b": self.segments.b,
        });
        let mut text = self.heading();
        writeln!(text, "\n\n{:<20}{:>16}{:>12}{:>14}", "", "packets per RTT", "packets/s", "kbit/s")?;
        for (key, words, formula) in FORMULAS {
            let rate = if self.loss == 0.0 && ["mathis", "tfrc"].contains(&key) {
                None
            } else {
                Some(formula(&flow)?)
            };
            let (window, bits) =
                (rate.map(|r| r * self.timing.rtt), rate.map(|r| r * f64::from(self.segments.mss) * 8.0));
            json[key] = rate.map_or(Value::Null, |rate| {
                json!({ "packets_per_rtt": window, "packets_per_second": rate, "bits_per_second": bits })
            });
            let cell = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.3}"));
            let kbit = cell(bits.map(|b| b / 1e3));
            writeln!(text, "{words:<20}{:>16}{:>12}{kbit:>14}", cell(window), cell(rate))?;
        }
        Ok(Answer { json, text, chart: self.chart() })
    }

    fn flow(&self, loss: f64) -> LongFlow {
        LongFlow {
            loss,
            rtt_s: self.timing.rtt,
            rto_s: self.timing.rto,
            b: self.segments.b,
            wmax_packets: self.segments.wmax,
        }
    }

    fn heading(&self) -> String {
        let Self { loss, timing: Timing { rtt, rto }, segments: Segments { mss, b, .. } } = self;
        let wmax = self.segments.wmax_words();
        format!("Loss {loss}, RTT {rtt} s, RTO {rto} s, b {b}{wmax}, packets of {mss} B")
    }

    /// All formulas against loss, with the loss asked for as a line across.
    fn chart(&self) -> Chart {
        let lines = FORMULAS.iter().map(|(_, words, formula)| {
            // 0.001 to 0.5.
            let losses = (0..=120).map(|i| 1e-3 * 500_f64.powf(f64::from(i) / 120.0));
            let points = losses
                .filter_map(|p| Some((p, [formula(&self.flow(p)).ok()? * self.timing.rtt; 3])))
                .collect();
            Line { name: (*words).to_owned(), points }
        });
        let mut lines: Vec<Line> = lines.collect();
        let asked = padhye(&self.flow(self.loss)).map_or(f64::NAN, |rate| rate * self.timing.rtt);
        lines.push(Line {
            name: format!("loss {}", self.loss),
            points: vec![(self.loss, [asked / 4.0, asked, asked * 4.0])],
        });
        let panel = Panel {
            title: "A long flow".to_owned(),
            x_name: "loss".to_owned(),
            y_name: "packets per RTT".to_owned(),
            log: true,
            lines,
            ..Panel::default()
        };
        Chart { title: "Throughput of a long flow".to_owned(), subtitle: self.heading(), panels: vec![panel] }
    }
}
