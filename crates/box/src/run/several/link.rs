//! One link of several: its thread, and what is told to it.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use narrows_netio::links::Monitor;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::bypass::Bypass;
use crate::channel::Channel;
use crate::control::StatusPublisher;
use crate::looping::{Live, Order, Orders, Prepared};
use crate::privilege::{self, Identity};
use crate::run::{Kept, Notice, Place, Way, guarded};
use crate::settings::{BackendKind, Settings};
use crate::speaker::{Speaker, Voice};
use crate::status::Status;
use crate::watchdog::{Watchdog, Watched};

/// How long a thread has to begin.
const BEGINNING: Duration = Duration::from_secs(30);

/// A link and its thread.
pub struct Link {
    pub name: String,
    /// How traffic passes by it.
    pub bypass: Bypass,
    /// How packets reach it, for people.
    pub way: String,
    pub publisher: Arc<StatusPublisher>,
    /// Why it handles packets no longer, if so.
    pub ended: Option<String>,
    orders: Sender<Order>,
    wake: Arc<EventFd>,
    /// It begins when it has this.
    begin: Option<Sender<Watched>>,
    /// How far it has come: once when it has given up its privileges, once when it handles packets.
    reached: Receiver<anyhow::Result<()>>,
    /// Until it has been waited for.
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// What a thread has beside its channel.
struct Part {
    name: String,
    settings: Settings,
    kept: Option<Kept>,
    publisher: Arc<StatusPublisher>,
    monitor: Monitor,
    voice: Voice,
    orders: Told,
    begin: Receiver<Watched>,
    reached: Sender<anyhow::Result<()>>,
}

/// Orders of the thread that looks after all links.
struct Told {
    orders: Receiver<Order>,
    wake: Arc<EventFd>,
}

impl Orders for Told {
    fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn next(&mut self) -> anyhow::Result<Option<Order>> {
        let _ = self.wake.read();
        match self.orders.try_recv() {
            Ok(order) => Ok(Some(order)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Ok(Some(Order::Stop)),
        }
    }
}

impl Link {
    /// Opens a way for packets, which none takes yet, and starts a thread that waits for [`Link::begin`].
    pub fn open(
        place: &mut Place,
        replace: bool,
        user: Option<Identity>,
        speaker: &Speaker,
    ) -> anyhow::Result<Self> {
        let name = place.settings.name.clone().unwrap_or_default();
        let voice = speaker.voice();
        let mut tell = |notice| voice.say(of_link(&name, notice));
        let publisher = StatusPublisher::new()?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = Arc::new(EventFd::from_value_and_flags(0, flags).context("eventfd")?);
        let ((orders, heard), (begin, begun), (reached, is_reached)) = (channel(), channel(), channel());
        let part = Part {
            name: name.clone(),
            settings: place.settings.clone(),
            kept: place.keepsake(replace)?,
            publisher: publisher.clone(),
            monitor: Monitor::new()?,
            voice: speaker.voice(),
            orders: Told { orders: heard, wake: wake.clone() },
            begin: begun,
            reached,
        };
        let (thread, bypass, way) = match place.settings.backend {
            BackendKind::Nfqueue => start(place.open_queues(&mut tell)?, part, user),
            BackendKind::Packet => start(place.open_pair()?, part, user),
            BackendKind::Xdp => start(place.open_ports()?, part, user),
        }?;
        let (thread, begin, ended) = (Some(thread), Some(begin), None);
        let link =
            Self { name, bypass, way, publisher, ended, orders, wake, begin, reached: is_reached, thread };
        link.has_reached()?;
        Ok(link)
    }

    /// Waits until the thread is as far as it is to come by itself.
    fn has_reached(&self) -> anyhow::Result<()> {
        self.reached.recv_timeout(BEGINNING).context("its thread does not begin")?
    }

    /// Lets it handle packets, watched as the link of this number.
    pub fn begin(&self, watchdog: &Arc<Watchdog>, number: u16) -> anyhow::Result<()> {
        let watched = Watched::new(watchdog.clone(), number);
        self.begin.as_ref().and_then(|begin| begin.send(watched).ok()).context("its thread has ended")?;
        self.has_reached()
    }

    /// Tells it to do something.
    pub fn order(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            let _ = self.wake.write(1);
        }
    }

    /// Tells it to come to its end, whether it has begun or not.
    pub fn stop(&mut self) {
        self.begin = None;
        self.order(Order::Stop);
    }

    /// Whether it has ended by itself since the last look; what to tell of it.
    pub fn has_ended(&mut self) -> Option<String> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        let why = match joined(thread) {
            Ok(()) => "its thread has ended".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let told =
            format!("link {} handles no packets any more: {why}; its traffic passes unqueued", self.name);
        self.ended = Some(told.clone());
        Some(told)
    }

