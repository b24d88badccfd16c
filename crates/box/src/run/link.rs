//! Link of a running box: its thread, and the orders to it.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use narrows_netio::links::Monitor;
use narrows_users::UserHosts;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::link_setup::{LinkSetup, Resume, Way};
use crate::bypass::Bypass;
use crate::channel::Channel;
use crate::clock;
use crate::control::StatusPublisher;
use crate::decisions::{DecisionLog, DecisionWriter};
use crate::handover::{FlowsFile, LinkState};
use crate::host_names::{HostNames, LeasesFile};
use crate::lane::LaneState;
use crate::link_loop::{Ended, Live, Order, Orders, Prepared};
use crate::log::{Log, Notice, Voice};
use crate::privilege::{self, Identity};
use crate::settings::{BackendKind, Settings};
use crate::status::Status;
use crate::users_side;
use crate::watchdog::{Watchdog, Watched};

/// Time that a thread has to begin.
const BEGINNING: Duration = Duration::from_secs(30);

/// Running link: its thread, and the means to give the thread orders.
pub struct Link {
    /// Name; none for the only link of a file without a `[[link]]` table.
    pub name: Option<String>,
    /// Way of traffic that passes by the link.
    pub bypass: Bypass,
    /// Way on which packets reach the link, in words.
    pub way: String,
    pub publisher: Arc<StatusPublisher>,
    /// Reason why the link handles packets no longer, if so.
    pub ended: Option<String>,
    /// Hosts and names that the link was told last.
    hosts: Option<(Arc<UserHosts>, Arc<HostNames>)>,
    leases: LeasesFile,
    orders: Sender<Order>,
    wake: Arc<EventFd>,
    /// Messages that let the thread begin.
    begin: Option<Sender<Begin>>,
    /// Progress of the thread: told once when it has given up its privileges, once when it handles packets.
    reached: Receiver<anyhow::Result<()>>,
    /// Whether the thread holds no packet any more; it may still close its sockets.
    let_go: Arc<AtomicBool>,
    /// Handle of the thread; `None` after the thread was joined.
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// Messages that let a thread go on.
enum Begin {
    /// Watchdog of the link: a link that starts afresh handles packets from here on.
    Watched(Watched),
    /// State and descriptors that another process has left, for a link that goes on with them.
    With(Box<LinkState>, Vec<OwnedFd>),
    /// Ownership is confirmed: the link handles packets from here on.
    Go,
}

/// A way for packets that is there, or comes from another process.
enum Opened<C> {
    Here(C),
    Later(Resume<C>),
}

/// Parts that a link's thread gets beside the channel.
struct Part {
    settings: Settings,
    flows: Option<FlowsFile>,
    publisher: Arc<StatusPublisher>,
    /// Monitor of the links, until the thread begins.
    monitor: Option<Monitor>,
    voice: LinkVoice,
    decisions: Option<DecisionWriter>,
    orders: Orders,
    begin: Receiver<Begin>,
    reached: Sender<anyhow::Result<()>>,
    let_go: Arc<AtomicBool>,
}

/// Voice that puts the link's name into notices.
struct LinkVoice {
    name: Option<String>,
    voice: Voice,
}

impl LinkVoice {
    fn say(&self, notice: Notice) {
        let of = |text| match &self.name {
            Some(name) => format!("link {name}: {text}"),
            None => text,
        };
        self.voice.say(match notice {
            Notice::Running(text) => Notice::Running(of(text)),
            Notice::Warning(text) => Notice::Warning(of(text)),
            Notice::Message(text) => Notice::Message(of(text)),
            Notice::Detail(text) => Notice::Detail(of(text)),
        });
    }
}

impl Link {
    /// Opens a way for packets, which none takes yet, and starts a thread that waits for [`Link::begin`]; with `taken`
    /// the way of another process's link, which comes with [`Link::inherit`].
    pub fn open(
        setup: &mut LinkSetup,
        taken: Option<&Bypass>,
        replace: bool,
        user: Option<Identity>,
        log: &Log,
        decisions: Option<&DecisionLog>,
    ) -> anyhow::Result<Self> {
        let name = setup.settings.name.clone();
        let voice = || LinkVoice { name: name.clone(), voice: log.voice() };
        let mut tell = |notice| voice().say(notice);
        let publisher = StatusPublisher::new()?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = Arc::new(EventFd::from_value_and_flags(0, flags).context("eventfd")?);
        let ((orders, heard), (begin, begun), (reached, is_reached)) = (channel(), channel(), channel());
        let let_go = Arc::new(AtomicBool::new(false));
        let part = Part {
            settings: setup.settings.clone(),
            flows: setup.flows_file(replace)?,
            publisher: publisher.clone(),
            monitor: Some(Monitor::new()?),
            voice: voice(),
            decisions: decisions.map(|log| log.writer(name.as_deref())),
            orders: Orders::new(heard, wake.clone()),
            begin: begun,
            reached,
            let_go: let_go.clone(),
        };
        let (thread, bypass, way) = match (setup.settings.backend, taken) {
            (BackendKind::Nfqueue, None) => start(setup.open_queues(&mut tell)?.into(), part, user),
            (BackendKind::Nfqueue, Some(bypass)) => start(later(setup.queues_of(bypass)), part, user),
            (BackendKind::Packet, None) => start(setup.open_pair()?.into(), part, user),
            (BackendKind::Packet, Some(bypass)) => start(later(setup.pair_of(bypass)), part, user),
            (BackendKind::Xdp, _) => start(setup.open_ports()?.into(), part, user),
        }?;
        let (thread, begin, ended) = (Some(thread), Some(begin), None);
        let (hosts, leases) = (None, LeasesFile::default());
        let link = Self {
            name,
            bypass,
            way,
            publisher,
            ended,
            hosts,
            leases,
            orders,
            wake,
            begin,
            reached: is_reached,
            let_go,
            thread,
        };
        link.has_reached()?;
        Ok(link)
    }

