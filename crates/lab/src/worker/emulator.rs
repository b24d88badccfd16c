//! A link in user space: every frame leaves one delay after it came, each way, or is lost by a seeded draw.
//!
//! The emulator has no rate of its own where the thin link is the box's. Where a link lies before the box, the emulator
//! is that link: servers' own delays, a queue and a transmitter each way, propagation. A packet's times are worked out
//! from when it came, so a late wake-up delays it once and no other. How late frames leave is recorded, because on a
//! busy machine a user-space delay grows, and such a run must not be believed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use narrows_netio::packet_socket::{FrameDirection, PacketSocket};
use narrows_netio::priority;
use narrows_units::{Bytes, Instant};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::thin_link::{Counted, ThinLink, ThinResult};
use super::user::user_at;
use super::{Say, say};
use crate::scenario::Before;

/// Bytes of Ethernet before an IP packet.
const ETHERNET: usize = 14;
/// Bytes of frames that may wait in the queues behind the emulator. Behind a bridge the queue under test counts against
/// the socket that sent into it, so a smaller room would drop frames before that queue does: 92 of them by default.
const MAY_WAIT: usize = 512 << 20;

/// Settings of the emulator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmulatorSpec {
    /// Two interfaces that the emulator joins.
    pub interfaces: [String; 2],
    /// Nanoseconds each way, where no link lies before the box.
    pub delay_ns: i64,
    /// Probability of loss, each way.
    pub loss: f64,
    /// Decides which frames are lost.
    pub seed: u64,
    /// Most frames under way in one direction; more are lost.
    pub limit: usize,
    /// Link before the box, whose times begin when the emulator is told that the load does.
    #[serde(default)]
    pub before: Option<BeforeSpec>,
}

/// The link that the emulator is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeforeSpec {
    /// Its two ways, the second interface being that of the servers.
    pub link: Before,
    /// Files with the traces of the way towards the users and of that towards the servers, where traces tell the rate.
    pub traces: [PathBuf; 2],
    /// Nanoseconds of load that are not counted.
    pub warmup_ns: u64,
    /// Nanoseconds of load.
    pub duration_ns: u64,
}

/// Result of the emulator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EmulatorResult {
    /// Frames delivered.
    pub frames: u64,
    /// Frames lost by the draw.
    pub lost: u64,
    /// Frames lost because too many were under way, or the interface had no room. Any spoils a run: no queue under test
    /// has dropped them.
    pub overrun: u64,
    /// Lateness of frames against the time asked, median, milliseconds.
    pub late_p50_ms: f64,
    /// Lateness of frames, 99th percentile, milliseconds.
    pub late_p99_ms: f64,
    /// Lateness of frames, maximum, milliseconds.
    pub late_max_ms: f64,
    /// Way towards the users of the link before the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<ThinResult>,
    /// Way towards the servers of the link before the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<ThinResult>,
}

/// Frames by the time at which they are due; of those due at once the first that came goes first.
#[derive(Default)]
struct Flight {
    frames: BinaryHeap<Reverse<(i64, u64, Vec<u8>)>>,
    number: u64,
}

impl Flight {
    fn add(&mut self, due: i64, frame: Vec<u8>) {
        self.number += 1;
        self.frames.push(Reverse((due, self.number, frame)));
    }

    fn next(&self) -> Option<i64> {
        self.frames.peek().map(|Reverse((due, ..))| *due)
    }

    /// The next frame and when it is due, if that is at `now` or earlier.
    fn due(&mut self, now: i64) -> Option<(i64, Vec<u8>)> {
        self.next().filter(|due| *due <= now)?;
        self.frames.pop().map(|Reverse((due, _, frame))| (due, frame))
    }
}

/// A link before the box, one way: what a frame meets between its two interfaces.
struct Thin {
    link: ThinLink,
    /// Frames that have not come to the link.
    coming: Flight,
    /// Nanoseconds from the link's end on, without the server's own.
    delay_ns: u64,
    loss: f64,
    /// Place in the IP header of the address of the user.
    user_at: usize,
    /// Nanoseconds of each server's own link.
    servers: Vec<u64>,
    /// Whether a server's own link comes first, and not last.
    servers_first: bool,
}

