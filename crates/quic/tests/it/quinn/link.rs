//! A link in virtual time that does what it is told, and the hosts at its ends.

use std::collections::BTreeMap;
use std::fmt;

/// Transfer of an object: its size, the link, and the datagrams that are lost or marked.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Bytes of the object.
    pub bytes: u64,
    /// Datagrams of the server that are lost, and that are marked, numbered from 0.
    pub drop: Vec<usize>,
    pub mark: Vec<usize>,
    /// Datagrams of the client that are lost.
    pub drop_back: Vec<usize>,
    /// Bits per second towards the client.
    pub rate: Option<u64>,
    /// NewReno; else CUBIC.
    pub reno: bool,
    /// Whether the ends search for the path's MTU.
    pub mtu_search: bool,
}

/// One way, nanoseconds.
const DELAY: u64 = 50_000_000;
/// End of a run, in nanoseconds; no run takes as long.
const END: u64 = 120_000_000_000;

/// A datagram that left an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    pub at: u64,
    pub server: bool,
    pub len: usize,
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.server { "server" } else { "client" };
        write!(f, "{:>12.3} ms {who} {:>5}", self.at as f64 / 1e6, self.len)
    }
}

/// An end. Time is in nanoseconds since the beginning; what leaves comes with its length.
pub trait Host {
    type Datagram;
    /// The client opens its connection.
    fn open(&mut self, now: u64) -> Vec<(Self::Datagram, usize)>;
    fn take(&mut self, now: u64, datagram: Self::Datagram, marked: bool) -> Vec<(Self::Datagram, usize)>;
    fn wake(&mut self, now: u64) -> Vec<(Self::Datagram, usize)>;
    fn wake_at(&mut self) -> Option<u64>;
}

struct Wire<D> {
    log: Vec<Departure>,
    /// Datagrams under way, by time of arrival and order of departure: to the server or not, marked.
    flying: BTreeMap<(u64, usize), (bool, D, bool)>,
    count: [usize; 2],
    free: u64,
}

impl<D> Wire<D> {
    fn carry(&mut self, script: &Script, now: u64, server: bool, out: Vec<(D, usize)>) {
        for (datagram, len) in out {
            self.log.push(Departure { at: now, server, len });
            let number = self.count[usize::from(server)];
            self.count[usize::from(server)] += 1;
            let lost = if server { &script.drop } else { &script.drop_back };
            if lost.contains(&number) {
                continue;
            }
            let mut sent = now;
            if let (true, Some(rate)) = (server, script.rate) {
                self.free = self.free.max(now) + (len as u64 + 28) * 8_000_000_000 / rate;
                sent = self.free;
            }
            let marked = server && script.mark.contains(&number);
            self.flying.insert((sent + DELAY, self.log.len()), (!server, datagram, marked));
        }
    }
}

/// Lets both ends talk until nothing more happens; everything that left.
pub fn play<H: Host>(mut client: H, mut server: H, script: &Script) -> Vec<Departure> {
    let mut wire = Wire { log: Vec::new(), flying: BTreeMap::new(), count: [0; 2], free: 0 };
    let first = client.open(0);
    wire.carry(script, 0, false, first);
    loop {
        let arrival = wire.flying.first_key_value().map(|(key, _)| key.0);
        let wakes = [client.wake_at(), server.wake_at()];
        let Some(now) = [arrival, wakes[0], wakes[1]].into_iter().flatten().min().filter(|at| *at < END)
        else {
            return wire.log;
        };
        if arrival == Some(now) {
            let Some((_, (to_server, datagram, marked))) = wire.flying.pop_first() else { return wire.log };
            let host = if to_server { &mut server } else { &mut client };
            let out = host.take(now, datagram, marked);
            wire.carry(script, now, to_server, out);
        } else {
            let is_server = wakes[0] != Some(now);
            let out = if is_server { server.wake(now) } else { client.wake(now) };
            wire.carry(script, now, is_server, out);
        }
    }
}
