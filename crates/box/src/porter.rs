//! The porter: sends what [`Greeter`] says to clients whose connections to port 80 were refused at the door.
//!
//! Its packets bear the server's address, so they leave by raw IP sockets. These are bound to the interface of the
//! users: an answer to a made-up address must not go out into the world.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::Context;
use narrows_qdisc::{AdmissionReport, Direction};
use narrows_units::{Duration, Instant};
use narrows_wire::Header;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto, setsockopt,
    socket, sockopt,
};

use super::answer::{Answer, Greeter, HTTP, Standing};

/// Answers in one second, of any kind: ten times what a thin link's users ask for. Beyond, a flood is dropped in
/// silence.
const ANSWERS_PER_SECOND: u32 = 1_000;
/// Segments are looked at for this long after the last refused SYN. A client that was answered has gone by then, and
/// with the door open no segment of any server can be mistaken for one of ours.
const LINGER: Duration = Duration::from_secs(120);
/// Places noted between two reports, against a flood.
const MOST_KNOWN: usize = 4096;
/// What is known of the line is asked for anew after this time.
const FRESH: Duration = Duration::from_millis(200);

/// The line at one direction's door, as last heard of.
#[derive(Debug, Default)]
struct Line {
    queue: HashMap<IpAddr, (usize, Option<Duration>)>,
    waiting: usize,
    heard: Option<Instant>,
}

impl Line {
    fn hear(&mut self, now: Instant, report: &AdmissionReport) {
        self.heard = Some(now);
        self.waiting = report.waiting;
        self.queue.clear();
        self.queue.extend(report.queue.iter().map(|p| (p.pool, (p.position, p.expected))));
    }

    /// A client was refused: if all who wait are known here and it is none of them, it is the last from now on.
    fn join(&mut self, client: IpAddr) {
        let all_known = self.queue.len() == self.waiting && self.waiting < MOST_KNOWN;
        if all_known && !self.queue.contains_key(&client) {
            self.waiting += 1;
            self.queue.insert(client, (self.waiting, self.last_wait()));
        }
    }

    fn last_wait(&self) -> Option<Duration> {
        self.queue.values().max_by_key(|p| p.0).and_then(|p| p.1)
    }

    /// Where a client stands; one that is not known here stands behind those who are.
    fn place_of(&self, client: IpAddr) -> (usize, Option<Duration>) {
        self.queue.get(&client).copied().unwrap_or_else(|| (self.waiting.max(1), self.last_wait()))
    }
}

/// One who turns people away politely.
#[derive(Debug)]
pub struct Porter {
    greeter: Greeter,
    v4: OwnedFd,
    v6: Option<OwnedFd>,
    lan: OsString,
    /// The wait to name where the door knows none, for each direction whose door is answered for.
    retry_after: [Option<Duration>; 2],
    lines: [Line; 2],
    /// The door to ask about.
    curious: Option<Direction>,
    last_refused: Option<Instant>,
    second: (u64, u32),
    answered: u64,
    failed: u64,
}

impl Porter {
    /// A porter for the users behind interface `lan`.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without that interface.
    pub fn new(lan: &str, secret: u64, retry_after: [Option<Duration>; 2]) -> anyhow::Result<Self> {
        let raw = |family| {
            socket(
                family,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
                Some(SockProtocol::Raw),
            )
        };
        let v4 = raw(AddressFamily::Inet)
            .context("http_503 = on: a raw IP socket is refused: run as root, or with CAP_NET_RAW")?;
        let porter = Self {
            greeter: Greeter::new(secret),
            v4,
            // A kernel without IPv6 has no such clients either.
            v6: raw(AddressFamily::Inet6).ok(),
            lan: lan.into(),
            retry_after,
            lines: Default::default(),
            curious: None,
            last_refused: None,
            second: (0, 0),
            answered: 0,
            failed: 0,
        };
        porter.bind().with_context(|| format!("http_503 = on: a raw IP socket cannot be bound to {lan}"))?;
        Ok(porter)
    }

    fn bind(&self) -> nix::Result<()> {
        for socket in std::iter::once(&self.v4).chain(&self.v6) {
            setsockopt(socket, sockopt::BindToDevice, &self.lan)?;
        }
        Ok(())
    }

    /// Binds anew: an interface that comes back has another number.
    pub fn links_changed(&self) {
        // While it is away there is nobody to answer, and what cannot be sent is counted.
        let _ = self.bind();
    }

    /// Changes whom to answer for.
    pub const fn answer_for(&mut self, retry_after: [Option<Duration>; 2]) {
        self.retry_after = retry_after;
    }

    /// A SYN on its way to the wide network was refused by the door of `door`.
    pub fn refused(&mut self, now: Instant, door: Direction, syn: &Header) {
        if self.retry_after[door as usize].is_none() || syn.key.dport != HTTP {
            return;
        }
        self.last_refused = Some(now);
        self.curious = Some(door);
        self.lines[door as usize].join(syn.key.src());
        if let Some(packet) = self.greeter.syn(syn) {
            self.send(now, syn.key.src(), &packet);
        }
    }

