//! Conversations in which receivers close their windows, which the simulator's receivers never do, because their
//! applications read at once. Each conversation is written down packet by packet as its ends send it, captured on the
//! way, and read back; its truth is known by hand.

use narrows_diagnose::{Analyzer, AnalyzerLimits, Cause, FlowReport};
use narrows_units::{Duration, Instant, SeqNum};
use narrows_wire::capture::{Reader, Writer};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

use crate::scoreboard::score::Score;

const MSS: u32 = 1000;

/// A conversation on a path.
struct Script {
    /// One way, milliseconds.
    way: f64,
    /// Where the capture is: at 0 the server, at 1 the client.
    place: f64,
    packets: Vec<(f64, Header)>,
}

impl Script {
    /// A packet that leaves its end at `ms`; the client's if `client`.
    fn put(
        &mut self,
        ms: f64,
        client: bool,
        flags: Flags,
        (seq, ack, payload): (u32, u32, u32),
        window: u16,
    ) {
        let key = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 40_000, 80, Proto::TCP);
        let tcp = TcpHeader {
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags,
            payload,
            window,
            beyond: flags.has(Flags::SYN),
            ..TcpHeader::default()
        };
        let (key, until) = if client { (key, 1.0 - self.place) } else { (key.reverse(), self.place) };
        let header = Header { key, tcp: Some(tcp), ..Header::default() };
        self.packets.push((ms + self.way * until, header));
    }

    /// Through a file, as any capture.
    fn diagnose(mut self) -> FlowReport {
        self.packets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut file = Writer::new(Vec::new()).unwrap();
        for (ms, header) in &self.packets {
            file.write(Instant::ZERO + Duration::from_micros((ms * 1000.0) as u64), header).unwrap();
        }
        let bytes = file.into_inner();
        let mut analyzer = Analyzer::new(AnalyzerLimits::default());
        for c in Reader::new(&bytes[..]).unwrap().map(Result::unwrap) {
            analyzer.packet(c.at, c.frame, &c.header);
        }
        analyzer.finish();
        analyzer.finished().next().unwrap()
    }
}

/// The client asks, takes `segments` segments, and then does not read for `closed` milliseconds. The server asks again
/// for the window, after its timeout and then after twice as long each time (RFC 9293, section 3.8.6.1).
fn closed_window(way: f64, place: f64, segments: u32, closed: f64) -> FlowReport {
    let mut s = Script { way, place, packets: Vec::new() };
    let (client, server, trip) = (true, false, 2.0 * way);
    s.put(0.0, client, Flags::SYN, (0, 0, 0), 60_000);
    s.put(way, server, Flags::SYN.and(Flags::ACK), (0, 1, 0), 60_000);
    s.put(trip, client, Flags::ACK, (1, 1, 0), 60_000);
    s.put(trip + 1.0, client, Flags::ACK, (1, 1, 100), 60_000);
    let sent = trip + way + 5.0;
    for n in 0..segments {
        s.put(sent + f64::from(n), server, Flags::ACK, (1 + n * MSS, 101, MSS), 60_000);
    }
    let last = 1 + segments * MSS;
    let shut = sent + f64::from(segments) + way;
    s.put(shut, client, Flags::ACK, (101, last, 0), 0);
    let mut wait = (trip * 2.0).max(200.0);
    let mut probe = shut + way + wait;
    while probe + way < shut + closed {
        s.put(probe, server, Flags::ACK, (last - 1, 101, 0), 60_000);
        s.put(probe + way, client, Flags::ACK, (101, last, 0), 0);
        wait *= 2.0;
        probe += wait;
    }
    let open = shut + closed;
    s.put(open, client, Flags::ACK, (101, last, 0), 60_000);
    for n in 0..3 {
        s.put(open + way + f64::from(n), server, Flags::ACK, (last + n * MSS, 101, MSS), 60_000);
        s.put(open + trip + f64::from(n), client, Flags::ACK, (101, last + (n + 1) * MSS, 0), 60_000);
    }
    s.diagnose()
}

/// A thousand closed windows at each point: paths, lengths and amounts of all sizes.
pub(crate) fn zero_windows() -> [Score; 3] {
    // The points lie as on the simulated path: at the server, in the middle, before the client.
    [0.0, 0.9, 0.95].map(|place| {
        let mut score = Score::default();
        for n in 0..1000 {
            let way = 5.0 * 1.45_f64.powi(n % 10);
            // At least twice what makes a stall.
            let closed = (4.0 * way).max(200.0) * 2.0 * 1.3_f64.powi(n / 10 % 10);
            let flow = closed_window(way, place, 2 + (n / 100) as u32 * 3, closed);
            let found = flow.stalls.iter().filter(|s| s.cause == Cause::ZeroWindow && s.by == 1 && s.ended);
            // A stall is right if its length is right to a round trip.
            let right = found.clone().filter(|s| {
                let length = s.length().as_secs_f64() * 1e3;
                (length - closed).abs() <= 2.0 * way + 10.0
            });
            score += Score::new(1, found.clone().count(), right.count());
        }
        score
    })
}
