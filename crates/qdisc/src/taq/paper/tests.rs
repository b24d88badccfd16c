//! The rules of sections 2.4 to 2.7 of the notes, each by hand. The link is 600 kbit/s; flows are named by number.

use narrows_units::{Ecn, SeqNum};
use narrows_wire::{Flags, FlowKey, TcpHeader};

use super::*;
use crate::Record;
use crate::{Ppm, Reason, Settings as _, Verdict};

const SERVER: [u8; 4] = [192, 0, 2, 1];

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

struct Bench {
    q: PaperMode<Record>,
    verdicts: Verdicts<Record>,
    seqs: Vec<u32>,
    id: u64,
    ecn: Ecn,
}

impl Bench {
    fn new(settings: &[(&str, &str)]) -> Self {
        let mut settled = Config::read("paper,admission=off").unwrap();
        for (key, value) in settings {
            settled.set(key, value).unwrap();
        }
        let config = *settled.as_paper().unwrap();
        let link = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) };
        Self {
            q: PaperMode::new(settled.common, config, link, 1),
            verdicts: Vec::new(),
            seqs: vec![1; 64],
            id: 0,
            ecn: Ecn::NotEct,
        }
    }

    fn packet(&mut self, flow: u8, seq: u32, payload: u32, flags: Flags) -> Record {
        self.id += 1;
        let mut r = Record { id: self.id, ..Record::default() };
        let user = [10, 0, 0, flow];
        r.header.key = FlowKey::new(SERVER.into(), user.into(), 80, 4000 + u16::from(flow), Proto::TCP);
        r.header.len = Bytes(u64::from(payload) + 40);
        r.header.ecn = self.ecn;
        r.header.tcp = Some(TcpHeader { seq: SeqNum(seq), flags, payload, ..TcpHeader::default() });
        r
    }

    fn offer(&mut self, ms: u64, packet: Record) -> u64 {
        self.q.enqueue(at(ms), packet, &mut self.verdicts);
        packet.id
    }

    /// New data: an IP packet of `len` bytes. Returns its number.
    fn data(&mut self, ms: u64, flow: u8, len: u32) -> u64 {
        let seq = self.seqs[usize::from(flow)];
        self.seqs[usize::from(flow)] += len - 40;
        let p = self.packet(flow, seq, len - 40, Flags::ACK);
        self.offer(ms, p)
    }

    /// The last `len` bytes sent, again.
    fn again(&mut self, ms: u64, flow: u8, len: u32) -> u64 {
        let seq = self.seqs[usize::from(flow)] - (len - 40);
        let p = self.packet(flow, seq, len - 40, Flags::ACK);
        self.offer(ms, p)
    }

    fn syn(&mut self, ms: u64, flow: u8) -> u64 {
        let p = self.packet(flow, 0, 0, Flags::SYN.and(Flags::ACK));
        self.offer(ms, p)
    }

    fn send(&mut self, ms: u64) -> Option<u64> {
        self.q.dequeue(at(ms), &mut self.verdicts).map(|p| p.id)
    }

    fn drain(&mut self, ms: u64) -> Vec<u64> {
        std::iter::from_fn(|| self.send(ms)).collect()
    }

    fn waiting(&self, class: Class) -> usize {
        self.q.store.backlog(class).packets
    }

    fn dropped(&mut self) -> Vec<u64> {
        let ids = self.verdicts.drain(..).filter_map(|v| match v {
            Verdict::Dropped { packet, .. } => Some(packet.id),
            _ => None,
        });
        ids.collect()
    }

    /// A flow that sends `n` packets of 1000 B in the epoch (200 ms, the first guess) that ends at `ms`, and nothing
    /// more.
    fn past(&mut self, ms: u64, flow: u8, n: u32) {
        for _ in 0..n {
            self.data(ms - 200, flow, 1000);
            self.drain(ms - 200);
        }
    }
}

#[test]
fn syns_and_the_first_packets_of_a_flow_stand_among_the_new() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.syn(0, 1);
    assert_eq!(b.waiting(Class::New), 1);
    b.drain(0);
    // Twenty packets are new; the one after them is not, and by then nothing is known of the rate: below fair share.
    for n in 1..=21 {
        b.data(1, 1, 1000);
        assert_eq!(b.waiting(Class::New), usize::from(n <= 20), "{n}");
        b.drain(1);
    }
    // A flow is new for five epochs: 5 * 200 ms.
    b.data(1_000, 2, 1000);
    b.drain(1_000);
    b.data(1_990, 2, 1000);
    assert_eq!(b.waiting(Class::New), 1);
    b.drain(1_990);
    b.data(2_010, 2, 1000);
    assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (0, 1));
}

