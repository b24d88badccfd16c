//! A clock of work: elapsed time without idleness, exact to a few instructions.
//!
//! A thread of the class that runs only when nothing else would (`SCHED_IDLE`) counts. The guest's clock counts
//! instructions, and a round of that thread's loop is always as many of them, so what has elapsed beyond those rounds
//! was spent on something: programs, system calls, interrupts, timers, switches. The kernel's own book of idleness is
//! in hundredths of a second (proc_stat(5)), and no two kernels keep it alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use narrows_netio::priority;
use nix::time::{ClockId, clock_gettime};

const REST: u8 = 0;
const COUNT: u8 = 1;
const END: u8 = 2;

/// State that the two threads share.
#[derive(Default)]
struct Shared {
    order: AtomicU8,
    rounds: AtomicU64,
}

/// The thread that counts, ended when dropped.
pub struct Spinner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    /// Instructions of a round.
    round: u64,
}

/// A moment: what has elapsed, and how often the thread came round.
#[derive(Clone, Copy)]
struct Moment {
    nanos: u64,
    rounds: u64,
}

/// Counting of idleness, which a drop of the value ends.
pub struct Counting<'a> {
    spinner: &'a Spinner,
    last: Moment,
}

impl Spinner {
    /// Starts the thread and finds out how many instructions a round has.
    pub fn new() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            priority::only_when_idle()?;
            loop {
                match theirs.order.load(Relaxed) {
                    COUNT => theirs.count(),
                    REST => std::thread::park(),
                    _ => return Ok(()),
                }
            }
        });
        let mut spinner = Self { shared, thread: Some(thread), round: 0 };
        spinner.round = spinner.measure_round()?;
        Ok(spinner)
    }

    fn measure_round(&self) -> Result<u64> {
        let counting = self.count();
        std::thread::sleep(Duration::from_millis(20));
        let first = self.now()?;
        std::thread::sleep(Duration::from_millis(20));
        let last = self.now()?;
        drop(counting);
        let (elapsed, rounds) = (last.nanos - first.nanos, last.rounds - first.rounds);
        ensure!(rounds > 0, "the thread that counts idleness did not run (SCHED_IDLE)");
        // Timer ticks are in it too, less than a hundredth: the whole number below is the loop's.
        let round = elapsed / rounds;
        let rest = elapsed - rounds * round;
        ensure!(
            round > 0 && rest * 10 < elapsed,
            "a round of the thread that counts idleness takes {elapsed}/{rounds} ns, no whole number"
        );
        Ok(round)
    }

    fn now(&self) -> Result<Moment> {
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC).context("CLOCK_MONOTONIC")?;
        let nanos = time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs();
        Ok(Moment { nanos, rounds: self.shared.rounds.load(Relaxed) })
    }

    fn order(&self, order: u8) {
        self.shared.order.store(order, Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn count(&self) -> Counting<'_> {
        self.order(COUNT);
        Counting { spinner: self, last: Moment { nanos: 0, rounds: 0 } }
    }

    /// Begins to count. Call [`Counting::lap`] for the first time after a moment of rest.
    pub fn start(&self) -> Result<Counting<'_>> {
        let mut counting = self.count();
        std::thread::sleep(Duration::from_millis(1));
        counting.lap()?;
        Ok(counting)
    }
}

impl Counting<'_> {
    /// Instructions that were spent on something since the last call.
    pub fn lap(&mut self) -> Result<u64> {
        let now = self.spinner.now()?;
        let last = std::mem::replace(&mut self.last, now);
        Ok((now.nanos - last.nanos).saturating_sub((now.rounds - last.rounds) * self.spinner.round))
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.spinner.order(REST);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.order(END);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Counts rounds until told otherwise. Each is the same few instructions.
    #[inline(never)]
    fn count(&self) {
        let mut rounds = self.rounds.load(Relaxed);
        while self.order.load(Relaxed) == COUNT {
            rounds += 1;
            self.rounds.store(rounds, Relaxed);
        }
    }
}
