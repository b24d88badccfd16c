//! Acknowledgments that a later one makes superfluous.
//!
//! Idea: Høiland-Jørgensen, Täht, Morton, Piece of CAKE, LANMAN 2018, section III-E. TCP's acknowledgments are
//! cumulative: on a thin way back many that wait say no more than the last.
//!
//! An acknowledgment is kept if it has a flag besides ACK (ECE and CWR are signals, FIN, SYN and RST take part in the
//! connection, somebody may wait for PSH and URG, and AccECN counts with a reserved bit), an option besides timestamps
//! (MPTCP tells what no later one repeats) or a newer timestamp or echo, or if it acknowledges nothing before the later
//! one (duplicates count as losses at the sender).
//!
//! Where we differ, always on the side of keeping: CAKE also lets SACKs go that a later one contains, echoes of marks
//! that the later one repeats, and MD5 signatures; and data may replace an acknowledgment there.

use narrows_flow::MOST_UNDER_WAY;
use narrows_units::SeqNum;
use narrows_wire::{Flags, Header, TcpHeader};

/// The TCP header of a packet that is a plain acknowledgment; `None` for other packets.
fn plain(h: &Header) -> Option<&TcpHeader> {
    let bare = |t: &&TcpHeader| !t.beyond && t.mss.is_none() && t.window_scale.is_none();
    h.tcp.as_ref().filter(|t| !h.fragment && t.is_pure_ack() && t.flags == Flags::ACK).filter(bare)
}

/// Whether a packet may make others superfluous: any plain acknowledgment, with SACK blocks or without.
pub fn replaces(h: &Header) -> bool {
    plain(h).is_some()
}

/// Whether `old`, which waits before `new` in the same queue, tells its receiver nothing that `new` does not.
pub fn superfluous(old: &Header, new: &Header) -> bool {
    if old.key != new.key {
        return false;
    }
    let (Some(a), Some(b)) = (plain(old), plain(new)) else { return false };
    // Timestamps drive the RTT estimate and PAWS: both or none, and neither value nor echo older.
    let later = |before, after| SeqNum(before).at_or_before(SeqNum(after));
    let stamps = match (a.timestamps, b.timestamps) {
        (None, None) => true,
        (Some(before), Some(after)) => later(before.0, after.0) && later(before.1, after.1),
        _ => false,
    };
    // An acknowledgment of more than is ever under way is forged, and tells nothing of what is.
    stamps && a.sack.as_slice().is_empty() && (1..=MOST_UNDER_WAY).contains(&(b.ack - a.ack))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::{FlowKey, Proto};

    fn ack(n: u32) -> Header {
        let key = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 4000, 80, Proto::TCP);
        let tcp = TcpHeader { ack: SeqNum(n), flags: Flags::ACK, ..TcpHeader::default() };
        Header { key, tcp: Some(tcp), ..Header::default() }
    }

    fn with(n: u32, change: impl FnOnce(&mut TcpHeader)) -> Header {
        let mut h = ack(n);
        change(h.tcp.as_mut().unwrap());
        h
    }

    #[test]
    fn a_later_one_replaces_a_plain_one() {
        assert!(superfluous(&ack(1000), &ack(2000)));
        assert!(superfluous(&ack(u32::MAX - 5), &ack(10)), "sequence numbers wrap");
        let sack = |t: &mut TcpHeader| t.sack.push(SeqNum(5000), SeqNum(6000));
        assert!(superfluous(&ack(1000), &with(2000, sack)));
        let stamp = |ts| move |t: &mut TcpHeader| t.timestamps = Some((ts, 1));
        assert!(superfluous(&with(1, stamp(7)), &with(2, stamp(7))));
    }

    #[test]
    fn what_says_more_is_kept() {
        let sack = |t: &mut TcpHeader| t.sack.push(SeqNum(5000), SeqNum(6000));
        let flag = |f: Flags| move |t: &mut TcpHeader| t.flags = Flags::ACK.and(f);
        let stamp = |ts| move |t: &mut TcpHeader| t.timestamps = Some((ts, 1));
        for (kept, why) in [
            (ack(2000), "a duplicate"),
            (ack(3000), "a newer one"),
            (with(1000, sack), "SACK"),
            (with(1000, flag(Flags::ECE)), "ECE"),
            (with(1000, flag(Flags::CWR)), "CWR"),
            (with(1000, flag(Flags::FIN)), "FIN"),
            (with(1000, flag(Flags::SYN)), "SYN"),
            (with(1000, flag(Flags::PSH)), "PSH"),
            (with(1000, flag(Flags(0x20))), "URG"),
            (with(1000, |t| t.beyond = true), "an unknown option or a reserved bit"),
            (with(1000, |t| t.mss = Some(1460)), "an option of a SYN"),
            (with(1000, |t| t.payload = 1), "data"),
            (with(1000, stamp(7)), "a timestamp that the new one lacks"),
            (Header { fragment: true, ..ack(1000) }, "a fragment"),
            (Header { key: ack(1).key.reverse(), ..ack(1000) }, "another flow"),
            (Header { tcp: None, ..ack(1000) }, "no TCP header"),
        ] {
            assert!(!superfluous(&kept, &ack(2000)), "{why}");
        }
        assert!(!superfluous(&with(1, stamp(8)), &with(2, stamp(7))), "an older timestamp");
        let echo = |ecr| move |t: &mut TcpHeader| t.timestamps = Some((7, ecr));
        assert!(superfluous(&with(1, echo(3)), &with(2, echo(3))), "the same echo");
        assert!(!superfluous(&with(1, echo(4)), &with(2, echo(3))), "an older echo");
        assert!(
            superfluous(&ack(1), &ack(1 + MOST_UNDER_WAY)) && !superfluous(&ack(1), &ack(2 + MOST_UNDER_WAY)),
            "forged"
        );
        // An acknowledgment with ECE or data does not replace an earlier one.
        assert!(!superfluous(&ack(1000), &with(2000, flag(Flags::ECE))));
        assert!(!superfluous(&ack(1000), &with(2000, |t| t.payload = 1)));
        assert!(!replaces(&with(2000, flag(Flags::ECE))) && replaces(&with(2000, sack)));
    }
}
