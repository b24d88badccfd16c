//! Performance table of docs/explanation/performance.md: costs against their bounds, from the benchmarks' own output.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

mod parts;
mod read;

/// Arguments of `xtask performance`.
#[derive(clap::Args)]
pub struct Args {
    /// Parts to measure
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "simulator,growth,cores,queue,sight,box,diagnose,plan"
    )]
    only: Vec<String>,
    /// Folder for the output of the benchmarks and the table
    #[arg(long, default_value = "out/performance")]
    out: PathBuf,
    /// Take what an earlier run wrote there, where it is
    #[arg(long)]
    keep: bool,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Measured quantity, with unit.
    what: String,
    ours: String,
    /// Name and value of the peer.
    peer: String,
    /// Our value, in multiples of the peer's.
    times: Option<f64>,
    /// Value that the bound applies to.
    value: f64,
    bound: Bound,
}

/// Bound on a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// Least value, in multiples of the peer's value.
    Times(f64),
    /// Least value.
    Least(f64),
    /// Greatest value.
    Most(f64),
    /// No bound; the value is shown only.
    None,
}

impl Bound {
    fn text(self) -> String {
        match self {
            Self::Times(x) => format!("at least {x} x"),
            Self::Least(x) => format!("at least {x}"),
            Self::Most(x) => format!("at most {x}"),
            Self::None => String::new(),
        }
    }

    fn kept(self, value: f64) -> &'static str {
        let kept = match self {
            Self::Times(x) | Self::Least(x) => value >= x,
            Self::Most(x) => value <= x,
            Self::None => return "",
        };
        if kept { "yes" } else { "no" }
    }
}

/// Runs the benchmarks, prints and writes the table.
pub fn run(args: &Args) -> Result<()> {
    for name in &args.only {
        ensure!(
            parts::PARTS.iter().any(|p| p.name == name),
            "--only: no part {name}; there are {}",
            parts::PARTS.map(|p| p.name).join(" ")
        );
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let mut rows = Vec::new();
    for part in parts::PARTS.iter().filter(|p| args.only.iter().any(|name| name == p.name)) {
        match said(part, &args.out, args.keep).and_then(|text| (part.read)(&text)) {
            Ok(more) => rows.extend(more),
            Err(error) => eprintln!("performance: {} is left out: {error:#}", part.name),
        }
    }
    let text = table(&rows);
    print!("{text}");
    let path = args.out.join("table.md");
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// Output of a part's benchmark, of now or of an earlier run.
fn said(part: &parts::Part, out: &Path, keep: bool) -> Result<String> {
    let path = out.join(format!("{}.txt", part.name));
    if keep && let Ok(text) = std::fs::read_to_string(&path) {
        return Ok(text);
    }
    eprintln!("performance: {}, {}", part.name, part.takes);
    let text = (part.run)(out)?;
    std::fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    Ok(text)
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from("| what | ours | peer | times | bound | kept |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let times = row.times.map_or_else(String::new, |x| format!("{x:.2}"));
        let (bound, kept) = (row.bound.text(), row.bound.kept(row.value));
        // Writing to a String cannot fail.
        _ = writeln!(text, "| {} | {} | {} | {times} | {bound} | {kept} |", row.what, row.ours, row.peer);
    }
    text
}
