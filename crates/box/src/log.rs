//! Notices on standard error, written without waiting for a reader: a full pipe to a log, a stopped terminal or a
//! closed one must not hold a packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::privilege::{self, Identity};

/// Notices that may wait to be written; more are lost.
const NOTICES: usize = 64;
/// Notices that may be written at once, and how long it takes until another one may: an interface that comes and goes
/// all day must not fill a disk.
const BURST: u32 = 100;
const EVERY: Duration = Duration::from_millis(500);
/// Time that a reader has for what was said last.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Notice of a running box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Packets are handled; by which way.
    Running(String),
    /// An error that the box survives.
    Warning(String),
    /// News for a person.
    Message(String),
    /// A step of the work.
    Detail(String),
}

/// A thread that writes notices.
#[derive(Debug)]
pub struct Log {
    voice: Voice,
    writer: JoinHandle<()>,
}

/// Channel by which a thread says something.
#[derive(Clone, Debug)]
pub struct Voice {
    tell: SyncSender<Notice>,
    lost: Arc<AtomicU64>,
}

impl Voice {
    /// Says something, soon or not at all.
    pub fn say(&self, notice: Notice) {
        if self.tell.try_send(notice).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Log {
    /// Hands notices to `write`, in a thread that is this user's, may do nothing else and hears no signal.
    ///
    /// # Errors
    /// If the kernel has no thread left.
    pub fn start(
        user: Option<Identity>,
        mut write: impl FnMut(Notice) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (tell, told) = sync_channel(NOTICES);
        let lost = Arc::new(AtomicU64::new(0));
        let uncounted = lost.clone();
        let writer = privilege::talker("log", user, move || {
            let mut budget = Budget::new(Instant::now());
            for notice in told {
                // How it began is never held back.
                if !budget.take(Instant::now()) && !matches!(notice, Notice::Running(_)) {
                    uncounted.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                tell_lost(&uncounted, &mut write);
                write(notice);
            }
            tell_lost(&uncounted, &mut write);
        })?;
        Ok(Self { voice: Voice { tell, lost }, writer })
    }

    /// Says something, soon or not at all.
    pub fn say(&self, notice: Notice) {
        self.voice.say(notice);
    }

    /// Voice for another thread, into the same log.
    #[must_use]
    pub fn voice(&self) -> Voice {
        self.voice.clone()
    }

    /// Waits for what was said last, for a moment.
    pub fn finish(self) {
        drop(self.voice);
        let until = Instant::now() + LAST_WORDS;
        while !self.writer.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn tell_lost(lost: &AtomicU64, write: &mut impl FnMut(Notice)) {
    match lost.swap(0, Ordering::Relaxed) {
        0 => {}
        n => write(Notice::Warning(format!("{n} messages were left out: too many, or nobody reads them"))),
    }
}

/// Token bucket of notices: [`BURST`] of them at once, and one more after each time of [`EVERY`].
struct Budget {
    left: u32,
    /// Time up to which tokens were given.
    given: Instant,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self { left: BURST, given: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let due = (now.saturating_duration_since(self.given).as_nanos() / EVERY.as_nanos()) as u32;
        self.given += EVERY * due;
        self.left = self.left.saturating_add(due).min(BURST);
        let any = self.left > 0;
        self.left -= u32::from(any);
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_reader_who_does_not_read() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (seen, all) = std::sync::mpsc::channel();
        let log = Log::start(None, move |notice| {
            let _ = held.recv();
            seen.send(notice).unwrap();
        })
        .unwrap();
        (0..1000).for_each(|n| log.say(Notice::Message(n.to_string())));
        drop(hold);
        log.finish();
        let (said, counted): (Vec<_>, Vec<_>) =
            all.try_iter().partition(|notice| matches!(notice, Notice::Message(_)));
        assert!((NOTICES..=NOTICES + 1).contains(&said.len()), "{}", said.len());
        assert_eq!(said[0], Notice::Message("0".into()));
        // Written after the first that had waited, or at the end.
        let lost: usize = counted
            .iter()
            .filter_map(|n| match n {
                Notice::Warning(text) => text.split(' ').next()?.parse::<usize>().ok(),
                _ => None,
            })
            .sum();
        assert_eq!(said.len() + lost, 1000);
    }

    #[test]
    fn a_flood_is_held_back_and_counted() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let at = |now: Instant, budget: &mut Budget| (0..1000).filter(|_| budget.take(now)).count();
        assert_eq!(at(start, &mut budget), 100);
        assert_eq!(at(start + EVERY - Duration::from_nanos(1), &mut budget), 0);
        assert_eq!(at(start + EVERY * 3, &mut budget), 3);
        // A quiet day saves no more than one burst.
        assert_eq!(at(start + Duration::from_secs(86_400), &mut budget), 100);
    }
}
