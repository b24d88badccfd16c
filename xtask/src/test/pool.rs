//! Programs of tests side by side. What waits more than it computes runs beside what computes; what judges the time of
//! real kernels runs alone.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::programs::Program;

/// Modules of packages whose tests do not compute alone, in the order in which they begin. A module within another here
/// is a job of its own.
const APART: [(&str, Lane, &[&str]); 7] = [
    // Tests that judge times and rates: of packets through the box, of queues of the kernel, of senders in it.
    (
        "box",
        Lane::Machine(NEWEST),
        &[
            "live_box::auto::",
            "live_box::circuits::",
            "live_box::clamp::",
            "live_box::disciplines::",
            "live_box::merged::",
            "live_box::room::",
            "live_box::traffic::what_waits_for_a_closed_port_is_dropped_when_its_host_says_so",
            "live_box::users::",
            "live_box::xdp::all_back_ends_give_a_link_the_same_rate",
        ],
    ),
    ("lab", Lane::Machine(OLDEST), &["queue_peer::", "peer::"]),
    ("senders", Lane::Machine(NEWEST), &["live::"]),
    // A minute in which everything happens to a box, one thing after the other: beside others it takes three.
    ("box", Lane::Alone, &["live_box::soak::"]),
    ("box", Lane::Waiting, &["live_box::"]),
    ("cli", Lane::Waiting, &["live::", "diagnose_live::", "lab::"]),
    ("tests", Lane::Alone, &["live_flow::"]),
];

/// The oldest kernel that Narrows is tried on.
const OLDEST: &str = "6.1";
/// The newest kernel that Narrows is tried on.
const NEWEST: &str = "7.3";

/// When tests may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Beside all but those that want to be alone, a program for each processor.
    Computing,
    /// Beside those that compute: they wait for packets, timers and processes, and leave the processors to others.
    Waiting,
    /// Beside those that compute, in a virtual machine with this kernel, whose clock makes no difference between a busy
    /// host and an idle one; alone where none can be had.
    Machine(&'static str),
    /// The job runs alone.
    Alone,
}

/// Surroundings of the tests.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The file to which skipped tests write their names.
    pub skips: &'a Path,
    /// The program that live tests start.
    pub narrows: &'a Path,
    /// Whether virtual machines can be had.
    pub machines: bool,
    /// Whether what runs in a machine runs on the oldest and the newest kernel, not on one of them.
    pub every_kernel: bool,
}

/// A program, or some of its tests.
#[derive(Debug)]
pub struct Job {
    pub name: String,
    pub lane: Lane,
    command: Command,
}

/// Result of a job.
#[derive(Debug)]
pub struct Outcome {
    pub name: String,
    /// Standard output and standard error together.
    pub said: String,
    pub success: bool,
    pub took: Duration,
}

