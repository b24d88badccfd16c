//! Files of all dresses with bytes changed, cut, doubled and exchanged: no panic, no hang, no growth.

use narrows_testing::Rng;

use super::wrap::{FRAMES, Order, Packet, TUNNELS, ethernet};
use super::{diagnose, packets};

/// Packets of a file: few, so that many files are tried.
const PACKETS: usize = 12;

fn specimens() -> Vec<Vec<u8>> {
    let few: Vec<Packet> = packets().into_iter().take(PACKETS).collect();
    let frames = |frame: &dyn Fn(&Packet) -> Vec<u8>| -> Vec<(u64, Vec<u8>)> {
        few.iter()
            .map(|p| {
                let mut frame = frame(p);
                frame.truncate(300);
                (p.at, frame)
            })
            .collect()
    };
    let mut all = Vec::new();
    for (_, link, frame) in FRAMES {
        all.push(Order(all.len() % 2 == 0).pcap(all.len() % 3 == 0, *link, &frames(frame)));
    }
    for (_, frame) in TUNNELS {
        let o = Order(all.len() % 2 == 0);
        let mut file = [o.section(0), o.interface(1, Some(9)), o.interface(220, None)].concat();
        for (n, (at, frame)) in frames(frame).iter().enumerate() {
            file.extend(if n % 5 == 4 {
                o.simple(frame)
            } else {
                o.enhanced((n % 7 == 6).into(), *at, frame)
            });
        }
        all.push(file);
    }
    let plain = frames(&ethernet);
    all.push([Order(false).pcap(false, 1, &plain), Order(true).pcap(true, 1, &plain)].concat());
    all
}

/// Few by default, as many as the variable says otherwise.
#[test]
fn changed_files_are_read_or_refused() {
    let many = std::env::var("NARROWS_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    let specimens = specimens();
    for seed in 0..many {
        let mut random = Rng((seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut below = |n: usize| random.below(n.max(1) as u64) as usize;
        let mut file = specimens[below(specimens.len())].clone();
        for _ in 0..=below(6) {
            let at = below(file.len());
            let len = below(40).min(file.len() - at);
            match below(8) {
                0 => file.truncate(at.max(30)),
                1 => {
                    let piece = file[at..at + len].to_vec();
                    file.splice(at..at, piece);
                }
                2 => {
                    file.drain(at..at + len);
                }
                3 => file[at] = [0, 0xff, 0x80, 0x45, 0x60, 1][below(6)],
                4 => {
                    let other = &specimens[below(specimens.len())];
                    let from = below(other.len());
                    let to = (from + 200).min(other.len());
                    file.splice(at..at, other[from..to].iter().copied());
                }
                _ => file[at] = below(256) as u8,
            }
            if file.is_empty() {
                break;
            }
        }
        let read = std::panic::catch_unwind(|| diagnose(vec![file]).map(|found| found.flows.len()));
        assert!(read.is_ok(), "seed {seed}");
    }
}
