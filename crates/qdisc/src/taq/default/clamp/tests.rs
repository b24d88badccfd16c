use std::collections::VecDeque;

use super::*;
use crate::dice::Dice;

fn ack(ack: u32, window: u16) -> TcpHeader {
    TcpHeader { ack: SeqNum(ack), window, ..TcpHeader::default() }
}

/// What has been seen of a sender, of which all that is acknowledged has been served and no more.
fn sent(max_seq: u32, segment: u32) -> Sent {
    Sent { served: SeqNum(0), max_seq: SeqNum(max_seq), segment }
}

#[test]
fn the_edge_by_hand() {
    // Scale 7: units of 128. Nothing sent yet, two segments wanted: 2 * 1448 = 22 units and 80 bytes, 3 * 1448 = 33 and
    // 120, 4 * 1448 = 45 and 32, less than 1448 / 32: the edge is 45 units on, at 6760.
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(1000, 500), 7, 2896, sent(1000, 1448)), Some(45));
    assert_eq!(c.edge(), Some(SeqNum(6760)));
    // Four segments have come, one is acknowledged and served: what is wanted has been granted. (6760 - 2448) / 128 is
    // 33.7: the field says 34, the edge is at 6800, less than a segment beyond what was sent.
    assert_eq!(c.window(&ack(2448, 500), 7, 2896, sent(6792, 1448)), Some(34));
    assert_eq!(c.edge(), Some(SeqNum(6800)));
}

#[test]
fn segments_that_fit_the_unit_are_granted_whole() {
    // 448 = 3.5 units: two fit, and from there on every second one.
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(0, 500), 7, 448, sent(0, 448)), Some(7));
    assert_eq!(c.window(&ack(896, 500), 7, 1344, sent(896, 448)), Some(14));
    // Scale 10: of 896, 1344 and 1792 bytes the last but one is closest to a whole unit, 320 beyond one. 7 * 448 would
    // be only 64 more than three, but three are more than four segments.
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(0, 60), 10, 896, sent(0, 448)), Some(1));
    // Scale 0: any edge can be told.
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(0, 60_000), 0, 1448, sent(0, 1448)), Some(1448));
}

/// The first window of a flow that may have two segments, by scale from 0 to 10. Of two, three and four segments the
/// number counts that exceeds whole units by least, or by a thirty-second of a segment. 434 at scale 6: 13 units and 36
/// bytes, 20 and 22, 27 and 8. 1448 at scale 10: 2 and 848, 4 and 248, 5 and 672.
#[test]
fn first_windows_by_hand() {
    for (segment, fields) in [
        (434, [868, 434, 217, 108, 54, 27, 27, 10, 5, 3, 1]),
        (536, [1072, 536, 268, 134, 67, 33, 25, 8, 4, 2, 1]),
        (1000, [2000, 1000, 500, 250, 125, 62, 31, 31, 15, 7, 3]),
        (1448, [2896, 1448, 724, 362, 181, 90, 45, 45, 11, 11, 4]),
    ] {
        for (scale, expected) in (0..).zip(fields) {
            let mut c = Clamp::default();
            let field = c.window(&ack(0, 65_535), scale, 2 * segment, sent(0, segment));
            assert_eq!(field, Some(expected), "{segment} bytes, scale {scale}");
            let window = u32::from(expected) << scale;
            assert!((segment..=4 * segment).contains(&window), "{segment} bytes, scale {scale}: {window}");
        }
    }
}

#[test]
fn the_edge_is_pulled_back_by_less_than_a_unit() {
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(1000, 500), 7, 6400, sent(1000, 1280)), Some(50));
    // The allowance falls to one segment: the edge stays at 7400.
    assert_eq!(c.window(&ack(2280, 500), 7, 1280, sent(7400, 1280)), Some(40));
    assert_eq!(c.edge(), Some(SeqNum(7400)));
    // Seven units of 1024, then one segment: 434 bytes on it is 6.6 units to the edge. Seven would move it on by 434.
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(0, 60), 10, 7168, sent(7168, 434)), Some(7));
    assert_eq!(c.window(&ack(434, 60), 10, 434, sent(7168, 434)), Some(6));
    assert_eq!(c.edge(), Some(SeqNum(7168)));
    // The edge told last is 434 + 6144 = 6578: from 6145 on a sender has less than a segment left.
    assert!(c.holds(SeqNum(6145), 434) && !c.holds(SeqNum(6144), 434));
    assert!(c.obeyed(SeqNum(7168)), "the other one was told as well");
}

#[test]
fn a_receiver_that_offers_less_is_believed() {
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(1000, 2), 7, 2896, sent(1000, 1448)), None);
    assert_eq!(c.window(&ack(1000, 0), 7, 2896, sent(1000, 1448)), None);
}

#[test]
fn the_edge_crosses_the_wrap() {
    let mut c = Clamp::default();
    let near = u32::MAX - 99;
    let sent = Sent { served: SeqNum(near), max_seq: SeqNum(near), segment: 100 };
    assert_eq!(c.window(&ack(near, 500), 0, 300, sent), Some(300));
    assert!(c.obeyed(SeqNum(near) + 301) && !c.obeyed(SeqNum(near) + 302), "a FIN takes one more");
    assert!(c.holds(SeqNum(near) + 300, 1));
    assert!(!c.holds(SeqNum(near), 300));
}

