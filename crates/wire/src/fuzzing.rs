//! The body of the fuzz target `capture`. The target stands here so that ordinary tests run it too, with pseudo-random
//! bytes.

use crate::capture::{Reader, Writer};
use crate::{Header, build, parse};

/// Reads any bytes as a capture, writes what was read, and reads that again.
///
/// # Panics
/// If the second reading differs from the first.
pub fn capture(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let mut writer = Writer::new(Vec::new()).expect("a vector takes all");
    let mut written = Vec::new();
    // The reader ends at an error, so this loop ends with the bytes.
    for captured in reader.by_ref().flatten() {
        let header = settled(&captured.header);
        if writer.write(captured.at, &header).is_ok() {
            written.push((captured.at, header));
        }
    }
    assert!(reader.next().is_none());
    let file = writer.into_inner();
    let again: Vec<_> = Reader::new(&file[..])
        .expect("our own file")
        .map(|c| c.expect("our own frame"))
        .map(|c| (c.at, c.header))
        .collect();
    assert_eq!(again.len(), written.len());
    let first = written.first().map_or(narrows_units::Instant::ZERO, |w| w.0);
    for (a, w) in again.iter().zip(&written) {
        assert_eq!(a.0.as_nanos(), w.0.since(first).as_nanos());
        assert_eq!(a.1, w.1);
    }
}

/// The header that remains after one round of `build` and `parse`; a second round must not change it.
fn settled(header: &Header) -> Header {
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    let total = build(header, 1, &mut bytes);
    assert!(bytes.len() <= total);
    let said = parse(&bytes).expect("a packet we built");
    assert_eq!((said.key.proto, said.fragment, said.ecn), (header.key.proto, header.fragment, header.ecn));
    assert_eq!(build(&said, 1, &mut again), total);
    assert_eq!(again, bytes);
    said
}

/// A small random number generator of our own, so that a seed always gives the same bytes.
#[cfg(test)]
pub(crate) struct XorShift(u64);

#[cfg(test)]
impl XorShift {
    /// Starts from any seed, zero included.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// A number below `n`, which is not zero; close enough to uniform for tests.
    pub(crate) const fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}
