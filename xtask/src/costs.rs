//! Costs of a packet in instructions: through each queue of ours, by each back end, and through the kernel's.
//!
//! All cases run one after the other in one guest, whose clock counts instructions ([`narrows_machine`]): neither a
//! busy host nor its caches are in the figures, so they can fail a build. They tell how much work there is, not how
//! long a processor takes for it.
//!
//! **Path.** Users, box and servers are namespaces in a row (`place`). The kernel's queues stand where ours do: at both
//! interfaces of a router or a bridge. A box by packet sockets, which is its own bridge, is held against the bridge.
//!
//! **Traffic.** pktgen sends UDP alone, and TAQ knows flows by TCP. So packets are TCP's, made beforehand (`load`): a
//! connection opens, then sends two segments in its turn, which the user acknowledges. 32 connections have their turn
//! at once. Before what is measured, each has had one.
//!
//! **What is counted.** Everything that the guest's one processor does: sending, forwarding, interrupts, timers,
//! switches and the box. It is what elapsed less what was idle (`spinner`), each burst with the rest that it needs to
//! pass wholly; a tenth of the bursts at either end is left aside. Sending and forwarding alone are the case without a
//! queue, which is taken off where costs are told beyond it.
//!
//! **Nothing is dropped**, or the run fails: bursts fit every queue, as many packets must have arrived as were sent,
//! and the box must have handled each.
//!
//! **Two kinds of traffic.** In `passing` the link is far quicker than what comes: nothing waits but for its turn to be
//! handled, and a box gets its packets together. In `waiting` the link is slower: each packet leaves by a timer of its
//! own, as on a thin link; the kernel's queues stand behind HTB there, CAKE has its own shaper.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use narrows_machine::{Guest, Kernel, Machine, Release, Stream};

mod case;
pub mod inside;
mod judge;
mod load;
pub mod memory;
mod place;
mod spinner;
mod table;

use case::{Case, DROP_TAIL, DROP_TAIL_KERNEL, Figure, Layer, Queue, Traffic};
use judge::{Expected, Made};
use table::Table;

/// Recorded figures, in the workspace.
const EXPECTED: &str = "xtask/expected/costs.toml";

/// Arguments of `xtask costs`.
#[derive(clap::Args)]
pub struct Args {
    /// Version of the kernel
    #[arg(long, default_value = "6.12")]
    kernel: Release,
    /// Profile by which the program is built
    #[arg(long, default_value = "release")]
    profile: String,
    /// A program that was built so already
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Only cases with this in their names, as "routed" or "nfqueue taq"
    #[arg(long, default_value = "")]
    only: String,
    /// Seed of every random number in the machine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the table
    #[arg(long, value_name = "DIR", default_value = "out/costs")]
    out: PathBuf,
    /// Record the figures as those that later ones are held against
    #[arg(long)]
    record: bool,
}

/// Cases in the order of the table.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let kernel = |names: &[&str]| names.iter().map(|n| Queue::Kernel((*n).to_owned())).collect::<Vec<_>>();
    let ours = |backend: &str, disciplines: &[&str]| {
        let of = |d: &&str| Queue::Box { backend: backend.to_owned(), discipline: (*d).to_owned() };
        disciplines.iter().map(of).collect::<Vec<_>>()
    };
    let passing = [
        (Layer::Routed, vec![Queue::None]),
        (Layer::Routed, kernel(&[DROP_TAIL_KERNEL, "sfq", "fq", "fq_codel", "cake"])),
        (Layer::Routed, ours("nfqueue", &[DROP_TAIL, "fq_codel", "taq"])),
        (Layer::Bridged, vec![Queue::None]),
        (Layer::Bridged, kernel(&[DROP_TAIL_KERNEL, "fq_codel", "cake"])),
        (Layer::Apart, ours("packet", &[DROP_TAIL, "taq"])),
        (Layer::Bridged, ours("xdp", &[DROP_TAIL, "taq"])),
    ];
    let waiting = [
        (Layer::Routed, kernel(&[DROP_TAIL_KERNEL, "fq_codel", "cake"])),
        (Layer::Routed, ours("nfqueue", &[DROP_TAIL, "taq"])),
        (Layer::Bridged, kernel(&[DROP_TAIL_KERNEL, "cake"])),
        (Layer::Apart, ours("packet", &[DROP_TAIL, "taq"])),
        (Layer::Bridged, ours("xdp", &[DROP_TAIL, "taq"])),
    ];
    for (traffic, parts) in [(Traffic::Passing, &passing[..]), (Traffic::Waiting, &waiting[..])] {
        for flows in [100, 3000] {
            for (layer, queues) in parts {
                let of = |queue: &Queue| Case { layer: *layer, traffic, flows, queue: queue.clone() };
                cases.extend(queues.iter().map(of));
            }
        }
    }
    cases
}

