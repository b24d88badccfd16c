//! A box from set-up to tear-down: everything that can be refused is asked before anything is touched, every change is
//! noted before it is made, and rules go before held packets do.
//!
//! Each link has a loop in a thread of its own; all share one watchdog, one control socket and one page. The thread of
//! this module handles no packets: it hears signals, gathers the status of the links, and looks after their threads. A
//! link that ends or hangs leaves the others alone: the watchdog lets its traffic pass. One link is a list of one.

mod link;
mod link_setup;
mod reload;
mod replace;
mod wait;

use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use self::link::{Link, of_link};
use self::link_setup::LinkSetup;
use self::replace::Takeover;
use super::control::{self, StatusPublisher};
use super::decisions::DecisionLog;
use super::handover::{SharedFds, Successor};
use super::log::{Log, Notice};
use super::nfqueue;
#[cfg(feature = "http")]
use super::page;
use super::privilege::{self, Identity};
use super::service;
use super::settings::{Settings, Source};
use super::state;
use super::status::Status;
use super::users;
use super::watchdog::Watchdog;

pub use link_setup::{bridged, bridges_cut, interfaces, largest};

/// Longest time between two looks at the threads.
const LOOK: Duration = Duration::from_millis(500);
/// Time between two looks at the users' side. A host that has come is a user by its address until then.
const NEWS: Duration = Duration::from_secs(5);
/// Time that all links together have to report: less than a client waits.
const STATUS: Duration = Duration::from_millis(700);
/// Time in which links that stop must let go of held packets.
const STOPPING: Duration = Duration::from_secs(5);

/// Runs a box until SIGTERM or SIGINT. SIGHUP reads the settings file again. Notices are handed to `write` in a thread
/// of its own, which may take its time.
///
/// # Errors
/// If the box cannot be set up; nothing of it stays. If what it changed cannot be put back. Or if no link is left.
pub fn run(source: &Source, write: impl FnMut(Notice) + Send + 'static) -> anyhow::Result<()> {
    let links = source.links()?;
    privilege::check()?;
    // Before there is any thread or child: none may ever gain more.
    nix::sys::prctl::set_no_new_privs().context("no_new_privs")?;
    let wanted = Identity::find(links[0].user.as_deref())?;
    let obstacle = wanted.and_then(|_| Identity::obstacle());
    let user = wanted.filter(|_| obstacle.is_none());
    let log = Log::start(user, write)?;
    if let Some(why) = obstacle {
        log.say(Notice::Warning(format!("it stays root: {why}")));
    }
    let outcome = set_up(source, links, user, &log);
    log.finish();
    outcome
}

fn set_up(source: &Source, links: Vec<Settings>, user: Option<Identity>, log: &Log) -> anyhow::Result<()> {
    let tell = &mut |notice| log.say(notice);
    // A bridge that stood in for a killed box still holds the interfaces.
    let cleaned = state::clean(&links[0].state_dir)?;
    for what in cleaned.removed {
        tell(Notice::Warning(format!("removed what a killed box had left: {what}")));
    }
    cleaned.refused.into_iter().for_each(|what| tell(Notice::Warning(what)));
    #[cfg(not(feature = "http"))]
    anyhow::ensure!(
        links[0].page.is_none(),
        "page: this narrows was built without the status page (feature http): leave page out"
    );
    // From here on signals come through a descriptor: no time at which they would kill a box half made.
    let signals = signals()?;
    let links = if source.wait { wait::wait(source, links, &signals, tell)? } else { Some(links) };
    let Some(links) = links else { return Ok(()) };
    let decisions = DecisionLog::start(&links[0], user, log)?;
    let mut setups = Vec::new();
    for settings in links {
        let name = settings.name.clone();
        setups.push(of_link(name.as_deref(), LinkSetup::find(settings))?);
    }
    // The lock that all programs of iptables share is root's.
    let user = user.filter(|_| !setups.iter().any(LinkSetup::needs_root));
    let takeover = if source.replace { replace::find(&setups, tell)? } else { None };
    let mut process = Process {
        source,
        user,
        signals,
        setups,
        links: Vec::new(),
        watchdog: None,
        shared: None,
        begun: Instant::now(),
        decisions,
        reload: Vec::new(),
    };
    let outcome = process.go(takeover, log);
    let successor = outcome.as_ref().ok().is_some_and(Option::is_some);
    let stopped = process.stop(successor);
    process.decisions.take().into_iter().for_each(DecisionLog::finish);
    // Nothing is held any more: to take one link's table away drops what waits in others' queues.
    let released: Vec<_> = process.setups.iter_mut().map(LinkSetup::release).collect();
    // The successor waits for its end of the connection.
    outcome.map(drop).and(stopped).and(released.into_iter().collect())
}

