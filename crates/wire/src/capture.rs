//! Capture files. [`Reader`] reads pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng) as [`Header`]s;
//! [`Writer`] writes headers, and [`FrameWriter`] whole frames, as pcap with timestamps in nanoseconds.
//!
//! We parse the file formats ourselves, in some two hundred lines, so that `wire` depends on no outside crate. Two
//! libraries were considered. `pcap-file` (2.0 and 3.0.0-rc1) cannot continue after a malformed packet. `pcap-parser`
//! 0.17 rejects timestamps in powers of two, reads the time offset in the wrong byte order, and its errors say neither
//! where nor what is wrong. Link layers, timestamps, interfaces and errors, most of the work, remain with either.
//!
//! No input makes the reader panic or use more memory than the largest frame it accepts.

use core::fmt;
use core::ops::Range;
use std::io::{self, Read};

use narrows_units::Instant;

use crate::{Header, parse, tunnel};

mod link;
mod pcapng;
mod source;
mod write;

pub use link::LinkType;
use source::Source;
pub use write::{FrameWriter, Writer};

/// The longest frame libpcap and Wireshark write or believe in, bytes.
const MOST_CAPTURED: u32 = 262_144;

/// One IP packet of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The frame's number in the file, from 1, as Wireshark counts.
    pub frame: u64,
    /// Time since the first frame of the file; zero for a frame with an earlier timestamp than the first.
    pub at: Instant,
    /// The IP packet's headers.
    pub header: Header,
    /// Length of the whole frame with its link layer, bytes; the file may hold only its beginning.
    pub original_len: u32,
}

/// How many frames were skipped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Frames without an IP packet that we can find: ARP, spanning tree, IP in PPP other than PPPoE.
    pub not_ip: u64,
    /// Frames whose IP header is cut off or contradicts itself.
    pub unreadable: u64,
}

/// Reason why the rest of a capture cannot be read, and the place.
#[derive(Debug)]
pub struct CaptureError {
    /// The number of the frame that could not be read, from 1; 0 for the file header.
    pub frame: u64,
    /// Fault that was found.
    pub kind: CaptureErrorKind,
}

/// Fault of a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureErrorKind {
    /// Reading failed.
    Read(io::Error),
    /// The first four bytes are those of neither format.
    NotACapture([u8; 4]),
    /// An unknown major version.
    Version(u16),
    /// The file ends inside this part.
    EndsInside(&'static str),
    /// A length or a count is out of its range.
    Range {
        /// Name of the length or count.
        of: &'static str,
        /// Value of the length or count.
        is: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// The byte-order magic of a pcapng section is wrong.
    ByteOrder([u8; 4]),
    /// A link type that we do not read.
    LinkType(u32),
    /// The frame names an interface that no block before it describes.
    Interface(u32),
    /// The `if_tsresol` byte asks for a finer unit of time than 10^-38 s.
    Resolution(u8),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frame > 0 {
            write!(f, "at frame {}: ", self.frame)?;
        }
        match &self.kind {
            CaptureErrorKind::Read(e) => write!(f, "cannot read: {e}"),
            CaptureErrorKind::NotACapture(b) => {
                write!(
                    f,
                    "neither pcap nor pcapng: it begins with {:02x} {:02x} {:02x} {:02x}",
                    b[0], b[1], b[2], b[3]
                )
            }
            CaptureErrorKind::Version(v) => {
                write!(f, "format version {v}: expected 2 for pcap, 1 for pcapng")
            }
            CaptureErrorKind::EndsInside(what) => write!(f, "the file ends inside {what}"),
            CaptureErrorKind::Range { of, is, least, most } if least == most => {
                write!(f, "{of} is {is}: expected {least}")
            }
            CaptureErrorKind::Range { of, is, least, most } => {
                write!(f, "{of} is {is}: expected {least} to {most}")
            }
            CaptureErrorKind::ByteOrder(b) => {
                write!(
                    f,
                    "byte-order magic {:02x} {:02x} {:02x} {:02x}: expected 1a 2b 3c 4d either way",
                    b[0], b[1], b[2], b[3]
                )
            }
            CaptureErrorKind::LinkType(n) => {
                write!(f, "link type {n} is not read: expected {}", LinkType::NAMES)
            }
            CaptureErrorKind::Interface(n) => write!(f, "interface {n} was not described before"),
            CaptureErrorKind::Resolution(n) => write!(f, "time resolution {n:#04x} is finer than 10^-38 s"),
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            CaptureErrorKind::Read(e) => Some(e),
            _ => None,
        }
    }
}

