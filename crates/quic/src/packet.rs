//! Datagrams, packets and frames as far as anything here depends on them: numbers, ranges and sizes, no content.
//!
//! Sizes are those on the wire (RFC 9000, sections 16 to 19, RFC 9001, section 5.3): a datagram is as long as that of a
//! real stack with connection ids of the same length.

use narrows_units::{Duration, Ecn};

/// The packet number spaces (RFC 9000, section 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 1-RTT packets.
    Data,
}

impl Space {
    /// All spaces, in the order in which a connection opens the spaces.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::Data];
}

/// How many packets came with which codepoint (RFC 9000, section 19.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// ECT(0).
    pub ect0: u64,
    /// ECT(1).
    pub ect1: u64,
    /// CE.
    pub ce: u64,
}

impl EcnCounts {
    pub(crate) const fn add(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::Ce => self.ce += 1,
        }
    }
}

/// An ACK frame (RFC 9000, section 19.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Packet numbers in rising order, ends not included; at least one.
    pub ranges: Vec<(u64, u64)>,
    /// Time for which the packet with the largest number waited for the ACK.
    pub delay: Duration,
    /// Counts of the ECN marks received; `None` if no packet was marked.
    pub ecn: Option<EcnCounts>,
}

/// The frames that ask for an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// PING.
    Ping,
    /// IMMEDIATE_ACK (draft-ietf-quic-ack-frequency, section 5).
    ImmediateAck,
    /// CRYPTO.
    Crypto {
        /// Offset at which the data begins.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// STREAM, of the one stream there is each way.
    Stream {
        /// Offset at which the data begins.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Whether the stream ends with the frame's bytes.
        fin: bool,
    },
    /// NEW_CONNECTION_ID.
    NewConnectionId,
    /// RETIRE_CONNECTION_ID.
    RetireConnectionId,
    /// HANDSHAKE_DONE.
    HandshakeDone,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramedPacket {
    /// Packet number space.
    pub space: Space,
    /// Packet number.
    pub number: u64,
    /// Bytes in the datagram, header and tag included.
    pub len: u32,
    /// ACK frame, if there is one.
    pub ack: Option<Ack>,
    /// All frames but ACK and CONNECTION_CLOSE.
    pub frames: Vec<Frame>,
    /// Whether the packet has a CONNECTION_CLOSE.
    pub close: bool,
}

/// A UDP datagram: packets, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The packets.
    pub packets: Vec<FramedPacket>,
    /// Bytes of UDP payload.
    pub len: u32,
    /// The ECN field of the datagram's IP header.
    pub ecn: Ecn,
}

impl Datagram {
    /// Bytes of stream data.
    #[must_use]
    pub fn payload(&self) -> u64 {
        self.frames().map(|f| if let Frame::Stream { len, .. } = f { len } else { 0 }).sum()
    }
    /// Offset at which the datagram's stream data begins; `None` without stream data.
    #[must_use]
    pub fn stream_offset(&self) -> Option<u64> {
        self.frames().find_map(|f| if let Frame::Stream { offset, .. } = f { Some(offset) } else { None })
    }
    /// Whether the datagram's first packet has a long header (RFC 9000, section 17.2), which anybody can see.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.packets.first().is_some_and(|p| p.space != Space::Data)
    }

    fn frames(&self) -> impl Iterator<Item = Frame> {
        self.packets.iter().flat_map(|p| p.frames.iter().copied())
    }
}

/// Bytes of the authentication tag, the same with every cipher of TLS 1.3 that QUIC has (RFC 9001, section 5.3).
pub(crate) const TAG: u32 = 16;

/// Bytes of a variable-length integer (RFC 9000, section 16).
pub(crate) const fn varint(n: u64) -> u32 {
    match n {
        0..64 => 1,
        64..16_384 => 2,
        16_384..1_073_741_824 => 4,
        _ => 8,
    }
}

/// Bytes of a packet number: enough for twice what is not acknowledged (RFC 9000, section 17.1).
pub(crate) const fn number_len(number: u64, largest_acked: u64) -> u32 {
    match number.saturating_sub(largest_acked) {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x80_0000 => 3,
        _ => 4,
    }
}

