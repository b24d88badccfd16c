//! Truth about a silence, from captures at both ends and from what the server's application wrote down.
//!
//! A silence ends when somebody gets bytes that they waited for, or an acknowledgment of them. What these bytes went
//! through is known: when they were asked for, when the application wrote them, when they were sent first, when the
//! copy was sent that arrived, and when it arrived. The longest of these parts is the truth.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use narrows_units::SeqNum;
use narrows_wire::{Flags, FlowKey};
use serde::Deserialize;

use super::ends::{End, Packet};

/// Kinds of reasons why somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The server's application let the user wait.
    Application,
    /// The user's application asked for nothing.
    Idle,
    /// Packets were lost, and the repair took this time.
    Loss,
    /// Packets or acknowledgments waited on the way.
    Waiting,
}

impl Why {
    pub const ALL: [Self; 4] = [Self::Application, Self::Idle, Self::Loss, Self::Waiting];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Idle => "idle",
            Self::Loss => "loss",
            Self::Waiting => "waiting",
        }
    }
}

/// Directions in which copies were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostTo {
    /// Whether a copy was lost on the way to the users.
    pub users: bool,
    /// Whether a copy was lost on the way to the server.
    pub server: bool,
}

/// Truth about one silence.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    /// Time of each reason, nanoseconds, in the order of [`Why::ALL`].
    pub parts_ns: [i64; 4],
    /// Direction in which the awaited data was lost.
    pub lost: LostTo,
    /// Whether the awaited data is a repair: its first copy was lost, perhaps before the silence began.
    pub is_repair: bool,
}

impl Truth {
    /// Reason for most of the silence; `None` if no reason has any time.
    pub fn why(&self) -> Option<Why> {
        let most = Why::ALL.into_iter().max_by_key(|why| self.parts_ns[*why as usize])?;
        (self.parts_ns[most as usize] > 0).then_some(most)
    }
}

impl Truth {
    /// This took as long as anything else, but for a tenth of the silence.
    pub fn has(&self, why: Why) -> bool {
        let (all, most) =
            (self.parts_ns.iter().sum::<i64>(), self.parts_ns.iter().max().copied().unwrap_or(0));
        most > 0 && self.parts_ns[why as usize] >= most - all / 10
    }
}

/// A pause of the server's application.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Pause {
    peer: SocketAddr,
    from_ns: i64,
    to_ns: i64,
}

/// Captures at both ends of a run, and the server's pauses.
pub struct Run {
    pub server: End,
    pub users: End,
    pauses: BTreeMap<SocketAddr, Vec<Pause>>,
}

/// A silence that a diagnosis tells of, on the clock of the captures.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    pub from_ns: i64,
    /// Packet that ended the silence, as seen at the point of capture.
    pub last: Packet,
    /// The server's data stood still; else the user's.
    pub of_server: bool,
    /// Lowest byte that had not been acknowledged, or had not come, when it began.
    pub awaited: Option<SeqNum>,
}

impl Run {
    /// Reads what a run of the lab with captures left.
    ///
    /// # Errors
    /// If a file is missing or cannot be read.
    pub fn read(server: &Path, users: &Path, pauses: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(pauses).with_context(|| format!("reading {}", pauses.display()))?;
        let mut by_peer: BTreeMap<SocketAddr, Vec<Pause>> = BTreeMap::new();
        for line in text.lines() {
            let pause: Pause = serde_json::from_str(line)
                .with_context(|| format!("reading {}: {line}", pauses.display()))?;
            by_peer.entry(pause.peer).or_default().push(pause);
        }
        Ok(Self { server: End::read(server)?, users: End::read(users)?, pauses: by_peer })
    }

    /// Time between two points, in nanoseconds, in which the application let a user wait.
    fn paused_ns(&self, user: SocketAddr, from_ns: i64, to_ns: i64) -> i64 {
        let overlap = |p: &Pause| (p.to_ns.min(to_ns) - p.from_ns.max(from_ns)).max(0);
        self.pauses.get(&user).into_iter().flatten().map(overlap).sum()
    }

    /// Truth about bytes that are missing when other data ends a silence: from when they were sent first they were
    /// lost.
    pub fn of_hole(&self, s: &Silence) -> Option<Truth> {
        let (sender, byte) = (if s.of_server { &self.server } else { &self.users }, s.awaited?);
        let first = sender.of_flow(&s.last.header.key).find(|p| covers(p, byte))?;
        let mut parts = Parts { at_ns: s.from_ns, end_ns: s.last.at_ns, parts_ns: [0; 4] };
        parts.until(first.at_ns, Why::Application);
        parts.until(s.last.at_ns, Why::Loss);
        Some(Truth {
            parts_ns: parts.parts_ns,
            lost: LostTo { users: s.of_server, server: !s.of_server },
            is_repair: false,
        })
    }

