//! Reader of `[[traffic]]`: entries, the hosts at their ends, and their settings.

use narrows_quic::{MtuSearch, Preset};
use narrows_tcp::{CcKind, Config, Handshake};
use narrows_units::{Dscp, Duration};

use super::tcp::{self, Layer};
use super::topology::{Draft, plain_name};
use super::{Files, MOST_FLOWS, calls, web};
use crate::read::Reader;
use crate::{Error, LogSource, LogTiming, OpenedBy, Size, Traffic, TrafficKind, Transport, Web};
use narrows_settings::one_of;

/// Most transfers of one entry of traffic over a whole run: each leaves a row of some 150 bytes.
const MOST_TRANSFERS: f64 = 5e7;
/// IPv4 and UDP headers.
const UDP_HEADERS: u32 = 28;
/// Bytes of an idle connection in the simulator, both ends together.
const FLOW_BYTES: u64 = 1_500;
/// Most parallel connections of a user: a browser has 6, the lab's ports allow 64.
const MOST_CONNECTIONS: u32 = 64;
/// Bytes of a request by the lab's users, and of the header before each object in the reply.
const REQUEST: u64 = 120;
const HEADER: u64 = 200;

/// QUIC of all hosts: a preset, and the settings that differ from the preset.
#[derive(Clone, Copy)]
pub(crate) struct Quic {
    pub preset: Preset,
    /// Packets of 1200 bytes.
    pub initial_window: Option<u32>,
    pub ecn: Option<bool>,
}

/// Settings of the rest of the file that an entry depends on.
pub(crate) struct Around<'a> {
    pub draft: &'a Draft<'a>,
    pub tcp: Option<Layer<'a>>,
    pub congestion: Option<&'a str>,
    pub mtu: u32,
    pub quic: Quic,
    pub duration: Duration,
    pub files: Files<'a>,
}

/// Reads all entries; users of one group of receivers follow one another on its hosts.
pub(crate) fn read(entries: Vec<Reader<'_>>, around: &Around<'_>) -> Result<Vec<Traffic>, Error> {
    if entries.is_empty() {
        return Err(Error::new("traffic", "is missing: expected at least one [[traffic]] with a kind"));
    }
    let words: Vec<_> = entries.iter().map(|r| r.value("kind").and_then(toml::Value::as_str)).collect();
    let mut all: Vec<Traffic> = Vec::new();
    let mut flows = 0;
    for (i, r) in entries.into_iter().enumerate() {
        let several = words.iter().filter(|w| **w == words[i]).count() > 1;
        let mut t = entry(&r, around)?;
        t.name = match plain_name(&r, "name")? {
            Some(name) => name,
            None if several => format!("{}{i}", t.word()),
            None => t.word().to_owned(),
        };
        if all.iter().any(|other| other.name == t.name) {
            return Err(Error::value(
                &r.path("name"),
                format!("'{}'", t.name),
                "a name no other traffic has",
            ));
        }
        t.beside = calls::beside(&r, &t, &all)?;
        let own = all.iter().filter(|o| o.to == t.to && o.beside.is_none());
        t.first = match t.beside {
            Some(other) => all[other].first,
            None => own.fold(0, |sum, o| sum.saturating_add(o.users())),
        };
        flows += t.kind.parallel();
        bounded(&r, &t, flows)?;
        web::bounded(&r, &t)?;
        r.finish()?;
        all.push(t);
    }
    Ok(all)
}

/// Refuses what no machine could hold.
fn bounded(r: &Reader<'_>, t: &Traffic, flows: u64) -> Result<(), Error> {
    if flows > u64::from(MOST_FLOWS) {
        let memory = (flows * FLOW_BYTES) as f64 / 1e9;
        let key = if r.has("users") {
            "users"
        } else if r.has("clients") {
            "clients"
        } else {
            "flows"
        };
        return Err(r.wrong(
            key,
            format!(
                "at most {MOST_FLOWS} connections in all, because each takes about {FLOW_BYTES} bytes: {flows} of them \
                 {memory:.0} GB"
            ),
        ));
    }
    let lasts = t.stop.saturating_sub(t.start).as_secs_f64();
    let (key, rate) = match &t.kind {
        TrafficKind::Files { arrivals: Some(rate), flows: None, .. } => ("arrivals", *rate),
        TrafficKind::Log { source: LogSource::Synthetic { requests, .. }, .. } => ("synthetic", *requests),
        _ => return Ok(()),
    };
    if rate * lasts > MOST_TRANSFERS {
        let expected = format!("at most {MOST_TRANSFERS:e} transfers in a run: these are {:e}", rate * lasts);
        return Err(r.wrong(key, expected));
    }
    Ok(())
}

