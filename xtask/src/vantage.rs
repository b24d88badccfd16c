//! Comparison of `narrows diagnose` with the truth at four points of the path, on requests and answers of real kernel
//! TCP, TLS and QUIC in `narrows lab`. The lab's server pauses now and then and writes the pauses down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

mod ends;
mod peers;
mod score;
mod truth;

use ends::{End, Packet};
use score::Score;
use truth::Run;

/// Arguments of `xtask vantage`.
#[derive(clap::Args)]
pub struct Args {
    /// Workloads, by the names of their files [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Folder with a lab file for each workload
    #[arg(long, default_value = "experiments/diagnosis/vantage")]
    workloads: PathBuf,
    /// The program [default: $NARROWS_BIN, or narrows beside this one]
    #[arg(long)]
    program: Option<PathBuf>,
    /// Folder for captures and tables
    #[arg(long, default_value = "out/vantage")]
    out: PathBuf,
    /// Kernel of virtual machines to record in, as 7.3; without it this machine's kernel, whose queues may be fewer
    #[arg(long)]
    machine: Option<String>,
    /// Take the captures that are there already
    #[arg(long)]
    keep: bool,
    /// Seed of the runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print each verdict that is wrong, at this point: server, before, behind, users
    #[arg(long, value_name = "POINT")]
    wrong: Option<String>,
}

/// Half of the lab's propagation, all of which lies between the server and the bottleneck.
const HALF_NS: i64 = 50_000_000;

/// A capture at a point of the path.
struct Point {
    name: &'static str,
    users_side: bool,
    make: fn(&Run) -> End,
}

const POINTS: [Point; 8] = [
    Point { name: "server", users_side: false, make: |run| run.server.moved(0) },
    Point { name: "before", users_side: false, make: |run| run.server.moved(HALF_NS) },
    Point { name: "behind", users_side: true, make: |run| run.users.moved(-HALF_NS / 2) },
    Point { name: "users", users_side: true, make: |run| run.users.moved(0) },
    // Incomplete captures: of one direction only, or with frames missing.
    Point {
        name: "users, down only",
        users_side: true,
        make: |run| run.users.kept(|_, p| p.is_from_server()),
    },
    Point {
        name: "users, up only",
        users_side: true,
        make: |run| run.users.kept(|_, p| !p.is_from_server()),
    },
    // IPv6 has no identification, and some hosts' are random.
    Point {
        name: "users, no identification",
        users_side: true,
        make: |run| run.users.without_identification(),
    },
    Point { name: "users, 1 of 5 missing", users_side: true, make: |run| run.users.kept(is_captured) },
];

/// Keeps four of five frames, chosen by a hash of the frame's index.
fn is_captured(n: usize, _: &Packet) -> bool {
    (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xffff > 0xffff / 5
}

/// Records what is missing, then prints and writes the tables.
pub fn run(args: &Args) -> Result<()> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(&args.workloads)
        .with_context(|| format!("listing {}", args.workloads.display()))?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|e| e == "toml") && args.takes(file));
    files.sort();
    ensure!(!files.is_empty(), "{}: no file NAME.toml of those asked for", args.workloads.display());
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let mut sums: BTreeMap<(String, usize), Score> = BTreeMap::new();
    let mut beside = Vec::new();
    for file in &files {
        let folder = args.out.join(stem(file));
        if !args.keep || !folder.exists() {
            record(args, file, &folder)?;
        }
        for Recorded { queue, users, run } in runs(&folder, args.seed)? {
            for (at, point) in POINTS.iter().enumerate() {
                let mut score = Score::default();
                let wrong = args.wrong.as_deref() == Some(point.name);
                score::judge(&run, &(point.make)(&run), point.users_side, |judged, says| {
                    score.add(judged);
                    if wrong && !judged.is_right() {
                        println!("{queue} {says}");
                    }
                });
                sums.entry((queue.clone(), at)).or_default().merge(&score);
                if point.name == "users" {
                    beside.push(peers::ask(format!("{}, {queue}", stem(file)), &users, score));
                }
            }
        }
    }
    let text = table(&sums) + &peers::table(&beside);
    print!("{text}");
    let path = args.out.join("vantage.md");
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

impl Args {
    fn takes(&self, file: &Path) -> bool {
        self.only.is_empty() || self.only.contains(&stem(file))
    }