    /// Truth about a silence of TCP; `None` if what ended it is in neither capture.
    pub fn of_tcp(&self, s: &Silence) -> Option<Truth> {
        let data = if s.last.is_from_server() == s.of_server {
            s.last.header.key
        } else {
            s.last.header.key.reverse()
        };
        let (sender, receiver) =
            if s.of_server { (&self.server, &self.users) } else { (&self.users, &self.server) };
        let by_ack = s.last.header.key != data;
        let tcp = s.last.header.tcp?;
        let byte = match s.awaited {
            Some(byte) if by_ack => byte,
            _ => tcp.seq,
        };
        let has = |p: &&Packet| covers(p, byte);
        let arrived = receiver.of_flow(&data).find(has)?;
        let first = sender.of_flow(&data).find(has)?;
        let sent = sender.same(arrived).filter(|p| p.at_ns <= arrived.at_ns)?;
        let mut parts = Parts { at_ns: s.from_ns, end_ns: s.last.at_ns, parts_ns: [0; 4] };
        let user = if s.of_server { (data.dst(), data.dport) } else { (data.src(), data.sport) };
        let mut lost = LostTo::default();
        if s.of_server {
            let asked = self.request(&data.reverse(), first.at_ns);
            if let Some(asked) = asked.filter(|_| !self.owes(&data, first)) {
                parts.until(asked.asked_ns, Why::Idle);
                parts.until(asked.sent_ns, Why::Loss);
                lost.server |= asked.asked_ns < asked.sent_ns && s.from_ns < asked.sent_ns;
                parts.until(asked.came_ns, Why::Waiting);
            }
            parts.paused(self.paused_ns(user.into(), parts.at_ns, first.at_ns.min(parts.end_ns)));
        }
        // Reasons why the sender has held back since: it repairs, or its packets wait on the way.
        let (began_ns, key) = (parts.at_ns, data);
        let repairs = sender.of_flow(&key).filter(|p| (began_ns..first.at_ns).contains(&p.at_ns)).any(|p| {
            sender
                .of_flow(&key)
                .any(|q| q.at_ns < p.at_ns && q.header.tcp.is_some_and(|t| overlaps(p, t.seq)))
        });
        let owes = self.owes_anything(sender, &data, first);
        parts.until(
            first.at_ns,
            match () {
                () if repairs => Why::Loss,
                () if owes || !s.of_server => Why::Waiting,
                () => Why::Application,
            },
        );
        let before_ns = parts.at_ns;
        parts.until(sent.at_ns, Why::Loss);
        if before_ns < sent.at_ns {
            lost.users |= s.of_server;
            lost.server |= !s.of_server;
        }
        parts.until(arrived.at_ns, Why::Waiting);
        parts.until(s.last.at_ns, Why::Waiting);
        let is_repair = sent.at_ns > first.at_ns && receiver.same(first).is_none();
        Some(Truth { parts_ns: parts.parts_ns, lost, is_repair })
    }

    /// The user's latest data before the server sent this: when it was sent first, when the copy that arrived was, and
    /// when that arrived.
    fn request(&self, key: &FlowKey, before_ns: i64) -> Option<Asked> {
        let data = |p: &&Packet| p.header.tcp.is_some_and(|t| t.payload > 0);
        let came = self.server.of_flow(key).filter(data).take_while(|p| p.at_ns <= before_ns).last()?;
        let byte = came.header.tcp?.seq;
        let came = self.server.of_flow(key).find(|p| covers(p, byte))?;
        let first = self.users.of_flow(key).find(|p| covers(p, byte))?;
        let sent = self.users.same(came)?;
        Some(Asked { asked_ns: first.at_ns, sent_ns: sent.at_ns, came_ns: came.at_ns })
    }

    /// The server was in the middle of an answer when it sent this: it had sent data since the latest request came.
    fn owes(&self, data: &FlowKey, first: &Packet) -> bool {
        let asked = self.request(&data.reverse(), first.at_ns).map_or(0, |asked| asked.came_ns);
        self.server
            .of_flow(data)
            .any(|p| p.header.tcp.is_some_and(|t| t.payload > 0) && (asked..first.at_ns).contains(&p.at_ns))
    }

    /// Something that the sender sent before this was not acknowledged then, as far as it knew.
    fn owes_anything(&self, sender: &End, data: &FlowKey, first: &Packet) -> bool {
        let sent = sender.of_flow(data).filter(|p| p.at_ns < first.at_ns);
        let sent = sent.filter_map(|p| p.header.tcp.filter(|t| t.payload > 0).map(|t| t.seq_end()));
        let back = data.reverse();
        let acked = sender.of_flow(&back).filter(|p| p.at_ns + HOST_NS < first.at_ns);
        let acked = acked.filter_map(|p| p.header.tcp).filter(|t| t.flags.has(Flags::ACK)).map(|t| t.ack);
        let highest = |a: SeqNum, b: SeqNum| if a.before(b) { b } else { a };
        match (sent.reduce(highest), acked.reduce(highest)) {
            (Some(sent), Some(acked)) => acked.before(sent),
            (Some(_), None) => true,
            _ => false,
        }
    }

