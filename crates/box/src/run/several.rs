//! Several links in one process: for each a loop in a thread of its own; for all one watchdog, one control socket and
//! one page. The thread that is here handles no packets: it hears signals, gathers what the links say of themselves,
//! and looks after their threads. One that ends or hangs leaves the others alone: the watchdog lets its traffic pass.

mod handover;
mod link;
mod reload;
mod replace;

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use sd_notify::NotifyState;

use self::link::Link;
use self::replace::Succession;
use super::{Heirlooms, Notice, Place, Source, give_up_privileges, serve};
use crate::control::StatusPublisher;
use crate::handover::Successor;
use crate::privilege::{self, Identity};
use crate::speaker::Speaker;
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
    let succession = if source.replace { replace::find(&places, tell)? } else { None };
    let (links, reload, begun) = (Vec::new(), Vec::new(), Instant::now());
    let mut several = Several { source, places, links, watchdog: None, heirlooms: None, begun, reload };
    let outcome = several.go(succession, user, signals, speaker);
    let successor = outcome.as_ref().ok().is_some_and(Option::is_some);
    let stopped = several.stop(successor);
    // All that is held is let go by now: to take one link's table away drops what waits in others' queues.
    let released: Vec<_> = several.places.iter_mut().map(Place::release).collect();
    // The successor waits for its end of the connection.
    outcome.map(drop).and(stopped).and(released.into_iter().collect())
}

struct Several<'a> {
    source: &'a Source,
    places: Vec<Place>,
    /// As many as places, in their order, once all are set up.
    links: Vec<Link>,
    watchdog: Option<Arc<Watchdog>>,
    /// What goes to a successor beside the links.
    heirlooms: Option<Heirlooms>,
    begun: Instant,
    /// What became of the last reload, if it is worth telling.
    reload: Vec<String>,
}

impl Several<'_> {
    /// Sets all links up, and runs until it is told to stop, or another process has taken over.
    fn go(
        &mut self,
        mut succession: Option<Succession>,
        user: Option<Identity>,
        signals: &SignalFd,
        speaker: &Speaker,
    ) -> anyhow::Result<Option<Successor>> {
        let tell = &mut |notice| speaker.say(notice);
        if let Some(succession) = &mut succession {
            succession.make_room(&self.places, tell)?;
        }
        let heir = |at: usize| succession.as_ref().and_then(|s| s.of(at));
        let new: Vec<_> = (0..self.places.len()).filter(|at| heir(*at).is_none()).collect();
        for at in &new {
            let place = &mut self.places[*at];
            let name = place.settings.name.clone().unwrap_or_default();
            place.take(user).with_context(|| format!("link {name}"))?;
        }
        let settings = self.places[0].settings.clone();
        let publisher = StatusPublisher::new()?;
        let own = if succession.is_none() { Some(self.listen(user)?) } else { None };
        privilege::prefer();
        for (at, place) in self.places.iter_mut().enumerate() {
            place.note(|t| t.control.clone_from(&settings.control))?;
            let name = place.settings.name.clone().unwrap_or_default();
            let heir = succession.as_ref().and_then(|s| s.of(at)).map(|link| &link.terms.bypass);
            let link = Link::open(place, heir, self.source.replace, user, speaker);
            self.links.push(link.with_context(|| format!("link {name}"))?);
        }
        // Before privileges are given up: it is locked in memory.
        let bypasses = self.links.iter().map(|link| link.bypass.clone()).collect();
        let watchdog = self.watchdog.insert(Watchdog::start(bypasses, user)?).clone();
        for ((number, link), place) in (0..).zip(&self.links).zip(&mut self.places) {
            // Whoever handles packets is there before any comes.
            let begun = link.begin(&watchdog, number);
            let is_new = new.contains(&usize::from(number));
            let led = begun.and_then(|()| if is_new { place.lead_here(&link.bypass, tell) } else { Ok(()) });
            led.with_context(|| format!("link {}", link.name))?;
        }
        // Asked once more where what came before took long; from now on this process may ask nobody new.
        let succession = succession.map(Succession::again).transpose()?;
        give_up_privileges(self.source, user, &settings, tell)?;
        let (listener, page) = match (own, succession) {
            (Some(own), _) => own,
            (None, Some(succession)) => self.inherit(succession, &publisher, tell)?,
            (None, None) => bail!("no control socket"),
        };
        serve(listener, page, &publisher)?;
        self.tell_terms(&publisher);
        self.begun = Instant::now();
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let both = self.links.iter().zip(&self.places);
        let words: Vec<_> =
            both.map(|(link, place)| format!("{} {}", link.name, place.running(&link.way))).collect();
        let links = if words.len() == 1 { "link" } else { "links" };
        tell(Notice::Running(format!("{} {links}: {}", words.len(), words.join("; "))));
        self.watch(signals, &publisher, tell)
    }

    /// Looks after the links until it is told to stop, or another process has taken over.
    fn watch(
        &mut self,
        signals: &SignalFd,
        publisher: &Arc<StatusPublisher>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<Option<Successor>> {
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
            let mut changed = false;
            for link in &mut self.links {
                if let Some(why) = link.has_ended() {
                    tell(Notice::Warning(why));
                    changed = true;
                }
            }
            if changed {
                self.tell_terms(publisher);
            }
            if self.links.iter().all(|link| link.ended.is_some()) {
                bail!("no link is left: {}", self.links[0].ended.as_deref().unwrap_or_default());
            }
            while let Some(signal) = signals.read_signal().context("signalfd")? {
                if signal.ssi_signo.cast_signed() != Signal::SIGHUP as i32 {
                    return Ok(None);
                }
                self.reload(tell);
            }
            if publisher.is_wanted() {
                let status = self.status();
                publisher.publish(&status, Instant::now());
            }
            if let Some(asked) = publisher.asked()
                && let Some(successor) = self.yield_to(asked, publisher, tell)
            {
                return Ok(Some(successor));
            }
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

    /// Takes all rules out while packets are still handled, and then lets go of what is held; of what another process
    /// has not taken over.
    fn stop(&mut self, replaced: bool) -> anyhow::Result<()> {
        if !replaced {
            let _ = sd_notify::notify(&[NotifyState::Stopping]);
        }
        // What happens to the rules is this thread's affair from now on.
        self.watchdog.take().into_iter().for_each(|watchdog| watchdog.dismiss());
        let rules: Vec<_> = self.places.iter().map(Place::remove_rules).collect();
        self.links.iter_mut().for_each(Link::stop);
        let until = Instant::now() + STOPPING;
        let ends: Vec<_> = self.links.iter_mut().map(|link| link.wait(until)).collect();
        rules.into_iter().chain(ends).collect()
    }
}