    /// Puts the link's name and `between` before `text`; leaves `text` alone where the link has no name.
    pub fn label(&self, text: &str, between: &str) -> String {
        self.name.as_ref().map_or_else(|| text.to_owned(), |name| format!("{name}{between}{text}"))
    }

    /// Name of the link for messages; "of this box" where the link has no name.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or("of this box")
    }

    /// Whether the link's loop has shown life within a second.
    pub fn lives(&self) -> bool {
        self.ended.is_none() && self.publisher.is_alive()
    }

    /// Waits until the link's thread has prepared and needs an order to go on.
    pub fn has_reached(&self) -> anyhow::Result<()> {
        self.reached.recv_timeout(BEGINNING).context("its thread does not begin")?
    }

    /// Lets it handle packets, if it starts afresh, watched as the link of this number.
    pub fn begin(&self, watchdog: &Arc<Watchdog>, number: u16) -> anyhow::Result<()> {
        self.tell(Begin::Watched(Watched::new(watchdog.clone(), number)))?;
        self.has_reached()
    }

    /// Gives it what another process has left of this link; [`Link::has_reached`] tells when that is done.
    pub fn inherit(&self, state: LinkState, fds: Vec<OwnedFd>) -> anyhow::Result<()> {
        self.tell(Begin::With(Box::new(state), fds))
    }

    /// Lets it handle packets with that. One whose thread has died is found out as any other.
    pub fn go(&self) {
        let _ = self.tell(Begin::Go);
    }

    fn tell(&self, begin: Begin) -> anyhow::Result<()> {
        self.begin.as_ref().and_then(|to| to.send(begin).ok()).context("its thread has ended")
    }