    /// Waits until it has ended.
    pub fn wait(&mut self, until: Instant) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        while !thread.is_finished() {
            ensure!(Instant::now() < until, "link {}: its thread does not stop", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
        joined(thread).with_context(|| format!("link {}", self.name))
    }

    /// How it is, if it says so until then.
    pub fn status(&self, settings: &Settings, until: Instant) -> Status {
        // One that hangs is not waited for by all that come after it.
        let patience = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
        let silent =
            || Err(format!("link {} does not answer: its traffic passes unqueued until it does", self.name));
        let said = match &self.ended {
            Some(why) => Err(why.clone()),
            None => self.publisher.ask_within(patience).map_or_else(silent, Ok),
        };
        let said =
            said.and_then(|text| serde_json::from_str(&text).map_err(|e| format!("link {}: {e}", self.name)));
        said.unwrap_or_else(|why| Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            name: Some(self.name.clone()),
            lan: settings.users(),
            wan: settings.wan.clone(),
            backend: settings.backend.to_string(),
            rules: self.bypass.kept_by(),
            notices: vec![why],
            ..Status::default()
        })
    }
}

fn joined(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| bail!("an invariant is broken (see above): this is a bug in narrows"))
}

/// What is said of one link among several.
fn of_link(name: &str, notice: Notice) -> Notice {
    let of = |text| format!("link {name}: {text}");
    match notice {
        Notice::Running(text) => Notice::Running(of(text)),
        Notice::Warning(text) => Notice::Warning(of(text)),
        Notice::Message(text) => Notice::Message(of(text)),
        Notice::Detail(text) => Notice::Detail(of(text)),
    }
}

type Started = (JoinHandle<anyhow::Result<()>>, Bypass, String);

fn start<C: Channel + Send + 'static>(
    way: Way<C>,
    part: Part,
    user: Option<Identity>,
) -> anyhow::Result<Started> {
    let Way { channel, bypass, words } = way;
    // As people see it in a list of threads: 15 bytes of a name.
    let name = part.name.chars().filter(char::is_ascii).take(15).collect();
    let thread = std::thread::Builder::new().name(name);
    let thread = thread.spawn(move || live(part, channel, user)).context("cannot start a thread")?;
    Ok((thread, bypass, words))
}

/// The thread of a link.
fn live<C: Channel>(mut part: Part, channel: C, user: Option<Identity>) -> anyhow::Result<()> {
    let prepared = prepare(&part.settings, user);
    let failed = prepared.is_err();
    let _ = part.reached.send(prepared);
    // Nobody lets it begin where another link could not be set up.
    let Some(watched) = part.begin.recv().ok().filter(|_| !failed) else { return Ok(()) };
    let mut live = Live::new(Prepared::new(&part.settings), channel, part.publisher, part.monitor, watched);
    let given = part.kept.as_mut().map_or(Ok(()), |kept| kept.give(&mut live));
    let _ = part.reached.send(given.and_then(|()| live.listen_for_rates()));
    let tell = &mut |notice| part.voice.say(of_link(&part.name, notice));
    let outcome = guarded(|| live.run(&mut part.orders, &[], tell).map(drop));
    let left = part.kept.map_or(Ok(()), |mut kept| kept.leave(&live));
    let closed = guarded(|| live.close());
    outcome.and(closed).and(left)
}

/// What a thread does before it handles packets, while it may.
fn prepare(settings: &Settings, user: Option<Identity>) -> anyhow::Result<()> {
    nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
    if settings.realtime {
        privilege::realtime()?;
    }
    // What is refused to it is refused to all, which is told once.
    privilege::keep_only_needed(user).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Options;

    fn with_thread(thread: JoinHandle<anyhow::Result<()>>) -> Link {
        let ((orders, _), (_, reached)) = (channel(), channel());
        Link {
            name: "north".into(),
            bypass: Bypass::bridge("a", "b", 1),
            way: String::new(),
            publisher: StatusPublisher::new().unwrap(),
            ended: None,
            orders,
            wake: Arc::new(EventFd::new().unwrap()),
            begin: None,
            reached,
            thread: Some(thread),
        }
    }

    #[test]
    fn a_thread_that_ends_is_told_of_once_and_shown_from_then_on() {
        let settings = Options::parse("lan = 'a'\nwan = 'b'\n").unwrap().settle().unwrap();
        let lost = std::thread::spawn(|| bail!("the way is lost"));
        let panics = std::thread::spawn(|| -> anyhow::Result<()> { panic!("for a test") });
        for (thread, why) in [(lost, "any more: the way is lost; its"), (panics, "an invariant is broken")] {
            while !thread.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let mut link = with_thread(thread);
            let told = link.has_ended().unwrap();
            assert!(told.starts_with("link north handles no packets") && told.contains(why), "{told}");
            assert_eq!(link.has_ended(), None);
            let status = link.status(&settings, Instant::now());
            assert_eq!((status.notices, status.lan.as_str()), (vec![told], "a"));
            assert!(link.wait(Instant::now()).is_ok(), "told already");
        }
    }

    #[test]
    fn one_that_hangs_is_not_waited_for() {
        let (go, gone) = channel::<()>();
        let mut link = with_thread(std::thread::spawn(move || {
            let _ = gone.recv();
            Ok(())
        }));
        let settings = Options::parse("lan = 'a'\nwan = 'b'\n").unwrap().settle().unwrap();
        let status = link.status(&settings, Instant::now());
        assert!(status.notices[0].contains("link north does not answer"), "{:?}", status.notices);
        assert_eq!(link.has_ended(), None);
        assert!(link.wait(Instant::now()).unwrap_err().to_string().contains("does not stop"));
        drop(go);
    }
}
