//! Silences of a sender with tail-loss probes behind a queue that hides its repairs. Times at which its probes are due,
//! silences that were a timer's, and the sender of the first segment of an answer.

use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use super::{Phase, Sender};
use crate::findings::{Cause, Certainty, Place, Repair};
use crate::passing::NOTHING;
use crate::seen::Seen;
use crate::why::Asked;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// A Linux sender whose clock is known, half of whose round trip of 500 ms is 100 ms. All is acknowledged at 10 s, of
/// which it hears at 10.1 s. With one sample RTO = 500 + 4 x 250 = 1500 ms; with many it is 500 + 200.
fn sender(samples: usize) -> Sender {
    let ms = Duration::from_millis;
    let mut s = Sender::new(1, Asked::default());
    s.begin(at(0), SeqNum(1));
    s.acks.set_selective(true);
    (s.timing.around_mut().losses, s.speech.mss) = (true, 1000);
    s.timing.has_clock((0..40).map(|n| (at(n * 200), n as u32 * 200)), at(5000), 5100);
    s.timing.time_sender(ms(100), 2);
    (0..samples).for_each(|_| s.timing.time_receiver(ms(400)));
    (0..9).for_each(|_| s.acks.note_news());
    (s.pending.since, s.pending.since_ack) = (at(10_000), true);
    s.timing.has_sent(at(9_400), at(9_500));
    s.timing.restart(at(10_100));
    s
}

/// A segment of the only connection, sent as it passes.
fn seen(ms: u64, tcp: &TcpHeader) -> Seen<'_> {
    Seen { at: at(ms), frame: ms, tcp, sent: at(ms), ident: None, passing: &NOTHING, passed: [None; 2] }
}

/// Segment `n` passes.
fn passes(s: &mut Sender, ms: u64, n: u32, flags: Flags) {
    let tcp = TcpHeader { seq: SeqNum(1 + n * 1000), payload: 1000, flags, ..TcpHeader::default() };
    s.data(&seen(ms, &tcp), None);
}

/// Whether what is sent again at this time had been sent again before.
fn is_double(mut s: Sender, ms: u64) -> bool {
    let tcp = TcpHeader { seq: SeqNum(1), payload: 1000, flags: Flags::ACK, ..TcpHeader::default() };
    let p = seen(ms, &tcp);
    s.expire(&p, true, Place::Before, Certainty::Likely);
    assert_eq!(s.findings.counts.timeouts, 1);
    s.pending.double
}

#[test]
fn a_timer_that_no_probe_came_before_had_a_repair_to_wait_for() {
    // A probe, two round trips after 10.1 s, would be no later than the timer, and restart it.
    assert!(is_double(sender(40), 10_800));
    assert!(!is_double(sender(40), 11_500), "0.7 s for the probe, and as much for the timer");
    let mut after_timeout = sender(40);
    after_timeout.acks.expire();
    after_timeout.acks.note_news();
    assert!(
        !is_double(after_timeout, 10_800),
        "only its repair has been acknowledged: it may have had no other"
    );
    let mut older = sender(40);
    older.timing.around_mut().plain = true;
    assert!(!is_double(older, 10_800), "such senders do not probe");
}

#[test]
fn in_recovery_an_ack_has_let_the_repair_go() {
    for (selective, double) in [(true, true), (false, false)] {
        let mut s = sender(40);
        s.repairing.phase = Phase::Recovery(SeqNum(5001));
        s.acks = Default::default();
        s.acks.set_selective(selective);
        assert_eq!(is_double(s, 10_800), double, "{selective}");
    }
}

#[test]
fn a_probe_that_jumps_over_a_tail_that_was_not_seen() {
    // Two round trips after 10.1 s the last segment comes, the fourth, and three before it were never seen.
    for (next, cause) in [(None, Cause::TailLoss), (Some(11_110), Cause::PacketDelay)] {
        let mut s = sender(1);
        s.timing.has_heard(Duration::from_millis(1000));
        passes(&mut s, 11_100, 3, Flags::ACK);
        if let Some(ms) = next {
            // Data follows, so the segment was no tail but new data.
            passes(&mut s, ms, 4, Flags::ACK);
        } else {
            passes(&mut s, 11_700, 0, Flags::ACK);
            s.out.clear();
            s.has_ended();
        }
        let found: Vec<_> =
            s.findings.stalls.iter().map(|s| (s.from, s.to, s.cause, s.repair, s.lost)).collect();
        let lost = if cause == Cause::TailLoss { Place::Before } else { Place::Unknown };
        assert_eq!(found, [(at(10_000), at(11_100), cause, Some(Repair::Probe), lost)]);
    }
}

