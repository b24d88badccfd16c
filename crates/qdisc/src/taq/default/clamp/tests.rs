use std::collections::VecDeque;

use super::*;
use crate::dice::Dice;

fn ack(ack: u32, window: u16) -> TcpHeader {
    TcpHeader { ack: SeqNum(ack), window, ..TcpHeader::default() }
}

/// A sender of which all that is acknowledged has been served, and no more.
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

/// Ten segments were sent, and the edge that was told is a rounded-up window beyond: 1448 + 102 * 128 = 14504.
#[test]
fn a_sender_at_its_edge_sends_no_more_until_the_edge_moves() {
    let mut c = WindowClamp { segment: 1448, ..WindowClamp::default() };
    let sent = SeqNum(14_480);
    assert!(c.permits_more(8, sent), "nothing was served or told yet");
    c.note_departure(SeqNum(1448), 1448, 9, sent);
    assert_eq!(c.window(&ack(1448, 500), 7, 8, sent, false), Some(102));
    // Eight segments beyond what was served end at 9 * 1448, then at 10 * 1448, then beyond what was sent.
    assert!(!c.permits_more(8, sent));
    c.note_departure(SeqNum(2896), 1448, 8, sent);
    assert!(!c.permits_more(8, sent));
    c.note_departure(SeqNum(4344), 1448, 7, sent);
    assert!(c.permits_more(8, sent));
    assert!(!c.permits_more(5, sent), "less may be in flight");
    // A sender with seven segments of room and five in flight is held by something else than its edge.
    assert!(c.permits_more(5, SeqNum(4344)));
}

#[test]
fn segments_that_fit_the_unit_are_granted_whole() {
    // 448 = 3.5 units: two fit, and from there on every second one.
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(0, 500), 7, 896, sent(0, 448)), Some(7));
    assert_eq!(c.window(&ack(896, 500), 7, 1344, sent(896, 448)), Some(14));
    // Scale 10: of 896, 1344 and 1792 bytes the last but one is closest to a whole unit, 320 beyond one. 7 * 448 would
    // be only 64 more than three, but three are more than four segments.
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(0, 60), 10, 896, sent(0, 448)), Some(1));
    // Scale 0: any edge can be told.
    let mut c = Clamp::default();
    assert_eq!(c.window(&ack(0, 60_000), 0, 2896, sent(0, 1448)), Some(2896));
}

#[test]
fn the_first_window_is_two_segments() {
    for (scale, expected) in [(0, 2896), (8, 22), (9, 11), (14, 1)] {
        let field = Clamp::default().window(&ack(0, 65_535), scale, 1448, sent(0, 1448));
        assert_eq!(field, Some(expected), "scale {scale}");
    }
}

/// The first window of a flow that may have two segments, by scale from 0 to 10: two or more that fit, and of what two
/// to four segments come to, in whole units, that which is short of them by least, or by a thirty-second of a segment.
/// 434 at scale 6: 20 units are 22 bytes short of three segments, 27 are 8 short of four. 1448 at scale 8: 12 units are
/// two segments and 176 bytes, which is 1272 short of three, 16 units are 248 short and 22 are 160 short of four.
#[test]
fn first_windows_by_hand() {
    for (segment, fields) in [
        (434, [868, 434, 217, 162, 81, 54, 27, 10, 5, 3, 1]),
        (536, [1072, 536, 268, 134, 67, 50, 25, 12, 6, 3, 2]),
        (1000, [2000, 1000, 500, 250, 125, 93, 62, 31, 15, 7, 3]),
        (1448, [2896, 1448, 724, 362, 181, 135, 90, 45, 22, 11, 4]),
    ] {
        for (scale, expected) in (0..).zip(fields) {
            let mut c = Clamp::default();
            let field = c.window(&ack(0, 65_535), scale, 2 * segment, sent(0, segment));
            assert_eq!(field, Some(expected), "{segment} bytes, scale {scale}");
            let window = u32::from(expected) << scale;
            assert!(
                (2 * segment..=4 * segment).contains(&window),
                "{segment} bytes, scale {scale}: {window}"
            );
        }
    }
}

