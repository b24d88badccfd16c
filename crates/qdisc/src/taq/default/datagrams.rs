//! Flows that are neither TCP nor QUIC: datagrams of applications, and tunnels whose inside cannot be seen.
//!
//! Copies cannot be told from data there, and no window holds the sender back: what waits delays what it repairs, by a
//! round for each packet. So where such a flow sends more than its share, it keeps two quanta waiting, or what its
//! round trip takes if rounds are shorter; beyond that the oldest packet goes: its sender learns soonest from it, and
//! voice has no use for it. An ECN-capable one is marked first.
//!
//! A flow below its share is told from one above by time (as in CoDel, RFC 8289): its queue runs empty again. Until a
//! second has passed without that, all that its share sends in two seconds may wait: a certificate, a frame of a video,
//! what a tunnel brings at once.
//!
//! A datagram larger than a packet comes as fragments, and one that is missing makes the others worthless. So they live
//! or die together: a datagram is judged by its first fragment that comes, and the others follow it.

use core::num::{NonZeroU16, NonZeroU32};

use narrows_flow::FlowId;
use narrows_units::{Duration, Instant};
use narrows_wire::Header;

use super::{DefaultMode, OTHERS_RTT};
use crate::{Packet, Reason, Verdicts};

/// Packets that a flow above its share may have waiting: one packet is served while the other is answered.
pub const OTHERS_PACKETS: u32 = 2;

/// Time within which a queue below its share runs empty: what waits for longer has been given up or asked for again
/// (DNS, RADIUS and IKE repeat after one to five seconds).
const EMPTIES_WITHIN: Duration = Duration::from_secs(1);

/// Time in which a flow's share must be able to send all that waits of the flow.
const MOST_WAITING: Duration = Duration::from_secs(2);

/// Bytes of the largest datagram.
const LARGEST: u64 = 65_535;

/// Packets that leave for one that comes, where a flow turns out to be above its share: so it loses what is too much a
/// few at a time, while it still sends.
const LOST_FOR_ONE: usize = 2;

/// Record of the datagrams of a flow.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Datagrams {
    /// Since when more waits than a flow above its share may have, in units of 2^20 ns; `None` since it was empty.
    full_since: Option<NonZeroU32>,
    /// Numbers of the datagram whose fragments are queued at present, and of the one whose fragments are not.
    admitted: Option<NonZeroU16>,
    refused: Option<NonZeroU16>,
}

impl Datagrams {
    /// Notes that nothing waits.
    pub const fn rests(&mut self) {
        (self.full_since, self.refused) = (None, None);
    }

    /// Time for which more than enough of the flow has waited without a break; more than enough waits at `now`.
    fn full_for(&mut self, now: Instant) -> Duration {
        let units = (now.as_nanos() >> 20) as u32;
        let since = *self.full_since.get_or_insert(NonZeroU32::MIN.saturating_add(units.saturating_sub(1)));
        Duration::from_nanos(u64::from(units.wrapping_sub(since.get())) << 20)
    }
}

impl<P: Packet> DefaultMode<P> {
    /// Tells whether a packet that arrives is a fragment of a datagram that is refused; `idle` says that nothing of
    /// its flow waits.
    pub(super) fn refuses(&mut self, now: Instant, id: FlowId, header: &Header, idle: bool) -> bool {
        if idle {
            self.queues.state_mut(id).datagrams.rests();
        }
        let Some(datagram) = header.ident.filter(|_| header.fragment).map(Some) else { return false };
        let state = self.queues.state(id);
        if state.datagrams.refused == datagram {
            return true;
        }
        let refused = if state.datagrams.admitted == datagram {
            state.bytes() > self.room(id, MOST_WAITING) + LARGEST
        } else {
            self.excess(now, id).is_some()
        };
        let datagrams = &mut self.queues.state_mut(id).datagrams;
        if refused {
            datagrams.refused = datagram;
        } else {
            datagrams.admitted = datagram;
        }
        refused
    }

    /// Bytes that a flow sends in `time`, two quanta at least.
    fn room(&self, id: FlowId, time: Duration) -> u64 {
        let (round, turns) = (self.queues.round(id), self.queues.turns());
        let quanta = (time.as_nanos() / round.as_nanos().max(1)).max(OTHERS_PACKETS.into());
        quanta * u64::from(turns.quantum().unsigned_abs()).max(turns.lengths().mean())
    }

    /// Bytes that a flow may keep waiting, if it has more, and not only because it has just begun to send.
    fn excess(&mut self, now: Instant, id: FlowId) -> Option<u64> {
        let (room, bytes) = (self.room(id, OTHERS_RTT), self.queues.state(id).bytes());
        if bytes <= room {
            return None;
        }
        let long = self.queues.state_mut(id).datagrams.full_for(now) > EMPTIES_WITHIN;
        (long || bytes > self.room(id, MOST_WAITING)).then_some(room)
    }

    /// Answers the backlog of a flow that is neither TCP nor QUIC. Of one with fragments each datagram was judged as it
    /// came.
    pub(super) fn manage_datagrams(&mut self, now: Instant, id: FlowId, verdicts: &mut Verdicts<P>) {
        for _ in 0..LOST_FOR_ONE {
            let Some(room) = self.excess(now, id) else { return };
            let Some(oldest) = self.queues.front(id) else { return };
            let header = self.queues.packet(oldest).header();
            if header.fragment && header.ident.is_some() {
                return;
            }
            let far = self.queues.state(id).bytes() > 2 * room;
            if far || !self.config.mark || !header.ecn.is_capable() {
                self.drop_at(now, id, oldest, Reason::Sojourn, verdicts);
            } else {
                if !self.queues.state(id).repair.is_open(now, self.queues.round(id) * 4) {
                    self.mark_or_drop(now, id, oldest, verdicts);
                }
                return;
            }
        }
    }
}
