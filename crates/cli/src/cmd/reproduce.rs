//! `narrows reproduce`: the papers' figures, run again, drawn and judged.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use narrows_reproduce::{Catalogue, Figure, Paper, Section, Size, Work, gallery, pages};
use narrows_runner::{Error, Options};

use super::sim::{INTERRUPTED, cores, run, stop_on_signal};
use super::{say, sim_explain};

/// Arguments of `narrows reproduce`.
#[derive(clap::Args)]
pub struct Args {
    /// A figure as taq/fig08, a paper as taq, or all
    #[arg(required_unless_present = "list")]
    what: Vec<String>,
    /// Fewer seeds and shorter runs: all papers in 20 minutes of two cores
    #[arg(long)]
    quick: bool,
    /// A few seconds of work, too short to judge by: what tests run
    #[arg(long, hide = true, conflicts_with = "quick")]
    least: bool,
    /// List all figures with their rows, runs and time
    #[arg(long)]
    list: bool,
    /// Where pages, data and runs go
    #[arg(long, value_name = "DIR", default_value = "out/reproduce")]
    out: PathBuf,
    /// Draw those figures that show most as SVG into DIR, with a page DIR.md
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    gallery: Option<PathBuf>,
    /// Where the papers' scenarios lie
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    experiments: PathBuf,
    /// Runs at a time (as many as there are cores)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Run again what is finished
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
    fn size(&self) -> Size {
        match (self.quick, self.least) {
            (true, _) => Size::Quick,
            (_, true) => Size::Least,
            _ => Size::Full,
        }
    }

    fn jobs(&self) -> usize {
        self.jobs.map_or_else(cores, usize::from)
    }
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
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
    if args.list {
        list(&chosen, &works, &args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = stop_on_signal()?;
    let mut good = true;
    for (at, work) in works.iter().enumerate() {
        let name = format!("{}/{}", work.paper.id, work.figure.id);
        if !args.quiet {
            eprintln!("[{} of {}] {name}: {}", at + 1, works.len(), work.figure.title);
        }
        match make(work, &args, &stop) {
            Ok(section) => {
                let score = pages::Score::of(section.claims.iter());
                good &= section.claims.iter().all(|c| !worse(&c.outcome, &c.expected));
                say(&format!("{name:28} {}\n", score.words()))?;
            }
            Err(e) if matches!(e.downcast_ref(), Some(Error::Stopped { .. })) => {
                // What is done is worth a page.
                pages::write(&catalogue, &args.out)?;
                eprintln!("{name}: {e}; the same command goes on from here");
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(e) => return Err(e.context(name)),
        }
        pages::write(&catalogue, &args.out)?;
    }
    if let Some(folder) = &args.gallery {
        gallery::write(&chosen, &args.out, folder)?;
    }
    say(&format!("{}\n", args.out.join("index.html").display()))?;
    Ok(if good || !args.strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn make(work: &Work<'_>, args: &Args, stop: &AtomicBool) -> anyhow::Result<Section> {
    work.make(&args.out, &mut |plan, out| {
        run(plan, &Options { out, jobs: args.jobs(), fresh: args.fresh }, stop, args.quiet)
    })
}

/// Whether a claim came out worse than its file says; what could not be judged says nothing.
fn worse(outcome: &str, expected: &str) -> bool {
    let rank = |word: &str| ["fails", "direction", "holds"].iter().position(|w| *w == word);
    match (rank(outcome), rank(expected)) {
        (Some(outcome), Some(expected)) => outcome < expected,
        _ => false,
    }
}

fn list(chosen: &[(&Paper, Vec<&Figure>)], works: &[Work<'_>], args: &Args) -> anyhow::Result<()> {
    let (mut text, mut total) = (String::new(), 0.0);
    for work in works {
        let runs: usize = work.plans.iter().map(|(_, p)| p.jobs.len()).sum();
        let seconds: f64 = work.plans.iter().map(|(_, p)| sim_explain::expected_s(p, args.jobs())).sum();
        total += seconds;
        text += &format!(
            "{:28} {:16} {runs:5} runs, {:12} {}: {}\n",
            format!("{}/{}", work.paper.id, work.figure.id),
            work.figure.rows.join(" "),
            sim_explain::how_long(seconds),
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
            text += &format!("{:28} {:16} not run: {}\n", paper.id, other.rows.join(" "), other.why);
        }
    }
    text += &format!("in all {} with {} runs at a time\n", sim_explain::how_long(total), args.jobs());
    say(&text).context("writing the list")
}
