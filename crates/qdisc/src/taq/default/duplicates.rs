//! Copies that need not be sent: the sender's timer did not know of our wait.
//!
//! A sender whose retransmission timer (RFC 6298) learned 200 ms from the handshake fires several times while its
//! first segment waits two seconds here. Each copy would take the place of new data, so a copy is discarded
//! 1. while the original still waits here: it goes out first and its acknowledgment makes the copy superfluous;
//! 2. when the original has been acknowledged, while that acknowledgment cannot have reached the sender before it sent
//!    the copy: for one round trip of the far side after the acknowledgment passed;
//! 3. when the original was held here for so long that the sender may have given it up, and has left, and its
//!    acknowledgment cannot be back yet; once for each original, so that a segment lost behind us is repaired by the
//!    next timeout at the latest; and not where duplicate acknowledgments or SACK blocks show that it was lost. What
//!    was not held is sent again for another reason: a tail loss probe, say (RFC 8985, section 7).
//!
//! A copy also carries the sender's acknowledgment, its SACK blocks and its window. It is sent where these say
//! anything that its original did not.
//!
//! Nothing is withheld for good: in (2) and (3) time runs out, in (1) the original is protected from being dropped.

use narrows_flow::{FlowId, Micros};
use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::TcpHeader;

use super::pending_repair::DUP_THRESH;
use super::queues::FlowQueues;
use crate::Packet;

/// Waiting packets of one flow that are compared with a copy. Flows under the clamp have two or three.
const LOOKED_AT: u8 = 64;

/// How many at least, and how many more for each packet of the flow that leaves, until all [`LOOKED_AT`] are again: who
/// sends nothing but copies of what lies deep in a long queue makes each cost no more than other packets do.
const LEAST: u8 = 8;

/// The shortest retransmission timeout of common stacks (Linux; RFC 6298 has a second), beside the round trip. What is
/// held here for less is not given up, nor is it while it is held for less than the path takes: a probe comes after two
/// round trips (RFC 8985, section 7.2).
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);

/// Segments of a flow that left recently, and acknowledgments of them: a copy is judged by both.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[repr(C)]
pub struct Departures {
    /// Time at which `highest_ack` last grew, if `acked`.
    acked_at: Instant,
    highest_ack: SeqNum,
    acked: bool,
    /// Acknowledgments that repeated the last; [`DUP_THRESH`] at once where a SACK block says the same.
    repeated: u8,
    /// The place in `last` that the next takes.
    next: u8,
    /// How many of [`LOOKED_AT`] are used up.
    looked: u8,
    last: [Departed; 4],
}

/// `len` bytes from `seq` have left; nothing if that is none.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Departed {
    seq: SeqNum,
    len: u16,
    /// Summary of the segment's header by [`told`].
    told: u16,
    /// Time at which it came and when it left; the same once a copy of it has been suppressed, so that no other is.
    came: Micros,
    left: Micros,
}

impl Departures {
    /// Notes that [seq, end), which is not empty and told so much, came and has left.
    pub fn note(&mut self, seq: SeqNum, end: SeqNum, told: u16, came: Micros, left: Micros) {
        self.looked = self.looked.saturating_sub(LEAST);
        let len = u16::try_from(end - seq).unwrap_or(u16::MAX);
        self.last[usize::from(self.next % 4)] = Departed { seq, len, told, came, left };
        self.next = (self.next + 1) % 4;
    }

    fn highest_ack(&self) -> Option<SeqNum> {
        self.acked.then_some(self.highest_ack)
    }

    /// Notes the acknowledgment of a passing packet, which is of what was sent; whether it is of more than any before.
    pub fn acknowledged(&mut self, now: Instant, tcp: &TcpHeader) -> bool {
        let grows = self.highest_ack().is_none_or(|a| a.before(tcp.ack));
        if grows {
            (self.highest_ack, self.acked) = (tcp.ack, true);
            (self.acked_at, self.repeated) = (now, 0);
        } else if self.highest_ack == tcp.ack && tcp.is_pure_ack() {
            if tcp.sack.as_slice().iter().any(|(left, _)| tcp.ack.before(*left)) {
                self.repeated = DUP_THRESH as u8;
            } else if tcp.sack.as_slice().is_empty() {
                // A block below `ack` reports a copy (RFC 2883).
                self.repeated = self.repeated.saturating_add(1);
            }
        }
        grows
    }

