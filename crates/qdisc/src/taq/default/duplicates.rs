//! Copies that need not be sent: the sender's timer did not know of our wait.
//!
//! A sender whose retransmission timer (RFC 6298) learned 200 ms from the handshake fires several times while its
//! first segment waits two seconds here. Each copy would take the place of new data, so a copy is discarded
//! 1. while the original still waits here: it goes out first and its acknowledgment makes the copy superfluous;
//! 2. when the original has been acknowledged, while that acknowledgment cannot have reached the sender before it sent
//!    the copy: for one round trip of the far side after the acknowledgment passed;
//! 3. when the original has left and its acknowledgment cannot be back yet; once for each original, so that a segment
//!    lost behind us is repaired by the next timeout at the latest; and not where duplicate acknowledgments or SACK
//!    blocks show that it was lost.
//!
//! A copy also carries the sender's acknowledgment, its SACK blocks and its window. It is sent where these say
//! anything that its original did not.
//!
//! Nothing is withheld for good: in (2) and (3) time runs out, in (1) the original is protected from being dropped.

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::TcpHeader;

use super::packets::{FlowQueue, PacketSlab};
use crate::Packet;

/// How many waiting packets of one flow are compared with a copy. Flows under the clamp have two or three.
const LOOKED_AT: usize = 64;

/// The last departures of a flow.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Departures([Departed; 4]);

/// `len` bytes from `seq` have left; nothing if that is none.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Departed {
    seq: SeqNum,
    len: u16,
    /// What it [`told`].
    told: u16,
    /// [`SUPPRESSED`] once a copy of it has been.
    at: Instant,
}

/// In place of the instant of departure: no other copy is excused.
const SUPPRESSED: Instant = Instant::FAR_FUTURE;

impl Departures {
    /// Notes that [seq, end), which is not empty, has left and told so much. `next` is the place for it, kept by the
    /// caller where it is at hand.
    pub fn note(&mut self, next: &mut u8, (seq, end): (SeqNum, SeqNum), told: u16, at: Instant) {
        let len = u16::try_from(end - seq).unwrap_or(u16::MAX);
        self.0[usize::from(*next % 4)] = Departed { seq, len, told, at };
        *next = (*next + 1) % 4;
    }

    fn original(&mut self, seq: SeqNum, end: SeqNum) -> Option<&mut Departed> {
        let covers = |d: &&mut Departed| {
            d.len > 0 && d.seq.at_or_before(seq) && end.at_or_before(d.seq + u32::from(d.len))
        };
        self.0.iter_mut().find(covers)
    }

    /// Whether the original of [seq, end) is known and told something else.
    pub fn told_else(&mut self, seq: SeqNum, end: SeqNum, told: u16) -> bool {
        self.original(seq, end).is_some_and(|d| d.told != told)
    }

    /// Whether a copy of [seq, end) can be discarded at `now`, because its original left less than `back` ago; true at
    /// most once for each original. What was dropped here has no original.
    pub fn suppress(&mut self, seq: SeqNum, end: SeqNum, now: Instant, back: Duration) -> bool {
        match self.original(seq, end) {
            Some(d) if d.at != SUPPRESSED && now.since(d.at) < back => {
                d.at = SUPPRESSED;
                true
            }
            _ => false,
        }
    }
}

/// What a segment tells beside its data and SACK blocks, in short: acknowledgment and window. Two that differ are told
/// apart but for one in 65 536.
pub const fn told(tcp: &TcpHeader) -> u16 {
    tcp.ack.0 as u16 ^ tcp.window
}

/// Whether all of `copy`'s data waits in the queue, and tells as much; what covers it is protected from then on.
pub fn waits<P: Packet>(packets: &mut PacketSlab<P>, queue: &FlowQueue, copy: &TcpHeader) -> bool {
    let (seq, end) = (copy.seq, copy.seq_end());
    let span = |p: &P| p.header().tcp.filter(|t| told(t) == told(copy)).map(|t| (t.seq, t.seq_end()));
    let mut need = seq;
    for packet in packets.packets(queue).take(LOOKED_AT) {
        if let Some((s, e)) = span(packet)
            && s.at_or_before(need)
            && need.before(e)
        {
            need = e;
            if end.at_or_before(need) {
                break;
            }
        }
    }
    if need.before(end) {
        return false;
    }
    let mut next = queue.head();
    for _ in 0..LOOKED_AT {
        let Some(at) = next else { break };
        if let Some((s, e)) = span(packets.get(at))
            && s.before(end)
            && seq.before(e)
        {
            packets.protect(at);
        }
        next = packets.after(queue, at);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;

    fn data(seq: u32, payload: u32) -> Record {
        let mut r = Record::default();
        r.header.tcp = Some(TcpHeader { seq: SeqNum(seq), payload, ..TcpHeader::default() });
        r
    }

    #[test]
    fn what_waits_covers_across_packets_but_not_across_holes() {
        let (mut packets, mut queue) = (PacketSlab::new(), FlowQueue::default());
        for (seq, len) in [(100, 50), (150, 50), (250, 50)] {
            let at = packets.insert(data(seq, len));
            packets.push_back(&mut queue, at, u64::from(len), true);
        }
        let mut covers = |a: u32, b: u32| waits(&mut packets, &queue, &data(a, b - a).header.tcp.unwrap());
        assert!(covers(100, 150) && covers(120, 130) && covers(100, 200) && covers(250, 300));
        assert!(!covers(99, 150) && !covers(150, 251) && !covers(200, 250) && !covers(100, 300));
    }

    #[test]
    fn a_departed_original_excuses_one_copy_for_a_while() {
        let mut d = Departures::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut next = 0;
        d.note(&mut next, (SeqNum(0), SeqNum(100)), 7, at(0));
        d.note(&mut next, (SeqNum(200), SeqNum(300)), 7, at(10));
        assert!(d.told_else(SeqNum(0), SeqNum(100), 8) && !d.told_else(SeqNum(0), SeqNum(100), 7));
        assert!(!d.told_else(SeqNum(100), SeqNum(200), 8), "unknown");
        let back = Duration::from_millis(50);
        let mut suppress = |seq, end, ms| d.suppress(SeqNum(seq), SeqNum(end), at(ms), back);
        assert!(suppress(0, 100, 40));
        assert!(!suppress(0, 100, 41), "once");
        assert!(!suppress(200, 300, 61), "too late");
        assert!(!suppress(300, 400, 20), "never left");
        assert!(!suppress(100, 200, 20), "dropped here, while what follows it left");
    }
}
