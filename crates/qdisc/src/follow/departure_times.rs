//! Times of departures and of silence, which the controllers for both places of the link keep alike.

use narrows_units::{Bytes, Duration, Instant, Rate};

/// Time without news after which all that is under way is taken for lost; in doubt up to the second.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(1);
pub(super) const LOST_AT_MOST: Duration = Duration::from_secs(2);

/// Times at which packets left, could have left, and may leave if no news comes.
#[derive(Debug)]
pub(super) struct DepartureTimes {
    last: Instant,
    /// Time at which the room for further packets was last known: at news, or when what was under way was written off.
    room_at: Instant,
    /// Time at which a packet could have left and nothing waited.
    idle_at: Instant,
    /// Time without news after which all that is under way is taken for lost.
    patience: Duration,
    /// Whether that time has passed since the last news.
    silent: bool,
    /// Time at which the greatest rate lets the next packet go.
    paced_until: Instant,
}

impl DepartureTimes {
    /// Times of a link to which no packet has left.
    pub const fn new() -> Self {
        Self {
            last: Instant::ZERO,
            room_at: Instant::ZERO,
            idle_at: Instant::ZERO,
            patience: LOST_AFTER,
            silent: false,
            paced_until: Instant::ZERO,
        }
    }

    /// Time of the last departure.
    pub const fn last(&self) -> Instant {
        self.last
    }

    /// Time at which the room for further packets was last known.
    pub const fn room_at(&self) -> Instant {
        self.room_at
    }

    /// Last time at which a packet could have left and nothing waited.
    pub const fn idle_at(&self) -> Instant {
        self.idle_at
    }

    /// Whether what was under way was given up since the last news.
    pub const fn is_silent(&self) -> bool {
        self.silent
    }

    /// Notes that a packet could leave and nothing waits.
    pub const fn idles(&mut self, now: Instant) {
        self.idle_at = now;
    }

    /// Notes that the room for further packets is known.
    pub const fn knows_room(&mut self, now: Instant) {
        self.room_at = now;
    }

    /// Notes a packet that leaves and takes `bytes` of a link which carries `ceiling` at most; whether others wait.
    pub fn departs(&mut self, now: Instant, bytes: u64, ceiling: Rate, waiting: bool) {
        self.last = now;
        self.paced_until = self.paced_until.max(now) + ceiling.time_to_send(Bytes(bytes));
        if !waiting {
            self.idle_at = now;
        }
    }

    /// Time at which all that is under way is taken for lost, if no news comes.
    pub fn lost_at(&self) -> Instant {
        self.last.max(self.room_at) + self.patience
    }

    /// Time at which the next packet may leave for which there is room from `room` on.
    pub fn ready(&self, now: Instant, room: Instant) -> Instant {
        room.max(self.paced_until).max(now)
    }

    /// Notes news, after which there is `patience` until the next. Returns whether a silence has ended.
    pub const fn hears(&mut self, now: Instant, patience: Duration) -> bool {
        (self.room_at, self.patience) = (now, patience);
        core::mem::replace(&mut self.silent, false)
    }

    /// Gives up what is under way: the silence may last.
    pub fn gives_up(&mut self, now: Instant) {
        (self.room_at, self.silent) = (now, true);
        self.patience = (self.patience * 2).min(LOST_AT_MOST.max(self.patience));
    }
}
