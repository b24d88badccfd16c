//! Acknowledgments of a download on a way back that is too thin for all of them.

use narrows_users::Side;

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

/// Percentages of 128 kbit/s that two uploads have, each of which always has two packets waiting, and each of two
/// downloads by other users, acknowledged every 5 ms by packets that `change` changes. `asked` says that the downloads
/// began with a request.
fn percents_beside_uploads(settings: &[(&str, &str)], asked: bool, change: fn(&mut TcpHeader)) -> [u64; 4] {
    let mut b = Bench::with_rate(128, settings);
    b.q = DefaultMode::new(b.q.common, b.q.config, ShaperConfig { users: Side::Source, ..b.q.link }, 7);
    let up = |user: u8| key(user).reverse();
    for user in [1, 2] {
        b.put(segment(up(user), Flags::ACK, 1, 1, if asked { 100 } else { 0 }));
        assert!(b.get().is_some());
    }
    b.wait(1000);
    let (mut had, mut sent, mut free_at) = ([0; 4], [0; 4], b.now);
    for nth in 0..4000 {
        for user in [1, 2] {
            let mut ack = segment(up(user), Flags::ACK, 101, 2 * MSS * (nth + 1), 0);
            let tcp = ack.header.tcp.as_mut().unwrap();
            tcp.timestamps = Some((nth, nth));
            change(tcp);
            b.put(ack);
        }
        while free_at <= b.now {
            for user in [3, 4] {
                let sent = &mut sent[usize::from(user) - 1];
                while *sent < had[usize::from(user) - 1] / 1500 + 2 {
                    b.put(segment(up(user), Flags::ACK, 1 + *sent as u32 * MSS, 1, MSS));
                    *sent += 1;
                }
            }
            let p = b.get().expect("uploads always wait");
            let IpAddr::V4(user) = p.header.key.src() else { unreachable!() };
            had[usize::from(user.octets()[3]) - 1] += p.header.len.get();
            free_at += b.q.link.rate.time_to_send(p.header.len);
        }
        b.wait(5);
    }
    // In 20 s the link sends 320 kB.
    had.map(|bytes| bytes / 3200)
}

/// Two who send and two who acknowledge have a quarter each, users as flows: what of acknowledgments goes first is paid
/// for in turns, and whoever's acknowledgments have turns all the time has not rested, asked for something or not. As the
/// second download's acknowledgments always come just after the first one's, the second has less of what goes first.
#[test]
fn whoever_acknowledges_has_no_more_of_the_link_than_whoever_sends() {
    let echoes: fn(&mut TcpHeader) = |tcp| tcp.flags = Flags::ACK.and(Flags::ECE);
    for share in ["user", "flow"] {
        for (asked, change) in [(false, echoes), (true, echoes), (false, |_| {}), (true, |_| {})] {
            let had = percents_beside_uploads(&[("share", share)], asked, change);
            assert!(had[0] + had[1] <= 52 && had[1] >= 8, "{share}, asked {asked}: {had:?}");
            assert!(had[2].min(had[3]) >= 22, "{share}, asked {asked}: {had:?}");
        }
    }
}
