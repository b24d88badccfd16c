//! What a sender of today did in a silence, behind a queue that hides its repairs: how it would have probed tells.

use super::*;
use crate::sender::{Phase, Seen, Sender};

/// A Linux sender whose clock is known, half of whose round trip of 500 ms is 100 ms. All is acknowledged at 10 s, of
/// which it hears at 10.1 s. With one sample RTO = 500 + 4 x 250 = 1500 ms; with many it is 500 + 200.
fn sender(samples: usize) -> Sender {
    let ms = Duration::from_millis;
    let mut s = Sender::new(1, crate::why::Asked::default());
    s.begin(at(0), SeqNum(1));
    (s.stamps, s.selective, s.around.losses, s.mss) = (true, true, true, 1000);
    (0..40).for_each(|n| s.clock.tick(at(n * 200), n as u32 * 200));
    s.clock.reacted(at(5000), 5100);
    s.trips.time_sender(ms(100), 2);
    (0..samples).for_each(|_| s.trips.time_receiver(ms(400)));
    (s.told_since, s.since, s.since_ack) = (9, at(10_000), true);
    (s.sent, s.sent_before) = (at(9_500), at(9_400));
    s.timer.restart(at(10_100));
    s
}

/// Segment `n` passes.
fn passes(s: &mut Sender, ms: u64, n: u32, flags: Flags) {
    let tcp = TcpHeader { seq: SeqNum(1 + n * 1000), payload: 1000, flags, ..TcpHeader::default() };
    s.data(&Seen { at: at(ms), frame: ms, tcp: &tcp, sent: at(ms) }, None);
}

/// Whether what is sent again at this time had been sent again before.
fn is_double(mut s: Sender, ms: u64) -> bool {
    let tcp = TcpHeader { seq: SeqNum(1), payload: 1000, flags: Flags::ACK, ..TcpHeader::default() };
    let p = Seen { at: at(ms), frame: 1, tcp: &tcp, sent: at(ms) };
    s.expire(&p, true, Place::Before, Certainty::Likely);
    assert_eq!(s.counts.timeouts, 1);
    s.pending.double
}

#[test]
fn a_timer_that_no_probe_came_before_had_a_repair_to_wait_for() {
    // A probe, two round trips after 10.1 s, would be no later than the timer, and restart it.
    assert!(is_double(sender(40), 10_800));
    assert!(!is_double(sender(40), 11_500), "0.7 s for the probe, and as much for the timer");
    let mut after_timeout = sender(40);
    after_timeout.told_since = 1;
    assert!(
        !is_double(after_timeout, 10_800),
        "only its repair has been acknowledged: it may have had no other"
    );
    let mut older = sender(40);
    older.around.plain = true;
    assert!(!is_double(older, 10_800), "such senders do not probe");
}

#[test]
fn in_recovery_an_ack_has_let_the_repair_go() {
    for (selective, double) in [(true, true), (false, false)] {
        let mut s = sender(40);
        (s.phase, s.selective, s.told_since) = (Phase::Recovery(SeqNum(5001)), selective, 0);
        assert_eq!(is_double(s, 10_800), double, "{selective}");
    }
}

#[test]
fn a_probe_that_jumps_over_a_tail_that_was_not_seen() {
    // Two round trips after 10.1 s the last segment comes, the fourth, and three before it were never seen.
    for (next, cause) in [(None, Cause::TailLoss), (Some(11_110), Cause::PacketDelay)] {
        let mut s = sender(1);
        s.heard = Some(Duration::from_millis(1000));
        passes(&mut s, 11_100, 3, Flags::ACK);
        if let Some(ms) = next {
            // There is more, so that was no tail but new data.
            passes(&mut s, ms, 4, Flags::ACK);
        } else {
            passes(&mut s, 11_700, 0, Flags::ACK);
            s.out.clear();
            s.has_ended();
        }
        let found: Vec<_> = s.stalls.iter().map(|s| (s.from, s.to, s.cause, s.repair, s.lost)).collect();
        let lost = if cause == Cause::TailLoss { Place::Before } else { Place::Unknown };
        assert_eq!(found, [(at(10_000), at(11_100), cause, Some(Repair::Probe), lost)]);
    }
}
