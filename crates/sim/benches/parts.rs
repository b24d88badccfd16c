//! Gain of a second thread in one run of eight bottlenecks that do not meet: `cargo bench -p narrows-sim --bench
//! parts`. Runs with one thread and with two alternate; the shortest time of each counts, because other work on the
//! machine only ever lengthens a run. A number after `--` sets how often each is run.
//!
//! On a machine that is never idle no wall time is short enough; so there is also what processor time says: parts go to
//! whichever of two threads is free first, then come the results.

#![expect(clippy::disallowed_methods, reason = "a bench is a driver: it has a clock")]

use core::ops::ControlFlow;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use narrows_scenario::{Experiment, Run};
use narrows_sim::{Parts, join, run_part};

type Error = Box<dyn std::error::Error>;

const BOTTLENECKS: usize = 8;

/// Twenty flows over each of eight links of 20 Mbit/s.
fn scenario() -> Result<Run, Error> {
    let mut text = String::from(
        "name = 'parts'\nduration = '30s'\nwarmup = '5s'\ndiscipline = 'fifo:100'\n[probes]\nslice = '5s'\n",
    );
    for n in 0..BOTTLENECKS {
        writeln!(
            text,
            "[[link]]\nname = 'l{n}'\nfrom = 'a{n}'\nto = 'b{n}'\nrate = '20mbit'\ndelay = '20ms'\n\
             [[hosts]]\nname = 's{n}'\nat = 'a{n}'\n[[hosts]]\nname = 'c{n}'\nat = 'b{n}'\n\
             [[traffic]]\nkind = 'long'\nflows = 20\nfrom = 's{n}'\nto = 'c{n}'"
        )?;
    }
    Ok(Experiment::parse(&text, &[])?.expand()?.remove(0))
}

/// Seconds for which the calling thread has had a processor.
fn on_cpu() -> f64 {
    let kept = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    kept.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// Times of one run.
struct Timed {
    /// Seconds to the results.
    wall: f64,
    /// Processor seconds of each part, and of joining the parts' results.
    parts: Vec<f64>,
    joining: f64,
    told: String,
}

/// Times one run on `threads` threads.
fn timed(run: &Run, threads: usize) -> Timed {
    let begun = Instant::now();
    let parts = Parts::of(&run.scenario);
    let (next, ends) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= parts.count() {
                        return;
                    }
                    let before = on_cpu();
                    let go_on = &mut |_| ControlFlow::Continue(());
                    let end =
                        run_part(&run.scenario, run.seed, &parts, part, go_on).expect("it is simulated");
                    ends.lock().expect("nobody panics").push((part, end, on_cpu() - before));
                }
            });
        }
    });
    let mut ends = ends.into_inner().expect("nobody panics");
    ends.sort_by_key(|(part, ..)| *part);
    let (cpu, ends) = ends.into_iter().map(|(_, end, cpu)| (cpu, end)).unzip();
    let before = on_cpu();
    let results = join(&run.scenario, &parts, ends);
    let (wall, joining) = (begun.elapsed().as_secs_f64(), on_cpu() - before);
    Timed { wall, parts: cpu, joining, told: format!("{results:?}") }
}

impl Timed {
    /// Processor time until the results are there, if each part goes to the first free of `threads` threads.
    fn span(&self, threads: usize) -> f64 {
        let mut busy = vec![0.0_f64; threads];
        for part in &self.parts {
            busy.sort_by(f64::total_cmp);
            busy[0] += part;
        }
        busy.iter().copied().fold(0.0, f64::max) + self.joining
    }
}

fn main() -> Result<(), Error> {
    let times: usize = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(15);
    let run = scenario()?;
    let (mut wall, mut cpu) = ([f64::INFINITY; 2], [f64::INFINITY; 2]);
    for _ in 0..times {
        let both = [timed(&run, 1), timed(&run, 2)];
        if both[0].told != both[1].told {
            return Err("two threads gave other results than one".into());
        }
        for (at, one) in both.iter().enumerate() {
            wall[at] = wall[at].min(one.wall);
            cpu[at] = cpu[at].min(one.span(at + 1));
        }
    }
    println!("{BOTTLENECKS} bottlenecks, one run, the least of {times}:");
    for (name, [one, two]) in [("wall time", wall), ("processor time", cpu)] {
        println!("{name:>15}: one thread {one:.3} s, two {two:.3} s: {:.2} times as fast", one / two);
    }
    Ok(())
}
