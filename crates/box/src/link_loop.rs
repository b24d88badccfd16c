//! The loop of a link: a clock, descriptors to wait on, and one engine step after the other.

mod account;
mod handover;
mod orders;
mod progress;
mod room;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use anyhow::Context;
use narrows_qdisc::Direction;
use narrows_units::{Duration, Instant, Rate};
use narrows_users::Change;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::channel::Channel;
use super::circuits_from::CircuitNews;
use super::clock::now;
use super::control::StatusPublisher;
use super::decisions::DecisionWriter;
use super::engine::{Engine, Step};
use super::log::Notice;
use super::packet::HeldPacket;
use super::rate_from::{RateNews, Rates};
use super::settings::Settings;
use super::sight::Sight;
use super::status::{DirectionStatus, Status, name_circuits};
use super::users::{Sorted, UserMap};
use super::users_side;
use super::watchdog::{BEAT, WatchdogMessage, Watched};
use narrows_netio::links::Monitor;

pub use orders::{Order, Orders};

/// Steps in a row in which a discipline asks to be called at once and does nothing, before we breathe. No discipline
/// should; but under SCHED_FIFO a busy loop would take the machine.
const IDLE_STEPS: u32 = 64;
const BACKOFF: StdDuration = StdDuration::from_micros(200);
/// Longest wait: nothing is awaited but the watchdog's next sign of life.
const LONG: StdDuration = StdDuration::from_nanos(BEAT.as_nanos());
/// A gap between two steps that the watchdog may have taken for death.
const LATE: Duration = Duration::from_millis(500);
/// Time that a box that was late waits for the watchdog's word.
const GIVE_UP: Duration = Duration::from_secs(2);

/// End of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The loop was told to stop.
    Stopped,
    /// Another process has taken over.
    Replaced,
}

/// Part of a link that can exist before its packets come: large tables, made while another process still handles
/// them.
pub struct Prepared {
    settings: Settings,
    engine: Engine<HeldPacket>,
    users: UserMap,
    sight: Sight,
}

impl Prepared {
    /// Prepares a link with these settings and without any flows.
    pub fn new(settings: &Settings) -> Self {
        let (settings, mut users) = (settings.clone(), UserMap::default());
        users.know(Arc::new(users_side::find(&settings)), Arc::default());
        let sight = Sight::new(now(), settings.lanes[0].seed);
        let mut prepared = Self { engine: Engine::new(&settings.lanes), users, sight, settings };
        prepared.load_circuits();
        prepared
    }

    /// Reads users and their rates as the settings say.
    fn load_circuits(&mut self) {
        self.users.load_from(&self.settings);
        self.users.say(self.settings.user_prefixes());
        self.engine.set_circuit_rates(&Direction::BOTH.map(|d| self.users.rates(d)));
    }
}

/// A link of a box in operation.
pub struct Live<C> {
    settings: Settings,
    engine: Engine<HeldPacket>,
    users: UserMap,
    sight: Sight,
    channel: C,
    publisher: Arc<StatusPublisher>,
    monitor: Monitor,
    started: Instant,
    /// Names of the interfaces that are missing now, as text.
    missing: Vec<String>,
    idle: u32,
    watched: Watched,
    /// Time at which the last step began.
    stepped: Instant,
    /// Since when what comes in is discarded: until the watchdog says that it has not passed by.
    late: Option<Instant>,
    /// Times that traffic has passed by because the box did not answer.
    bypassed: u64,
    /// Source of the link's rates; `told` holds the source's latest rates, down and up.
    rates: Option<Rates>,
    told: [Option<Rate>; 2],
    /// Clients that tell circuits.
    circuit_news: Option<CircuitNews>,
    /// Room for packets in the kernel's queues.
    room: room::Room,
    /// Packets that passed by a full queue, down and up.
    accounts: [account::Account; 2],
    /// Progress of the packets that wait, down and up.
    progress: [progress::Progress; 2],
    /// Whether people were told that waiting packets do not leave.
    stuck: bool,
    /// Packets whose way was gone, as far as the watchdog was told to look.
    gone: u64,
    /// Writer of decisions, where the settings name a file.
    decisions: Option<DecisionWriter>,
}

