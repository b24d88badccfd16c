//! Bytes that a handshake brings: once a server's part of it has reached the user, the server's first flight follows,
//! up to ten packets (RFC 6928; RFC 9002, section 7.2), which no acknowledgment paces.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};
use narrows_wire::{Flags, Header, QuicPacket};

/// Connections that are remembered, by hash: one that has another's place is as new.
const FLOWS: usize = 4096;
/// Weight of one first flight in the average.
const NEW: f64 = 1.0 / 16.0;
/// Time after a handshake for which other first flights are expected.
const COME_FOR: Duration = Duration::from_secs(2);

/// First flight of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    flow: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// The user has asked for a connection.
    Asked,
    /// Bytes that have come while none have left for the user.
    Coming { bytes: u64 },
    /// Bytes that have come by `until`: later ones may have been asked for by an acknowledgment.
    Leaving { bytes: u64, until: Instant },
    /// The flight counts in the average.
    #[default]
    Over,
}

/// First flights of all connections.
#[derive(Debug)]
pub(super) struct FirstFlights {
    flights: Box<[Flight]>,
    /// Places of flights that leave, in the order in which they began to.
    leaving: VecDeque<usize>,
    /// Average of their bytes, once one is known.
    average: Option<f64>,
    /// Last handshake, and whether that is short ago.
    opened_at: Instant,
    come: bool,
}

impl FirstFlights {
    /// A memory of nothing.
    pub fn new() -> Self {
        Self {
            flights: vec![Flight::default(); FLOWS].into(),
            leaving: VecDeque::new(),
            average: None,
            opened_at: Instant::ZERO,
            come: false,
        }
    }

    /// Bytes of a first flight on average, while some come.
    pub fn expected(&self) -> f64 {
        self.average.filter(|_| self.come).unwrap_or_default()
    }

    /// Notes that a user asks for a connection.
    pub fn asks(&mut self, flow: u64) {
        let flight = &mut self.flights[flow as usize % FLOWS];
        if flight.flow != flow {
            *flight = Flight { flow, state: State::Asked };
        }
    }

    /// Notes that a packet of a connection leaves for the user; what data bring comes back no sooner than after
    /// `answered`. Returns the bytes of the first flight that the packet brings.
    pub fn leaves(&mut self, now: Instant, header: &Header, flow: u64, answered: Duration) -> u64 {
        let brings = if opens(header) { self.opens(now, flow) } else { 0 };
        if carries(header) {
            self.departs(now, flow, answered);
        }
        brings
    }

    /// Notes that the server's part of a handshake leaves for the user. Returns the bytes that follow on average; none
    /// if that part has left before, or the user has not asked.
    fn opens(&mut self, now: Instant, flow: u64) -> u64 {
        let flight = &mut self.flights[flow as usize % FLOWS];
        if flight.flow != flow || !matches!(flight.state, State::Asked) {
            return 0;
        }
        flight.state = State::Coming { bytes: 0 };
        (self.opened_at, self.come) = (now, true);
        self.average.unwrap_or_default() as u64
    }

    /// Notes that `bytes` of a connection have come.
    pub fn arrives(&mut self, now: Instant, flow: u64, bytes: u64) {
        self.come &= now.since(self.opened_at) < COME_FOR;
        while let Some(place) = self.leaving.front().copied()
            && self.ends(now, place)
        {
            self.leaving.pop_front();
        }
        let flight = &mut self.flights[flow as usize % FLOWS];
        if let State::Coming { bytes: known } | State::Leaving { bytes: known, .. } = &mut flight.state
            && flight.flow == flow
        {
            *known += bytes;
        }
    }

    /// Adds the flight at a place to the average, once no more of it can come. Returns whether the flight is over.
    fn ends(&mut self, now: Instant, place: usize) -> bool {
        let State::Leaving { bytes, until } = self.flights[place].state else { return true };
        if now <= until {
            return false;
        }
        let sample = bytes as f64;
        self.average = Some(self.average.map_or(sample, |known| known + (sample - known) * NEW));
        self.flights[place].state = State::Over;
        true
    }

    /// Notes that data of a connection leave for the user; what they bring comes back no sooner than after `answered`.
    fn departs(&mut self, now: Instant, flow: u64, answered: Duration) {
        let place = flow as usize % FLOWS;
        let flight = &mut self.flights[place];
        if let State::Coming { bytes } = flight.state
            && flight.flow == flow
        {
            flight.state = State::Leaving { bytes, until: now + answered };
            self.leaving.push_back(place);
        }
    }
}

/// Whether a packet from a user asks for a connection.
pub(super) fn asks(header: &Header) -> bool {
    let tcp = header.tcp.is_some_and(|tcp| tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::ACK));
    tcp || header.quic == Some(QuicPacket::Initial)
}

/// Whether a packet from a server is its part of a handshake, which lets the user ask.
fn opens(header: &Header) -> bool {
    let accepts = header.tcp.is_some_and(|tcp| tcp.flags.has(Flags::SYN.and(Flags::ACK)));
    accepts || header.quic == Some(QuicPacket::Initial)
}

