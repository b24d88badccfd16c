//! Packets of a stranger in the name of one of the ends: he knows addresses and ports, and guesses the numbers.

use std::collections::{BTreeSet, VecDeque};

use super::*;

/// Two guesses half the numbers apart: one of them is ahead, whatever was sent.
fn pair(b: &mut Bench, guess: u32) {
    for guess in [guess, guess ^ 1 << 31] {
        b.back(segment(key(1).reverse(), Flags::ACK, guess, guess, 0));
    }
}

#[test]
fn a_forged_acknowledgment_makes_no_copy_superfluous_and_leaves_the_clamp() {
    let mut b = Bench::new(&[("window_clamp_min", "2")]);
    b.connect(1);
    b.ack(1, 1001);
    b.put(data(1, 0));
    assert_eq!(b.order().len(), 1);
    for guess in [0, 1 << 20, 1 << 29, 3 << 29, 0x1234_5678] {
        pair(&mut b, guess);
    }
    b.wait(20);
    b.put(data(1, 0));
    assert_eq!((b.verdicts.len(), b.order().len()), (0, 1), "nothing of it is acknowledged");
    let told = u32::from(b.ack(1, 1001 + MSS).window) << 7;
    assert!((2 * MSS..=15 * MSS).contains(&told), "{told}");
}

#[test]
fn a_forged_reset_drops_nothing() {
    let mut b = Bench::new(&[]);
    b.connect(1);
    (0..4).for_each(|nth| b.put(data(1, nth)));
    for guess in [0, 1 << 17, 1 << 30, 1 << 31, u32::MAX - 1000] {
        b.back(segment(key(1).reverse(), Flags::RST, guess, guess, 0));
    }
    assert_eq!(b.q.backlog().packets, 4);
}

#[test]
fn a_forged_segment_size_is_not_taken_for_the_real_one() {
    let mut b = Bench::new(&[("window_clamp_min", "2")]);
    b.connect(1);
    b.put(data(1, 0));
    let with_mss = |mut p: Record| {
        p.header.tcp.as_mut().unwrap().mss = Some(1);
        p
    };
    b.put(with_mss(segment(key(1), Flags::ACK, 1 << 30, 1, 0)));
    b.back(with_mss(segment(key(1).reverse(), Flags::ACK, 1, 1 << 30, 0)));
    assert!(!b.order().is_empty());
    let told = u32::from(b.ack(1, 1001 + MSS).window) << 7;
    assert!(told >= 2 * MSS, "{told}");
}

/// A copy of what nobody has under way, with a timestamp that would make the receiver discard all that follows.
#[test]
fn a_forged_copy_overtakes_nothing_and_stamps_nothing() {
    let mut b = Bench::new(&[("window_clamp", "off"), ("new_flows_first", "off")]);
    b.connect(1);
    // 80 flows make a round of 1.6 s.
    (10..90).for_each(|user| b.put(data(user, 0)));
    for nth in 0..3 {
        b.put(data(1, nth));
    }
    b.ack(1, 1001);
    let mut stamped = |seq: u32, tsval: u32| {
        let mut copy = segment(key(1), Flags::ACK, seq, 9, MSS);
        copy.header.tcp.as_mut().unwrap().timestamps = Some((tsval, 1));
        b.put(copy);
    };
    stamped(1001u32.wrapping_sub(20 * MSS), 1 << 30);
    stamped(1001u32.wrapping_sub(1 << 28), 1 << 30);
    // With a number that is right: two minutes of microseconds are the most that is believed.
    stamped(1001 + MSS, 1 << 30);
    let mine: Vec<_> = std::iter::from_fn(|| b.get())
        .filter(|p| p.header.key == key(1))
        .map(|p| p.header.tcp.unwrap())
        .collect();
    assert_eq!(
        mine.iter().map(|tcp| tcp.seq.0).take(3).collect::<Vec<_>>(),
        [0, 1, 2].map(|n| 1001 + n * MSS)
    );
    assert!(mine[..3].iter().all(|tcp| tcp.timestamps.unwrap().0 == tcp.seq.0), "{mine:?}");
}

/// A download over 100 ms and a link of 600 kbit/s, behind which each fiftieth packet is lost: the sender repairs by
/// the third duplicate acknowledgment, or after 400 ms.
struct Download {
    bench: Bench,
    ms: u64,
    acked: u32,
    next: u32,
    edge: u32,
    repeated: u8,
    heard_at: u64,
    /// Segments and acknowledgments under way, by the time at which they arrive.
    coming: VecDeque<(u64, u32)>,
    returning: VecDeque<(u64, u32, u32)>,
    departures: u64,
    received: u32,
    early: BTreeSet<u32>,
}

impl Download {
    fn begun() -> Self {
        let mut bench = Bench::new(&[]);
        bench.connect(1);
        let ms = bench.now.as_nanos() / 1_000_000;
        let mut new = Self {
            bench,
            ms,
            acked: 0,
            next: 0,
            edge: 0,
            repeated: 0,
            heard_at: ms,
            coming: VecDeque::new(),
            returning: VecDeque::new(),
            departures: 0,
            received: 0,
            early: BTreeSet::new(),
        };
        new.acknowledge();
        new
    }

    /// The receiver acknowledges; what it says passes the box.
    fn acknowledge(&mut self) {
        let mut ack = segment(key(1).reverse(), Flags::ACK, 1, 1001 + self.received * MSS, 0);
        if let (Some(tcp), Some(first)) = (ack.header.tcp.as_mut(), self.early.first()) {
            tcp.sack.push(SeqNum(1001 + first * MSS), SeqNum(1001 + (first + 1) * MSS));
        }
        let told = self.bench.back(ack).unwrap().header.tcp.unwrap();
        let edge = (told.ack.0 - 1001 + (u32::from(told.window) << 7)) / MSS;
        self.returning.push_back((self.ms + 50, self.received, edge));
    }

