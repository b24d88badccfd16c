//! Writes pcap with timestamps in nanoseconds (magic 0xa1b23c4d), little-endian: every tool reads it.

use std::io::{self, Write};

use narrows_units::Instant;

use super::{LinkType, MOST_CAPTURED};
use crate::{Header, build};

/// Writes frames as they are given.
pub struct FrameWriter<W: Write> {
    out: W,
    snap: usize,
}

impl<W: Write> FrameWriter<W> {
    /// Writes the file header. At most `snap` bytes of each frame will be stored. Each frame takes two small writes, so
    /// wrap a file in a `BufWriter`.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn new(mut out: W, link: LinkType, snap: usize) -> io::Result<Self> {
        let snap = snap.min(MOST_CAPTURED as usize);
        let mut head = [0; 24];
        head[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        head[4..6].copy_from_slice(&2_u16.to_le_bytes());
        head[6..8].copy_from_slice(&4_u16.to_le_bytes());
        head[16..20].copy_from_slice(&(snap as u32).to_le_bytes());
        head[20..].copy_from_slice(&(link as u32).to_le_bytes());
        out.write_all(&head)?;
        Ok(Self { out, snap })
    }

    /// Writes a frame. `frame` may be only its beginning; `original_len` is the length of the whole.
    ///
    /// # Errors
    /// If `out` fails, or `at` lies beyond 2^32 seconds (136 years).
    pub fn write(&mut self, at: Instant, frame: &[u8], original_len: usize) -> io::Result<()> {
        let beyond = |_| io::Error::new(io::ErrorKind::InvalidInput, "a pcap stamp ends at 2^32 seconds");
        let (second, kept) = (1_000_000_000, frame.len().min(self.snap));
        let mut head = [0; 16];
        head[..4].copy_from_slice(&u32::try_from(at.as_nanos() / second).map_err(beyond)?.to_le_bytes());
        head[4..8].copy_from_slice(&((at.as_nanos() % second) as u32).to_le_bytes());
        head[8..12].copy_from_slice(&(kept as u32).to_le_bytes());
        head[12..].copy_from_slice(&u32::try_from(original_len).unwrap_or(u32::MAX).to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(&frame[..kept])
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Writes packets of which only the [`Header`] is known, with bytes made by [`build`]: raw IP, link type 101.
pub struct Writer<W: Write> {
    frames: FrameWriter<W>,
    payload: bool,
    packet: Vec<u8>,
    id: u16,
}

impl<W: Write> Writer<W> {
    /// Stores headers without payload, whose length shows in the original length. The checksums of TCP and UDP are
    /// right, but a reader cannot verify them.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn new(out: W) -> io::Result<Self> {
        let frames = FrameWriter::new(out, LinkType::Raw, MOST_CAPTURED as usize)?;
        Ok(Self { frames, payload: false, packet: Vec::new(), id: 0 })
    }

    /// Stores the payload, zeros, as well.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn with_payload(out: W) -> io::Result<Self> {
        Ok(Self { payload: true, ..Self::new(out)? })
    }

    /// Writes one packet. IP identifications count up from 1 where headers have none.
    ///
    /// # Errors
    /// If `out` fails, or `at` lies beyond 2^32 seconds (136 years).
    pub fn write(&mut self, at: Instant, header: &Header) -> io::Result<()> {
        self.id = self.id.wrapping_add(1);
        self.packet.clear();
        let total = build(header, self.id, &mut self.packet);
        if self.payload {
            self.packet.resize(total, 0);
        }
        self.frames.write(at, &self.packet, total)
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.frames.flush()
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.frames.into_inner()
    }
}