    /// Sends an order to the link's loop and wakes the loop.
    pub fn order(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            let _ = self.wake.write(1);
        }
    }

    /// Tells it of the users' side and of names there, if those are others than before.
    pub fn know(&mut self, settings: &Settings) {
        if self.ended.is_some() {
            return;
        }
        let (hosts, neighbours) = users_side::look(settings);
        let names = HostNames::new(self.leases.look(settings.leases.as_deref()), &neighbours);
        let known = (Arc::new(hosts), Arc::new(names));
        if self.hosts.replace(known.clone()).is_none_or(|before| before != known) {
            let (hosts, names) = known;
            self.order(Order::Know { hosts, names });
        }
    }

    /// Tells the link's thread to end, whether the thread has begun or not.
    pub fn stop(&mut self) {
        self.begin = None;
        self.order(Order::Stop);
    }

    /// Reason why the link's thread ended by itself since the last call; `None` if the thread runs.
    pub fn has_ended(&mut self) -> Option<anyhow::Error> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        let why = joined(thread).err().unwrap_or_else(|| anyhow::anyhow!("its thread has ended"));
        let called = self.called();
        self.ended =
            Some(format!("link {called} handles no packets any more: {why:#}; its traffic passes unqueued"));
        Some(why)
    }

    /// Waits until the thread has ended: up to `until` for its packets to be let go, and from then on without a bound.
    /// The kernel closes packet sockets only after locks that all network namespaces share, and after all processors.
    pub fn wait(&mut self, until: Instant) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        while !thread.is_finished() && !self.let_go.load(Ordering::Acquire) {
            ensure!(Instant::now() < until, "link {}: its thread does not stop", self.called());
            std::thread::sleep(Duration::from_millis(1));
        }
        of_link(self.name.as_deref(), joined(thread))
    }

    /// Status of the link by itself, if it answers before the time is up.
    ///
    /// # Errors
    /// The reason why the link does not answer, as a sentence.
    pub fn answer(&self, until: Instant) -> Result<Status, String> {
        if let Some(why) = &self.ended {
            return Err(why.clone());
        }
        // A thread that hangs has used up the time: the ones after it still get a moment each.
        let patience = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
        let called = self.called();
        let text = self.publisher.ask_within(patience).ok_or_else(|| {
            format!("link {called} does not answer: its traffic passes unqueued until it does")
        })?;
        serde_json::from_str(&text).map_err(|e| format!("link {called}: {e}"))
    }

    /// Status of the link, or one that says why there is none.
    pub fn status(&self, settings: &Settings, until: Instant) -> Status {
        self.answer(until).unwrap_or_else(|why| Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            name: self.name.clone(),
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

/// Adds the link's name to an error, if the link has a name.
pub fn of_link<T>(name: Option<&str>, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
    match name {
        Some(name) => outcome.with_context(|| format!("link {name}")),
        None => outcome,
    }
}

/// Runs `f`; a panic becomes an error.
fn guarded(f: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        Err(anyhow::anyhow!("an invariant is broken (see above): this is a bug in narrows"))
    })
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
    let name = part.settings.name.as_deref().unwrap_or("link");
    let name = name.chars().filter(char::is_ascii).take(15).collect();
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
            let left = part.flows.as_mut().and_then(FlowsFile::take);
            let given = left.map_or(Ok(()), |left| live.resume(left.map(LaneState::of_knowledge)));
            let _ = part.reached.send(given.and_then(|()| live.listen_for_news()));
            live
        }
        Opened::Later(open) => {
            let _ = part.reached.send(Ok(()));
            let Ok(Begin::With(state, fds)) = part.begin.recv() else { return Ok(()) };
            let resumed = open(fds, &state.numbers).and_then(|channel| {
                let mut live = Live::new(tables, channel, publisher, monitor, watched);
                live.take_told(&state.told);
                live.resume(state.state()).map(|()| live)
            });
            let (told, live) = resumed.map_or_else(|error| (Err(error), None), |live| (Ok(()), Some(live)));
            let _ = part.reached.send(told);
            let (Some(mut live), Ok(Begin::Go)) = (live, part.begin.recv()) else { return Ok(()) };
            if let Err(error) = live.listen_for_news() {
                part.voice.say(Notice::Warning(format!("{error:#}")));
            }
            live
        }
    };
    live.write_decisions(part.decisions.take());
    let tell = &mut |notice| part.voice.say(notice);
    let mut replaced = false;
    let outcome = guarded(|| {
        replaced = live.run(&part.orders, tell)? == Ended::Replaced;
        Ok(())
    });
    if replaced {
        live.leave();
        return Ok(());
    }
    let leave = |mut file: FlowsFile| file.leave(clock::now(), live.knowledge());
    let left = part.flows.map_or(Ok(()), leave);
    let closed = guarded(|| live.close());
    part.let_go.store(true, Ordering::Release);
    outcome.and(closed).and(left)
}

/// Sets up a link's thread and drops its privileges before any packet is handled.
fn prepare(settings: &Settings, user: Option<Identity>) -> anyhow::Result<()> {
    nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
    if settings.realtime {
        privilege::realtime()?;
    }
    // All threads are refused the same privileges: the main thread has reported it.
    privilege::keep_only_needed(user).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Options;

    fn with_thread(thread: JoinHandle<anyhow::Result<()>>) -> Link {
        let ((orders, _), (_, reached)) = (channel(), channel());
        Link {
            name: Some("north".into()),
            bypass: Bypass::bridge("a", "b", 1),
            way: String::new(),
            publisher: StatusPublisher::new().unwrap(),
            ended: None,
            hosts: None,
            leases: LeasesFile::default(),
            orders,
            wake: Arc::new(EventFd::new().unwrap()),
            begin: None,
            reached,
            let_go: Arc::new(AtomicBool::new(false)),
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
            assert!(link.has_ended().is_some() && link.has_ended().is_none());
            let told = link.ended.clone().unwrap();
            assert!(told.starts_with("link north handles no packets") && told.contains(why), "{told}");
            let status = link.status(&settings, Instant::now());
            assert_eq!((status.notices, status.lan.as_str()), (vec![told], "a"));
            assert!(link.wait(Instant::now()).is_ok(), "told already");
        }
    }

    /// Its sockets take longer than a stop may.
    #[test]
    fn one_that_has_let_go_of_its_packets_is_waited_for() {
        let (go, gone) = channel::<()>();
        let mut link = with_thread(std::thread::spawn(move || {
            let _ = gone.recv();
            Ok(())
        }));
        link.let_go.store(true, Ordering::Release);
        let waiting = std::thread::spawn(move || link.wait(Instant::now()));
        // Long enough to give up.
        std::thread::sleep(Duration::from_millis(50));
        drop(go);
        waiting.join().unwrap().unwrap();
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
        assert!(link.has_ended().is_none());
        assert!(link.wait(Instant::now()).unwrap_err().to_string().contains("does not stop"));
        drop(go);
    }
}
