//! Headers before an IP packet: those of a link and of tags, labels and sessions upon it. [`walk`] steps from one to
//! the next until it comes to IP; each step is a few lines, and says what it does not open.
//!
//! Numbers of link layers are those of the registry of draft-ietf-opsawg-pcaplinktype, ethertypes those of IEEE, the
//! protocols of PPP those of IANA.

use crate::unopened::Unopened;

/// Headers that may follow one another before an IP packet; more are no real frame.
const STEPS: usize = 24;

/// Labels of a stack that are gone through.
const LABELS: usize = 16;

/// Ethertypes that other files ask for.
pub(crate) const TYPE_IPV4: u16 = 0x0800;
pub(crate) const TYPE_IPV6: u16 = 0x86dd;
pub(crate) const TYPE_ETHERNET: u16 = 0x6558;
pub(crate) const TYPE_MPLS: u16 = 0x8847;
pub(crate) const TYPE_PPP: u16 = 0x880b;
/// Below it the field is a length, and what follows is LLC (IEEE 802.3, clause 3.2.6).
const LEAST_TYPE: u16 = 0x0600;

/// Header that begins at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// An IP packet, of either version.
    Ip,
    /// Two addresses and a type.
    Ethernet,
    /// Header or packet of an ethertype that has been read.
    Type(u16),
    /// Logical link control (IEEE 802.2).
    Llc,
    /// PPP, with address and control or without (RFC 1661, RFC 1662), also Cisco's HDLC, which looks different.
    Ppp,
    /// Frame relay (RFC 2427), with the two bytes of an address.
    FrameRelay,
    /// Labels of MPLS (RFC 3032).
    Labels,
    /// Service headers (RFC 8300).
    Service,
    /// IEEE 802.11, from the frame control on.
    Radio,
    /// IEEE 802.11 with its header filled up to words.
    PaddedRadio,
    /// An interface's number in the registry of link layers.
    Link(u32),
}

/// Where the next header begins.
pub(crate) type Step<'a> = Result<(Layer, &'a [u8]), Unopened>;

/// The IP packet behind these headers; it reaches to the end of the bytes.
#[inline]
pub(crate) fn walk(layer: Layer, bytes: &[u8]) -> Result<&[u8], Unopened> {
    // Nearly all frames are these.
    if let (Layer::Ethernet | Layer::Link(1), [0x08, 0x00]) = (layer, bytes.get(12..14).unwrap_or(&[])) {
        return Ok(&bytes[14..]);
    }
    walk_on(layer, bytes)
}

fn walk_on(mut layer: Layer, mut bytes: &[u8]) -> Result<&[u8], Unopened> {
    for _ in 0..STEPS {
        (layer, bytes) = match layer {
            Layer::Ip => return Ok(bytes),
            Layer::Ethernet => (Layer::Type(be16(bytes, 12)?), from(bytes, 14)?),
            Layer::Type(kind) => behind_type(kind, bytes)?,
            Layer::Llc => llc(bytes)?,
            Layer::Ppp => ppp(bytes)?,
            Layer::FrameRelay => frame_relay(bytes)?,
            Layer::Labels => labels(bytes)?,
            Layer::Service => service(bytes)?,
            Layer::Radio => radio(bytes, false)?,
            Layer::PaddedRadio => radio(bytes, true)?,
            Layer::Link(number) => crate::link_layers::behind(number, bytes)?,
        };
    }
    Err(Unopened::Deep)
}

pub(crate) fn from(b: &[u8], at: usize) -> Result<&[u8], Unopened> {
    b.get(at..).ok_or(Unopened::Cut)
}
pub(crate) fn be16(b: &[u8], at: usize) -> Result<u16, Unopened> {
    Ok(u16::from_be_bytes([byte(b, at)?, byte(b, at + 1)?]))
}
pub(crate) fn byte(b: &[u8], at: usize) -> Result<u8, Unopened> {
    b.get(at).copied().ok_or(Unopened::Cut)
}

/// A tag that ends in the type of what follows it.
fn tag(b: &[u8], len: usize) -> Step<'_> {
    Ok((Layer::Type(be16(b, len - 2)?), from(b, len)?))
}

