//! A link in user space: every frame leaves one delay after it came, each way, or is lost by a seeded draw.
//!
//! The emulator has no rate of its own: the thin link is the box's. How late frames leave is recorded, because on a
//! busy machine a user-space delay grows, and such a run must not be believed.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use narrows_netio::packet_socket::{FrameDirection, PacketSocket};
use narrows_netio::priority;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Say, say};

/// Bytes of frames that may wait in the queues behind the emulator. Behind a bridge the queue under test counts against
/// the socket that sent into it, so a smaller room would drop frames before that queue does: 92 of them by default.
const MAY_WAIT: usize = 512 << 20;

/// Settings of the emulator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmulatorSpec {
    /// Two interfaces that the emulator joins.
    pub interfaces: [String; 2],
    /// Nanoseconds each way.
    pub delay_ns: i64,
    /// Probability of loss, each way.
    pub loss: f64,
    /// Decides which frames are lost.
    pub seed: u64,
    /// Most frames under way in one direction; more are lost.
    pub limit: usize,
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
}

struct Way {
    from: usize,
    frames: VecDeque<(i64, Vec<u8>)>,
}

struct Emulator {
    spec: EmulatorSpec,
    sockets: [PacketSocket; 2],
    ways: [Way; 2],
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
        ways: [0, 1].map(|from| Way { from, frames: VecDeque::new() }),
        rng: fastrand::Rng::with_seed(spec.seed),
        late_us: Histogram::new_with_bounds(1, 60_000_000, 3).context("histogram")?,
        result: EmulatorResult::default(),
        spare: Vec::new(),
        spec,
    };
    say(&Say::<()>::Ready);
    emulator.serve()?;
    let ms = |us: u64| us as f64 / 1e3;
    let mut result = emulator.result;
    result.late_p50_ms = ms(emulator.late_us.value_at_quantile(0.5));
    result.late_p99_ms = ms(emulator.late_us.value_at_quantile(0.99));
    result.late_max_ms = ms(emulator.late_us.max());
    Ok(result)
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
            let next = self.ways.iter().filter_map(|w| Some(w.frames.front()?.0)).min();
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
            if ready[2] {
                return Ok(());
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
            if self.spec.loss > 0.0 && self.rng.f64() < self.spec.loss {
                self.result.lost += 1;
                self.spare.push(frame);
            } else if way.frames.len() >= self.spec.limit {
                self.result.overrun += 1;
                self.spare.push(frame);
            } else {
                way.frames.push_back((at.unwrap_or_else(clock) + self.spec.delay_ns, frame));
            }
        }
    }

    /// Sends all that is due.
    fn release(&mut self) {
        for way in &mut self.ways {
            while let Some(&(at, _)) = way.frames.front() {
                let now = clock();
                if at > now {
                    break;
                }
                let Some((_, frame)) = way.frames.pop_front() else { break };
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
