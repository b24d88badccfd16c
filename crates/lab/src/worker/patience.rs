//! A user's stalls: the longest time in which none of the user's transfers got anything while one was waiting.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// State of one user. Times are seconds since the load began.
#[derive(Clone, Copy, Debug, Default)]
struct User {
    address: u32,
    waiting: u32,
    last: f64,
    longest: f64,
}

/// All users: first those who are there all the time, each with the address of the same number, then those who come.
#[derive(Debug)]
pub(super) struct Patience {
    users: Mutex<Vec<User>>,
    warmup: f64,
}

impl Patience {
    /// Creates a state in which no user waits; stalls before `warmup` will not count.
    pub(super) fn new(users: u32, warmup: f64) -> Self {
        let users = (0..users).map(|address| User { address, ..User::default() }).collect();
        Self { users: Mutex::new(users), warmup }
    }

    fn all(&self) -> MutexGuard<'_, Vec<User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, user: u32, change: impl FnOnce(&mut User)) {
        change(&mut self.all()[user as usize]);
    }

    /// A user comes to an address; gives the user's number.
    pub(super) fn add(&self, address: u32) -> u32 {
        let mut all = self.all();
        all.push(User { address, ..User::default() });
        all.len() as u32 - 1
    }

    /// A transfer of the user's begins.
    pub(super) fn begin(&self, user: u32, now: f64) {
        self.with(user, |u| {
            if u.waiting == 0 {
                u.last = now;
            }
            u.waiting += 1;
        });
    }

    /// Notes that payload for a user has arrived.
    pub(super) fn arrival(&self, user: u32, now: f64) {
        self.with(user, |u| {
            u.longest = u.longest.max(now - u.last.max(self.warmup));
            u.last = u.last.max(now);
        });
    }

    /// A transfer is over, whole or not: the time without anything counts up to now, and goes on for the user's others.
    pub(super) fn end(&self, user: u32, now: f64) {
        self.with(user, |u| {
            u.longest = u.longest.max(now - u.last.max(self.warmup));
            u.waiting = u.waiting.saturating_sub(1);
        });
    }

    /// The longest stall of each user.
    pub(super) fn longest(&self) -> Vec<f64> {
        self.all().iter().map(|u| u.longest).collect()
    }

    /// The address of each user.
    pub(super) fn addresses(&self) -> Vec<u32> {
        self.all().iter().map(|u| u.address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_stalls_only_while_nothing_comes_and_something_is_awaited() {
        let p = Patience::new(2, 10.0);
        p.begin(0, 1.0);
        p.begin(0, 2.0);
        p.arrival(0, 12.0);
        assert_eq!(p.longest(), [2.0, 0.0], "only what lies after the warm-up");
        p.arrival(0, 15.0);
        p.end(0, 16.0);
        p.end(0, 16.5);
        // Nobody waits from 16.5 to 30.
        p.begin(0, 30.0);
        p.end(0, 34.0);
        assert_eq!(p.longest(), [4.0, 0.0]);
        // One of two breaks, and nothing comes for the other either: one stall, not two.
        p.begin(1, 40.0);
        p.begin(1, 40.0);
        p.end(1, 43.0);
        p.end(1, 46.0);
        assert_eq!(p.longest(), [4.0, 6.0]);
        // Somebody comes to the first one's address and waits 5 s.
        let came = p.add(0);
        p.begin(came, 50.0);
        p.end(came, 55.0);
        assert_eq!((p.longest(), p.addresses()), (vec![4.0, 6.0, 5.0], vec![0, 1, 0]));
    }
}
