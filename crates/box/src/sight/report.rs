//! What sight says, as JSON: units in the names, lists of a bounded length.

use narrows_units::{Duration, Instant};
use narrows_users::User;
use narrows_wire::Proto;
use serde::{Deserialize, Serialize};

use super::Sight;
use super::book::{Cells, HOUR, LONG, QUARTER, Stall, UserBook};
use super::cause::{Cause, Lost, blame, plain};
use super::histogram::Histogram;
use super::sweep::State;

/// Users that are told of: those that stalled for longest.
const WORST: usize = 40;

/// Who stalls, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SightJson {
    /// The last quarter of an hour, in one line.
    pub words: String,
    /// Connections by what they do: `opening`, `moving`, `stalled`, `idle`.
    pub states: std::collections::BTreeMap<String, u32>,
    /// Users that had packets in the last quarter of an hour; those of them that waited for the network for more than
    /// five seconds at once; those of whom a connection stalls now.
    pub users_seen: usize,
    /// See `users_seen`.
    pub users_waited: usize,
    /// See `users_seen`.
    pub users_stalled: u32,
    /// By cause.
    pub causes: Vec<CauseJson>,
    /// By where packets were lost.
    pub lost: Vec<LostJson>,
    /// The users that stalled for longest in the last quarter of an hour.
    pub users: Vec<UserJson>,
    /// The longest stalls that go on.
    pub stalls_now: Vec<StallJson>,
    /// The last stalls that are over, latest first.
    pub stalls_last: Vec<StallJson>,
    /// Expiries of senders' timers, and recoveries begun by ACKs, that were seen.
    pub timeouts: u64,
    /// See `timeouts`.
    pub fast_retransmits: u64,
    /// New data acknowledged, of TCP, and all of what is not: down, up.
    pub goodput_bytes: [u64; 2],
    /// Lengths of stalls, seconds.
    pub stall_s: HistogramJson,
    /// Round trips from the box to the wide network and back, seconds.
    pub wan_round_trip_s: HistogramJson,
    /// Round trips from the box to the users and back, seconds.
    pub lan_round_trip_s: HistogramJson,
    /// New packets of a direction of a connection in one round trip.
    pub packets_per_round_trip: HistogramJson,
    /// Memory for each connection.
    pub bytes_per_flow: usize,
}

/// Stalls of one cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CauseJson {
    /// As `narrows diagnose` names it, or `held_at_admission`, `waits_in_queue`, `starved`.
    pub cause: String,
    /// The same for people.
    pub words: String,
    /// Whether it is the network that let somebody wait.
    pub network: bool,
    /// That go on.
    pub now: u32,
    /// That ended in the last quarter of an hour, and how long they took.
    pub quarter: u32,
    /// See `quarter`.
    pub quarter_s: f64,
    /// Since the start.
    pub total: u64,
    /// See `total`.
    pub total_s: f64,
}

/// Stalls by where packets were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LostJson {
    /// `before` the box, `here`, `behind` it, `both` or `unknown`, in the direction of the data.
    pub place: String,
    /// Time of stalls that ended in the last quarter of an hour.
    pub quarter_s: f64,
    /// The same since the start.
    pub total_s: f64,
}

/// One user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserJson {
    /// Its address, prefix or circuit.
    pub user: String,
    /// Connections that stall now.
    pub stalled_now: u32,
    /// Time of its stalls that ended in the last quarter of an hour, and the longest.
    pub quarter_s: f64,
    /// See `quarter_s`.
    pub longest_s: f64,
    /// The cause of most of that.
    pub cause: Option<String>,
    /// The longest stall of each of the last 60 minutes, oldest first, seconds.
    pub minutes_s: Vec<f64>,
}

/// One stall with its evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StallJson {
    /// Counts up; 0 while it goes on.
    pub number: u64,
    /// The user's end and the other, as `10.0.0.7:50000 192.0.2.1:443 tcp`.
    pub flow: String,
    /// Whose.
    pub user: String,
    /// Whose data stood still: `down` to the users, `up` from them.
    pub direction: String,
    /// When it began, seconds since the box was started.
    pub from_s: f64,
    /// How long it was, or has been.
    pub length_s: f64,
    /// See [`CauseJson`].
    pub cause: String,
    /// Where packets were lost.
    pub lost: String,
    /// `certain`, `likely`, `possible`.
    pub certainty: String,
    /// What tried to end it, as `narrows diagnose` names it.
    pub repair: Option<String>,
    /// Expiries of the timer, and the factor on it afterwards.
    pub timeouts: u8,
    /// See `timeouts`.
    pub backoff: u32,
    /// Segments under way when it began.
    pub outstanding: u8,
    /// The longest wait of its packets in the box, seconds.
    pub waited_here_s: f64,
    /// Whether progress ended it.
    pub ended: bool,
}

