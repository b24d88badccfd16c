//! A box from set-up to tear-down: everything that can be refused is asked before anything is touched, every change is
//! noted before it is made, and rules go before held packets do.

use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sd_notify::NotifyState;

use super::bypass::Bypass;
use super::channel::Channel;
use super::control::{self, StatusPublisher};
use super::looping::{self, Live, Watched};
use super::nfqueue::{self, Nfqueue};
use super::packet_pair::PacketPair;
#[cfg(feature = "http")]
use super::page;
use super::privilege;
use super::rules::{Rules, Tool};
use super::settings::{BackendKind, Options, Settings};
use super::speaker::Speaker;
use super::state::{self, Claim, Traces};
use super::watchdog::Watchdog;
use super::{sysctl, users};
use narrows_netio::links::{Interface, Monitor};

/// Where settings come from: flags, and a file that is read again on SIGHUP.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// What was said on the command line; it wins over the file.
    pub flags: Options,
    /// The settings file.
    pub config: Option<PathBuf>,
}

impl Source {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// Names the file, the key and what was expected.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let Some(path) = &self.config else { return settle(&self.flags) };
        let all = self.flags.clone().or(Options::read(path)?);
        settle(&all).with_context(|| format!("in the settings {}", path.display()))
    }
}

/// Checks everything, the file of circuits included.
fn settle(options: &Options) -> anyhow::Result<Settings> {
    let mut settings = options.settle()?;
    if let Some(path) = &options.circuits {
        settings.circuits = users::read(path)?;
    }
    Ok(settings)
}

/// What a box tells while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Rules are in place and packets are being handled; by which way.
    Running(String),
    /// Something a person should know.
    Message(String),
}

/// Runs a box until SIGTERM or SIGINT. SIGHUP reads the settings file again. What it tells is handed to `write` in a
/// thread of its own, which may take its time.
///
/// # Errors
/// If the box cannot be set up; nothing of it stays. If what it changed cannot be put back. Or if the kernel takes its
/// queue away.
pub fn run(source: &Source, write: impl FnMut(Notice) + Send + 'static) -> anyhow::Result<()> {
    let settings = source.settings()?;
    privilege::check()?;
    // Before there is any thread or child: none may ever gain more.
    nix::sys::prctl::set_no_new_privs().context("no_new_privs")?;
    let speaker = Speaker::start(write)?;
    let outcome = set_up(source, settings, &mut |notice| speaker.say(notice));
    speaker.finish();
    outcome
}

fn set_up(source: &Source, mut settings: Settings, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
    let tools = Tool::find();
    // A bridge that stood in for a killed box still holds the interfaces.
    let known = tools.as_deref().unwrap_or_default();
    for what in state::clean(&settings.state_dir, known)? {
        tell(Notice::Message(format!("removed what a killed box had left: {what}")));
    }
    let (lan, wan) = (Interface::find(&settings.lan)?, Interface::find(&settings.wan)?);
    settings.set_mtu(lan.mtu.max(wan.mtu));
    let bridged = bridged(&settings, &lan, &wan)?;
    // From here on signals come through a descriptor: no time at which they would kill a box half made.
    let signals = signals()?;
    let tools = match settings.backend {
        BackendKind::Nfqueue => tools?,
        BackendKind::Packet => tools.unwrap_or_default(),
    };
    let claim = Claim::take(
        &settings.state_dir,
        Traces {
            pid: std::process::id(),
            lan: settings.lan.clone(),
            wan: settings.wan.clone(),
            exclusive: settings.backend == BackendKind::Packet,
            ..Traces::default()
        },
    )?;
    let mut setup = Setup { source, settings, claim, tools, signals, lan, wan, bridged };
    let outcome = setup.go(tell);
    let back = setup.claim.release(&setup.tools);
    outcome.and(back)
}

fn signals() -> anyhow::Result<SignalFd> {
    let mut set = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().for_each(|s| set.add(s));
    set.thread_block().context("cannot block signals")?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).context("signalfd")
}

