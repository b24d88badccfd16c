//! What is true of a flow, or not: 32 facts in one word.

/// Facts that are true or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct FlowFlags(u32);

impl FlowFlags {
    /// The slot holds a flow.
    pub(crate) const LIVE: u32 = 1;
    /// A whole TCP header was seen.
    pub(crate) const TCP: u32 = 1 << 1;
    /// `max_seq` is known.
    pub(crate) const SEQ: u32 = 1 << 2;
    /// `highest_ack` is known.
    pub(crate) const ACKED: u32 = 1 << 3;
    /// A segment with data (or FIN) was seen.
    pub(crate) const DATA: u32 = 1 << 4;
    /// A SYN or SYN-ACK of the queued direction was seen.
    pub(crate) const SYN: u32 = 1 << 5;
    /// One of the other direction was seen.
    pub(crate) const REVERSE_SYN: u32 = 1 << 6;
    /// A FIN of the queued direction was seen.
    pub(crate) const FIN: u32 = 1 << 7;
    /// One of the other direction was seen.
    pub(crate) const REVERSE_FIN: u32 = 1 << 8;
    /// A RST was seen, or FINs both ways.
    pub(crate) const CLOSED: u32 = 1 << 9;
    /// The epoch rests on two-way samples.
    pub(crate) const TWO_WAY: u32 = 1 << 10;
    /// A segment is being timed.
    pub(crate) const SAMPLING: u32 = 1 << 11;
    /// It has left the box.
    pub(crate) const DEPARTED: u32 = 1 << 12;
    /// `receiver_rtt_us` and `srtt_us` are known.
    pub(crate) const RTT: u32 = 1 << 13;
    /// `sender_rtt` is known.
    pub(crate) const SENDER_SIDE: u32 = 1 << 14;
    /// `reverse_passed` is running.
    pub(crate) const TIMING_SENDER: u32 = 1 << 15;
    /// `rate_bytes` has had its first sample.
    pub(crate) const RATED: u32 = 1 << 16;
    /// The last new segment carried one byte.
    pub(crate) const TAIL_BYTE: u32 = 1 << 17;
    /// The receiver's last word on its window was zero.
    pub(crate) const ZERO_WINDOW: u32 = 1 << 18;
    /// `redropped` holds.
    pub(crate) const REDROPPED: u32 = 1 << 19;
    /// Counted by `active_flows`.
    pub(crate) const ACTIVE: u32 = 1 << 20;
    /// More than a handshake or a single packet: evicted last.
    pub(crate) const PROVEN: u32 = 1 << 21;
    /// One packet that is no SYN and no RST was seen.
    pub(crate) const ONCE: u32 = 1 << 22;
    /// The next observation says `fresh`.
    pub(crate) const REPORT_NEW: u32 = 1 << 23;
    /// The next observation says `restarted`.
    pub(crate) const REPORT_RESTARTED: u32 = 1 << 24;
    /// The initiator is known.
    pub(crate) const INITIATOR: u32 = 1 << 25;
    /// The initiator is the destination.
    pub(crate) const INITIATOR_DST: u32 = 1 << 26;
    /// On one of the eviction lists.
    pub(crate) const LISTED: u32 = 1 << 27;
    /// On that of the proven.
    pub(crate) const LIST_PROVEN: u32 = 1 << 28;
    /// The segment that just arrived repeated old bytes before new ones.
    pub(crate) const OVERLAP: u32 = 1 << 29;
    /// The segment that just arrived was out of any window.
    pub(crate) const OUT_OF_WINDOW: u32 = 1 << 30;
    /// `holes` may hold something.
    pub(crate) const HOLES: u32 = 1 << 31;

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
    /// What is known of who opened the connection, and nothing else.
    pub(crate) const fn opener(self) -> Self {
        Self(self.0 & (Self::INITIATOR | Self::INITIATOR_DST))
    }
    /// Whether the destination opened the connection, if that is known.
    pub(crate) const fn initiator(self) -> Option<bool> {
        if self.has(Self::INITIATOR) { Some(self.has(Self::INITIATOR_DST)) } else { None }
    }
    /// Returns whether the bits were set, and clears them.
    pub(crate) const fn take(&mut self, bits: u32) -> bool {
        let was = self.has(bits);
        self.clear(bits);
        was
    }
    /// Takes these bits from `other`, set or not.
    pub(crate) const fn take_over(&mut self, other: Self, bits: u32) {
        self.0 = self.0 & !bits | other.0 & bits;
    }
    pub(crate) const fn keep(&mut self, bits: u32) {
        self.0 &= bits;
    }
}