/// Counts by size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramJson {
    /// Upper bounds of all counts but the last.
    pub bounds: Vec<f64>,
    /// One more than there are bounds, not accumulated.
    pub counts: Vec<u64>,
    /// The sum of all sizes.
    pub sum: f64,
}

impl From<&Histogram> for HistogramJson {
    fn from(h: &Histogram) -> Self {
        let (counts, sum) = h.counts();
        Self { bounds: h.bounds().to_vec(), counts: counts.to_vec(), sum }
    }
}

impl Sight {
    /// All of it, at `now`. `circuit` names the users that have a name.
    #[must_use]
    pub fn report(&mut self, now: Instant, name: impl Fn(User) -> String) -> SightJson {
        self.book.tick(now);
        let quarter = self.book.cells(QUARTER);
        let (users_seen, users_waited) = self.book.users_of_quarter();
        let book = &self.book;
        let uptime = book.age(now);
        let last = book
            .last
            .iter()
            .rev()
            .map(|e| StallJson { number: e.number, ..stall(&e.stall, name(e.user), book.age(e.at)) });
        let going_on = self.sweep.now.stalls.iter().map(|s| stall(s, name(book.name(s.user)), uptime));
        SightJson {
            words: self.words(&quarter, users_seen, users_waited),
            states: State::NAMES.map(str::to_owned).into_iter().zip(self.sweep.now.states).collect(),
            users_seen,
            users_waited,
            users_stalled: self.sweep.now.users,
            causes: self.causes(&quarter),
            lost: self.lost(&quarter),
            users: self.worst(&name),
            stalls_now: going_on.collect(),
            stalls_last: last.collect(),
            timeouts: book.timeouts,
            fast_retransmits: book.fast_retransmits,
            goodput_bytes: book.goodput_bytes,
            stall_s: (&book.lengths).into(),
            wan_round_trip_s: (&book.round_trips[0]).into(),
            lan_round_trip_s: (&book.round_trips[1]).into(),
            packets_per_round_trip: (&book.packets).into(),
            bytes_per_flow: super::BYTES_PER_FLOW,
        }
    }