    /// Whether a copy can be discarded whose original has left: rules 2 and 3 at the head of the file. `near` and `far`
    /// are the round trips to the receiver and to the sender.
    pub fn excuse(
        &mut self,
        now: Instant,
        copy: &TcpHeader,
        near: Option<Duration>,
        far: Option<Duration>,
    ) -> bool {
        let (seq, end) = (copy.seq, copy.seq_end());
        if self.told_else(seq, end, told(copy)) {
            return false;
        }
        // A quarter more than the shortest round trip seen, for its jitter.
        let margin = |rtt: Duration| rtt + rtt / 4 + Duration::from_millis(2);
        if self.highest_ack().is_some_and(|a| end.at_or_before(a)) {
            return far.is_some_and(|far| now.since(self.acked_at) < margin(far));
        }
        // Acknowledgments show that a packet is missing there: it was lost behind the box (RFC 5681, section 3.2; RFC
        // 6675).
        let shows_loss = u32::from(self.repeated) >= DUP_THRESH;
        if shows_loss && self.highest_ack().is_some_and(|a| a.at_or_before(seq)) {
            return false;
        }
        // 40 ms: the delayed acknowledgment of common stacks.
        near.zip(far).is_some_and(|(near, far)| {
            let back = margin(near + far) + Duration::from_millis(40);
            self.suppress(seq, end, now, (near + far).min(SHORTEST_TIMEOUT), back)
        })
    }

    /// How many packets may be looked at in search of an original.
    fn looks(&self) -> u8 {
        (LOOKED_AT - self.looked).max(LEAST)
    }

    /// Notes that so many packets were looked at.
    fn note_looks(&mut self, looks: u8) {
        self.looked = self.looked.saturating_add(looks).min(LOOKED_AT);
    }

    fn original(&mut self, seq: SeqNum, end: SeqNum) -> Option<&mut Departed> {
        let covers = |d: &&mut Departed| {
            d.len > 0 && d.seq.at_or_before(seq) && end.at_or_before(d.seq + u32::from(d.len))
        };
        self.last.iter_mut().find(covers)
    }

    /// Whether the original of [seq, end) is known and told something else.
    fn told_else(&mut self, seq: SeqNum, end: SeqNum, told: u16) -> bool {
        self.original(seq, end).is_some_and(|d| d.told != told)
    }

    /// Whether a copy of [seq, end) can be discarded at `now`, because its original was held for more than `patience`
    /// and left less than `back` ago; true at most once for each original. What was dropped here has no original.
    fn suppress(
        &mut self,
        seq: SeqNum,
        end: SeqNum,
        now: Instant,
        patience: Duration,
        back: Duration,
    ) -> bool {
        let now = Micros::at(now);
        match self.original(seq, end) {
            Some(d) if d.left.since(d.came) > patience && now.since(d.left) < back => {
                d.came = d.left;
                true
            }
            _ => false,
        }
    }
}

/// Summary of a segment's header beside its data and SACK blocks: acknowledgment and window. Two that differ are
/// told apart but for one in 65 536.
pub const fn told(tcp: &TcpHeader) -> u16 {
    tcp.ack.0 as u16 ^ tcp.window
}

