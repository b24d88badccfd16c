//! `narrows model`: the chains, recursions and closed forms of `narrows-models`, one file a family. Each makes an
//! [`Answer`]; how it is printed, written as JSON or drawn is here.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use narrows_models::declared::throughput::{B, RTT_S, WMAX_PACKETS};
use narrows_models::declared::yardsticks::FIRST_RTO_S;
use narrows_plot::{Chart, Line, Panel};

use super::say;
use crate::SUCCESS;
use flags::{help, unit, usual};

#[macro_use]
mod flags;
mod aimd;
mod burst;
mod function;
mod isolation;
mod latency;
mod link;
mod spreading;
mod taq;
mod throughput;

/// Arguments of `narrows model`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    model: Model,
    /// Print JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
    /// Draw the answer into this file, .svg or .png
    #[arg(long, value_name = "FILE", global = true)]
    plot: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Model {
    /// TAQ's Markov chains of a flow: epochs by packets sent, idle times, tipping point
    Taq(taq::Args),
    /// Operating point of a link: loss, share, and silence of so many flows
    Link(link::Args),
    /// Rate of a long flow that loses packets (Mathis, Padhye, TFRC)
    Throughput(throughput::Args),
    /// Expected time of a transfer and its parts (Cardwell), and what sharing a link costs (PS, SRPT)
    Latency(latency::Args),
    /// Delivery time of a short transfer: a first window as a burst, spread, or of one segment (Initial Spreading)
    Spreading(spreading::Args),
    /// Windows and transfer time of slow start and of Burst TCP on an empty path
    Burst(burst::Args),
    /// Stability and shares of flows that steer by one queue, or each by its own (class isolation)
    Isolation(isolation::Args),
    /// Efficiency, convergence and buffers of standard and adaptive AIMD
    Aimd(aimd::Args),
    /// Call a function of the models by its name, as throughput.mathis; without a name, list all
    Function(function::Args),
}

flags! {
    struct Timing {
        rtt: f64 = RTT_S [value_parser = time_s];
        rto: f64 = FIRST_RTO_S [value_parser = time_s, default_value_t = usual(&FIRST_RTO_S)];
    }
}

flags! {
    struct Segments {
        /// Payload of a packet (bytes, 1 to 65535)
        mss: u32 [value_name = "BYTES", default_value_t = 1460,
            value_parser = clap::value_parser!(u32).range(1..=65_535)];
        wmax: Option<f64> = WMAX_PACKETS;
        b: f64 = B [default_value_t = usual(&B)];
    }
}

impl Segments {
    /// Receiver's window for headings, as `, Wmax 64`; empty if no window is set.
    fn wmax_words(&self) -> String {
        self.wmax.map_or_else(String::new, |w| format!(", Wmax {w}"))
    }
}

/// Answer of a model.
struct Answer {
    /// Answer with `--json`.
    json: serde_json::Value,
    /// Answer without `--json`: lines to print.
    text: String,
    /// Chart for `--plot`.
    chart: Chart,
}

/// A time of the command line, in seconds. The model says which it can take.
fn time_s(text: &str) -> Result<f64, String> {
    let wrong = |_| "expected a time in seconds, as 0.2, or with its unit, as 200ms".to_owned();
    match text.trim().parse() {
        Ok(bare) => Ok(bare),
        Err(_) => narrows_scenario::time(text).map(narrows_units::Duration::as_secs_f64).map_err(wrong),
    }
}

/// Lines over an even axis.
fn panel(title: &str, x_name: &str, y_name: &str, lines: Vec<Line>) -> Panel {
    Panel {
        title: title.to_owned(),
        x_name: x_name.to_owned(),
        even: true,
        y_name: y_name.to_owned(),
        lines,
        ..Panel::default()
    }
}

/// Runs `narrows model`.
///
/// # Errors
/// A parameter outside its domain; a file that cannot be written.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let answer = match args.model {
        Model::Taq(args) => args.answer(),
        Model::Link(args) => args.answer(),
        Model::Throughput(args) => args.answer(),
        Model::Latency(args) => args.answer(),
        Model::Spreading(args) => args.answer(),
        Model::Burst(args) => args.answer(),
        Model::Isolation(args) => args.answer(),
        Model::Aimd(args) => args.answer(),
        Model::Function(asked) => {
            anyhow::ensure!(args.plot.is_none(), "--plot: a function has no picture; the other models have");
            asked.answer()
        }
    }?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&answer.json)?))?;
    } else {
        say(&answer.text)?;
    }
    if let Some(file) = args.plot {
        let svg = narrows_plot::chart_svg(&answer.chart);
        narrows_plot::save_as(&svg, &file).with_context(|| format!("--plot {}", file.display()))?;
    }
    Ok(SUCCESS)
}
