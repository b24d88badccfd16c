//! The 503 responder: sends what [`Http503`] says to clients whose connections to port 80 admission control refused.
//!
//! The answer's packets bear the server's address, so they leave by raw IP sockets. These are bound to the interface of
//! the users: an answer to a made-up address must not go out into the world.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::Context;
use narrows_units::{Duration, Instant};
use narrows_wire::Header;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto, setsockopt,
    socket, sockopt,
};

use super::http_503::{Answer, Http503, Standing, is_answerable};

/// Answers in one second, of any kind: ten times what a thin link's users ask for. Beyond, a flood is dropped in
/// silence.
const ANSWERS_PER_SECOND: u32 = 1_000;
/// Segments are looked at for this long after the last refused SYN. After it a client that was answered has gone, and
/// with nobody refused no segment of any server can be mistaken for one of ours.
const LINGER: Duration = Duration::from_secs(120);
/// Clients remembered in each of two generations, against a flood.
const MOST_KNOWN: usize = 4096;

/// Standings recently told to refused clients.
#[derive(Debug, Default)]
struct Told {
    young: HashMap<IpAddr, Standing>,
    old: HashMap<IpAddr, Standing>,
    /// Time at which `young` was begun.
    begun: Instant,
    /// Standing that was told last.
    last: Option<Standing>,
}

impl Told {
    fn note(&mut self, now: Instant, client: IpAddr, standing: Standing) {
        if self.young.len() >= MOST_KNOWN || now.since(self.begun) > LINGER {
            self.old = std::mem::take(&mut self.young);
            self.begun = now;
        }
        self.young.insert(client, standing);
        self.last = Some(standing);
    }

    /// Standing of a client. An unknown client was refused before those who are known, or a flood has hidden it: it
    /// hears what was told last.
    fn of(&self, client: IpAddr) -> Standing {
        let known = self.young.get(&client).or_else(|| self.old.get(&client)).copied();
        known.or(self.last).unwrap_or(Standing { position: 1, wait: Duration::from_secs(1) })
    }
}

/// Turns people away politely.
#[derive(Debug)]
pub struct Responder {
    pages: Http503,
    v4: OwnedFd,
    v6: Option<OwnedFd>,
    lan: OsString,
    /// Whether the responder answers new connections.
    on: bool,
    told: Told,
    last_refused: Option<Instant>,
    second: (u64, u32),
    answered: u64,
    failed: u64,
}

impl Responder {
    /// A responder for the users behind interface `lan`.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without that interface.
    pub fn new(lan: &str) -> anyhow::Result<Self> {
        let raw = |family| {
            socket(
                family,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
                Some(SockProtocol::Raw),
            )
        };
        let v4 = raw(AddressFamily::Inet)
            .context("http_503 = true: a raw IP socket is refused: run as root, or with CAP_NET_RAW")?;
        let responder = Self {
            pages: Http503::default(),
            v4,
            // A kernel without IPv6 has no such clients either.
            v6: raw(AddressFamily::Inet6).ok(),
            lan: lan.into(),
            on: true,
            told: Told::default(),
            last_refused: None,
            second: (0, 0),
            answered: 0,
            failed: 0,
        };
        responder
            .bind()
            .with_context(|| format!("http_503 = true: a raw IP socket cannot be bound to {lan}"))?;
        Ok(responder)
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

    /// Begins or ceases to answer new connections.
    pub const fn turn(&mut self, on: bool) {
        self.on = on;
    }

    /// Whether the sender of a packet on its way to the wide network would be answered if it were refused.
    #[must_use]
    pub fn answers(&self, header: &Header) -> bool {
        self.on && is_answerable(header)
    }

    /// A SYN that can be answered was refused: so the client stands in the wait queue.
    pub fn refused(&mut self, now: Instant, syn: &Header, standing: Standing) {
        self.last_refused = Some(now);
        self.told.note(now, syn.key.src(), standing);
        if let Some(packet) = self.pages.syn(syn) {
            self.send(now, syn.key.src(), &packet);
        }
    }

    /// Takes a packet on its way to the wide network if it belongs to a connection answered here. Returns whether
    /// it does: then it must go no further.
    pub fn takes(&mut self, now: Instant, header: &Header) -> bool {
        if self.last_refused.is_none_or(|t| now.since(t) > LINGER) {
            return false;
        }
        let Some(answer) = self.pages.segment(header, |client| self.told.of(client)) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn client(n: u16) -> IpAddr {
        [10, 0, (n >> 8) as u8, n as u8].into()
    }

    fn standing(position: usize) -> Standing {
        Standing { position, wait: Duration::from_secs(position as u64) }
    }

    #[test]
    fn a_client_hears_its_own_position_or_the_last_one_told() {
        let (mut told, now) = (Told::default(), Instant::ZERO);
        assert_eq!(told.of(client(1)).position, 1, "nobody was refused");
        for n in [1, 2, 3] {
            told.note(now, client(n), standing(n.into()));
        }
        // The first two were admitted meanwhile; the third asks again.
        told.note(now, client(3), standing(1));
        assert_eq!([1, 2, 3, 9].map(|n| told.of(client(n)).position), [1, 2, 1, 1]);
    }

    #[test]
    fn a_flood_of_made_up_addresses_takes_no_more_memory() {
        let (mut told, now) = (Told::default(), Instant::ZERO);
        for n in 0..60_000 {
            told.note(now, client(n), standing(n.into()));
            // A client that asks again now and then is not forgotten for the others.
            if n % 4000 == 0 {
                told.note(now, client(7), standing(2));
            }
            assert!(told.young.len() + told.old.len() <= 2 * MOST_KNOWN);
        }
        assert_eq!(told.of(client(7)), standing(2));
        // Standings told long ago are forgotten when other clients are refused.
        let later = now + LINGER + LINGER;
        told.note(later, client(1), standing(1));
        told.note(later + LINGER + LINGER, client(2), standing(1));
        assert!(told.young.len() + told.old.len() <= 2);
    }
}
