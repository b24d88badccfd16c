//! A box from set-up to tear-down: everything that can be refused is asked before anything is touched, every change is
//! noted before it is made, and rules go before held packets do.

mod place;
mod replace;
mod several;
mod wait;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sd_notify::NotifyState;

use self::place::{Place, Resume, Way};
use self::replace::{Heirlooms, Inheritance, Kept};
use super::bypass::Bypass;
use super::channel::Channel;
use super::control::{self, StatusPublisher};
use super::handover::Terms;
use super::looping::{Ended, Live, Prepared, Signals};
use super::nfqueue;
#[cfg(feature = "http")]
use super::page;
use super::privilege::{self, Identity};
use super::settings::{self, BackendKind, Options, Settings};
use super::speaker::Speaker;
use super::state::{self, Claim};
use super::watchdog::{Watchdog, Watched};
use narrows_netio::links::Monitor;

pub use place::{bridged, bridges_cut, interfaces, largest};

/// Where settings come from: flags, and a file that is read again on SIGHUP.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// What was said on the command line; it wins over the file.
    pub flags: Options,
    /// The settings file.
    pub config: Option<PathBuf>,
    /// Whether it takes the place of a box that runs on these interfaces, or goes on with what one that stopped has
    /// left.
    pub replace: bool,
    /// Whether it waits for interfaces that are not there yet.
    pub wait: bool,
}

impl Source {
    /// Reads and checks everything: the settings of each link.
    ///
    /// # Errors
    /// Names the file, the link, the key and what was expected.
    pub fn links(&self) -> anyhow::Result<Vec<Settings>> {
        let Some(path) = &self.config else { return settings::settle(&self.flags, Options::default()) };
        let file = Options::read(path)?;
        settings::settle(&self.flags, file).with_context(|| format!("in the settings {}", path.display()))
    }

    /// The same once more, for a box that runs.
    ///
    /// # Errors
    /// Those of [`Source::links`], or there is nothing to be read again.
    pub(crate) fn again(&self) -> anyhow::Result<Vec<Settings>> {
        anyhow::ensure!(
            self.config.is_some() || self.flags.circuits.is_some(),
            "there is no settings file to read again: start with --config"
        );
        self.links()
    }
}

/// What a box tells while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Rules are in place and packets are being handled; by which way.
    Running(String),
    /// Something has gone wrong, or is not as it was meant.
    Warning(String),
    /// Something a person should know.
    Message(String),
    /// How it went about it.
    Detail(String),
}

/// Runs a box until SIGTERM or SIGINT. SIGHUP reads the settings file again. What it tells is handed to `write` in a
/// thread of its own, which may take its time.
///
/// # Errors
/// If the box cannot be set up; nothing of it stays. If what it changed cannot be put back. Or if the kernel takes its
/// queue away.
pub fn run(source: &Source, write: impl FnMut(Notice) + Send + 'static) -> anyhow::Result<()> {
    let links = source.links()?;
    privilege::check()?;
    // Before there is any thread or child: none may ever gain more.
    nix::sys::prctl::set_no_new_privs().context("no_new_privs")?;
    let wanted = Identity::find(links[0].user.as_deref())?;
    let obstacle = wanted.and_then(|_| Identity::obstacle());
    let user = wanted.filter(|_| obstacle.is_none());
    let speaker = Speaker::start(user, write)?;
    if let Some(why) = obstacle {
        speaker.say(Notice::Warning(format!("it stays root: {why}")));
    }
    let outcome = set_up(source, links, user, &speaker);
    speaker.finish();
    outcome
}

