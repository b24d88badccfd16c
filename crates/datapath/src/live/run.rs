//! A box from set-up to tear-down.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use narrows_qdisc::Direction;
use narrows_units::Instant;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use super::control::{self, Board};
use super::engine::Engine;
use super::lane::LaneSettings;
use super::nfqueue::{self, Nfqueue};
use super::packet::HeldPacket;
use super::rules::{Rules, Tool};
use super::status::{DirectionStatus, ReportJson, Status};

/// What a box is told to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interface of the users.
    pub lan: String,
    /// Interface of the wide network.
    pub wan: String,
    /// Down and up.
    pub lanes: [LaneSettings; 2],
    /// The first of two NFQUEUE numbers.
    pub queue: Option<u16>,
    /// The control socket.
    pub control: PathBuf,
}

/// Nanoseconds of CLOCK_MONOTONIC.
fn now() -> Instant {
    // CLOCK_MONOTONIC exists on every Linux; its seconds since boot are never negative.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Instant::ZERO, |t| {
        Instant::from_nanos(t.tv_sec().unsigned_abs() * 1_000_000_000 + t.tv_nsec().unsigned_abs())
    })
}

/// Runs a box until SIGTERM or SIGINT; calls `ready` when packets are being handled.
///
/// # Errors
/// If the box cannot be set up; nothing of it stays. Or if the kernel takes its queue away.
pub fn run(settings: &Settings, ready: impl FnOnce(u16)) -> anyhow::Result<()> {
    for name in [&settings.lan, &settings.wan] {
        if nix::net::if_::if_nametoindex(name.as_str()).is_err() {
            bail!("no network interface is called '{name}': see `ip link`");
        }
    }
    let mut signals = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().for_each(|s| signals.add(s));
    signals.thread_block().context("cannot block signals")?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;

    let tools = Tool::find()?;
    let queue = settings.queue.unwrap_or_else(nfqueue::free_pair);
    let board = Board::new()?;
    let listener = control::listen(&settings.control)?;
    let backend = Nfqueue::open(queue).with_context(|| format!("cannot listen on NFQUEUE {queue}"))?;
    let rules = Rules {
        lan: settings.lan.clone(),
        wan: settings.wan.clone(),
        queue,
        bridged: false,
        local: false,
        owner: format!("narrows {}", std::process::id()),
    };
    rules.install(&tools)?;
    control::serve(listener, Arc::clone(&board));
    nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
    let mut live =
        Live { settings, engine: Engine::new(&settings.lanes), backend, board, signals, started: now() };
    ready(queue);
    let outcome = live.turn();
    rules.remove(&tools)?;
    live.engine.release_all(now(), &mut live.backend)?;
    live.backend.close()?;
    let _ = std::fs::remove_file(&settings.control);
    outcome
}

struct Live<'a> {
    settings: &'a Settings,
    engine: Engine<HeldPacket>,
    backend: Nfqueue,
    board: Arc<Board>,
    signals: SignalFd,
    started: Instant,
}

impl Live<'_> {
    fn turn(&mut self) -> anyhow::Result<()> {
        loop {
            let at = now();
            let step = self.engine.step(at, &mut self.backend).context("the kernel's queue")?;
            if self.board.is_wanted() {
                let status = self.status();
                self.board.publish(&status);
            }
            while let Some(signal) = self.signals.read_signal()? {
                if signal.ssi_signo != Signal::SIGHUP as u32 {
                    return Ok(());
                }
            }
            if !step.more {
                let wait = step.next.map(|t| std::time::Duration::from_nanos(t.since(now()).as_nanos()));
                self.wait(wait)?;
            }
        }
    }

    fn wait(&self, at_most: Option<std::time::Duration>) -> anyhow::Result<()> {
        let [down, up] = self.backend.fds();
        let mut fds =
            [down, up, self.board.fd(), self.signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let at_most = at_most.unwrap_or(std::time::Duration::from_secs(1));
        match ppoll(&mut fds, Some(TimeSpec::from_duration(at_most)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e).context("ppoll"),
        }
    }

    fn status(&mut self) -> Status {
        let at = now();
        let odds = self.backend.odds();
        let mut direction = |d: Direction| {
            let lane = &self.settings.lanes[d as usize];
            DirectionStatus {
                rate_bps: lane.link.map(|l| l.rate.as_bps()),
                overhead: lane.link.map_or(0, |l| l.overhead),
                discipline: String::new(),
                report: ReportJson::from(&self.engine.report(at, d)),
            }
        };
        let (down, up) = (direction(Direction::Down), direction(Direction::Up));
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: at.since(self.started).as_secs_f64(),
            lan: self.settings.lan.clone(),
            wan: self.settings.wan.clone(),
            backend: "nfqueue".to_owned(),
            observe: false,
            down,
            up,
            malformed: odds.malformed,
            unseen: odds.overruns,
            gone: odds.gone,
            notices: Vec::new(),
        }
    }
}
