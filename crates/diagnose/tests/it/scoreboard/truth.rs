//! Truth about a simulated capture, from what only a simulator has: the capture at the sender and the one at the
//! receiver together say of every packet whether it arrived and between which two points it was lost, and the senders'
//! own account says when a timer expired. Nothing here uses the diagnosis.

use core::net::SocketAddr;
use std::collections::{BTreeMap, HashMap};

use narrows_sim::{Data, Results};
use narrows_units::Duration;
use narrows_wire::capture::Reader;
use narrows_wire::{Flags, TcpHeader};

/// Sender and receiver.
pub(crate) type Pair = (SocketAddr, SocketAddr);

/// The points of capture, on the way of the servers' data.
pub(crate) const POINTS: [&str; 3] = ["sender", "before", "behind"];

/// A packet that takes up sequence numbers, each time it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// Time at which the copy left its sender, in seconds.
    pub(crate) sent: f64,
    pub(crate) seq: u32,
    pub(crate) end: u32,
    pub(crate) syn: bool,
    pub(crate) payload: u32,
    /// Number of the copy among those with the same first number: 1 is the original.
    pub(crate) nth: u32,
    /// Place of the copy before among the copies of this sender.
    pub(crate) earlier: Option<usize>,
    /// Whether the copy passed each point.
    pub(crate) seen: [bool; 3],
    /// Time at which the copy was at the receiver.
    pub(crate) arrived: Option<f64>,
}

/// A packet that came to a sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) at: f64,
    pub(crate) ack: u32,
    /// Bytes.
    pub(crate) window: u32,
    pub(crate) payload: u32,
    pub(crate) syn: bool,
    pub(crate) pure: bool,
}

/// Act of a sender, by its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Timeout,
    Fast,
    Probe,
}

/// All about one end as a sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    pub(crate) copies: Vec<Copy>,
    pub(crate) heard: Vec<Heard>,
    /// Acts of the sender: time in seconds, kind, factor on the RTO afterwards.
    pub(crate) did: Vec<(f64, Did, u64)>,
    /// Whether this end sent the SYN.
    pub(crate) opener: bool,
    /// The end of the highest byte sent.
    max: u32,
}

pub(crate) type Books = BTreeMap<Pair, Book>;

/// A packet of a capture.
#[derive(Clone, Copy, Debug)]
struct Passed {
    at: f64,
    pair: Pair,
    tcp: TcpHeader,
}

fn passed(results: &Results, link: &str) -> Vec<Passed> {
    let (_, file) = results.captures.iter().find(|(name, _)| name == link).unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    let captured: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let origin = Duration::from_nanos(u64::try_from(reader.origin().unwrap_or(0)).unwrap());
    captured
        .iter()
        .filter_map(|c| {
            let key = c.header.key;
            let pair = (SocketAddr::new(key.src(), key.sport), SocketAddr::new(key.dst(), key.dport));
            Some(Passed { at: (c.at + origin).as_secs_f64(), pair, tcp: c.header.tcp? })
        })
        .collect()
}

/// Fields that are equal in two copies of a segment that look alike.
type Alike = (Pair, u32, u32, u8, u32);

fn alike(p: &Passed) -> Alike {
    let t = &p.tcp;
    (p.pair, t.seq.0, t.seq_end().0, t.flags.0, t.timestamps.map_or(0, |(tsval, _)| tsval))
}

/// Finds which of the packets that were sent came by, and when. The path is first in, first out: if fewer of the same
/// look came by than were sent, each is the latest whose time on the way is one that other packets had.
fn follow(sent: &[Passed], among: &[bool], came: &[Passed]) -> Vec<Option<f64>> {
    let mut left: HashMap<Alike, Vec<usize>> = HashMap::new();
    for (n, p) in sent.iter().enumerate().filter(|(n, _)| among[*n]) {
        left.entry(alike(p)).or_default().push(n);
    }
    let mut right: HashMap<Alike, Vec<f64>> = HashMap::new();
    for p in came {
        right.entry(alike(p)).or_default().push(p.at);
    }
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (look, copies) in &left {
        if let ([n], Some(&[at])) = (copies.as_slice(), right.get(look).map(Vec::as_slice)) {
            least = least.min(at - sent[*n].at);
            most = most.max(at - sent[*n].at);
        }
    }
    let mut times = vec![None; sent.len()];
    for (look, copies) in &left {
        let Some(arrivals) = right.get(look) else { continue };
        if arrivals.len() == copies.len() {
            copies.iter().zip(arrivals).for_each(|(n, at)| times[*n] = Some(*at));
            continue;
        }
        for at in arrivals {
            let fits = |n: &&usize| {
                let way = at - sent[**n].at;
                times[**n].is_none() && way >= least - 1e-4 && way <= most + 1e-3
            };
            if let Some(n) = copies.iter().rev().find(fits).copied() {
                times[n] = Some(*at);
            }
        }
    }
    times
}