fn behind_type(kind: u16, b: &[u8]) -> Step<'_> {
    match kind {
        TYPE_IPV4 | TYPE_IPV6 => Ok((Layer::Ip, b)),
        // IEEE 802.1Q, 802.1ad, and two numbers from before it: priority and VLAN.
        0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300 => tag(b, 4),
        // IEEE 802.1BR, and Cisco's VN-Tag: ports of an extender.
        0x893f => tag(b, 8),
        0x8926 => tag(b, 6),
        // IEEE 802.1ah: the number of a service, then the customer's frame.
        0x88e7 => Ok((Layer::Ethernet, from(b, 4)?)),
        // IEC 62439-3 (HSR): path, size and number.
        0x892f => tag(b, 6),
        // Cisco MetaData: version, words of options, of which each ends in a group, and the type.
        0x8909 => tag(b, 2 + 4 * usize::from(byte(b, 1)?).max(1) + 2),
        // Cisco FabricPath: a tag of two bytes, then the frame.
        0x8903 => Ok((Layer::Ethernet, from(b, 2)?)),
        // TRILL (RFC 6325, section 3.2): options in words, and the inner frame.
        0x22f3 => {
            let words = usize::from(be16(b, 0)? >> 6 & 0x1f);
            Ok((Layer::Ethernet, from(b, 6 + 4 * words)?))
        }
        0x88e5 => sealed(b),
        TYPE_MPLS | 0x8848 => Ok((Layer::Labels, b)),
        // RFC 2516, section 4: version and type, code, session and length.
        0x8864 => match b {
            [0x11, 0, _, _, _, _, rest @ ..] => Ok((Layer::Ppp, rest)),
            _ => Err(Unopened::Ethertype(kind)),
        },
        TYPE_PPP => Ok((Layer::Ppp, b)),
        0x894f => Ok((Layer::Service, b)),
        TYPE_ETHERNET => Ok((Layer::Ethernet, b)),
        0x8870 => Ok((Layer::Llc, b)),
        ..LEAST_TYPE => Ok((Layer::Llc, b)),
        _ => Err(Unopened::Ethertype(kind)),
    }
}

/// MACsec (IEEE 802.1AE, clause 9): read where it only authenticates.
fn sealed(b: &[u8]) -> Step<'_> {
    let control = byte(b, 0)?;
    if control & 0x0c != 0 {
        return Err(Unopened::Encrypted("MACsec"));
    }
    let channel = if control & 0x20 == 0 { 0 } else { 8 };
    tag(b, 6 + channel + 2)
}

/// Services (IEEE 802.2) that carry IP: the subnetwork access protocol, IP's own of old, and that of ISO.
fn llc(b: &[u8]) -> Step<'_> {
    match b {
        [0xaa, 0xaa, 3, rest @ ..] => match rest {
            // RFC 1042; the second was Apple's, and 802.1H's for bridged frames.
            [0, 0, 0, ..] | [0, 0, 0xf8, ..] => Ok((Layer::Type(be16(rest, 3)?), from(rest, 5)?)),
            // RFC 2684, section 5.2: a bridged frame, behind two bytes that fill up; RFC 2427 has none.
            [0, 0x80, 0xc2, 0, 1 | 7, frame @ ..] => {
                let padded = frame.get(2..).filter(|f| is_ethernet(f));
                Ok((Layer::Ethernet, padded.unwrap_or(frame)))
            }
            [_, _, _, a, b, ..] => Err(Unopened::Snap(u16::from_be_bytes([*a, *b]))),
            _ => Err(Unopened::Cut),
        },
        [6, 6, 3, rest @ ..] => Ok((Layer::Ip, rest)),
        [0xfe, 0xfe, 3, 0xcc | 0x8e, rest @ ..] => Ok((Layer::Ip, rest)),
        [service, _, _, ..] => Err(Unopened::Llc(*service)),
        _ => Err(Unopened::Cut),
    }
}

