//! Reads pcap: a head of 24 bytes, then frames, each with a head of its own.

use std::io::Read;

use super::{CaptureErrorKind, Frame, MOST_CAPTURED, Source, at_most, half, word};

/// Bytes of a head, of a file and of a frame.
const FILE_HEAD: usize = 24;

/// Format of the frames of one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pcap {
    big: bool,
    /// Nanoseconds in the unit of the second word of a time.
    unit: u32,
    /// Whether interface, protocol and kind of packet follow each head, eight bytes (Kuznetzov's patch).
    longer: bool,
    /// Whether the two lengths may stand the other way round: before version 2.3 always, with 2.3 sometimes.
    swapped: bool,
    link: u32,
}

/// Byte order, unit and longer heads of files that begin so.
const fn of_magic(magic: [u8; 4]) -> Option<(bool, u32, bool)> {
    Some(match u32::from_le_bytes(magic) {
        0xa1b2_c3d4 => (false, 1000, false),
        0xd4c3_b2a1 => (true, 1000, false),
        0xa1b2_3c4d => (false, 1, false),
        0x4d3c_b2a1 => (true, 1, false),
        0xa1b2_cd34 => (false, 1000, true),
        0x34cd_b2a1 => (true, 1000, true),
        _ => return None,
    })
}

impl Pcap {
    /// Reads the file header, if it is one: magic, version, two unused words, snap length, link type. The upper bits of
    /// the last describe a frame check sequence; it follows the packet, so we can ignore it.
    pub(super) fn head<R: Read>(
        source: &mut Source<R>,
        magic: [u8; 4],
    ) -> Result<Option<Self>, CaptureErrorKind> {
        let Some((big, unit, longer)) = of_magic(magic) else { return Ok(None) };
        let head: [u8; FILE_HEAD] = source.exactly("the file header")?;
        let swapped = match (half(&head, 4, big), half(&head, 6, big)) {
            (2, minor) => minor < 4,
            // DEC's libpcap.
            (543, _) => true,
            (other, _) => return Err(CaptureErrorKind::Version(other)),
        };
        Ok(Some(Self { big, unit, longer, swapped, link: word(&head, 20, big) & 0xffff }))
    }

    /// Reads a frame: seconds, micro- or nanoseconds, captured and original length, then the bytes. None at the end of
    /// the file, or where the head of another begins.
    #[inline]
    pub(super) fn frame<R: Read>(&self, source: &mut Source<R>) -> Result<Option<Frame>, CaptureErrorKind> {
        let big = self.big;
        let Some(head) = source.peek::<16>("a frame's header")? else { return Ok(None) };
        let [seconds, fraction, captured, original_len] = [0, 4, 8, 12].map(|at| word(&head, at, big));
        // As a time it would be in 1975, 1998 or 2055, with a version as its fraction.
        let another = of_magic([head[0], head[1], head[2], head[3]]).is_some() || seconds == 0x0a0d_0d0a;
        if another && begins_a_file(&head) {
            return Ok(None);
        }
        source.exactly::<16>("a frame's header")?;
        let (captured, original_len) = if self.swapped && captured > original_len {
            (original_len, captured)
        } else {
            (captured, original_len)
        };
        at_most("the captured length", captured, MOST_CAPTURED)?;
        let mut interface = 0;
        if self.longer {
            let more: [u8; 8] = source.exactly("a frame's header")?;
            interface = word(&more, 0, big);
        }
        let place = source.take(captured, "a frame's bytes")?;
        let stamp = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * i64::from(self.unit);
        Ok(Some(Frame { place, stamp: Some(stamp), link: self.link, interface, original_len }))
    }
}

/// Whether what looks like the head of a frame is the head of a file that was appended.
#[cold]
fn begins_a_file(head: &[u8; 16]) -> bool {
    match of_magic([head[0], head[1], head[2], head[3]]) {
        Some((big, ..)) => half(head, 4, big) == 2 && half(head, 6, big) <= 4,
        None => matches!(head[8..12], [0x1a, 0x2b, 0x3c, 0x4d] | [0x4d, 0x3c, 0x2b, 0x1a]),
    }
}
