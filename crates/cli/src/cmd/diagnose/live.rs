//! Listens on an interface. The number of open connections is bounded, and so is the memory.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Wait, Instant as Clock, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use narrows_diagnose::{Analyzer, AnalyzerLimits, Copies, Counts, FlowReport};
use narrows_netio::packet_socket::{FrameDirection, Heading, PacketSocket};
use narrows_units::{Duration, Instant};
use narrows_wire::Header;
use narrows_wire::capture::{Captured, Decoder, Framed, LinkType};

use super::{Args, Output};

/// Bytes of each frame that are looked at: all headers, within tunnels too.
const SNAP: usize = 256;
/// Bytes of frames that the kernel keeps while the program prints.
const ROOM: usize = 32 << 20;
/// Connections at a time, and for how long one that is over or silent is kept.
const LIMITS: AnalyzerLimits = AnalyzerLimits {
    connections: 1 << 14,
    linger: Duration::from_secs(10),
    silence: Duration::from_secs(300),
};
/// Packets between two looks at the clock.
const BATCH: u32 = 4096;
/// Kinds of hardware of linux/if_arp.h whose frames begin as Ethernet's do.
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
const ARPHRD_PPP: u16 = 512;
const ARPHRD_RADIOTAP: u16 = 803;
/// The loopback interface shows each packet twice: when it leaves and when it comes.
const LOOPBACK: &str = "lo";

/// Packet socket, and the buffer for one frame.
struct Ear {
    socket: PacketSocket,
    buffer: [u8; SNAP],
    /// Nanoseconds from 1970 to when we began.
    origin: i64,
    latest: Instant,
    frames: u64,
    decoder: Decoder,
    copies: Copies,
    captured: Captured,
}

impl Ear {
    fn open(interface: &str) -> anyhow::Result<Self> {
        let heard = if interface == LOOPBACK { FrameDirection::Incoming } else { FrameDirection::Both };
        let socket = PacketSocket::open(interface, heard).with_context(|| format!("--live {interface}"))?;
        socket.make_room(ROOM).context("SO_RCVBUF")?;
        let origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = i64::try_from(origin.as_nanos()).context("the clock is beyond the year 2262")?;
        Ok(Self {
            socket,
            buffer: [0; SNAP],
            origin,
            latest: Instant::ZERO,
            frames: 0,
            decoder: Decoder::through_tunnels(),
            copies: Copies::default(),
            captured: Captured::default(),
        })
    }

    /// The time since we began, by the clock that stamps the packets.
    fn now(&self) -> Instant {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.since(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)).max(self.latest)
    }

    fn since(&self, stamp: i64) -> Instant {
        Instant::from_nanos(u64::try_from(stamp - self.origin).unwrap_or(0))
    }

    /// The next packet that waits; none if none does, or if the frame has none.
    fn packet(&mut self) -> anyhow::Result<Option<Option<(Instant, u64, Header)>>> {
        let heading = match self.socket.heading(&mut self.buffer) {
            Ok(heading) => heading,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(e) => return Err(e).context("the interface"),
        };
        self.frames += 1;
        let Heading { kept, original, at, hardware } = heading;
        // Packets of two directions may be stamped in another order than they are heard.
        self.latest = self.latest.max(at.map_or_else(|| self.now(), |at| self.since(at)));
        let link = match hardware {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => LinkType::Ethernet,
            ARPHRD_PPP => LinkType::Ppp,
            ARPHRD_RADIOTAP => LinkType::Radiotap,
            _ => LinkType::Raw,
        };
        // PPP's interfaces show the packet without a head.
        let raw =
            link == LinkType::Ppp && self.buffer[..kept].first().is_some_and(|b| matches!(b >> 4, 4 | 6));
        let framed = Framed {
            link: if raw { LinkType::Raw } else { link } as u32,
            bytes: &self.buffer[..kept],
            original_len: u32::try_from(original).unwrap_or(u32::MAX),
            interface: 0,
        };
        self.captured.at = self.latest;
        let read = self.decoder.read(&framed, &mut self.captured) && !self.copies.is_copy(&self.captured);
        Ok(Some(read.then_some((self.latest, self.frames, self.captured.header))))
    }
}

