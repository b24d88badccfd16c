//! Captures as packets: plain, or in gzip or zstd; one, or several of the same clock.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use narrows_units::{Duration, Instant};
use narrows_wire::Header;
use narrows_wire::capture::{Reader, Skipped};

use crate::Ordered;

/// How many packets a packet may be too late.
const TOO_LATE: usize = 64;

/// A packet, and its number in its file.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPacket {
    /// From 1.
    pub frame: u64,
    /// What is read of it.
    pub header: Header,
}

/// A file being read.
struct Input {
    name: String,
    reader: Reader<Box<dyn Read>>,
    /// From the beginning of the earliest file to that of this one.
    offset: Duration,
    /// The packet that comes next.
    next: Option<(Instant, CapturedPacket)>,
    /// Why the rest cannot be read.
    cut: Option<String>,
}

/// All files, merged by time.
pub struct Inputs {
    files: Vec<Input>,
    order: Ordered<CapturedPacket>,
    /// Nanoseconds from 1970 to the first frame.
    pub origin: Option<i128>,
}

/// Reads through gzip and zstd, which the first bytes tell.
fn opened(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    let mut file = BufReader::new(
        File::open(path)
            .context("cannot be read; expected a capture in pcap or pcapng, or - for standard input")?,
    );
    let mut magic = Vec::new();
    (&mut file).take(4).read_to_end(&mut magic)?;
    let kind: [u8; 4] = magic.as_slice().try_into().unwrap_or_default();
    let whole = Cursor::new(magic).chain(file);
    Ok(match kind {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(
            ruzstd::decoding::StreamingDecoder::new(whole)
                .map_err(io::Error::other)
                .context("begins as zstd does, and goes on otherwise")?,
        ),
        _ => Box::new(whole),
    })
}

impl Inputs {
    /// Opens all files, `-` for standard input, and reads the first packet of each.
    ///
    /// # Errors
    /// A file that cannot be read or is no capture, with its name.
    pub fn open(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            let name = path.display().to_string();
            let source: Box<dyn Read> = if name == "-" {
                Box::new(io::stdin())
            } else {
                opened(path).with_context(|| name.clone())?
            };
            let reader = Reader::new(source).map_err(anyhow::Error::from).with_context(|| name.clone())?;
            let reader = reader.through_tunnels();
            let mut file = Input { name, reader, offset: Duration::ZERO, next: None, cut: None };
            file.advance();
            files.push(file);
        }
        let origin = files.iter().filter_map(|f| f.reader.origin()).min();
        for file in &mut files {
            let since = file.reader.origin().zip(origin).map_or(0, |(own, first)| own - first);
            let Ok(since) = u64::try_from(since) else { bail!("{}: its clock is out of range", file.name) };
            file.offset = Duration::from_nanos(since);
            if let Some((at, _)) = &mut file.next {
                *at += file.offset;
            }
        }
        Ok(Self { files, order: Ordered::new(TOO_LATE), origin })
    }

    /// What was left out, and why, for each file.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for file in &self.files {
            let Skipped { not_ip, unreadable, .. } = file.reader.skipped();
            for (n, what) in [
                (not_ip, "frames without an IP packet"),
                (unreadable, "frames whose IP header is cut or broken"),
            ] {
                if n > 0 {
                    lines.push(format!("{}: {n} {what} were left out", file.name));
                }
            }
            if file.reader.peeled() > 0 {
                lines.push(format!("{}: {} packets came through tunnels", file.name, file.reader.peeled()));
            }
            lines.extend(
                file.cut.iter().map(|why| format!("{}: {why}; what came before was read", file.name)),
            );
        }
        if self.order.moved() > 0 {
            lines.push(format!(
                "{} packets were out of order in time, and were put in order",
                self.order.moved()
            ));
        }
        lines
    }
}

impl Input {
    fn advance(&mut self) {
        self.next = self.read();
    }

    fn read(&mut self) -> Option<(Instant, CapturedPacket)> {
        match self.reader.next()? {
            Ok(c) => Some((c.at + self.offset, CapturedPacket { frame: c.frame, header: c.header })),
            Err(why) => {
                self.cut = Some(why.to_string());
                None
            }
        }
    }
}

impl Inputs {
    /// The next packet of the file that has the earliest.
    fn earliest(&mut self) -> Option<(Instant, CapturedPacket)> {
        if let [only] = self.files.as_mut_slice() {
            return only.next.take().or_else(|| only.read());
        }
        let waiting = self.files.iter_mut().filter(|f| f.next.is_some());
        let file = waiting.min_by_key(|f| f.next.as_ref().map(|n| n.0))?;
        let found = file.next.take();
        file.advance();
        found
    }
}

impl Iterator for Inputs {
    type Item = (Instant, CapturedPacket);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((at, packet)) = self.earliest() else { return self.order.pop() };
            if let Some(out) = self.order.push(at, packet) {
                return Some(out);
            }
        }
    }
}
