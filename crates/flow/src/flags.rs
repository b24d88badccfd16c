//! Facts of a flow that are true or not, in one word.

/// Facts that are true or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct FlowFlags(u32);

impl FlowFlags {
    /// The slot holds a flow.
    pub(crate) const LIVE: u32 = 1;
    /// A whole TCP header was seen.
    pub(crate) const TCP: u32 = 1 << 1;
    /// A segment with data (or FIN) was seen.
    pub(crate) const DATA: u32 = 1 << 2;
    /// A SYN or SYN-ACK of the queued direction was seen.
    pub(crate) const SYN: u32 = 1 << 3;
    /// A SYN or SYN-ACK of the other direction was seen.
    pub(crate) const REVERSE_SYN: u32 = 1 << 4;
    /// A FIN of the queued direction was seen.
    pub(crate) const FIN: u32 = 1 << 5;
    /// A FIN of the other direction was seen.
    pub(crate) const REVERSE_FIN: u32 = 1 << 6;
    /// A RST was seen, or FINs both ways.
    pub(crate) const CLOSED: u32 = 1 << 7;
    /// The last new segment carried one byte.
    pub(crate) const TAIL_BYTE: u32 = 1 << 8;
    /// The receiver last announced a window of zero.
    pub(crate) const ZERO_WINDOW: u32 = 1 << 9;
    /// Counted by `active_flows`.
    pub(crate) const ACTIVE: u32 = 1 << 10;
    /// The flow has shown more than a handshake or a single packet: it is evicted last.
    pub(crate) const PROVEN: u32 = 1 << 11;
    /// One packet that is no SYN and no RST was seen.
    pub(crate) const ONCE: u32 = 1 << 12;
    /// The next observation says `fresh`.
    pub(crate) const REPORT_NEW: u32 = 1 << 13;
    /// The next observation says `restarted`.
    pub(crate) const REPORT_RESTARTED: u32 = 1 << 14;
    /// The initiator is known.
    pub(crate) const INITIATOR: u32 = 1 << 15;
    /// The initiator is the destination.
    pub(crate) const INITIATOR_DST: u32 = 1 << 16;
    /// The record is on one of the eviction lists.
    pub(crate) const LISTED: u32 = 1 << 17;
    /// The record is on the eviction list of the proven.
    pub(crate) const LIST_PROVEN: u32 = 1 << 18;
    /// The segment that just arrived repeated old bytes before new ones.
    pub(crate) const OVERLAP: u32 = 1 << 19;
    /// The segment that just arrived was out of any window.
    pub(crate) const OUT_OF_WINDOW: u32 = 1 << 20;
    /// The user had more flows than are kept for one when the record was put on its eviction list.
    pub(crate) const CROWD: u32 = 1 << 21;

    pub(crate) const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
    pub(crate) const fn any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }
    pub(crate) const fn set(&mut self, bits: u32) {
        self.0 |= bits;
    }
    pub(crate) const fn clear(&mut self, bits: u32) {
        self.0 &= !bits;
    }
    pub(crate) const fn put(&mut self, bits: u32, on: bool) {
        if on { self.set(bits) } else { self.clear(bits) }
    }
    /// The facts about the opener of the connection, and nothing else.
    pub(crate) const fn opener(self) -> Self {
        Self(self.0 & (Self::INITIATOR | Self::INITIATOR_DST))
    }
    /// Whether the destination opened the connection, if that is known.
    pub(crate) const fn initiator(self) -> Option<bool> {
        if self.has(Self::INITIATOR) { Some(self.has(Self::INITIATOR_DST)) } else { None }
    }
    /// Returns whether the bits were set, and clears the bits.
    pub(crate) const fn take(&mut self, bits: u32) -> bool {
        let was = self.has(bits);
        self.clear(bits);
        was
    }
    /// Copies the bits `bits` of `other`, set or not.
    pub(crate) const fn take_over(&mut self, other: Self, bits: u32) {
        self.0 = self.0 & !bits | other.0 & bits;
    }
    pub(crate) const fn keep(&mut self, bits: u32) {
        self.0 &= bits;
    }
}
