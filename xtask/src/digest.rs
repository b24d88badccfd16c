//! Whether two versions of Narrows behave alike: a fixed set of runs, and a digest of all that they write.
//!
//! Each run goes through a `narrows` program and the files of a checkout, so that this program can ask an older version
//! than itself. Scenario files are cut down to a few points and a minute ([`shorten`]); captures are made here or
//! given. A digest has a line for each table, and under it one for each column, so that a difference is told by name.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

mod compare;
mod pcap;
mod recording;
mod runs;
mod shorten;
mod table;
mod words;

/// Arguments of `xtask digest`.
#[derive(clap::Args)]
pub struct Args {
    /// The narrows program that is asked (target/release/narrows)
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// The checkout whose experiments it runs (this one)
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Write the digest there instead of to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Folder to which the program writes
    #[arg(long, value_name = "DIR", default_value = "out/digest")]
    work: PathBuf,
    /// Replay the captures (*.pcap) below this folder too
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
    /// Only runs whose name contains this, as taq/fig08 or parity
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Keep what it wrote, four gigabytes for all runs
    #[arg(long)]
    keep: bool,
    /// Print what became of each table between two digests, and end with status 1 if a value differs
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["bin", "root", "out"])]
    compare: Option<Vec<PathBuf>>,
}

/// Makes a digest, or compares two.
pub fn run(args: &Args) -> Result<()> {
    match args.compare.as_deref() {
        Some([before, after]) => compared(before, after),
        _ => digested(args),
    }
}

fn digested(args: &Args) -> Result<()> {
    let found = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
    let root = args.root.as_deref().unwrap_or_else(|| crate::peers::programs::root());
    let bin = args.bin.clone().unwrap_or_else(|| crate::peers::programs::target().join("release/narrows"));
    let bin =
        found(&bin).context("expected a narrows program: cargo build --release -p narrows-cli, or --bin")?;
    fs::create_dir_all(&args.work).with_context(|| args.work.display().to_string())?;
    let subject = runs::Subject { bin, root: found(root)?, work: found(&args.work)?, keep: args.keep };
    let captures = args.captures.as_deref().map(found).transpose()?;
    let mut tasks = runs::tasks(&subject.root, captures.as_deref())?;
    tasks.retain(|task| args.only.as_ref().is_none_or(|only| task.name.contains(only.as_str())));
    if tasks.is_empty() {
        bail!("no run has such a name");
    }
    let (begun, mut all) = (Instant::now(), runs::Found::default());
    for (n, task) in tasks.iter().enumerate() {
        let own = Instant::now();
        subject.run(task, &mut all)?;
        eprintln!("{}/{} {} {:.1} s", n + 1, tasks.len(), task.name, own.elapsed().as_secs_f64());
    }
    eprintln!(
        "{} tables of {} runs in {:.0} s; refused: {}",
        all.tables.len(),
        tasks.len(),
        begun.elapsed().as_secs_f64(),
        all.refused.len()
    );
    let mut text = String::from(
        "# table, rows, columns, hash of names, hash of values; below it each column with its hash\n",
    );
    for table in &all.tables {
        let _ = write!(text, "{}", table.text());
    }
    match &args.out {
        Some(path) => fs::write(path, text).with_context(|| path.display().to_string())?,
        None => print!("{text}"),
    }
    // Two programs that refuse the same run behave alike, and nothing was compared.
    ensure!(all.refused.is_empty(), "{} refused: {}", subject.bin.display(), all.refused.join(", "));
    Ok(())
}

fn compared(before: &Path, after: &Path) -> Result<()> {
    let read = |path: &Path| -> Result<Vec<table::Summary>> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        table::parse(&text).with_context(|| path.display().to_string())
    };
    let outcomes = compare::compare(&read(before)?, &read(after)?);
    for (name, outcome) in &outcomes {
        println!("{name}: {outcome}");
    }
    let bad = outcomes.values().filter(|o| !o.is_good()).count();
    let renamed = outcomes.values().filter(|o| matches!(o, compare::Outcome::Renamed(_))).count();
    eprintln!("{} tables: {renamed} with renamed columns, {bad} with different values", outcomes.len());
    if bad > 0 {
        std::process::exit(1);
    }
    Ok(())
}
