//! `narrows diagnose`: who stalls in a capture or on an interface, and why.

use std::io;
use std::path::PathBuf;
#[cfg(feature = "research")]
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail, ensure};
use narrows_diagnose::files::{Inputs, ReadAhead};
use narrows_diagnose::{
    Analyzer, AnalyzerLimits, FlowReport, Overall, QuicAnalyzer, flow_page, page, quic_page, why_page,
};
use narrows_units::{Duration, Instant};
use narrows_wire::Header;

mod decisions;
// Pictures and Parquet come with what draws and writes them for the simulator.
#[cfg_attr(not(feature = "research"), path = "diagnose/no_extras.rs")]
mod extras;
mod json;
mod live;
mod qlog;

use extras::Extras;
#[cfg(feature = "research")]
pub use extras::columns;
use json::Stream;
pub use qlog::Logs;

use crate::{FAILURE, SUCCESS};

/// Arguments of `narrows diagnose`.
#[derive(clap::Args)]
pub struct Args {
    /// Captures in pcap or pcapng, also in gzip, zstd or lz4; - for standard input; several are merged by time. Or
    /// files of decisions, which narrows run --decisions writes, and narrows sim with probes.decisions
    #[arg(required_unless_present = "live")]
    captures: Vec<PathBuf>,
    /// Listen on an interface, until Ctrl-C
    #[arg(long, value_name = "INTERFACE", conflicts_with = "captures")]
    live: Option<String>,
    /// Time to listen, as 30s or 5min; without it until Ctrl-C
    #[arg(long = "for", value_name = "TIME", requires = "live", value_parser = time)]
    duration: Option<Duration>,
    /// Time between two reports while listening
    #[arg(long, value_name = "TIME", requires = "live", value_parser = time, default_value = "5s")]
    every: Duration,
    /// Length in seconds from which a stall counts as long; one such stall makes the exit status 1
    #[arg(long, value_name = "SECONDS", value_parser = length_s, default_value_t = 5.0)]
    over: f64,
    /// Number of connections to show, the worst first
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: usize,
    /// Show one connection alone, by its number, with all its stalls
    #[arg(long, value_name = "NUMBER")]
    flow: Option<u64>,
    /// Print the evidence about one frame, by its number in Wireshark, and the rule that decided its verdict
    #[arg(long, value_name = "FRAME", conflicts_with = "live")]
    why: Option<u64>,
    /// Read a sender's own log of its QUIC connections, in qlog (JSON or JSON-SEQ), and judge by it; can be repeated
    #[arg(long, value_name = "FILE")]
    qlog: Vec<PathBuf>,
    /// Print all findings as JSON: each connection with its stalls
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    extras: extras::Args,
}

/// Reads a length in seconds.
fn length_s(text: &str) -> Result<f64, String> {
    let length = text.parse().ok().filter(|s: &f64| (0.0..1e9).contains(s));
    length.ok_or_else(|| "expected a number of seconds, as 5 or 0.5".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    let seconds =
        text.strip_suffix("min").map(|n| (n, 60.0)).or_else(|| text.strip_suffix('s').map(|n| (n, 1.0)));
    let seconds = seconds.and_then(|(n, unit)| Some(n.parse::<f64>().ok()? * unit));
    match seconds {
        Some(s) if s > 0.0 && s < 1e9 => Ok(Duration::from_nanos((s * 1e9) as u64)),
        _ => Err("expected a time, as 30s or 5min".into()),
    }
}

/// Writer of the findings: page, JSON, pictures and tables, as the flags ask.
struct Output<'a> {
    args: &'a Args,
    name: String,
    overall: Overall,
    quic: QuicAnalyzer,
    logs: Logs,
    /// Nanoseconds from 1970 to the beginning.
    origin: Option<i128>,
    json: Option<Stream<io::StdoutLock<'static>>>,
    /// The connection that was asked for.
    only: Option<FlowReport>,
    /// Text about the frame that was asked for.
    why: String,
    extras: Extras,
}

