//! A listener: writes the headers of all that passes one interface to a pcap file, to see why an object hung.
//!
//! The format of libpcap with nanosecond stamps (magic 0xa1b23c4d), as draft-ietf-opsawg-pcap describes it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::packet_socket::{Heard, PacketSocket};
use super::{Say, say};

/// Bytes kept of each frame: Ethernet, IP and TCP with all options fit.
const SNAP: usize = 134;
/// Most frames in one file, so that a long run on a fast link does not fill the disk.
const MOST: u64 = 20_000_000;

/// What the listener is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaptureSpec {
    /// Where to listen.
    pub interface: String,
    /// Where to write.
    pub file: PathBuf,
}

/// What it heard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CaptureResult {
    /// Frames written.
    pub frames: u64,
}

/// Writes until standard input ends.
///
/// # Errors
/// If the interface or the file cannot be opened, or the disk is full.
pub fn run(spec: CaptureSpec) -> anyhow::Result<CaptureResult> {
    let file = File::create(&spec.file).with_context(|| spec.file.display().to_string())?;
    let mut out = BufWriter::new(file);
    let socket = PacketSocket::open(&spec.interface, Heard::Both)?;
    out.write_all(&file_header())?;
    say(&Say::<()>::Ready);
    let mut result = CaptureResult::default();
    let (stdin, mut buffer) = (std::io::stdin(), vec![0; 10_000]);
    loop {
        let mut fds =
            [PollFd::new(socket.as_fd(), PollFlags::POLLIN), PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e).context("poll"),
        }
        let ends = fds[1].any().unwrap_or(false);
        while let Ok((n, at)) = socket.recv(&mut buffer) {
            if result.frames < MOST {
                write_frame(&mut out, at.unwrap_or(0), &buffer[..n])?;
                result.frames += 1;
            }
        }
        if ends {
            out.flush().with_context(|| spec.file.display().to_string())?;
            return Ok(result);
        }
    }
}

fn file_header() -> [u8; 24] {
    let mut h = [0; 24];
    h[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    h[4..6].copy_from_slice(&2_u16.to_le_bytes());
    h[6..8].copy_from_slice(&4_u16.to_le_bytes());
    h[16..20].copy_from_slice(&(SNAP as u32).to_le_bytes());
    // LINKTYPE_ETHERNET
    h[20..].copy_from_slice(&1_u32.to_le_bytes());
    h
}

fn write_frame(out: &mut impl Write, at_ns: i64, frame: &[u8]) -> std::io::Result<()> {
    let kept = frame.len().min(SNAP);
    let (second, at) = (1_000_000_000, u64::try_from(at_ns).unwrap_or(0));
    for word in [at / second, at % second, kept as u64, frame.len() as u64] {
        // Seconds in 32 bits reach the year 2106.
        out.write_all(&(word as u32).to_le_bytes())?;
    }
    out.write_all(&frame[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_by_hand() {
        let mut out = Vec::new();
        write_frame(&mut out, 3_000_000_007, &[9; 200]).unwrap();
        assert_eq!(out[..16], [3, 0, 0, 0, 7, 0, 0, 0, 134, 0, 0, 0, 200, 0, 0, 0]);
        assert_eq!(out.len(), 16 + SNAP);
        assert_eq!(file_header()[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
    }
}