    fn program(&self) -> Result<PathBuf> {
        let asked = self.program.clone().or_else(|| std::env::var_os("NARROWS_BIN").map(PathBuf::from));
        let path = match asked {
            Some(path) => path,
            None => std::env::current_exe().context("where this program is")?.with_file_name("narrows"),
        };
        ensure!(
            path.is_file(),
            "{} is missing: cargo build -p narrows-cli, or --program PATH",
            path.display()
        );
        Ok(path)
    }
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn record(args: &Args, file: &Path, folder: &Path) -> Result<()> {
    eprintln!("vantage: recording {}", file.display());
    let status = Command::new(args.program()?)
        .arg("lab")
        .arg(file)
        .args(["--capture", "--jobs", "3", "--seed", &args.seed.to_string(), "--out"])
        .arg(folder)
        .args(args.machine.iter().flat_map(|kernel| ["--machine", kernel.as_str()]))
        .stdout(std::process::Stdio::null())
        .status()
        .context("starting narrows lab")?;
    ensure!(status.success(), "narrows lab {} failed", file.display());
    Ok(())
}

/// A run with captures.
struct Recorded {
    /// Queue that was in the box.
    queue: String,
    /// Capture at the users.
    users: PathBuf,
    run: Run,
}

/// The runs in a folder, by the queue that was in the box.
fn runs(folder: &Path, seed: u64) -> Result<Vec<Recorded>> {
    let ending = format!("-{seed}-server.pcap");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let server = entry?.path();
        let name = server.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(begin) = name.strip_suffix(&ending) else { continue };
        let of = |end: &str| folder.join(format!("{begin}-{seed}-{end}"));
        let queue = begin.strip_prefix(&format!("{}-", stem(folder))).unwrap_or(begin).to_owned();
        let users = of("users.pcap");
        let run = Run::read(&server, &users, &of("server.pauses"))?;
        found.push(Recorded { queue, users, run });
    }
    found.sort_by(|a, b| a.queue.cmp(&b.queue));
    ensure!(!found.is_empty(), "{}: no captures with seed {seed}: remove the folder", folder.display());
    Ok(found)
}

/// The scores of each point, by queue and in all.
fn table(sums: &BTreeMap<(String, usize), Score>) -> String {
    use std::fmt::Write as _;
    let mut text = String::from(
        "| point | queue | silences | time, s | right | certain | certain and right | application blamed wrongly, \
         % of time | unknown, % of time | place right |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut matrices = String::new();
    for (at, point) in POINTS.iter().enumerate() {
        let mut all = Score::default();
        let of_point: Vec<(&str, Score)> =
            sums.iter().filter(|((_, p), _)| *p == at).map(|((queue, _), s)| (queue.as_str(), *s)).collect();
        of_point.iter().for_each(|(_, s)| all.merge(s));
        for (queue, s) in of_point.into_iter().chain([("all", all)]) {
            let share = |part: u64, of: u64| {
                if of > 0 { format!("{:.3}", part as f64 / of as f64) } else { "-".to_owned() }
            };
            let percent =
                |part: i64| if s.time_ns > 0 { 100.0 * part as f64 / s.time_ns as f64 } else { 0.0 };
            _ = writeln!(
                text,
                "| {} | {queue} | {} | {:.0} | {} | {} | {} | {:.1} | {:.1} | {} |",
                point.name,
                s.silences,
                s.time_ns as f64 / 1e9,
                share(s.right, s.silences),
                s.certain,
                share(s.certain_right, s.certain),
                percent(s.blamed_ns),
                percent(s.unknown_ns),
                share(s.placed_right, s.placed),
            );
        }
        _ = writeln!(matrices, "\n{}: seconds by truth (rows) and verdict (columns)\n", point.name);
        matrices
            .push_str("| truth | application | idle | loss | waiting | other |\n|---|--:|--:|--:|--:|--:|\n");
        for (why, row) in truth::Why::ALL.iter().zip(all.matrix_ns) {
            _ = write!(matrices, "| {} |", why.name());
            row.iter().for_each(|ns| _ = write!(matrices, " {:.1} |", *ns as f64 / 1e9));
            matrices.push('\n');
        }
    }
    text + &matrices
}
