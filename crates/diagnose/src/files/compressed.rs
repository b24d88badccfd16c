//! Files in gzip, zstd or lz4, which the first bytes tell; several streams one behind the other are one file.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes of a file, expanded if it is in one of these formats; the reader of captures names the others.
pub(super) fn expanded(file: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    // The reader of captures asks for more at once than this buffer holds, and so reads past it.
    let mut file = BufReader::new(file);
    let mut magic = Vec::new();
    (&mut file).take(4).read_to_end(&mut magic)?;
    let kind: [u8; 4] = magic.as_slice().try_into().unwrap_or_default();
    let whole = Cursor::new(magic).chain(file);
    Ok(match kind {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
        // Frames that a decoder passes over may come before the first (RFC 8878, section 3.1.2).
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(Zstd { source: whole, decoder: FrameDecoder::new(), within: false })
        }
        [0x04, 0x22, 0x4d, 0x18] => Box::new(Lz4 { frames: lz4_flex::frame::FrameDecoder::new(whole) }),
        _ => Box::new(whole),
    })
}

/// Frames of zstd, one behind the other.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        loop {
            if self.within {
                while self.decoder.can_collect() < to.len() && !self.decoder.is_finished() {
                    let room = BlockDecodingStrategy::UptoBytes(to.len());
                    self.decoder.decode_blocks(&mut self.source, room).map_err(io::Error::other)?;
                }
                let n = self.decoder.read(to)?;
                if n > 0 {
                    return Ok(n);
                }
                self.within = false;
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.decoder.init(&mut self.source) {
                Ok(()) => self.within = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                }
                Err(why) => return Err(io::Error::other(why)),
            }
        }
    }
}

/// Frames of lz4, one behind the other.
struct Lz4<R: Read> {
    frames: lz4_flex::frame::FrameDecoder<R>,
}

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            // Nothing is the end of a frame; there may be another.
            match self.frames.read(to)? {
                0 if !to.is_empty() && !self.frames.get_mut().fill_buf()?.is_empty() => {}
                n => return Ok(n),
            }
        }
    }
}
