//! Round trips by the spin bit (RFC 9000, section 17.4; RFC 9312, section 4.2): the client turns what the server sends,
//! the server repeats what the client sends, so that each changes once in a round trip.

use narrows_units::{Duration, Instant};

/// Samples that are kept, the latest.
const KEPT: usize = 64;
/// Fewer say nothing.
const FEW: usize = 3;

/// The server's packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spin {
    last: Option<bool>,
    edge: Option<Instant>,
    packets: u64,
    edges: u64,
    samples: Vec<Duration>,
}

impl Spin {
    pub(crate) fn packet(&mut self, at: Instant, spin: bool) {
        self.packets += 1;
        if self.last.replace(spin).is_none_or(|last| last == spin) {
            return;
        }
        self.edges += 1;
        if let Some(edge) = self.edge.replace(at) {
            if self.samples.len() < KEPT {
                self.samples.push(at.since(edge));
            } else {
                self.samples[self.edges as usize % KEPT] = at.since(edge);
            }
        }
    }

    /// The median and the least. None where the bit does not spin: an end that takes no part sends it at random, packet
    /// by packet, so that much of what seems a round trip is shorter than that of the handshake.
    pub(crate) fn rtt(&self, handshake: Option<Duration>) -> Option<(Duration, Duration)> {
        if self.samples.len() < FEW {
            return None;
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let (median, least) = (sorted[sorted.len() / 2], sorted[0]);
        let spins = match handshake {
            Some(rtt) => sorted[sorted.len() / 4] >= rtt / 2,
            // One packet in two is an edge if the bits are random.
            None => self.edges * 3 <= self.packets,
        };
        spins.then_some((median, least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_that_spins_and_one_that_does_not() {
        let ms = Duration::from_millis;
        let at = |n: u64| Instant::ZERO + ms(n);
        // Four packets in each round trip of 100 ms.
        let mut s = Spin::default();
        for n in 0..40_u64 {
            s.packet(at(n / 4 * 100 + n % 4), n / 4 % 2 == 1);
        }
        assert_eq!(s.rtt(Some(ms(100))), Some((ms(100), ms(100))));
        assert_eq!(s.rtt(None), Some((ms(100), ms(100))));
        // Packets at the same times with random bits.
        let mut s = Spin::default();
        for n in 0..40_u64 {
            s.packet(at(n / 4 * 100 + n % 4), 0b1011_0010_1110_0101_u64 >> (n * 7 % 16) & 1 == 1);
        }
        assert_eq!((s.rtt(Some(ms(100))), s.rtt(None)), (None, None));
    }
}
