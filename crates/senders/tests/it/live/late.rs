//! A test judges what a sender decided. What it is told, and when, a machine without processor time to spare has a part
//! in: then the same is done again, and where it never comes out well, the test says so and is skipped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use narrows_testing::skip;

/// How often something is done until the machine leaves it alone.
const ATTEMPTS: usize = 5;

/// Does something until the machine had no part in it: `attempt` panics about what was decided wrongly, and returns
/// what the machine did. `what` names this part of the `test`.
pub fn until_undisturbed(test: &str, what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut disturbed = String::new();
    for _ in 0..ATTEMPTS {
        match attempt() {
            Ok(()) => return,
            Err(how) => disturbed = how,
        }
        eprintln!("{test}: {what}: again, as the machine was busy: {disturbed}");
    }
    skip(
        test,
        format!("{what}: the machine was busy in each of {ATTEMPTS} attempts; in the last, {disturbed}"),
    );
}

/// Tries in which times are to be kept.
const TRIES: u16 = 8;
/// Tries with nothing in the way after which a failure to keep them is no accident.
const UNDISTURBED: usize = 2;
/// Latest that a thread may wake on a machine with processor time to spare.
const LATE: Duration = Duration::from_millis(1);

/// Tries, with the number of the try, until times are kept; a thread beside tells how late this machine wakes anybody.
/// Panics where they are never kept although that thread woke in time.
pub fn until_in_time(test: &str, what: &str, mut kept: impl FnMut(u16) -> bool) {
    let mut lateness = Vec::new();
    for number in 0..TRIES {
        let sleeper = Sleeper::start();
        let kept = kept(number);
        let late = sleeper.stop();
        if kept {
            return;
        }
        eprintln!("{test}: {what}: times were not kept; a thread beside woke {late:?} late");
        lateness.push(late);
    }
    lateness.sort();
    let in_time = lateness.iter().filter(|late| **late < LATE).count();
    assert!(
        in_time < UNDISTURBED,
        "{what}: times were never kept, and a thread beside was late by {lateness:?}"
    );
    let median = lateness[lateness.len() / 2].as_secs_f64() * 1e3;
    skip(test, format!("{what}: the machine was busy: a thread that slept woke {median:.1} ms late"));
}

/// A thread that sleeps and notes how late it wakes at worst.
struct Sleeper(Arc<AtomicBool>, JoinHandle<Duration>);

impl Sleeper {
    fn start() -> Self {
        const NAP: Duration = Duration::from_millis(10);
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while !told.load(Ordering::Relaxed) {
                let before = Instant::now();
                std::thread::sleep(NAP);
                worst = worst.max(before.elapsed() - NAP);
            }
            worst
        });
        Self(stop, thread)
    }

    fn stop(self) -> Duration {
        self.0.store(true, Ordering::Relaxed);
        self.1.join().expect("it only sleeps")
    }
}