/// Iterates over the IP packets of a capture, in the order of the file. An error is the last item.
pub struct Reader<R: Read> {
    source: Source<R>,
    format: Format,
    frames: u64,
    first_stamp: Option<i128>,
    skipped: Skipped,
    /// Whether packets in tunnels are read instead of those that carry them.
    peels: bool,
    peeled: u64,
    over: bool,
}

enum Format {
    Pcap { big: bool, nanos: bool, link: LinkType },
    Pcapng(pcapng::Section),
}

/// A frame.
struct Frame {
    /// Place of the frame's bytes, for [`Source::bytes`].
    place: Range<usize>,
    /// Nanoseconds since 1970; `None` if the file gives no time.
    stamp: Option<i128>,
    link: LinkType,
    original_len: u32,
}

impl<R: Read> Reader<R> {
    /// Reads the file header. The reader buffers, so `source` can be a plain file.
    ///
    /// # Errors
    /// If this is not a capture, or its link type is one that we do not read.
    pub fn new(source: R) -> Result<Self, CaptureError> {
        Self::open(source).map_err(|kind| CaptureError { frame: 0, kind })
    }

    fn open(source: R) -> Result<Self, CaptureErrorKind> {
        let mut source = Source::new(source);
        let magic = source.peek("the file header")?.ok_or(CaptureErrorKind::EndsInside("the file header"))?;
        let format = match u32::from_le_bytes(magic) {
            pcapng::SECTION_HEADER => Format::Pcapng(pcapng::Section::default()),
            _ => pcap_head(&mut source, magic)?,
        };
        Ok(Self {
            source,
            format,
            frames: 0,
            first_stamp: None,
            skipped: Skipped::default(),
            peels: false,
            peeled: 0,
            over: false,
        })
    }

    /// Reads the packets that go through tunnels in the clear (GRE, IP in IP, L2TP, VXLAN, Geneve, GTP-U, MPLS) instead
    /// of those that carry them.
    #[must_use]
    pub fn through_tunnels(self) -> Self {
        Self { peels: true, ..self }
    }

    /// How many packets came out of a tunnel.
    #[must_use]
    pub const fn peeled(&self) -> u64 {
        self.peeled
    }

    /// How many frames have been skipped so far.
    #[must_use]
    pub const fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Nanoseconds from 1970 to the first frame read so far, on the clock of the capture: files of one clock can be put
    /// side by side with it. `None` before the first frame.
    #[must_use]
    pub const fn origin(&self) -> Option<i128> {
        self.first_stamp
    }

    /// Reads the next packet into `captured`, as [`Iterator::next`] would give it: without moving it.
    pub fn next_into(&mut self, captured: &mut Captured) -> Option<Result<(), CaptureError>> {
        if self.over {
            return None;
        }
        let read = self.read(captured);
        self.over = !matches!(read, Ok(true));
        match read {
            Ok(more) => more.then_some(Ok(())),
            Err(kind) => Some(Err(CaptureError { frame: self.frames + 1, kind })),
        }
    }