impl<C: Channel> Live<C> {
    /// A box about to start.
    pub fn new(
        prepared: Prepared,
        channel: C,
        publisher: Arc<StatusPublisher>,
        monitor: Monitor,
        watched: Watched,
    ) -> Self {
        let Prepared { settings, engine, users, sight } = prepared;
        Self {
            engine,
            users,
            sight,
            settings,
            channel,
            publisher,
            monitor,
            started: now(),
            missing: Vec::new(),
            idle: 0,
            watched,
            stepped: now(),
            late: None,
            bypassed: 0,
            rates: None,
            told: [None; 2],
            circuit_news: None,
            room: room::Room::default(),
            accounts: [account::Account::default(); 2],
            progress: [progress::Progress::default(); 2],
            stuck: false,
            gone: 0,
            decisions: None,
        }
    }

    /// Has decisions written from now on.
    pub fn write_decisions(&mut self, writer: Option<DecisionWriter>) {
        self.decisions = writer;
    }

    /// Reads users and their rates as the settings say.
    fn load_circuits(&mut self) {
        self.users.load_from(&self.settings);
        self.users.say(self.settings.user_prefixes());
        self.tell_circuit_rates();
    }

    fn tell_circuit_rates(&mut self) {
        self.engine.set_circuit_rates(&Direction::BOTH.map(|d| self.users.rates(d)));
    }