/// The books of the ends whose packets leave at `stations[0]` and arrive at the last. `points` are the places in
/// [`POINTS`] of the stations.
fn way(results: &Results, stations: [&str; 3], points: [usize; 3], books: &mut Books) {
    let [sent, middle, came] = stations.map(|link| passed(results, link));
    let at_middle = follow(&sent, &vec![true; sent.len()], &middle);
    let there: Vec<bool> = at_middle.iter().map(Option::is_some).collect();
    let arrived = follow(&sent, &there, &came);
    let mut scale: HashMap<Pair, u8> = HashMap::new();
    for p in came.iter().chain(&sent).filter(|p| p.tcp.flags.has(Flags::SYN)) {
        scale.insert(p.pair, p.tcp.window_scale.unwrap_or(0));
    }
    for (n, p) in sent.iter().enumerate() {
        let (tcp, book) = (&p.tcp, books.entry(p.pair).or_default());
        let syn = tcp.flags.has(Flags::SYN);
        book.opener |= syn && !tcp.flags.has(Flags::ACK);
        if tcp.seq_len() == 0 {
            continue;
        }
        let (seq, end) = (tcp.seq.0, tcp.seq_end().0);
        let earlier =
            if seq < book.max { book.copies.iter().rposition(|c| c.seq <= seq && seq < c.end) } else { None };
        book.max = book.max.max(end);
        let nth = earlier.map_or(1, |e| book.copies[e].nth + 1);
        let mut seen = [false; 3];
        for (point, passed) in points.into_iter().zip([true, there[n], arrived[n].is_some()]) {
            seen[point] = passed;
        }
        let (payload, arrived) = (tcp.payload, arrived[n]);
        book.copies.push(Copy { sent: p.at, seq, end, syn, payload, nth, earlier, seen, arrived });
    }
    for p in &came {
        let t = &p.tcp;
        let shift = if t.flags.has(Flags::SYN) { 0 } else { scale.get(&p.pair).copied().unwrap_or(0) };
        let heard = Heard {
            at: p.at,
            ack: t.ack.0,
            window: u32::from(t.window) << shift,
            payload: t.payload,
            syn: t.flags.has(Flags::SYN),
            pure: t.is_pure_ack(),
        };
        books.entry((p.pair.1, p.pair.0)).or_default().heard.push(heard);
    }
}

/// All books of a run.
pub(crate) fn books(results: &Results) -> Books {
    let mut books = Books::new();
    way(results, ["sender", "before", "behind"], [0, 1, 2], &mut books);
    way(results, ["behind.back", "before.back", "sender.back"], [2, 1, 0], &mut books);
    let table = results.tables.iter().find(|t| t.name == "repairs").unwrap();
    let column = |name: &str| &table.columns.iter().find(|c| c.name == name).unwrap().data;
    let words = |name: &str| if let Data::Text(w) = column(name) { w } else { panic!("{name}") };
    let Data::F64(times) = column("time_s") else { panic!("time_s") };
    let Data::U64(factors) = column("backoff") else { panic!("backoff") };
    for (n, what) in words("repair").iter().enumerate() {
        let pair = (words("from")[n].parse().unwrap(), words("to")[n].parse().unwrap());
        let did = match what.as_str() {
            "timeout" => Did::Timeout,
            "fast_retransmit" => Did::Fast,
            _ => Did::Probe,
        };
        books.entry(pair).or_default().did.push((times[n], did, factors[n]));
    }
    books
}
