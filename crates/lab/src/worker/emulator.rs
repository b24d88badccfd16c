//! A link in user space: every frame leaves one delay after it came, each way, or is lost by a seeded draw.
//!
//! It has no rate of its own: the thin link is the box's. How late frames leave is recorded, because on a busy machine
//! a user-space delay grows, and such a run must not be believed.

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

/// What the emulator is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmulatorSpec {
    /// The two interfaces between which it stands.
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

/// What it did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EmulatorResult {
    /// Frames delivered.
    pub frames: u64,
    /// Frames lost by the draw.
    pub lost: u64,
    /// Frames lost because too many were under way, or the interface had no room.
    pub overrun: u64,
    /// How much later than asked frames left, in milliseconds: median.
    pub late_p50_ms: f64,
    /// 99th percentile.
    pub late_p99_ms: f64,
    /// The worst.
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
        sockets: [
            PacketSocket::open(a, FrameDirection::Incoming)?,
            PacketSocket::open(b, FrameDirection::Incoming)?,
        ],
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
