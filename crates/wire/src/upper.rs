//! Finds the upper-layer header of an IP packet (RFC 8200, section 2): behind the extension headers of IPv6, and behind
//! headers that authenticate.

use crate::layers::{be16, byte};
use crate::unopened::Unopened;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// Encapsulated payload (RFC 4303).
pub(crate) const ESP: u8 = 50;
/// Authentication header (RFC 4302).
const AUTHENTICATED: u8 = 51;
/// A header that says whether the ESP behind it encrypts (RFC 5840).
pub(crate) const WRAPPED_ESP: u8 = 141;

/// Whether this protocol puts TCP behind a header of security that may not encrypt it.
pub(crate) const fn is_seal(proto: u8) -> bool {
    matches!(proto, ESP | AUTHENTICATED | WRAPPED_ESP)
}

/// Extension headers that are gone through: no real packet has more.
const MOST_EXTENSIONS: u8 = 8;
/// Authentication headers that are gone through, one behind the other.
const MOST_SEALS: usize = 4;

/// Walk over the extension headers of an IPv6 packet (RFC 8200, section 4): options, routing and fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extensions<'a> {
    packet: &'a [u8],
    /// Number of the header that comes next.
    pub(crate) next: u8,
    /// Place of that number.
    pub(crate) named_at: usize,
    /// Place of that header.
    pub(crate) at: usize,
    left: u8,
}

/// An extension header that was stepped over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension {
    pub(crate) kind: u8,
    pub(crate) at: usize,
}

impl<'a> Extensions<'a> {
    /// Begins behind the header of an IPv6 packet; none if it is cut before its number of what comes next.
    #[inline]
    pub(crate) fn of(packet: &'a [u8]) -> Option<Self> {
        Some(Self { packet, next: *packet.get(6)?, named_at: 6, at: 40, left: MOST_EXTENSIONS })
    }

    /// Steps over the next header; none if it is no extension header, or is cut.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<Extension> {
        let (kind, at) = (self.next, self.at);
        let len = match kind {
            HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(*self.packet.get(at + 1)?) + 1) * 8,
            FRAGMENT => self.packet.get(at + 3).map(|_| 8)?,
            _ => return None,
        };
        self.left = self.left.checked_sub(1)?;
        (self.next, self.named_at, self.at) = (self.packet[at], at, at + len);
        Some(Extension { kind, at })
    }
}

/// An upper-layer header, or a header of security of which nothing behind it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upper {
    pub(crate) proto: u8,
    pub(crate) at: usize,
}

impl Upper {
    /// Finds it; none in a later fragment, which begins within something.
    pub(crate) fn of(p: &[u8]) -> Result<Option<Self>, Unopened> {
        let found = match p.first().map_or(0, |first| first >> 4) {
            4 if be16(p, 6)? & 0x1fff == 0 => Self { proto: byte(p, 9)?, at: usize::from(p[0] & 0xf) * 4 },
            6 => {
                let mut headers = Extensions::of(p).ok_or(Unopened::Cut)?;
                while let Some(Extension { kind, at }) = headers.step() {
                    // RFC 8200, section 4.5: the offset.
                    if kind == FRAGMENT && be16(p, at + 2)? & 0xfff8 != 0 {
                        return Ok(None);
                    }
                }
                if matches!(headers.next, HOP_BY_HOP | ROUTING | DESTINATION) {
                    return Err(Unopened::Cut);
                }
                Self { proto: headers.next, at: headers.at }
            }
            _ => return Ok(None),
        };
        found.behind_seals(p).ok_or(Unopened::Cut).map(Some)
    }

    /// Goes on behind headers that authenticate (RFC 4302, section 2) or say that ESP encrypts nothing (RFC 5840,
    /// section 2); none if they are cut.
    pub(crate) fn behind_seals(mut self, p: &[u8]) -> Option<Self> {
        for _ in 0..MOST_SEALS {
            let len = match self.proto {
                AUTHENTICATED => (usize::from(*p.get(self.at + 1)?) + 2) * 4,
                WRAPPED_ESP if p.get(self.at + 3)? & 0x20 == 0 => usize::from(*p.get(self.at + 1)?),
                _ => break,
            };
            self = Self { proto: p[self.at], at: self.at + len };
        }
        (self.at <= p.len()).then_some(self)
    }
}