/// A sender that uses all of its window, as Linux does: full segments, and behind one at least what is left over. Its
/// queue is served one packet at a time, each is acknowledged at once, and the acknowledgment clamped.
struct Loop {
    clamp: Clamp,
    scale: u8,
    segment: u32,
    served: SeqNum,
    max_seq: SeqNum,
    waiting: VecDeque<u32>,
}

impl Loop {
    fn new(scale: u8, segment: u32) -> Self {
        let start = SeqNum(u32::MAX - 5000);
        let (clamp, waiting) = (Clamp::default(), VecDeque::new());
        Self { clamp, scale, segment, served: start, max_seq: start, waiting }
    }

    fn acknowledge(&mut self, allowance: u32) -> u32 {
        let tcp = TcpHeader { ack: self.served, window: 65_535, ..TcpHeader::default() };
        let sent = Sent { served: self.served, max_seq: self.max_seq, segment: self.segment };
        let field = self.clamp.window(&tcp, self.scale, allowance * self.segment, sent);
        u32::from(field.unwrap_or(tcp.window)) << self.scale
    }

    fn send(&mut self, window: u32) {
        let edge = self.served + window;
        let mut room = if self.max_seq.before(edge) { edge - self.max_seq } else { 0 };
        if room < self.segment {
            return;
        }
        while room > 0 {
            let len = room.min(self.segment);
            self.waiting.push_back(len);
            self.max_seq += len;
            room -= len;
        }
    }

    fn round(&mut self, allowance: u32) {
        let window = self.acknowledge(allowance);
        self.send(window);
        let len = self.waiting.pop_front().expect("something waits, or nothing will ever be acknowledged");
        self.served += len;
    }
}

#[test]
fn a_window_once_wide_becomes_narrow_at_every_scale() {
    for scale in 0..=10 {
        for segment in [434, 536, 1000, 1448] {
            let mut flow = Loop::new(scale, segment);
            // Twenty segments when the flow is alone, two when it is one of many.
            (0..50).for_each(|_| flow.round(20));
            assert!(flow.max_seq - flow.served >= 18 * segment, "{segment} bytes, scale {scale}");
            (0..50).for_each(|_| flow.round(2));
            let (mut bytes, mut rounds) = (0, 0);
            for _ in 0..200 {
                let before = flow.served;
                flow.round(2);
                (bytes, rounds) = (bytes + (flow.served - before), rounds + 1);
                let most = (4 * segment).max(1 << scale);
                assert!(
                    flow.max_seq - before <= most,
                    "{segment} bytes, scale {scale}: {flow:?}",
                    flow = flow.waiting
                );
            }
            // Small segments fill up what is left over, not more.
            assert!(
                bytes * 10 >= rounds * segment * 6,
                "{segment} bytes, scale {scale}: {bytes} in {rounds}"
            );
        }
    }
}

#[test]
fn every_window_is_a_segment_or_more_and_four_or_a_unit_at_most() {
    let mut dice = Dice::new(1);
    let mut pick = |from: u32, to: u32| from + dice.below(u64::from(to - from + 1)) as u32;
    for _ in 0..20_000 {
        let (scale, segment) = (pick(0, 14) as u8, pick(1, 9000));
        let mut clamp = Clamp::default();
        let (mut acked, mut furthest) = (SeqNum(pick(0, u32::MAX - 1)), None::<SeqNum>);
        let mut max_seq = acked;
        for _ in 0..20 {
            let permitted = pick(2, 12);
            let served = acked + pick(0, max_seq - acked);
            let window = pick(0, 65_535) as u16;
            let tcp = TcpHeader { ack: acked, window, ..TcpHeader::default() };
            let field = clamp.window(&tcp, scale, permitted * segment, Sent { served, max_seq, segment });
            assert!(field.is_none_or(|f| 0 < f && f < window), "{field:?} for {window}");
            let told = acked + (u32::from(field.unwrap_or(window)) << scale);
            if field.is_some() {
                assert!(
                    told - acked >= segment,
                    "less than a segment: {field:?} at scale {scale}, {segment} bytes"
                );
                let most = served + ((permitted + 2) * segment).max(1 << scale);
                // Or what it has been told before, or the least there is.
                let least = acked + segment.div_ceil(1 << scale) * (1 << scale);
                assert!(
                    told.at_or_before(most)
                        || told.at_or_before(least)
                        || furthest.is_some_and(|f| told.at_or_before(f)),
                    "{told:?} for {permitted} of {segment} beyond {served:?}, scale {scale}"
                );
                if let Some(f) = furthest.filter(|f| told.before(*f)) {
                    assert!(f - told < 1 << scale, "pulled back by {} at scale {scale}", f - told);
                }
            }
            furthest = Some(furthest.map_or(told, |f| f.max(told)));
            let edge = told.max(max_seq);
            max_seq = max_seq + pick(0, edge - max_seq);
            acked = acked + pick(0, max_seq - acked);
        }
    }
}