impl Thin {
    /// Nanoseconds of the link of the server that serves the user of a frame.
    fn server_ns(&self, frame: &[u8]) -> i64 {
        let at = ETHERNET + self.user_at;
        let address = frame.get(at..at + 4).map(|b| Ipv4Addr::new(b[0], b[1], b[2], b[3]));
        let user = address.and_then(user_at).unwrap_or(0) as usize;
        self.servers.get(user % self.servers.len().max(1)).map_or(0, |ns| ns.cast_signed())
    }
}

struct Way {
    from: usize,
    thin: Option<Thin>,
    flight: Flight,
}

impl Way {
    fn under_way(&self) -> usize {
        self.flight.frames.len() + self.thin.as_ref().map_or(0, |thin| thin.coming.frames.len())
    }

    /// Moves frames that have come by `now` through the thin link and returns the number lost by the draw. The load
    /// began at `begin`.
    fn carry(&mut self, now: i64, begin: i64, rng: &mut fastrand::Rng, spare: &mut Vec<Vec<u8>>) -> u64 {
        let Some(thin) = &mut self.thin else { return 0 };
        let mut lost = 0;
        while let Some((came, frame)) = thin.coming.due(now) {
            let came = Instant::from_nanos(u64::try_from(came - begin).unwrap_or(0));
            let sent = thin.link.take(came, Bytes(frame.len().saturating_sub(ETHERNET) as u64));
            let survives = thin.loss == 0.0 || rng.f64() >= thin.loss;
            match sent {
                Some(sent) if survives => {
                    let after = if thin.servers_first { 0 } else { thin.server_ns(&frame) };
                    self.flight.add(begin + (sent.as_nanos() + thin.delay_ns).cast_signed() + after, frame);
                }
                dropped_or_lost => {
                    lost += u64::from(dropped_or_lost.is_some());
                    spare.push(frame);
                }
            }
        }
        lost
    }
}

struct Emulator {
    spec: EmulatorSpec,
    sockets: [PacketSocket; 2],
    ways: [Way; 2],
    /// When the load began; `None` before.
    begin: Option<i64>,
    rng: fastrand::Rng,
    late_us: Histogram<u64>,
    result: EmulatorResult,
    /// Buffers of frames that left, to be used again.
    spare: Vec<Vec<u8>>,
}

/// Delays frames until standard input ends.
///
/// # Errors
/// If an interface cannot be opened.
pub fn run(spec: EmulatorSpec) -> anyhow::Result<EmulatorResult> {
    // The default slack of 50 us would be added to every delay.
    nix::sys::prctl::set_timerslack(1).context("timer slack")?;
    realtime();
    let [a, b] = &spec.interfaces;
    let mut emulator = Emulator {
        sockets: [end(a)?, end(b)?],
        ways: ways(&spec)?,
        begin: None,
        rng: fastrand::Rng::with_seed(spec.seed),
        late_us: Histogram::new_with_bounds(1, 60_000_000, 3).context("histogram")?,
        result: EmulatorResult::default(),
        spare: Vec::new(),
        spec,
    };
    say(&Say::<()>::Ready);
    emulator.serve()?;
    let ms = |us: u64| us as f64 / 1e3;
    let [up, down] = emulator.ways.map(|way| way.thin.map(|thin| thin.link.result()));
    let mut result = EmulatorResult { up, down, ..emulator.result };
    result.late_p50_ms = ms(emulator.late_us.value_at_quantile(0.5));
    result.late_p99_ms = ms(emulator.late_us.value_at_quantile(0.99));
    result.late_max_ms = ms(emulator.late_us.max());
    Ok(result)
}

