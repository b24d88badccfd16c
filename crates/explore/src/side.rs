//! Results of one queue: every figure of the simulator, and the data of each drawing.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_scenario::{Experiment, Scenario};
use narrows_sim::{Data, Results, RunError};
use serde::Serialize;

use crate::crossed::{Brought, Crossed, address};
use crate::scenario::{THIN, THIN_BACK, toml_of};
use crate::{Problem, STALL_S, Settings, Which};

/// Columns of the heat map at most, each of a whole number of seconds.
const MOST_COLUMNS: u32 = 120;
/// Times of a distribution that the page gets at most; of more every n-th.
const MOST_TIMES: usize = 1000;
/// Packets of a user that the page gets at most.
const MOST_SEQUENCE: usize = 6000;

/// Results of one queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueueResult {
    /// The queue, as scenario files name the queue.
    pub queue: String,
    /// Figures by name, with the names of `narrows sim`.
    pub summary: BTreeMap<String, f64>,
    /// Length of a column of the heat map, s.
    pub column_s: u32,
    /// Columns of the heat map.
    pub columns: u32,
    /// Number of users, one row for each: users of the web, then downloads, then calls.
    pub users: u32,
    /// First user of each kind, with the name of the kind.
    pub kinds: Vec<(String, u32)>,
    /// Bytes that each user could read in each column, user by user.
    pub bytes: Vec<u32>,
    /// Stalls: user, begin and end in s.
    pub stalls: Vec<(u32, f64, f64)>,
    /// Times of whole objects, sorted, s; empty without any.
    pub objects_s: Times,
    /// Times of whole pages.
    pub pages_s: Times,
    /// Longest stall of each object.
    pub object_stalls_s: Times,
    /// Use of the link's time.
    pub bits: Bits,
    /// Quality of each call.
    pub calls: Vec<Call>,
    /// Packets of one user.
    pub sequence: UserPackets,
}

/// A distribution: sorted values, and how many there are with those that never came.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    /// Values in order, s.
    pub sorted: Vec<f64>,
    /// Number of values, of which `sorted` may have every n-th.
    pub done: usize,
    /// Number of values without an end, not counted in `done`.
    pub never: usize,
}

/// Bytes of the link, framing included, by the use of the bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bits {
    /// Bytes that the link could have carried.
    pub capacity: u64,
    /// Payload that had not crossed before.
    pub payload: u64,
    /// Headers and framing of packets with payload.
    pub headers: u64,
    /// Payload that had crossed before.
    pub copies: u64,
    /// Packets without payload.
    pub control: u64,
    /// Bytes that the link could have carried while no packet was there to send.
    pub idle: u64,
    /// Packets that came to the queue.
    pub arrived: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Time that half of the packets of connections' first 20 kB waited, s.
    pub wait_first_s: Option<f64>,
    /// Time that half of the packets after connections' first 20 kB waited, s.
    pub wait_later_s: Option<f64>,
}

/// A call.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Call {
    /// Share of the packets that did not arrive, the worse way.
    pub loss: f64,
    /// 95th percentile of the added delay, the worse way, s.
    pub added_p95_s: f64,
    /// Whether the call is good by the simulator's bounds.
    pub good: bool,
}

/// Packets of one user, in the order in which the packets crossed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct UserPackets {
    /// The user.
    pub user: u32,
    /// Times, s.
    pub at_s: Vec<f64>,
    /// First byte, counted over all connections of the user, one after another.
    pub byte: Vec<u64>,
    /// Bytes of payload.
    pub len: Vec<u32>,
    /// Novelty: 0 new, 1 fills a hole, 2 a copy, 3 no data.
    pub kind: Vec<u8>,
    /// Times of acknowledgments, s.
    pub ack_s: Vec<f64>,
    /// Byte up to which each acknowledgment reaches.
    pub ack_byte: Vec<u64>,
    /// Times at which a sender's timer expired, s.
    pub timeouts: Vec<f64>,
    /// Packets left out.
    pub left_out: usize,
}

