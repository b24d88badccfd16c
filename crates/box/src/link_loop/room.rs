//! How many packets the kernel may hold for the box.
//!
//! A packet that waits in a discipline waits in the kernel's queue too, so that queue needs the discipline's own limit.
//! What comes on top has not been read yet, and is bounded by time: a second of the link in the smallest packets. What
//! comes faster than that is more than the link carries whatever is done with it; beyond, the kernel lets packets pass.

use narrows_qdisc::{Direction, ShaperConfig, Spec};
use narrows_units::{Bytes, Duration, Instant, Rate};

use super::Live;
use crate::channel::Channel;
use crate::lane::LaneSettings;
use crate::log::Notice;
use crate::packet::Passage;

/// Time for which unread packets need room: as long as the watchdog waits for the box.
const SPAN: Duration = Duration::from_secs(1);
/// The smallest frame of Ethernet.
const SMALL: Bytes = Bytes(64);
/// Packets not yet read, at least: a burst that a box with other things to do for some milliseconds must not let pass.
const LEAST: u64 = 512;
/// Most packets not yet read, also where there is no rate: the socket has no room for the copies of more.
const MOST: u64 = 16_384;
/// SYNs that admission control may hold of the other direction.
const SYNS: u64 = 1024;
/// Time between two messages about packets that passed.
const MINUTE: Duration = Duration::from_secs(60);
/// Time between two looks at a followed rate and at the packets that wait.
const EVERY: Duration = Duration::from_secs(1);

/// Room that the kernel was told, and when to tell it again.
#[derive(Debug, Default)]
pub struct Room {
    told: [u32; 2],
    due: Instant,
    /// Packets of which the kernel could not tell, as far as that was told to people.
    unseen: u64,
    tell_at: Instant,
}

impl Room {
    /// Has the room looked at before the next packets.
    pub const fn renew(&mut self) {
        self.due = Instant::ZERO;
    }
}

impl<C: Channel> Live<C> {
    /// Brings the accounts up to date with what the rules have counted.
    fn look_at_rules(&mut self) {
        let numbered = self.channel.passages().map(|passage| passage.offered);
        let Ok(offered) = self.watched.bypass().offered() else { return };
        for (d, account) in self.accounts.iter_mut().enumerate() {
            account.look(numbered[d], offered.map(|offered| offered[d]));
        }
    }

    /// Counts packets that came to the box's place, in each direction.
    pub(super) fn passages(&mut self) -> [Passage; 2] {
        let mut passages = self.channel.passages();
        for (passage, account) in passages.iter_mut().zip(&self.accounts) {
            passage.offered += account.passed() + std::mem::take(&mut passage.cut);
            passage.unqueued += account.passed();
        }
        passages
    }

    /// Lets the kernel hold as many packets as are due at the rate of now.
    pub(super) fn keep_room(&mut self, at: Instant, tell: &mut dyn FnMut(Notice)) {
        if at < self.room.due {
            return;
        }
        self.room.due = at + EVERY;
        self.look_at_rules();
        let unseen = self.passages().iter().map(|passage| passage.unqueued).sum::<u64>();
        if unseen > self.room.unseen && at >= self.room.tell_at {
            tell(Notice::Warning(format!(
                "{} packets passed unqueued: they came faster than the box could read them",
                unseen - self.room.unseen
            )));
            (self.room.unseen, self.room.tell_at) = (unseen, at + MINUTE);
        }
        let lanes = self.settings.lanes_as_told(&self.told);
        let room = Direction::BOTH.map(|d| {
            let (lane, other) = (&lanes[d as usize], &lanes[d.other() as usize]);
            packets(lane, other, self.engine.followed(at, d), self.engine.waiting(d))
        });
        if room != self.room.told {
            self.channel.hold_at_most(room);
            self.room.told = room;
        }
    }
}

/// The most packets of one direction; `found` is its rate where that is followed, and `waiting` are packets that an
/// earlier discipline with another limit may have left.
fn packets(lane: &LaneSettings, other: &LaneSettings, found: Option<Rate>, waiting: usize) -> u32 {
    let bound = match lane.link.filter(|_| !lane.observe) {
        None => MOST,
        Some(link) => {
            let link = ShaperConfig { rate: found.unwrap_or(link.rate), ..link };
            let limit = lane.discipline.limits(&link).packets.max(waiting) as u64;
            let second = link.rate.bytes_in(SPAN).get() / SMALL.get();
            limit.saturating_add(second.clamp(LEAST, MOST))
        }
    };
    let admits = other.link.is_some() && matches!(other.discipline, Spec::Taq(_));
    u32::try_from(bound.saturating_add(if admits { SYNS } else { 0 })).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(kbps: Option<u64>, spec: &str) -> LaneSettings {
        let link = kbps.map(|kbps| ShaperConfig::new(Rate::from_kbps(kbps)));
        LaneSettings::new(link, spec.parse().unwrap(), 1)
    }

    #[test]
    fn a_second_of_the_link_beyond_the_discipline() {
        let open = lane(None, "fifo:20");
        let of = |lane: &LaneSettings, found, waiting| packets(lane, &open, found, waiting);
        // 600 kbit/s are 75 000 bytes a second, 1171 packets of 64.
        let fifo = lane(Some(600), "fifo:20");
        assert_eq!(of(&fifo, None, 0), 20 + 1171);
        assert_eq!(of(&fifo, None, 90), 90 + 1171, "a shorter queue was put behind a longer");
        assert_eq!(of(&fifo, Some(Rate::from_kbps(1200)), 0), 20 + 2343, "the rate that was found");
        // 125 a second are too few for a burst; 195 312 are more than can be told of.
        assert_eq!(of(&lane(Some(64), "fifo:20"), None, 0), 20 + 512);
        assert_eq!(of(&lane(Some(100_000), "fifo:20"), None, 0), 20 + 16_384);
        assert_eq!(of(&open, None, 0), 16_384);
        let watched = LaneSettings { observe: true, ..fifo.clone() };
        assert_eq!(of(&watched, None, 0), 16_384);
        // Its memory is 4000 packets, and it holds SYNs of the other direction.
        let taq = lane(Some(600), "taq");
        assert_eq!((of(&taq, None, 0), packets(&fifo, &taq, None, 0)), (4000 + 1171, 20 + 1171 + 1024));
        assert_eq!(of(&lane(Some(600), "fifo:4000000000"), None, 0), 4_000_001_171);
    }
}