/// Listens until it is told to stop. Says whether any connection stood still for long.
pub fn listen(args: &Args, interface: &str) -> anyhow::Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("signal handler")?;
    }
    let mut ear = Ear::open(interface)?;
    let name = format!("interface {interface}");
    let mut output = Output::new(args, core::slice::from_ref(&name), Some(ear.origin.into()))?;
    let mut analyzer = Analyzer::new(LIMITS);
    let every = Wait::from_nanos(args.every.as_nanos());
    let until = args.duration.map(|d| Clock::now() + Wait::from_nanos(d.as_nanos()));
    let (mut next, mut before, mut dropped) = (Clock::now() + every, Counts::default(), 0);
    eprintln!("listening on {interface}; Ctrl-C ends it and says what was found");
    while !stop.load(Ordering::Relaxed) && until.is_none_or(|until| Clock::now() < until) {
        let end = until.map_or(next, |until| until.min(next));
        ear.socket.wait(end.saturating_duration_since(Clock::now())).context("poll")?;
        for _ in 0..BATCH {
            let Some(packet) = ear.packet()? else { break };
            if let Some((at, frame, header)) = packet {
                let number = analyzer.packet(at, frame, &header);
                output.packet(number, at, frame, &header);
            }
        }
        analyzer.finished().for_each(|flow| output.flow(flow));
        if Clock::now() >= next {
            next = Clock::now() + every;
            dropped += ear.socket.dropped();
            stand(&ear, &analyzer, &output, &mut before);
        }
    }
    dropped += ear.socket.dropped();
    let mut remarks = Vec::new();
    let (left_out, closed) = (ear.decoder.left_out().sorted(), ear.decoder.closed().sorted());
    remarks.extend(left_out.iter().map(|(what, n)| format!("{name}: {n} {what} were left out")));
    remarks.extend(closed.iter().map(|(what, n)| format!("{name}: {n} {what} were not opened")));
    for (n, what) in [
        (ear.copies.left_out(), "copies of packets were left out"),
        (dropped, "frames came faster than they could be read, and were missed"),
        (analyzer.evicted(), "connections were given up because there were too many"),
    ] {
        if n > 0 {
            remarks.push(format!("{name}: {n} {what}"));
        }
    }
    analyzer.finish();
    analyzer.finished().for_each(|flow| output.flow(flow));
    output.finish(analyzer.begun(), &remarks, &format!("{} frames", ear.frames))
}

/// Line about the state: who is there, who stands still now, what was sent again since the last line.
fn stand(ear: &Ear, analyzer: &Analyzer, output: &Output<'_>, before: &mut Counts) {
    let now = ear.now();
    let open: Vec<FlowReport> = analyzer.ongoing(now).filter(|flow| !flow.closed).collect();
    let mut counts = output.overall.counts;
    open.iter().for_each(|flow| counts.merge(&flow.counts()));
    let still = |flow: &FlowReport| flow.stalls.iter().rev().find(|s| !s.ended && s.to == now).cloned();
    let standing: Vec<_> = open.iter().filter_map(|flow| Some((flow, still(flow)?))).collect();
    let mut line = format!(
        "{:>6.0} s: {} connections open, {} stand still",
        now.as_secs_f64(),
        open.len(),
        standing.len()
    );
    if let Some((flow, stall)) = standing.iter().max_by_key(|(_, stall)| stall.length()) {
        let longest = stall.length().as_secs_f64();
        line += &format!(" (longest {longest:.1} s: {}, {})", flow.key(), stall.cause.words());
    }
    let more = |now: u64, then: u64| now.saturating_sub(then);
    line += &format!(
        "; {} timeouts, {} fast retransmits, {} sent again since",
        more(counts.timeouts, before.timeouts),
        more(counts.fast_retransmits, before.fast_retransmits),
        more(counts.again, before.again)
    );
    *before = counts;
    let _ = writeln!(io::stderr(), "{line}");
}
