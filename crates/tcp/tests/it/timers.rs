//! The retransmission timer (RFC 6298) as seen on the wire: a path of 100 ms without a rate, segments of 1000 bytes.

use crate::common::{Act, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::Config;
use narrows_units::{Duration, Instant};
use narrows_wire::Flags;

fn config(text: &str) -> Config {
    text.parse().expect("settings of a test")
}

/// When data segments leave, in milliseconds with their numbers, if the sender writes one after the other and
/// `lost` says which copies in all are lost, counted from 1.
fn one_by_one(config: Config, segments: usize, lost: impl Fn(usize) -> bool) -> Vec<(u64, u32)> {
    let mut count = 0;
    let mut wire = Wire::new(config, WirePath::delay_ms(50), move |side, _, segment| {
        count += usize::from(side == Side::A && segment.tcp.payload > 0);
        if side == Side::A && segment.tcp.payload > 0 && lost(count) {
            SegmentFate::Drop
        } else {
            SegmentFate::Pass
        }
    });
    wire.act(Side::A, Act::Open);
    for n in 1..=segments {
        wire.act(Side::A, Act::Write(1000));
        while wire.ends[0].acked() < n as u64 * 1000
            && wire.now < Instant::ZERO + Duration::from_secs(400)
            && wire.step()
        {}
    }
    wire.data(Side::A)
}

fn seconds(sent: &[(u64, u32)]) -> Vec<f64> {
    sent.iter().map(|s| s.0 as f64 / 1e3).collect()
}

#[test]
fn the_back_off_of_each_stack() {
    let all = |text: &str| {
        let times = seconds(&one_by_one(config(text), 1, |_| true));
        times[..9].to_vec()
    };
    // 2.1: 1 s; 5.5: doubled; 2.5: at most 60 s.
    assert_eq!(all("rfc:mss=1000,handshake=none"), [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0, 183.0]);
    // Linux: at most 120 s.
    assert_eq!(all("linux:mss=1000,handshake=none"), [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0, 247.0]);
    // ns-2: rtxcur_init_ 3 s, maxrto_ 60 s.
    assert_eq!(all("ns2:handshake=none"), [0.0, 3.0, 9.0, 21.0, 45.0, 93.0, 153.0, 213.0, 273.0]);
    // A factor of 4 at most.
    assert_eq!(
        all("rfc:mss=1000,handshake=none,backoff_limit=4"),
        [0.0, 1.0, 3.0, 7.0, 11.0, 15.0, 19.0, 23.0, 27.0]
    );
}

#[test]
fn the_rto_of_samples_of_100_ms() {
    // 2.2: SRTT = 100, RTTVAR = 50, RTO = 100 + 4 * 50; 2.3: RTTVAR = 3/4 of it with each further sample of 100 ms.
    for (samples, rto) in [(1, 300), (2, 250), (3, 212)] {
        let c = config("rfc:mss=1000,handshake=none,delayed_ack=off,rto_min=0");
        let sent = one_by_one(c, samples + 1, |n| n == samples + 1);
        assert_eq!(sent[samples].0, 100 * samples as u64);
        assert_eq!(sent[samples + 1].0 - sent[samples].0, rto, "{samples} samples");
    }
    // 2.4: the floor of 1 s. Linux: 200 ms as a floor of 4 * RTTVAR only.
    for (text, rto) in [
        ("rfc:mss=1000,handshake=none,delayed_ack=off", 1000),
        ("linux:mss=1000,handshake=none,delayed_ack=off,rack_tlp=off,timestamps=off", 300),
    ] {
        let sent = one_by_one(config(text), 4, |n| n == 4);
        assert_eq!(sent[4].0 - sent[3].0, rto, "{text}");
    }
}

#[test]
fn what_ends_the_back_off() {
    // The first segment is lost, sent again after 1 s and acknowledged at 1.1 s; then the second is lost. Karn
    // (section 3): that ACK gives no sample, so the RTO is still 2 s, unless any new ACK ends the back-off, or a
    // timestamp tells which copy arrived.
    let second = |more: &str| {
        let c = config(&format!("rfc:mss=1000,handshake=none,delayed_ack=off,{more}"));
        seconds(&one_by_one(c, 2, |n| n == 1 || n == 3))
    };
    assert_eq!(second(""), [0.0, 1.0, 1.1, 3.1]);
    assert_eq!(second("backoff_ends=new_ack"), [0.0, 1.0, 1.1, 2.1]);
    assert_eq!(second("timestamps=on"), [0.0, 1.0, 1.1, 2.1]);
}

#[test]
fn after_a_lost_syn_the_first_rto_is_3_s_and_the_window_one_segment() {
    // 5.7, and RFC 5681, section 3.1.
    let (mut syns, mut data) = (0, 0);
    let mut wire =
        Wire::new(config("rfc:mss=1000,delayed_ack=off"), WirePath::delay_ms(50), |side, _, segment| {
            let syn = side == Side::A && segment.tcp.flags.has(Flags::SYN);
            syns += usize::from(syn);
            data += usize::from(segment.tcp.payload > 0);
            if syn && syns == 1 || data == 1 { SegmentFate::Drop } else { SegmentFate::Pass }
        });
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(3000));
    wire.run();
    assert_eq!(wire.data(Side::A)[..3], [(1100, 1), (4100, 1), (4200, 2)]);
}

#[test]
fn a_syn_is_tried_so_often_and_then_no_more() {
    let mut wire = Wire::new(config("linux"), WirePath::delay_ms(50), |_, _, _| SegmentFate::Drop);
    wire.act(Side::A, Act::Open);
    wire.run();
    let times: Vec<_> = wire.log.iter().map(|s| s.at.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63]);
    assert!(wire.ends[0].is_failed());
    assert_eq!(wire.now.as_nanos() / 1_000_000_000, 127, "six retries, then twice 32 s");
}
