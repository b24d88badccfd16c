//! Flows of TFRC, TCP-friendly rate control (RFC 5348): the ends in the place of TCP's.
//!
//! What is sent lasts and is never sent again; what arrives counts as delivered. Where the RFC leaves a choice: the
//! congestion-window-like damping of section 4.5 and the discounting of old intervals (5.5) are left out; the rate
//! before the first loss, from which the first interval follows, is that of the last round trip.

mod losses;
mod receiver;
mod sender;

use narrows_tcp::{EndpointCounters, TcpEvent};
use narrows_units::{Bytes, Ecn, Instant};

use crate::host_config::DATA;
use crate::packet::tfrc::{Data, Feedback, TfrcPacket};
use crate::packet::{NO_END, PayloadKind, Sealed};
use crate::port::{BARE_HEADERS, Port};
use crate::request::Request;
use receiver::Receiver;
use sender::Sender;

/// The two ends of a TFRC flow.
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

    /// Gives the end of `port` a packet.
    pub(crate) fn on_packet(&mut self, packet: &TfrcPacket, port: &mut Port<'_>) {
        let now = port.net.now;
        let event = match packet {
            TfrcPacket::Data(data) => {
                if let Some(feedback) = self.receiver.arrived(now, data) {
                    send(port, TfrcPacket::Feedback(feedback), 0);
                }
                TcpEvent::Delivered { bytes: data.size.into() }
            }
            TfrcPacket::Feedback(feedback) => {
                let sample = self.sender.hear(now, feedback);
                self.send_data(port);
                TcpEvent::RttSample(sample)
            }
        };
        port.events.push(event);
    }

    pub(crate) fn on_time(&mut self, port: &mut Port<'_>) {
        let now = port.net.now;
        if port.end == DATA {
            let expired = self.sender.expire(now);
            self.send_data(port);
            port.events.extend(expired.then_some(TcpEvent::Timeout { backoff: 1 }));
        } else if let Some(feedback) = self.receiver.expire(now) {
            send(port, TfrcPacket::Feedback(feedback), 0);
        }
    }

    pub(crate) fn on_request(&mut self, request: Request, port: &mut Port<'_>) {
        match request {
            Request::Open => port.events.push(TcpEvent::Established),
            Request::Write(_) => {
                self.sender.begin(port.net.now);
                self.send_data(port);
            }
            Request::Finish | Request::Close => self.sender.end(),
        }
    }

    /// Sends data, if data is due now.
    fn send_data(&mut self, port: &mut Port<'_>) {
        if let Some(data) = self.sender.send(port.net.now) {
            send(port, TfrcPacket::Data(data), self.size);
        }
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

    /// Window in packets: the allowed rate times the round trip. The threshold is infinite, as TFRC has none.
    pub(crate) fn windows(&self) -> (f64, f64) {
        let rtt = self.sender.rtt.unwrap_or_default().as_secs_f64();
        (self.sender.rate * rtt / f64::from(self.size), f64::INFINITY)
    }
}

fn send(port: &mut Port<'_>, packet: TfrcPacket, payload: u32) {
    let mut boxed = port.net.pool.take();
    let p = &mut *boxed.0;
    p.label = *port.label;
    p.label.kind = if payload > 0 { PayloadKind::Bulk } else { PayloadKind::Control };
    p.left = NO_END;
    (p.header.tcp, p.header.quic) = (None, None);
    p.header.len = Bytes(u64::from(BARE_HEADERS + payload));
    (p.header.ecn, p.header.dscp) = (Ecn::default(), p.label.dscp);
    p.sealed = Some(Box::new(Sealed::Tfrc(packet)));
    port.net.send(boxed);
}