/// Measures, prints and writes the table.
pub fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build(&args.profile)?,
    };
    let cases: Vec<Case> = cases().into_iter().filter(|c| c.to_string().contains(&args.only)).collect();
    ensure!(!cases.is_empty(), "--only {}: no case has this in its name", args.only);
    std::fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let kernel = Kernel::of(&args.kernel)?;
    let made = Made::now(kernel.version(), &args.profile)?;
    println!("costs: {made}, seed {}", args.seed);
    let begun = Instant::now();
    let machine = Machine::new(kernel).seed(args.seed).at_most(Duration::from_secs(1800));
    let table = Table::new(args.in_guest(&machine, &cases, &program)?);
    let text = table.markdown();
    println!("\n{text}\n{} cases in {} s", cases.len(), begun.elapsed().as_secs());
    let path = args.out.join("costs.md");
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    table.write_csv(&args.out.join("costs.csv"))?;
    let path = crate::peers::programs::root().join(EXPECTED);
    if args.record {
        ensure!(args.only.is_empty(), "--record: all cases are recorded or none; leave --only out");
        return Expected::of(&table, &made).write(&path);
    }
    let judgement = judge::judge(&table, &made, &Expected::read(&path)?);
    judgement.notes.iter().for_each(|note| println!("{note}"));
    judgement.broken.iter().for_each(|broken| println!("TOO DEAR: {broken}"));
    ensure!(judgement.broken.is_empty(), "{} bounds of cost are broken", judgement.broken.len());
    Ok(())
}

/// Builds the program `narrows` with a profile; returns the path of the program.
fn build(profile: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .args(["build", "--quiet", "--profile", profile, "-p", "narrows-cli", "--bin", "narrows"])
        .current_dir(crate::peers::programs::root())
        .status()
        .context("cargo cannot be started")?;
    ensure!(done.success(), "narrows could not be built by profile {profile}");
    // Cargo's one profile whose folder has another name.
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(crate::peers::programs::target().join(folder).join("narrows"))
}

impl Args {
    /// Measures cases in one guest.
    fn in_guest(&self, machine: &Machine, cases: &[Case], program: &Path) -> Result<Vec<Figure>> {
        let program = program.canonicalize().with_context(|| program.display().to_string())?;
        let seed = self.seed;
        let this = std::env::current_exe().context("the name of this program")?;
        let script = format!(
            "modprobe -a veth bridge sch_cake sch_fq sch_fq_codel sch_sfq sch_htb nfnetlink_queue nft_queue\n\
             exec {} costs-inside --program {} --seed {seed} --cases /cases --out figures.json",
            this.display(),
            program.display()
        );
        let mut guest = Guest::new(&script)?;
        guest.program(&this)?;
        guest.program(&program)?;
        guest.file(Path::new("/cases"), serde_json::to_string(cases)?.as_bytes());
        let mut show = |stream: Stream, line: &str| match stream {
            Stream::Output => println!("{line}"),
            Stream::Error => eprintln!("{line}"),
        };
        let ended = machine.run(guest, &self.out, &mut show, &AtomicBool::new(false))?;
        ensure!(ended.status == 0, "the guest ended with status {}", ended.status);
        let path = self.out.join("figures.json");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }
}
