//! The shortest round trip, and how it is found anew: the queue is let run empty now and then.

use narrows_units::{Duration, Instant};

use super::{Control, PACKET};
use crate::follow::echoes::Echo;

/// How long the least round trip counts: twice this, until another is found.
const BASE_FOR: Duration = Duration::from_secs(10);

/// The shortest round trip, and when it was last met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    pub least: Duration,
    pub met_at: Instant,
}

impl Base {
    pub const NONE: Self = Self { least: Duration::MAX, met_at: Instant::ZERO };

    pub fn add(&mut self, now: Instant, sample: Duration) {
        // What is longer by a sixteenth is as short: clocks and other queues tremble.
        if self.least == Duration::MAX || sample <= self.least + self.least / 16 {
            self.met_at = now;
        }
        self.least = self.least.min(sample);
    }

    pub fn get(&self) -> Option<Duration> {
        (self.least < Duration::MAX).then_some(self.least)
    }
}

/// The window is small for a while, so that packets find no queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Drain {
    No,
    /// Until no more than the small window is under way.
    Down,
    /// Packets that left after this many bytes found no queue: until as many more as are under way have come back.
    Measure {
        from: u64,
        until: Option<u64>,
        least: Duration,
    },
}

impl Control {
    /// Lets the queue run empty now and then, or its standing part would be taken for the way's length.
    pub(super) fn drain(&mut self, now: Instant, echo: Echo) {
        let rtt = now.since(echo.at);
        match self.drain {
            Drain::No if now.since(self.base.met_at) > BASE_FOR && now.since(self.idle_at) > rtt => {
                self.drain = Drain::Down;
            }
            Drain::Down if self.in_flight() <= (self.window as u64).saturating_add(PACKET) => {
                self.distances.empties();
                self.drain = Drain::Measure { from: self.departed, until: None, least: Duration::MAX };
            }
            Drain::Measure { from, until, least } if echo.total > from => {
                let least = least.min(rtt);
                match until {
                    Some(until) if echo.total >= until => {
                        self.base = Base { least, met_at: now };
                        self.drain = Drain::No;
                        // What was delivered meanwhile says as little of the rate as what is when nothing waits.
                        self.idle_at = now;
                    }
                    _ => {
                        let until = until.or(Some(self.departed));
                        self.drain = Drain::Measure { from, until, least };
                    }
                }
            }
            _ => {}
        }
    }
}
