//! Calls, games and queries: small datagrams at a steady pace, both ways, whatever becomes of them. This file says when
//! each end sends, what jitter is and when a call is good, for simulator and lab alike.

use narrows_units::Duration;

use crate::maths::ln;

/// Greatest share of packets that a good call loses: codecs conceal one in a hundred.
const GOOD_LOSS: f64 = 0.01;
/// Greatest added delay of a good call, seconds: nobody notices 150 ms from mouth to ear (ITU-T G.114), of which
/// packets, playout and propagation leave a queue some 60.
const GOOD_ADDED: f64 = 0.060;

/// Mean time of talking in conversation, with [`SILENCE`] 40 % of all; ITU-T P.59 has 38.5 %.
const TALK: Duration = Duration::from_millis(1_200);
/// Mean time of silence in conversation.
const SILENCE: Duration = Duration::from_millis(1_800);
/// Time from a frame of comfort noise to the next in silence, as libopus has it.
const COMFORT_EVERY: Duration = Duration::from_millis(400);
/// IP bytes of a packet of comfort noise: 20 of Opus.
const COMFORT: u32 = 60;

/// Time before a run's end in which packets sent are not counted, because they may be on their way.
pub const LAST: Duration = Duration::from_secs(1);

/// The way of a call's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallWay {
    /// The way from `from`, the server, to the user.
    Down,
    /// The way from the user to the server.
    Up,
}

impl CallWay {
    /// The two ways in the order of tables.
    pub const BOTH: [Self; 2] = [Self::Down, Self::Up];

    /// Word for the way in figures.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// Packets that both ends of a call send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// IP bytes of a packet to the user.
    pub down: u32,
    /// IP bytes of a packet from the user.
    pub up: u32,
    /// Time from a packet to the next.
    pub interval: Duration,
    /// When packets are sent.
    pub pattern: Pattern,
}

/// Times at which the packets of a call are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Packets from both ends at all times.
    Steady,
    /// Talk and silence in turn at each end, for exponential times; in silence comfort noise is sent.
    Spurts,
    /// Packets from the user, each of which the server answers at once.
    Answered,
}

impl Pattern {
    /// All patterns of calls.
    pub const ALL: [Self; 3] = [Self::Steady, Self::Spurts, Self::Answered];

    /// Word for the pattern.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Spurts => "spurts",
            Self::Answered => "answered",
        }
    }
}

impl CallShape {
    /// The shapes that have a name.
    pub const NAMED: [(&'static str, Self); 7] = [
        // 160 bytes of G.711 under RTP, UDP and IPv4.
        ("g711", Self::voice(200, 20)),
        ("opus24", Self::voice(100, 20)),
        ("opus32-40ms", Self::voice(146, 40)),
        ("opus-dtx", Self { pattern: Pattern::Spurts, ..Self::voice(100, 20) }),
        (
            "game",
            Self {
                down: 130,
                up: 80,
                interval: Duration::from_nanos(1_000_000_000 / 30),
                pattern: Pattern::Steady,
            },
        ),
        ("dns", Self { down: 200, up: 70, interval: Duration::from_secs(2), pattern: Pattern::Answered }),
        ("keepalive", Self::voice(60, 15_000)),
    ];

    const fn voice(packet: u32, interval_ms: u64) -> Self {
        let interval = Duration::from_millis(interval_ms);
        Self { down: packet, up: packet, interval, pattern: Pattern::Steady }
    }

    /// IP bytes of a packet.
    #[must_use]
    pub const fn packet(&self, way: CallWay) -> u32 {
        match way {
            CallWay::Down => self.down,
            CallWay::Up => self.up,
        }
    }

    /// Whether packets of `way` answer the packets of the other way.
    #[must_use]
    pub fn answers(&self, way: CallWay) -> bool {
        self.pattern == Pattern::Answered && way == CallWay::Down
    }
}

/// Clock of one end of a call: the times and lengths of the packets that the end sends.
#[derive(Clone, Debug)]
pub struct Pacer {
    call: CallShape,
    way: CallWay,
    talks: bool,
    /// Time of talking or silence that is left.
    left: Duration,
}

impl Pacer {
    /// Makes the pacer of an end that begins to talk; `u` gives uniform numbers in [0, 1).
    pub fn new(call: CallShape, way: CallWay, u: &mut impl FnMut() -> f64) -> Self {
        let left = if call.pattern == Pattern::Spurts { exponential(TALK, u) } else { Duration::ZERO };
        Self { call, way, talks: true, left }
    }

    /// IP bytes of the packet to send now.
    #[must_use]
    pub fn packet(&self) -> u32 {
        if self.talks { self.call.packet(self.way) } else { COMFORT }
    }

    /// Tells the time from the packet that is sent now to the next.
    pub fn advance(&mut self, u: &mut impl FnMut() -> f64) -> Duration {
        if self.call.pattern != Pattern::Spurts {
            return self.call.interval;
        }
        let gap = if self.talks { self.call.interval } else { COMFORT_EVERY };
        if gap < self.left {
            self.left = self.left.saturating_sub(gap);
            return gap;
        }
        // The other begins with a packet.
        let rest = self.left;
        self.talks = !self.talks;
        self.left = exponential(if self.talks { TALK } else { SILENCE }, u);
        rest
    }
}

fn exponential(mean: Duration, u: &mut impl FnMut() -> f64) -> Duration {
    Duration::from_nanos((-(mean.as_nanos() as f64) * ln(1.0 - u())).round() as u64)
}

/// The jitter of packets that arrive (RFC 3550, section 6.4.1), averaged over them.
#[derive(Clone, Debug, Default)]
pub struct Jitter {
    last: Option<u64>,
    /// Sixteen times the estimate, nanoseconds (appendix A.8).
    scaled: u64,
    sum: u128,
    count: u64,
}

impl Jitter {
    /// Takes the delay of a packet that has arrived, less anything that is the same for all.
    pub fn add(&mut self, delay: Duration) {
        let delay = delay.as_nanos();
        if let Some(last) = self.last.replace(delay) {
            self.scaled += delay.abs_diff(last);
            self.scaled -= (self.scaled - delay.abs_diff(last) + 8) >> 4;
            self.sum += u128::from(self.scaled >> 4);
            self.count += 1;
        }
    }