#[test]
fn the_rate_decides_below_or_above_fair_share() {
    let mut b = Bench::new(&[("buffer", "100")]);
    // 25 * 1000 B in 200 ms are 1 Mbit/s; the link has 600 kbit/s and no other flow.
    b.past(200, 1, 25);
    b.data(201, 1, 1000);
    assert_eq!(b.waiting(Class::Above), 1);
    b.drain(201);
    // 40 packets in 3 s are far below, and more than the 20 of a new flow: 13 a second * 8000 bit = 107 kbit/s.
    for n in 0..40 {
        b.data(1_000 + n * 75, 2, 1000);
        b.drain(1_000 + n * 75);
    }
    b.data(4_000, 2, 1000);
    assert_eq!(b.waiting(Class::Below), 1);
}

#[test]
fn retransmissions_go_first_and_the_longest_silence_before_all() {
    let mut b = Bench::new(&[("buffer", "100")]);
    // Flows 1 and 2 each lose a packet and fall silent, until 1.2 s and 2 s; 3 repairs without a silence.
    let mut loses = |flow, ms| {
        b.past(ms + 200, flow, 4);
        b.data(ms, flow, 1000);
        let key = b.packet(flow, 0, 0, Flags::ACK).header.key;
        let slot = slot(b.q.tracker.lookup(&key).unwrap());
        let node = b.q.store.tail_of(slot);
        b.q.drop_node(at(ms), node.unwrap(), Reason::PushedOut, &mut b.verdicts);
    };
    loses(1, 1_000);
    loses(2, 1_000);
    loses(3, 1_990);
    let new = b.data(2_000, 4, 1000);
    let third = b.again(2_000, 3, 1000);
    let first = b.again(2_000, 1, 1000);
    let second = b.again(2_900, 2, 1000);
    assert_eq!(b.waiting(Class::Recovery), 3);
    // 2 was silent for 1.9 s, 1 for 1 s; the bucket holds two MTU, 3000 B, so all three pass.
    assert_eq!(b.drain(2_900), [second, first, third, new]);
}

#[test]
fn pure_acknowledgments_pass_with_the_recovery_queue_behind_it() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let data = b.data(0, 1, 1000);
    let ack = b.packet(1, b.seqs[1], 0, Flags::ACK);
    let ack = b.offer(0, ack);
    b.data(0, 2, 1000);
    let repeated = b.again(0, 2, 1000);
    assert_eq!(b.drain(0)[..3], [repeated, ack, data]);
}

#[test]
fn recovery_is_capped_unless_the_rest_is_empty() {
    let mut b = Bench::new(&[("buffer", "100"), ("rho_r", "0.3")]);
    for flow in 1..=6 {
        b.data(0, flow, 1500);
        b.drain(0);
    }
    let again: Vec<_> = (1..=6).map(|f| b.again(0, f, 1500)).collect();
    let new: Vec<_> = (7..=9).map(|f| b.data(0, f, 1500)).collect();
    // The bucket holds max(100 ms at 180 kbit/s = 2250 B, two MTU = 3000 B): two of them.
    assert_eq!([b.send(0), b.send(0), b.send(0)], [Some(again[0]), Some(again[1]), Some(new[0])]);
    // 180 kbit/s fill it by 1500 B in 66.7 ms; it lets a packet through as soon as there is anything in it, on credit.
    assert_eq!([b.send(1), b.send(1)], [Some(again[2]), Some(new[1])]);
    assert_eq!(b.send(60), Some(new[2]), "1 ms short of the credit");
    // Nothing else waits: the cap does not count, and what goes out then is not charged.
    assert_eq!([b.send(61), b.send(61)], [Some(again[3]), Some(again[4])]);
    let late = b.data(67, 9, 1500);
    assert_eq!([b.send(68), b.send(68)], [Some(again[5]), Some(late)]);
}

