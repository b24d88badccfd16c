//! Words to the service manager (sd_notify(3)). Without one they go nowhere.

use sd_notify::NotifyState;

fn tell(words: &[NotifyState<'_>]) {
    // A manager that does not listen is no concern of the box.
    let _ = sd_notify::notify(words);
}

/// Reports that packets are handled.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Reports that this process goes on in place of the one that the manager started.
pub fn taken_over() {
    tell(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
}

/// Reports that the box stops.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Reports that the box waits. To the manager it has started, so that it holds up nothing.
pub fn waiting(why: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(why)]);
}

/// Reports that the box waits no longer.
pub fn waited() {
    tell(&[NotifyState::Status("")]);
}

/// Sender of signs of life, where the service manager wants them (`WatchdogSec`).
#[derive(Debug)]
pub struct Alive {
    wanted: bool,
}

impl Alive {
    /// Asks whether signs are wanted.
    pub fn new() -> Self {
        Self { wanted: sd_notify::watchdog_enabled().is_some() }
    }

    /// Gives a sign of life to the service manager.
    pub fn tell(&mut self) {
        if self.wanted {
            tell(&[NotifyState::Watchdog]);
        }
    }
}