impl<'a> Output<'a> {
    fn new(args: &'a Args, captures: &[String], origin: Option<i128>) -> anyhow::Result<Self> {
        let over = Duration::from_nanos((args.over * 1e9) as u64);
        Ok(Self {
            args,
            name: captures.join(", "),
            overall: Overall::new(over, args.worst),
            quic: QuicAnalyzer::default(),
            logs: Logs::read(&args.qlog).context("--qlog")?,
            origin,
            extras: Extras::new(&args.extras, args.flow)?,
            json: args.json.then(|| Stream::new(io::stdout().lock(), captures, origin)),
            only: None,
            why: String::new(),
        })
    }

    /// Takes a packet, and the number of the packet's connection; `None` if the packet is not TCP.
    fn packet(&mut self, number: Option<u64>, at: Instant, frame: u64, header: &Header) {
        self.quic.packet(at, frame, header);
        self.extras.packet(number, at, frame, header);
    }

    fn flow(&mut self, flow: FlowReport) {
        if self.args.flow.is_some_and(|only| only != flow.number) {
            return;
        }
        self.extras.flow(&flow);
        if let Some(frame) = self.args.why {
            self.why += &why_page(frame, &flow);
        }
        if let Some(json) = &mut self.json {
            json.flow(&flow);
        }
        if self.args.flow.is_some() {
            self.only = Some(flow.clone());
        }
        self.overall.add(flow);
    }

    /// Ends the analysis of `begun` connections, with `instead` as the sentence where there are none; returns whether
    /// any of them stood still for long.
    fn finish(mut self, begun: u64, remarks: &[String], instead: &str) -> anyhow::Result<bool> {
        self.overall.finish();
        let Self { args, name, overall, quic, logs, origin, json, only, why, extras } = self;
        let (quic, told) = if args.flow.is_none() { logs.judge(quic, origin) } else { Default::default() };
        let remarks = &[remarks, &told].concat();
        if begun == 0 && quic.is_empty() {
            let remarks: String = remarks.iter().map(|line| format!("\n{line}")).collect();
            bail!("{name}: no packet of TCP in it, and no opening of QUIC: {instead}{remarks}");
        }
        if let (Some(number), None) = (args.flow, &only) {
            bail!("--flow {number}: {name} has connections 0 to {}", begun.saturating_sub(1));
        }
        if let Some(frame) = args.why {
            ensure!(
                !why.is_empty(),
                "--why {frame}: nothing was said of that frame of {name}; it repairs nothing, and bounds no stall. \
                 Frames that do are those of --flow NUMBER and --json"
            );
        }
        let said = match extras.finish(&name, &overall, only.as_ref()) {
            Ok(said) => said,
            // Connections were written already: what is wrong follows them, and the JSON is whole.
            Err(error) => {
                let why = [("error", serde_json::Value::from(format!("{error:#}")))];
                return match json {
                    Some(json) => json.finish(&overall, &quic, remarks, &why).and(Err(error)),
                    None => Err(error),
                };
            }
        };
        match (json, &only) {
            (Some(json), _) => json.finish(&overall, &quic, remarks, &said.json)?,
            (None, _) if args.why.is_some() => crate::say(&why).context("standard output")?,
            (None, Some(flow)) => crate::say(&flow_page(&name, flow)).context("standard output")?,
            (None, None) => {
                let text = page(&name, &overall) + &quic_page(&quic, args.worst) + &said.text;
                crate::say(&text).context("standard output")?;
            }
        }
        let quiet = args.json;
        for line in remarks.iter().filter(|_| !quiet).chain(&said.remarks) {
            eprintln!("{line}");
        }
        let long = quic
            .iter()
            .flat_map(|f| &f.stalls)
            .any(|s| s.cause.is_loss_or_silence() && s.length().as_secs_f64() > args.over);
        if let Some(last) = said.last {
            last()?;
        }
        Ok(long || overall.stalled_over > 0)
    }
}