    /// A packet on its way to the wide network has come. Returns whether it belongs to a connection answered here: then
    /// nobody else may see it.
    pub fn takes(&mut self, now: Instant, header: &Header) -> bool {
        if header.key.dport != HTTP || self.last_refused.is_none_or(|t| now.since(t) > LINGER) {
            return false;
        }
        let (lines, retry_after) = (&self.lines, &self.retry_after);
        let Some(answer) = self.greeter.segment(header, |client| standing(lines, retry_after, client)) else {
            return false;
        };
        match answer {
            Answer::Page(packet) => {
                if self.send(now, header.key.src(), &packet) {
                    self.answered += 1;
                }
            }
            Answer::Ack(packet) => {
                self.send(now, header.key.src(), &packet);
            }
            Answer::Nothing => {}
        }
        true
    }

    /// The door whose line the porter wants to hear of now, a few times a second at most.
    pub fn asks(&mut self, now: Instant) -> Option<Direction> {
        let door = self.curious?;
        let heard = self.lines[door as usize].heard;
        if heard.is_some_and(|t| now.since(t) < FRESH) {
            return None;
        }
        self.curious = None;
        Some(door)
    }

    /// The line at a door.
    pub fn hear(&mut self, now: Instant, door: Direction, report: &AdmissionReport) {
        self.lines[door as usize].hear(now, report);
    }

    /// Connections answered 503.
    pub const fn answered(&self) -> u64 {
        self.answered
    }

    /// Answers that could not be sent.
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    fn send(&mut self, now: Instant, to: IpAddr, packet: &[u8]) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        self.second = if self.second.0 == second { (second, self.second.1 + 1) } else { (second, 1) };
        if self.second.1 > ANSWERS_PER_SECOND {
            return false;
        }
        let sent = match to {
            IpAddr::V4(a) => {
                let to = SockaddrIn::from(SocketAddrV4::new(a, 0));
                sendto(self.v4.as_raw_fd(), packet, &to, MsgFlags::empty()).is_ok()
            }
            IpAddr::V6(a) => self.v6.as_ref().is_some_and(|socket| {
                let to = SockaddrIn6::from(SocketAddrV6::new(a, 0, 0, 0));
                sendto(socket.as_raw_fd(), packet, &to, MsgFlags::empty()).is_ok()
            }),
        };
        self.failed += u64::from(!sent);
        sent
    }
}

/// The later of a client's places, and the longer of its waits.
fn standing(lines: &[Line; 2], retry_after: &[Option<Duration>; 2], client: IpAddr) -> Standing {
    let one = |d: Direction| {
        let retry_after = retry_after[d as usize]?;
        let (place, wait) = lines[d as usize].place_of(client);
        Some(Standing { position: place, wait: wait.unwrap_or(retry_after) })
    };
    let both = Direction::BOTH.into_iter().filter_map(one);
    both.reduce(|a, b| Standing { position: a.position.max(b.position), wait: a.wait.max(b.wait) })
        .unwrap_or(Standing { position: 1, wait: Duration::from_secs(1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_qdisc::WaitingPool;

    /// Hosts in the order of the line, each with the seconds it may expect to wait; 0 if nobody can tell.
    fn line(hosts: &[(u8, u64)], waiting: usize) -> Line {
        let one = |(i, &(host, secs)): (usize, &(u8, u64))| WaitingPool {
            pool: [10, 0, 0, host].into(),
            position: i + 1,
            waited: Duration::ZERO,
            expected: (secs > 0).then(|| Duration::from_secs(secs)),
        };
        let places = hosts.iter().enumerate().map(one).collect();
        let mut line = Line::default();
        line.hear(Instant::ZERO, &AdmissionReport { waiting, queue: places, ..AdmissionReport::default() });
        line
    }

    #[test]
    fn a_client_is_told_its_place_or_the_end_of_the_line() {
        let lines = [line(&[(1, 4), (2, 8)], 250), line(&[(1, 0)], 1)];
        let on = |down, up| [down, up].map(|on: bool| on.then(|| Duration::from_secs(3)));
        let ask = |on: [Option<Duration>; 2], host: u8| {
            let s = standing(&lines, &on, [10, 0, 0, host].into());
            (s.position, s.wait.as_millis() / 1000)
        };
        assert_eq!(ask(on(true, false), 1), (1, 4));
        assert_eq!(ask(on(true, false), 2), (2, 8));
        assert_eq!(ask(on(true, false), 9), (250, 8), "as long as the last that is known of");
        assert_eq!(ask(on(false, true), 1), (1, 3), "the door knows no wait");
        assert_eq!(ask(on(true, true), 1), (1, 4), "both");
    }

    #[test]
    fn who_came_since_the_last_report_stands_at_the_end() {
        let client = |host: u8| IpAddr::from([10, 0, 0, host]);
        let mut all = line(&[(1, 4)], 1);
        for host in [2, 3, 2] {
            all.join(client(host));
        }
        let four = Some(Duration::from_secs(4));
        assert_eq!([1, 2, 3].map(|h| all.place_of(client(h))), [(1, four), (2, four), (3, four)]);
        // Where not all are listed it may be one of the others.
        let mut long = line(&[(1, 4)], 7);
        long.join(client(2));
        assert_eq!(long.place_of(client(2)), (7, four));
    }
}
