//! `narrows replay`: a recorded capture through a discipline, or through several side by side.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use narrows_diagnose::files::Inputs;
use narrows_qdisc::{Direction, Event, Framing, Reason, ShaperConfig, Side, Spec};
use narrows_sim::replay::{Arrival, Prefix, ReplayDirection, ReplayLink, ReplayReport, direction, replay};
use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_wire::capture::Writer;
use serde_json::{Value, json};

use crate::SUCCESS;

/// Arguments of `narrows replay`.
#[derive(clap::Args)]
pub struct Args {
    /// Recording in pcap or pcapng, also in gzip, zstd or lz4; - for standard input
    capture: PathBuf,
    /// Rate of the link to the users, as 600kbit
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Rate of the link from the users, as 600kbit; without it that direction is not queued
    #[arg(long, value_name = "RATE", requires = "local")]
    up: Option<Rate>,
    /// Discipline, as taq, taq:mode=paper or fifo:30; repeatable
    #[arg(long, value_name = "SPEC", default_value = "taq")]
    discipline: Vec<Spec>,
    /// Addresses of the users, as 10.0.0.0/8; repeatable. Without any, all packets go to the users
    #[arg(long, value_name = "PREFIX")]
    local: Vec<Prefix>,
    /// Bytes the link adds to each IP packet: 14 for Ethernet, 18 for cable (DOCSIS), 30 for VDSL with PPPoE
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    overhead: u32,
    /// Least bytes that a packet counts with its overhead: 64 for a cable modem (DOCSIS)
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    mpu: u32,
    /// Cells or blocks of the link layer: none, atm (ADSL) or ptm (VDSL)
    #[arg(long, value_name = "KIND", default_value = "none")]
    framing: Framing,
    /// Seed of hashes and tie-breaks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for captures of what left the box under each discipline, and for all figures as JSON
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print all figures as JSON, each flow's included, instead of the table
    #[arg(long)]
    json: bool,
}

impl Args {
    fn lane(&self, direction: Direction, rate: Option<Rate>, discipline: &Spec) -> ReplayLink {
        let Some(rate) = rate else { return ReplayLink::OPEN };
        // Without --local nobody has told which side the users are on.
        let users = match direction {
            _ if self.local.is_empty() => Side::Opener,
            Direction::Down => Side::Destination,
            Direction::Up => Side::Source,
        };
        let (overhead, mpu, framing) = (self.overhead, self.mpu, self.framing);
        let link = ShaperConfig { overhead, mpu, framing, users, ..ShaperConfig::new(rate) };
        // A full packet is one of 1500 bytes, as on the live box with an interface of that size.
        let mtu = link.mtu.max(Bytes(1500 + u64::from(overhead)));
        ReplayLink { link: Some(ShaperConfig { mtu, ..link }), discipline: discipline.clone() }
    }

    /// A file in the directory for results, named after the recording.
    fn file(&self, dir: &Path, ending: &str) -> PathBuf {
        let stem = self.capture.file_stem().unwrap_or_default().to_string_lossy();
        dir.join(format!("{stem}{ending}"))
    }
}

/// The recording as arrivals. One that cannot be read to its end, as those of a program that was killed, ends there.
struct Recording<'a> {
    inputs: Inputs,
    local: &'a [Prefix],
    /// Packets between two users, or between two others.
    elsewhere: u64,
    used: u64,
}

impl<'a> Recording<'a> {
    fn open(path: &Path, local: &'a [Prefix]) -> anyhow::Result<Self> {
        let inputs = Inputs::open_as_on_the_link(&[path.to_owned()])?;
        Ok(Self { inputs, local, elsewhere: 0, used: 0 })
    }
}

impl Iterator for Recording<'_> {
    type Item = anyhow::Result<Arrival>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let captured = self.inputs.next()?;
            if let Some(direction) = direction(self.local, &captured.header.key) {
                self.used += 1;
                return Some(Ok(Arrival { at: captured.at, direction, header: captured.header }));
            }
            self.elsewhere += 1;
        }
    }
}

