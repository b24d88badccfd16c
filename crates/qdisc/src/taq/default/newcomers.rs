//! Newcomers: flows that spend what a new one has before the round, and how much of the link that may be.
//!
//! A page of thirty objects is thirty flows, and the first packet of each goes before the round. Together they are a
//! silence for everybody who takes turns. So while both wait, newcomers have `new_share` of the link and the round the
//! rest, but for a little ([`IN_ADVANCE`]), which is all that they need of a link with room. None waits longer for that
//! than if it stood in the round: it lets no more packets of the round pass than flows stood there when it came. Requests
//! are no newcomers here: an upload's first packet in front of one costs a page more than the request costs the upload.

use narrows_lists::List;
use narrows_units::{Duration, Rate};

use super::flow_state::Turn;
use crate::Ppm;

/// What newcomers may have of the link beyond their share: a wait nobody notices.
const IN_ADVANCE: Duration = Duration::from_millis(50);

/// The flows in question, in the order in which they came.
#[derive(Debug)]
pub struct Newcomers {
    pub list: List<Turn>,
    share: Ppm,
    /// [`IN_ADVANCE`] in the unit of `ahead`.
    in_advance: i64,
    /// What they had beyond their share while others waited, in bytes on the link over [`Ppm::ONE`].
    ahead: i64,
    /// Packets the round has sent, modulo 2^16.
    sent: u16,
}

impl Newcomers {
    pub fn new(rate: Rate, share: Ppm) -> Self {
        let mut new = Self { list: List::EMPTY, share, in_advance: 0, ahead: 0, sent: 0 };
        new.reconfigure(rate, share);
        new
    }

    pub fn reconfigure(&mut self, rate: Rate, share: Ppm) {
        let bytes = i64::try_from(rate.bytes_in(IN_ADVANCE).get()).unwrap_or(i64::MAX);
        self.in_advance = bytes.saturating_mul(i64::from(Ppm::ONE.0));
        self.share = share;
    }

    /// When one that comes while `round` flows stand in the round is served at the latest, as a count of the round's packets.
    pub fn due(&self, round: u32) -> u16 {
        // Half of what a count can tell apart. No thin link has such a round.
        const FAR: u16 = i16::MAX.unsigned_abs();
        self.sent.wrapping_add(u16::try_from(round).unwrap_or(FAR).min(FAR))
    }

    fn is_due(&self, due: u16) -> bool {
        self.sent.wrapping_sub(due).cast_signed() >= 0
    }

    /// Whether the first of them goes before the round, if it is `due` then.
    pub fn go_first(&self, due: u16) -> bool {
        self.ahead <= self.in_advance || self.is_due(due)
    }

    /// One that is `due` then was served `cost` bytes while the round waited.
    pub fn passed(&mut self, cost: i32, due: u16) {
        if !self.is_due(due) {
            self.ahead += i64::from(cost) * i64::from(Ppm::ONE.0 - self.share.0);
        }
    }

    /// The round has sent a packet of `cost` bytes.
    pub fn waited(&mut self, cost: i32) {
        self.sent = self.sent.wrapping_add(1);
        if self.ahead > 0 {
            self.ahead -= i64::from(cost) * i64::from(self.share.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 ms of 240 kbit/s are 1500 bytes.
    fn newcomers(share: u32) -> Newcomers {
        Newcomers::new(Rate::from_kbps(240), Ppm(share))
    }

    /// Who is served, `n` times, if both always wait and nobody is due.
    fn order(share: u32, n: usize) -> String {
        let mut newcomers = newcomers(share);
        let due = newcomers.due(1000);
        let step = |_| {
            if newcomers.go_first(due) {
                newcomers.passed(1500, due);
                'n'
            } else {
                newcomers.waited(1500);
                'r'
            }
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn shares_by_hand() {
        // Each is half a packet ahead; the third takes them beyond one packet, and a packet of the round back to it.
        assert_eq!(order(500_000, 9), "nnnrnrnrn");
        // Three quarters ahead, a quarter back.
        assert_eq!(order(250_000, 10), "nnrrnrrrnr");
        assert_eq!(order(1_000_000, 6), "nnnnnn", "all of it: before everybody, always");
    }

    #[test]
    fn who_is_due_goes_and_owes_nothing() {
        let mut n = newcomers(500_000);
        n.sent = u16::MAX;
        let (next, later) = (n.due(2), n.due(50));
        n.passed(12_000, later);
        n.waited(1500);
        assert!(!n.go_first(next), "one of two has passed it, and newcomers are 5250 bytes ahead");
        n.waited(1500);
        assert!(n.go_first(next) && !n.go_first(later));
        n.passed(1500, next);
        // 4500 ahead; four packets of the round make 3000 good, if those who were due owe nothing.
        (0..3).for_each(|_| n.waited(1500));
        assert!(!n.go_first(later));
        n.waited(1500);
        assert!(n.go_first(later));
    }
}