/// Whether all of `copy`'s data waits, and tells as much; what covers it is protected from then on.
pub fn waits<P: Packet>(queues: &mut FlowQueues<P>, flow: FlowId, copy: &TcpHeader) -> bool {
    let (seq, end) = (copy.seq, copy.seq_end());
    let span = |p: &P| {
        let tcp = p.header().tcp.as_ref().filter(|t| told(t) == told(copy))?;
        Some((tcp.seq, tcp.seq_end())).filter(|(s, e)| s.before(end) && seq.before(*e))
    };
    let most = queues.state(flow).departures.looks();
    let (mut need, mut looks, mut first) = (seq, 0, None);
    let mut next = queues.front(flow);
    while let Some(at) = next.filter(|_| looks < most && need.before(end)) {
        if let Some((s, e)) = span(queues.packet(at)) {
            first = first.or(Some(at));
            if s.at_or_before(need) && need.before(e) {
                need = e;
            }
        }
        looks += 1;
        next = queues.behind(at);
    }
    queues.state_mut(flow).departures.note_looks(looks);
    if need.before(end) {
        return false;
    }
    // Originals that were found stand from the first to where the search ended.
    while let Some(at) = first.filter(|at| Some(*at) != next) {
        if span(queues.packet(at)).is_some() {
            queues.protect(at);
        }
        first = queues.behind(at);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::taq::default::queues::samples::{self, queued};
    use narrows_wire::Flags;

    #[test]
    fn what_waits_covers_across_packets_but_not_across_holes() {
        // From 100 to 200 in two packets, and from 250 to 300.
        let (mut queues, flow) = queued(&[]);
        for (seq, len) in [(100, 50), (150, 50), (250, 50)] {
            samples::push(&mut queues, flow, seq, len, true);
        }
        let copy = |a: u32, b: u32| samples::data(a, b - a).header.tcp.unwrap();
        let mut covers = |a: u32, b: u32| waits(&mut queues, flow, &copy(a, b));
        assert!(covers(100, 150) && covers(120, 130) && covers(100, 200) && covers(250, 300));
        assert!(!covers(99, 150) && !covers(150, 251) && !covers(200, 250) && !covers(100, 300));
    }

    #[test]
    fn a_departed_original_excuses_one_copy_for_a_while() {
        let mut d = Departures::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let ms = |ms: u64| Micros::at(at(ms));
        d.note(SeqNum(0), SeqNum(100), 7, ms(0), ms(1000));
        d.note(SeqNum(200), SeqNum(300), 7, ms(0), ms(1010));
        d.note(SeqNum(400), SeqNum(500), 7, ms(1000), ms(1010));
        assert!(d.told_else(SeqNum(0), SeqNum(100), 8) && !d.told_else(SeqNum(0), SeqNum(100), 7));
        assert!(!d.told_else(SeqNum(100), SeqNum(200), 8), "unknown");
        let back = Duration::from_millis(50);
        let patience = Duration::from_millis(10);
        let mut suppress = |seq, end, ms| d.suppress(SeqNum(seq), SeqNum(end), at(ms), patience, back);
        assert!(suppress(0, 100, 1040));
        assert!(!suppress(0, 100, 1041), "once");
        assert!(!suppress(200, 300, 1061), "too late");
        assert!(!suppress(300, 400, 1020), "never left");
        assert!(!suppress(400, 500, 1020), "not held");
        assert!(!suppress(100, 200, 1020), "dropped here, while what follows it left");
    }

    #[test]
    fn a_copy_is_excused_until_its_acknowledgment_can_be_back() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let segment = |seq: u32| TcpHeader { seq: SeqNum(seq), payload: 100, ..TcpHeader::default() };
        let ack = |ack: u32| TcpHeader { ack: SeqNum(ack), flags: Flags::ACK, ..TcpHeader::default() };
        let (near, far) = (Some(Duration::from_millis(20)), Some(Duration::from_millis(80)));
        let told = told(&segment(0));
        let mut sent = Departures::default();
        let (came, left) = (Micros::at(at(0)), Micros::at(at(1000)));
        sent.note(SeqNum(0), SeqNum(100), told, came, left);
        sent.note(SeqNum(100), SeqNum(200), told, came, left);
        // Round trips of 100 ms, a quarter more, 2 and 40 ms: until 167 ms.
        assert!(!sent.excuse(at(1168), &segment(0), near, far));
        assert!(!sent.excuse(at(1166), &segment(0), near, None), "nobody knows how far the sender is");
        assert!(sent.excuse(at(1166), &segment(0), near, far));
        // Acknowledged at 1200 ms: the sender, 80 ms away, knows by 1302.
        assert!(sent.acknowledged(at(1200), &ack(100)));
        assert!(
            sent.excuse(at(1301), &segment(0), near, far) && !sent.excuse(at(1302), &segment(0), near, far)
        );
        // The third acknowledgment that repeats it shows that the next segment is missing.
        (0..3).for_each(|_| assert!(!sent.acknowledged(at(1210), &ack(100))));
        assert!(!sent.excuse(at(1150), &segment(100), near, far));
    }
}