/// Replay under one discipline.
struct Outcome {
    discipline: String,
    report: ReplayReport,
    /// Remarks about the recording for readers of the report.
    remarks: Vec<String>,
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let mut outcomes = Vec::new();
    for discipline in &args.discipline {
        outcomes.push(one(&args, discipline)?);
    }
    let all = to_json(&args, &outcomes);
    if let Some(dir) = &args.out {
        let path = args.file(dir, ".json");
        std::fs::write(&path, format!("{all:#}\n")).with_context(|| path.display().to_string())?;
    }
    if args.json {
        println!("{all:#}");
    } else {
        print!("{}", table(&outcomes));
    }
    // All outcomes have the remarks of the one file they read: the first tells them.
    for line in outcomes.first().map(|o| &o.remarks[..]).unwrap_or_default() {
        eprintln!("{line}");
    }
    Ok(SUCCESS)
}

fn one(args: &Args, discipline: &Spec) -> anyhow::Result<Outcome> {
    let name = || args.capture.display().to_string();
    let mut recording = Recording::open(&args.capture, &args.local)?;
    let text = discipline.to_string();
    let mut out = None;
    if let Some(dir) = &args.out {
        let safe = text.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path = args.file(dir, &format!("-{safe}.pcap"));
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        out = Some((Writer::new(BufWriter::new(file))?, path));
    }
    let down = args.lane(Direction::Down, Some(args.rate), discipline);
    let up = args.lane(Direction::Up, args.up, discipline);
    let report = replay(&mut recording, &down, &up, args.seed, |now, event| {
        if let (Some((writer, path)), Event::Send(_, packet)) = (&mut out, event) {
            writer.write(now, &packet.header).with_context(|| path.display().to_string())?;
        }
        Ok(())
    })
    .with_context(name)?;
    if let Some((mut writer, path)) = out {
        writer.flush().with_context(|| path.display().to_string())?;
    }
    let mut remarks = recording.inputs.remarks();
    if recording.elsewhere > 0 {
        let n = recording.elsewhere;
        remarks
            .push(format!("{}: {n} packets not between a local address and another were left out", name()));
    }
    ensure!(
        recording.used > 0,
        "{}: no packet to replay: {} between other addresses than --local says; {}{}",
        name(),
        recording.elsewhere,
        recording.inputs.instead(),
        remarks.iter().map(|line| format!("\n{line}")).collect::<String>()
    );
    Ok(Outcome { discipline: text, report, remarks })
}

/// A rate over a span, in kbit/s; of IP bytes.
fn kbps(bytes: u64, span: Instant) -> String {
    let bits = u128::from(bytes) * 8_000_000;
    bits.checked_div(span.as_nanos().into()).map_or("-".to_owned(), |kbps| format!("{kbps} kbit/s"))
}

fn milliseconds(d: Option<Duration>) -> String {
    d.map_or("-".to_owned(), |d| format!("{:.1} ms", d.as_nanos() as f64 / 1e6))
}

fn share(n: u64, of: u64) -> String {
    if n == 0 || of == 0 {
        return n.to_string();
    }
    format!("{n} ({:.1} %)", n as f64 * 100.0 / of as f64)
}

/// The rows of one direction: label and value.
fn direction_rows(way: &str, d: &ReplayDirection, r: &ReplayReport) -> Vec<(String, String)> {
    let c = &d.counts;
    let mut rows = vec![
        (format!("{way}: packets"), c.arrived.to_string()),
        (format!("{way}: offered"), kbps(c.arrived_bytes, r.last_arrival)),
        (format!("{way}: carried"), kbps(c.sent_bytes, r.last_departure)),
        (format!("{way}: dropped"), share(c.dropped_total(), c.arrived)),
    ];
    for (reason, n) in Reason::ALL.iter().zip(c.dropped) {
        rows.push((format!("{way}:   {}", reason.name().replace('_', " ")), n.to_string()));
    }
    for (label, n) in [("copies discarded", c.suppressed), ("SYNs refused", c.refused), ("marked", c.marked)]
    {
        rows.push((format!("{way}: {label}"), n.to_string()));
    }
    for (label, per_mille) in [("p50", 500), ("p90", 900), ("p99", 990), ("max", 1000)] {
        rows.push((format!("{way}: waited {label}"), milliseconds(d.sojourn(per_mille))));
    }
    rows
}

