//! Captures in and out: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng) to [`Header`]s, headers
//! or frames to pcap with nanosecond stamps.
//!
//! The framing is our own, some two hundred lines, and `wire` needs no crate from outside: of the two libraries
//! looked at, `pcap-file` does not get past a malformed packet (2.0 and 3.0.0-rc1), and `pcap-parser` 0.17 refuses
//! stamps in powers of two, reads a time offset in the wrong byte order and names neither the place nor the matter
//! of an error. What a library leaves to do (link layers, stamps, interfaces, errors) is most of the work.
//!
//! Any bytes give frames or an error, no panic, and no more memory than the largest frame allowed.

use core::fmt;
use std::io::{self, BufReader, Chain, Cursor, Read};

use narrows_units::Instant;

use crate::{Header, parse};

mod link;
mod pcapng;
mod write;

pub use link::LinkType;
pub use write::{FrameWriter, Writer};

/// The longest frame libpcap and Wireshark write or believe in, bytes.
const MOST_CAPTURED: u32 = 262_144;

/// One IP packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Which frame of the file this is, from 1, as Wireshark numbers them.
    pub frame: u64,
    /// When, since the first frame of the file. A frame with an earlier stamp than the first is at zero.
    pub at: Instant,
    /// The IP packet's headers.
    pub header: Header,
    /// Length of the whole frame with its link layer, bytes; the file may hold less of it.
    pub original_len: u32,
}

/// Frames of which no [`Header`] came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// They carried something else: ARP, spanning tree, IP in PPP.
    pub not_ip: u64,
    /// The IP header was cut off or contradicted itself.
    pub unreadable: u64,
}

/// Why a capture cannot be read on, and where.
#[derive(Debug)]
pub struct Error {
    /// The frame that was looked for, from 1; 0 for the head of the file.
    pub frame: u64,
    /// What was wrong.
    pub kind: ErrorKind,
}