    /// The mean of the estimate after each packet but the first, seconds.
    #[must_use]
    pub fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e9)
    }
}

/// Loss and delay of one way of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    /// Share of packets lost.
    pub loss: f64,
    /// The 95th percentile of added delay in seconds, if any arrived.
    pub added_p95_s: Option<f64>,
}

/// Whether a call is good: in each way in which anything was sent at most one packet in a hundred is lost, and 95 in a
/// hundred of the others are delayed by at most 60 ms beyond propagation and their own transmission. `None` if nothing
/// was sent.
#[must_use]
pub fn is_good(ways: [Option<Heard>; 2]) -> Option<bool> {
    let good = |heard: Heard| heard.loss <= GOOD_LOSS && heard.added_p95_s.is_some_and(|p| p <= GOOD_ADDED);
    ways.into_iter().flatten().map(good).reduce(|a, b| a && b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str) -> CallShape {
        CallShape::NAMED.iter().find(|(n, _)| *n == name).unwrap().1
    }

    /// Bits per second of IP with `overhead` more bytes per packet.
    fn kbps(call: CallShape, way: CallWay, overhead: u32) -> f64 {
        f64::from(call.packet(way) + overhead) * 8e-3 / call.interval.as_secs_f64()
    }

    #[test]
    fn rates_of_the_shapes_by_hand() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 0.01, "{a} {b}");
        near(kbps(shape("g711"), CallWay::Up, 0), 80.0);
        near(kbps(shape("g711"), CallWay::Down, 14), 85.6);
        near(kbps(shape("opus24"), CallWay::Down, 0), 40.0);
        near(kbps(shape("opus32-40ms"), CallWay::Down, 14), 32.0);
        // 30 packets a second of 130 and of 80 bytes.
        near(kbps(shape("game"), CallWay::Down, 0), 31.2);
        near(kbps(shape("game"), CallWay::Up, 0), 19.2);
        assert!(shape("dns").answers(CallWay::Down) && !shape("dns").answers(CallWay::Up));
        assert!(!shape("g711").answers(CallWay::Down));
    }

    #[test]
    fn a_spurt_by_hand() {
        // ln 2 = .693: talk of 832 ms, silence of 1248 ms.
        let mut half = || 0.5;
        let mut pacer = Pacer::new(shape("opus-dtx"), CallWay::Up, &mut half);
        let mut packets = Vec::new();
        let mut at = Duration::ZERO;
        while at < Duration::from_millis(2_200) {
            packets.push((at.as_nanos() / 1_000_000, pacer.packet()));
            at += pacer.advance(&mut half);
        }
        let talk = packets.iter().take_while(|p| p.1 == 100).count();
        // At 0, 20, ..., 820.
        assert_eq!((talk, packets[41]), (42, (820, 100)));
        assert_eq!(packets[42..47], [(831, 60), (1231, 60), (1631, 60), (2031, 60), (2079, 100)]);
    }

    #[test]
    fn two_fifths_of_the_time_is_talk() {
        // Evenly spread over [0, 1), talk and silence each for themselves.
        let mut x = 0.5_f64;
        let mut u = || {
            x = (x + 0.618_033_988_749_895_f64).fract();
            x
        };
        let mut pacer = Pacer::new(shape("opus-dtx"), CallWay::Down, &mut u);
        let (mut talk, mut all) = (0.0, 0.0);
        for _ in 0..200_000 {
            let talks = pacer.packet() == 100;
            let gap = pacer.advance(&mut u).as_secs_f64();
            all += gap;
            talk += if talks { gap } else { 0.0 };
        }
        assert!((talk / all - 0.4_f64).abs() < 0.02, "{}", talk / all);
    }

    #[test]
    fn jitter_by_hand() {
        let mut jitter = Jitter::default();
        assert_eq!(jitter.mean_s(), None);
        // D = 16 ms, then 0: J = 1 ms, then 15/16 ms.
        for ms in [5, 21, 21] {
            jitter.add(Duration::from_millis(ms));
        }
        let mean = jitter.mean_s().unwrap();
        assert!((mean - (1.0 + 15.0 / 16.0) / 2.0 / 1e3).abs() < 1e-8, "{mean}");
    }

    #[test]
    fn good_by_hand() {
        let heard = |loss, p95| Some(Heard { loss, added_p95_s: Some(p95) });
        assert_eq!(is_good([heard(0.01, 0.060), heard(0.0, 0.0)]), Some(true));
        assert_eq!(is_good([heard(0.011, 0.0), heard(0.0, 0.0)]), Some(false));
        assert_eq!(is_good([heard(0.0, 0.0), heard(0.0, 0.061)]), Some(false));
        assert_eq!(is_good([heard(0.0, 0.0), None]), Some(true));
        assert_eq!(is_good([Some(Heard { loss: 1.0, added_p95_s: None }), None]), Some(false));
        assert_eq!(is_good([None, None]), None);
    }
}
