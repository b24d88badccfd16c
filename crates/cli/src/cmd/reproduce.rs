//! `narrows reproduce`: the papers' figures, run again, drawn and judged.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use narrows_reproduce::{Cache, Catalogue, Effort, Figure, Judged, Paper, Section, Work, gallery, pages};
use narrows_runner::{Error, RunOptions};
use narrows_scenario::Reading;

use super::say;
use super::sim::explain;
use super::sim::{INTERRUPTED, cores, run, stop_on_signal};
use crate::{FAILURE, SUCCESS};

/// Arguments of `narrows reproduce`.
#[derive(clap::Args)]
pub struct Args {
    /// Figure as taq/fig08, a paper as taq, or all; without any, print the list of all
    what: Vec<String>,
    /// Run fewer seeds and shorter; all papers in full take eleven minutes of two cores
    #[arg(long)]
    quick: bool,
    /// Run a few seconds of work, too short to judge by, for tests
    #[arg(long, hide = true, conflicts_with = "quick")]
    least: bool,
    /// List all figures with their rows, runs and time
    #[arg(long)]
    list: bool,
    /// Folder for pages, data and runs
    #[arg(long, value_name = "DIR", default_value = "out/reproduce")]
    out: PathBuf,
    /// Draw the key figures as SVG into DIR, with a page DIR.md
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    gallery: Option<PathBuf>,
    /// Folder of the papers' scenarios
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    experiments: PathBuf,
    /// Number of runs at a time (as many as there are cores)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Repeat runs that earlier calls have finished
    #[arg(long)]
    fresh: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    /// End with status 1 if a claim comes out worse than its file expects
    #[arg(long)]
    strict: bool,
}

impl Args {
    fn size(&self) -> Effort {
        match (self.quick, self.least) {
            (true, _) => Effort::Quick,
            (_, true) => Effort::Least,
            _ => Effort::Full,
        }
    }

    fn jobs(&self) -> usize {
        self.jobs.map_or_else(cores, usize::from)
    }
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let catalogue = Catalogue::load(&args.experiments)?;
    let all = ["all".to_owned()];
    let asked = if args.what.is_empty() { &all[..] } else { &args.what };
    let mut works = Vec::new();
    let chosen = catalogue.select(asked)?;
    for (paper, figures) in &chosen {
        for &figure in figures {
            works.push(Work::new(paper, figure, args.size())?);
        }
    }
    if args.list || args.what.is_empty() {
        list(&chosen, &works, &args)?;
        return Ok(SUCCESS);
    }
    let stop = stop_on_signal()?;
    let cache = Cache::new(&args.out);
    let (mut good, mut failed) = (true, Vec::new());
    for (at, work) in works.iter().enumerate() {
        let name = format!("{}/{}", work.paper.id, work.figure.id);
        if !args.quiet {
            eprintln!("[{} of {}] {name}: {}", at + 1, works.len(), work.figure.title);
        }
        match make(work, &args, &stop) {
            Ok(section) => {
                good &= section.claims.iter().all(|c| !worse(c, args.size()));
                say(&format!("{name:28} {}\n", scored(&section)))?;
                failed.extend(section.undrawn.iter().map(|why| format!("{name}: not drawn: {why}")));
            }
            Err(e) if matches!(e.downcast_ref(), Some(Error::Stopped { .. })) => {
                // An interrupted run gets a page of the claims done so far.
                pages::write(&catalogue, &args.out, &cache)?;
                let same = if args.fresh { "the same command without --fresh" } else { "the same command" };
                eprintln!("{name}: {e}; {same} goes on from here");
                return Ok(INTERRUPTED);
            }
            // No reason to keep the others from being made.
            Err(e) => {
                eprintln!("{name}: {e:#}");
                failed.push(format!("{name}: {e:#}"));
            }
        }
        pages::write(&catalogue, &args.out, &cache)?;
    }
    if let Some(folder) = args.gallery.as_ref().filter(|_| failed.is_empty()) {
        gallery::write(&chosen, &cache, folder)?;
    }
    say(&format!("{}\n", args.out.join("index.html").display()))?;
    if !failed.is_empty() {
        bail!("{} of {} figures are not whole:\n{}", failed.len(), works.len(), failed.join("\n"));
    }
    Ok(if good || !args.strict { SUCCESS } else { FAILURE })
}

/// Counts of the paper's sentences that hold, of other readings of them, and of our own bounds.
fn scored(section: &Section) -> String {
    let [paper, variants, ours] = Reading::ALL.map(|r| pages::Score::of_reading(&section.claims, r));
    let apart = [("of other readings", variants), ("of our own bounds", ours)];
    let apart = apart.iter().filter(|(_, score)| *score != pages::Score::default());
    apart.fold(paper.words(), |told, (what, score)| format!("{told}; {what} {}", score.words()))
}

fn make(work: &Work<'_>, args: &Args, stop: &AtomicBool) -> anyhow::Result<Section> {
    work.make(&args.out, &mut |plan, out| {
        run(plan, &RunOptions { out, jobs: args.jobs(), fresh: args.fresh }, stop, args.quiet)
    })
}

/// Whether a claim came out worse than its file says; of a whole figure each must be judged.
fn worse(claim: &Judged, size: Effort) -> bool {
    let rank = |word: &str| ["fails", "direction", "holds"].iter().position(|w| *w == word);
    match (rank(&claim.outcome), rank(&claim.expected)) {
        (Some(outcome), Some(expected)) => outcome < expected,
        _ => size == Effort::Full,
    }
}

fn list(chosen: &[(&Paper, Vec<&Figure>)], works: &[Work<'_>], args: &Args) -> anyhow::Result<()> {
    let (mut text, mut total) = (String::new(), 0.0);
    for work in works {
        let runs: usize = work.plans.iter().map(|(_, p)| p.jobs.len()).sum();
        let seconds: f64 = work.plans.iter().map(|(_, p)| explain::expected_s(p, args.jobs())).sum();
        total += seconds;
        text += &format!(
            "{:28} {:16} {runs:5} runs, {:12} {}: {}\n",
            format!("{}/{}", work.paper.id, work.figure.id),
            work.figure.rows.join(" "),
            explain::how_long(seconds),
            work.figure.item,
            work.figure.title,
        );
    }
    if works.is_empty() {
        bail!("nothing to list");
    }
    // Rows that no figure simulates, of papers that are listed whole.
    for (paper, _) in chosen.iter().filter(|(paper, figures)| figures.len() == paper.figures.len()) {
        for other in &paper.elsewhere {
            let told = if other.verdict.is_empty() { "not run" } else { "judged elsewhere" };
            text += &format!("{:28} {:16} {told}: {}\n", paper.id, other.rows.join(" "), other.why);
        }
    }
    text += &format!(
        "in all {} with {} runs at a time, as estimated; docs/how-to/reproduce.md has what it took\n",
        explain::how_long(total),
        args.jobs()
    );
    say(&text).context("writing the list")
}