/// Whether a packet may carry what the user asked for after the handshake.
fn carries(header: &Header) -> bool {
    header.tcp.is_some_and(|tcp| tcp.payload > 0) || matches!(header.quic, Some(QuicPacket::Short { .. }))
}

#[cfg(test)]
mod tests {
    use narrows_wire::TcpHeader;

    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    /// A handshake, `packets` of 1000 bytes, the first of which leaves, another in time and one that was answered.
    fn connects(flights: &mut FirstFlights, at: u64, flow: u64, packets: u64) -> u64 {
        flights.asks(flow);
        let brings = flights.opens(ms(at), flow);
        (0..packets).for_each(|n| flights.arrives(ms(at + 20 + n), flow, 1000));
        flights.departs(ms(at + 20), flow, Duration::from_millis(50));
        flights.arrives(ms(at + 70), flow, 1000);
        flights.departs(ms(at + 70), flow, Duration::from_millis(50));
        flights.arrives(ms(at + 71), flow, 1000);
        brings
    }

    #[test]
    fn a_handshake_brings_what_others_brought_on_average() {
        let mut flights = FirstFlights::new();
        assert_eq!(connects(&mut flights, 0, 1, 3), 0, "nothing is known yet");
        // 3000 bytes and the one that came in the last millisecond; what came after that had been asked for.
        assert_eq!(connects(&mut flights, 100, 2, 3), 4000);
        assert_eq!(connects(&mut flights, 200, 3, 19), 4000);
        assert_eq!(connects(&mut flights, 300, 4, 1), 5000, "a sixteenth of 16 000 more");
    }

    #[test]
    fn a_flight_after_which_nothing_comes_counts_too() {
        let mut flights = FirstFlights::new();
        flights.asks(1);
        assert_eq!(flights.opens(ms(0), 1), 0);
        (0..3).for_each(|n| flights.arrives(ms(20 + n), 1, 1000));
        flights.departs(ms(25), 1, Duration::from_millis(50));
        flights.arrives(ms(75), 9, 1000);
        (2..4).for_each(|flow| flights.asks(flow));
        assert_eq!(flights.opens(ms(75), 2), 0, "more may come");
        flights.arrives(ms(76), 9, 1000);
        assert_eq!(flights.opens(ms(76), 3), 3000);
    }

    #[test]
    fn a_handshake_that_leaves_again_brings_nothing_more() {
        let mut flights = FirstFlights::new();
        connects(&mut flights, 0, 1, 3);
        (2..4).for_each(|flow| flights.asks(flow));
        assert_eq!(flights.opens(ms(200), 2), 4000);
        flights.asks(2);
        assert_eq!(flights.opens(ms(1200), 2), 0);
        connects(&mut flights, 2000, 1, 99);
        assert_eq!(flights.opens(ms(2500), 3), 4000, "a connection that went on is no first flight");
    }

    #[test]
    fn what_nobody_asked_for_brings_nothing() {
        let mut flights = FirstFlights::new();
        connects(&mut flights, 0, 1, 3);
        assert_eq!(flights.opens(ms(5000), 2), 0, "sent by somebody outside, to users or for them");
        assert_eq!(flights.expected(), 4000.0);
        flights.arrives(ms(5000), 2, 60);
        assert_eq!(flights.expected(), 0.0);
    }

    #[test]
    fn first_flights_are_expected_while_they_come() {
        let mut flights = FirstFlights::new();
        assert_eq!(flights.expected(), 0.0);
        connects(&mut flights, 0, 1, 3);
        flights.arrives(ms(1999), 9, 1000);
        assert_eq!(flights.expected(), 4000.0);
        flights.arrives(ms(2000), 9, 1000);
        assert_eq!(flights.expected(), 0.0);
        flights.asks(2);
        flights.opens(ms(9000), 2);
        assert_eq!(flights.expected(), 4000.0);
    }

    #[test]
    fn a_users_and_a_servers_part_of_a_handshake_are_known() {
        let tcp = |flags, payload| {
            let tcp = TcpHeader { flags, payload, ..TcpHeader::default() };
            let header = Header { tcp: Some(tcp), ..Header::default() };
            (asks(&header), opens(&header), carries(&header))
        };
        assert_eq!(tcp(Flags::SYN.and(Flags::ACK), 0), (false, true, false));
        assert_eq!(tcp(Flags::SYN, 0), (true, false, false));
        assert_eq!(tcp(Flags::ACK, 0), (false, false, false));
        assert_eq!(tcp(Flags::ACK, 1448), (false, false, true));
        let quic = |packet| {
            let header = Header { quic: Some(packet), ..Header::default() };
            (asks(&header), opens(&header), carries(&header))
        };
        assert_eq!(quic(QuicPacket::Initial), (true, true, false), "both sides' first packets are alike");
        assert_eq!(quic(QuicPacket::Handshake), (false, false, false));
        assert_eq!(quic(QuicPacket::Short { spin: false }), (false, false, true));
        let other = Header::default();
        assert_eq!((asks(&other), opens(&other), carries(&other)), (false, false, false));
    }
}