fn entry(r: &Reader<'_>, around: &Around<'_>) -> Result<Traffic, Error> {
    let (kind, real) = kind(r, &around.files)?;
    let asked =
        matches!(kind, TrafficKind::Objects { .. } | TrafficKind::Pages { .. } | TrafficKind::Log { .. });
    let (from, to) = groups(r, around)?;
    let (tcp_from, tcp_to) = ends(r, around, from, to)?;
    // A one-way agent's SYN takes the way of the data, so nobody can ask first.
    let transport = web::transport(r, &real)?;
    let oneway = tcp_from.handshake == Handshake::SynIsPacketZero && transport != Transport::Quic;
    // Over QUIC somebody asks, as in the lab, also for what has no end.
    let asks = (asked || transport == Transport::Quic) && !oneway;
    let opened = [("sender", OpenedBy::Sender), ("receiver", OpenedBy::Receiver)];
    let default = if asks { OpenedBy::Receiver } else { OpenedBy::Sender };
    let opened_by = r.or("opened_by", default, |r, k| r.word(k, &opened))?;
    let request = r.or("request", if asks { REQUEST } else { 0 }, |r, k| r.bytes(k, true))?;
    if let TrafficKind::Udp { packet, .. } = kind {
        no_connection(r, kind.word(), packet, around.mtu)?;
    } else if let TrafficKind::Calls { call, .. } = kind {
        no_connection(r, kind.word(), call.down.max(call.up), around.mtu)?;
    } else if oneway && (opened_by == OpenedBy::Receiver || request > 0) {
        let key = if opened_by == OpenedBy::Receiver { "opened_by" } else { "request" };
        let expected = "the sender to open without a request, because in ns-2's handshake the SYN goes the way of the \
                        data; tcp.handshake = 'three_way' allows both";
        return Err(r.wrong(key, expected));
    }
    let header = r.or("header", if asks { HEADER } else { 0 }, |r, k| r.bytes(k, true))?;
    let opaque = r.or("opaque", false, |r, k| r.flag(k))?;
    let (start, stop) = times(r, around.duration)?;
    Ok(Traffic {
        name: String::new(),
        from,
        to,
        first: 0,
        beside: None,
        opened_by,
        request,
        header,
        dscp: codepoint(r, "dscp")?.unwrap_or_default(),
        tcp_from,
        tcp_to,
        opaque,
        transport,
        web: real,
        quic: quic(around),
        start,
        stop,
        kind,
    })
}

/// Groups of hosts that send and that receive; the two groups must differ.
fn groups(r: &Reader<'_>, around: &Around<'_>) -> Result<(usize, usize), Error> {
    let (from, to) = (group(r, "from", "servers", around)?, group(r, "to", "clients", around)?);
    if from == to {
        return Err(Error::value(
            &r.path("to"),
            format!("'{}'", around.draft.topology.hosts[to].name),
            "another group of hosts than from",
        ));
    }
    Ok((from, to))
}

/// TCP at both ends: of all hosts, over it that of the group, over it that of the entry.
fn ends(r: &Reader<'_>, around: &Around<'_>, from: usize, to: usize) -> Result<(Config, Config), Error> {
    let own = r.table("tcp")?.map(|table| Layer { table, path: r.path("tcp") });
    let end = |hosts: usize| {
        let layers: Vec<Layer<'_>> =
            [&around.tcp, &around.draft.tcp[hosts], &own].into_iter().flatten().cloned().collect();
        tcp::config(&layers, around.congestion, around.mtu)
    };
    let (tcp_from, tcp_to) = (end(from)?, end(to)?);
    if tcp_from.handshake != tcp_to.handshake {
        let expected = "the same handshake at both ends; set [tcp] for all hosts, or [traffic.tcp]";
        return Err(Error::new(r.path("tcp"), format!("is at odds: expected {expected}")));
    }
    Ok((tcp_from, tcp_to))
}

/// QUIC at both ends. No search for a larger datagram goes beyond what fits into the links' packets.
fn quic(around: &Around<'_>) -> narrows_quic::Config {
    let Quic { preset, initial_window, ecn } = around.quic;
    let mut config = narrows_quic::Config::preset(preset);
    let most = u16::try_from(around.mtu.saturating_sub(UDP_HEADERS)).unwrap_or(u16::MAX);
    config.mtu_search = config
        .mtu_search
        .map(|s| MtuSearch { upper: s.upper.min(most), ..s })
        .filter(|s| s.upper > config.datagram);
    if let Some(packets) = initial_window {
        config.initial_window = u64::from(packets) * 1200;
    }
    config.ecn = ecn.unwrap_or(config.ecn);
    match around.congestion {
        Some("reno") => config.congestion = CcKind::Reno,
        Some("cubic") => config.congestion = CcKind::Cubic,
        _ => {}
    }
    config
}

