//! Traffic of one user: bytes that came for it and that left the box, and how long its data waited here, by minute for
//! an hour and by hour for a week.

use narrows_units::Duration;

use super::book::HOUR;

/// Hours that are kept: a week.
pub const WEEK_HOURS: usize = 7 * 24;

/// Traffic of a user in some time. Bytes are those of IP packets, down and up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that came to the box.
    pub offered: [u64; 2],
    /// Bytes that left the box.
    pub delivered: [u64; 2],
    /// Packets with data that left the box, and the sum of their waits in the box.
    packets: u64,
    waited: Duration,
}

impl Traffic {
    /// Mean time for which packets with data waited in the box.
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.waited.as_nanos() / self.packets.max(1))
    }

    /// Bytes of both directions that left the box.
    pub fn bytes(&self) -> u64 {
        self.delivered[0].saturating_add(self.delivered[1])
    }

    fn add(&mut self, other: &Self) {
        for d in [0, 1] {
            self.offered[d] = self.offered[d].saturating_add(other.offered[d]);
            self.delivered[d] = self.delivered[d].saturating_add(other.delivered[d]);
        }
        self.packets += other.packets;
        self.waited += other.waited;
    }
}

/// Traffic of a user over time.
#[derive(Clone, Debug)]
pub struct Usage {
    /// The present minute, counted from the start of the box.
    minute: u64,
    minutes: [Traffic; HOUR],
    /// Bytes delivered in each whole hour of the last week, down and up, by the hour's number; those that are over.
    hours: Vec<[u64; 2]>,
}

impl Usage {
    /// Makes a record without traffic that begins at this minute.
    pub fn new(minute: u64) -> Self {
        Self { minute, minutes: [Traffic::default(); HOUR], hours: Vec::new() }
    }

    /// Counts a packet of direction `d` that comes to the box.
    pub fn offered(&mut self, d: usize, bytes: u64) {
        let sum = &mut self.present().offered[d];
        *sum = sum.saturating_add(bytes);
    }

    /// Counts a packet of direction `d` that leaves the box; `waited` is known if it carries data.
    pub fn delivered(&mut self, d: usize, bytes: u64, waited: Option<Duration>) {
        let now = self.present();
        now.delivered[d] = now.delivered[d].saturating_add(bytes);
        if let Some(waited) = waited {
            now.packets += 1;
            now.waited += waited;
        }
    }

    fn present(&mut self) -> &mut Traffic {
        &mut self.minutes[self.minute as usize % HOUR]
    }

    /// Moves on to `minute`; an hour that is over is added to the week's hours.
    pub fn tick(&mut self, minute: u64) {
        // After a longer gap no earlier minute or hour is kept.
        let most = (HOUR * (WEEK_HOURS + 1)) as u64;
        self.minute = self.minute.max(minute.saturating_sub(most));
        while self.minute < minute {
            self.minute += 1;
            if self.minute.is_multiple_of(HOUR as u64) {
                let hour = self.last(HOUR).delivered;
                if self.hours.is_empty() {
                    self.hours = vec![[0; 2]; WEEK_HOURS];
                }
                self.hours[(self.minute / HOUR as u64) as usize % WEEK_HOURS] = hour;
            }
            *self.present() = Traffic::default();
        }
    }

    /// Adds up the latest `minutes` minutes, the present one included.
    pub fn last(&self, minutes: usize) -> Traffic {
        let mut sum = Traffic::default();
        for back in 0..minutes.min(HOUR).min(self.minute as usize + 1) {
            sum.add(&self.minutes[(self.minute as usize - back) % HOUR]);
        }
        sum
    }

    /// Bytes delivered in the last seven days, down and up: whole hours, and the present one.
    pub fn week(&self) -> [u64; 2] {
        let hour = self.last((self.minute % HOUR as u64) as usize + 1).delivered;
        [0, 1].map(|d: usize| self.hours.iter().fold(hour[d], |sum, hour| sum.saturating_add(hour[d])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn minutes_are_summed_and_forgotten_after_an_hour() {
        let mut usage = Usage::new(10);
        usage.offered(0, 1500);
        usage.offered(0, 1500);
        usage.delivered(0, 1500, Some(ms(200)));
        usage.tick(11);
        usage.delivered(0, 500, Some(ms(100)));
        usage.delivered(1, 40, None);
        let both = usage.last(2);
        assert_eq!((both.offered, both.delivered, both.bytes()), ([3000, 0], [2000, 40], 2040));
        assert_eq!(both.wait(), ms(150));
        assert_eq!(usage.last(1).delivered, [500, 40]);
        usage.tick(70);
        assert_eq!(usage.last(HOUR).delivered, [500, 40], "minutes 11 to 70");
        usage.tick(71);
        assert_eq!(usage.last(HOUR), Traffic::default());
    }

    /// Minutes 50 and 65 lie in the first and second hour. A week and an hour later both are forgotten.
    #[test]
    fn a_week_has_each_byte_once() {
        let mut usage = Usage::new(50);
        usage.delivered(0, 7, None);
        usage.tick(65);
        usage.delivered(0, 5, None);
        assert_eq!(usage.week(), [12, 0]);
        usage.tick(3 * 60);
        usage.delivered(1, 1, None);
        assert_eq!(usage.week(), [12, 1]);
        usage.tick(60 * WEEK_HOURS as u64 - 1);
        assert_eq!(usage.week(), [12, 1]);
        usage.tick(60 * (WEEK_HOURS as u64 + 1));
        assert_eq!(usage.week(), [5, 1]);
        usage.tick(60 * 100_000);
        assert_eq!(usage.week(), [0, 0]);
    }
}
