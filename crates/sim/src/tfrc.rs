//! Flows of TFRC, TCP-friendly rate control (RFC 5348): the ends in the place of TCP's.
//!
//! What is sent lasts and is never sent again; what arrives counts as delivered. Where the RFC leaves a choice: the
//! congestion-window-like damping of section 4.5 and the discounting of old intervals (5.5) are left out; the rate
//! before the first loss, from which the first interval follows, is that of the last round trip.

mod losses;
mod receiver;
mod sender;

use narrows_tcp::{EndpointCounters, TcpEvent};
use narrows_units::{Bytes, Duration, Ecn, Instant};

use crate::connection::{BARE_HEADERS, Connection, DATA};
use crate::network::Network;
use crate::packet::{Label, NO_END, PayloadKind, Sealed};
use crate::quic::Ask;
use crate::world::World;
use receiver::Receiver;
use sender::Sender;

/// What a data packet says (section 3.2.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    seq: u64,
    /// Payload, bytes.
    size: u32,
    sent: Instant,
    /// The sender's round trip, zero before it has one.
    rtt: Duration,
}

/// What feedback says (section 3.2.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feedback {
    /// When the latest packet was sent that had come, and for how long that has been kept.
    of: Instant,
    delay: Duration,
    /// Bytes a second that came, X_recv.
    received: f64,
    /// Loss events a packet, p.
    loss: f64,
}

/// A packet of TFRC.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TfrcPacket {
    Data(Data),
    Feedback(Feedback),
}

/// Both ends of a flow.
#[derive(Debug)]
pub(crate) struct TfrcEnds {
    sender: Sender,
    receiver: Receiver,
    /// Payload of a packet.
    size: u32,
}

impl TfrcEnds {
    pub(crate) fn new(size: u32) -> Self {
        Self { sender: Sender::new(size), receiver: Receiver::new(size), size }
    }

    pub(crate) fn wake_at(&self, end: usize) -> Instant {
        if end == DATA { self.sender.wake_at() } else { self.receiver.report_at }
    }

    /// An expiry of the nofeedback timer counts as a timeout.
    pub(crate) fn counters(&self, end: usize) -> EndpointCounters {
        let sender = &self.sender;
        if end == DATA {
            EndpointCounters {
                data_sent: sender.sent,
                timeouts: sender.expired,
                ..EndpointCounters::default()
            }
        } else {
            EndpointCounters::default()
        }
    }

    /// What it may send in a round trip, packets; no threshold.
    pub(crate) fn windows(&self) -> (f64, f64) {
        let rtt = self.sender.rtt.unwrap_or_default().as_secs_f64();
        (self.sender.rate * rtt / f64::from(self.size), f64::INFINITY)
    }
}

impl World {
    /// Asks something of an end of a flow of TFRC, and does what follows.
    pub(crate) fn ask_tfrc(&mut self, place: u32, end: usize, what: Ask) {
        match what {
            Ask::Open => self.work_tfrc(place, end, |_, _| Some(TcpEvent::Established)),
            Ask::Write(_) => self.work_tfrc(place, end, |ends, at| {
                ends.sender.begin(at.now());
                at.data(ends);
                None
            }),
            Ask::Finish | Ask::Close => self.work_tfrc(place, end, |ends, _| {
                ends.sender.end();
                None
            }),
            Ask::Wake if end == DATA => self.work_tfrc(place, end, |ends, at| {
                let expired = ends.sender.expire(at.now());
                at.data(ends);
                expired.then_some(TcpEvent::Timeout { backoff: 1 })
            }),
            Ask::Wake => self.work_tfrc(place, end, |ends, at| {
                if let Some(feedback) = ends.receiver.expire(at.now()) {
                    at.send(TfrcPacket::Feedback(feedback), 0);
                }
                None
            }),
        }
    }

    /// A packet of TFRC is at its host.
    pub(crate) fn deliver_tfrc(&mut self, label: &Label, packet: &TfrcPacket) {
        let Label { flow, generation, end, .. } = *label;
        if let TfrcPacket::Data(data) = packet {
            self.probes.arrived += u64::from(data.size);
        }
        if self.connections.get(flow as usize).is_none_or(|c| !c.live || c.generation != generation) {
            return;
        }
        self.work_tfrc(flow, usize::from(end), |ends, at| match packet {
            TfrcPacket::Data(data) => {
                if let Some(feedback) = ends.receiver.arrived(at.now(), data) {
                    at.send(TfrcPacket::Feedback(feedback), 0);
                }
                Some(TcpEvent::Delivered { bytes: data.size.into() })
            }
            TfrcPacket::Feedback(feedback) => {
                let sample = ends.sender.hear(at.now(), feedback);
                at.data(ends);
                Some(TcpEvent::RttSample(sample))
            }
        });
    }

    fn work_tfrc(
        &mut self,
        place: u32,
        end: usize,
        work: impl FnOnce(&mut TfrcEnds, &mut Around<'_>) -> Option<TcpEvent>,
    ) {
        let connection = &mut self.connections[place as usize];
        let (generation, first) = (connection.generation, self.events.len());
        let Connection { other, labels, .. } = connection;
        let Some(ends) = other.as_deref_mut().and_then(|other| other.tfrc()) else { return };
        let event = work(ends, &mut Around { net: &mut self.net, label: &labels[end] });
        self.events.extend(event);
        connection.ask_to_be_woken(place, end, &mut self.net);
        if self.events.len() > first {
            self.follow_all(place, end, generation, first);
        }
    }
}

/// Where an end's packets go.
struct Around<'a> {
    net: &'a mut Network,
    label: &'a Label,
}

impl Around<'_> {
    fn now(&self) -> Instant {
        self.net.now
    }

    /// Sends data, if it is time.
    fn data(&mut self, ends: &mut TfrcEnds) {
        if let Some(data) = ends.sender.send(self.now()) {
            self.send(TfrcPacket::Data(data), ends.size);
        }
    }

    fn send(&mut self, packet: TfrcPacket, payload: u32) {
        let mut boxed = self.net.pool.take();
        let p = &mut *boxed.0;
        p.label = *self.label;
        p.label.kind = if payload > 0 { PayloadKind::Bulk } else { PayloadKind::Control };
        p.left = NO_END;
        (p.header.tcp, p.header.quic) = (None, None);
        p.header.len = Bytes(u64::from(BARE_HEADERS + payload));
        (p.header.ecn, p.header.dscp) = (Ecn::default(), p.label.dscp);
        p.sealed = Some(Box::new(Sealed::Tfrc(packet)));
        self.net.send(boxed);
    }
}