/// Refuses what UDP does not have.
fn no_connection(r: &Reader<'_>, kind: &str, packet: u32, mtu: u32) -> Result<(), Error> {
    if packet > mtu {
        return Err(r.wrong("packet", format!("at most mtu = {mtu}")));
    }
    for key in ["opened_by", "request", "header", "tcp", "opaque", "transport"] {
        if r.has(key) {
            return Err(r.wrong(key, format!("no such key for {kind}, which has no connections")));
        }
    }
    Ok(())
}

/// Times at which an entry of traffic begins and ends.
fn times(r: &Reader<'_>, duration: Duration) -> Result<(Duration, Duration), Error> {
    let start = r.or("start", Duration::ZERO, |r, k| r.time(k))?;
    let stop = r.or("stop", duration, |r, k| r.time(k))?;
    if stop > duration {
        return Err(r.wrong("stop", "at most the duration"));
    }
    if start >= stop {
        let end = if r.has("stop") { "stop" } else { "the duration" };
        return Err(r.wrong("start", format!("a time before {end}")));
    }
    Ok((start, stop))
}

/// A codepoint by its number, or by the name that RFC 8436's registry has for it.
pub(crate) fn codepoint(r: &Reader<'_>, key: &'static str) -> Result<Option<Dscp>, Error> {
    let number = match r.value(key) {
        Some(toml::Value::String(name)) => {
            let expected = "a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, va or le";
            Some(named_codepoint(name).ok_or_else(|| r.wrong(key, expected))?)
        }
        _ => r.count(key, 0, 63)?.and_then(|n| u8::try_from(n).ok()),
    };
    Ok(number.and_then(Dscp::new))
}

fn named_codepoint(name: &str) -> Option<u8> {
    let digit = |c: u8, least: u8, most: u8| (least..=most).contains(&c.wrapping_sub(b'0')).then(|| c - b'0');
    match name.as_bytes() {
        b"ef" => Some(46),
        b"va" => Some(44),
        b"le" => Some(1),
        // RFC 2474, section 4.2.2.2.
        [b'c', b's', class] => Some(8 * digit(*class, 0, 7)?),
        // RFC 2597, section 6.
        [b'a', b'f', class, drop] => Some(8 * digit(*class, 1, 4)? + 2 * digit(*drop, 1, 3)?),
        _ => None,
    }
}

fn group(r: &Reader<'_>, key: &'static str, default: &str, around: &Around<'_>) -> Result<usize, Error> {
    let hosts = &around.draft.topology.hosts;
    let name = r.or(key, default, |r, k| r.text(k))?;
    hosts.iter().position(|h| h.name == name).ok_or_else(|| {
        let known = one_of(name, hosts.iter().map(|h| h.name.as_str()));
        Error::value(&r.path(key), format!("'{name}'"), format!("the name of a group of hosts: {known}"))
    })
}

const KINDS: [&str; 9] = ["long", "files", "objects", "pages", "browser", "telnet", "udp", "calls", "log"];

fn kind(r: &Reader<'_>, files: &Files<'_>) -> Result<(TrafficKind, Web), Error> {
    let expected = format!("one of {}", KINDS.join(", "));
    let word = r.must("kind", &expected, |r, k| r.text(k))?;
    let mut web = web::web(r, word)?;
    let flows = || r.must("flows", "how many flows, 1 or more", |r, k| r.count(k, 1, u32::MAX));
    // Users who come and go take turns on this many hosts.
    let users = || match web.visits {
        Some(_) => r.or("users", 100, |r, k| r.count(k, 1, u32::MAX)),
        None => r.must("users", "how many users, 1 or more", |r, k| r.count(k, 1, u32::MAX)),
    };
    let connections = |default| r.or("connections", default, |r, k| r.count(k, 1, MOST_CONNECTIONS));
    let think = || r.or("think", Duration::ZERO, |r, k| r.time(k));
    let size = || r.or("size", Size::Web, |r, k| r.size(k));
    let kind = match word {
        "long" => TrafficKind::Long { flows: flows()? },
        "files" => arriving(r)?,
        "objects" => TrafficKind::Objects {
            users: users()?,
            connections: connections(1)?,
            think: think()?,
            size: size()?,
        },
        "pages" => TrafficKind::Pages {
            users: users()?,
            connections: connections(6)?,
            objects: match &web.page {
                Some(page) => Size::Fixed(page.len() as u64),
                None => {
                    r.must("objects", "how many objects a page has, as 10 or \"exp:10\"", |r, k| r.size(k))?
                }
            },
            size: size()?,
            think: think()?,
        },
        "telnet" => TrafficKind::Telnet {
            flows: flows()?,
            interval: r.or("interval", Duration::from_secs(1), |r, k| r.positive_time(k))?,
            bytes: r.or("bytes", 64, |r, k| r.bytes(k, false))?,
        },
        "udp" => TrafficKind::Udp {
            flows: flows()?,
            rate: r.must("rate", "a rate, as \"64kbit\"", |r, k| r.rate(k))?,
            packet: r.or("packet", 500, |r, k| r.count(k, 28, 9_000))?,
            on: r.or("on", Duration::ZERO, |r, k| r.time(k))?,
            off: off(r)?,
        },
        "calls" => calls::read(r)?,
        "browser" => web::browser(r, &mut web)?,
        "log" => log(r, files)?,
        other => return Err(r.wrong("kind", one_of(other, KINDS))),
    };
    Ok((kind, web))
}

