//! The seam between a discipline and whatever drives it: a live box, a simulator or a replay.
//!
//! `now` never decreases between calls. A driver that calls at arrivals and at the instants [`Qdisc::next_ready`] and
//! [`ReversePath::next_release`] name sees exactly what one that polls without pause sees. An instant at or before
//! `now` means at once; `None` means that only an arrival can change anything.

use core::any::Any;

use narrows_units::{Bytes, Dscp, Instant};
use narrows_users::{CircuitId, User};
use narrows_wire::{FlowKey, Header};

use crate::follow::Decision;
use crate::users::CircuitRates;
use crate::{Backlog, Report, ShaperConfig, Verdicts};

/// A packet as a discipline sees it: the headers, read once, and the few changes that a middlebox may make.
pub trait Packet {
    /// The headers of the packet. After a successful change the headers show the new value.
    fn header(&self) -> &Header;
    /// Marks congestion experienced; `false` if the packet is not ECN-capable.
    fn mark_ce(&mut self) -> bool;
    /// Sets the TCP window field (unscaled, as on the wire); `false` if that cannot be done, as within a tunnel.
    fn set_window(&mut self, window: u16) -> bool;
    /// Sets TSval; `false` if the packet has no timestamp option or cannot be changed, as within a tunnel.
    fn set_tsval(&mut self, tsval: u32) -> bool;
    /// Sets the class of service; `false` if the packet cannot be changed.
    fn set_dscp(&mut self, dscp: Dscp) -> bool;
    /// Whether the driver can answer the sender if the packet is refused, so that the packet need not be held.
    fn answerable(&self) -> bool {
        false
    }
    /// The circuit of the packet's user, where the driver knows circuits and this is one's.
    fn circuit(&self) -> Option<CircuitId> {
        None
    }
    /// The packet's user, where the driver knows more than its addresses say: a circuit, or whose an address is.
    fn user(&self) -> Option<User> {
        self.circuit().map(User::circuit)
    }
    /// Length of the IP packet.
    fn len(&self) -> Bytes {
        self.header().len
    }
    /// Whether the packet has no bytes; no IP packet is.
    fn is_empty(&self) -> bool {
        self.len() == Bytes::ZERO
    }
}

/// Distance of a packet that was received together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// [`Ahead::FAR`] packets: time to look into an index.
    Far,
    /// [`Ahead::NEAR`] packets: and then for records.
    Near,
}

impl Ahead {
    /// Packets.
    pub const FAR: usize = 4;
    /// Packets.
    pub const NEAR: usize = 2;
}

/// A queue for one direction of a link.
pub trait Qdisc<P: Packet> {
    /// Announces a packet of `flow`, or one that answers the flow: the flow's records may be fetched from memory
    /// meanwhile. Nothing but speed depends on it.
    fn coming(&self, _flow: &FlowKey, _ahead: Ahead) {}

    /// Takes a packet into the queue.
    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>);

    /// The next packet to send, if one may leave now.
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P>;

    /// Time at which calling [`Qdisc::dequeue`] again makes sense: now, as long as anything waits. A discipline that
    /// holds packets back, and a wrapper of a discipline, override this.
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        (self.backlog().packets > 0).then_some(now)
    }

    /// Backlog: packets and bytes that wait to be sent.
    fn backlog(&self) -> Backlog;
}

/// Treatment of the other direction's packets by a discipline. Most have none.
pub trait ReversePath<P: Packet> {
    /// Shows a packet of the other direction before the packet goes on, where the box sees it. The discipline may
    /// change the packet (the window clamp), keep it (a SYN that has to wait, see [`ReversePath::release`]) or refuse
    /// it.
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P>;

    /// Packets wait in the queue of the other direction: the next one that is shown comes behind them. For disciplines
    /// that time how long what passes takes.
    fn behind_others(&mut self) {}

    /// Says whether the slow link lies before the box: what senders have under way waits there then, not in the queue.
    fn link_is_before(&mut self, _before: bool) {}

    /// Whether the sender of a packet that has just left may send more once the packet is acknowledged. Not if the
    /// discipline holds the sender back.
    fn brings_more(&self, _left: &Header) -> bool {
        true
    }

    /// A packet of the other direction that was kept and may go now. What was kept of the own direction moves into the
    /// queue at this call. This and the three methods below are for disciplines that keep packets.
    fn release(&mut self, _now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        None
    }

    /// Time at which [`ReversePath::release`] is worth calling again.
    fn next_release(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Number of packets that are kept, of either direction. Held packets are no part of the backlog, because they do
    /// not load this link.
    fn held(&self) -> usize {
        0
    }

    /// Lets all that is kept go, in order: [`ReversePath::release`] gives it out from now on. For a driver that takes
    /// the discipline apart.
    fn release_all(&mut self, _now: Instant) {}
}

/// Questions of an operator to a discipline, which no packet asks.
pub trait Manage {
    /// Counters and state of the discipline, for status and pages. May cost more than a packet; drivers call it about
    /// once a second.
    fn report(&mut self, now: Instant) -> Report;

    /// Does as `settings` say from now on, on this link, and keeps what waits and what it knows. The settings are those
    /// of any discipline ([`Spec::settings`](crate::Spec::settings)): each discipline looks for its own type. `false`
    /// if it cannot: then nothing has changed, and the driver moves what waits to a new discipline.
    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool;

    /// Knowledge of flows and users, for a discipline of its kind in another process that takes its place; packets
    /// that wait are not in it. `None` if it knows nothing that lasts. May take time in proportion to its tables.
    fn export(&self, _now: Instant) -> Option<Vec<u8>> {
        None
    }

    /// Goes on with what another one has told, before the first packet. `false` if it cannot be read: then it is as
    /// new.
    fn import(&mut self, _now: Instant, _knowledge: &[u8]) -> bool {
        false
    }

    /// Sets the rates of circuits, by number. A discipline that shares nothing between users ignores the rates.
    fn set_circuit_rates(&mut self, _rates: &CircuitRates) {}

    /// Records decisions from now on, or no longer. A discipline that follows no link makes none.
    fn record_decisions(&mut self, _record: bool) {}

    /// The oldest decision that was recorded and not fetched. A discipline keeps some seconds of them.
    fn next_decision(&mut self) -> Option<Decision> {
        None
    }

    /// Decisions that were recorded and not fetched in time.
    fn decisions_lost(&self) -> u64 {
        0
    }
}

/// The methods of [`Manage`] named here, handed on as they are to what a discipline has within, in its own `impl`:
/// `forward!(inner: export, import);`.
#[macro_export]
macro_rules! forward {
    ($inner:tt: $($method:ident),+) => { $($crate::forward!(@ $inner $method);)+ };
    (@ $inner:tt export) => {
        fn export(&self, now: ::narrows_units::Instant) -> Option<Vec<u8>> {
            self.$inner.export(now)
        }
    };
    (@ $inner:tt import) => {
        fn import(&mut self, now: ::narrows_units::Instant, knowledge: &[u8]) -> bool {
            self.$inner.import(now, knowledge)
        }
    };
    (@ $inner:tt set_circuit_rates) => {
        fn set_circuit_rates(&mut self, rates: &$crate::CircuitRates) {
            self.$inner.set_circuit_rates(rates);
        }
    };
}

/// A discipline as a driver holds it, complete.
pub trait Discipline<P: Packet>: Qdisc<P> + Manage {
    /// The reverse path of a discipline that has one; always the same answer.
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        None
    }

    /// The reverse path, to call.
    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        None
    }
}

/// A discipline whose kind is chosen at run time.
pub type BoxedDiscipline<P> = Box<dyn Discipline<P> + Send>;