#[test]
fn a_full_buffer_loses_above_fair_share_first() {
    let mut b = Bench::new(&[("buffer", "4"), ("newflow_cap", "0.5")]);
    b.past(200, 1, 25);
    let above = b.data(201, 1, 1000);
    let new = [b.data(201, 2, 1000), b.data(201, 3, 1000)];
    b.again(201, 1, 1000);
    assert!(b.dropped().is_empty());
    let last = b.syn(201, 4);
    // The new-flow queue holds 2 of 4: the SYN is one too many there, whatever room there is elsewhere.
    assert_eq!(b.dropped(), [last]);
    let other = b.data(201, 1, 1000);
    assert_eq!(b.dropped(), [other], "the newest of the only flow above its share");
    b.again(201, 2, 1000);
    assert_eq!(b.dropped(), [above]);
    b.again(201, 3, 1000);
    // Nothing above: of level 2 the new flows are the only ones, and of these the one that came last.
    assert_eq!(b.dropped(), [new[1]]);
}

#[test]
fn retransmissions_are_lost_only_if_nothing_else_waits() {
    let mut b = Bench::new(&[("buffer", "8")]);
    for flow in 1..=8 {
        b.data(0, flow, 1000);
        b.drain(0);
    }
    let again: Vec<_> = (1..=8).map(|f| b.again(10, f, 1000)).collect();
    // Three quarters of 8 packets: the seventh and the eighth are one too many each; the newest of equal keys goes.
    assert_eq!(b.dropped(), [again[6], again[7]]);
    assert_eq!(b.waiting(Class::Recovery), 6);
}

#[test]
fn the_victim_is_the_flow_with_fewest_drops_then_the_fastest() {
    let mut b = Bench::new(&[("buffer", "6")]);
    // Both above their share of 300 kbit/s: 1 Mbit/s and 1.2 Mbit/s.
    for _ in 0..25 {
        b.data(0, 1, 1000);
        b.drain(0);
    }
    for _ in 0..30 {
        b.data(0, 2, 1000);
        b.drain(0);
    }
    let mut ids = Vec::new();
    for flow in [1, 2, 1, 2, 1, 2] {
        ids.push(b.data(201, flow, 1000));
    }
    assert_eq!(b.waiting(Class::Above), 6);
    // None has a drop yet: the faster, flow 2, loses its last packet; then 1 has fewer; then 2 again, by its rate.
    for (flow, victim) in [(1, 5), (1, 6), (1, 3)] {
        ids.push(b.data(202, flow, 1000));
        let lost = if victim == 6 { ids[7] } else { ids[victim] };
        assert_eq!(b.dropped(), [lost], "{flow}");
    }
}

#[test]
fn three_drops_in_two_epochs_move_the_whole_flow_to_the_over_penalised() {
    let mut b = Bench::new(&[("buffer", "4")]);
    b.past(200, 1, 25);
    let kept: Vec<_> = (0..4).map(|_| b.data(201, 1, 1000)).collect();
    assert_eq!(b.waiting(Class::Above), 4);
    let lost: Vec<_> = (0..3).map(|_| b.data(201, 1, 1000)).collect();
    assert_eq!(b.dropped(), lost);
    assert_eq!((b.waiting(Class::Above), b.waiting(Class::Over)), (0, 4));
    assert_eq!(b.drain(201), kept, "in their order");
}

#[test]
fn a_flow_changes_class_with_all_it_has_and_in_order() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let first: Vec<_> = (0..20).map(|_| b.data(0, 1, 100)).collect();
    assert_eq!(b.waiting(Class::New), 20);
    let next = b.data(0, 1, 100);
    assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (0, 21));
    let all: Vec<_> = first.into_iter().chain([next]).collect();
    assert_eq!(b.drain(0), all);
}

#[test]
fn where_a_drop_is_a_choice_a_capable_packet_is_marked_instead() {
    let mut b = Bench::new(&[("buffer", "8")]);
    b.ecn = Ecn::Ect0;
    // The new-flow queue holds 2, and one more by a mark.
    let ids: Vec<_> = (1..=4).map(|f| b.data(0, f, 1000)).collect();
    assert!(
        matches!(b.verdicts[0], Verdict::Marked { reason: Reason::OverLimit, .. }),
        "{:?}",
        b.verdicts[0]
    );
    assert_eq!(b.q.counters.marked, 1);
    assert_eq!(b.dropped(), [ids[3]], "beyond the quarter above the limit there is no choice");
    let sent: Vec<_> = std::iter::from_fn(|| b.q.dequeue(at(1), &mut b.verdicts)).collect();
    assert_eq!(sent.iter().filter(|p| p.header.ecn == Ecn::Ce).map(|p| p.id).collect::<Vec<_>>(), [ids[2]]);
}