    /// Runs until it is told to stop, or until another process has taken over.
    pub fn run(&mut self, orders: &Orders, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<Ended> {
        loop {
            let at = now();
            self.show_life(at, tell);
            self.keep_room(at, tell);
            let step = if self.late.is_some() { Step::default() } else { self.step(at)? };
            if self.publisher.is_wanted() {
                Arc::clone(&self.publisher).publish(|| self.status(at));
            }
            self.hear_rates(tell)?;
            self.hear_circuits(tell);
            if self.monitor.changed() {
                self.check_links(tell);
            }
            while let Some(order) = orders.next() {
                match order {
                    Order::Stop => return Ok(Ended::Stopped),
                    // The asker may have timed out: a failed send is no error.
                    Order::Prepare { http_503, answer } => {
                        drop(answer.send(self.channel.answer_http(http_503)))
                    }
                    Order::Adopt(settings) => self.adopt(&settings)?,
                    Order::Know { hosts, names } => self.users.know(hosts, names),
                    Order::HandOver { answer, taken } => {
                        if self.hand_over(&answer, &taken, tell)? {
                            return Ok(Ended::Replaced);
                        }
                    }
                }
            }
            if step.more {
                continue;
            }
            let due = step.next.map_or(LONG, |t| StdDuration::from_nanos(t.since(now()).as_nanos()));
            self.idle = if step.active || !due.is_zero() { 0 } else { self.idle + 1 };
            let breathe = self.idle > IDLE_STEPS || self.late.is_some();
            self.wait(if breathe { BACKOFF } else { due.min(LONG) }, orders.fd())?;
        }
    }

    fn step(&mut self, at: Instant) -> anyhow::Result<Step> {
        self.sight.tick(at);
        let mut backend =
            Sorted { backend: &mut self.channel, users: &mut self.users, sight: &mut self.sight };
        let step = self.engine.step(at, &mut backend).context("the way to the kernel's packets is lost")?;
        for d in Direction::BOTH.map(|d| d as usize) {
            self.progress[d].step(at, step.waits[d], step.left[d]);
        }
        if let Some(writer) = &self.decisions {
            for direction in Direction::BOTH {
                while let Some(decision) = self.engine.next_decision(direction) {
                    writer.write(direction, decision);
                }
            }
        }
        Ok(step)
    }

    /// Tells whether packets wait in a direction and none leaves; people are told once.
    fn is_stuck(&mut self, at: Instant, tell: &mut dyn FnMut(Notice)) -> bool {
        let stuck = Direction::BOTH.into_iter().find(|d| {
            let packet = || {
                let lanes = self.settings.lanes_as_told(&self.told);
                let Some(link) = lanes[*d as usize].link else { return Duration::ZERO };
                let rate = self.engine.followed(at, *d).unwrap_or(link.rate);
                progress::lowest(rate, &self.users.rates(*d)).time_to_send(link.largest())
            };
            self.progress[*d as usize].is_stuck(at, packet)
        });
        if let Some(direction) = stuck
            && !self.stuck
        {
            tell(Notice::Warning(format!(
                "packets wait to go {} and none leaves: traffic passes by the box",
                direction.name()
            )));
        }
        self.stuck = stuck.is_some();
        self.stuck
    }

    /// Tells the watchdog and the service manager that the loop lives, and reads the watchdog's messages.
    fn show_life(&mut self, at: Instant, tell: &mut dyn FnMut(Notice)) {
        let gap = at.since(self.stepped);
        self.stepped = at;
        // To the watchdog, and to the service manager, who sends nothing is silent.
        let mut lives = Ok(());
        if !self.is_stuck(at, tell) {
            self.publisher.show_life(at);
            let gone = self.channel.gone();
            lives = if gone == self.gone { self.watched.beat(at) } else { self.watched.look(at) };
            self.gone = gone;
        }
        if gap >= LATE && self.channel.discard_late() {
            self.late = Some(at);
            lives = self.watched.late();
        }
        for heard in self.watched.heard() {
            match heard {
                WatchdogMessage::Ready => self.late = None,
                WatchdogMessage::LetGo => {}
                WatchdogMessage::Passed(time) => {
                    self.bypassed += 1;
                    tell(Notice::Warning(format!(
                        "the box did not answer: traffic passed by it for {:.1} s",
                        time.as_secs_f64()
                    )));
                }
                WatchdogMessage::Restored => tell(Notice::Warning(
                    "its rules were gone from the packet filter, or others stood behind them: put back"
                        .to_owned(),
                )),
                WatchdogMessage::Message(text) => tell(Notice::Warning(text)),
            }
        }
        self.late = self.late.filter(|since| at.since(*since) < GIVE_UP);
        if self.late.is_some() {
            self.channel.discard_late();
        }
        if let Err(error) = lives {
            self.late = None;
            let again = if self.watched.restart() { "; another one is" } else { "" };
            tell(Notice::Warning(format!("the watchdog is gone ({error}){again}")));
        }
    }

    /// Leaves sockets and files of this link to the process that has taken this process's place.
    pub fn leave(mut self) {
        self.rates.take().into_iter().for_each(Rates::leave);
        self.circuit_news.take().into_iter().for_each(CircuitNews::leave);
    }

    /// Lets everything held go and closes the back end. The rules must be gone.
    pub fn close(&mut self) -> anyhow::Result<()> {
        self.engine.release_all(now(), &mut self.channel).context("held packets could not be let go")?;
        self.channel.close().context("the back end could not be closed")
    }

    fn wait(&self, at_most: StdDuration, orders: BorrowedFd<'_>) -> anyhow::Result<()> {
        let [down, up] = self.channel.fds();
        let mut fds = [down, up, self.publisher.fd(), self.monitor.fd(), orders]
            .map(|f| PollFd::new(f, PollFlags::POLLIN));
        match ppoll(&mut fds, Some(TimeSpec::from_duration(at_most)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e).context("ppoll"),
        }
    }

    fn check_links(&mut self, tell: &mut dyn FnMut(Notice)) {
        // A name with an open ending need not match any interface.
        let lan = self.settings.lan.iter().filter(|name| !name.ends_with('*'));
        let names = lan.chain([&self.settings.wan]);
        // Asked without the lock that changes of any interface hold (RTNL): packets do not wait for those.
        let is_missing = |name: &&String| nix::net::if_::if_nametoindex(name.as_str()).is_err();
        let missing: Vec<String> = names.filter(is_missing).cloned().collect();
        for name in &missing {
            if !self.missing.contains(name) {
                tell(Notice::Warning(format!("interface {name} is gone; waiting for it to come back")));
            }
        }
        for name in &self.missing {
            if !missing.contains(name) {
                tell(Notice::Message(format!("interface {name} is back")));
            }
        }
        self.missing = missing;
        self.channel.links_changed();
    }

    /// Adopts the part of new settings that can change while packets flow.
    fn adopt(&mut self, new: &Settings) -> anyhow::Result<()> {
        self.settings.adopt(new);
        self.reconfigure()?;
        self.load_circuits();
        Ok(())
    }

    /// Takes lines that were told to another box.
    pub fn take_told(&mut self, lines: &[String]) {
        for line in lines {
            if let Ok(Some(change)) = Change::parse(line) {
                let _ = self.users.tell(&change);
            }
        }
        self.tell_circuit_rates();
    }

    /// Takes what was told of circuits since, and answers.
    fn hear_circuits(&mut self, tell: &mut dyn FnMut(Notice)) {
        let Some(news) = &self.circuit_news else { return };
        let heard: Vec<_> = news.heard().collect();
        if heard.is_empty() {
            return;
        }
        let outcomes: Vec<_> = heard.iter().map(|request| self.users.tell(&request.change)).collect();
        // A client may rely on an answer: rates hold before it is given.
        self.tell_circuit_rates();
        for (request, outcome) in heard.iter().zip(outcomes) {
            if let Ok(words) = &outcome {
                tell(Notice::Detail(format!("circuits_from: {words}")));
            }
            request.answer(outcome);
        }
    }

    /// Listens for rates and circuits that other programs tell, if the settings name any.
    ///
    /// # Errors
    /// If a socket cannot be made.
    pub fn listen_for_news(&mut self) -> anyhow::Result<()> {
        let from = self.settings.circuits_from.as_ref();
        let listen = |from| CircuitNews::listen(from, self.publisher.clone());
        self.circuit_news = from.map(listen).transpose()?;
        let from = self.settings.rate_from.as_ref();
        self.rates = from.map(|from| Rates::listen(from, self.publisher.clone())).transpose()?;
        Ok(())
    }

    /// Does as was told since.
    pub(super) fn hear_rates(&mut self, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let mut changed = false;
        for heard in rates.heard() {
            match heard {
                RateNews::Warning(text) => tell(Notice::Warning(text)),
                RateNews::Rate(direction, rate) => {
                    changed |= self.told[direction as usize].replace(rate) != Some(rate);
                    tell(Notice::Detail(self.told_in_words(direction, rate)));
                }
            }
        }
        if changed { self.reconfigure() } else { Ok(()) }
    }

    fn told_in_words(&self, direction: Direction, rate: Rate) -> String {
        let unused = self.settings.lanes[direction as usize].link.is_none();
        let rest = if unused { ", which is not shaped: it has no rate in the settings" } else { "" };
        format!("rate_from: {rate} {}{rest}", direction.name())
    }

    /// Changes rates and disciplines to what settings and those who tell rates say.
    pub(super) fn reconfigure(&mut self) -> anyhow::Result<()> {
        let lanes = self.settings.lanes_as_told(&self.told);
        self.room.renew();
        let mut backend =
            Sorted { backend: &mut self.channel, users: &mut self.users, sight: &mut self.sight };
        Ok(self.engine.reconfigure(now(), &lanes, &mut backend)?)
    }

    fn status(&mut self, at: Instant) -> Status {
        let errors = self.channel.error_counters();
        let passages = self.passages();
        let settings = &self.settings;
        let lanes = settings.lanes_as_told(&self.told);
        let mut direction = |d: Direction| {
            let link = lanes[d as usize].link;
            let report = self.engine.report(at, d);
            let followed = report.follows.as_ref().and_then(|f| f.found_bps);
            DirectionStatus {
                rate_bps: followed.or_else(|| link.map(|l| l.rate.as_bps())),
                told_bps: self.told[d as usize].map(Rate::as_bps),
                overhead: link.map_or(0, |l| l.overhead),
                discipline: settings.texts[d as usize].clone(),
                offered: passages[d as usize].offered,
                unqueued: passages[d as usize].unqueued,
                lost: passages[d as usize].lost,
                gone: passages[d as usize].gone,
                report,
            }
        };
        let (mut down, mut up) = (direction(Direction::Down), direction(Direction::Up));
        for admission in [&mut down, &mut up].into_iter().filter_map(|d| d.report.admission.as_mut()) {
            name_circuits(admission, |id| self.users.name(id).map(str::to_owned));
        }
        let missing = self.missing.iter().map(|name| format!("interface {name} is missing"));
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: at.since(self.started).as_secs_f64(),
            name: settings.name.clone(),
            lan: settings.users(),
            wan: settings.wan.clone(),
            backend: settings.backend.to_string(),
            rules: self.watched.bypass().kept_by(),
            observe: settings.observe,
            down,
            up,
            malformed: errors.malformed,
            unseen: passages.iter().map(|passage| passage.unqueued).sum(),
            lost: errors.lost,
            gone: errors.gone,
            answered_503: errors.answered,
            bypassed: self.bypassed,
            sight: self.sight.report(at, |user| self.users.named(user)),
            notices: missing.collect(),
            links: Vec::new(),
        }
    }
}
