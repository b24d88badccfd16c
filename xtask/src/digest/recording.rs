//! Arrivals made here, the same on every machine: those of `tests/tests/it/parity.rs`, as a capture.

use std::io::Write;

use anyhow::Result;
use narrows_testing::Rng;
use narrows_units::{Bytes, Ecn, Instant, SeqNum};
use narrows_wire::capture::Writer;
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

/// Prefix of the users' addresses, in the form for `--local`.
pub const LOCAL: &str = "10.1.0.0/16";
const USERS: u64 = 300;

/// Writes downloads of 300 users as a pcap: handshakes, data, copies, acknowledgments, FINs, some ECN, some UDP.
pub fn write(out: impl Write, seed: u64, packets: u64) -> Result<()> {
    let mut writer = Writer::new(out)?;
    let (mut rng, mut sent) = (Rng(seed), [0; USERS as usize]);
    let mut now = 1_000_000_000;
    for id in 0..packets {
        now += rng.below(20_000_000);
        let user = rng.below(USERS);
        let (down, tcp) = segment(&mut rng, &mut sent[user as usize], id as u32);
        let to = [10, 1, (user >> 8) as u8, user as u8].into();
        let key = FlowKey::new([10, 0, 1, 1].into(), to, 80, 40_000, Proto::TCP);
        let ecn = if user.is_multiple_of(5) { Ecn::Ect0 } else { Ecn::NotEct };
        let len = Bytes(u64::from(tcp.payload) + 52);
        let key = if down { key } else { key.reverse() };
        let mut header = Header { key, len, ecn, tcp: Some(tcp), ..Header::default() };
        if user.is_multiple_of(37) && down {
            header.key.proto = Proto::UDP;
            header.tcp = None;
        }
        writer.write(Instant::from_nanos(now), &header)?;
    }
    Ok(writer.flush()?)
}

/// Draws the next packet of a user's connection, of which `next` segments are under way; true if it goes to the user.
fn segment(rng: &mut Rng, next: &mut u32, stamp: u32) -> (bool, TcpHeader) {
    let base =
        TcpHeader { flags: Flags::ACK, window: 501, timestamps: Some((stamp, 0)), ..TcpHeader::default() };
    let data = |n: u32| TcpHeader { seq: SeqNum(1001 + n * 1448), ack: SeqNum(1), payload: 1448, ..base };
    match (*next, rng.below(10)) {
        (0, _) => {
            *next = 1;
            (false, TcpHeader { flags: Flags::SYN, window_scale: Some(7), mss: Some(1460), ..base })
        }
        (1, _) => {
            *next = 2;
            let flags = Flags::SYN.and(Flags::ACK);
            (true, TcpHeader { flags, seq: SeqNum(1000), ack: SeqNum(1), window_scale: Some(7), ..base })
        }
        (n, 0..=5) => {
            *next = n + 1;
            (true, data(n - 2))
        }
        (n, 6..=7) if n > 3 => {
            let again = n - 3 - (rng.below(u64::from(n - 2)) as u32).min(n - 3);
            (true, data(again))
        }
        (n, 8) if n > 12 => {
            *next = 0;
            (true, TcpHeader { flags: Flags::FIN.and(Flags::ACK), payload: 0, ..data(n - 2) })
        }
        (n, _) => {
            (false, TcpHeader { seq: SeqNum(1), ack: SeqNum(1001 + n.saturating_sub(3) * 1448), ..base })
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::capture::Reader;

    use super::*;

    #[test]
    fn the_same_every_time_and_readable() {
        let made = |seed| {
            let mut bytes = Vec::new();
            write(&mut bytes, seed, 2000).unwrap();
            bytes
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        let bytes = made(1);
        let read: Vec<_> = Reader::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), 2000);
        let up = read.iter().filter(|c| c.header.key.dport == 80).count();
        assert!((100..1900).contains(&up), "{up} to the servers");
        assert!(read.windows(2).all(|w| w[0].at <= w[1].at));
    }
}
