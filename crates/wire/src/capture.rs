//! Capture files. [`Reader`] reads pcap (draft-ietf-opsawg-pcap), pcapng (draft-ietf-opsawg-pcapng), snoop (RFC 1761)
//! and Endace's ERF as [`Header`]s, also files of any of them appended to one another; [`Writer`] writes headers, and
//! [`FrameWriter`] whole frames, as pcap with timestamps in nanoseconds. [`Decoder`] alone turns frames into headers.
//!
//! We parse the file formats ourselves, so that `wire` depends on no outside crate; `docs/decisions/capture-readers.md`
//! says why.
//!
//! No input makes the reader panic or use more memory than the largest frame it accepts.

use core::fmt;
use core::ops::Range;
use std::io::{self, Read};

use narrows_units::Instant;

use crate::Header;

mod decoder;
mod fragments;
mod link;
mod others;
mod pcap;
mod pcapng;
mod source;
mod write;

pub use decoder::{CutCounts, Decoder, Framed};
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
    /// Nanoseconds since 1970 by the clock of the capture; `None` if the file gives the frame no time.
    pub stamp: Option<i64>,
    /// The IP packet's headers.
    pub header: Header,
    /// Length of the whole frame with its link layer, bytes; the file may hold only its beginning.
    pub original_len: u32,
    /// Hops that the packet may still go (TTL, hop limit).
    pub ttl: u8,
    /// A digest of interface and link addresses: where they differ, the packet was seen at another place.
    pub place: u32,
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
    /// The first four bytes are those of no format that is read.
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
                write!(f, "neither pcap nor pcapng, snoop or ERF: it is {}", others::what_it_is(*b))
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
    decoder: Decoder,
    frames: u64,
    /// Stamp of the first frame that has one.
    origin: Option<i64>,
    /// Time of the latest frame.
    latest: Instant,
    untimed: u64,
    over: bool,
}

enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Section),
    Snoop(u32),
    Erf,
}

/// A frame.
struct Frame {
    /// Place of the frame's bytes, for [`Source::bytes`].
    place: Range<usize>,
    /// Nanoseconds since 1970; `None` if the file gives no time.
    stamp: Option<i64>,
    link: u32,
    interface: u32,
    original_len: u32,
}

impl Format {
    /// Reads the head of a file, if one begins here with these bytes; those of pcapng have none but blocks.
    fn begin<R: Read>(source: &mut Source<R>, magic: [u8; 4]) -> Result<Option<Self>, CaptureErrorKind> {
        if u32::from_le_bytes(magic) == pcapng::SECTION_HEADER {
            return Ok(Some(Self::Pcapng(pcapng::Section::default())));
        }
        if let Some(pcap) = pcap::Pcap::head(source, magic)? {
            return Ok(Some(Self::Pcap(pcap)));
        }
        if let Some(link) = others::snoop_head(source, magic)? {
            return Ok(Some(Self::Snoop(link)));
        }
        Ok(others::is_erf(source)?.then_some(Self::Erf))
    }
}

impl<R: Read> Reader<R> {
    /// Reads the file header. The reader buffers, so `source` can be a plain file.
    ///
    /// # Errors
    /// If this is not a capture.
    pub fn new(source: R) -> Result<Self, CaptureError> {
        Self::open(source).map_err(|kind| CaptureError { frame: 0, kind })
    }

    fn open(source: R) -> Result<Self, CaptureErrorKind> {
        let mut source = Source::new(source);
        let magic = source.peek("the file header")?.ok_or(CaptureErrorKind::EndsInside("the file header"))?;
        let format = Format::begin(&mut source, magic)?.ok_or(CaptureErrorKind::NotACapture(magic))?;
        Ok(Self {
            source,
            format,
            decoder: Decoder::default(),
            frames: 0,
            origin: None,
            latest: Instant::ZERO,
            untimed: 0,
            over: false,
        })
    }

    /// Reads the packets that go through tunnels in the clear instead of those that carry them, and puts fragments
    /// together.
    #[must_use]
    pub fn through_tunnels(self) -> Self {
        Self { decoder: Decoder::through_tunnels(), ..self }
    }

    /// Decoder with its counts of the frames so far.
    #[must_use]
    pub const fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Frames so far.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames so far to which the file gives no time.
    #[must_use]
    pub const fn untimed(&self) -> u64 {
        self.untimed
    }

    /// Nanoseconds from 1970 to the first frame with a time that was read so far, on the clock of the capture: files of
    /// one clock can be put side by side with it. `None` before that.
    #[must_use]
    #[inline]
    pub const fn origin(&self) -> Option<i64> {
        self.origin
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
                Format::Pcap(pcap) => pcap.frame(&mut self.source)?,
                Format::Pcapng(section) => section.frame(&mut self.source)?,
                Format::Snoop(link) => others::snoop_frame(&mut self.source, *link)?,
                Format::Erf => others::erf_frame(&mut self.source)?,
            };
            let Some(frame) = frame else {
                // Another file may follow, of another format or with other addresses.
                let Some(magic) = self.source.peek("a frame's header")? else { return Ok(false) };
                match Format::begin(&mut self.source, magic)? {
                    Some(format) => self.format = format,
                    None => return Err(CaptureErrorKind::NotACapture(magic)),
                }
                continue;
            };
            self.frames += 1;
            self.untimed += u64::from(frame.stamp.is_none());
            if let Some(stamp) = frame.stamp {
                let first = *self.origin.get_or_insert(stamp);
                // Neither is below zero.
                self.latest = Instant::from_nanos((stamp - first).max(0).cast_unsigned());
            }
            // Without a time: that of the frame before.
            captured.at = self.latest;
            let bytes = &*self.source.bytes(frame.place);
            let framed = Framed {
                link: frame.link,
                bytes,
                original_len: frame.original_len,
                interface: frame.interface,
            };
            if self.decoder.read(&framed, captured) {
                captured.frame = self.frames;
                captured.stamp = frame.stamp;
                captured.original_len = frame.original_len;
                return Ok(true);
            }
        }
    }
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

#[cfg(test)]
mod tests;