/// What may be wrong with a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The source failed.
    Read(io::Error),
    /// It begins like no capture that we know.
    NotACapture([u8; 4]),
    /// A major version other than the one there is.
    Version(u16),
    /// The file ends inside this.
    EndsInside(&'static str),
    /// A number that tells a length or a count is out of its range.
    Range {
        /// What it tells.
        of: &'static str,
        /// What it is.
        is: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
    /// The byte-order magic of a pcapng section.
    ByteOrder([u8; 4]),
    /// The frame came from a link type that is not read.
    LinkType(u32),
    /// The frame names an interface that was not described.
    Interface(u32),
    /// A time unit finer than any clock: the `if_tsresol` byte.
    Resolution(u8),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.frame > 0 {
            write!(f, "at frame {}: ", self.frame)?;
        }
        match &self.kind {
            ErrorKind::Read(e) => write!(f, "cannot read: {e}"),
            ErrorKind::NotACapture(b) => {
                write!(
                    f,
                    "neither pcap nor pcapng: it begins with {:02x} {:02x} {:02x} {:02x}",
                    b[0], b[1], b[2], b[3]
                )
            }
            ErrorKind::Version(v) => write!(f, "format version {v}: expected 2 for pcap, 1 for pcapng"),
            ErrorKind::EndsInside(what) => write!(f, "the file ends inside {what}"),
            ErrorKind::Range { of, is, least, most } if least == most => {
                write!(f, "{of} is {is}: expected {least}")
            }
            ErrorKind::Range { of, is, least, most } => write!(f, "{of} is {is}: expected {least} to {most}"),
            ErrorKind::ByteOrder(b) => {
                write!(
                    f,
                    "byte-order magic {:02x} {:02x} {:02x} {:02x}: expected 1a 2b 3c 4d either way",
                    b[0], b[1], b[2], b[3]
                )
            }
            ErrorKind::LinkType(n) => write!(f, "link type {n} is not read: expected {}", LinkType::NAMES),
            ErrorKind::Interface(n) => write!(f, "interface {n} was not described before"),
            ErrorKind::Resolution(n) => write!(f, "time resolution {n:#04x} is finer than 10^-38 s"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Read(e) => Some(e),
            _ => None,
        }
    }
}

/// The IP packets of a capture, in the order of the file. After an error there are no more.
pub struct Reader<R: Read> {
    source: Source<R>,
    format: Format,
    /// The bytes of the frame or block at hand.
    buffer: Vec<u8>,
    frames: u64,
    first_stamp: Option<i128>,
    skipped: Skipped,
    over: bool,
}

enum Format {
    Pcap { big: bool, nanos: bool, link: LinkType },
    Pcapng(pcapng::Section),
}

/// A frame in the buffer.
struct Frame {
    /// Where in the buffer it is.
    from: usize,
    to: usize,
    /// Nanoseconds since 1970; `None` where the file does not tell.
    stamp: Option<i128>,
    link: LinkType,
    original_len: u32,
}

impl<R: Read> Reader<R> {
    /// Reads the head of a capture. It reads ahead, so `source` may be a bare file.
    ///
    /// # Errors
    /// If this is no capture, or one of a link type that is not read.
    pub fn new(source: R) -> Result<Self, Error> {
        Self::open(source).map_err(|kind| Error { frame: 0, kind })
    }

    fn open(source: R) -> Result<Self, ErrorKind> {
        let mut source = BufReader::new(source);
        let mut magic = [0; 4];
        if fill(&mut source, &mut magic)? < 4 {
            return Err(ErrorKind::EndsInside("the file header"));
        }
        let mut source = Source(Cursor::new(magic).chain(source));
        let format = match u32::from_le_bytes(magic) {
            pcapng::SECTION_HEADER => Format::Pcapng(pcapng::Section::default()),
            _ => pcap_head(&mut source, magic)?,
        };
        Ok(Self {
            source,
            format,
            buffer: Vec::new(),
            frames: 0,
            first_stamp: None,
            skipped: Skipped::default(),
            over: false,
        })
    }

    /// What has been passed over so far.
    #[must_use]
    pub const fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The next frame with an IP packet.
    fn read(&mut self) -> Result<Option<Captured>, ErrorKind> {
        loop {
            let frame = match &mut self.format {
                Format::Pcap { big, nanos, link } => {
                    pcap_frame(&mut self.source, &mut self.buffer, *big, *nanos, *link)?
                }
                Format::Pcapng(section) => section.frame(&mut self.source, &mut self.buffer)?,
            };
            let Some(frame) = frame else { return Ok(None) };
            self.frames += 1;
            let first = *self.first_stamp.get_or_insert(frame.stamp.unwrap_or(0));
            let since = (frame.stamp.unwrap_or(first) - first).clamp(0, i128::from(u64::MAX));
            let bytes = &mut self.buffer[frame.from..frame.to];
            match link::ip(frame.link, bytes, frame.original_len).map(|packet| parse(packet)) {
                Some(Ok(header)) => {
                    return Ok(Some(Captured {
                        frame: self.frames,
                        at: Instant::from_nanos(since as u64),
                        header,
                        original_len: frame.original_len,
                    }));
                }
                Some(Err(_)) => self.skipped.unreadable += 1,
                None => self.skipped.not_ip += 1,
            }
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Captured, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let read = self.read().map_err(|kind| Error { frame: self.frames + 1, kind });
        self.over = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

/// The source with the four bytes put back by which the format was told.
struct Source<R>(Chain<Cursor<[u8; 4]>, BufReader<R>>);

impl<R: Read> Source<R> {
    /// Exactly `N` bytes, which are (a part of) `what`.
    fn exactly<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ErrorKind> {
        self.exactly_or_end(what)?.ok_or(ErrorKind::EndsInside(what))
    }

    /// The same; `None` if the file ended before the first of them.
    fn exactly_or_end<const N: usize>(&mut self, what: &'static str) -> Result<Option<[u8; N]>, ErrorKind> {
        let mut bytes = [0; N];
        match fill(&mut self.0, &mut bytes)? {
            0 => Ok(None),
            n if n < N => Err(ErrorKind::EndsInside(what)),
            _ => Ok(Some(bytes)),
        }
    }

    /// `len` bytes into `buffer`, which grows with what is there, not with what a length field promises.
    fn into(&mut self, buffer: &mut Vec<u8>, len: u32, what: &'static str) -> Result<(), ErrorKind> {
        buffer.clear();
        let read = (&mut self.0).take(u64::from(len)).read_to_end(buffer).map_err(ErrorKind::Read)?;
        if read < len as usize { Err(ErrorKind::EndsInside(what)) } else { Ok(()) }
    }

    /// Passes over `len` bytes.
    fn skip(&mut self, len: u32, what: &'static str) -> Result<(), ErrorKind> {
        let passed =
            io::copy(&mut (&mut self.0).take(u64::from(len)), &mut io::sink()).map_err(ErrorKind::Read)?;
        if passed < u64::from(len) { Err(ErrorKind::EndsInside(what)) } else { Ok(()) }
    }
}

/// Reads until `bytes` is full or the source ends, and says how much came.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> Result<usize, ErrorKind> {
    let mut n = 0;
    while n < bytes.len() {
        match source.read(&mut bytes[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(ErrorKind::Read(e)),
        }
    }
    Ok(n)
}

/// The word at `at`, which must be there.
fn word(bytes: &[u8], at: usize, big: bool) -> u32 {
    let mut w = [0; 4];
    w.copy_from_slice(&bytes[at..at + 4]);
    if big { u32::from_be_bytes(w) } else { u32::from_le_bytes(w) }
}

/// The half word at `at`, which must be there.
fn half(bytes: &[u8], at: usize, big: bool) -> u16 {
    let h = [bytes[at], bytes[at + 1]];
    if big { u16::from_be_bytes(h) } else { u16::from_le_bytes(h) }
}

fn at_most(of: &'static str, is: u32, most: u32) -> Result<(), ErrorKind> {
    if is > most {
        return Err(ErrorKind::Range { of, is: is.into(), least: 0, most: most.into() });
    }
    Ok(())
}

/// The file header of pcap: magic, version, two unused words, snap length, link type. Its upper bits tell of a frame
/// check sequence, which lies behind the packet and bothers nobody.
fn pcap_head<R: Read>(source: &mut Source<R>, magic: [u8; 4]) -> Result<Format, ErrorKind> {
    let (big, nanos) = match u32::from_le_bytes(magic) {
        0xa1b2_c3d4 => (false, false),
        0xd4c3_b2a1 => (true, false),
        0xa1b2_3c4d => (false, true),
        0x4d3c_b2a1 => (true, true),
        _ => return Err(ErrorKind::NotACapture(magic)),
    };
    let head: [u8; 24] = source.exactly("the file header")?;
    match half(&head, 4, big) {
        2 => {}
        other => return Err(ErrorKind::Version(other)),
    }
    let number = word(&head, 20, big) & 0xffff;
    Ok(Format::Pcap { big, nanos, link: LinkType::of(number).ok_or(ErrorKind::LinkType(number))? })
}

/// A frame of pcap: seconds, micro- or nanoseconds, captured and original length, then the bytes.
fn pcap_frame<R: Read>(
    source: &mut Source<R>,
    buffer: &mut Vec<u8>,
    big: bool,
    nanos: bool,
    link: LinkType,
) -> Result<Option<Frame>, ErrorKind> {
    let Some(head) = source.exactly_or_end::<16>("a frame's header")? else { return Ok(None) };
    let [seconds, fraction, captured, original_len] = [0, 4, 8, 12].map(|at| word(&head, at, big));
    at_most("the captured length", captured, MOST_CAPTURED)?;
    source.into(buffer, captured, "a frame's bytes")?;
    let unit = if nanos { 1 } else { 1000 };
    let stamp = i128::from(seconds) * 1_000_000_000 + i128::from(fraction) * unit;
    Ok(Some(Frame { from: 0, to: buffer.len(), stamp: Some(stamp), link, original_len }))
}

#[cfg(test)]
mod tests;
