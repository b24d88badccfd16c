//! What the fuzz target `capture` runs, here so that ordinary tests run it too, over pseudo-random bytes.

use crate::capture::{Reader, Writer};
use crate::{Header, build, parse};

/// Any bytes as a capture: read to its end, written anew, and read again.
///
/// # Panics
/// If reading, building or writing contradicts itself.
pub fn capture(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let mut writer = Writer::new(Vec::new()).expect("a vector takes all");
    let mut written = Vec::new();
    // An error ends the reading, so this loop is no longer than the bytes.
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

/// The header as `build` can say it: what it says again is the same.
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

/// A small generator of our own, so that a seed gives the same bytes for ever.
pub struct XorShift(u64);

impl XorShift {
    /// From a seed; zero will do.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// A number below `n`, which is not zero; close enough to uniform for tests.
    pub const fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}