fn set_up(
    source: &Source,
    links: Vec<Settings>,
    user: Option<Identity>,
    speaker: &Speaker,
) -> anyhow::Result<()> {
    let tell = &mut |notice| speaker.say(notice);
    // A bridge that stood in for a killed box still holds the interfaces.
    for what in state::clean(&links[0].state_dir)? {
        tell(Notice::Warning(format!("removed what a killed box had left: {what}")));
    }
    #[cfg(not(feature = "http"))]
    anyhow::ensure!(
        links[0].page.is_none(),
        "page: this narrows was built without the status page (feature http): leave page out"
    );
    // From here on signals come through a descriptor: no time at which they would kill a box half made.
    let signals = signals()?;
    let links = if source.wait { wait::wait(source, links, &signals, tell)? } else { Some(links) };
    let Some(links) = links else { return Ok(()) };
    let mut places = Vec::new();
    for settings in links {
        let name = settings.name.clone();
        let place = Place::find(settings);
        places.push(match name {
            Some(name) => place.with_context(|| format!("link {name}"))?,
            None => place?,
        });
    }
    // The lock that all programs of iptables share is root's.
    let user = user.filter(|_| !places.iter().any(Place::needs_root));
    let place = match <[Place; 1]>::try_from(places) {
        Ok([place]) if place.settings.name.is_none() => place,
        Ok(named) => return several::run(source, named.into(), user, &signals, speaker),
        Err(places) => return several::run(source, places, user, &signals, speaker),
    };
    let mut setup = Setup { source, user, signals, place };
    if source.replace {
        match setup.replace(tell) {
            Ok(false) => {}
            outcome => return outcome.map(drop).and(setup.place.release()),
        }
    }
    setup.place.take(user)?;
    let outcome = setup.go(tell);
    outcome.and(setup.place.release())
}

fn signals() -> anyhow::Result<SignalFd> {
    let mut set = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().for_each(|s| set.add(s));
    set.thread_block().context("cannot block signals")?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).context("signalfd")
}

struct Setup<'a> {
    source: &'a Source,
    /// Whom it becomes when it is set up.
    user: Option<Identity>,
    signals: SignalFd,
    place: Place,
}

/// What people see and signals reach: made before anything of the machine is changed.
struct ControlEndpoints {
    publisher: Arc<StatusPublisher>,
    /// Taken from another box, where this one takes its place.
    listener: Option<UnixListener>,
    page: Option<TcpListener>,
    monitor: Monitor,
}