#[test]
fn a_mark_is_no_answer_to_a_packet_that_bears_one() {
    let mut b = Bench::new(&[("buffer", "4"), ("newflow_cap", "0.5")]);
    b.ecn = Ecn::Ce;
    let ids: Vec<_> = (1..=3).map(|f| b.data(0, f, 1000)).collect();
    assert_eq!(b.dropped(), [ids[2]]);
    assert_eq!(b.q.counters.marked, 0);
}

#[test]
fn admission_stops_when_the_loss_reaches_p_admit_and_goes_on_when_it_falls() {
    let mut b =
        Bench::new(&[("buffer", "4"), ("admission", "on"), ("p_admit", "0.09"), ("newflow_cap", "0.5")]);
    let request = |b: &mut Bench, ms, flow| {
        let mut p = b.packet(flow, 7, 0, Flags::SYN);
        p.header.key = p.header.key.reverse();
        b.q.reverse(at(ms), p, &mut b.verdicts).is_some()
    };
    for flow in 1..=10 {
        b.data(1_000, flow, 1000);
        b.drain(1_000);
    }
    // The new-flow queue holds two.
    for flow in 11..=13 {
        b.data(1_000, flow, 1000);
    }
    // 13 arrivals and one drop: 0.0769.
    assert_eq!((b.dropped().len(), b.q.loss.rate(at(1_000))), (1, Ppm(76_923)));
    assert!(request(&mut b, 1_000, 30));
    // 17 arrivals and two drops: 0.1176.
    b.drain(1_100);
    for flow in 40..44 {
        b.data(1_100, flow, 1000);
        if flow == 40 {
            b.drain(1_100);
        }
    }
    assert_eq!((b.dropped().len(), b.q.loss.rate(at(1_100))), (1, Ppm(117_647)));
    assert!(!request(&mut b, 1_100, 31));
    assert!(request(&mut b, 1_100, 30), "of a pool that is in");
    let report = b.q.report(at(1_100));
    let admission = report.admission.unwrap();
    assert!(admission.overloaded && admission.waiting == 1 && report.loss_ppm == 117_647);
    // The window of five seconds has passed both drops.
    assert!(request(&mut b, 6_200, 31));
}

#[test]
fn an_upload_is_refused_by_the_same_admission() {
    let mut b = Bench::new(&[("admission", "on"), ("waiting_syn", "hold"), ("buffer", "4")]);
    for flow in 1..=20 {
        b.data(0, flow, 1000);
    }
    b.dropped();
    let p = b.packet(30, 7, 0, Flags::SYN);
    b.offer(10, p);
    assert_eq!((b.q.held(), b.q.counters.refused), (1, 0));
    b.drain(10);
    assert_eq!(b.q.next_release(at(10)), Some(at(100)), "the loss window moves on each tenth of a second");
    assert!(b.q.release(at(3_010), &mut b.verdicts).is_none());
    assert_eq!((b.q.held(), b.q.backlog().packets), (0, 1), "its three seconds are over: queued");
}

#[test]
fn packets_of_flows_that_cannot_be_followed_keep_their_order() {
    let mut b = Bench::new(&[("flows", "16"), ("buffer", "100"), ("newflow_cap", "0.5")]);
    for flow in 1..=16 {
        b.data(0, flow, 1000);
    }
    // The table is full of flows with packets waiting.
    let mut unknown: Vec<_> = (0..3).map(|_| b.data(0, 30, 1000)).collect();
    assert_eq!(b.waiting(Class::Above), 3);
    for _ in 0..16 {
        b.send(1);
    }
    assert_eq!(b.waiting(Class::Above), 3);
    // Now there is room for a record, but older packets of the flow still wait among the unknown.
    unknown.push(b.data(2, 30, 1000));
    assert_eq!(b.drain(3), unknown);
    b.data(4, 30, 1000);
    assert_eq!(b.waiting(Class::Above), 0);
}

