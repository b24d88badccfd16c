//! Experience of users: how long they received nothing at all, and how long the first connection took.

use narrows_units::{Duration, Instant};

use super::report::{MAX, P50, P99, Tables};
use crate::statistics::sorted;

/// Hangs that are counted in any case, in seconds: the two of the paper's section 2.
const HANGS_S: [u64; 2] = [20, 60];

#[derive(Clone, Copy, Debug)]
struct User {
    /// Time at which something last came, or was first wanted after a pause.
    last: Instant,
    longest: Duration,
    /// Connections on which data is due.
    due: u32,
    first_attempt: Instant,
    /// Time at which the first connection stood; [`Instant::FAR_FUTURE`] before.
    connected: Instant,
}

/// All users that were heard of, in the order in which they first were: those who are there at the same time are
/// neighbours in memory, which with a million users halves the time a delivery takes here.
#[derive(Debug, Default)]
pub(super) struct Users {
    heard: Vec<User>,
    /// Place of each user in `heard`, by number; [`NOBODY`] for users not heard of.
    indices: Vec<u32>,
}

const NOBODY: u32 = u32::MAX;

impl Users {
    /// Adds the users of another part, who are others. Returns the place of the first user of `other`.
    pub(super) fn absorb(&mut self, other: Self) -> usize {
        let first = self.heard.len();
        self.heard.extend(other.heard);
        let places = self.indices.len().max(other.indices.len());
        self.indices.resize(places, NOBODY);
        let known = self.indices.iter_mut().zip(other.indices).filter(|(_, index)| *index != NOBODY);
        for (own, index) in known {
            *own = u32::try_from(first).unwrap_or(NOBODY).saturating_add(index);
        }
        first
    }

    /// Index of a user; `None` for a user not heard of.
    pub(super) fn user_index(&self, number: usize) -> Option<usize> {
        self.indices.get(number).filter(|index| **index != NOBODY).map(|index| *index as usize)
    }

    /// A connection of user `number` was opened, for what was first tried at `first_attempt`. Gives the user's place
    /// here, by which it is called from now on.
    pub(super) fn opened(&mut self, number: u32, first_attempt: Instant) -> u32 {
        let number = number as usize;
        if number >= self.indices.len() {
            self.indices.resize(number + 1, NOBODY);
        }
        let index = &mut self.indices[number];
        if let Some(user) = self.heard.get_mut(*index as usize) {
            user.first_attempt = user.first_attempt.min(first_attempt);
        } else {
            *index = u32::try_from(self.heard.len()).expect("users are numbered with 32 bits");
            let (last, longest, connected) = (Instant::ZERO, Duration::ZERO, Instant::FAR_FUTURE);
            self.heard.push(User { last, longest, due: 0, first_attempt, connected });
        }
        *index
    }

    /// Data is due on one connection more. The user may have wanted it for long, if `retries` connections failed
    /// before: then the time in between was waiting too.
    pub(super) fn wants(&mut self, now: Instant, user_index: u32, retries: u16) {
        let user = &mut self.heard[user_index as usize];
        if user.due == 0 && retries == 0 {
            user.last = now;
        }
        user.due += 1;
    }

    #[inline]
    pub(super) fn took(&mut self, now: Instant, user_index: u32) {
        let user = &mut self.heard[user_index as usize];
        user.longest = user.longest.max(now.since(user.last));
        user.last = now;
    }

    /// Data is due on one connection less.
    pub(super) fn served(&mut self, now: Instant, user_index: u32) {
        let user = &mut self.heard[user_index as usize];
        user.due -= 1;
        user.longest = user.longest.max(now.since(user.last));
    }

    pub(super) fn connected(&mut self, now: Instant, user_index: u32) {
        let user = &mut self.heard[user_index as usize];
        user.connected = user.connected.min(now);
    }

    /// Begins counting: hangs count as far as the hangs lie after `now`.
    pub(super) fn warm_up(&mut self, now: Instant) {
        for user in &mut self.heard {
            user.longest = Duration::ZERO;
            user.last = user.last.max(now);
        }
    }

    pub(super) fn report(&self, end: Instant, stalls: &[Duration], out: &mut Tables) {
        let users = || self.heard.iter().filter(|u| u.first_attempt < end);
        let longest = sorted(users().map(|u| {
            let now = if u.due > 0 { end.since(u.last) } else { Duration::ZERO };
            u.longest.max(now).as_secs_f64()
        }));
        out.quantiles("user_stall", &longest, &[P50, P99, MAX]);
        let mut limits: Vec<Duration> = HANGS_S.into_iter().map(Duration::from_secs).collect();
        limits.extend(stalls);
        for limit in limits {
            let over = longest.iter().filter(|h| **h > limit.as_secs_f64()).count();
            let name = format!("user_stall_over_{}s", limit.as_secs_f64());
            out.put(name, over as f64 / longest.len() as f64);
        }
        let waits = sorted(users().map(|u| u.connected.min(end).since(u.first_attempt).as_secs_f64()));
        out.quantiles("entry", &waits, &[P50, P99]);
        let never = users().filter(|u| u.connected > end).count();
        out.put("never_in", (!longest.is_empty()).then_some(never as f64));
    }
}
