//! Reads pcap: a head of 24 bytes, then frames, each with a head of its own.

use std::io::Read;

use super::{CaptureErrorKind, Frame, MOST_CAPTURED, Source, at_most, half, word};

/// Bytes of the head of a file.
const FILE_HEAD: usize = 24;
/// Bytes of the head of a frame, whatever follows it.
const FRAME_HEAD: usize = 16;
/// Bytes that follow a frame's head: none; interface, protocol and kind of packet (Kuznetzov's patches of April and
/// October 1999); these and two processors (his patch of September); four bytes of Nokia's.
const MORE: [u32; 4] = [0, 8, 12, 4];
/// Heads of frames that are looked at before a file is read.
const HEADS_TRIED: usize = 8;

/// Format of the frames of one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pcap {
    big: bool,
    /// Nanoseconds in the unit of the second word of a time.
    unit: u32,
    /// Bytes that follow the head of each frame, one of [`MORE`].
    more: u32,
    /// Whether the two lengths may stand the other way round: before version 2.3 always, with 2.3 sometimes.
    swapped: bool,
    link: u32,
}

/// Byte order, nanoseconds of a unit, and bytes that usually follow the head of a frame, in files that begin so.
const fn of_magic(magic: [u8; 4]) -> Option<(bool, u32, u32)> {
    Some(match u32::from_le_bytes(magic) {
        0xa1b2_c3d4 => (false, 1000, 0),
        0xd4c3_b2a1 => (true, 1000, 0),
        0xa1b2_3c4d => (false, 1, 0),
        0x4d3c_b2a1 => (true, 1, 0),
        0xa1b2_cd34 => (false, 1000, 8),
        0x34cd_b2a1 => (true, 1000, 8),
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
        let Some((big, unit, usual)) = of_magic(magic) else { return Ok(None) };
        let head: [u8; FILE_HEAD] = source.exactly("the file header")?;
        let swapped = match (half(&head, 4, big), half(&head, 6, big)) {
            (2, minor) => minor < 4,
            // DEC's libpcap.
            (543, _) => true,
            (other, _) => return Err(CaptureErrorKind::Version(other)),
        };
        let pcap = Self { big, unit, more: usual, swapped, link: word(&head, 20, big) & 0xffff };
        Ok(Some(Self { more: pcap.more_in(source.at_hand()), ..pcap }))
    }

    /// Bytes that follow the head of each frame in a file whose frames begin so. Several layouts share a magic, so the
    /// heads of the frames decide, as in Wireshark. Where they do not, the layout is the usual one.
    fn more_in(&self, frames: &[u8]) -> u32 {
        if self.unit == 1 || self.heads(frames, self.more).is_some() {
            return self.more;
        }
        let fits = |more: &u32| self.heads(frames, *more).is_some_and(|heads| heads > 1);
        MORE.into_iter().find(fits).unwrap_or(self.more)
    }

    /// Number of heads at hand, up to [`HEADS_TRIED`], if `more` bytes follow each; `None` if one of them cannot be a
    /// head.
    fn heads(&self, frames: &[u8], more: u32) -> Option<usize> {
        let mut at = 0;
        for heads in 0..HEADS_TRIED {
            let Some(head) = frames.get(at..).and_then(<[u8]>::first_chunk::<FRAME_HEAD>) else {
                return Some(heads);
            };
            let [fraction, captured, original_len] = [4, 8, 12].map(|at| word(head, at, self.big));
            if begins_a_file(head) {
                return Some(heads);
            }
            let in_order = self.swapped || captured <= original_len;
            if fraction >= 1_000_000_000 / self.unit || captured > MOST_CAPTURED || !in_order {
                return None;
            }
            at += FRAME_HEAD + (more + captured.min(original_len)) as usize;
        }
        Some(HEADS_TRIED)
    }

    /// Reads a frame: seconds, micro- or nanoseconds, captured and original length, then the bytes. None at the end of
    /// the file, or where the head of another begins.
    #[inline]
    pub(super) fn frame<R: Read>(&self, source: &mut Source<R>) -> Result<Option<Frame>, CaptureErrorKind> {
        let big = self.big;
        let Some(head) = source.peek::<FRAME_HEAD>("a frame's header")? else { return Ok(None) };
        let [seconds, fraction, captured, original_len] = [0, 4, 8, 12].map(|at| word(&head, at, big));
        // As a time it would be in 1975, 1998 or 2055, with a version as its fraction.
        let another = of_magic([head[0], head[1], head[2], head[3]]).is_some() || seconds == 0x0a0d_0d0a;
        if another && begins_a_file(&head) {
            return Ok(None);
        }
        source.exactly::<FRAME_HEAD>("a frame's header")?;
        let (captured, original_len) = if self.swapped && captured > original_len {
            (original_len, captured)
        } else {
            (captured, original_len)
        };
        at_most("the captured length", captured, MOST_CAPTURED)?;
        let mut interface = 0;
        if self.more > 0 {
            let first: [u8; 4] = source.exactly("a frame's header")?;
            source.skip(self.more - 4, "a frame's header")?;
            // Nokia's four bytes are no interface.
            interface = if self.more > 4 { word(&first, 0, big) } else { 0 };
        }
        let place = source.take(captured, "a frame's bytes")?;
        let stamp = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * i64::from(self.unit);
        Ok(Some(Frame { place, stamp: Some(stamp), link: self.link, interface, original_len }))
    }
}

/// Whether what looks like the head of a frame is the head of a file that was appended.
#[cold]
fn begins_a_file(head: &[u8; FRAME_HEAD]) -> bool {
    match of_magic([head[0], head[1], head[2], head[3]]) {
        Some((big, ..)) => half(head, 4, big) == 2 && half(head, 6, big) <= 4,
        None => {
            head.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])
                && matches!(head[8..12], [0x1a, 0x2b, 0x3c, 0x4d] | [0x4d, 0x3c, 0x2b, 0x1a])
        }
    }
}
