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

/// A way up of 128 kbit/s: users 1 and 2 acknowledge a download each, of each user from 3 on two packets of an upload
/// wait all the time.
struct WayUp {
    b: Bench,
    users: u8,
    acks: u32,
    /// Packets that users have sent in uploads.
    sent: [u32; USERS],
    /// Packets and bytes of users that have left.
    left: [u32; USERS],
    had: [u64; USERS],
    free_at: Instant,
}

/// Most users of a way up.
const USERS: usize = 12;

impl WayUp {
    /// A way up with `uploads`; `asked` says that the downloads began with a request, a second ago.
    fn new(settings: &[(&str, &str)], uploads: u8, asked: bool) -> Self {
        let mut b = Bench::with_rate(128, settings);
        let link = ShaperConfig { users: Side::Source, ..b.q.link };
        b.q = DefaultMode::new(b.q.common, b.q.config, link, 7);
        for user in [1, 2] {
            b.put(Self::segment(user, 1, if asked { 100 } else { 0 }));
            assert!(b.get().is_some());
        }
        b.wait(1000);
        let free_at = b.now;
        Self { b, users: 2 + uploads, acks: 0, sent: [0; USERS], left: [0; USERS], had: [0; USERS], free_at }
    }

    fn segment(user: u8, seq: u32, payload: u32) -> Record {
        segment(key(user).reverse(), Flags::ACK, seq, 1, payload)
    }

    /// Acknowledges each download by a packet that `change` changes.
    fn acknowledge(&mut self, change: impl Fn(&mut TcpHeader)) {
        self.acks += 1;
        for user in [1, 2] {
            let mut ack = Self::segment(user, 101, 0);
            let tcp = ack.header.tcp.as_mut().unwrap();
            (tcp.ack, tcp.timestamps) = (SeqNum(2 * MSS * self.acks), Some((self.acks, self.acks)));
            change(tcp);
            self.b.put(ack);
        }
    }

    /// Lets `user` send the next packet of an upload.
    fn upload(&mut self, user: u8) {
        let sent = &mut self.sent[usize::from(user) - 1];
        self.b.put(Self::segment(user, 101 + *sent * MSS, MSS));
        *sent += 1;
    }

    /// Sends what the link has time for within 5 ms.
    fn send(&mut self) {
        while self.free_at <= self.b.now {
            for user in 3..=self.users {
                while self.sent[usize::from(user) - 1] < self.left[usize::from(user) - 1] + 2 {
                    self.upload(user);
                }
            }
            let p = self.b.get().expect("uploads always wait");
            let IpAddr::V4(user) = p.header.key.src() else { unreachable!() };
            let user = usize::from(user.octets()[3]) - 1;
            self.left[user] += u32::from(p.header.is_tcp_data());
            self.had[user] += p.header.len.get();
            self.free_at += self.b.q.link.rate.time_to_send(p.header.len);
        }
        self.b.wait(5);
    }
}

/// Users 1 to 4 have a quarter each, by user and by flow: what of acknowledgments goes first is paid for in turns, and
/// whoever's acknowledgments have turns all the time has not rested, asked for something or not. As the acknowledgments
/// of user 2 always come just after those of user 1, less of them goes first. 20 s are 320 kB.
#[test]
fn whoever_acknowledges_has_no_more_of_the_link_than_whoever_sends() {
    let echoes: fn(&mut TcpHeader) = |tcp| tcp.flags = Flags::ACK.and(Flags::ECE);
    for share in ["user", "flow"] {
        for (asked, change) in [(false, echoes), (true, echoes), (false, |_| {}), (true, |_| {})] {
            let mut way = WayUp::new(&[("share", share)], 2, asked);
            for _ in 0..4000 {
                way.acknowledge(change);
                way.send();
            }
            let percents: Vec<u64> = way.had[..4].iter().map(|bytes| bytes / 3200).collect();
            assert!(percents[0] + percents[1] <= 52 && percents[1] >= 8, "{share}, {asked}: {percents:?}");
            assert!(percents[2].min(percents[3]) >= 22, "{share}, {asked}: {percents:?}");
        }
    }
}

/// By flow the acknowledgments of user 1 have .3 of the link, beside ten uploads, where a twelfth is its share. What it
/// sends after 20 s of that waits for a turn to pay with and for its own, a round of eleven packets of 94 ms each, not
/// for the 70 kB that it has had before the others.
#[test]
fn acknowledgments_are_paid_for_with_a_turn_at_most() {
    for share in ["user", "flow"] {
        let mut way = WayUp::new(&[("share", share)], 10, true);
        for _ in 0..4000 {
            way.acknowledge(|_| {});
            way.send();
        }
        way.upload(1);
        let steps = (0..4000).find(|_| {
            way.send();
            way.left[0] > 0
        });
        assert!(steps.is_some_and(|steps| steps * 5 <= 25 * 94), "{share}: {steps:?} steps of 5 ms");
    }
}