#[test]
fn a_flow_is_new_only_in_slow_start_and_before_its_first_loss() {
    let mut b = Bench::new(&[("buffer", "100")]);
    let mut udp = b.packet(1, 0, 500, Flags::ACK);
    (udp.header.key.proto, udp.header.tcp) = (Proto::UDP, None);
    b.offer(0, udp);
    assert_eq!(
        (b.waiting(Class::New), b.waiting(Class::Below)),
        (0, 1),
        "what has no phase is not in slow start"
    );
    b.drain(0);
    b.data(10, 2, 1000);
    b.again(10, 2, 1000);
    b.drain(10);
    b.data(10, 2, 1000);
    assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (0, 1), "it lost a packet somewhere");
    b.drain(10);
    // Another connection on the same ports starts afresh.
    let syn = b.packet(2, 77_000, 0, Flags::SYN.and(Flags::ACK));
    b.offer(20, syn);
    b.seqs[2] = 77_001;
    b.data(20, 2, 1000);
    assert_eq!(b.waiting(Class::New), 2);
}

#[test]
fn slow_start_after_a_loss_is_not_new() {
    for lost_here in [true, false] {
        let mut b = Bench::new(&[("buffer", "100")]);
        b.data(0, 1, 1000);
        if lost_here {
            let key = b.packet(1, 0, 0, Flags::ACK).header.key;
            let node = b.q.store.tail_of(slot(b.q.tracker.lookup(&key).unwrap())).unwrap();
            b.q.drop_node(at(0), node, Reason::PushedOut, &mut b.verdicts);
        }
        b.drain(0);
        // The timer's retransmission goes through: slow start again, at an age of 3.5 epochs and two packets.
        b.again(700, 1, 1000);
        b.drain(700);
        b.data(710, 1, 1000);
        assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (0, 1), "{lost_here}");
    }
}

#[test]
fn just_below_its_share_is_below() {
    let mut b = Bench::new(&[("buffer", "100")]);
    // 11 * 1000 B in each 200 ms are 440 kbit/s of 600.
    b.past(200, 1, 11);
    b.past(400, 1, 11);
    b.data(400, 1, 1000);
    assert_eq!((b.waiting(Class::Below), b.waiting(Class::Above)), (1, 0));
}

#[test]
fn a_silence_long_past_gives_no_priority() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.past(200, 1, 4);
    b.data(200, 1, 1000);
    let key = b.packet(1, 0, 0, Flags::ACK).header.key;
    let node = b.q.store.tail_of(slot(b.q.tracker.lookup(&key).unwrap())).unwrap();
    b.q.drop_node(at(200), node, Reason::PushedOut, &mut b.verdicts);
    b.again(2_000, 1, 1000);
    b.drain(2_000);
    // Repaired, and some new data later a loss elsewhere is repaired by fast retransmit.
    b.data(2_010, 1, 1000);
    b.data(2_010, 2, 1000);
    b.drain(2_010);
    let first = b.again(2_050, 2, 1000);
    let second = b.again(2_050, 1, 1000);
    assert_eq!(b.drain(2_050), [first, second]);
    assert_eq!(b.q.counters.goodput_bytes, Bytes(6 * 960), "a retransmission is no goodput");
}

#[test]
fn new_flows_lose_on_a_tie() {
    let mut b = Bench::new(&[("buffer", "2")]);
    b.data(0, 3, 1000);
    b.again(0, 3, 1000);
    b.dropped();
    b.drain(0);
    let below = b.data(0, 3, 1000);
    let new = b.data(0, 4, 1000);
    assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (1, 1));
    let again = b.again(0, 3, 1000);
    assert!(matches!(
        b.verdicts[..],
        [Verdict::Dropped { packet, reason: Reason::PushedOut }] if packet.id == new
    ));
    assert_eq!(b.drain(0), [again, below]);
}

#[test]
fn within_a_bucket_the_exact_rate_decides_then_the_newest_packet() {
    let mut b = Bench::new(&[("buffer", "3")]);
    // 1.00 and 1.04 Mbit/s: a quarter octave holds both.
    for _ in 0..26 {
        b.data(0, 1, 1000);
        b.drain(0);
    }
    for flow in [2, 3] {
        for _ in 0..25 {
            b.data(0, flow, 1000);
            b.drain(0);
        }
    }
    let fast = [1, 2, 3].map(|flow| b.data(201, flow, 1000))[0];
    b.data(201, 2, 1000);
    assert_eq!(b.dropped(), [fast], "though others are newer");
    // Flows 2 and 3 have the same rate and no drop.
    let newest = b.data(201, 3, 1000);
    assert_eq!(b.dropped(), [newest]);
}

