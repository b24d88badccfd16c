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
//! Nothing is withheld for good: in (2) and (3) time runs out, in (1) the original is protected from being dropped.

use narrows_units::{Duration, Instant, SeqNum};

use super::packets::{FlowQueue, PacketSlab};
use crate::Packet;

/// How many waiting packets of one flow are compared with a copy. Flows under the clamp have two or three.
const LOOKED_AT: usize = 64;

/// The last departures of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Departures([Departed; 4]);

/// [seq, end) has left; nothing if it is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Departed {
    seq: SeqNum,
    end: SeqNum,
    /// [`SUPPRESSED`] once a copy of it has been.
    at: Instant,
}

/// In place of the instant of departure: no other copy is excused.
const SUPPRESSED: Instant = Instant::FAR_FUTURE;

impl Departures {
    /// Some word of it, to have it fetched.
    pub const fn prefetch(&self) -> SeqNum {
        self.0[0].seq
    }

    /// Notes that [seq, end), which is not empty, has left. `next` is the place for it, kept by the caller where it is
    /// at hand.
    pub fn note(&mut self, next: &mut u8, seq: SeqNum, end: SeqNum, at: Instant) {
        self.0[usize::from(*next % 4)] = Departed { seq, end, at };
        *next = (*next + 1) % 4;
    }

    /// Whether a copy of [seq, end) can be discarded at `now`, because its original left less than `back` ago; true at
    /// most once for each original. What was dropped here has no original.
    pub fn suppress(&mut self, seq: SeqNum, end: SeqNum, now: Instant, back: Duration) -> bool {
        let covers = |d: &&mut Departed| d.seq != d.end && d.seq.at_or_before(seq) && end.at_or_before(d.end);
        match self.0.iter_mut().find(covers) {
            Some(d) if d.at != SUPPRESSED && now.since(d.at) < back => {
                d.at = SUPPRESSED;
                true
            }
            _ => false,
        }
    }
}

/// Whether all of [seq, end) waits in the queue; what covers it is protected from then on.
pub fn waits<P: Packet>(packets: &mut PacketSlab<P>, queue: &FlowQueue, seq: SeqNum, end: SeqNum) -> bool {
    let span = |p: &P| p.header().tcp.map(|t| (t.seq, t.seq_end()));
    let mut need = seq;
    for entry in packets.packets(queue).take(LOOKED_AT) {
        if let Some((s, e)) = span(&entry.packet)
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
        let entry = packets.get_mut(at);
        if let Some((s, e)) = span(&entry.packet)
            && s.before(end)
            && seq.before(e)
        {
            entry.protected = true;
        }
        next = packets.after(queue, at);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use narrows_wire::TcpHeader;

    fn data(seq: u32, payload: u32) -> Record {
        let mut r = Record::default();
        r.header.tcp = Some(TcpHeader { seq: SeqNum(seq), payload, ..TcpHeader::default() });
        r
    }

    #[test]
    fn what_waits_covers_across_packets_but_not_across_holes() {
        let (mut packets, mut queue) = (PacketSlab::new(), FlowQueue::default());
        for (seq, len) in [(100, 50), (150, 50), (250, 50)] {
            packets.push_back(&mut queue, data(seq, len), u64::from(len), true);
        }
        let mut covers = |a, b| waits(&mut packets, &queue, SeqNum(a), SeqNum(b));
        assert!(covers(100, 150) && covers(120, 130) && covers(100, 200) && covers(250, 300));
        assert!(!covers(99, 150) && !covers(150, 251) && !covers(200, 250) && !covers(100, 300));
    }

    #[test]
    fn a_departed_original_excuses_one_copy_for_a_while() {
        let mut d = Departures::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut next = 0;
        d.note(&mut next, SeqNum(0), SeqNum(100), at(0));
        d.note(&mut next, SeqNum(200), SeqNum(300), at(10));
        let back = Duration::from_millis(50);
        let mut suppress = |seq, end, ms| d.suppress(SeqNum(seq), SeqNum(end), at(ms), back);
        assert!(suppress(0, 100, 40));
        assert!(!suppress(0, 100, 41), "once");
        assert!(!suppress(200, 300, 61), "too late");
        assert!(!suppress(300, 400, 20), "never left");
        assert!(!suppress(100, 200, 20), "dropped here, while what follows it left");
    }
}
