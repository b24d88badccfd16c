//! The body of the fuzz target. The target stands here so that ordinary tests run it too, with pseudo-random bytes.

use narrows_units::{Duration, Ecn, Instant, SeqNum};
use narrows_wire::{Flags, SackBlocks, TcpHeader};

use crate::{
    CcKind, Config, Endpoint, EndpointCounters, Handshake, Io, Preset, Recovery, Segment, StartConfig,
    StartupKind, TcpEvent,
};

/// Remembers the last segment that the end has sent, to build answers from the segment.
#[derive(Default)]
struct Last {
    segment: Segment,
    sent: u32,
    /// The acknowledgment number that the end has got last.
    acked: SeqNum,
}

impl Io for Last {
    fn transmit(&mut self, segment: &Segment) {
        self.segment = *segment;
        self.sent += 1;
    }
    fn event(&mut self, _: TcpEvent) {}
}

/// Runs an end through the story that the bytes tell: segments that fit and segments that do not, wake-ups, an
/// application that writes and closes. Returns what the end has counted.
///
/// # Panics
/// If the end panics, sends without end, or asks to be woken and then does nothing.
pub fn endpoint(bytes: &[u8]) -> EndpointCounters {
    let Some((&[first, second], mut rest)) = bytes.split_first_chunk::<2>() else {
        return EndpointCounters::default();
    };
    let config = settings(first, second);
    let isn = SeqNum(u32::from(first) << 24 | 0x00ff_fff0);
    let mut end = Endpoint::new(&config, isn);
    let mut now = Instant::ZERO + Duration::from_millis(1);
    let mut io = Last::default();
    while let Some((&[what, a, b, c], more)) = rest.split_first_chunk::<4>() {
        rest = more;
        io.sent = 0;
        match what % 8 {
            0 => end.open(&config, now, &mut io),
            1 => end.write(&config, now, u64::from(a) << (b % 16), &mut io),
            2 if c % 16 == 0 => end.close(&config, now, &mut io),
            3 => {
                now += Duration::from_micros(u64::from(a) << (b % 16));
                end.wake(&config, now, &mut io);
            }
            4 => {
                if let Some(wake) = end.next_wake() {
                    now = now.max(wake);
                    end.wake(&config, now, &mut io);
                }
            }
            _ => {
                let segment = near(&io, &config, [what, a, b, c]);
                io.acked = segment.tcp.ack;
                end.receive(&config, now, &segment.tcp, segment.ecn, &mut io);
            }
        }
        assert!(io.sent <= 70_000, "sends without end");
        come_to_rest(&mut end, &config, now, &mut io);
        assert!(end.cwnd() >= 1.0 && end.ssthresh() >= 2.0 && end.backoff() >= 1);
    }
    end.counters()
}

/// Wakes the end as long as the end asks to be woken now.
fn come_to_rest(end: &mut Endpoint, config: &Config, now: Instant, io: &mut Last) {
    for _ in 0..1000 {
        if end.next_wake().is_none_or(|wake| wake > now) {
            return;
        }
        end.wake(config, now, io);
    }
    panic!("does not come to rest");
}

/// Settings made of two bytes.
fn settings(first: u8, second: u8) -> Config {
    let (_, preset) = Preset::ALL[usize::from(first % 4)];
    let handshakes = [Handshake::None, Handshake::SynIsPacketZero, Handshake::ThreeWay];
    let recoveries = [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack];
    let controls = [
        CcKind::Reno,
        CcKind::Cubic,
        CcKind::Aimd,
        CcKind::AdaptiveAimd,
        CcKind::Htcp,
        CcKind::Westwood,
        CcKind::Vegas,
    ];
    let startups = [
        StartupKind::SlowStart,
        StartupKind::HyStart,
        StartupKind::Burst,
        StartupKind::Spreading,
        StartupKind::PacedStart,
        StartupKind::Paced,
        StartupKind::Limited,
        StartupKind::Smooth,
        StartupKind::Adaptive,
        StartupKind::Gallop,
        StartupKind::SmallSegments,
    ];
    Config {
        startup: startups[usize::from(first / 36 + second / 28) % startups.len()],
        start: StartConfig { rtt: Duration::from_millis(u64::from(second)), ..StartConfig::default() },
        congestion: controls[usize::from(second / 4 % 7)],
        handshake: handshakes[usize::from(first / 3 % 3)],
        recovery: recoveries[usize::from(first / 9 % 4)],
        ecn: second & 1 != 0,
        timestamps: second & 2 != 0,
        mss: 1 + u32::from(second) * 8,
        receive_window: 60_000,
        ..Config::preset(preset)
    }
}

/// A segment made of four bytes. Mostly it fits what the end has sent last.
fn near(last: &Last, config: &Config, [what, a, b, c]: [u8; 4]) -> Segment {
    let sent = &last.segment.tcp;
    let before = |segments: u8| SeqNum(sent.seq_end().0.wrapping_sub(u32::from(segments) * config.mss));
    let mut sack = SackBlocks::default();
    if what & 8 != 0 {
        sack.push(before(b % 16), before(b % 16) + u32::from(c % 16) * config.mss);
        sack.push(before(a % 16), sent.seq_end());
    }
    let far = what & 16 != 0 && c > 250;
    let ack = match a {
        _ if far => SeqNum(u32::from(b) << 23),
        0..64 => sent.seq_end(),
        64..192 => last.acked,
        _ => before(a % 8),
    };
    Segment {
        tcp: TcpHeader {
            seq: if far { SeqNum(u32::from(a) << 24) } else { sent.ack + (u32::from(a) >> 6) * 100 },
            ack,
            flags: match c {
                0..3 => Flags(b),
                3..60 => Flags(Flags::ACK.0 | b & (Flags::SYN.0 | Flags::ECE.0)),
                _ => Flags::ACK,
            },
            window: if b < 16 { u16::from(c) << (b % 9) } else { 60_000 },
            payload: if what & 32 != 0 { u32::from(b) * 5 } else { 0 },
            timestamps: (what & 64 != 0).then_some((u32::from(a), u32::from(b))),
            window_scale: (b & 1 != 0).then_some(c % 15),
            mss: (b & 2 != 0).then_some(u16::from(c) << 4),
            sack,
            beyond: false,
            cut: false,
        },
        ecn: Ecn::from_bits(c),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_story() {
        let (mut sent, mut timeouts, mut fast) = (0, 0, 0);
        for seed in 0..4_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let bytes: Vec<u8> = (0..random.usize(..800)).map(|_| random.u8(..)).collect();
            let result = std::panic::catch_unwind(|| super::endpoint(&bytes));
            let counters = result.unwrap_or_else(|_| panic!("seed {seed}"));
            sent += counters.data_sent;
            timeouts += counters.timeouts;
            fast += counters.fast_retransmits;
        }
        assert!(sent > 10_000 && timeouts > 1_000 && fast > 100, "dull stories: {sent} {timeouts} {fast}");
    }
}
