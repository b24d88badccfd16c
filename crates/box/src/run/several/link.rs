//! One link of several: its thread, and what is told to it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
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
use crate::handover::Estate;
use crate::looping::{Ended, Live, Order, Orders, Prepared};
use crate::privilege::{self, Identity};
use crate::run::{Kept, Notice, Place, Resume, Way, guarded};
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
    begin: Option<Sender<Begin>>,
    /// How far it has come: once when it has given up its privileges, once when it handles packets.
    reached: Receiver<anyhow::Result<()>>,
    /// Until it has been waited for.
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// How far a thread is to come.
enum Begin {
    /// It is watched by these; one that starts afresh handles packets.
    Watched(Watched),
    /// One that goes on with another's link has what that has left.
    With(Box<Estate>, Vec<OwnedFd>),
    /// That is its own now: it handles packets.
    Go,
}

/// A way for packets that is there, or comes from another process.
enum Opened<C> {
    Here(C),
    Later(Resume<C>),
}

/// What a thread has beside its channel.
struct Part {
    name: String,
    settings: Settings,
    kept: Option<Kept>,
    publisher: Arc<StatusPublisher>,
    /// Until it begins.
    monitor: Option<Monitor>,
    voice: Voice,
    orders: Told,
    begin: Receiver<Begin>,
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
    /// Opens a way for packets, which none takes yet, and starts a thread that waits for [`Link::begin`]; with `heir`
    /// the way of another process's link, which comes with [`Link::inherit`].
    pub fn open(
        place: &mut Place,
        heir: Option<&Bypass>,
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
            monitor: Some(Monitor::new()?),
            voice: speaker.voice(),
            orders: Told { orders: heard, wake: wake.clone() },
            begin: begun,
            reached,
        };
        let (thread, bypass, way) = match (place.settings.backend, heir) {
            (BackendKind::Nfqueue, None) => start(place.open_queues(&mut tell)?.into(), part, user),
            (BackendKind::Nfqueue, Some(bypass)) => start(later(place.queues_of(bypass)), part, user),
            (BackendKind::Packet, None) => start(place.open_pair()?.into(), part, user),
            (BackendKind::Packet, Some(bypass)) => start(later(place.pair_of(bypass)), part, user),
            (BackendKind::Xdp, _) => start(place.open_ports()?.into(), part, user),
        }?;
        let (thread, begin, ended) = (Some(thread), Some(begin), None);
        let link =
            Self { name, bypass, way, publisher, ended, orders, wake, begin, reached: is_reached, thread };
        link.has_reached()?;
        Ok(link)
    }

    /// Waits until the thread is as far as it is to come by itself.
    pub fn has_reached(&self) -> anyhow::Result<()> {
        self.reached.recv_timeout(BEGINNING).context("its thread does not begin")?
    }

    /// Lets it handle packets, if it starts afresh, watched as the link of this number.
    pub fn begin(&self, watchdog: &Arc<Watchdog>, number: u16) -> anyhow::Result<()> {
        self.tell(Begin::Watched(Watched::new(watchdog.clone(), number)))?;
        self.has_reached()
    }

    /// Gives it what another process has left of this link; [`Link::has_reached`] tells when that is done.
    pub fn inherit(&self, estate: Estate, fds: Vec<OwnedFd>) -> anyhow::Result<()> {
        self.tell(Begin::With(Box::new(estate), fds))
    }

    /// Lets it handle packets with that. One whose thread has died is found out as any other.
    pub fn go(&self) {
        let _ = self.tell(Begin::Go);
    }

    fn tell(&self, begin: Begin) -> anyhow::Result<()> {
        self.begin.as_ref().and_then(|to| to.send(begin).ok()).context("its thread has ended")
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

fn later<C>(way: Way<Resume<C>>) -> Way<Opened<C>> {
    Way { channel: Opened::Later(way.channel), bypass: way.bypass, words: way.words }
}

impl<C> From<Way<C>> for Way<Opened<C>> {
    fn from(way: Way<C>) -> Self {
        Self { channel: Opened::Here(way.channel), bypass: way.bypass, words: way.words }
    }
}

fn start<C: Channel + Send + 'static>(
    way: Way<Opened<C>>,
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
fn live<C: Channel>(mut part: Part, opened: Opened<C>, user: Option<Identity>) -> anyhow::Result<()> {
    let prepared = prepare(&part.settings, user);
    let failed = prepared.is_err();
    // Large tables are there before another process lets go.
    let tables = Prepared::new(&part.settings);
    let _ = part.reached.send(prepared);
    // Nobody lets it begin where another link could not be set up.
    let Some(Begin::Watched(watched)) = part.begin.recv().ok().filter(|_| !failed) else { return Ok(()) };
    let (publisher, monitor) = (part.publisher.clone(), part.monitor.take().context("no monitor")?);
    let mut live = match opened {
        Opened::Here(channel) => {
            let mut live = Live::new(tables, channel, publisher, monitor, watched);
            let given = part.kept.as_mut().map_or(Ok(()), |kept| kept.give(&mut live));
            let _ = part.reached.send(given.and_then(|()| live.listen_for_rates()));
            live
        }
        Opened::Later(open) => {
            let _ = part.reached.send(Ok(()));
            let Ok(Begin::With(estate, fds)) = part.begin.recv() else { return Ok(()) };
            let resumed = open(fds, &estate.numbers).and_then(|channel| {
                let mut live = Live::new(tables, channel, publisher, monitor, watched);
                live.resume(estate.state()).map(|()| live)
            });
            let (told, live) = resumed.map_or_else(|error| (Err(error), None), |live| (Ok(()), Some(live)));
            let _ = part.reached.send(told);
            let (Some(mut live), Ok(Begin::Go)) = (live, part.begin.recv()) else { return Ok(()) };
            if let Err(error) = live.listen_for_rates() {
                part.voice.say(of_link(&part.name, Notice::Warning(format!("{error:#}"))));
            }
            live
        }
    };
    let tell = &mut |notice| part.voice.say(of_link(&part.name, notice));
    let mut replaced = false;
    let outcome = guarded(|| {
        replaced = matches!(live.run(&mut part.orders, &[], tell)?, Ended::Replaced(_));
        Ok(())
    });
    if replaced {
        live.leave();
        return Ok(());
    }
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