    /// "17 of 60 users waited more than 5 s in the last quarter of an hour; 92 % because of losses behind the box."
    fn words(&self, quarter: &Cells, seen: usize, waited: usize) -> String {
        let lately = "in the last quarter of an hour";
        let users = |n: usize| format!("{n} user{}", if n == 1 { "" } else { "s" });
        if seen == 0 {
            return format!("Nobody had traffic {lately}.");
        }
        if waited == 0 {
            return format!("None of {} waited more than 5 s {lately}.", users(seen));
        }
        let mut blamed: Vec<(&str, u64)> = Vec::new();
        for cause in Cause::all().filter(|c| c.is_of_the_network()) {
            let i = cause.index();
            for (place, (kept, now)) in quarter[i].iter().zip(self.sweep.now.long_ms[i]).enumerate() {
                let ms = kept.long_ms + now;
                let name = blame(cause, place);
                match blamed.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += ms,
                    None => blamed.push((name, ms)),
                }
            }
        }
        let all: u64 = blamed.iter().map(|(_, ms)| ms).sum();
        let most = blamed.into_iter().max_by_key(|(_, ms)| *ms).filter(|_| all > 0);
        let why = most.map_or(String::new(), |(name, ms)| {
            format!("; {:.0} % because of {name}", 100.0 * ms as f64 / all as f64)
        });
        format!("{waited} of {} waited more than {} s {lately}{why}.", users(seen), LONG.as_secs_f64())
    }

    fn causes(&self, quarter: &Cells) -> Vec<CauseJson> {
        let counted = Cause::all().filter(|c| *c != Cause::Told(narrows_diagnose::Cause::ClientIdle));
        let of = |cause: Cause| {
            let (lately, total) = (&quarter[cause.index()], &self.book.totals[cause.index()]);
            CauseJson {
                cause: cause.name(),
                words: cause.words().to_owned(),
                network: cause.is_of_the_network(),
                now: self.sweep.now.causes[cause.index()],
                quarter: lately.iter().map(|c| c.stalls).sum(),
                quarter_s: lately.iter().map(|c| c.ms).sum::<u64>() as f64 / 1e3,
                total: total.iter().map(|c| u64::from(c.stalls)).sum(),
                total_s: total.iter().map(|c| c.ms).sum::<u64>() as f64 / 1e3,
            }
        };
        counted.map(of).collect()
    }

    fn lost(&self, quarter: &Cells) -> Vec<LostJson> {
        let sum = |cells: &Cells, place: usize| {
            let losses = Cause::all().filter(|c| c.is_loss());
            losses.map(|c| cells[c.index()][place].ms).sum::<u64>() as f64 / 1e3
        };
        let of = |(place, name): (usize, &&str)| LostJson {
            place: (*name).to_owned(),
            quarter_s: sum(quarter, place),
            total_s: sum(&self.book.totals, place),
        };
        Lost::NAMES.iter().enumerate().map(of).collect()
    }

    fn worst(&self, name: &impl Fn(User) -> String) -> Vec<UserJson> {
        let stalled =
            |u: &UserBook| -> u32 { self.book.minutes_of(u, QUARTER).map(|m| u32::from(m.stalled_ds)).sum() };
        let mut all: Vec<(u32, &UserBook)> = self
            .book
            .users
            .iter()
            .map(|u| (stalled(u), u))
            .filter(|(ds, u)| *ds > 0 || u.stalled > 0 || u.waited_long.is_some())
            .collect();
        all.sort_by_key(|(ds, u)| (std::cmp::Reverse(*ds), u.user.bits()));
        all.truncate(WORST);
        all.into_iter().map(|(ds, u)| self.user(ds, u, name(u.user))).collect()
    }

    fn user(&self, stalled_ds: u32, user: &UserBook, name: String) -> UserJson {
        let minutes: Vec<_> = self.book.minutes_of(user, QUARTER).collect();
        let hour = self.book.minutes_of(user, HOUR);
        let cause = Cause::all()
            .filter(|c| c.is_of_the_network())
            .map(|c| (user.causes.iter().map(|m| u32::from(m[c.index()])).sum::<u32>(), c))
            .max_by_key(|(ds, _)| *ds)
            .filter(|(ds, _)| *ds > 0);
        UserJson {
            user: name,
            stalled_now: user.stalled,
            quarter_s: f64::from(stalled_ds) / 10.0,
            longest_s: f64::from(minutes.iter().map(|m| m.longest_ds).max().unwrap_or(0)) / 10.0,
            cause: cause.map(|(_, c)| c.name()),
            minutes_s: hour.map(|m| f64::from(m.longest_ds) / 10.0).collect(),
        }
    }
}

/// A stall that ended, or was looked at, so long after the start.
fn stall(s: &Stall, user: String, at: Duration) -> StallJson {
    let protocol = match s.key.proto {
        Proto::TCP => "tcp".to_owned(),
        Proto::UDP => "udp".to_owned(),
        Proto(number) => number.to_string(),
    };
    let end = |address: std::net::IpAddr, port: u16| std::net::SocketAddr::new(address, port);
    let (here, there) = (end(s.key.dst(), s.key.dport), end(s.key.src(), s.key.sport));
    StallJson {
        number: 0,
        flow: format!("{here} {there} {protocol}"),
        user,
        direction: ["down", "up"][s.by].to_owned(),
        from_s: at.saturating_sub(s.length).as_secs_f64(),
        length_s: s.length.as_secs_f64(),
        cause: s.cause.name(),
        lost: s.lost.name().to_owned(),
        certainty: plain(&s.certainty),
        repair: s.repair.map(|r| plain(&r)),
        timeouts: s.timeouts,
        backoff: 1 << s.backoff.min(15),
        outstanding: s.outstanding,
        waited_here_s: f64::from(s.wait_ms) / 1e3,
        ended: s.ended,
    }
}
