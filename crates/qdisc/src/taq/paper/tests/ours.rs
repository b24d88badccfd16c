//! Choices that the paper leaves open: ties, marks, and packets that no record can be made for.

use super::*;

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
fn a_flow_takes_few_bytes() {
    assert!(PaperMode::<Record>::bytes_per_flow() <= 256 + 32);
}

#[test]
fn new_flows_lose_after_the_other_data() {
    let mut b = Bench::new(&[("buffer", "4"), ("newflow_cap", "0.5")]);
    for flow in [3, 5] {
        b.data(0, flow, 1000);
        b.drain(0);
    }
    // 3 is no new flow after 1.5 s; one packet an epoch cannot be repaired, as little as the first of 4.
    let below = b.data(1_500, 3, 1000);
    let new = [b.data(1_500, 4, 1000), b.data(1_500, 6, 1000)];
    assert_eq!((b.waiting(Class::New), b.waiting(Class::Below)), (2, 1));
    assert_eq!(b.next_state(1_500, 3), b.next_state(1_500, 4));
    for victim in [None, Some(below), Some(new[1])] {
        b.again(1_500, 5, 1000);
        assert_eq!(b.dropped(), Vec::from_iter(victim));
    }
}
