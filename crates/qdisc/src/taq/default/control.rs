//! Packets that carry no data do not wait for rounds.
//!
//! A SYN-ACK, a pure acknowledgment or the FIN of a flow that has nothing else waiting takes a twentieth of a data
//! packet's time, and while it waits the other end's timer runs: it sends its request or its FIN again and is answered
//! again. So they go first, up to a share of the link; what is beyond that waits in its flow's queue, so that a flood
//! of acknowledgments cannot take the link. Where acknowledgments of a flow wait there, those of it that go first are
//! paid for in turns ([`Turns::pay_in_turn`](super::turns::Turns::pay_in_turn)), so that whoever downloads has no more
//! of a thin way up than whoever sends.
//!
//! An acknowledgment may overtake its flow's data: it moves no sequence number. A FIN or RST may not.

use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_wire::{Flags, Header};

use crate::taq::DefaultConfig;

/// Time for which unused share is kept.
const ACCRUED: Duration = Duration::from_millis(200);

/// Whether a packet is of a class that goes before all flows: the one place that says so. `idle` says that nothing else
/// of its flow waits.
#[inline]
pub fn goes_first(config: &DefaultConfig, header: &Header, idle: bool) -> bool {
    config.new_flows_first && is_control(header, idle)
}

/// Whether a packet carries no data and may overtake the other packets of its flow.
fn is_control(header: &Header, idle: bool) -> bool {
    header.tcp.as_ref().is_some_and(|t| {
        t.payload == 0 && (idle || (t.is_pure_ack() || t.flags.has(Flags::SYN.and(Flags::ACK))))
    })
}

/// The part of the link that such packets may have, and how far it is used.
#[derive(Clone, Copy, Debug)]
pub struct ControlShare {
    /// Time up to which the share has paid for what was let in; it may lie `ACCRUED` in the past.
    paid_until: Instant,
}

impl ControlShare {
    pub const UNUSED: Self = Self { paid_until: Instant::ZERO };

    /// Lets a packet of `cost` bytes on the link in, unless the share is used up.
    pub fn charge(&mut self, now: Instant, share: Rate, cost: Bytes) -> bool {
        if self.paid_until > now {
            return false;
        }
        self.paid_until = self.paid_until.max(now - ACCRUED) + share.time_to_send(cost);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::TcpHeader;

    fn header(flags: Flags, payload: u32) -> Header {
        Header { tcp: Some(TcpHeader { flags, payload, ..TcpHeader::default() }), ..Header::default() }
    }

    #[test]
    fn what_may_overtake() {
        let is = |flags, payload, idle| is_control(&header(flags, payload), idle);
        assert!(is(Flags::ACK, 0, false) && is(Flags::SYN.and(Flags::ACK), 0, false));
        assert!(is(Flags::FIN.and(Flags::ACK), 0, true) && is(Flags::RST, 0, true));
        assert!(!is(Flags::FIN.and(Flags::ACK), 0, false), "a FIN must not come before its data");
        assert!(!is(Flags::RST, 0, false), "nor an RST: it would throw the data away");
        assert!(!is(Flags::ACK, 1, true));
    }

    #[test]
    fn the_share_is_kept() {
        // 80 kbit/s: 100 B take 10 ms. 200 ms are saved up: 21 at once, then one each 10 ms.
        let mut c = ControlShare::UNUSED;
        let share = Rate::from_kbps(80);
        let mut now = Instant::from_nanos(1_000_000_000);
        let burst = std::iter::from_fn(|| c.charge(now, share, Bytes(100)).then_some(())).count();
        assert_eq!(burst, 21);
        now += Duration::from_millis(100);
        let later = std::iter::from_fn(|| c.charge(now, share, Bytes(100)).then_some(())).count();
        assert_eq!(later, 10);
    }
}
