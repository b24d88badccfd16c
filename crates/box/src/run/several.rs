//! Several links in one process: for each a loop in a thread of its own; for all one watchdog, one control socket and
//! one page. The thread that is here handles no packets: it hears signals, gathers what the links say of themselves,
//! and looks after their threads. One that ends or hangs leaves the others alone: the watchdog lets its traffic pass.

mod link;
mod reload;

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use sd_notify::NotifyState;

use self::link::Link;
use super::{Notice, Place, Source, give_up_privileges, listen_for_readers, replace, serve};
use crate::control::{self, StatusPublisher};
use crate::handover;
use crate::privilege::{self, Identity};
use crate::speaker::Speaker;
use crate::state;
use crate::status::Status;
use crate::watchdog::Watchdog;

/// How often it looks after the threads, at least.
const LOOK: Duration = Duration::from_millis(500);
/// How long the links have to say how they are, all together: less than who asks waits.
const STATUS: Duration = Duration::from_millis(700);
/// How long they have to let go of what they hold.
const STOPPING: Duration = Duration::from_secs(5);

/// Runs a box with these links until it is told to stop.
///
/// # Errors
/// As [`super::run`]; or if no link is left.
pub fn run(
    source: &Source,
    places: Vec<Place>,
    user: Option<Identity>,
    signals: &SignalFd,
    speaker: &Speaker,
) -> anyhow::Result<()> {
    let tell = &mut |notice| speaker.say(notice);
    if source.replace {
        make_room(&places, tell)?;
    }
    let (links, reload, begun) = (Vec::new(), Vec::new(), Instant::now());
    let mut several = Several { source, places, links, watchdog: None, begun, reload };
    let outcome = several.go(user, signals, speaker);
    let outcome = outcome.and(several.stop());
    // All that is held is let go by now: to take one link's table away drops what waits in others' queues.
    let released: Vec<_> = several.places.iter_mut().map(Place::release).collect();
    outcome.and(released.into_iter().collect())
}

/// Stops a box that has these links: only one with a single link goes over to another process while packets flow.
fn make_room(places: &[Place], tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
    let dir = &places[0].settings.state_dir;
    let files = places.iter().map(Place::state_file).collect::<anyhow::Result<Vec<_>>>()?;
    loop {
        let living = state::living(dir)?;
        let theirs =
            |t: &state::Traces| state::path_of(dir, &t.lan, &t.wan).is_ok_and(|path| files.contains(&path));
        let Some(traces) = living.into_iter().find(theirs) else { return Ok(()) };
        replace::all_are_meant(dir, traces.pid, &files)?;
        tell(Notice::Warning(format!(
            "process {} cannot be replaced while packets flow, as there are several links; it is stopped, and this \
             one starts afresh",
            traces.pid
        )));
        handover::dismiss(&traces, dir)?;
    }
}

struct Several<'a> {
    source: &'a Source,
    places: Vec<Place>,
    /// As many as places, in their order, once all are set up.
    links: Vec<Link>,
    watchdog: Option<Arc<Watchdog>>,
    begun: Instant,
    /// What became of the last reload, if it is worth telling.
    reload: Vec<String>,
}

impl Several<'_> {
    /// Sets all links up, and runs until it is told to stop.
    fn go(&mut self, user: Option<Identity>, signals: &SignalFd, speaker: &Speaker) -> anyhow::Result<()> {
        let tell = &mut |notice| speaker.say(notice);
        for place in &mut self.places {
            let name = place.settings.name.clone().unwrap_or_default();
            place.take(user).with_context(|| format!("link {name}"))?;
        }
        let settings = self.places[0].settings.clone();
        let publisher = StatusPublisher::new()?;
        let listener = control::listen(&settings.control, user)?;
        let page = listen_for_readers(&settings)?;
        privilege::prefer();
        for place in &mut self.places {
            place.note(|t| t.control.clone_from(&settings.control))?;
            let name = place.settings.name.clone().unwrap_or_default();
            let link = Link::open(place, self.source.replace, user, speaker);
            self.links.push(link.with_context(|| format!("link {name}"))?);
        }
        // Before privileges are given up: it is locked in memory.
        let bypasses = self.links.iter().map(|link| link.bypass.clone()).collect();
        let watchdog = self.watchdog.insert(Watchdog::start(bypasses, user)?);
        for ((number, link), place) in (0..).zip(&self.links).zip(&mut self.places) {
            // Whoever handles packets is there before any comes.
            let led = link.begin(watchdog, number).and_then(|()| place.lead_here(&link.bypass, tell));
            led.with_context(|| format!("link {}", link.name))?;
        }
        give_up_privileges(self.source, user, &settings, tell)?;
        serve(listener, page, &publisher)?;
        self.begun = Instant::now();
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let both = self.links.iter().zip(&self.places);
        let words: Vec<_> =
            both.map(|(link, place)| format!("{} {}", link.name, place.running(&link.way))).collect();
        tell(Notice::Running(format!("{} links: {}", words.len(), words.join("; "))));
        self.watch(signals, &publisher, tell)
    }

    /// Looks after the links until it is told to stop.
    fn watch(
        &mut self,
        signals: &SignalFd,
        publisher: &Arc<StatusPublisher>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<()> {
        let systemd = sd_notify::watchdog_enabled().is_some();
        let timeout = PollTimeout::try_from(LOOK.as_millis()).unwrap_or(PollTimeout::MAX);
        loop {
            let mut fds = [signals.as_fd(), publisher.fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            match poll(&mut fds, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e).context("poll"),
            }
            if systemd {
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            }
            for link in &mut self.links {
                if let Some(why) = link.has_ended() {
                    tell(Notice::Warning(why));
                }
            }
            if self.links.iter().all(|link| link.ended.is_some()) {
                bail!("no link is left: {}", self.links[0].ended.as_deref().unwrap_or_default());
            }
            while let Some(signal) = signals.read_signal().context("signalfd")? {
                if signal.ssi_signo.cast_signed() != Signal::SIGHUP as i32 {
                    return Ok(());
                }
                self.reload(tell);
            }
            if publisher.is_wanted() {
                let status = self.status();
                publisher.publish(&status, Instant::now());
            }
            // It is told that this cannot be by the end of its connection.
            drop(publisher.successor());
        }
    }

    /// How all links are.
    fn status(&self) -> Status {
        let until = Instant::now() + STATUS;
        self.links.iter().for_each(|link| link.publisher.wish());
        let both = self.links.iter().zip(&self.places);
        let links = both.map(|(link, place)| link.status(&place.settings, until)).collect();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.begun.elapsed().as_secs_f64(),
            notices: self.reload.clone(),
            links,
            ..Status::default()
        }
    }

    /// Takes all rules out while packets are still handled, and then lets go of what is held.
    fn stop(&mut self) -> anyhow::Result<()> {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
        // What happens to the rules is this thread's affair from now on.
        self.watchdog.take().into_iter().for_each(|watchdog| watchdog.dismiss());
        let rules: Vec<_> = self.places.iter().map(Place::remove_rules).collect();
        self.links.iter_mut().for_each(Link::stop);
        let until = Instant::now() + STOPPING;
        let ends: Vec<_> = self.links.iter_mut().map(|link| link.wait(until)).collect();
        rules.into_iter().chain(ends).collect()
    }
}
