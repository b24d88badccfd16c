//! A listener: writes the headers of all that passes one interface to a pcap file, to see why an object hung.

use std::fs::File;
use std::io::BufWriter;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use anyhow::Context as _;
use narrows_netio::packet_socket::{FrameDirection, PacketSocket};
use narrows_units::Instant;
use narrows_wire::capture::{FrameWriter, LinkType};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::{Say, say};

/// Bytes kept of each frame: Ethernet, IP and TCP with all options fit.
const SNAP: usize = 134;
/// Most frames in one file, so that a long run on a fast link does not fill the disk.
const MOST: u64 = 20_000_000;

/// Settings of the listener.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaptureSpec {
    /// Interface on which to listen.
    pub interface: String,
    /// File to write.
    pub file: PathBuf,
}

/// Result of the listener.
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
    let socket = PacketSocket::open(&spec.interface, FrameDirection::Both)?;
    let mut out = FrameWriter::new(BufWriter::new(file), LinkType::Ethernet, SNAP)?;
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
                let at = Instant::from_nanos(u64::try_from(at.unwrap_or(0)).unwrap_or(0));
                out.write(at, &buffer[..n], n)?;
                result.frames += 1;
            }
        }
        if ends {
            out.flush().with_context(|| spec.file.display().to_string())?;
            return Ok(result);
        }
    }
}
