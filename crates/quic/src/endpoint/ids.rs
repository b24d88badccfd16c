//! Connection ids, as far as somebody can tell them apart on the wire: how many are to be given out, and whether the
//! first one was replaced (RFC 9000, section 5.1).

/// Connection ids of the end and of the end's peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionIds {
    /// Ids to issue once all else that is due has left.
    due: u8,
    /// Whether the peer's first id is no longer used.
    retired: bool,
}

impl ConnectionIds {
    /// Queues `ids` connection ids to be issued, now that there are keys.
    pub(super) const fn issue(&mut self, ids: u8) {
        self.due = ids;
    }
    /// The peer has retired one, in the place of which another is to be issued.
    pub(super) const fn replace(&mut self) {
        self.due = self.due.saturating_add(1);
    }
    /// Takes the number of ids to issue, which is zero from then on.
    pub(super) const fn take_due(&mut self) -> u8 {
        core::mem::replace(&mut self.due, 0)
    }
    /// Stops the use of the peer's first id; tells whether the id was in use until now.
    pub(super) const fn retire(&mut self) -> bool {
        !core::mem::replace(&mut self.retired, true)
    }
}