/// Protocols of PPP. Address and control (ff 03) may be left out, and the first byte of the protocol, if it is zero
/// (RFC 1661, section 6.5). Cisco's HDLC has another address and an ethertype.
fn ppp(b: &[u8]) -> Step<'_> {
    let b = match b {
        [0x0f | 0x8f, 0, rest @ ..] => return Ok((Layer::Type(be16(rest, 0)?), from(rest, 2)?)),
        [0xff, 3, rest @ ..] => rest,
        _ => b,
    };
    let first = byte(b, 0)?;
    let (protocol, rest) =
        if first & 1 == 1 { (u16::from(first), from(b, 1)?) } else { (be16(b, 0)?, from(b, 2)?) };
    match protocol {
        0x21 | 0x57 => Ok((Layer::Ip, rest)),
        0x281 | 0x283 => Ok((Layer::Labels, rest)),
        // RFC 3518, section 4.2: flags, and 1 for a frame of Ethernet.
        0x31 if byte(rest, 1)? == 1 => Ok((Layer::Ethernet, from(rest, 2)?)),
        // RFC 1990, section 3: begin and end are set in a packet that is whole; numbers of four bytes or two.
        0x3d => match rest {
            [0xc0, _, _, _, inner @ ..] if is_ppp(inner) => Ok((Layer::Ppp, inner)),
            [0xc0..=0xff, _, inner @ ..] if is_ppp(inner) => Ok((Layer::Ppp, inner)),
            _ => Err(Unopened::Ppp(protocol)),
        },
        _ => Err(Unopened::Ppp(protocol)),
    }
}

/// RFC 2427, section 4: control, then a protocol of ISO; Cisco has an ethertype.
fn frame_relay(b: &[u8]) -> Step<'_> {
    match b.get(2..).ok_or(Unopened::Cut)? {
        [3, 0xcc | 0x8e, rest @ ..] => Ok((Layer::Ip, rest)),
        [3, 0, 0x80, rest @ ..] | [3, 0x80, rest @ ..] => match rest {
            [0, 0, 0, ..] => Ok((Layer::Type(be16(rest, 3)?), from(rest, 5)?)),
            [0, 0x80, 0xc2, 0, 1 | 7, frame @ ..] => Ok((Layer::Ethernet, frame)),
            _ => Err(Unopened::Llc(0x80)),
        },
        [3, 0xcf, rest @ ..] => Ok((Layer::Ppp, rest)),
        [3, protocol, ..] => Err(Unopened::Llc(*protocol)),
        rest => Ok((Layer::Type(be16(rest, 0)?), from(rest, 2)?)),
    }
}

/// RFC 3032, section 2.1: four bytes for a label, of which the lowest bit of the third marks the last. Nothing names
/// what follows: IP shows by its version, as routers tell it (RFC 4928, section 3), a pseudowire by its control word
/// (RFC 4385) or by the frame itself.
fn labels(b: &[u8]) -> Step<'_> {
    for at in (0..).step_by(4).take(LABELS) {
        if byte(b, at + 2)? & 1 == 0 {
            continue;
        }
        let body = from(b, at + 4)?;
        return match byte(body, 0)? >> 4 {
            4 | 6 if is_ip(body) || !is_ethernet(body) => Ok((Layer::Ip, body)),
            _ if is_ethernet(body) => Ok((Layer::Ethernet, body)),
            0 if body.get(4..).is_some_and(is_ethernet) => Ok((Layer::Ethernet, &body[4..])),
            0 if body.get(4..).is_some_and(is_ppp) => Ok((Layer::Ppp, &body[4..])),
            _ if is_ppp(body) => Ok((Layer::Ppp, body)),
            _ => Err(Unopened::Named("MPLS without IP")),
        };
    }
    Err(Unopened::Deep)
}

/// RFC 8300, section 2.2: the length in words, then the protocol, which VXLAN-GPE numbers alike.
fn service(b: &[u8]) -> Step<'_> {
    let len = usize::from(byte(b, 1)? & 0x3f) * 4;
    if len < 8 {
        return Err(Unopened::Named("a service header of no known kind"));
    }
    Ok((numbered(byte(b, 3)?)?, from(b, len)?))
}

/// Protocols as VXLAN-GPE (RFC 9512) and service headers number them.
pub(crate) fn numbered(protocol: u8) -> Result<Layer, Unopened> {
    match protocol {
        1 | 2 => Ok(Layer::Ip),
        3 => Ok(Layer::Ethernet),
        4 => Ok(Layer::Service),
        5 => Ok(Layer::Labels),
        _ => Err(Unopened::Named("a protocol of no known number in VXLAN-GPE or NSH")),
    }
}