/// Simulates one of the queues.
///
/// # Errors
/// What the simulator refuses, or `go_on` stopped it.
pub fn side(
    settings: &Settings,
    which: Which,
    user: Option<u32>,
    go_on: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<QueueResult, Problem> {
    let scenario = resolved(settings, which)?;
    let end = scenario.duration.as_secs_f64();
    let mut told = |now: narrows_units::Instant| go_on(now.as_secs_f64() / end);
    let results = narrows_sim::run(&scenario, u64::from(settings.seed), &mut told).map_err(|e| match e {
        RunError::Stopped => Problem::of("", "stopped"),
        RunError::Build(why) => Problem::of("", &why.to_string()),
    })?;
    Ok(Builder { settings, scenario: &scenario, results: &results }.side(settings.queue(which), user))
}

/// The scenario of one queue.
fn resolved(settings: &Settings, which: Which) -> Result<Arc<Scenario>, Problem> {
    let refused = |e: narrows_scenario::Error| {
        let field = match e.key.as_str() {
            "discipline" | "disciplines" if which == Which::A => "a",
            "discipline" | "disciplines" => "b",
            "mtu" => "mtu",
            "duration" => "seconds",
            "rate" => "rate_kbps",
            "rtt" => "rtt_ms",
            _ => "",
        };
        Problem::of(field, &e.to_string())
    };
    let experiment = Experiment::parse(&toml_of(settings, which), &[]).map_err(refused)?;
    let run = experiment.expand().map_err(refused)?.into_iter().next();
    run.map(|run| run.scenario).ok_or_else(|| Problem::of("", "there is nothing to run"))
}

struct Builder<'a> {
    settings: &'a Settings,
    scenario: &'a Scenario,
    results: &'a Results,
}

