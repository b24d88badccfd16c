//! Fields of a QUIC datagram that are readable on the path: the header's form, the type of its first packet, the spin
//! bit. All else is encrypted (RFC 9312, section 2).

/// Bits of the first byte: a long header, and the one that is set in every packet of version 1 (RFC 9000, section 17)
/// unless the other end has said that it need not be (RFC 9287).
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
/// The spin bit of a short header (RFC 9000, section 17.3.1).
const SPIN: u8 = 0x20;

/// Version 1 (RFC 9000) and version 2 (RFC 9369).
const V1: u32 = 1;
const V2: u32 = 0x6b33_43cf;

/// The type of a datagram's first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuicPacket {
    /// Opens a connection, or answers a packet that does.
    Initial,
    /// Data of a client that has been there before.
    ZeroRtt,
    /// Packet that ends the handshake.
    Handshake,
    /// Asks the client to show that its address is its own.
    Retry,
    /// Names the versions a server speaks (version 0: RFC 8999, section 6).
    VersionNegotiation,
    /// Data, after the handshake. Any datagram whose first bits are 01 looks so: that it is QUIC is known from the
    /// handshake before it.
    Short {
        /// The spin bit: it changes once in a round trip, if both ends let it.
        spin: bool,
    },
}

impl QuicPacket {
    /// Reads the beginning of a UDP payload; `None` if it is not QUIC of a known version.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let first = *payload.first()?;
        if first & LONG == 0 {
            return (first & FIXED != 0).then_some(Self::Short { spin: first & SPIN != 0 });
        }
        let version = u32::from_be_bytes(payload.get(1..5)?.try_into().ok()?);
        let kind = first >> 4 & 3;
        match version {
            0 => Some(Self::VersionNegotiation),
            // RFC 9000, table 5; version 2 moves each type on by one (RFC 9369, section 3.2).
            V1 => Some(Self::LONG_TYPES[usize::from(kind)]),
            V2 => Some(Self::LONG_TYPES[usize::from((kind + 3) % 4)]),
            _ => None,
        }
    }

    const LONG_TYPES: [Self; 4] = [Self::Initial, Self::ZeroRtt, Self::Handshake, Self::Retry];

    /// The first bytes of a packet of version 1 that shows this, with connection ids of no length; the inverse of
    /// [`QuicPacket::read`].
    #[must_use]
    pub(crate) fn bytes(self) -> ([u8; 7], usize) {
        let long = |kind: u8, version: u8| ([LONG | FIXED | kind << 4, 0, 0, 0, version, 0, 0], 7);
        match self {
            Self::Initial => long(0, 1),
            Self::ZeroRtt => long(1, 1),
            Self::Handshake => long(2, 1),
            Self::Retry => long(3, 1),
            Self::VersionNegotiation => long(0, 0),
            Self::Short { spin } => ([FIXED | if spin { SPIN } else { 0 }, 0, 0, 0, 0, 0, 0], 1),
        }
    }

    /// Tells whether the packet belongs to a handshake: only these say for certain that a flow is QUIC.
    #[must_use]
    pub const fn is_handshake(self) -> bool {
        matches!(self, Self::Initial | Self::ZeroRtt | Self::Handshake | Self::Retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_by_hand() {
        // The client's Initial of RFC 9001, appendix A.2, as it is sent, and the server's of A.3.
        let read = QuicPacket::read;
        let client = [0xc0, 0, 0, 0, 1, 8, 0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 8];
        assert_eq!(read(&client), Some(QuicPacket::Initial));
        assert_eq!(read(&[0xcf, 0, 0, 0, 1, 0, 8]), Some(QuicPacket::Initial));
        // RFC 9001, A.4: a Retry; A.5: a short header, protected with ChaCha20.
        assert_eq!(read(&[0xff, 0, 0, 0, 1, 0, 8]), Some(QuicPacket::Retry));
        assert_eq!(read(&[0x4c, 0xfe, 0x41]), Some(QuicPacket::Short { spin: false }));
        // RFC 9369, appendix A.2: a client's Initial of version 2; A.4: a Retry, with type 0.
        assert_eq!(read(&[0xd7, 0x6b, 0x33, 0x43, 0xcf]), Some(QuicPacket::Initial));
        assert_eq!(read(&[0xcf, 0x6b, 0x33, 0x43, 0xcf]), Some(QuicPacket::Retry));
        assert_eq!(read(&[0x80, 0, 0, 0, 0]), Some(QuicPacket::VersionNegotiation));
        assert_eq!(read(&[0x61]), Some(QuicPacket::Short { spin: true }));
    }

    #[test]
    fn what_is_no_quic() {
        // Nothing, RTP, a DNS query, DTLS, STUN, a version nobody knows, a cut version.
        for bytes in [
            &[][..],
            &[0x80, 96, 0, 1, 0, 0],
            &[0x12, 0x34, 1, 0],
            &[22, 254, 253],
            &[0, 1, 0, 0],
            &[0xc0, 0xfa, 0xfa, 0xfa, 0xfa],
            &[0xc0, 0, 0, 0],
        ] {
            assert_eq!(QuicPacket::read(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let spins = [false, true].map(|spin| QuicPacket::Short { spin });
        for packet in [&QuicPacket::LONG_TYPES[..], &[QuicPacket::VersionNegotiation], &spins].concat() {
            let (bytes, len) = packet.bytes();
            assert_eq!(QuicPacket::read(&bytes[..len]), Some(packet));
        }
    }
}