fn signals() -> anyhow::Result<SignalFd> {
    let mut set = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().for_each(|s| set.add(s));
    set.thread_block().context("cannot block signals")?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).context("signalfd")
}

/// Sockets on which clients ask.
type Listeners = (UnixListener, Option<TcpListener>);

/// A process with its links.
struct Process<'a> {
    source: &'a Source,
    /// User to switch to when all is set up.
    user: Option<Identity>,
    signals: SignalFd,
    setups: Vec<LinkSetup>,
    /// Links, in the order of `setups`; fewer while links are being set up.
    links: Vec<Link>,
    watchdog: Option<Arc<Watchdog>>,
    /// Descriptors that go to a successor beside those of the links.
    shared: Option<SharedFds>,
    begun: Instant,
    /// Log of decisions, where the settings name a file.
    decisions: Option<DecisionLog>,
    /// Warnings of the last reload.
    reload: Vec<String>,
}

impl Process<'_> {
    /// Sets all links up, and runs until it is told to stop, or another process has taken over.
    fn go(&mut self, mut takeover: Option<Takeover>, log: &Log) -> anyhow::Result<Option<Successor>> {
        let tell = &mut |notice| log.say(notice);
        if let Some(takeover) = &mut takeover {
            takeover.make_room(&self.setups, tell)?;
        }
        let taken = |at: usize| takeover.as_ref().and_then(|t| t.of(at));
        let new: Vec<_> = (0..self.setups.len()).filter(|at| taken(*at).is_none()).collect();
        for at in &new {
            let setup = &mut self.setups[*at];
            let claimed = setup.take(self.user);
            of_link(setup.settings.name.as_deref(), claimed)?;
        }
        let settings = self.setups[0].settings.clone();
        let publisher = StatusPublisher::new()?;
        let own = if takeover.is_none() { Some(self.listen()?) } else { None };
        privilege::prefer();
        for (at, setup) in self.setups.iter_mut().enumerate() {
            setup.note(|t| t.control.clone_from(&settings.control))?;
            let bypass = takeover.as_ref().and_then(|t| t.of(at)).map(|link| &link.terms.bypass);
            let link =
                Link::open(setup, bypass, self.source.replace, self.user, log, self.decisions.as_ref());
            self.links.push(of_link(setup.settings.name.as_deref(), link)?);
        }
        // Before privileges are given up: it is locked in memory.
        let bypasses = self.links.iter().map(|link| link.bypass.clone()).collect();
        let watchdog = self.watchdog.insert(Watchdog::start(bypasses, self.user)?).clone();
        for ((number, link), setup) in (0..).zip(&self.links).zip(&mut self.setups) {
            // A loop is ready before its first packet comes.
            let begun = link.begin(&watchdog, number);
            let is_new = new.contains(&usize::from(number));
            let led = begun.and_then(|()| if is_new { setup.lead_here(&link.bypass, tell) } else { Ok(()) });
            of_link(link.name.as_deref(), led)?;
        }
        // Asked once more where what came before took long; from now on this process may ask nobody new.
        let takeover = takeover.map(Takeover::again).transpose()?;
        give_up_privileges(self.source, self.user, &settings, tell)?;
        let (listener, page) = match (own, takeover) {
            (Some(own), _) => own,
            (None, Some(takeover)) => self.inherit(takeover, &publisher, tell)?,
            (None, None) => bail!("no control socket"),
        };
        serve(listener, page, &publisher)?;
        self.tell_terms(&publisher);
        for line in self.remarks() {
            tell(Notice::Warning(line));
        }
        self.begun = Instant::now();
        service::ready();
        tell(Notice::Running(self.running()));
        self.watch(&publisher, tell)
    }

    /// Description of all links that run, in a sentence.
    fn running(&self) -> String {
        let both = self.links.iter().zip(&self.setups);
        let words: Vec<_> = both.map(|(link, setup)| link.label(&setup.running(&link.way), " ")).collect();
        match (&self.links[..], words.len()) {
            ([link], _) if link.name.is_none() => words.concat(),
            (_, 1) => format!("1 link: {}", words.concat()),
            (_, count) => format!("{count} links: {}", words.join("; ")),
        }
    }

    /// Remarks on the files of circuits and sites of all links.
    fn remarks(&self) -> Vec<String> {
        let of = |setup: &LinkSetup| users::remarks(&setup.settings.circuits, &setup.settings.sites);
        users::unique(self.setups.iter().flat_map(of))
    }

    /// Opens the control socket and the page of a process that takes nobody's place.
    fn listen(&mut self) -> anyhow::Result<Listeners> {
        let settings = &self.setups[0].settings;
        let (listener, page) =
            (control::listen(&settings.control, self.user)?, listen_for_readers(settings)?);
        self.shared = Some(SharedFds::of(&listener, page.as_ref())?);
        Ok((listener, page))
    }

    /// Looks after the links until it is told to stop, or another process has taken over.
    fn watch(
        &mut self,
        publisher: &Arc<StatusPublisher>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<Option<Successor>> {
        let timeout = PollTimeout::try_from(LOOK.as_millis()).unwrap_or(PollTimeout::MAX);
        let mut alive = service::Alive::new();
        let mut asked = Instant::now();
        loop {
            if asked.elapsed() >= NEWS {
                self.links.iter_mut().zip(&self.setups).for_each(|(link, setup)| link.know(&setup.settings));
                asked = Instant::now();
            }
            let mut fds = [self.signals.as_fd(), publisher.fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            match poll(&mut fds, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e).context("poll"),
            }
            // A process of which a link hangs is to be started again; those that have ended have said why.
            if self.links.iter().filter(|link| link.ended.is_none()).all(Link::lives) {
                alive.tell();
            }
            self.see_ended(publisher, tell)?;
            while let Some(signal) = self.signals.read_signal().context("signalfd")? {
                if signal.ssi_signo.cast_signed() != Signal::SIGHUP as i32 {
                    return Ok(None);
                }
                self.reload(tell);
            }
            if publisher.is_wanted()
                && let Some(status) = self.status()
            {
                publisher.publish(|| status);
            }
            if let Some(asked) = publisher.asked()
                && let Some(successor) = self.yield_to(asked, publisher, tell)
            {
                return Ok(Some(successor));
            }
        }
    }

    /// Finds links that have ended by themselves.
    ///
    /// # Errors
    /// If no link is left.
    fn see_ended(
        &mut self,
        publisher: &Arc<StatusPublisher>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<()> {
        let mut changed = false;
        for link in &mut self.links {
            let Some(why) = link.has_ended() else { continue };
            if link.name.is_none() {
                return Err(why);
            }
            tell(Notice::Warning(link.ended.clone().unwrap_or_default()));
            changed = true;
        }
        if changed {
            self.tell_terms(publisher);
        }
        if self.links.iter().all(|link| link.ended.is_some()) {
            bail!("no link is left: {}", self.links[0].ended.as_deref().unwrap_or_default());
        }
        Ok(())
    }

    /// Status of all links; of one without a name its own, none where it does not answer.
    fn status(&self) -> Option<Status> {
        let until = Instant::now() + STATUS;
        self.links.iter().for_each(|link| link.publisher.wish());
        if let [link] = &self.links[..]
            && link.name.is_none()
        {
            let mut status = link.answer(until).ok()?;
            status.notices.extend(self.reload.iter().cloned());
            return Some(status);
        }
        let both = self.links.iter().zip(&self.setups);
        let links = both.map(|(link, setup)| link.status(&setup.settings, until)).collect();
        Some(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.begun.elapsed().as_secs_f64(),
            notices: self.reload.clone(),
            links,
            ..Status::default()
        })
    }

    /// Takes all rules out while packets are still handled, and then lets go of what is held; of what another process
    /// has not taken over.
    fn stop(&mut self, replaced: bool) -> anyhow::Result<()> {
        if !replaced {
            service::stopping();
        }
        // From now on only this thread changes the rules.
        self.watchdog.take().into_iter().for_each(|watchdog| watchdog.dismiss());
        let rules: Vec<_> = self.setups.iter().map(LinkSetup::remove_rules).collect();
        self.links.iter_mut().for_each(Link::stop);
        let until = Instant::now() + STOPPING;
        let ends: Vec<_> = self.links.iter_mut().map(|link| link.wait(until)).collect();
        rules.into_iter().chain(ends).collect()
    }
}

#[cfg(feature = "http")]
fn listen_for_readers(settings: &Settings) -> anyhow::Result<Option<TcpListener>> {
    settings.page.map(page::listen).transpose()
}

#[cfg(not(feature = "http"))]
fn listen_for_readers(_: &Settings) -> anyhow::Result<Option<TcpListener>> {
    Ok(None)
}

/// Answers clients, from threads of their own.
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

/// Drops privileges that neither this thread nor later ones need.
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
    for file in [&source.config, &source.flags.circuits, &source.flags.sites].into_iter().flatten() {
        if let Err(error) = std::fs::File::open(file) {
            tell(Notice::Warning(format!(
                "{} cannot be read again on SIGHUP, as it is not for user {who} to read: {error}",
                file.display()
            )));
        }
    }
    Ok(())
}
