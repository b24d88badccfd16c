//! Fields of a packet that a queue may read: a small plain struct, the same for live, simulated and replayed packets.

use core::fmt;
use core::num::NonZeroU16;

use narrows_units::{Bytes, Dscp, Ecn, SeqNum};

use crate::{FlowKey, Proto, QuicPacket};

/// TCP control bits (RFC 9293, section 3.1; ECE and CWR from RFC 3168).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Self = Self(0x10);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// All bits that are set in either.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, c) in "FSRPAUEC".chars().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// The selective acknowledgments of one segment: at most four blocks of [left, right) fit in the option space (RFC
/// 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(SeqNum, SeqNum); 4],
    count: u8,
}

impl SackBlocks {
    /// Adds a block; a fifth is ignored.
    pub fn push(&mut self, left: SeqNum, right: SeqNum) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.count)) {
            *slot = (left, right);
            self.count += 1;
        }
    }
    /// How many blocks there are.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.count as usize
    }
    /// Whether there is no block.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[(SeqNum, SeqNum)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// A TCP header with the options a middlebox can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// Sequence number of the first payload byte (of the SYN itself in a SYN).
    pub seq: SeqNum,
    /// Acknowledgment number; meaningful if `flags` has ACK.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Window field as on the wire, unscaled.
    pub window: u16,
    /// Payload bytes.
    pub payload: u32,
    /// Timestamp option: TSval, TSecr (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// Window scale, in a SYN (RFC 7323); at most 14 as that RFC demands.
    pub window_scale: Option<u8>,
    /// Maximum segment size, in a SYN.
    pub mss: Option<u16>,
    /// Selective acknowledgments.
    pub sack: SackBlocks,
    /// Whether the header holds something that no field here shows: another option, a malformed one, or a reserved bit.
    pub beyond: bool,
    /// Whether the capture ends within the header, so that options are missing. Never set where packets are queued,
    /// because there a header that is not whole is not read.
    pub cut: bool,
}

impl TcpHeader {
    /// Tells whether the segment carries only an acknowledgment or a window update.
    #[must_use]
    pub const fn is_pure_ack(&self) -> bool {
        self.payload == 0
            && self.flags.has(Flags::ACK)
            && self.flags.0 & (Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0) == 0
    }
    /// Length in sequence space: the payload, plus one each for SYN and FIN (RFC 9293, section 3.4).
    #[must_use]
    pub const fn seq_len(&self) -> u32 {
        self.payload + self.flags.has(Flags::SYN) as u32 + self.flags.has(Flags::FIN) as u32
    }
    /// The sequence number after this segment.
    #[must_use]
    pub fn seq_end(&self) -> SeqNum {
        self.seq + self.seq_len()
    }
}

/// The UDP flow that a "port unreachable" speaks of (RFC 792; RFC 4443, section 3.1): it went from the host that the
/// message is for to the host that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Source port.
    pub sport: NonZeroU16,
    /// Destination port, on which nobody listens.
    pub dport: NonZeroU16,
}

/// A packet's headers, parsed once when it arrives. If the flow is one within a tunnel ([`FlowKey::is_in_tunnel`]),
/// what is said of TCP, QUIC and ICMP is of that flow too, and nothing of it may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The flow and direction.
    pub key: FlowKey,
    /// Length of the IP packet.
    pub len: Bytes,
    /// ECN bits.
    pub ecn: Ecn,
    /// Class of service.
    pub dscp: Dscp,
    /// Identification of an IPv4 packet (RFC 791, section 3.1), or the lower half of that of a fragment in IPv6 (RFC
    /// 8200, section 4.5); `None` if it is zero, and of whole packets in IPv6.
    pub ident: Option<NonZeroU16>,
    /// A fragment of a packet: its ports or TCP header may be missing.
    pub fragment: bool,
    /// The TCP header, if it is whole.
    pub tcp: Option<TcpHeader>,
    /// QUIC fields of a UDP datagram that looks like QUIC.
    pub quic: Option<QuicPacket>,
    /// Report of an unreachable destination in an ICMP message, if the message's sender says it of itself.
    pub unreachable: Option<Unreachable>,
}

impl Header {
    /// Tells whether the packet is a TCP segment with payload.
    #[must_use]
    pub fn is_tcp_data(&self) -> bool {
        self.tcp.is_some_and(|t| t.payload > 0)
    }
    /// The flow that the packet says has nobody to receive it.
    #[must_use]
    pub fn refused(&self) -> Option<FlowKey> {
        let Unreachable { sport, dport } = self.unreachable?;
        Some(self.key.reverse().with(Proto::UDP, sport.get(), dport.get()))
    }
    /// Whether the protocol is TCP (also where a fragment hides the header).
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        self.key.proto == Proto::TCP
    }
}
