//! Our ends, with an application that asks for an object and one that answers.

use narrows_quic::{Config, Datagram, Endpoint, Io, QuicEvent, Role};
use narrows_units::{Ecn, Instant};

use crate::quinn::link::{self, Script};

/// Bytes of the request.
pub const REQUEST: u64 = 120;

#[derive(Default)]
struct Out {
    datagrams: Vec<(Datagram, usize)>,
    events: Vec<QuicEvent>,
}

impl Io for Out {
    fn send(&mut self, datagram: Datagram) {
        let len = datagram.len as usize;
        self.datagrams.push((datagram, len));
    }
    fn event(&mut self, event: QuicEvent) {
        self.events.push(event);
    }
}

pub struct Host {
    end: Endpoint,
    config: Config,
    side: Role,
    bytes: u64,
    came: u64,
}

impl Host {
    pub fn client(config: Config, script: &Script) -> Self {
        Self {
            end: Endpoint::new(&config, Role::Client),
            config,
            side: Role::Client,
            bytes: script.bytes,
            came: 0,
        }
    }
    pub fn server(config: Config, script: &Script) -> Self {
        Self { end: Endpoint::new(&config, Role::Server), side: Role::Server, ..Self::client(config, script) }
    }

    fn work(
        &mut self,
        now: u64,
        work: impl FnOnce(&mut Endpoint, &Config, Instant, &mut Out),
    ) -> Vec<(Datagram, usize)> {
        let (mut out, now) = (Out::default(), Instant::from_nanos(now));
        work(&mut self.end, &self.config, now, &mut out);
        for event in std::mem::take(&mut out.events) {
            match (self.side, event) {
                (Role::Client, QuicEvent::Established) => {
                    self.end.write_all(&self.config, now, REQUEST, &mut out);
                }
                (_, QuicEvent::Delivered { bytes }) => {
                    self.came += bytes;
                    if self.side == Role::Server && self.came == REQUEST {
                        self.end.write_all(&self.config, now, self.bytes, &mut out);
                    } else if self.side == Role::Client && self.came == self.bytes {
                        self.end.close(&self.config, now, &mut out);
                    }
                }
                _ => {}
            }
        }
        out.datagrams
    }
}

impl link::Host for Host {
    type Datagram = Datagram;
    fn open(&mut self, now: u64) -> Vec<(Datagram, usize)> {
        self.work(now, |end, config, now, out| end.open(config, now, out))
    }
    fn take(&mut self, now: u64, datagram: Datagram, marked: bool) -> Vec<(Datagram, usize)> {
        let ecn = if marked { Ecn::Ce } else { datagram.ecn };
        self.work(now, |end, config, now, out| end.receive(config, now, &datagram, ecn, out))
    }
    fn wake(&mut self, now: u64) -> Vec<(Datagram, usize)> {
        self.work(now, |end, config, now, out| end.wake(config, now, out))
    }
    fn wake_at(&mut self) -> Option<u64> {
        let at = self.end.wake_at(&self.config);
        (at != Instant::FAR_FUTURE).then(|| at.as_nanos())
    }
}