    /// Truth about a handshake that took until `to_ns`.
    pub fn of_handshake(&self, opener: &FlowKey, from_ns: i64, to_ns: i64) -> Option<Truth> {
        let syn = |p: &&Packet| p.header.tcp.is_some_and(|t| t.flags.has(Flags::SYN));
        let ways = [(opener, &self.users, &self.server), (&opener.reverse(), &self.server, &self.users)];
        let mut parts = Parts { at_ns: from_ns, end_ns: to_ns, parts_ns: [0; 4] };
        let mut came = [false; 2];
        for (at, (key, sender, receiver)) in ways.iter().enumerate() {
            let Some(arrived) = receiver.of_flow(key).find(syn) else {
                parts.until(to_ns, Why::Loss);
                break;
            };
            came[at] = true;
            let sent = sender.same(arrived)?;
            parts.until(sent.at_ns, Why::Loss);
            parts.until(arrived.at_ns, Why::Waiting);
        }
        parts.until(to_ns, Why::Waiting);
        let copies = |(key, sender, receiver): &(&FlowKey, &End, &End)| {
            sender.of_flow(key).filter(syn).filter(|p| p.at_ns < to_ns).any(|p| receiver.same(p).is_none())
        };
        let lost = LostTo { server: copies(&ways[0]), users: copies(&ways[1]) };
        Some(Truth { parts_ns: parts.parts_ns, lost, is_repair: false })
    }

    /// Truth about a silence in which a user waited for datagrams of the server, or it for the user's.
    pub fn of_datagrams(&self, from_ns: i64, last: &Packet) -> Option<Truth> {
        let key = last.header.key;
        let (sender, receiver) =
            if last.is_from_server() { (&self.server, &self.users) } else { (&self.users, &self.server) };
        let sent = sender.same(last)?;
        let arrived = receiver.same(last)?;
        let mut parts = Parts { at_ns: from_ns, end_ns: last.at_ns, parts_ns: [0; 4] };
        // Earliest loss among the packets that an end sent into the silence.
        let lost = |from: &End, to: &End, key: &FlowKey| {
            let within = from.of_flow(key).filter(|p| (from_ns..sent.at_ns).contains(&p.at_ns));
            within.filter(|p| to.same(p).is_none()).map(|p| p.at_ns).min()
        };
        let (own, others) = (lost(sender, receiver, &key), lost(receiver, sender, &key.reverse()));
        let lost_ns = own.into_iter().chain(others).min();
        let user = if last.is_from_server() { (key.dst(), key.dport) } else { (key.src(), key.sport) };
        if last.is_from_server() {
            parts.paused(self.paused_ns(user.into(), parts.at_ns, sent.at_ns.min(parts.end_ns)));
        }
        if let Some(lost_ns) = lost_ns {
            parts.until(lost_ns, Why::Waiting);
            parts.until(sent.at_ns, Why::Loss);
        }
        let asked = receiver.of_flow(&key.reverse()).any(|p| (from_ns..sent.at_ns).contains(&p.at_ns));
        parts.until(sent.at_ns, if last.is_from_server() || asked { Why::Waiting } else { Why::Idle });
        parts.until(arrived.at_ns, Why::Waiting);
        let lost = LostTo {
            users: if last.is_from_server() { own } else { others }.is_some(),
            server: if last.is_from_server() { others } else { own }.is_some(),
        };
        Some(Truth { parts_ns: parts.parts_ns, lost, is_repair: false })
    }
}

/// Time within which a busy host acts on an acknowledgment after its arrival, nanoseconds.
const HOST_NS: i64 = 3_000_000;

/// When the latest request was sent, when the copy of it that arrived was, and when that arrived.
#[derive(Clone, Copy, Debug)]
struct Asked {
    asked_ns: i64,
    sent_ns: i64,
    came_ns: i64,
}

/// Parts of a silence, cut from the begin on.
struct Parts {
    at_ns: i64,
    /// Time at which the silence ends; later events are no part of the silence.
    end_ns: i64,
    parts_ns: [i64; 4],
}

impl Parts {
    /// Counts the next `paused_ns` nanoseconds as a pause of the application.
    fn paused(&mut self, paused_ns: i64) {
        self.parts_ns[Why::Application as usize] += paused_ns;
        self.at_ns += paused_ns;
    }

    fn until(&mut self, to_ns: i64, why: Why) {
        let to_ns = to_ns.min(self.end_ns);
        self.parts_ns[why as usize] += (to_ns - self.at_ns).max(0);
        self.at_ns = self.at_ns.max(to_ns);
    }
}

fn covers(p: &Packet, byte: SeqNum) -> bool {
    p.header.tcp.is_some_and(|t| t.seq.at_or_before(byte) && byte.before(t.seq_end()))
}

fn overlaps(p: &Packet, seq: SeqNum) -> bool {
    p.header.tcp.is_some_and(|t| t.payload > 0 && t.seq == seq)
}