/// Bytes of a header with its packet number; `to` and `from` are lengths of connection ids. Initial packets have no
/// token. The length is written in two bytes, as all stacks do that fill it in last.
pub(crate) const fn header_len(space: Space, to: u32, from: u32, number: u32) -> u32 {
    match space {
        Space::Data => 1 + to + number,
        Space::Handshake => 1 + 4 + 1 + to + 1 + from + 2 + number,
        Space::Initial => 1 + 4 + 1 + to + 1 + from + 1 + 2 + number,
    }
}

impl Ack {
    /// Bytes of the frame. The delay counts in units of 8 us (RFC 9000, section 18.2, ack_delay_exponent).
    pub(crate) fn len(&self) -> u32 {
        let mut blocks = self.ranges.iter().rev();
        let Some(&(start, end)) = blocks.next() else { return 0 };
        let mut len = 1 + varint(end - 1) + varint(self.delay.as_nanos() / 8_000);
        len += varint(self.ranges.len() as u64 - 1) + varint(end - start - 1);
        let mut below = start;
        for &(start, end) in blocks {
            len += varint(below - end - 1) + varint(end - start - 1);
            below = start;
        }
        len + self.ecn.map_or(0, |e| varint(e.ect0) + varint(e.ect1) + varint(e.ce))
    }
}

/// Bytes of a CRYPTO frame (RFC 9000, section 19.6).
pub(crate) const fn crypto_len(offset: u64, len: u64) -> u32 {
    1 + varint(offset) + varint(len) + len as u32
}

/// Bytes of what stands before the data of a STREAM frame (section 19.8) on a stream with an id of one byte.
pub(crate) const fn stream_head(offset: u64, length: Option<u64>) -> u32 {
    let offset = if offset == 0 { 0 } else { varint(offset) };
    let length = match length {
        Some(len) => varint(len),
        None => 0,
    };
    2 + offset + length
}

/// Bytes of a NEW_CONNECTION_ID frame (section 19.15) for an id of `len` bytes.
pub(crate) const fn new_id_len(len: u32) -> u32 {
    1 + 1 + 1 + 1 + len + 16
}

/// Bytes of a RETIRE_CONNECTION_ID frame (section 19.16).
pub(crate) const RETIRE_LEN: u32 = 2;

/// Bytes of a CONNECTION_CLOSE by an application, without a reason (section 19.19).
pub(crate) const CLOSE_LEN: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_hand() {
        // RFC 9000, appendix A.1 has examples of 1, 2, 4 and 8 bytes; A.2: 0xac5c02 - 0xabe8b3 = 29519 needs 16 bits,
        // 0xace8fe - 0xabe8b3 = 65611 needs 18.
        assert_eq!([37, 15_293, 494_878_333, 151_288_809_941_952_652].map(varint), [1, 2, 4, 8]);
        assert_eq!([number_len(0xac_5c02, 0xab_e8b3), number_len(0xac_e8fe, 0xab_e8b3)], [2, 3]);
        // 17.3.1: flags, id of 8, number of 1.
        assert_eq!(header_len(Space::Data, 8, 8, 1), 10);
        // 17.2.4: flags, version, two ids with their lengths, length, number; 17.2.2: and the token's length.
        assert_eq!(header_len(Space::Handshake, 8, 8, 1), 26);
        assert_eq!(header_len(Space::Initial, 8, 8, 1), 27);
        // 19.3: type, largest 9, delay of 400 us in 50 units, one more range, 9 alone; gap 9 - 7 - 2 = 0, 5..=7.
        let ack = Ack { ranges: vec![(5, 8), (9, 10)], delay: Duration::from_micros(400), ecn: None };
        assert_eq!(ack.len(), 7);
        let ecn = Some(EcnCounts { ect0: 100, ..EcnCounts::default() });
        assert_eq!(Ack { ecn, ..ack }.len(), 11);
        assert_eq!((stream_head(0, None), stream_head(1000, Some(70))), (2, 6));
    }
}
