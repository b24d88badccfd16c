//! Report of sight as JSON: units in the names, lists of a bounded length.

use std::cmp::Reverse;

use narrows_units::{Duration, Instant};
use narrows_users::User;
use narrows_wire::Proto;
use serde::{Deserialize, Serialize};

use super::Sight;
use super::book::{Cells, HOUR, LONG, QUARTER, Stall, UserBook, UsersOfQuarter};
use super::cause::{Cause, Lost, blame, plain};
use super::histogram::Histogram;
use super::sweep::State;
use super::usage::Traffic;

/// Most users in a report of traffic.
const TALKERS: usize = 16;
/// Most users in a report: those that stalled for longest, then those with most bytes.
const TOLD: usize = 40;

/// Stalls by user and by cause, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SightJson {
    /// The last quarter of an hour, in one line.
    pub words: String,
    /// Connections by state: `opening`, `moving`, `waiting`, `stalled`, `idle`. The sum of the states is all
    /// connections.
    pub states: std::collections::BTreeMap<String, u32>,
    /// Mean wait of a packet with data in the box's queue, in the last second: down, up.
    pub turn_s: [f64; 2],
    /// Users that had packets in the last quarter of an hour.
    pub users_seen: usize,
    /// Users of whom a connection stalled in the last quarter of an hour.
    pub users_stalled_lately: usize,
    /// Users of whom a connection stalled for more than five seconds at once in the last quarter of an hour.
    pub users_stalled_long: usize,
    /// Users of whom a connection stalls now.
    pub users_stalled: u32,
    /// Stalls by cause.
    pub causes: Vec<CauseJson>,
    /// Loss stalls by the place where packets were lost.
    pub lost: Vec<LostJson>,
    /// Users of the last quarter of an hour: those that stalled for longest, then those with most bytes.
    pub users: Vec<UserJson>,
    /// Users with most traffic in the last hour, those with most first.
    #[serde(default)]
    pub talkers: Vec<TalkerJson>,
    /// Longest stalls in progress.
    pub stalls_now: Vec<StallJson>,
    /// The last stalls that are over, latest first.
    pub stalls_last: Vec<StallJson>,
    /// Expiries of senders' timers, and recoveries begun by ACKs, that were seen.
    pub timeouts: u64,
    /// See `timeouts`.
    pub fast_retransmits: u64,
    /// New data acknowledged, of TCP, and all of what is not: down, up.
    pub goodput_bytes: [u64; 2],
    /// Packets with an acknowledgment that came: down, up.
    pub acknowledgments: [u64; 2],
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
    /// Name of the cause as in `narrows diagnose`, or `held_at_admission`, `starved`.
    pub cause: String,
    /// Name of the cause, in words.
    pub words: String,
    /// Whether it is the network that kept somebody waiting. If not, it counts as no stall of a user or of the link.
    pub network: bool,
    /// Connections that stall now.
    pub now: u32,
    /// Stalls that ended in the last quarter of an hour.
    pub quarter: u32,
    /// Part that this cause has of the time in the network's stalls of the last quarter of an hour, 0 to 1.
    pub quarter_share: f64,
    /// Stalls that ended since the start.
    pub total: u64,
    /// Lengths of the cause's stalls together, in seconds, over all connections.
    pub total_s: f64,
}

/// Stalls by where packets were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LostJson {
    /// `before` the box, `here`, `behind` it, `both` or `unknown`, in the direction of the data.
    pub place: String,
    /// Part that this place has of the time in stalls by losses of the last quarter of an hour, 0 to 1.
    pub quarter_share: f64,
    /// Lengths of stalls by losses since the start together, over all connections.
    pub total_s: f64,
}

/// User with the name that people are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedUser {
    /// Address, prefix or circuit of the user.
    pub user: String,
    /// Name of the user's host, if known.
    pub name: Option<String>,
}

impl From<String> for NamedUser {
    fn from(user: String) -> Self {
        Self { user, name: None }
    }
}