/// Reads traffic of files, each file over a connection of its own.
fn arriving(r: &Reader<'_>) -> Result<TrafficKind, Error> {
    let arrivals = r.number("arrivals", "arrivals per second, a number above 0", |x| x > 0.0)?;
    let flows = r.count("flows", 1, u32::MAX)?;
    let users = r.count("users", 1, MOST_FLOWS)?;
    let users = match (arrivals, flows, users) {
        (None, None, _) => {
            return Err(r.wrong("flows", "how many files, or arrivals = how many per second"));
        }
        (None, Some(_), Some(_)) => {
            return Err(r.wrong("users", "no such key without arrivals: each of the flows is a user's"));
        }
        (None, Some(flows), None) => flows,
        (Some(_), _, users) => users.unwrap_or(100),
    };
    let size = r.must("size", "the size of a file, as \"64kB\"", |r, k| r.size(k))?;
    Ok(TrafficKind::Files { flows, arrivals, users, size })
}

/// The pauses of a source that is on for a time.
fn off(r: &Reader<'_>) -> Result<Duration, Error> {
    let (on, off) = (r.time("on")?.unwrap_or_default(), r.time("off")?.unwrap_or_default());
    match (on, off) {
        (Duration::ZERO, off) if off > Duration::ZERO => {
            Err(r.wrong("on", "a time above 0 where off has one: else nothing is ever sent"))
        }
        (on, Duration::ZERO) if on > Duration::ZERO => {
            Err(r.wrong("off", "a time above 0 where on has one; leave out both to send always"))
        }
        (_, off) => Ok(off),
    }
}

fn log(r: &Reader<'_>, files: &Files<'_>) -> Result<TrafficKind, Error> {
    let source = match (r.text("file")?, r.table("synthetic")?) {
        (Some(path), None) => {
            let entries = files.log(path).map_err(|e| r.wrong("file", format!("an access log: {e}")))?;
            LogSource::File { path: path.to_owned(), entries }
        }
        (None, Some(table)) => {
            let s = Reader::new(table, r.path("synthetic"));
            let source = LogSource::Synthetic {
                requests: s.must("requests", "requests per second, a number above 0", |s, k| {
                    s.number(k, "requests per second, a number above 0", |x| x > 0.0)
                })?,
                clients: s
                    .must("clients", "how many clients the log has", |s, k| s.count(k, 1, 1_000_000))?,
                zipf: s.or("zipf", 0.0, |s, k| {
                    s.number(k, "an exponent from 0 to 5", |x| (0.0..=5.0).contains(&x))
                })?,
                size: s.or("size", Size::Web, |s, k| s.size(k))?,
            };
            s.finish()?;
            source
        }
        _ => return Err(r.wrong("file", "an access log, or a table synthetic in its place")),
    };
    let timings = [("recorded", LogTiming::Recorded), ("back_to_back", LogTiming::BackToBack)];
    Ok(TrafficKind::Log {
        source,
        clients: r.must("clients", "how many users the log's clients are folded onto", |r, k| {
            r.count(k, 1, u32::MAX)
        })?,
        connections: r.or("connections", 4, |r, k| r.count(k, 1, MOST_CONNECTIONS))?,
        timing: r.or("timing", LogTiming::Recorded, |r, k| r.word(k, &timings))?,
        retry: r.or("retry", Duration::from_secs(1), |r, k| r.positive_time(k))?,
    })
}