impl Builder<'_> {
    fn side(&self, queue: String, user: Option<u32>) -> QueueResult {
        let capture = |name: &str| {
            self.results.captures.iter().find(|(link, _)| link == name).map_or(&[][..], |(_, file)| file)
        };
        let crossed = Crossed::read(capture(THIN), capture(THIN_BACK));
        let s = self.settings;
        let column_s = s.seconds.div_ceil(MOST_COLUMNS).max(1);
        let columns = s.seconds.div_ceil(column_s);
        let users = s.users + s.downloads + s.calls;
        let first = self.first_host();
        let mut bytes = vec![0_u32; (users * columns) as usize];
        let mut came: Vec<Vec<f64>> = vec![Vec::new(); users as usize];
        for packet in crossed.down.iter().filter(|p| p.readable > 0) {
            let (at, user) = (packet.at.as_secs_f64(), packet.host.wrapping_sub(first));
            let column = ((at / f64::from(column_s)) as u32).min(columns - 1);
            let Some(here) = bytes.get_mut((user * columns + column) as usize) else { continue };
            *here += packet.readable as u32;
            if let Some(times) = came.get_mut(user as usize) {
                times.push(at);
            }
        }
        let stalls = self.stalls(&came);
        // Somebody who got something, so that there is something to see.
        let got = |user: u32| came.get(user as usize).is_some_and(|times| !times.is_empty());
        let length = |s: &(u32, f64, f64)| (got(s.0), s.2 - s.1);
        let longest = stalls.iter().max_by(|a, b| {
            let ((a_got, a), (b_got, b)) = (length(a), length(b));
            a_got.cmp(&b_got).then(a.total_cmp(&b))
        });
        let longest = longest.map_or(0, |stall| stall.0);
        let sequence = self.sequence(&crossed, user.unwrap_or(longest).min(users.saturating_sub(1)), first);
        let (objects, object_stalls) = self.objects();
        let summary = self.results.summary.clone();
        QueueResult {
            queue,
            column_s,
            columns,
            users,
            kinds: self.kinds(),
            bytes,
            stalls,
            objects_s: objects,
            pages_s: self.pages(),
            object_stalls_s: object_stalls,
            bits: self.bits(&crossed),
            calls: self.calls(),
            sequence,
            summary,
        }
    }

    /// Number of the first user's host: servers are numbered first.
    fn first_host(&self) -> u32 {
        let hosts = &self.scenario.topology.hosts;
        hosts.iter().take_while(|group| group.name != "clients").map(|group| group.count).sum()
    }

    fn kinds(&self) -> Vec<(String, u32)> {
        let mut first = 0;
        let mut all = Vec::new();
        let (s, quic) = (self.settings, self.settings.quic_users());
        let over_tcp = if s.tls { "TLS" } else { "TCP" };
        for (name, count) in
            [(over_tcp, s.users - quic), ("QUIC", quic), ("downloads", s.downloads), ("calls", s.calls)]
        {
            if count > 0 {
                all.push((name.to_owned(), first));
            }
            first += count;
        }
        all
    }

    /// A column of a table of the results; empty if there is none.
    fn column(&self, table: &str, name: &str) -> Vec<f64> {
        let table = self.results.tables.iter().find(|t| t.name == table);
        let column = table.and_then(|t| t.columns.iter().find(|c| c.name == name));
        match column.map(|c| &c.data) {
            Some(Data::F64(values)) => values.clone(),
            Some(Data::U64(values)) => values.iter().map(|v| *v as f64).collect(),
            Some(Data::Text(_)) | None => Vec::new(),
        }
    }

    /// Times in which each user had asked for something and had not got it all.
    fn due(&self) -> BTreeMap<u32, Vec<(f64, f64)>> {
        let end = f64::from(self.settings.seconds);
        let mut due: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
        let of = |table, name| self.column(table, name);
        for ((user, start), length) in
            of("transfers", "user").iter().zip(of("transfers", "start_s")).zip(of("transfers", "end_s"))
        {
            due.entry(*user as u32).or_default().push((start, (start + length).min(end)));
        }
        for (user, start) in of("flows", "user").iter().zip(of("flows", "start_s")) {
            due.entry(*user as u32).or_default().push((start, end));
        }
        for times in due.values_mut() {
            times.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut joined: Vec<(f64, f64)> = Vec::new();
            for &(from, to) in times.iter() {
                match joined.last_mut() {
                    Some(last) if from <= last.1 => last.1 = last.1.max(to),
                    _ => joined.push((from, to)),
                }
            }
            *times = joined;
        }
        due
    }

    /// Times of at least [`STALL_S`] in which something was due to a user and nothing came.
    fn stalls(&self, came: &[Vec<f64>]) -> Vec<(u32, f64, f64)> {
        let mut all = Vec::new();
        for (user, spans) in self.due() {
            let Some(came) = came.get(user as usize) else { continue };
            for (from, to) in spans {
                let inside = &came[came.partition_point(|t| *t <= from)..];
                let mut last = from;
                for at in inside.iter().copied().take_while(|t| *t < to).chain([to]) {
                    if at - last >= STALL_S {
                        all.push((user, last, at));
                    }
                    last = at;
                }
            }
        }
        all
    }

    fn objects(&self) -> (Times, Times) {
        let outcome = self.column("transfers", "outcome");
        // An object that failed and was tried again is in a later row.
        let whole = |name| {
            let values = self.column("transfers", name);
            values.into_iter().zip(&outcome).filter(|(_, o)| **o < 3.0).map(|(v, _)| v).collect::<Vec<_>>()
        };
        (Times::of(whole("done_s")), Times::of(whole("stall_s")))
    }

    fn pages(&self) -> Times {
        Times::of(self.column("pages", "done_s"))
    }

    fn bits(&self, crossed: &Crossed) -> Bits {
        let s = self.settings;
        // Figures of the summary are of the slowest link, which may be the way back.
        let links = |name: &str| self.column("links", name).first().copied().filter(|v| v.is_finite());
        let count = |name: &str| links(name).unwrap_or(0.0) as u64;
        let mut bits = Bits {
            capacity: (s.mean_kbps() * f64::from(s.seconds) * 125.0).round() as u64,
            arrived: count("arrived"),
            dropped: count("dropped"),
            lost: count("lost"),
            wait_first_s: links("wait_small_p50_s"),
            wait_later_s: links("wait_bulk_p50_s"),
            ..Bits::default()
        };
        let thin = self.scenario.topology.links.iter().find(|link| link.name == THIN);
        let framing = thin.map_or(0, |link| u64::from(link.overhead));
        for p in &crossed.down {
            if p.brought == Brought::Nothing {
                bits.control += p.len + framing;
            } else {
                bits.headers += p.len - p.data + framing;
                bits.payload += p.fresh;
                bits.copies += p.data - p.fresh;
            }
        }
        let used = bits.payload + bits.headers + bits.copies + bits.control;
        bits.idle = bits.capacity.saturating_sub(used);
        bits
    }

    fn calls(&self) -> Vec<Call> {
        let of = |name| self.column("calls", name);
        let worse = |a: f64, b: f64| if a.is_nan() || b > a { b } else { a };
        let (down, up) = (of("down_loss"), of("up_loss"));
        let (down_p95, up_p95) = (of("down_added_p95_s"), of("up_added_p95_s"));
        let at = |all: &[f64], i: usize| all.get(i).copied().unwrap_or(f64::NAN);
        of("good")
            .iter()
            .enumerate()
            .map(|(i, good)| Call {
                loss: worse(at(&down, i), at(&up, i)),
                added_p95_s: worse(at(&down_p95, i), at(&up_p95, i)),
                good: *good > 0.0,
            })
            .collect()
    }

    fn sequence(&self, crossed: &Crossed, user: u32, first: u32) -> UserPackets {
        let host = first + user;
        let mut out = UserPackets { user, ..UserPackets::default() };
        // Where the bytes of each connection begin: after those of the connections before it.
        let mut lengths: BTreeMap<u32, u64> = BTreeMap::new();
        for p in crossed.down.iter().filter(|p| p.host == host && p.data > 0) {
            let length = lengths.entry(p.connection).or_default();
            *length = (*length).max(p.from + p.data);
        }
        let mut begins: BTreeMap<u32, u64> = BTreeMap::new();
        let mut sum = 0;
        for (connection, length) in lengths {
            begins.insert(connection, sum);
            sum += length;
        }
        for p in crossed.down.iter().filter(|p| p.host == host) {
            let Some(begin) = begins.get(&p.connection) else { continue };
            if out.at_s.len() >= MOST_SEQUENCE {
                out.left_out += 1;
                continue;
            }
            out.at_s.push(p.at.as_secs_f64());
            out.byte.push(begin + p.from);
            out.len.push(p.data as u32);
            out.kind.push(match p.brought {
                Brought::New => 0,
                Brought::Repair => 1,
                Brought::Copy => 2,
                Brought::Nothing => 3,
            });
        }
        for a in crossed.up.iter().filter(|a| a.host == host).take(MOST_SEQUENCE) {
            if let Some(begin) = begins.get(&a.connection) {
                out.ack_s.push(a.at.as_secs_f64());
                out.ack_byte.push(begin + a.to);
            }
        }
        out.timeouts = self.timeouts(host);
        out
    }

    /// Times at which a timer of a sender to `host` expired, s.
    fn timeouts(&self, host: u32) -> Vec<f64> {
        let Some(table) = self.results.tables.iter().find(|t| t.name == "repairs") else { return Vec::new() };
        let text = |name: &str| match table.columns.iter().find(|c| c.name == name).map(|c| &c.data) {
            Some(Data::Text(words)) => words.as_slice(),
            _ => &[],
        };
        let address = format!("{}:", address(host));
        let (to, repair) = (text("to"), text("repair"));
        let rows = self.column("repairs", "time_s").into_iter().zip(to).zip(repair);
        rows.filter(|((_, to), repair)| to.starts_with(&address) && *repair == "timeout")
            .map(|((at, _), _)| at)
            .collect()
    }
}

impl Times {
    /// Makes the distribution of times; NaN stands for a time without an end.
    fn of(values: Vec<f64>) -> Self {
        let all = values.len();
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let done = sorted.len();
        if done > MOST_TIMES {
            // The least and the largest stay.
            sorted = (0..MOST_TIMES).map(|i| sorted[i * (done - 1) / (MOST_TIMES - 1)]).collect();
        }
        Self { sorted, done, never: all - done }
    }
}