#[test]
fn two_drops_are_not_many_and_the_last_epoch_counts() {
    let mut b = Bench::new(&[("buffer", "4")]);
    b.past(200, 1, 25);
    for _ in 0..6 {
        b.data(201, 1, 1000);
    }
    assert_eq!((b.dropped().len(), b.waiting(Class::Above)), (2, 4));
    b.send(201);
    b.data(201, 1, 1000);
    assert_eq!(b.waiting(Class::Above), 4, "two drops");
    // The epoch of 200 ms ends, the two drops are those of the last; a third now makes more than two.
    b.data(420, 1, 1000);
    assert_eq!((b.dropped().len(), b.waiting(Class::Over)), (1, 4));
}

#[test]
fn a_smaller_buffer_empties_step_by_step() {
    let mut b = Bench::new(&[("buffer", "40"), ("newflow_cap", "0.5")]);
    for flow in 1..=20 {
        b.data(0, flow, 1000);
    }
    assert!(b.dropped().is_empty());
    let mut config = Config { common: b.q.common, mode: Mode::Paper(b.q.config) };
    config.set("buffer", "8").unwrap();
    let link = b.q.link;
    assert!(b.q.reconfigure(at(0), &config, &link));
    assert_eq!(b.q.backlog().packets, 20);
    // A retransmission is not at a cap of its own: two leave for one that comes.
    b.again(0, 1, 1000);
    assert_eq!((b.dropped().len(), b.q.backlog().packets), (2, 19));
    config.set("mode", "default").unwrap();
    assert!(!b.q.reconfigure(at(0), &config, &link));
}

#[test]
fn a_syn_behind_packets_of_an_earlier_connection_joins_them() {
    let mut b = Bench::new(&[("buffer", "100")]);
    b.data(0, 1, 1000);
    b.again(0, 1, 1000);
    b.drain(0);
    let old = b.data(0, 1, 1000);
    let syn = b.packet(1, 90_000, 0, Flags::SYN.and(Flags::ACK));
    let syn = b.offer(0, syn);
    assert_eq!((b.waiting(Class::Below), b.waiting(Class::New)), (2, 0));
    assert_eq!(b.drain(0), [old, syn]);
}

#[test]
fn made_up_addresses_do_not_push_out_a_pool_that_is_served() {
    let mut b = Bench::new(&[("admission", "on"), ("pools", "16")]);
    let syn = |b: &mut Bench, ms, flow: u8| {
        let mut p = b.packet(flow, 7, 0, Flags::SYN);
        p.header.key = p.header.key.reverse();
        assert!(b.q.reverse(at(ms), p, &mut b.verdicts).is_some());
        // The server answers each.
        let answer = b.packet(flow, 0, 0, Flags::SYN.and(Flags::ACK));
        b.offer(ms, answer);
        b.drain(ms);
    };
    syn(&mut b, 0, 1);
    b.data(0, 1, 1000);
    b.drain(0);
    let served = b.q.admission.pool([10, 0, 0, 1].into());
    for flow in 20..63 {
        syn(&mut b, 10, flow);
    }
    assert_eq!(b.q.admission.pool([10, 0, 0, 1].into()), served, "it is where it was in a table of sixteen");
    assert!(b.q.admission.pool([10, 0, 0, 20].into()).is_none());
}

#[test]
fn new_pools_wait_from_p_admit_on_and_those_who_are_served_are_remembered() {
    let settings = [("buffer", "8"), ("admission", "on"), ("pools", "16")];
    let mut b = Bench::new(&settings);
    let request = |b: &mut Bench, ms, flow: u8| {
        let mut p = b.packet(flow, 7, 0, Flags::SYN);
        p.header.key = p.header.key.reverse();
        b.q.reverse(at(ms), p, &mut b.verdicts).is_some()
    };
    assert!(request(&mut b, 0, 1));
    b.data(0, 1, 1000);
    b.drain(0);
    for flow in 100..140 {
        assert!(request(&mut b, 10, flow));
    }
    // Eleven arrivals and one drop are 0.0909: above 0.09, below 0.1.
    for flow in 2..=8 {
        b.data(20, flow, 1000);
        b.drain(20);
    }
    for flow in 9..=11 {
        b.data(20, flow, 1000);
    }
    assert_eq!((b.dropped().len(), b.q.loss.rate(at(20))), (1, Ppm(90_909)));
    assert!(!request(&mut b, 30, 50));
    assert!(request(&mut b, 30, 1), "forty made-up addresses have not pushed it out of a table of sixteen");
}

#[test]
fn a_flow_takes_few_bytes() {
    assert!(PaperMode::<Record>::bytes_per_flow() <= 256 + 32);
}