/// The turns of which scale 8 took half: of two segments of 1448 bytes one is served, the other waits, and the third is
/// to be sent in between. In units of 256 bytes the next edge before it is 168 bytes short.
#[test]
fn the_next_segment_is_let_through_while_one_waits() {
    let mut c = Clamp::default();
    let sent = |served, max_seq| Sent { served: SeqNum(served), max_seq: SeqNum(max_seq), segment: 1448 };
    // 12 units are 3072 bytes: 176 more than two segments. 16 units are 248 short of three, 22 are 160 short of four.
    assert_eq!(c.window(&ack(0, 500), 8, 2896, sent(0, 0)), Some(22));
    // The sender took two, and a third is within the edge at 5632; one was served. 4184 bytes are 16.3 units.
    assert_eq!(c.window(&ack(1448, 500), 8, 2896, sent(1448, 2896)), Some(17));
    assert_eq!(c.edge(), Some(SeqNum(1448 + 17 * 256)));
    // All three were sent, two are served: a fourth is to come, up to 5792. 2896 are 11.3 units to the edge told last.
    assert_eq!(c.window(&ack(2896, 500), 8, 2896, sent(2896, 4344)), Some(12));
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

/// How a sender makes use of a window that is no whole number of segments.
#[derive(Clone, Copy, Debug)]
enum Stack {
    /// Behind a full segment it sends what is left over.
    Linux,
    /// Whole segments only, as FreeBSD and Windows send them where the window was once twice as large.
    Whole,
}

/// A sender with more to send than it may, the queue in front of it, and a receiver that acknowledges every second
/// segment, or what it has when it waits for more. The sender waits wherever the next segment does not fit as a whole.
#[derive(Debug)]
struct Loop {
    clamp: Clamp,
    stack: Stack,
    scale: u8,
    segment: u32,
    acked: SeqNum,
    served: SeqNum,
    max_seq: SeqNum,
    /// Packets that the sender has sent and the queue has not seen.
    coming: VecDeque<u32>,
    waiting: VecDeque<u32>,
    /// The furthest edge that the sender was told.
    furthest: SeqNum,
}

impl Loop {
    fn new(stack: Stack, scale: u8, segment: u32) -> Self {
        let start = SeqNum(u32::MAX - 5000);
        Self {
            clamp: Clamp::default(),
            stack,
            scale,
            segment,
            acked: start,
            served: start,
            max_seq: start,
            coming: VecDeque::new(),
            waiting: VecDeque::new(),
            furthest: start,
        }
    }

    /// An acknowledgment of all that was served passes, and the sender sends what it permits. `allowance` in segments.
    fn acknowledge(&mut self, allowance: u32) {
        self.acked = self.served;
        self.pass(self.acked, allowance);
    }

    /// An acknowledgment passes.
    fn pass(&mut self, ack: SeqNum, allowance: u32) {
        let (u, m) = (1 << self.scale, self.segment);
        let tcp = TcpHeader { ack, window: 65_535, ..TcpHeader::default() };
        let sent = Sent { served: self.served, max_seq: self.max_seq, segment: m };
        let field = self.clamp.window(&tcp, self.scale, allowance * m, sent);
        let told = ack + (u32::from(field.unwrap_or(tcp.window)) << self.scale);
        if field.is_some() {
            self.judge(told, allowance);
        } else {
            assert!(
                allowance * m + SPARE * m + u > 65_535 << self.scale,
                "{self:?}: the window is left wide"
            );
        }
        self.furthest = self.furthest.max(told);
        self.send(told);
    }

    /// The rules in the head of `clamp.rs`.
    fn judge(&self, told: SeqNum, allowance: u32) {
        let (u, m) = (1 << self.scale, self.segment);
        let limit = self.served + ((allowance + SPARE) * m).max(u);
        let idle = self.max_seq == self.served;
        let missing = (self.served + allowance * m).distance_from(self.max_seq).max(0).unsigned_abs();
        if idle {
            assert!((self.max_seq + m).at_or_before(told), "{self:?}: no segment fits up to {told:?}");
        }
        if u <= m + 1 && missing > 0 {
            let whole = self.max_seq + missing.div_ceil(m) * m;
            assert!(whole.at_or_before(told), "{self:?}: {told:?} and not {whole:?}");
        }
        let beyond = if idle { limit.max(self.served + (m + u - 1)) } else { limit };
        assert!(told.at_or_before(beyond.max(self.furthest)), "{self:?}: {told:?} for {allowance}");
        assert!(self.furthest.before(told + u), "{self:?}: pulled back to {told:?}");
    }

    fn send(&mut self, edge: SeqNum) {
        let mut next = self.max_seq + self.coming.iter().sum::<u32>();
        let mut follows = false;
        while next.before(edge) {
            let room = edge - next;
            let len = match self.stack {
                _ if room >= self.segment => self.segment,
                Stack::Linux if follows => room,
                _ => break,
            };
            self.coming.push_back(len);
            (next, follows) = (next + len, true);
        }
        assert!(next != self.acked, "{self:?}: nothing is outstanding, and no segment may be sent");
    }

    /// Up to `packets` of what was sent come to the queue.
    fn come(&mut self, packets: usize) {
        for _ in 0..packets.min(self.coming.len()) {
            let len = self.coming.pop_front().expect("there are as many");
            self.waiting.push_back(len);
            self.max_seq += len;
        }
    }

    /// A packet is served, if one waits.
    fn serve(&mut self) {
        self.served += self.waiting.pop_front().unwrap_or(0);
    }

    fn waits(&self) -> u32 {
        self.max_seq - self.served
    }

    /// Lets packets come at once, and acknowledges each that is served.
    fn round(&mut self, allowance: u32) {
        self.acknowledge(allowance);
        self.come(usize::MAX);
        self.serve();
    }
}

/// Payloads of full segments: IPv4 and IPv6 with and without timestamps, on Ethernet, PPPoE, tunnels and what is least.
const SEGMENTS: [u32; 16] =
    [434, 448, 536, 682, 1000, 1196, 1208, 1220, 1228, 1240, 1400, 1428, 1440, 1448, 1452, 1460];

/// Each stack, scale and segment size keeps the rules ([`Loop::judge`]), in an order of chance and with acknowledgments
/// delayed. With two segments allowed no more than four wait, or one unit and less than a segment.
#[test]
fn a_segment_may_be_sent_when_its_turn_comes_and_few_wait() {
    let mut dice = Dice::new(1);
    for (stack, scale) in [Stack::Linux, Stack::Whole].into_iter().flat_map(|s| (0..=14).map(move |n| (s, n)))
    {
        for segment in SEGMENTS.into_iter().chain((434..=1460).step_by(27)) {
            let mut flow = Loop::new(stack, scale, segment);
            flow.acknowledge(2);
            for _ in 0..300 {
                flow.come(dice.below(4) as usize);
                if dice.below(3) > 0 {
                    flow.serve();
                }
                let due = flow.served - flow.acked >= 2 * segment;
                // The receiver's timer expires.
                let late = dice.below(4) == 0 || flow.waiting.is_empty() && flow.coming.is_empty();
                if due || late {
                    flow.acknowledge(2);
                }
                let unit = (1 << scale) + segment - 1;
                let most = if 1 << scale > 3 * segment { unit } else { 4 * segment };
                assert!(flow.waits() <= most, "{flow:?}: {} of {most} wait", flow.waits());
            }
            assert!(flow.served - SeqNum(u32::MAX - 5000) > 50 * segment, "{flow:?}");
        }
    }
}

/// The allowance changes by chance, old acknowledgments pass late, and the sender has less to send than it may.
#[test]
fn every_edge_keeps_the_rules_whatever_the_allowance() {
    let mut dice = Dice::new(2);
    for (scale, segment) in (0..=14).flat_map(|scale| SEGMENTS.map(|segment| (scale, segment))) {
        let mut flow = Loop::new(Stack::Linux, scale, segment);
        flow.acknowledge(2);
        for _ in 0..300 {
            let allowance = 1 + dice.below(12) as u32;
            if dice.below(5) == 0 {
                let old = flow.acked;
                flow.pass(old, allowance);
            } else {
                flow.acknowledge(allowance);
            }
            // Packets that do not come are sent later.
            flow.come(dice.below(5) as usize);
            if dice.below(2) == 0 {
                flow.coming.clear();
            }
            flow.serve();
        }
    }
}

#[test]
fn a_window_once_wide_becomes_narrow_at_every_scale() {
    for scale in 0..=10 {
        for segment in SEGMENTS {
            let mut flow = Loop::new(Stack::Linux, scale, segment);
            // Twenty segments when the flow is alone, two when it is one of many.
            (0..50).for_each(|_| flow.round(20));
            assert!(flow.waits() >= 18 * segment, "{flow:?}");
            (0..50).for_each(|_| flow.round(2));
            let (mut bytes, mut rounds) = (0, 0);
            for _ in 0..200 {
                let before = flow.served;
                flow.round(2);
                (bytes, rounds) = (bytes + (flow.served - before), rounds + 1);
                assert!(flow.max_seq - before <= (4 * segment).max(1 << scale), "{flow:?}");
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
                // Or what it has been told before, or the least there is: a segment beyond what is acknowledged, or
                // beyond what was sent if nothing waits.
                let idle = if max_seq.at_or_before(served) { max_seq } else { acked };
                let least = acked + (idle + segment - acked).div_ceil(1 << scale) * (1 << scale);
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

/// A sender of segments of 1000 bytes has sent 4000, all of which were served, and may send up to 8000: so says an
/// acknowledgment that is `late` or is not.
fn told_ahead(late: bool) -> WindowClamp {
    let mut clamp = WindowClamp { segment: 1000, ..WindowClamp::default() };
    clamp.note_departure(SeqNum(4000), 1000, 1, SeqNum(4000));
    assert_eq!(clamp.window(&ack(2000, 65_535), 0, 4, SeqNum(4000), late), Some(6000));
    clamp
}

#[test]
fn a_sender_that_waits_for_late_acknowledgments_may_have_more_in_flight() {
    let extra = |late, payload| {
        let mut clamp = told_ahead(late);
        clamp.note_departure(SeqNum(4000 + payload), payload, 0, SeqNum(4000 + payload));
        clamp.extra.segments()
    };
    assert_eq!(extra(true, 1000), 1, "it has not heard of its window");
    assert_eq!(extra(false, 1000), 0, "it has heard, and does not use it");
    assert_eq!(extra(true, 400), 0, "it has said all");
    let mut clamp = told_ahead(true);
    (5..205).for_each(|n| clamp.note_departure(SeqNum(n * 1000), 1000, 0, SeqNum(n * 1000)));
    assert_eq!(clamp.extra.segments(), 64);
}

/// The window is always of 4000 bytes: one passes at each multiple of 4096.
#[test]
fn whoever_had_enough_waiting_for_a_window_may_have_less() {
    let segments = |waiting: fn(u32) -> u32| {
        let mut clamp = told_ahead(true);
        clamp.note_departure(SeqNum(5000), 1000, 0, SeqNum(5000));
        clamp.note_departure(SeqNum(6000), 1000, 0, SeqNum(6000));
        let mut seen = vec![clamp.extra.segments()];
        for n in 7..=20 {
            let (end, max_seq) = (SeqNum(n * 1000), SeqNum(n * 1000 + 4000));
            clamp.window(&ack(end.0 - 1000, 65_535), 0, 5, max_seq, true);
            clamp.note_departure(end, 1000, waiting(n), max_seq);
            seen.push(clamp.extra.segments());
        }
        seen
    };
    // 8192 lies within the segment that ends at 9000, of a window in which none waited, 12288 and 16384 are behind.
    assert_eq!(segments(|_| 3), [2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0]);
    assert_eq!(segments(|n| if n == 11 { 2 } else { 3 }), [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1]);
    assert_eq!(segments(|n| if n % 4 == 0 { 2 } else { 3 }), [2; 15]);
}