/// Whether both interfaces are ports of one bridge.
pub fn bridged(settings: &Settings, lan: &Interface, wan: &Interface) -> anyhow::Result<bool> {
    match (settings.backend, lan.bridge, wan.bridge) {
        (BackendKind::Packet, None, None) => Ok(false),
        (BackendKind::Packet, l, _) => {
            let name = if l.is_some() { &settings.lan } else { &settings.wan };
            bail!(
                "{name} is a port of a bridge: the packet back end joins the interfaces itself. Take it out \
                 (ip link set {name} nomaster), or use --backend nfqueue with both as ports of the bridge"
            )
        }
        (BackendKind::Nfqueue, Some(l), Some(w)) if l == w => {
            if settings.local {
                bail!("local = true: on a bridge the router's own traffic does not pass between its ports");
            }
            Ok(true)
        }
        (BackendKind::Nfqueue, l, w) => {
            if let Some(name) = l.map(|_| &settings.lan).or(w.map(|_| &settings.wan)) {
                bail!(
                    "{name} is a port of a bridge and the other interface is not: packets are routed by the bridge \
                     itself; name the bridge instead of its port (ip link show {name} tells its master)"
                );
            }
            Ok(false)
        }
    }
}

struct Setup<'a> {
    source: &'a Source,
    settings: Settings,
    claim: Claim,
    tools: Vec<Tool>,
    signals: SignalFd,
    lan: Interface,
    wan: Interface,
    bridged: bool,
}

/// What people see and signals reach: made before anything of the machine is changed.
struct ControlEndpoints {
    publisher: Arc<StatusPublisher>,
    listener: UnixListener,
    #[cfg(feature = "http")]
    page: Option<std::net::TcpListener>,
    monitor: Monitor,
}

