//! Calls for connections that live: a SYN with the addresses and ports of one that both ends still use.
//!
//! It may be that its end has begun anew. It may as well be that a stranger has written it, who knows no more than the
//! ports: the end that is called answers with what it expects, and the connection goes on (RFC 5961, section 4). So the
//! record begins anew with the answer, which only the end that was called can write: it has the number of the call.

use narrows_units::Instant;
use narrows_wire::TcpHeader;

use crate::FlowId;
use crate::handshake::answers;

/// Calls that wait for an answer. An answer comes within a round trip; who floods with calls has the latest only.
const PLACES: usize = 64;

/// The end that calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The sender of the queued direction.
    Sender,
    /// The receiver.
    Receiver,
}

/// A call that was not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) id: FlowId,
    /// How often the flow's slot had been given to a flow.
    pub(crate) generation: u32,
    pub(crate) caller: Caller,
    /// Time at which the call passed; the field `syn` is the call's SYN.
    pub(crate) at: Instant,
    pub(crate) syn: TcpHeader,
}

/// The latest calls for connections that live.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    calls: Vec<Call>,
    next: usize,
}

impl Calls {
    /// Notes a call for a flow; the same one again counts as the latest.
    #[cold]
    pub(crate) fn note(&mut self, call: Call) {
        let same = |known: &Call| {
            (known.id, known.generation, known.caller, known.syn.seq)
                == (call.id, call.generation, call.caller, call.syn.seq)
        };
        if let Some(known) = self.calls.iter_mut().find(|known| same(known)) {
            *known = call;
        } else if self.calls.len() < PLACES {
            self.calls.push(call);
        } else {
            self.calls[self.next] = call;
            self.next = (self.next + 1) % PLACES;
        }
    }

    /// Takes the call that a SYN-ACK answers, if there is one.
    #[cold]
    pub(crate) fn take(
        &mut self,
        id: FlowId,
        generation: u32,
        caller: Caller,
        answer: &TcpHeader,
    ) -> Option<Call> {
        let answered = |call: &Call| {
            (call.id, call.generation, call.caller) == (id, generation, caller)
                && answers(answer, call.syn.seq)
        };
        let at = self.calls.iter().position(answered)?;
        self.next = 0;
        Some(self.calls.swap_remove(at))
    }
}