/// A row a number, a column a discipline. Rows that are zero or empty in all columns are left out.
fn table(outcomes: &[Outcome]) -> String {
    let column = |o: &Outcome| {
        let mut rows = direction_rows("down", &o.report.down, &o.report);
        rows.extend(direction_rows("up", &o.report.up, &o.report));
        let hit = o.report.flows.values().filter(|c| c.dropped_total() > 0).count() as u64;
        rows.push(("flows, each way".to_owned(), o.report.flows.len().to_string()));
        rows.push(("flows with a drop".to_owned(), share(hit, o.report.flows.len() as u64)));
        rows
    };
    let columns: Vec<_> = outcomes.iter().map(column).collect();
    let mut lines = vec![vec![String::new()]];
    lines[0].extend(outcomes.iter().map(|o| o.discipline.clone()));
    for n in 0..columns.first().map_or(0, Vec::len) {
        let cells: Vec<String> = columns.iter().map(|c| c[n].1.clone()).collect();
        if cells.iter().any(|c| !matches!(c.as_str(), "0" | "-" | "0 kbit/s" | "0.0 ms")) {
            lines.push(std::iter::once(columns[0][n].0.clone()).chain(cells).collect());
        }
    }
    let widths: Vec<usize> =
        (0..=outcomes.len()).map(|i| lines.iter().map(|l| l[i].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let _ = write!(text, "{:<w$}", line[0], w = widths[0]);
        for (cell, w) in line[1..].iter().zip(&widths[1..]) {
            let _ = write!(text, "  {cell:>w$}");
        }
        text.push('\n');
    }
    text
}

fn counts_json(c: &narrows_sim::replay::PacketCounts) -> Value {
    let mut reasons = serde_json::Map::new();
    for (reason, n) in Reason::ALL.iter().zip(c.dropped) {
        reasons.insert(reason.name().to_owned(), n.into());
    }
    json!({
        "arrived": c.arrived,
        "arrived_bytes": c.arrived_bytes,
        "sent": c.sent,
        "sent_bytes": c.sent_bytes,
        "dropped": reasons,
        "suppressed": c.suppressed,
        "refused": c.refused,
        "marked": c.marked,
        "waited_max_s": c.longest.as_secs_f64(),
    })
}

fn direction_json(d: &ReplayDirection) -> Value {
    let mut all = counts_json(&d.counts);
    for (name, per_mille) in [("waited_p50_s", 500), ("waited_p90_s", 900), ("waited_p99_s", 990)] {
        all[name] = d.sojourn(per_mille).map(Duration::as_secs_f64).into();
    }
    all
}

fn to_json(args: &Args, outcomes: &[Outcome]) -> Value {
    let replays: Vec<Value> = outcomes
        .iter()
        .map(|o| {
            let flows: Vec<Value> = o
                .report
                .flows
                .iter()
                .map(|(key, counts)| {
                    let mut flow = counts_json(counts);
                    flow["flow"] = key.to_string().into();
                    flow
                })
                .collect();
            json!({
                "discipline": o.discipline,
                "last_arrival_s": o.report.last_arrival.as_secs_f64(),
                "last_departure_s": o.report.last_departure.as_secs_f64(),
                "down": direction_json(&o.report.down),
                "up": direction_json(&o.report.up),
                "flows": flows,
                "remarks": o.remarks,
            })
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "command": std::env::args().collect::<Vec<_>>().join(" "),
        "capture": args.capture.display().to_string(),
        "rate_bps": args.rate.as_bps(),
        "up_bps": args.up.map(Rate::as_bps),
        "overhead_bytes": args.overhead,
        "mpu_bytes": args.mpu,
        "seed": args.seed,
        "replays": replays,
    })
}
