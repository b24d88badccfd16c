//! A root file system that outlives the machine: an ext4 image, which guests see as memory that keeps its content
//! (an NVDIMM, `/dev/pmem0`). Reading and writing it takes instructions and no waiting, so the clock of such a guest
//! counts as that of any other.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::toolbox;

/// An NVDIMM's size is a multiple of this (a block of memory that Linux adds or removes, 128 MiB on x86-64).
const STEP: u64 = 128 << 20;

/// The image of a root, and how often a machine was started from it.
#[derive(Debug)]
pub struct Root {
    image: PathBuf,
    size: u64,
    starts: u32,
}

impl Root {
    /// An image at `image` with the files of the folder `tree` and at least `room` bytes beside them. Owners are those
    /// of the files, so a tree that root has made becomes root's.
    ///
    /// # Errors
    /// If the folder cannot be read, or `mke2fs` is missing or fails.
    pub fn make(tree: &Path, image: &Path, room: u64) -> anyhow::Result<Self> {
        let size = (used(tree)? + room).next_multiple_of(STEP);
        let file = std::fs::File::create(image).with_context(|| image.display().to_string())?;
        file.set_len(size).with_context(|| image.display().to_string())?;
        let program = toolbox::find("mke2fs").context("images need mke2fs: apt-get install e2fsprogs")?;
        let done = Command::new(program).args(["-q", "-F", "-t", "ext4", "-d"]).arg(tree).arg(image).output();
        let done = done.context("mke2fs")?;
        if !done.status.success() {
            bail!("mke2fs: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(Self { image: image.to_owned(), size, starts: 0 })
    }

    /// The file.
    #[must_use]
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Length of the image in bytes.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Counts a start, and gives that day's date. A machine that starts again finds the clock later than it left it,
    /// and later than the day on which its systemd was built, before which systemd lets no clock be.
    pub(crate) fn start(&mut self) -> String {
        self.starts += 1;
        let (month, day) = (1 + (self.starts - 1) / 28, 1 + (self.starts - 1) % 28);
        format!("2030-{month:02}-{day:02}T00:00:00")
    }
}

/// The bytes that the files below a folder take, in blocks of 4 KiB.
fn used(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 4096;
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() {
            used(&entry.path())?
        } else {
            entry.metadata()?.len().next_multiple_of(4096)
        };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_is_a_later_day() {
        let mut root = Root { image: PathBuf::new(), size: 0, starts: 0 };
        let days: Vec<String> = std::iter::repeat_with(|| root.start()).take(30).collect();
        assert_eq!(days[0], "2030-01-01T00:00:00");
        assert_eq!(days[29], "2030-02-02T00:00:00");
        assert!(days.is_sorted());
    }

    #[test]
    fn an_image_is_as_long_as_its_files_and_the_room_asked_for() {
        let place = std::env::temp_dir().join(format!("narrows-root-{}", std::process::id()));
        let tree = place.join("tree");
        std::fs::create_dir_all(tree.join("etc")).unwrap();
        std::fs::write(tree.join("etc/hostname"), "box\n").unwrap();
        // Two folders and a file: 12 KiB.
        assert_eq!(used(&tree).unwrap(), 12 << 10);
        if toolbox::find("mke2fs").is_some() {
            let root = Root::make(&tree, &place.join("image"), 1 << 20).unwrap();
            assert_eq!(std::fs::metadata(root.image()).unwrap().len(), STEP);
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
