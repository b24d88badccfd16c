//! Where Linux's timer differs from RFC 6298's and its recovery from RFC 6675's, each by its key: segments of 1000
//! bytes on a path without a rate, worked by hand.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath, of_copies};
use narrows_tcp::{Config, TcpEvent};
use narrows_units::{Duration, Instant};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn config(preset: &str, more: &str) -> Config {
    format!("{preset}:handshake=none,delayed_ack=off,mss=1000,initial_window=10,{more}")
        .parse()
        .expect("settings of a test")
}

fn wire<'a>(config: Config, delay: u64, fate: impl FnMut(u32, usize) -> SegmentFate + 'a) -> Wire<'a> {
    Wire::new(config, WirePath::delay_ms(delay), of_copies(fate))
}

fn send<'a>(mut wire: Wire<'a>, segments: u64) -> Wire<'a> {
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(segments * 1000));
    wire.run();
    assert_eq!(wire.delivered(Side::B), segments * 1000);
    wire
}

/// When copies of segment `n` leave, in milliseconds.
fn times(wire: &Wire<'_>, n: u32) -> Vec<u64> {
    wire.data(Side::A).into_iter().filter(|s| s.1 == n).map(|s| s.0).collect()
}

fn fast_retransmits(wire: &Wire<'_>) -> usize {
    wire.count(Side::A, |e| matches!(e, TcpEvent::FastRetransmit))
}

#[test]
fn an_ack_that_sacks_older_data_restarts_the_timer() {
    // The first is lost twice, and the tenth comes 60 ms late. The ACKs at 100 ms have the first sent again, that at
    // 160 ms SACKs what left at 0 ms. Later ones SACK what left with the copy.
    let second = |more: &str| {
        let c = config("rfc", &format!("rtt_sampling=every_ack,{more}"));
        let wire = send(
            wire(c, 50, |n, copy| match (n, copy) {
                (1, 1 | 2) => SegmentFate::Drop,
                (10, 1) => SegmentFate::Late(ms(60)),
                _ => SegmentFate::Pass,
            }),
            20,
        );
        times(&wire, 1)
    };
    assert_eq!(second("restart_timer=on"), [0, 100, 1100]);
    assert_eq!(second("restart_timer=linux"), [0, 100, 1160]);
}

#[test]
fn a_probe_is_no_later_than_the_timer_of_the_first_segment() {
    // R = 500 ms: RTO = 500 + 4 * 250 from the first ACK on. The second segment left at 300 ms, the third at 1400 ms;
    // both are lost. Two round trips more are 2400 ms. RFC 8985: when the timer expires that the ACK at 500 ms has
    // started. Linux: when one expires that counts from the second segment.
    let probe = |more: &str| {
        let c = config("linux", more);
        let mut w = wire(c, 250, |n, copy| match (n, copy) {
            (2 | 3, 1) => SegmentFate::Drop,
            _ => SegmentFate::Pass,
        });
        w.act(Side::A, Act::Open);
        for at in [0, 300, 1400] {
            w.run_until(Instant::ZERO + ms(at));
            w.act(Side::A, Act::Write(1000));
        }
        w.run();
        times(&w, 3)[..2].to_vec()
    };
    assert_eq!(probe("restart_timer=on"), [1400, 2000]);
    assert_eq!(probe("restart_timer=linux"), [1400, 1800]);
}

#[test]
fn a_time_out_that_was_not_needed_is_undone() {
    // The path gets longer by 2 s: the timer of 1 s expires, and then the ACKs of the originals come. That of the first
    // says nothing. That of the second, which was sent once, says it: RFC 5682, section 3.
    let again = |rto_recovery: &str| {
        let c = config("rfc", &format!("dsack=on,rack_tlp=on,rto_recovery={rto_recovery}"));
        let late = |n: u32, copy: usize| {
            if copy == 1 && n <= 10 { SegmentFate::Late(ms(2000)) } else { SegmentFate::Pass }
        };
        // The copies of the first overtake it: they are lost.
        let lost =
            move |n: u32, copy: usize| if n == 1 && copy > 1 { SegmentFate::Drop } else { late(n, copy) };
        let wire = send(wire(c, 50, lost), 30);
        (wire.ends[0].counters().retransmitted, wire.ends[0].ssthresh())
    };
    let (frto, window) = again("frto");
    assert_eq!((frto, window), (1, f64::INFINITY));
    let (plain, window) = again("scoreboard");
    assert!(plain > 1 && window.is_finite(), "{plain} {window}");
}

#[test]
fn new_data_leaves_first_after_a_time_out() {
    // All of the first flight is lost. The ACK of the first copy lets out two new segments (RFC 5682, section 3, step
    // 2b); that they arrive while nothing of the flight does says that it is lost.
    let order = |rto_recovery: &str| {
        let c = config("rfc", &format!("dsack=on,rack_tlp=on,rto_recovery={rto_recovery}"));
        let lost =
            |n: u32, copy: usize| if copy == 1 && n <= 10 { SegmentFate::Drop } else { SegmentFate::Pass };
        let wire = send(wire(c, 50, lost), 20);
        wire.data(Side::A)[10..14].to_vec()
    };
    assert_eq!(order("frto"), [(1000, 1), (1100, 11), (1100, 12), (1200, 2)]);
    assert_eq!(order("scoreboard"), [(1000, 1), (1100, 2), (1100, 3), (1200, 4)]);
}

#[test]
fn a_repair_that_is_lost_after_a_time_out_begins_a_fast_recovery() {
    // As before, and the copy of the second is lost too: those sent after it arrive.
    let count = |rto_recovery: &str| {
        let c = config("rfc", &format!("dsack=on,rack_tlp=on,rto_recovery={rto_recovery}"));
        let lost = |n: u32, copy: usize| match (n, copy) {
            (1..=10, 1) | (2, 2) => SegmentFate::Drop,
            _ => SegmentFate::Pass,
        };
        fast_retransmits(&send(wire(c, 50, lost), 20))
    };
    assert_eq!((count("frto"), count("scoreboard")), (1, 0));
}

#[test]
fn acks_that_only_sack_give_samples() {
    // The first is lost, the others arrive: nine ACKs SACK one more each, and the last acknowledges all. The tenth was
    // sent again as a rescue before its ACK came (RFC 6675, NextSeg, rule 4), so that one gives none.
    let samples = |rtt_sampling: &str| {
        let c = config("rfc", &format!("rtt_sampling={rtt_sampling}"));
        let lost =
            |n: u32, copy: usize| if (n, copy) == (1, 1) { SegmentFate::Drop } else { SegmentFate::Pass };
        let wire = send(wire(c, 50, lost), 10);
        wire.count(Side::A, |e| matches!(e, TcpEvent::RttSample(rtt) if *rtt == ms(100)))
    };
    assert_eq!((samples("every_ack"), samples("every_segment")), (8, 0));
}
