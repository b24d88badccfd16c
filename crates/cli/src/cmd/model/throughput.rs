//! `narrows model throughput`.

use narrows_models::throughput::mathis;
use narrows_plot::{Chart, Line, Panel};
use serde_json::json;

use super::Answer;

/// Arguments of `narrows model throughput`.
#[derive(clap::Args)]
pub struct Args {
    /// Loss probability of a packet
    #[arg(long)]
    loss: f64,
    /// Segments acknowledged by one ACK: 1, or 2 with delayed ACKs
    #[arg(long, default_value_t = 1.0)]
    b: f64,
}

impl Args {
    /// The mean window.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let window = mathis(self.loss, self.b)?;
        let curve = (1..=100).filter_map(|i| {
            let loss = f64::from(i) / 200.0;
            mathis(loss, self.b).ok().map(|w| (loss, [w; 3]))
        });
        let line = Line { name: "Mathis".to_owned(), points: curve.collect() };
        let panel = Panel {
            x_name: "loss".to_owned(),
            y_name: "packets per RTT".to_owned(),
            lines: vec![line],
            ..Panel::default()
        };
        Ok(Answer {
            json: json!({ "loss": self.loss, "mathis": window }),
            text: format!("Mathis  {window:.3} packets per RTT\n"),
            chart: Chart {
                title: "Throughput of a long flow".to_owned(),
                panels: vec![panel],
                ..Chart::default()
            },
        })
    }
}
