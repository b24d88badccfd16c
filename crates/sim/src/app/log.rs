//! Access-log replay: the log's clients are folded onto users with parallel connections, who ask for the log's objects
//! at the recorded times or one after another (TAQ, Fig. 12: "2 clients x 4 parallel connections, back to back").
//!
//! At recorded times a request waits for one of its user's connections, as in a browser or a proxy. That wait is not
//! part of the transfer's time, which runs from the first SYN; retries until one gets through are.

use std::collections::VecDeque;
use std::sync::Arc;

use narrows_scenario::{LogEntry, LogSource, LogTiming};
use narrows_units::Duration;

use super::lines::{Lines, Ring, own};
use super::synthetic_log::SyntheticLog;
use super::{App, Common, Happened};
use crate::ids::{AppId, FlowId};
use crate::world::World;

/// Requests that no user has taken yet, in the log's order.
enum Requests {
    File { entries: Arc<[LogEntry]>, at: usize },
    Synthetic(SyntheticLog),
}

impl Iterator for Requests {
    type Item = LogEntry;

    fn next(&mut self) -> Option<LogEntry> {
        match self {
            Self::File { entries, at } => {
                *at += 1;
                entries.get(*at - 1).copied()
            }
            Self::Synthetic(log) => log.next(),
        }
    }
}

/// Users who repeat a log.
pub(super) struct Log {
    lines: Lines,
    requests: Requests,
    /// The next of the requests, where the log's times count.
    next: Option<LogEntry>,
    /// Sizes of the objects that each user has still to request.
    waiting: Vec<VecDeque<u64>>,
    connections: u32,
    timing: LogTiming,
}

impl Log {
    pub(super) fn new(
        common: Common,
        source: &LogSource,
        [users, connections]: [u32; 2],
        timing: LogTiming,
        retry: Duration,
    ) -> Self {
        let requests = match source {
            LogSource::File { entries, .. } => Requests::File { entries: entries.clone(), at: 0 },
            LogSource::Synthetic { requests, clients, zipf, size } => {
                // Lines take the generators from 0 on.
                let rng = common.rng(u32::MAX);
                let length = common.stop.since(common.start);
                Requests::Synthetic(SyntheticLog::new(rng, length, *requests, *clients, *zipf, size.clone()))
            }
        };
        let waiting = vec![VecDeque::new(); users.max(1) as usize];
        let lines = Lines::new(common, retry, false);
        Self { lines, requests, next: None, waiting, connections, timing }
    }

    fn user(&self, entry: &LogEntry) -> u32 {
        entry.client % u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }

    /// The next object for `user`: one that waits, or, back to back, the user's next one in the log; what comes before
    /// it waits for the others.
    fn take(&mut self, user: u32) -> Option<u64> {
        if let Some(size) = self.waiting[user as usize].pop_front() {
            return Some(size);
        }
        if self.timing == LogTiming::Recorded {
            return None;
        }
        loop {
            let entry = self.requests.next()?;
            let of = self.user(&entry);
            if of == user {
                return Some(entry.bytes);
            }
            self.waiting[of as usize].push_back(entry.bytes);
        }
    }

    /// Takes the next object for a line.
    fn go_on(&mut self, world: &mut World, line: u32) {
        let user = line / self.connections;
        if world.now() >= self.lines.common.stop || !self.lines.is_free(line) {
            return;
        }
        if let Some(size) = self.take(user) {
            self.lines.begin(world, line, user, size);
        }
    }

    /// Sets the timer for the next recorded request.
    fn await_next(&mut self, world: &mut World) {
        self.next = self.requests.next();
        if let Some(entry) = self.next {
            world.set_timer(self.lines.me, own(0), self.lines.common.start + entry.at);
        }
    }

    /// A recorded request is made.
    fn request(&mut self, world: &mut World) {
        let Some(entry) = self.next.take() else { return };
        let user = self.user(&entry);
        self.waiting[user as usize].push_back(entry.bytes);
        let mut lines = user * self.connections..(user + 1) * self.connections;
        if let Some(line) = lines.find(|line| self.lines.is_free(*line)) {
            self.go_on(world, line);
        }
        if world.now() < self.lines.common.stop {
            self.await_next(world);
        }
    }
}

impl App for Log {
    fn start(&mut self, world: &mut World, me: AppId) {
        self.lines.me = me;
        for user in 0..u32::try_from(self.waiting.len()).unwrap_or(u32::MAX) {
            for _ in 0..self.connections {
                let line = self.lines.add();
                if self.timing == LogTiming::BackToBack {
                    let at = self.lines.common.begins(&mut self.lines.common.rng(user));
                    world.set_timer(me, own(line), at);
                }
            }
        }
        if self.timing == LogTiming::Recorded {
            self.await_next(world);
        }
    }

    fn wake(&mut self, world: &mut World, token: u32) {
        match self.lines.wake(world, token) {
            Ring::Own(_) if self.timing == LogTiming::Recorded => self.request(world),
            Ring::Own(line) => self.go_on(world, line),
            Ring::Done => {}
        }
    }

    fn happened(&mut self, world: &mut World, place: FlowId, tag: u32, what: Happened) {
        if self.lines.happened(world, place, tag, what) {
            self.go_on(world, tag);
        }
    }
}
