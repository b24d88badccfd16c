//! Ethernet frames: where their IP packet begins, and how what the stack left to hardware is done by hand.
//!
//! A packet socket with `PACKET_VNET_HDR` says of each frame what hardware would still do (virtio 1.2, 5.1.6): compute
//! a checksum, cut a large segment into packets. Doing both here keeps the queue honest (it holds what the wire will
//! carry), whatever offloads the machine or its peers have on, and leaves their settings alone.

use narrows_wire::checksum;

/// Length of the header before each frame.
pub const VNET: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// A flag beside the type: the segment carries CWR.
const GSO_ECN: u8 = 0x80;
/// Largest packet that every path carries.
const LEAST_MTU: usize = 1280;

/// Header of a frame that names the work left to hardware: checksum and segmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vnet {
    flags: u8,
    gso: u8,
    gso_size: usize,
    checksum_from: usize,
    checksum_at: usize,
}

impl Vnet {
    /// Splits a received datagram into header and frame.
    #[must_use]
    pub fn split(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (h, frame) = datagram.split_at_checked(VNET)?;
        let word = |at: usize| usize::from(u16::from_ne_bytes([h[at], h[at + 1]]));
        let checksum_from = word(6);
        let vnet = Self {
            flags: h[0],
            gso: h[1] & !GSO_ECN,
            gso_size: word(4),
            checksum_from,
            checksum_at: checksum_from + word(8),
        };
        Some((vnet, frame))
    }

    /// Header for a merged segment of TCP whose own is not known: pieces of which any path carries each, 1280 bytes
    /// at most, the least MTU of IPv6 (RFC 8200, section 5). `None` for what is no such segment.
    #[must_use]
    pub fn guess(frame: &[u8]) -> Option<Self> {
        let ip_at = ip_offset(frame)?;
        let (l4, proto) = transport(frame, ip_at)?;
        let header = usize::from(*frame.get(l4.start + 12)? >> 4).max(5) * 4;
        let gso = if frame[ip_at] >> 4 == 4 { GSO_TCP4 } else { GSO_TCP6 };
        let gso_size = LEAST_MTU - (l4.start - ip_at) - header;
        (proto == 6).then_some(Self { gso, gso_size, ..Self::default() })
    }

    /// Most packets that a frame of this length can stand for.
    #[must_use]
    pub const fn pieces(&self, frame: usize) -> usize {
        if self.gso == 0 || self.gso_size == 0 { 1 } else { frame.div_ceil(self.gso_size) }
    }

    /// Whether the frame stands for several packets.
    #[must_use]
    pub const fn is_merged(&self) -> bool {
        self.gso != 0
    }

    /// Hands `each` the packets this frame stands for, as the wire would carry them. `false` if it is of a kind we
    /// cannot cut.
    pub fn complete(&self, frame: &[u8], mut each: impl FnMut(Vec<u8>)) -> bool {
        if self.gso == 0 {
            let mut whole = frame.to_vec();
            let fits = self.flags & NEEDS_CHECKSUM == 0 || self.fill_checksum(&mut whole);
            each(whole);
            return fits;
        }
        let Some(ip_at) = ip_offset(frame) else { return false };
        match self.gso {
            GSO_TCP4 | GSO_TCP6 => self.cut(frame, ip_at, 6, each).is_some(),
            GSO_UDP => self.cut(frame, ip_at, 17, each).is_some(),
            _ => false,
        }
    }