#[test]
fn a_probe_is_no_later_than_the_timer_of_the_first_segment() {
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    let tcp = TcpHeader::default();
    let mut s = Sender::new(1, Asked::default());
    // R = 500 ms: RTO = 500 + 1000. The first of two left at 800 ms; an ACK was heard at 1 s, and the second left.
    s.timing.time_sender(Duration::from_millis(100), 2);
    s.timing.time_receiver(Duration::from_millis(400));
    for (n, ms) in [(0, 800), (1000, 1000)] {
        let p = seen(ms, &tcp);
        s.out.push(SeqNum(n), SeqNum(n + 1000), &p, 1);
    }
    s.timing.restart(at(1000));
    s.timing.has_sent(at(1000), at(1000));
    // Two round trips after that are 2 s, and the first's timer expires at 2.3 s.
    assert_eq!(s.tail_due(at(1900), false), Some((at(2000), at(2000))));
    // Another segment leaves at 1.9 s: now the timer is first.
    s.timing.has_sent(at(1900), at(1900));
    assert_eq!(s.tail_due(at(2200), false), Some((at(2300), at(2300))));
    assert_eq!(
        [2300, 2350, 2500].map(|ms| s.tail_probe(at(ms), false)),
        [2300, 2350, 2300].map(|ms| Some(at(ms)))
    );
    // Nothing was sent since the ACK: the timer counts from there.
    s.timing.has_sent(at(800), at(800));
    assert_eq!(s.tail_due(at(1900), false), Some((at(2000), at(2000))));
    // Nothing else was seen, and RTO = 700 ms: if something was missed, it left from 500 ms before the ACK on.
    s.out.clear();
    (0..40).for_each(|_| s.timing.time_receiver(Duration::from_millis(400)));
    assert_eq!(s.tail_due(at(1900), false), Some((at(1700), at(1700))));
    assert_eq!(s.tail_due(at(1900), true), Some((at(1200), at(1700))));
}

/// How many timeouts are told where the server is 50 ms away and the client 10, asks at 100 ms, and segments of the
/// answer pass at these times; the first is acknowledged at 940 ms.
fn told(first: u64, second: u64) -> u64 {
    let (ms, at) = (Duration::from_millis, |n: u64| Instant::ZERO + Duration::from_millis(n));
    let mut s = Sender::new(1, Asked::default());
    (s.timing.around_mut().losses, s.speech.announced) = (true, 1000);
    s.begin(at(0), SeqNum(1));
    s.timing.handshake(ms(10));
    s.timing.time_sender(ms(50), 2);
    s.timing.greeted();
    let mut packet = |n: u64, seq: u32, ack: u32, payload: u32| {
        let (seq, ack, flags) = (SeqNum(seq), SeqNum(ack), Flags::ACK);
        let tcp = TcpHeader { seq, ack, flags, payload, window: 60_000, ..TcpHeader::default() };
        let p = seen(n, &tcp);
        if payload > 0 { s.data(&p, Some(at(100))) } else { s.ack(&p) }
    };
    packet(first, 1, 101, 1000);
    if second < 940 {
        packet(second, 1001, 101, 1000);
    }
    packet(940, 101, 1001, 0);
    if second > 940 {
        packet(second, 1001, 101, 1000);
    }
    s.findings.counts.timeouts
}

#[test]
fn an_answer_whose_first_window_was_lost() {
    // RTO = 60 + 200 ms, from 150 ms on: it expires at 410 and at 930.
    assert_eq!(told(930, 992), 2);
    assert_eq!(told(930, 931), 0, "a window at once: an application");
    assert_eq!(told(380, 992), 0, "too soon for the timer");
}

#[test]
fn soon_after_an_ack_no_timer_has_expired() {
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    let mut s = Sender::new(1, Asked::default());
    s.timing.time_sender(Duration::from_millis(100), 2);
    s.timing.time_receiver(Duration::from_millis(300));
    // R = 400 ms, RTO = 400 + 800; the ACK that passes at 1 s is heard at 1.1 s.
    s.acks.passes(at(1000));
    s.acks.set_selective(true);
    s.timing.around_mut().losses = true;
    assert!(!s.has_heard(at(1200)), "it is not known whether such timers are restarted");
    s.timing.around_mut().restarts = true;
    assert_eq!([1050, 1100, 1699, 1700].map(|ms| s.has_heard(at(ms))), [false, true, true, false]);
}