    fn send(&mut self, nth: u32) {
        self.coming.push_back((self.ms + 50, nth));
    }

    fn millisecond(&mut self) {
        self.ms += 1;
        self.bench.now = Instant::from_nanos(self.ms * 1_000_000);
        while self.returning.front().is_some_and(|(at, ..)| *at <= self.ms) {
            let (_, acked, edge) = self.returning.pop_front().unwrap();
            self.edge = self.edge.max(edge);
            if acked > self.acked {
                (self.acked, self.repeated, self.heard_at) = (acked, 0, self.ms);
            } else {
                self.repeated += 1;
                if self.repeated == 3 {
                    self.send(self.acked);
                }
            }
        }
        if self.next > self.acked && self.ms - self.heard_at > 400 {
            (self.heard_at, self.repeated) = (self.ms, 0);
            self.send(self.acked);
        }
        while self.next < self.edge {
            self.send(self.next);
            self.next += 1;
        }
        while self.coming.front().is_some_and(|(at, _)| *at <= self.ms) {
            let (_, nth) = self.coming.pop_front().unwrap();
            self.bench.put(data(1, nth));
        }
        // 1500 bytes in 20 ms; what is forged is short.
        if self.ms.is_multiple_of(20)
            && let Some(packet) =
                std::iter::from_fn(|| self.bench.get()).find(|packet| packet.header.len >= Bytes(1500))
        {
            let seq = packet.header.tcp.unwrap().seq.0;
            self.departures += 1;
            if !self.departures.is_multiple_of(50) && seq % MSS == 1001 {
                self.early.insert((seq - 1001) / MSS);
                while self.early.remove(&self.received) {
                    self.received += 1;
                }
                self.acknowledge();
            }
        }
    }

    /// Segments that have come in a minute, while somebody forges something each 40 ms.
    fn goodput(forge: impl Fn(&mut Bench, u32)) -> u32 {
        let mut download = Self::begun();
        let mut dice = crate::dice::Dice::new(7);
        for ms in 0..60_000 {
            download.millisecond();
            if ms % 40 == 0 {
                forge(&mut download.bench, dice.roll() as u32);
            }
        }
        download.received
    }
}

#[test]
fn twenty_five_forged_packets_a_second_cost_a_download_nothing() {
    let alone = Download::goodput(|_, _| {});
    assert!(alone > 2700, "of 3000 packets each fiftieth is lost: {alone}");
    let back = |flags: Flags| {
        move |b: &mut Bench, guess: u32| {
            for guess in [guess, guess ^ 1 << 31] {
                b.back(segment(key(1).reverse(), flags, guess, guess, 0));
            }
        }
    };
    let forth = |flags: Flags, payload: u32| {
        move |b: &mut Bench, guess: u32| {
            for guess in [guess, guess ^ 1 << 31] {
                b.q.enqueue(b.now, segment(key(1), flags, guess, guess, payload), &mut b.verdicts);
            }
        }
    };
    let kept = |name: &str, goodput: u32| {
        assert!(goodput * 100 >= alone * 95, "{name}: {goodput} of {alone}");
    };
    kept("acknowledgments", Download::goodput(back(Flags::ACK)));
    kept("resets", Download::goodput(back(Flags::RST)));
    kept("resets that acknowledge", Download::goodput(back(Flags::RST.and(Flags::ACK))));
    kept("ends", Download::goodput(back(Flags::FIN.and(Flags::ACK))));
    kept("the sender's resets", Download::goodput(forth(Flags::RST, 0)));
    kept("the sender's end", Download::goodput(forth(Flags::FIN.and(Flags::ACK), 0)));
    kept("data", Download::goodput(forth(Flags::ACK, 1)));
}

/// A SYN in the receiver's name would have the scales forgotten, and with them the clamp, for as long as the connection
/// lives.
#[test]
fn a_forged_call_leaves_the_clamp() {
    let mut b = Bench::new(&[("window_clamp_min", "2")]);
    b.connect(1);
    b.put(data(1, 0));
    assert_eq!(b.order().len(), 1);
    b.ack(1, 1001 + MSS);
    for guess in [7, 1 << 30, 1 << 31] {
        b.back(segment(key(1).reverse(), Flags::SYN, guess, 0, 0));
        b.put(segment(key(1), Flags::SYN, guess, 0, 0));
    }
    b.put(data(1, 1));
    assert!(std::iter::from_fn(|| b.get()).any(|p| p.header.is_tcp_data()));
    let told = u32::from(b.ack(1, 1001 + 2 * MSS).window) << 7;
    assert!((2 * MSS..=15 * MSS).contains(&told), "{told}");
}

/// The receiver has lost its memory and calls from the same port, before anybody has ended the connection.
#[test]
fn a_call_that_is_answered_begins_anew() {
    let mut b = Bench::new(&[("window_clamp_min", "2")]);
    b.connect(1);
    b.put(data(1, 0));
    assert_eq!(b.order().len(), 1);
    b.ack(1, 1001 + MSS);
    let with_scale = |mut p: Record| {
        let tcp = p.header.tcp.as_mut().unwrap();
        (tcp.window_scale, tcp.mss) = (Some(9), Some(1460));
        p
    };
    b.back(with_scale(segment(key(1).reverse(), Flags::SYN, 70_000, 0, 0)));
    b.wait(100);
    b.put(with_scale(segment(key(1), Flags::SYN.and(Flags::ACK), 5_000_000, 70_001, 0)));
    assert!(b.get().is_some());
    let told = b.ack(1, 5_000_001).window;
    assert_eq!(told, 39, "14 segments are 39.6 units of 512 bytes");
}
