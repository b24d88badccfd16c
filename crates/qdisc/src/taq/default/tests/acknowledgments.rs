//! Acknowledgments of a download on a way back that is too thin for all of them.

use super::*;

/// `count` acknowledgments at once, each changed by `change`. Returns those that leave, and how many were discarded.
fn left(settings: &[(&str, &str)], count: u32, change: impl Fn(u32, &mut TcpHeader)) -> (Vec<u32>, usize) {
    let mut b = Bench::new(settings);
    for nth in 0..count {
        let mut ack = segment(key(1), Flags::ACK, 1, 1000 * (nth + 1), 0);
        let tcp = ack.header.tcp.as_mut().unwrap();
        tcp.timestamps = Some((nth, nth));
        change(nth, tcp);
        b.put(ack);
    }
    let numbers: Vec<u32> =
        std::iter::from_fn(|| b.get()).map(|p| p.header.tcp.unwrap().ack.0 / 1000).collect();
    let discarded = b.verdicts.iter().filter(|v| matches!(v, Verdict::Suppressed { .. })).count();
    (numbers, discarded)
}

/// Packets without data may have .3 of 600 kbit/s, of which 200 ms are saved up: 4500 bytes, or 87 of 52 bytes. Of what
/// comes beyond, the last one says all.
#[test]
fn of_those_beyond_the_share_the_last_one_is_left() {
    let (numbers, discarded) = left(&[], 200, |_, _| {});
    assert_eq!(numbers.last(), Some(&200));
    assert_eq!(numbers.len() + discarded, 200);
    let first = numbers.len() as u32 - 1;
    assert_eq!(numbers[..numbers.len() - 1], (1..=first).collect::<Vec<_>>());
    assert!((80..=90).contains(&first), "{first}");
    assert_eq!(left(&[("ack_filter", "off")], 200, |_, _| {}), ((1..=200).collect(), 0));
}

#[test]
fn those_that_say_more_are_left() {
    let (numbers, _) = left(&[], 200, |nth, tcp| {
        if nth == 150 {
            tcp.sack.push(SeqNum(900_000), SeqNum(901_000));
        }
        if nth == 160 {
            tcp.flags = Flags::ACK.and(Flags::ECE);
        }
    });
    assert!(numbers.ends_with(&[151, 160, 161, 200]), "{numbers:?}");
    // Duplicates count as losses at the sender.
    let (numbers, _) = left(&[], 200, |nth, tcp| tcp.ack = SeqNum(1000 * (nth.min(150) + 1)));
    assert_eq!(numbers.iter().filter(|n| **n == 151).count(), 50);
}