impl Setup<'_> {
    fn go(&mut self, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
        let endpoints = ControlEndpoints {
            publisher: StatusPublisher::new()?,
            listener: Some(control::listen(&self.place.settings.control, self.user)?),
            page: listen_for_readers(&self.place.settings)?,
            monitor: Monitor::new()?,
        };
        let control = self.place.settings.control.clone();
        self.place.note(|t| t.control = control)?;
        match self.place.settings.backend {
            BackendKind::Nfqueue => {
                let Way { channel, bypass, words } = self.place.open_queues(tell)?;
                self.place.lead_here(&bypass, tell)?;
                self.start(endpoints, |_| Ok((channel, None)), (&words, &bypass), tell)
            }
            BackendKind::Packet => {
                let Way { channel, bypass, words } = self.place.open_pair()?;
                self.start(endpoints, |_| Ok((channel, None)), (&words, &bypass), tell)
            }
            BackendKind::Xdp => {
                let Way { channel, bypass, words } = self.place.open_ports()?;
                self.start(endpoints, |_| Ok((channel, None)), (&words, &bypass), tell)
            }
        }
    }

    /// Handles packets until it is told to stop. `open` gives the way to them, and what another box has left, if this
    /// one takes its place.
    fn start<C: Channel>(
        &mut self,
        mut endpoints: ControlEndpoints,
        open: impl FnOnce(&mut ControlEndpoints) -> anyhow::Result<(C, Option<Inheritance>)>,
        (way, bypass): (&str, &Bypass),
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<()> {
        // Before privileges are given up: it is locked in memory, and the file is root's.
        let watchdog = Watchdog::start(vec![bypass.clone()], self.user)?;
        let mut kept = self.place.keepsake(self.source.replace)?;
        nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
        if self.place.settings.realtime {
            privilege::realtime()?;
        } else {
            privilege::prefer();
        }
        give_up_privileges(self.source, self.user, &self.place.settings, tell)?;
        let terms = Terms::new(self.place.settings.backend.to_string(), bypass);
        endpoints.publisher.may_be_replaced(&terms);
        let prepared = Prepared::new(&self.place.settings);
        // From here on nobody handles packets where another box lets go, until the loop runs: nothing that takes time.
        let (channel, inheritance) = open(&mut endpoints)?;
        let listener = endpoints.listener.context("no control socket")?;
        let heirlooms = Heirlooms::of(&listener, endpoints.page.as_ref())?;
        let (watched, publisher) = (Watched::new(watchdog, 0), endpoints.publisher.clone());
        let mut live = Live::new(prepared, channel, endpoints.publisher, endpoints.monitor, watched);
        let inherited = inheritance.is_some();
        match inheritance {
            Some(left) => self.inherit(&mut live, left, tell)?,
            None => kept.as_mut().map_or(Ok(()), |kept| kept.give(&mut live))?,
        }
        // Threads inherit what this one may do, so they come after it was given up.
        serve(listener, endpoints.page, &publisher)?;
        if let Err(error) = live.listen_for_rates() {
            // A box that has taken another's place goes on.
            anyhow::ensure!(inherited, error);
            tell(Notice::Warning(format!("{error:#}")));
        }
        // To systemd, where it has started us.
        if !inherited {
            let _ = sd_notify::notify(&[NotifyState::Ready]);
        }
        tell(Notice::Running(self.place.running(way)));
        let mut orders = Signals { signals: &self.signals, source: self.source };
        let mut successor = None;
        // Should a discipline fail, packets must still flow and the rules must still go.
        let outcome = guarded(|| {
            let ended = live.run(&mut orders, &heirlooms.fds(self.place.claim.as_ref()), tell)?;
            successor = if let Ended::Replaced(successor) = ended { successor } else { None };
            Ok(())
        });
        if let Some(successor) = successor {
            live.leave();
            self.place.claim.take().into_iter().for_each(Claim::leave);
            // It waits for this.
            drop(successor);
            return Ok(());
        }
        self.stop(live, kept, outcome)
    }

    /// Takes the rules out, lets go of what is held, and leaves what is known to the next start.
    fn stop<C: Channel>(
        &self,
        mut live: Live<C>,
        kept: Option<Kept>,
        outcome: anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
        live.dismiss_watchdog();
        let left = kept.map_or(Ok(()), |mut kept| kept.leave(&live));
        let remove = || self.place.remove_rules();
        let rules = match outcome {
            Ok(()) => live.step_while(remove),
            Err(_) => remove(),
        };
        let closed = guarded(|| live.close());
        outcome.and(rules).and(closed).and(left)
    }
}

fn guarded(f: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        Err(anyhow::anyhow!("an invariant is broken (see above): this is a bug in narrows"))
    })
}

#[cfg(feature = "http")]
fn listen_for_readers(settings: &Settings) -> anyhow::Result<Option<TcpListener>> {
    settings.page.map(page::listen).transpose()
}

#[cfg(not(feature = "http"))]
fn listen_for_readers(_: &Settings) -> anyhow::Result<Option<TcpListener>> {
    Ok(None)
}

/// Answers those who ask, from threads of their own.
fn serve(
    listener: UnixListener,
    page: Option<TcpListener>,
    publisher: &Arc<StatusPublisher>,
) -> anyhow::Result<()> {
    control::serve(listener, publisher.clone())?;
    #[cfg(feature = "http")]
    if let Some(page) = page {
        page::serve(page, publisher.clone())?;
    }
    #[cfg(not(feature = "http"))]
    drop(page);
    Ok(())
}

/// Keeps what is needed, for this thread and those to come.
fn give_up_privileges(
    source: &Source,
    user: Option<Identity>,
    settings: &Settings,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<()> {
    nfqueue::keep_account();
    for refused in privilege::keep_only_needed(user)? {
        tell(Notice::Warning(format!("it goes on without: {refused}")));
    }
    let who = nix::unistd::Uid::effective();
    tell(Notice::Detail(format!(
        "the watchdog runs, privileges are given up, it is user {who} now; control socket {}",
        settings.control.display()
    )));
    for file in [&source.config, &source.flags.circuits].into_iter().flatten() {
        if let Err(error) = std::fs::File::open(file) {
            tell(Notice::Warning(format!(
                "{} cannot be read again on SIGHUP, as it is not for user {who} to read: {error}",
                file.display()
            )));
        }
    }
    Ok(())
}
