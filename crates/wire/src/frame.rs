//! Finds the IP packet in a frame of Ethernet.

/// Where the IP packet begins, if the ethertype at `type_at` is one of IP. The payload begins at `body_at`; it may
/// begin with VLAN tags (IEEE 802.1Q, 802.1ad), or with labels of MPLS.
pub(crate) fn behind_ethertype(frame: &[u8], mut type_at: usize, mut body_at: usize) -> Option<usize> {
    loop {
        match u16::from_be_bytes([*frame.get(type_at)?, *frame.get(type_at + 1)?]) {
            0x0800 | 0x86dd => return Some(body_at),
            // A tag has two bytes of its own, then the ethertype of what follows it.
            0x8100 | 0x88a8 | 0x9100 => (type_at, body_at) = (body_at + 2, body_at + 4),
            0x8864 => return behind_pppoe(frame, body_at),
            0x8847 => return behind_labels(frame, body_at),
            _ => return None,
        }
    }
}

/// Where the IP packet begins in a session frame of PPPoE (RFC 2516, section 4): version and type, code, session and
/// length are six bytes, and the protocol of PPP has two, 0x21 for IPv4 and 0x57 for IPv6.
fn behind_pppoe(frame: &[u8], at: usize) -> Option<usize> {
    let is_ip = matches!(frame.get(at + 6..at + 8)?, [0, 0x21 | 0x57]);
    (frame[at] == 0x11 && frame[at + 1] == 0 && is_ip).then_some(at + 8)
}

/// Where the IP packet begins behind the label stack at `at` (RFC 3032, section 2.1): four bytes for a label, of which
/// the lowest bit of the third marks the last. Nothing names what follows, so it must look like IP: routers tell the
/// same way (RFC 4928, section 3).
pub(crate) fn behind_labels(frame: &[u8], at: usize) -> Option<usize> {
    // A stack of more is no real one.
    for body in (at + 4..).step_by(4).take(8) {
        if frame.get(body - 2)? & 1 == 1 {
            return matches!(frame.get(body)? >> 4, 4 | 6).then_some(body);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip_offset(frame: &[u8]) -> Option<usize> {
        behind_ethertype(frame, 12, 14)
    }

    #[test]
    fn ip_behind_labels() {
        // Labels 16 and 17 (RFC 3032): 20 bits, three of class, "last", and a TTL of 64.
        let with = |rest: &[u8]| [&[0; 12], &[0x88, 0x47][..], rest].concat();
        let (one, last) = ([0, 1, 0, 64], [0, 1, 0x11, 64]);
        assert_eq!(ip_offset(&with(&[&last[..], &[0x45]].concat())), Some(18));
        let two = with(&[&one[..], &last, &[0x60]].concat());
        assert_eq!(ip_offset(&two), Some(22));
        assert!((0..two.len()).all(|cut| ip_offset(&two[..cut]).is_none()));
        assert_eq!(ip_offset(&with(&[&last[..], &[0x00]].concat())), None, "a pseudowire (RFC 4385)");
        assert_eq!(ip_offset(&with(&[one; 9].concat())), None, "no last label");
        // Behind a tag of VLAN 5.
        let tagged = [&[0; 12], &[0x81, 0, 0, 5, 0x88, 0x47][..], &last, &[0x45]].concat();
        assert_eq!(ip_offset(&tagged), Some(22));
    }
}