impl Job {
    /// Any command that prints as libtest does, beside what computes.
    pub fn new(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), lane: Lane::Computing, command }
    }

    /// Whether some tests of a program run in a virtual machine.
    pub fn wants_machine(program: &Program) -> bool {
        APART.iter().any(|(package, lane, _)| {
            program.is_outside() && *package == program.package() && matches!(lane, Lane::Machine(_))
        })
    }

    /// The jobs of a program: one for each lane its tests are in, and for each kernel. `words` are for libtest.
    pub fn of(program: &Program, words: &[String], around: &Around) -> Vec<Self> {
        let groups: Vec<_> = APART
            .iter()
            .filter(|(package, ..)| program.is_outside() && *package == program.package())
            .map(|(_, lane, modules)| (*lane, *modules))
            .collect();
        let make = |lane, choose: &[&str]| {
            let mut command = program.command();
            command.args(choose).env(narrows_testing::SKIPS, around.skips);
            for module in groups.iter().flat_map(|(_, modules)| *modules) {
                if !choose.iter().any(|chosen| chosen.starts_with(module)) {
                    command.args(["--skip", module]);
                }
            }
            if lane == Lane::Waiting {
                command.env("RUST_TEST_THREADS", (2 * processors()).to_string());
            }
            command.args(words);
            let name = if choose.is_empty() {
                program.name()
            } else {
                format!("{}: {}", program.name(), choose.join(", ").trim_end_matches(':').replace("::,", ","))
            };
            Self { name, lane, command }
        };
        let rest = make(Lane::Computing, &[]);
        let apart = groups.iter().flat_map(|(lane, modules)| match lane {
            Lane::Machine(kernel) if around.machines => {
                let kernels = if around.every_kernel { vec![OLDEST, NEWEST] } else { vec![*kernel] };
                kernels
                    .iter()
                    .map(|kernel| Self::in_machine(program, modules, words, around, kernel))
                    .collect()
            }
            Lane::Machine(_) => vec![make(Lane::Alone, modules)],
            lane => vec![make(*lane, modules)],
        });
        apart.chain([rest]).collect()
    }

    /// The modules of a program as a job of their own, in a virtual machine with this kernel.
    fn in_machine(
        program: &Program,
        modules: &[&str],
        words: &[String],
        around: &Around,
        kernel: &str,
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "narrows-xtask".into()));
        let (file, narrows) = (program.file(), around.narrows);
        // Bridges are asked whether they pass iptables before anything loads what answers.
        let line = format!(
            "modprobe -q br_netfilter; mount -t bpf bpf /sys/fs/bpf; \
             NARROWS_BIN='{}' {}=/out/skips '{}' --test-threads=1",
            narrows.display(),
            narrows_testing::SKIPS,
            file.display()
        );
        command.args(["vm", "--kernel", kernel, "--program"]).arg(file).arg("--program").arg(narrows);
        let out = around.skips.with_extension(format!("{}-{kernel}", program.package()));
        command.arg("--out").arg(out).arg("--skips").arg(around.skips);
        command.arg(line).args(modules).args(words);
        let last =
            |module: &&str| module.trim_end_matches(':').rsplit("::").next().unwrap_or_default().to_owned();
        let modules: Vec<_> = modules.iter().map(last).collect();
        let name = format!("{} on Linux {kernel}: {}", program.name(), modules.join(", "));
        Self { name, lane: Lane::Computing, command }
    }

    /// Tells its tests where the program `narrows` is, and where others are.
    pub fn surround(&mut self, narrows: &Path, path: &OsStr) {
        self.command.env("NARROWS_BIN", narrows).env("PATH", path);
    }

    fn run(mut self) -> Result<Outcome> {
        let begun = Instant::now();
        let (mut reader, writer) = std::io::pipe().context("a pipe")?;
        if self.lane == Lane::Computing {
            self.command = gently(&self.command);
        }
        self.command.stdin(Stdio::null()).stdout(writer.try_clone().context("a pipe")?).stderr(writer);
        let mut child = self.command.spawn().with_context(|| format!("starting {}", self.name))?;
        // The writing ends that this process holds would keep the pipe open.
        drop(self.command);
        let mut said = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut said)
            .with_context(|| format!("reading {}", self.name))?;
        let success = child.wait().with_context(|| format!("waiting for {}", self.name))?.success();
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok(Outcome { name: self.name, said, success, took: begun.elapsed() })
    }
}

/// Whether virtual machines with these kernels can be had; fetches those that are not at hand.
pub fn machines() -> bool {
    static FOUND: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| {
        if narrows_machine::obstacle().is_some() {
            return false;
        }
        [OLDEST, NEWEST].iter().all(|kernel| {
            let kernel = kernel
                .parse()
                .map_err(anyhow::Error::msg)
                .and_then(|release| narrows_machine::Kernel::of(&release));
            if let Err(why) = &kernel {
                crate::steps::show(&format!("no virtual machine: {why:#}\n"));
            }
            kernel.is_ok()
        })
    })
}

/// A command that leaves the processors to whoever waits for a packet or a timer.
fn gently(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    nice
}