    /// The pseudo-header's sum stands in the checksum field already.
    fn fill_checksum(&self, frame: &mut [u8]) -> bool {
        if self.checksum_at + 2 > frame.len() || self.checksum_from > self.checksum_at {
            return false;
        }
        let sum = checksum(&frame[self.checksum_from..], 0);
        // A UDP checksum of zero means none was made (RFC 768); its other form means the same sum.
        let sum = if sum == 0 { 0xffff } else { sum };
        frame[self.checksum_at..self.checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }

    fn cut(&self, frame: &[u8], ip_at: usize, proto: u8, mut each: impl FnMut(Vec<u8>)) -> Option<()> {
        // Where no checksum is left to hardware, as for what a driver has merged, the headers say where it begins.
        let left = self.flags & NEEDS_CHECKSUM != 0;
        let l4 = if left { self.checksum_from } else { transport(frame, ip_at)?.0.start };
        // No TCP header is shorter than 20 bytes, whatever its data offset says (RFC 9293, section 3.1).
        let data = l4 + if proto == 6 { usize::from(*frame.get(l4 + 12)? >> 4).max(5) * 4 } else { 8 };
        let payload = frame.get(data..).filter(|_| self.gso_size > 0 && ip_at + 20 <= l4)?;
        let pieces = payload.len().div_ceil(self.gso_size);
        for (i, piece) in payload.chunks(self.gso_size).enumerate() {
            let mut out = Vec::with_capacity(data + piece.len());
            out.extend_from_slice(&frame[..data]);
            out.extend_from_slice(piece);
            set_ip_length(&mut out, ip_at, i)?;
            if proto == 6 {
                let seq = u32::from_be_bytes(out.get(l4 + 4..l4 + 8)?.try_into().ok()?);
                let seq = seq.wrapping_add((i * self.gso_size) as u32);
                out[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
                // FIN and PSH belong to the last, CWR to the first.
                out[l4 + 13] &= if i + 1 < pieces { !0x09 } else { 0xff } & if i > 0 { !0x80 } else { 0xff };
            } else {
                let len = u16::try_from(out.len() - l4).ok()?;
                out[l4 + 4..l4 + 6].copy_from_slice(&len.to_be_bytes());
            }
            set_l4_checksum(&mut out, ip_at, l4, proto)?;
            each(out);
        }
        Some(())
    }
}

/// Brings the IP header's length, and in IPv4 the identification and checksum, to the `index`-th piece.
fn set_ip_length(frame: &mut [u8], ip_at: usize, index: usize) -> Option<()> {
    let total = frame.len() - ip_at;
    let ip = frame.get_mut(ip_at..)?;
    if ip[0] >> 4 == 4 {
        ip[2..4].copy_from_slice(&u16::try_from(total).ok()?.to_be_bytes());
        let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index as u16);
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ip[10..12].fill(0);
        let len = usize::from(ip[0] & 0xf) * 4;
        let sum = checksum(ip.get(..len)?, 0);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        let payload = u16::try_from(total.checked_sub(40)?).ok()?;
        ip.get_mut(4..6)?.copy_from_slice(&payload.to_be_bytes());
    }
    Some(())
}

fn set_l4_checksum(frame: &mut [u8], ip_at: usize, l4: usize, proto: u8) -> Option<()> {
    let addresses = if frame[ip_at] >> 4 == 4 { ip_at + 12..ip_at + 20 } else { ip_at + 8..ip_at + 40 };
    let len = u32::try_from(frame.len() - l4).ok()?;
    let pseudo = u32::from(!checksum(frame.get(addresses)?, u32::from(proto) + len));
    let at = l4 + if proto == 6 { 16 } else { 6 };
    frame.get_mut(at..at + 2)?.fill(0);
    let sum = checksum(&frame[l4..], pseudo);
    let sum = if sum == 0 && proto == 17 { 0xffff } else { sum };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Finishes a checksum that the sender's stack left to hardware, where nothing tells that it did: its field holds the
/// sum of the pseudo-header alone, as a finished one does once in 65 536 packets, which this leaves as it is.
pub fn finish_checksum(frame: &mut [u8], ip_at: usize) {
    let Some((l4, proto)) = transport(frame, ip_at) else { return };
    let field = l4.start + if proto == 6 { 16 } else { 6 };
    let addresses = if frame[ip_at] >> 4 == 4 { ip_at + 12..ip_at + 20 } else { ip_at + 8..ip_at + 40 };
    let pseudo = !checksum(&frame[addresses], u32::from(proto) + l4.len() as u32);
    let Some(&[a, b]) = frame.get(field..field + 2) else { return };
    if u16::from_be_bytes([a, b]) == pseudo {
        let sum = checksum(&frame[l4], 0);
        let sum = if sum == 0 && proto == 17 { 0xffff } else { sum };
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Range of a packet's TCP or UDP, and which it is; none for fragments, or behind extension headers.
fn transport(frame: &[u8], ip_at: usize) -> Option<(std::ops::Range<usize>, u8)> {
    let ip = frame.get(ip_at..)?;
    let word = |at: usize| Some(usize::from(u16::from_be_bytes(ip.get(at..at + 2)?.try_into().ok()?)));
    let (begin, end, proto) = match ip.first()? >> 4 {
        4 if word(6)? & 0x3fff == 0 => (usize::from(ip[0] & 0xf) * 4, word(2)?, ip.get(9)?),
        6 => (40, 40 + word(4)?, ip.get(6)?),
        _ => return None,
    };
    let whole = begin >= 20 && begin + 8 <= end && end <= ip.len();
    (whole && matches!(proto, 6 | 17)).then_some((ip_at + begin..ip_at + end, *proto))
}

/// Puts back the VLAN tag (IEEE 802.1Q) that the kernel takes off and tells beside the frame.
pub fn insert_vlan(frame: &mut Vec<u8>, tpid: u16, tci: u16) {
    if frame.len() >= 12 {
        let [a, b] = tpid.to_be_bytes();
        let [c, d] = tci.to_be_bytes();
        frame.splice(12..12, [a, b, c, d]);
    }
}

/// Offset of the IP packet: behind up to two VLAN tags, or in a PPPoE session (RFC 2516). A packet's length counts
/// from there, so a sender of more tags, or of labels of MPLS, shall not have them carried for nothing.
#[must_use]
pub fn ip_offset(frame: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let mut at = 12;
    for _ in 0..3 {
        match word(at)? {
            0x8100 | 0x88a8 => at += 4,
            0x0800 | 0x86dd => return Some(at + 2),
            // Six bytes of PPPoE, then PPP's protocol: IPv4 or IPv6.
            0x8864 => return matches!(word(at + 8)?, 0x0021 | 0x0057).then_some(at + 10),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 14 of Ethernet, 20 of IPv4, 20 of TCP with FIN, PSH, CWR and ACK, then `payload` bytes 0, 1, 2, ...
    fn frame(payload: usize) -> Vec<u8> {
        let mut f = vec![0u8; 12];
        f.extend([8, 0]);
        let total = (40 + payload) as u16;
        f.extend([0x45, 0, total.to_be_bytes()[0], total.to_be_bytes()[1], 0, 7, 0x40, 0, 64, 6, 0, 0]);
        f.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend([0, 80, 0x9c, 0x40, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9, 0x50, 0x99, 1, 0, 0, 0, 0, 0]);
        f.extend((0..payload).map(|i| i as u8));
        f
    }

    fn vnet(flags: u8, gso: u8, size: u16) -> Vnet {
        let mut h = vec![flags, gso, 0, 0];
        for word in [size, 34, 16] {
            h.extend(word.to_ne_bytes());
        }
        Vnet::split(&h).unwrap().0
    }

    #[test]
    fn a_checksum_left_to_hardware_is_finished_and_no_other_touched() {
        let mut whole = Vec::new();
        assert!(vnet(1, GSO_TCP4, 1000).complete(&frame(101), |p| whole = p));
        for proto in [6, 17] {
            let mut done = whole.clone();
            done[23] = proto;
            set_l4_checksum(&mut done, 14, 34, proto).unwrap();
            let at = 34 + if proto == 6 { 16 } else { 6 };
            let mut begun = done.clone();
            let pseudo = !checksum(&done[26..34], u32::from(proto) + (done.len() - 34) as u32);
            begun[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
            finish_checksum(&mut begun, 14);
            assert_eq!(begun, done, "{proto}");
            // A finished one stays, and one that is wrong stays wrong.
            for wrong in [0, 1] {
                let mut other = done.clone();
                other[60] ^= wrong;
                let before = other.clone();
                finish_checksum(&mut other, 14);
                assert_eq!(other, before, "{proto}");
            }
        }
        for n in 0..60 {
            finish_checksum(&mut whole[..n].to_vec(), 14);
        }
    }

    #[test]
    fn a_large_segment_becomes_what_the_wire_would_carry() {
        let mut pieces = Vec::new();
        assert!(vnet(1, GSO_TCP4, 100).complete(&frame(250), |p| pieces.push(p)));
        let lens: Vec<_> = pieces.iter().map(Vec::len).collect();
        assert_eq!(lens, [154, 154, 104]);
        let most = |gso, size| vnet(1, gso, size).pieces(304);
        assert_eq!([most(GSO_TCP4, 100), most(0, 100), most(GSO_TCP4, 0)], [4, 1, 1]);
        let mut payload = Vec::new();
        for (i, p) in pieces.iter().enumerate() {
            let ip = &p[14..];
            assert_eq!(checksum(&ip[..20], 0), 0);
            assert_eq!(narrows_wire::tcp_checksum(ip).unwrap().to_be_bytes(), ip[36..38]);
            assert_eq!(ip[5] as usize, 7 + i);
            let tcp = narrows_wire::parse(ip).unwrap().tcp.unwrap();
            // The sequence number wraps at the second piece: 0xfffffff0 + 100 = 84.
            assert_eq!(tcp.seq.0, [0xffff_fff0, 84, 184][i]);
            // FIN 1, PSH 8, ACK 16, CWR 128.
            assert_eq!(tcp.flags.0, [0x90, 0x10, 0x19][i]);
            payload.extend_from_slice(&ip[40..]);
        }
        assert_eq!(payload, frame(250)[54..]);
    }

    #[test]
    fn where_nothing_is_known_of_a_segment_its_pieces_fit_any_path() {
        let f = frame(3000);
        let (guess, mut pieces) = (Vnet::guess(&f).unwrap(), Vec::new());
        assert!(guess.is_merged() && guess.complete(&f, |p| pieces.push(p)));
        // 1280 bytes less 40 of headers are 1240 of payload.
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [1294, 1294, 574]);
        for p in &pieces {
            assert_eq!(narrows_wire::tcp_checksum(&p[14..]).unwrap().to_be_bytes(), p[50..52]);
        }
        let mut datagram = f.clone();
        datagram[23] = 17;
        assert_eq!(Vnet::guess(&datagram), None, "what its pieces were nobody knows");
        for n in 0..70 {
            let _ = Vnet::guess(&f[..n]);
        }
    }

    #[test]
    fn a_checksum_left_to_hardware_is_filled_in() {
        let mut f = frame(11);
        let expected = narrows_wire::tcp_checksum(&f[14..]).unwrap();
        // The stack leaves the sum of the pseudo-header in the field, not inverted.
        let pseudo = !checksum(&[10, 0, 0, 1, 10, 0, 0, 2], 6 + 31);
        f[50..52].copy_from_slice(&pseudo.to_be_bytes());
        let mut out = Vec::new();
        assert!(vnet(1, 0, 0).complete(&f, |p| out = p));
        assert_eq!(out[50..52], expected.to_be_bytes());
    }

    #[test]
    fn what_is_complete_stays_as_it_is() {
        let mut f = frame(5);
        f[50] = 0x77; // a wrong checksum is the receiver's business
        let mut out = Vec::new();
        assert!(vnet(0, 0, 0).complete(&f, |p| out = p));
        assert_eq!(out, f);
    }

    #[test]
    fn where_ip_begins() {
        let with = |types: &[u8]| [&[0; 12][..], types, &[0; 20]].concat();
        assert_eq!(ip_offset(&with(&[8, 0])), Some(14));
        assert_eq!(ip_offset(&with(&[0x81, 0, 0, 5, 0x86, 0xdd])), Some(18));
        assert_eq!(ip_offset(&with(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0])), Some(22));
        assert_eq!(ip_offset(&with(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 9, 0, 0x21])), Some(22));
        assert_eq!(ip_offset(&with(&[8, 6])), None, "ARP");
        let mut tagged = with(&[8, 0]);
        insert_vlan(&mut tagged, 0x8100, 5);
        assert_eq!(ip_offset(&tagged), Some(18));
    }

    #[test]
    fn no_frame_makes_it_panic() {
        for data_offset in 0..16 {
            let mut f = frame(30);
            f[46] = data_offset << 4;
            for n in 0..=f.len() {
                for gso in [0, 1, 4, 5, 9] {
                    for (flags, size) in [(1, 0), (1, 1), (1, 7), (0, 7)] {
                        let _ = vnet(flags, gso, size).complete(&f[..n], |_| ());
                    }
                }
                let _ = ip_offset(&f[..n]);
            }
        }
    }
}
