//! Captures as packets: plain, or in gzip or zstd; one, or several of the same clock.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use narrows_units::Duration;
use narrows_wire::capture::{Captured, Reader, Skipped};

use crate::Ordered;

/// How many packets a packet may be too late.
const TOO_LATE: usize = 64;

/// A file being read.
struct Input {
    name: String,
    reader: Reader<Box<dyn Read>>,
    /// Time from the beginning of the earliest file to the beginning of this one.
    offset: Duration,
    /// The packet that comes next.
    next: Option<Captured>,
    /// Reason why the rest of the file cannot be read.
    cut: Option<String>,
}

/// All files, merged by time.
pub struct Inputs {
    files: Vec<Input>,
    /// Order of the packets in `slots`, of which one is free.
    order: Ordered<usize>,
    slots: Vec<Captured>,
    free: usize,
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
            if let Some(next) = &mut file.next {
                next.at += file.offset;
            }
        }
        Ok(Self { files, order: Ordered::new(TOO_LATE), slots: Vec::new(), free: 0, origin })
    }

    /// Remarks about each file: packets that were left out, came through tunnels or were reordered.
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
            let moved = self.order.moved();
            let packets = if moved == 1 { "packet" } else { "packets" };
            lines.push(format!("{moved} {packets} reordered by time"));
        }
        lines
    }
}

impl Input {
    fn advance(&mut self) {
        let mut next = Captured::default();
        self.next = self.read(&mut next).then_some(next);
    }

    /// Reads a packet; says whether there is one.
    fn read(&mut self, to: &mut Captured) -> bool {
        match self.reader.next_into(to) {
            Some(Ok(())) => {
                to.at += self.offset;
                true
            }
            Some(Err(why)) => {
                self.cut = Some(why.to_string());
                false
            }
            None => false,
        }
    }
}

impl Inputs {
    /// The next packet: of the file that has the earliest, put in order.
    #[expect(clippy::should_implement_trait, reason = "it is read again and again into the same places")]
    pub fn next(&mut self) -> Option<&Captured> {
        loop {
            if self.free == self.slots.len() {
                self.slots.push(Captured::default());
            }
            let slot = &mut self.slots[self.free];
            if !earliest(&mut self.files, slot) {
                let (_, at) = self.order.pop()?;
                return Some(&self.slots[at]);
            }
            match self.order.push(slot.at, self.free) {
                Some((_, at)) => {
                    self.free = at;
                    return Some(&self.slots[at]);
                }
                None => self.free += 1,
            }
        }
    }
}

/// Reads the earliest packet; says whether there is one.
fn earliest(files: &mut [Input], to: &mut Captured) -> bool {
    if let [only] = files {
        return match only.next.take() {
            Some(first) => {
                *to = first;
                true
            }
            None => only.read(to),
        };
    }
    let waiting = files.iter_mut().filter(|f| f.next.is_some());
    let Some(file) = waiting.min_by_key(|f| f.next.as_ref().map(|n| n.at)) else { return false };
    if let Some(next) = file.next.take() {
        *to = next;
    }
    file.advance();
    true
}
