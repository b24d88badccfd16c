//! Log of the repairs of TCP senders and their causes: the truth against which a diagnosis of a capture is measured.

use core::net::SocketAddr;

use narrows_tcp::TcpEvent;
use narrows_units::Instant;

use super::report::{Tables, integers, numbers, words};
use crate::ids::HostId;
use crate::packet::{Label, address};

/// Most repairs kept; later ones are left out.
const MOST: usize = 4 << 20;

/// A timeout, a fast retransmit or a tail-loss probe.
#[derive(Clone, Copy, Debug)]
struct Repair {
    at: Instant,
    /// Host and port.
    from: (HostId, u16),
    to: (HostId, u16),
    event: TcpEvent,
}

/// Log of all repairs; empty unless a log of repairs is asked for.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    pub(super) on: bool,
    list: Vec<Repair>,
}

impl Repairs {
    /// Adds an event of an end whose packets begin with `label`.
    pub(crate) fn note(&mut self, at: Instant, label: &Label, event: TcpEvent) {
        if self.on && self.list.len() < MOST {
            let (from, to) = ((label.src, label.ports.0), (label.dst, label.ports.1));
            self.list.push(Repair { at, from, to, event });
        }
    }

    /// Adds the repairs of another part; [`Repairs::settle`] puts the repairs in order.
    pub(super) fn absorb(&mut self, other: Self) {
        self.list.extend(other.list);
    }

    /// Orders the repairs by time, when all parts are there, and drops those beyond the limit.
    pub(super) fn settle(&mut self) {
        self.list.sort_by_key(|repair| repair.at);
        self.list.truncate(MOST);
    }

    pub(super) fn report(&self, out: &mut Tables) {
        if !self.on {
            return;
        }
        let r = || self.list.iter();
        let end =
            |(host, port): (HostId, u16)| SocketAddr::new(address(host).to_canonical(), port).to_string();
        let name = |event: TcpEvent| match event {
            TcpEvent::FastRetransmit => "fast_retransmit",
            TcpEvent::TailProbe => "tail_probe",
            _ => "timeout",
        };
        let backoff = |event: TcpEvent| if let TcpEvent::Timeout { backoff } = event { backoff } else { 1 };
        let columns = vec![
            numbers("time_s", r().map(|r| r.at.as_secs_f64())),
            words("from", r().map(|r| end(r.from))),
            words("to", r().map(|r| end(r.to))),
            words("repair", r().map(|r| name(r.event).to_owned())),
            integers("backoff", r().map(|r| backoff(r.event).into())),
        ];
        out.table("repairs", columns);
    }
}