    /// Reads on to the next frame with an IP packet; says whether there is one.
    fn read(&mut self, captured: &mut Captured) -> Result<bool, CaptureErrorKind> {
        loop {
            let frame = match &mut self.format {
                Format::Pcap { big, nanos, link } => pcap_frame(&mut self.source, *big, *nanos, *link)?,
                Format::Pcapng(section) => section.frame(&mut self.source)?,
            };
            let Some(frame) = frame else { return Ok(false) };
            self.frames += 1;
            let first = *self.first_stamp.get_or_insert(frame.stamp.unwrap_or(0));
            let since = (frame.stamp.unwrap_or(first) - first).clamp(0, i128::from(u64::MAX));
            let packet = link::ip(frame.link, self.source.bytes(frame.place), frame.original_len)
                .map(|packet| &*packet);
            let inner = packet.filter(|_| self.peels).and_then(tunnel::innermost);
            self.peeled += u64::from(inner.is_some());
            match inner.or(packet).map(parse) {
                Some(Ok(header)) => {
                    captured.header = header;
                    captured.frame = self.frames;
                    captured.at = Instant::from_nanos(since as u64);
                    captured.original_len = frame.original_len;
                    return Ok(true);
                }
                Some(Err(_)) => self.skipped.unreadable += 1,
                None => self.skipped.not_ip += 1,
            }
        }
    }
}

/// The IP packet in a frame of which `frame` is the beginning and that was `original_len` bytes long on the link, or,
/// if that is a tunnel's, the packet that it carries. `None` if there is none.
#[must_use]
pub fn packet_of(link: LinkType, frame: &mut [u8], original_len: u32) -> Option<&[u8]> {
    let packet = &*link::ip(link, frame, original_len)?;
    Some(tunnel::innermost(packet).unwrap_or(packet))
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Captured, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut captured = Captured::default();
        Some(self.next_into(&mut captured)?.map(|()| captured))
    }
}

/// The 32-bit word at `at`, which must lie within `bytes`.
fn word(bytes: &[u8], at: usize, big: bool) -> u32 {
    let mut w = [0; 4];
    w.copy_from_slice(&bytes[at..at + 4]);
    if big { u32::from_be_bytes(w) } else { u32::from_le_bytes(w) }
}

/// The 16-bit word at `at`, which must lie within `bytes`.
fn half(bytes: &[u8], at: usize, big: bool) -> u16 {
    let h = [bytes[at], bytes[at + 1]];
    if big { u16::from_be_bytes(h) } else { u16::from_le_bytes(h) }
}

fn at_most(of: &'static str, is: u32, most: u32) -> Result<(), CaptureErrorKind> {
    if is > most {
        return Err(CaptureErrorKind::Range { of, is: is.into(), least: 0, most: most.into() });
    }
    Ok(())
}

/// Reads the file header of pcap: magic, version, two unused words, snap length, link type. The upper bits of the last
/// describe a frame check sequence; it follows the packet, so we can ignore it.
fn pcap_head<R: Read>(source: &mut Source<R>, magic: [u8; 4]) -> Result<Format, CaptureErrorKind> {
    let (big, nanos) = match u32::from_le_bytes(magic) {
        0xa1b2_c3d4 => (false, false),
        0xd4c3_b2a1 => (true, false),
        0xa1b2_3c4d => (false, true),
        0x4d3c_b2a1 => (true, true),
        _ => return Err(CaptureErrorKind::NotACapture(magic)),
    };
    let head: [u8; 24] = source.exactly("the file header")?;
    match half(&head, 4, big) {
        2 => {}
        other => return Err(CaptureErrorKind::Version(other)),
    }
    let number = word(&head, 20, big) & 0xffff;
    Ok(Format::Pcap { big, nanos, link: LinkType::of(number).ok_or(CaptureErrorKind::LinkType(number))? })
}

/// Reads a frame of pcap: seconds, micro- or nanoseconds, captured and original length, then the bytes.
#[inline]
fn pcap_frame<R: Read>(
    source: &mut Source<R>,
    big: bool,
    nanos: bool,
    link: LinkType,
) -> Result<Option<Frame>, CaptureErrorKind> {
    let Some(head) = source.exactly_or_end::<16>("a frame's header")? else { return Ok(None) };
    let [seconds, fraction, captured, original_len] = [0, 4, 8, 12].map(|at| word(&head, at, big));
    at_most("the captured length", captured, MOST_CAPTURED)?;
    let place = source.take(captured, "a frame's bytes")?;
    let unit = if nanos { 1 } else { 1000 };
    let stamp = i128::from(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit);
    Ok(Some(Frame { place, stamp: Some(stamp), link, original_len }))
}

#[cfg(test)]
mod tests;