/// One user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserJson {
    /// Address, prefix or circuit of the user.
    pub user: String,
    /// Name of its host in the file of leases, else its MAC address, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Connections that stall now.
    pub stalled_now: u32,
    /// Bytes of IP packets in the last quarter of an hour: down, up.
    pub bytes: [u64; 2],
    /// Time of the last quarter of an hour in which any of its connections stalled.
    pub stalled_s: f64,
    /// Longest stall of the user in that time.
    pub longest_s: f64,
    /// The cause of most of that.
    pub cause: Option<String>,
    /// The longest stall of each of the last 60 minutes, oldest first, seconds.
    pub minutes_s: Vec<f64>,
}

/// Traffic of one user, in bytes of IP packets: down to the user, up from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TalkerJson {
    /// Address, prefix or circuit of the user.
    pub user: String,
    /// Name of its host in the file of leases, else its MAC address, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Mean rate of what left the box in the last minute and the part of the present one, bit/s.
    pub rate_bps: [u64; 2],
    /// Bytes that came to the box in the last hour.
    pub hour_offered_bytes: [u64; 2],
    /// Bytes that left the box in the last hour.
    pub hour_bytes: [u64; 2],
    /// Mean wait of a packet with data in the box in the last hour, seconds.
    pub hour_wait_s: f64,
    /// Bytes that left the box in the last seven days, or since it was started.
    pub week_bytes: [u64; 2],
}

/// Stall with its evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StallJson {
    /// Number of the stall, counted from 1; 0 while the stall is in progress.
    pub number: u64,
    /// The user's end and the other, as `10.0.0.7:50000 192.0.2.1:443 tcp`.
    pub flow: String,
    /// User whose connection stalled.
    pub user: String,
    /// Direction whose data stood still: `down` to the users, `up` from them.
    pub direction: String,
    /// Begin of the stall, seconds since the box was started.
    pub from_s: f64,
    /// Length of the stall in seconds; of a stall in progress, the length so far.
    pub length_s: f64,
    /// Cause of the stall; see [`CauseJson`].
    pub cause: String,
    /// Place where packets were lost.
    pub lost: String,
    /// `certain`, `likely`, `possible`.
    pub certainty: String,
    /// Repair by which the sender tried to end the stall, as `narrows diagnose` names the repair.
    pub repair: Option<String>,
    /// Expiries of the sender's timer, and the factor on the timer afterwards.
    pub timeouts: u8,
    /// See `timeouts`.
    pub backoff: u32,
    /// Segments under way when the stall began.
    pub outstanding: u8,
    /// Time in which its packets waited for their turn in the box before it, seconds.
    pub waited_here_s: f64,
    /// Whether progress ended the stall.
    pub ended: bool,
}