/// Number of computing jobs that run well side by side.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs all, those that want to be alone last; hands on what came of each when it has ended.
pub fn run(jobs: Vec<Job>, mut ended: impl FnMut(Outcome)) -> Result<()> {
    let (alone, beside): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.lane == Lane::Alone);
    let (waiting, computing): (VecDeque<_>, VecDeque<_>) =
        beside.into_iter().partition(|job| job.lane == Lane::Waiting);
    let workers = [(Mutex::new(waiting), 2), (Mutex::new(computing), processors())];
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for (queue, count) in &workers {
            for _ in 0..*count {
                let tell = tell.clone();
                scope.spawn(move || {
                    loop {
                        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                        let Some(job) = next else { break };
                        // Nobody listens any more where another job could not be started.
                        if tell.send(job.run()).is_err() {
                            break;
                        }
                    }
                });
            }
        }
        drop(tell);
        told.iter().try_for_each(|outcome| outcome.map(&mut ended))
    })?;
    alone.into_iter().try_for_each(|job| job.run().map(&mut ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_machines() -> Around<'static> {
        Around {
            skips: Path::new("skips"),
            narrows: Path::new("narrows"),
            machines: false,
            every_kernel: false,
        }
    }

    fn shell(name: &str, lane: Lane, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { name: name.to_owned(), lane, command }
    }

    /// libtest chooses and skips by any part of a name.
    fn takes(job: &Job, test: &str) -> bool {
        let args: Vec<_> = job.command.get_args().map(|arg| arg.to_str().unwrap()).collect();
        let skips = |at: usize| at > 0 && args[at - 1] == "--skip";
        let (skipped, chosen): (Vec<_>, Vec<_>) =
            (0..args.len()).filter(|at| args[*at] != "--skip").partition(|at| skips(*at));
        let named = |of: &[usize]| of.iter().any(|at| test.contains(args[*at]));
        !named(&skipped) && (chosen.is_empty() || named(&chosen))
    }

    #[test]
    fn each_test_is_in_one_job() {
        for (package, tests) in [
            ("box", &["live_box::soak::a", "live_box::floods::b", "live_box::clamp::c", "other::d"][..]),
            ("cli", &["live::a", "diagnose_live::b", "diagnose::c", "lab::web::d", "sim::e"]),
            ("lab", &["queue_peer::a", "peer::b", "row::c"]),
            ("senders", &["live::parity::a", "b"]),
            ("tests", &["live_flow::a", "trust::b"]),
            ("qdisc", &["users::a"]),
        ] {
            let jobs = Job::of(&Program::from_outside(package), &[], &without_machines());
            for test in tests {
                let taken: Vec<_> = jobs.iter().filter(|job| takes(job, test)).map(|job| &job.name).collect();
                assert_eq!(taken.len(), 1, "{package} {test}: {taken:?}");
            }
        }
        let names: Vec<_> = Job::of(&Program::from_outside("cli"), &[], &without_machines())
            .into_iter()
            .map(|job| (job.name, job.lane))
            .collect();
        assert_eq!(
            names,
            [
                ("cli, from outside: live, diagnose_live, lab".to_owned(), Lane::Waiting),
                ("cli, from outside".to_owned(), Lane::Computing)
            ]
        );
    }

    #[test]
    fn those_that_want_to_be_alone_come_last() {
        let jobs = vec![
            shell("a", Lane::Alone, "echo one; echo two >&2; exit 3"),
            shell("b", Lane::Computing, "exit 0"),
            shell("c", Lane::Waiting, "exit 0"),
            shell("d", Lane::Alone, "exit 0"),
        ];
        let mut all = Vec::new();
        run(jobs, |outcome| all.push(outcome)).unwrap();
        let names: Vec<_> = all.iter().map(|outcome| outcome.name.as_str()).collect();
        assert!(names == ["b", "c", "a", "d"] || names == ["c", "b", "a", "d"], "{names:?}");
        assert_eq!((all[2].said.as_str(), all[2].success, all[3].success), ("one\ntwo\n", false, true));
    }

    #[test]
    fn what_cannot_be_started_is_said() {
        let job = Job { name: "x".into(), lane: Lane::Waiting, command: Command::new("/nowhere/narrows-x") };
        let why = run(vec![job], |_| {}).unwrap_err();
        assert!(format!("{why:#}").starts_with("starting x: "), "{why:#}");
    }
}