/// The way from each interface to the other.
fn ways(spec: &EmulatorSpec) -> anyhow::Result<[Way; 2]> {
    let mut ways = [0, 1].map(|from| Way { from, thin: None, flight: Flight::default() });
    let Some(BeforeSpec { mut link, traces, warmup_ns, duration_ns }) = spec.before.clone() else {
        return Ok(ways);
    };
    let counted = Counted { from: Instant::from_nanos(warmup_ns), to: Instant::from_nanos(duration_ns) };
    let servers = link.servers.delays(spec.seed);
    for (((_, way), file), towards_users) in link.ways().into_iter().zip(&traces).zip([true, false]) {
        way.take_trace(file)?;
        ways[usize::from(towards_users)].thin = Some(Thin {
            link: ThinLink::new(way.timetable()?, way.queue(), way.overhead, counted)?,
            coming: Flight::default(),
            delay_ns: way.delay_ns,
            loss: way.loss,
            // RFC 791, section 3.1: the destination of what goes to users, the source of what comes from them.
            user_at: if towards_users { 16 } else { 12 },
            servers: servers.clone(),
            servers_first: towards_users,
        });
    }
    Ok(ways)
}

/// One end of the link.
fn end(interface: &str) -> anyhow::Result<PacketSocket> {
    let socket = PacketSocket::open(interface, FrameDirection::Incoming)?;
    socket
        .let_wait(MAY_WAIT)
        .with_context(|| format!("SO_SNDBUFFORCE on {interface} (needs CAP_NET_ADMIN)"))?;
    Ok(socket)
}

fn clock() -> i64 {
    // The clock of the kernel's time stamps. It cannot fail with a valid clock id.
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

impl Emulator {
    fn serve(&mut self) -> anyhow::Result<()> {
        let stdin = std::io::stdin();
        loop {
            let coming = |w: &Way| w.thin.as_ref().and_then(|thin| thin.coming.next());
            let next = self.ways.iter().flat_map(|w| [w.flight.next(), coming(w)]).flatten().min();
            let timeout = next.map(|at| {
                TimeSpec::from_duration(Duration::from_nanos(u64::try_from(at - clock()).unwrap_or(0)))
            });
            let mut fds = [
                PollFd::new(self.sockets[0].as_fd(), PollFlags::POLLIN),
                PollFd::new(self.sockets[1].as_fd(), PollFlags::POLLIN),
                PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            ];
            match ppoll(&mut fds, timeout, Some(SigSet::empty())) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e).context("ppoll"),
            }
            let ready = [0, 1, 2].map(|i: usize| fds[i].any().unwrap_or(false));
            // A line says that the load begins; the end of the input ends the emulator.
            if ready[2] {
                if !matches!(nix::unistd::read(&stdin, &mut [0; 64]), Ok(1..)) {
                    return Ok(());
                }
                self.begin.get_or_insert_with(clock);
            }
            for from in [0, 1] {
                if ready[from] {
                    self.take(from);
                }
            }
            self.release();
        }
    }

    /// Takes what waits at one end.
    fn take(&mut self, from: usize) {
        loop {
            let mut frame = self.spare.pop().unwrap_or_else(|| vec![0; 10_000]);
            frame.resize(10_000, 0);
            let Ok((n, at)) = self.sockets[from].recv(&mut frame) else {
                self.spare.push(frame);
                return;
            };
            frame.truncate(n);
            let way = &mut self.ways[from];
            let at = at.unwrap_or_else(clock);
            if self.spec.loss > 0.0 && self.rng.f64() < self.spec.loss {
                self.result.lost += 1;
                self.spare.push(frame);
            } else if way.under_way() >= self.spec.limit {
                self.result.overrun += 1;
                self.spare.push(frame);
            } else {
                match &mut way.thin {
                    Some(thin) if self.begin.is_some() => {
                        let first = if thin.servers_first { thin.server_ns(&frame) } else { 0 };
                        thin.coming.add(at + first, frame);
                    }
                    _ => way.flight.add(at + self.spec.delay_ns, frame),
                }
            }
        }
    }

    /// Sends all that is due.
    fn release(&mut self) {
        for way in &mut self.ways {
            if let Some(begin) = self.begin {
                self.result.lost += way.carry(clock(), begin, &mut self.rng, &mut self.spare);
            }
            loop {
                let now = clock();
                let Some((at, frame)) = way.flight.due(now) else { break };
                if self.sockets[1 - way.from].send(&frame) {
                    self.result.frames += 1;
                } else {
                    self.result.overrun += 1;
                }
                self.late_us.saturating_record(u64::try_from((now - at) / 1000).unwrap_or(0));
                self.spare.push(frame);
            }
        }
        self.spare.truncate(64);
    }
}

