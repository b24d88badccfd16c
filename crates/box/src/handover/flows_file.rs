//! File of flows that a box leaves for the next start when it stops. Traffic passes unqueued in between, so no
//! packets are in it.
//!
//! It is left where the next start is said to come (`--replace`), as when a service manager restarts the box. The file
//! names users' addresses: only its owner may read it, and it is gone once read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use narrows_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use super::link_state::FORMAT;
use crate::state;

/// Greatest age of a file that is still used: after a longer time flows have gone on too far without the box.
const FRESH: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Content {
    format: u32,
    /// Identifier of the kernel's boot; the clock of `at` begins anew with each boot.
    boot: String,
    at: Instant,
    lanes: [Option<Vec<u8>>; 2],
}

/// The file, open for as long as the box lives: when it stops it may no longer open one.
#[derive(Debug)]
pub struct FlowsFile {
    file: File,
    path: PathBuf,
    left: [Option<Vec<u8>>; 2],
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

impl FlowsFile {
    /// Reads what is there and empties the file.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn open(claim: &Path, now: Instant) -> anyhow::Result<Self> {
        let path = claim.with_extension("flows");
        let open = || {
            let mut file = state::open(&path, Some(0o600))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            file.set_len(0)?;
            Ok::<_, anyhow::Error>((file, bytes))
        };
        let (file, bytes) = open().with_context(|| format!("cannot write {}", path.display()))?;
        let content = postcard::from_bytes::<Content>(&bytes)
            .ok()
            .filter(|c| c.format == FORMAT && c.boot == boot() && c.at <= now && now.since(c.at) < FRESH);
        Ok(Self { file, path, left: content.map_or([None, None], |c| c.lanes) })
    }

    /// Takes what was left, once; none if nothing was.
    pub fn take(&mut self) -> Option<[Option<Vec<u8>>; 2]> {
        let left = std::mem::take(&mut self.left);
        left.iter().any(Option::is_some).then_some(left)
    }

    /// Writes the time and the flows of both lanes to the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn leave(&mut self, at: Instant, lanes: [Option<Vec<u8>>; 2]) -> anyhow::Result<()> {
        let bytes = postcard::to_stdvec(&Content { format: FORMAT, boot: boot(), at, lanes })?;
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(&bytes));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_is_read_once_and_soon() {
        let claim = std::env::temp_dir().join(format!("narrows-flows-{}.json", std::process::id()));
        let (at, second) = (Instant::from_nanos(5_000_000_000), Duration::from_secs(1));
        let lanes = || [Some(vec![1, 2]), None];
        let reads = |now| FlowsFile::open(&claim, now).unwrap().take();
        let leave = || FlowsFile::open(&claim, at).unwrap().leave(at, lanes()).unwrap();
        assert_eq!(reads(at), None);
        leave();
        assert_eq!((reads(at + second), reads(at + second)), (Some(lanes()), None), "once");
        leave();
        assert_eq!(reads(at + second * 61), None, "old");
        fs::write(claim.with_extension("flows"), [9; 50]).unwrap();
        assert_eq!(reads(at), None, "nonsense");
        fs::remove_file(claim.with_extension("flows")).unwrap();
    }
}