/// A data frame of IEEE 802.11 (clause 9.2): three addresses or four, quality of service, then LLC. Some controllers
/// turn the bytes of the frame control around.
fn radio(b: &[u8], padded: bool) -> Step<'_> {
    let (kind, flags) = match (byte(b, 0)?, byte(b, 1)?) {
        (kind, flags) if kind & 0x0f == 8 => (kind, flags),
        (flags, kind) if kind & 0x0f == 8 => (kind, flags),
        _ => return Err(Unopened::Named("802.11 without data")),
    };
    // A subtype with this bit carries nothing.
    if kind & 0x40 != 0 {
        return Err(Unopened::Named("802.11 without data"));
    }
    if flags & 0x40 != 0 {
        return Err(Unopened::Encrypted("802.11"));
    }
    // A later fragment begins within a packet.
    if byte(b, 22)? & 0x0f != 0 {
        return Err(Unopened::Named("later fragments of 802.11"));
    }
    let quality = kind & 0x80 != 0;
    let addresses = if flags & 3 == 3 { 30 } else { 24 };
    let control = if quality { byte(b, addresses)? } else { 0 };
    let words = if quality && flags & 0x80 != 0 { 4 } else { 0 };
    let len = addresses + if quality { 2 } else { 0 } + words;
    let body = from(b, if padded { len.next_multiple_of(4) } else { len })?;
    // Several packets in one frame: of them the first is read, with a head of Ethernet whose type is a length.
    if quality && control & 0x80 != 0 { Ok((Layer::Llc, from(body, 14)?)) } else { Ok((Layer::Llc, body)) }
}

/// Whether bytes look like an IP packet: for headers that do not name what follows them.
pub(crate) fn is_ip(b: &[u8]) -> bool {
    match b {
        [a, _, high, low, ..] if a >> 4 == 4 => {
            let (header, total) = (u16::from(a & 15) * 4, u16::from_be_bytes([*high, *low]));
            header >= 20 && (total == 0 || total >= header)
        }
        // The flow label is anything; a next header that nobody uses is none.
        [a, _, _, _, _, _, next, ..] if a >> 4 == 6 => {
            matches!(next, 0 | 4 | 6 | 17 | 41 | 43 | 44 | 47 | 50 | 51 | 58..=60 | 132)
        }
        _ => false,
    }
}

/// Whether bytes look like a frame of Ethernet whose type we know.
pub(crate) fn is_ethernet(b: &[u8]) -> bool {
    let Ok(kind) = be16(b, 12) else { return false };
    let body = &b[14..];
    match kind {
        TYPE_IPV4 => body.first().is_none_or(|v| v >> 4 == 4),
        TYPE_IPV6 => body.first().is_none_or(|v| v >> 4 == 6),
        0x0806 | 0x8100 | 0x88a8 | 0x9100 | 0x9200 | TYPE_MPLS | 0x8863 | 0x8864 | 0x88cc | 0x894f
        | 0x88e7 => true,
        ..LEAST_TYPE => matches!(body, [0xaa, 0xaa, 3, ..] | [0x42, 0x42, 3, ..]),
        _ => false,
    }
}

/// Whether bytes look like IP in PPP, or in Cisco's HDLC.
pub(crate) fn is_ppp(b: &[u8]) -> bool {
    let version = |v: u8, b: &[u8]| b.first().is_none_or(|first| first >> 4 == v);
    match b {
        [0xff, 3, 0, 0x21, rest @ ..] | [0, 0x21, rest @ ..] | [0x21, rest @ ..] => version(4, rest),
        [0xff, 3, 0, 0x57, rest @ ..] | [0, 0x57, rest @ ..] | [0x57, rest @ ..] => version(6, rest),
        [0x0f | 0x8f, 0, 8, 0, rest @ ..] => version(4, rest),
        [0x0f | 0x8f, 0, 0x86, 0xdd, rest @ ..] => version(6, rest),
        _ => false,
    }
}
