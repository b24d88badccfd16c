//! Says what a person should know, without waiting for whoever reads it: a full pipe to a log, a stopped terminal or a
//! closed one must not hold a packet.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::{SigSet, SigmaskHow};

use super::privilege;
use super::run::Notice;

/// Notices that may wait to be written; more are lost.
const NOTICES: usize = 64;
/// How long a reader has for what was said last.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A thread that writes.
#[derive(Debug)]
pub struct Speaker {
    tell: SyncSender<Notice>,
    writer: JoinHandle<()>,
}

impl Speaker {
    /// Hands notices to `write`, in a thread that may do nothing else and hears no signal.
    ///
    /// # Errors
    /// If the kernel has no thread left.
    pub fn start(mut write: impl FnMut(Notice) + Send + 'static) -> anyhow::Result<Self> {
        let (tell, told) = sync_channel(NOTICES);
        let before =
            SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).context("cannot block signals")?;
        let writer = std::thread::Builder::new().name("speaker".into()).spawn(move || {
            privilege::give_up_all();
            told.into_iter().for_each(&mut write);
        });
        before.thread_set_mask().context("cannot unblock signals")?;
        Ok(Self { tell, writer: writer.context("cannot start a thread")? })
    }

    /// Says something, soon or not at all.
    pub fn say(&self, notice: Notice) {
        let _ = self.tell.try_send(notice);
    }

    /// Waits for what was said last, for a moment.
    pub fn finish(self) {
        drop(self.tell);
        let until = Instant::now() + LAST_WORDS;
        while !self.writer.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_reader_who_does_not_read() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (seen, all) = std::sync::mpsc::channel();
        let speaker = Speaker::start(move |notice| {
            let _ = held.recv();
            seen.send(notice).unwrap();
        })
        .unwrap();
        (0..1000).for_each(|n| speaker.say(Notice::Message(n.to_string())));
        drop(hold);
        speaker.finish();
        let said: Vec<_> = all.try_iter().collect();
        assert!((NOTICES..=NOTICES + 1).contains(&said.len()), "{}", said.len());
        assert_eq!(said[0], Notice::Message("0".into()));
    }
}