/// Runs the command. Status 0: no connection stood still for long; 1: some did; 2: nothing could be read.
pub fn main(args: &Args) -> anyhow::Result<u8> {
    ensure!(args.over.is_finite() && args.over >= 0.0, "--over {}: expected seconds, as 5 or 0.5", args.over);
    if let Some(files) = decisions::files(&args.captures)? {
        return decisions::tell(args, &files);
    }
    let long = match &args.live {
        Some(interface) => live::listen(args, interface)?,
        None => read(args)?,
    };
    Ok(if long { FAILURE } else { SUCCESS })
}

/// Answers `--what-if` about captures as JSON; a stall is long above `over` seconds.
///
/// # Errors
/// A file that cannot be read, or to which nothing can be fitted; a discipline, rate or size that is none.
#[cfg(feature = "research")]
pub fn what_if(
    captures: &[PathBuf],
    asked: &WhatIfQuestion<'_>,
    over: f64,
) -> anyhow::Result<serde_json::Value> {
    use extras::what_if::{Args, WhatIf};
    let named =
        |what: &str, text: &str, why: &dyn core::fmt::Display| anyhow::anyhow!("{what} {text}: {why}");
    let mut args = Args { what_if_scenario: asked.scenario.map(PathBuf::from), ..Args::default() };
    for text in asked.disciplines {
        args.what_if.push(text.parse().map_err(|why| named("discipline", text, &why))?);
    }
    if let Some(text) = asked.rate {
        args.rate = Some(text.parse().map_err(|why| named("rate", text, &why))?);
    }
    if let Some(text) = asked.buffer {
        args.buffer = Some(text.parse().map_err(|why: String| named("buffer", text, &why))?);
    }
    let Some(mut what_if) = WhatIf::new(&args)? else { bail!("expected a discipline, as taq") };
    let mut packets = ReadAhead::new(Inputs::open(captures)?);
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    while let Some(packet) = packets.next() {
        let number = analyzer.packet(packet.at, packet.frame, &packet.header);
        what_if.packet(number, packet.at, &packet.header);
        analyzer.finished().for_each(|flow| what_if.flow(&flow));
    }
    analyzer.finish();
    analyzer.finished().for_each(|flow| what_if.flow(&flow));
    let names: Vec<String> = captures.iter().map(|p| p.display().to_string()).collect();
    Ok(what_if.finish(&names.join(", "), over, &AtomicBool::new(false))?.json)
}

/// Question to [`what_if`], as on the command line.
#[cfg(feature = "research")]
#[derive(Clone, Copy, Debug, Default)]
pub struct WhatIfQuestion<'a> {
    /// Disciplines to compare; at least one.
    pub disciplines: &'a [String],
    /// Rate of the thin link, as `2mbit`.
    pub rate: Option<&'a str>,
    /// Size of the thin link's queue: packets, or a time.
    pub buffer: Option<&'a str>,
    /// File for the fitted scenario.
    pub scenario: Option<&'a std::path::Path>,
}

fn read(args: &Args) -> anyhow::Result<bool> {
    let inputs = Inputs::open(&args.captures)?;
    let captures: Vec<String> = args.captures.iter().map(|p| p.display().to_string()).collect();
    let mut output = Output::new(args, &captures, inputs.origin)?;
    let mut packets = ReadAhead::new(inputs);
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    args.why.into_iter().for_each(|frame| analyzer.ask_why(frame));
    while let Some(packet) = packets.next() {
        let number = analyzer.packet(packet.at, packet.frame, &packet.header);
        output.packet(number, packet.at, packet.frame, &packet.header);
        analyzer.finished().for_each(|flow| output.flow(flow));
    }
    analyzer.finish();
    analyzer.finished().for_each(|flow| output.flow(flow));
    let inputs = packets.finish();
    output.finish(analyzer.begun(), &inputs.remarks(), &inputs.instead())
}
