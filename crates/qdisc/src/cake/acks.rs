//! Which acknowledgments a later one makes superfluous.
//!
//! Idea: Høiland-Jørgensen, Täht, Morton, Piece of CAKE, LANMAN 2018, section III-E. TCP's acknowledgments are cumulative: on a thin way back many that wait
//! say no more than the last.
//!
//! Where we differ, always on the side of keeping: an acknowledgment is kept if it carries SACK blocks, a flag besides ACK and
//! PSH (ECE and CWR are signals; FIN, SYN and RST take part in the connection), or acknowledges nothing before the later one (duplicates count
//! as losses at the sender). CAKE also lets SACKs go that a later one contains.

use narrows_units::SeqNum;
use narrows_wire::{Flags, Header, TcpHeader};

/// The TCP header, if it is a plain acknowledgment.
fn plain(h: &Header) -> Option<&TcpHeader> {
    let spare = Flags::ACK.0 | Flags::PSH.0;
    h.tcp.as_ref().filter(|t| !h.fragment && t.is_pure_ack() && t.flags.0 & !spare == 0)
}

/// Whether it may make others superfluous: any plain acknowledgment, with SACK blocks or without.
pub fn replaces(h: &Header) -> bool {
    plain(h).is_some()
}

/// Whether `old`, which waits before `new` in the same queue, tells its receiver nothing that `new` does not.
pub fn superfluous(old: &Header, new: &Header) -> bool {
    if old.key != new.key {
        return false;
    }
    let (Some(a), Some(b)) = (plain(old), plain(new)) else { return false };
    // Timestamps drive the RTT estimate and PAWS: both or none, and not older.
    let stamps = match (a.timestamps, b.timestamps) {
        (None, None) => true,
        (Some((before, _)), Some((after, _))) => SeqNum(before).at_or_before(SeqNum(after)),
        _ => false,
    };
    stamps && a.sack.as_slice().is_empty() && a.ack.before(b.ack)
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
        assert!(superfluous(&with(1, |t| t.flags = Flags::ACK.and(Flags::PSH)), &ack(2)));
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
            (with(1000, |t| t.payload = 1), "data"),
            (with(1000, stamp(7)), "a timestamp that the new one lacks"),
            (Header { fragment: true, ..ack(1000) }, "a fragment"),
            (Header { key: ack(1).key.reverse(), ..ack(1000) }, "another flow"),
            (Header { tcp: None, ..ack(1000) }, "no TCP header"),
        ] {
            assert!(!superfluous(&kept, &ack(2000)), "{why}");
        }
        assert!(!superfluous(&with(1, stamp(8)), &with(2, stamp(7))), "an older timestamp");
        // One that carries ECE or data does not replace either.
        assert!(!superfluous(&ack(1000), &with(2000, flag(Flags::ECE))));
        assert!(!superfluous(&ack(1000), &with(2000, |t| t.payload = 1)));
        assert!(!replaces(&with(2000, flag(Flags::ECE))) && replaces(&with(2000, sack)));
    }
}
