//! New flows: they spend a credit before the old flows are served, and so much of the link they may have for that.
//!
//! A page of thirty objects is thirty flows, and the first packet of each goes before the old flows. Together they are
//! a stall for all of these. So while both wait, new flows have `new_share` of the link and the old ones the rest, but
//! for a little ([`IN_ADVANCE`]), which is all that they need of a link with room. None waits longer for that than if
//! it were old: it lets no more packets of old flows pass than there were old flows when it came. Requests do not count
//! as new flows: an upload's first packet in front of one costs a page more than the request costs the upload.

use narrows_units::{Duration, Rate};

use crate::Ppm;

/// Time of the link that new flows may have beyond their share: a wait nobody notices.
const IN_ADVANCE: Duration = Duration::from_millis(50);

/// Share of a link that new flows may have: one value for all lists before the link.
#[derive(Clone, Copy, Debug)]
pub struct NewShare {
    share: Ppm,
    /// [`IN_ADVANCE`] in the unit of [`NewFlows::ahead`].
    in_advance: i64,
}

impl NewShare {
    /// The whole link: new flows go before old ones whoever waits.
    pub const ALL: Self = Self { share: Ppm::ONE, in_advance: 0 };

    pub fn new(rate: Rate, share: Ppm) -> Self {
        let bytes = i64::try_from(rate.bytes_in(IN_ADVANCE).get()).unwrap_or(i64::MAX);
        Self { share, in_advance: bytes.saturating_mul(i64::from(Ppm::ONE.0)) }
    }
}

/// Lead of new flows over their share, and the time at which each is due.
#[derive(Debug)]
pub struct NewFlows {
    /// Lead of new flows over their share while others waited, in bytes on the link over [`Ppm::ONE`].
    ahead: i64,
    /// Packets the old flows have sent, modulo 2^16.
    sent: u16,
}

impl NewFlows {
    /// State in which nothing was sent.
    pub const NONE: Self = Self { ahead: 0, sent: 0 };

    /// Latest turn of a flow that comes while `old` old flows wait, as a count of their packets.
    pub fn due(&self, old: u32) -> u16 {
        // Half of what a count can tell apart. No thin link has so many flows.
        const FAR: u16 = i16::MAX.unsigned_abs();
        self.sent.wrapping_add(u16::try_from(old).unwrap_or(FAR).min(FAR))
    }

    fn is_due(&self, due: u16) -> bool {
        self.sent.wrapping_sub(due).cast_signed() >= 0
    }

    /// Whether the first of them goes before the old flows, if it is `due` then.
    pub fn may_go_first(&self, of: NewShare, due: u16) -> bool {
        self.ahead <= of.in_advance || self.is_due(due)
    }

    /// Charges `cost` bytes to a new flow that is `due` then and was served while old flows waited.
    pub fn passed(&mut self, of: NewShare, cost: i32, due: u16) {
        if !self.is_due(due) {
            self.ahead += i64::from(cost) * i64::from(Ppm::ONE.0 - of.share.0);
        }
    }

    /// An old flow has sent a packet of `cost` bytes.
    pub fn waited(&mut self, of: NewShare, cost: i32) {
        self.sent = self.sent.wrapping_add(1);
        if self.ahead > 0 {
            self.ahead -= i64::from(cost) * i64::from(of.share.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 ms of 240 kbit/s are 1500 bytes.
    fn share(share: u32) -> NewShare {
        NewShare::new(Rate::from_kbps(240), Ppm(share))
    }

    /// Kinds of flows served, `n` times, if both always wait and nobody is due.
    fn order(part: u32, n: usize) -> String {
        let (of, mut new_flows) = (share(part), NewFlows::NONE);
        let due = new_flows.due(1000);
        let step = |_| {
            if new_flows.may_go_first(of, due) {
                new_flows.passed(of, 1500, due);
                'n'
            } else {
                new_flows.waited(of, 1500);
                'o'
            }
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn shares_by_hand() {
        // Each is half a packet ahead; the third takes them beyond one packet, and a packet of an old flow back to it.
        assert_eq!(order(500_000, 9), "nnnononon");
        // Three quarters ahead, a quarter back.
        assert_eq!(order(250_000, 10), "nnoonooono");
        assert_eq!(order(1_000_000, 6), "nnnnnn", "all of it: before everybody, always");
    }

    #[test]
    fn who_is_due_goes_and_owes_nothing() {
        let (of, mut n) = (share(500_000), NewFlows::NONE);
        n.sent = u16::MAX;
        let (next, later) = (n.due(2), n.due(50));
        n.passed(of, 12_000, later);
        n.waited(of, 1500);
        assert!(!n.may_go_first(of, next), "one of two has passed it, and new flows are 5250 bytes ahead");
        n.waited(of, 1500);
        assert!(n.may_go_first(of, next) && !n.may_go_first(of, later));
        n.passed(of, 1500, next);
        // 4500 ahead; four packets of old flows make 3000 good, if those who were due owe nothing.
        (0..3).for_each(|_| n.waited(of, 1500));
        assert!(!n.may_go_first(of, later));
        n.waited(of, 1500);
        assert!(n.may_go_first(of, later));
    }
}