impl Setup<'_> {
    fn go(&mut self, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
        #[cfg(not(feature = "http"))]
        anyhow::ensure!(
            self.settings.page.is_none(),
            "page: this narrows was built without the status page (feature http): leave page out"
        );
        let endpoints = ControlEndpoints {
            publisher: StatusPublisher::new()?,
            listener: control::listen(&self.settings.control)?,
            #[cfg(feature = "http")]
            page: self.settings.page.map(page::listen).transpose()?,
            monitor: Monitor::new()?,
        };
        self.claim.note(|t| t.control.clone_from(&self.settings.control))?;
        match self.settings.backend {
            BackendKind::Nfqueue => {
                let (queue, mut backend) = open_nfqueue(self.settings.queue)?;
                if !self.bridged {
                    backend = backend.routed_to(&self.settings.lan);
                }
                backend.answer_http(self.settings.http_503)?;
                if self.tools.len() == 1 {
                    tell(Notice::Message(
                        "IPv6 is not queued: no ip6tables works here (narrows doctor)".to_owned(),
                    ));
                }
                let rules = self.put_rules_in(queue)?;
                let bypass = Bypass::Rules { rules, tools: self.tools.clone() };
                let way = format!("NFQUEUE {queue} and {}", queue + 1);
                self.start(endpoints, backend, (&way, &bypass), tell)
            }
            BackendKind::Packet => {
                let mut pair =
                    PacketPair::open((&self.settings.lan, &self.lan), (&self.settings.wan, &self.wan))?;
                pair.answer_http(self.settings.http_503)?;
                let bypass = Bypass::bridge(&self.settings.lan, &self.settings.wan, self.lan.index);
                self.claim.note(|t| t.bridge = bypass.bridge_name().map(str::to_owned))?;
                self.start(endpoints, pair, ("packet sockets", &bypass), tell)
            }
        }
    }

    fn put_rules_in(&mut self, queue: u16) -> anyhow::Result<Rules> {
        if self.bridged {
            let mut inherited = Vec::new();
            for other in state::living(&self.settings.state_dir)? {
                inherited.extend(other.sysctls);
            }
            let changes = sysctl::for_bridge(&inherited, self.tools.len() > 1)?;
            self.claim.note(|t| t.sysctls.clone_from(&changes))?;
            changes.iter().try_for_each(sysctl::apply)?;
        }
        let rules = Rules {
            lan: self.settings.lan.clone(),
            wan: self.settings.wan.clone(),
            queue,
            bridged: self.bridged,
            local: self.settings.local,
            owner: format!("narrows {}", std::process::id()),
        };
        self.claim.note(|t| t.chain = Some(rules.chain()))?;
        rules.install(&self.tools)?;
        Ok(rules)
    }

    fn start<C: Channel>(
        &mut self,
        endpoints: ControlEndpoints,
        channel: C,
        (way, bypass): (&str, &Bypass),
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<()> {
        // Before privileges are given up: it is locked in memory.
        let watchdog = Watchdog::start(bypass)?;
        nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
        if self.settings.realtime {
            privilege::realtime()?;
        } else {
            privilege::prefer();
        }
        privilege::keep_only_needed()?;
        // Threads inherit what this one may do, so they come after it was given up.
        control::serve(endpoints.listener, endpoints.publisher.clone());
        #[cfg(feature = "http")]
        if let Some(page) = endpoints.page {
            page::serve(page, endpoints.publisher.clone())?;
        }
        let watched = Watched { watchdog: Some(watchdog), bypass };
        let mut live =
            Live::new(self.source, &self.settings, channel, endpoints.publisher, endpoints.monitor, watched);
        // To systemd, where it has started us.
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        tell(Notice::Running(format!(
            "{} <-> {} by {way}, down {}, up {}",
            self.settings.lan,
            self.settings.wan,
            looping::describe(&self.settings, 0),
            looping::describe(&self.settings, 1)
        )));
        let signals = &self.signals;
        // Should a discipline fail, packets must still flow and the rules must still go.
        let outcome = guarded(|| live.run(signals, tell));
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
        live.dismiss_watchdog();
        let rules = match outcome {
            Ok(()) => live.step_while(|| self.claim.remove_rules(&self.tools)),
            Err(_) => self.claim.remove_rules(&self.tools),
        };
        let closed = guarded(|| live.close());
        outcome.and(rules).and(closed)
    }
}

fn guarded(f: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        Err(anyhow::anyhow!("an invariant is broken (see above): this is a bug in narrows"))
    })
}

/// Listens on the queue that was asked for, or on the first free one.
fn open_nfqueue(asked: Option<u16>) -> anyhow::Result<(u16, Nfqueue)> {
    let mut queue = asked.unwrap_or_else(nfqueue::free_pair);
    // Another box may take the same number between the look and the opening; or we may not look at all.
    for _ in 0..if asked.is_some() { 0 } else { 16 } {
        match Nfqueue::open(queue) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::EBUSY)) => queue += 2,
            other => return other.map(|b| (queue, b)).map_err(|e| explain_nfqueue(&e, queue)),
        }
    }
    Nfqueue::open(queue).map(|b| (queue, b)).map_err(|e| explain_nfqueue(&e, queue))
}

fn explain_nfqueue(error: &std::io::Error, queue: u16) -> anyhow::Error {
    let number = [queue, queue + 1];
    let taken = nfqueue::kernel_queues().unwrap_or_default().iter().any(|q| number.contains(&q.number));
    let remedy = match error.raw_os_error() {
        // The kernel says EPERM where a queue belongs to somebody else.
        Some(libc::EPERM | libc::EBUSY) if taken => {
            "another program listens there: choose another number with --queue, or leave it out"
        }
        Some(libc::EPERM) => "CAP_NET_ADMIN is missing in this network namespace: run as root",
        Some(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP) => {
            "this kernel has no nfnetlink_queue: load it (modprobe nfnetlink_queue), or use --backend packet"
        }
        _ => "see `narrows doctor`",
    };
    anyhow::anyhow!("cannot listen on NFQUEUE {queue} and {}: {error}: {remedy}", queue + 1)
}