/// Counts of values by size, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramJson {
    /// Upper bounds of all counts but the last.
    pub bounds: Vec<f64>,
    /// Counts by bound, not accumulated: one more than there are bounds.
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
    /// Report of all connections and users, at `now`. `name` tells who a user is.
    #[must_use]
    pub fn report<N: Into<NamedUser>>(&mut self, now: Instant, name: impl Fn(User) -> N) -> SightJson {
        let named = |user: User| -> NamedUser { name(user).into() };
        let name = |user: User| named(user).user;
        self.book.tick(now);
        let mut quarter = self.book.cells(QUARTER);
        for (to, lasting) in quarter.iter_mut().flatten().zip(self.sweep.now.lasting.iter().flatten()) {
            to.add(lasting);
        }
        let users = self.book.users_of_quarter();
        let book = &self.book;
        let uptime = book.age(now);
        let last = book
            .last
            .iter()
            .rev()
            .map(|e| StallJson { number: e.number, ..stall(&e.stall, name(e.user), book.age(e.at)) });
        let going_on = self.sweep.now.stalls.iter().map(|s| stall(s, name(book.name(s.user)), uptime));
        SightJson {
            words: self.words(&quarter, users, uptime),
            states: State::NAMES.map(str::to_owned).into_iter().zip(self.sweep.now.states).collect(),
            turn_s: book.turns().map(Duration::as_secs_f64),
            users_seen: users.seen,
            users_stalled_lately: users.stalled,
            users_stalled_long: users.stalled_long,
            users_stalled: self.sweep.now.users,
            causes: self.causes(&quarter),
            lost: self.lost(&quarter),
            users: self.users(&named),
            talkers: self.talkers(&named, uptime),
            stalls_now: going_on.collect(),
            stalls_last: last.collect(),
            timeouts: book.timeouts,
            fast_retransmits: book.fast_retransmits,
            goodput_bytes: book.goodput_bytes,
            acknowledgments: book.acknowledgments,
            stall_s: (&book.lengths).into(),
            wan_round_trip_s: (&book.round_trips[0]).into(),
            lan_round_trip_s: (&book.round_trips[1]).into(),
            packets_per_round_trip: (&book.packets).into(),
            bytes_per_flow: super::BYTES_PER_FLOW,
        }
    }

    /// "17 of 60 users stalled for more than 5 s in the last quarter of an hour; 92 % because of losses behind the
    /// box."
    fn words(&self, quarter: &Cells, users: UsersOfQuarter, uptime: Duration) -> String {
        let young = uptime < Duration::from_secs(60 * QUARTER as u64);
        let lately = if young { "since the start" } else { "in the last quarter of an hour" };
        let all = format!("{} user{}", users.seen, if users.seen == 1 { "" } else { "s" });
        let said = match users {
            UsersOfQuarter { seen: 0, .. } => format!("Nobody had traffic {lately}"),
            UsersOfQuarter { stalled: 0, .. } => format!("None of {all} stalled {lately}"),
            UsersOfQuarter { stalled, stalled_long: 0, .. } => {
                format!("{stalled} of {all} stalled {lately}, none for more than {} s", LONG.as_secs_f64())
            }
            UsersOfQuarter { stalled_long, .. } => {
                let why = self.blame(quarter);
                format!(
                    "{stalled_long} of {all} stalled for more than {} s {lately}{why}",
                    LONG.as_secs_f64()
                )
            }
        };
        let turn = self.book.turns().into_iter().max().unwrap_or_default();
        let slow = if turn > LONG {
            format!(" Packets wait {:.0} s for their turn: too many share the link.", turn.as_secs_f64())
        } else {
            String::new()
        };
        said + "." + &slow
    }

    /// Cause of most of the time in long stalls, as the end of a sentence.
    fn blame(&self, quarter: &Cells) -> String {
        let mut blamed: Vec<(&str, u64)> = Vec::new();
        for cause in Cause::all().filter(|c| c.is_of_the_network()) {
            let i = cause.index();
            for (place, cell) in quarter[i].iter().enumerate() {
                let ms = cell.long_ms;
                let name = blame(cause, place);
                match blamed.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += ms,
                    None => blamed.push((name, ms)),
                }
            }
        }
        let all: u64 = blamed.iter().map(|(_, ms)| ms).sum();
        let most = blamed.into_iter().max_by_key(|(_, ms)| *ms).filter(|_| all > 0);
        most.map_or(String::new(), |(name, ms)| {
            format!("; {:.0} % because of {name}", 100.0 * ms as f64 / all as f64)
        })
    }

    fn causes(&self, quarter: &Cells) -> Vec<CauseJson> {
        let counted = Cause::all().filter(|c| *c != Cause::Told(narrows_diagnose::Cause::ClientIdle));
        let ms = |cause: Cause| quarter[cause.index()].iter().map(|c| c.ms).sum::<u64>();
        let all: u64 = Cause::all().filter(|c| c.is_of_the_network()).map(ms).sum();
        let of = |cause: Cause| {
            let part = if cause.is_of_the_network() { ms(cause) } else { 0 };
            let (lately, total) = (&quarter[cause.index()], &self.book.totals[cause.index()]);
            CauseJson {
                cause: cause.name(),
                words: cause.words().to_owned(),
                network: cause.is_of_the_network(),
                now: self.sweep.now.causes[cause.index()],
                quarter: lately.iter().map(|c| c.stalls).sum(),
                quarter_share: part as f64 / all.max(1) as f64,
                total: total.iter().map(|c| u64::from(c.stalls)).sum(),
                total_s: total.iter().map(|c| c.ms).sum::<u64>() as f64 / 1e3,
            }
        };
        counted.map(of).collect()
    }

    fn lost(&self, quarter: &Cells) -> Vec<LostJson> {
        let ms = |cells: &Cells, place: usize| {
            Cause::all().filter(|c| c.is_loss()).map(|c| cells[c.index()][place].ms).sum::<u64>()
        };
        let all: u64 = (0..Lost::COUNT).map(|place| ms(quarter, place)).sum();
        let of = |(place, name): (usize, &&str)| LostJson {
            place: (*name).to_owned(),
            quarter_share: ms(quarter, place) as f64 / all.max(1) as f64,
            total_s: ms(&self.book.totals, place) as f64 / 1e3,
        };
        Lost::NAMES.iter().enumerate().map(of).collect()
    }

    fn users(&self, named: &impl Fn(User) -> NamedUser) -> Vec<UserJson> {
        let known = self.book.users.iter().filter(|u| self.book.is_late(u.seen) || u.stalled_at.is_some());
        let mut all: Vec<UserSums<'_>> = known.map(|u| self.sums(u)).collect();
        all.sort_by_key(|u| {
            (Reverse((u.stalled_ms, u.bytes[0].saturating_add(u.bytes[1]))), u.book.user.bits())
        });
        all.truncate(TOLD);
        all.into_iter().map(|u| self.user(&u, named(u.book.user))).collect()
    }

    /// Users with most traffic in the last hour. `uptime` is how long the box has counted.
    fn talkers(&self, named: &impl Fn(User) -> NamedUser, uptime: Duration) -> Vec<TalkerJson> {
        let mut all: Vec<(&UserBook, Traffic)> =
            self.book.users.iter().map(|user| (user, user.usage.last(HOUR))).collect();
        all.retain(|(_, hour)| hour.bytes() > 0);
        all.sort_by_key(|(user, hour)| (Reverse(hour.bytes()), user.user.bits()));
        let minute = uptime.as_millis() % 60_000 + if uptime < Duration::from_secs(60) { 0 } else { 60_000 };
        let named = all.into_iter().take(TALKERS).map(|(user, hour)| (named(user.user), user, hour));
        let told = named.map(|(NamedUser { user: who, name }, user, hour)| TalkerJson {
            user: who,
            name,
            rate_bps: user.usage.last(2).delivered.map(|bytes| bytes.saturating_mul(8000) / minute.max(1000)),
            hour_offered_bytes: hour.offered,
            hour_bytes: hour.delivered,
            hour_wait_s: hour.wait().as_secs_f64(),
            week_bytes: user.usage.week(),
        });
        told.collect()
    }

    /// The last quarter of an hour of a user.
    fn sums<'a>(&self, book: &'a UserBook) -> UserSums<'a> {
        let minutes = self.book.minutes_of(book, QUARTER);
        let bytes = book.usage.last(QUARTER).delivered;
        UserSums { book, stalled_ms: minutes.map(|m| u64::from(m.stalled_ms)).sum(), bytes }
    }

    fn user(&self, sums: &UserSums<'_>, who: NamedUser) -> UserJson {
        let user = sums.book;
        let longest = self.book.minutes_of(user, QUARTER).map(|m| m.longest_ds).max().unwrap_or(0);
        let hour = self.book.minutes_of(user, HOUR);
        let cause = Cause::all()
            .filter(|c| c.is_of_the_network())
            .map(|c| (user.causes.iter().map(|m| m[c.index()]).sum::<u64>(), c))
            .max_by_key(|(ms, _)| *ms)
            .filter(|(ms, _)| *ms > 0);
        UserJson {
            user: who.user,
            name: who.name,
            stalled_now: user.stalled,
            bytes: sums.bytes,
            stalled_s: sums.stalled_ms as f64 / 1e3,
            longest_s: f64::from(longest) / 10.0,
            cause: cause.map(|(_, c)| c.name()),
            minutes_s: hour.map(|m| f64::from(m.longest_ds) / 10.0).collect(),
        }
    }
}

/// Figures of a user in the last quarter of an hour.
struct UserSums<'a> {
    book: &'a UserBook,
    stalled_ms: u64,
    bytes: [u64; 2],
}

/// Describes a stall that ended, or was looked at, `at` after the start of the box.
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
        waited_here_s: f64::from(s.turn_ms) / 1e3,
        ended: s.ended,
    }
}