/// Asks for a real-time priority: a delay must not wait for a compiler on the next core. Without permission the
/// lateness tells.
fn realtime() {
    let _ = priority::realtime(10, false);
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::bench::{Bench, Layer, Room, available};
    use crate::peers::{Peer, PeerSpec};
    use crate::scenario::Scenario;
    use crate::worker::user::user_address;

    /// A frame of UDP from the server to a user, by the way that frames take on this layer.
    fn frame(layer: Layer) -> Vec<u8> {
        let (to, from) = match layer {
            // Last bytes of the addresses of wan0 and srv0.
            Layer::Routed => (3, 6),
            // Last byte of the address of cli0.
            Layer::Bridged => (1, 6),
        };
        let mac = |n| [2, 0, 0, 0x4e, 0x52, n];
        let mut frame = [mac(to), mac(from)].concat();
        frame.extend([0x08, 0x00]);
        let mut ip = vec![0x45, 0, 0x05, 0xdc, 0, 0, 0, 0, 64, 17, 0, 0, 10, 78, 2, 2, 10, 77, 1, 1];
        // RFC 1071: the sum in ones' complement over 16-bit words.
        let sum: u32 = ip.chunks(2).map(|two| u32::from(two[0]) * 256 + u32::from(two[1])).sum();
        let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&folded.to_be_bytes());
        frame.extend(ip);
        // From port 9 to port 9, no checksum, zeros.
        frame.extend([0, 9, 0, 9, 0x05, 0xc8, 0, 0]);
        frame.resize(1514, 0);
        frame
    }

    /// Sends `frames` at once into a link of 100 kbit/s whose queue holds them all; returns the frames sent and those
    /// that wait.
    fn stand(layer: Layer, frames: usize) -> (usize, u64) {
        let bench = Bench::new(1500, layer).unwrap();
        let queue = "root tbf rate 100kbit burst 2000 limit 2000000";
        let _join = (layer == Layer::Bridged).then(|| {
            Peer::start(PeerSpec {
                netns: bench.netns(Room::Box),
                lan: "lan0".to_owned(),
                wan: "wan0".to_owned(),
                tc: vec![format!("tc qdisc add dev {{lan}} {queue}")],
            })
            .unwrap()
        });
        if layer == Layer::Routed {
            let words: Vec<_> = "qdisc add dev lan0".split(' ').chain(queue.split(' ')).collect();
            bench.run(Room::Box, "tc", &words).unwrap();
        }
        let namespace = File::open(format!("/run/netns/{}", bench.netns(Room::Link))).unwrap();
        let sent = std::thread::spawn(move || {
            nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let link = end("w0").unwrap();
            (0..frames).filter(|_| link.send(&frame(layer))).count()
        });
        let sent = sent.join().unwrap();
        let said = bench.run(Room::Box, "tc", &["-s", "-j", "qdisc", "show", "dev", "lan0"]).unwrap();
        (sent, crate::peers::parse_tc_stats(&said).unwrap().backlog_packets)
    }

    /// A frame of `len` IP bytes between user 1 and the server, from whom it comes.
    fn to_or_from_user_1(len: usize, to_user: bool) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + len];
        frame[ETHERNET + if to_user { 16 } else { 12 }..][..4].copy_from_slice(&user_address(1).octets());
        frame[ETHERNET + if to_user { 12 } else { 16 }..][..4].copy_from_slice(&[10, 78, 2, 2]);
        frame
    }

    const MS: i64 = 1_000_000;

    /// 1 Mbit/s down and 12 Mbit/s up, a packet may wait, 10 ms of wire, servers at 0, 20 and 40 ms.
    fn dish() -> [Way; 2] {
        let text = "name = 't'\nduration = '9s'\noverhead = 0\ndiscipline = 'taq'\n[[link]]\nfrom = 'a'\nto = 'b'\n\
                    rate = '1mbit'\nback_rate = '12mbit'\ndelay = '10ms'\ndiscipline = 'fifo:1'\n\
                    [[link]]\nfrom = 'b'\nto = 'c'\nrate = '90mbit'\n[[hosts]]\nname = 's'\nat = 'a'\n\
                    delay = '0ms..40ms'\n[[hosts]]\nname = 'u'\nat = 'c'\n[[traffic]]\nkind = 'long'\nflows = 3\n\
                    from = 's'\nto = 'u'\n";
        let link = Scenario::parse(text, &[]).unwrap().before;
        let before = link.map(|link| BeforeSpec {
            link,
            traces: [PathBuf::new(), PathBuf::new()],
            warmup_ns: 0,
            duration_ns: 9_000_000_000,
        });
        ways(&EmulatorSpec {
            interfaces: [String::new(), String::new()],
            delay_ns: 0,
            loss: 0.0,
            seed: 1,
            limit: 9,
            before,
        })
        .unwrap()
    }

    #[test]
    fn a_frame_meets_its_server_the_queue_and_the_wire() {
        let [mut up, mut down] = dish();
        let (begin, mut rng, mut spare) = (1_000 * MS, fastrand::Rng::with_seed(1), Vec::new());
        let thin = down.thin.as_mut().unwrap();
        let full = to_or_from_user_1(1500, true);
        assert_eq!(thin.server_ns(&full), 20 * MS, "user 1 has the second of three servers");
        // The emulator wakes late, at 1200 ms; three have come to the link 25 ms after the load began.
        for _ in 0..3 {
            thin.coming.add(begin + 25 * MS, full.clone());
        }
        assert_eq!(down.carry(1_200 * MS, begin, &mut rng, &mut spare), 0);
        // 12 ms each to send, 10 ms of wire; one place in the queue.
        let due: Vec<_> =
            std::iter::from_fn(|| down.flight.due(i64::MAX)).map(|(at, _)| at - begin).collect();
        assert_eq!((due, spare.len()), (vec![47 * MS, 59 * MS], 1));

        let small = to_or_from_user_1(150, false);
        up.thin.as_mut().unwrap().coming.add(begin + 5 * MS, small);
        assert_eq!(up.carry(begin + 4 * MS, begin, &mut rng, &mut spare), 0);
        assert_eq!(up.flight.next(), None, "it has not come yet");
        up.carry(begin + 5 * MS, begin, &mut rng, &mut spare);
        // A tenth of a millisecond to send, 10 ms of wire, 20 ms to the server.
        assert_eq!(up.flight.next(), Some(begin + 35 * MS + MS / 10));
        let result = down.thin.unwrap().link.result();
        assert_eq!((result.arrived, result.dropped, result.used), (3, 1, 3000));
    }

    #[test]
    fn a_frame_is_lost_on_the_wire_and_has_used_the_link() {
        let [_, mut down] = dish();
        let thin = down.thin.as_mut().unwrap();
        thin.loss = 1.0;
        thin.coming.add(0, to_or_from_user_1(1500, true));
        assert_eq!(down.carry(0, 0, &mut fastrand::Rng::with_seed(1), &mut Vec::new()), 1);
        assert_eq!((down.flight.next(), down.thin.unwrap().link.result().used), (None, 1500));
    }

    #[test]
    fn frames_due_at_once_go_in_the_order_in_which_they_came() {
        let mut flight = Flight::default();
        for (due, byte) in [(5, 9), (3, 8), (5, 1), (3, 2)] {
            flight.add(due, vec![byte]);
        }
        let order: Vec<_> = std::iter::from_fn(|| flight.due(5)).map(|(_, frame)| frame[0]).collect();
        assert_eq!(order, [8, 2, 9, 1]);
    }

    #[test]
    fn a_standing_queue_behind_the_link_costs_the_link_no_frame() {
        if let Err(why) = available() {
            return narrows_testing::skip(
                "a_standing_queue_behind_the_link_costs_the_link_no_frame",
                format!("{why:#}"),
            );
        }
        for layer in [Layer::Routed, Layer::Bridged] {
            let (sent, waiting) = stand(layer, 500);
            assert_eq!(sent, 500, "{layer:?}");
            // At 100 kbit/s eight leave in a second.
            assert!(waiting > 400, "{layer:?}: {waiting} of 500 wait");
        }
    }
}
