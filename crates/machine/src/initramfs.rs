//! The files of a guest as the kernel unpacks them at its start: a cpio archive in the "newc" form
//! (`Documentation/driver-api/early-userspace/buffer-format.rst` of Linux).

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// Set in the mode of a folder, of a file, of a symbolic link.
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// A root file system in memory. The same files give the same bytes: nothing in it says when or by whom it was made.
#[derive(Debug, Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    /// Paths that are in it, so that nothing is twice.
    inside: BTreeSet<PathBuf>,
}

impl Initramfs {
    /// Folders that every guest has; `/bin`, `/sbin` and `/lib` lead into `/usr` as on this machine.
    #[must_use]
    pub fn new() -> Self {
        let mut made = Self::default();
        for folder in ["dev", "etc", "out", "proc", "root", "run", "sys", "tmp", "usr", "var"] {
            made.folder(Path::new("/").join(folder).as_path());
        }
        for name in ["bin", "sbin", "lib", "lib64"] {
            let (at, to) = (Path::new("/").join(name), Path::new("usr").join(name));
            made.folder(&Path::new("/").join(&to));
            made.link(&at, &to);
        }
        made
    }

    fn entry(&mut self, path: &Path, mode: u32, data: &[u8]) {
        let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_encoded_bytes().to_vec();
        if !self.inside.insert(path.to_owned()) {
            return;
        }
        let number = self.inside.len();
        // Magic, inode, mode, owner, group, links, time, size, four device numbers, length of the name with its zero,
        // no checksum.
        let fields = [number, mode as usize, 0, 0, 1, 0, data.len(), 0, 0, 0, 0, name.len() + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(&name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    /// Names and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Adds a folder and those above it.
    pub fn folder(&mut self, path: &Path) {
        let path = settled(path);
        for above in path.ancestors().collect::<Vec<_>>().into_iter().rev().skip(1) {
            self.entry(above, FOLDER | 0o755, &[]);
        }
    }

    fn link(&mut self, path: &Path, to: &Path) {
        self.entry(path, LINK | 0o777, to.as_os_str().as_encoded_bytes());
    }

    /// Adds a file with this content; `program` says whether it may be executed.
    pub fn file(&mut self, path: &Path, content: &[u8], program: bool) {
        let path = settled(path);
        if let Some(folder) = path.parent() {
            self.folder(folder);
        }
        self.entry(&path, FILE | if program { 0o755 } else { 0o644 }, content);
    }

    /// Adds a file or folder of this machine under its own path; links are followed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn copy(&mut self, path: &Path) -> anyhow::Result<()> {
        self.copy_as(path, path)
    }

    /// Adds a file or folder of this machine under another path; links are followed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn copy_as(&mut self, from: &Path, to: &Path) -> anyhow::Result<()> {
        if from.is_dir() {
            self.folder(to);
            let entries = std::fs::read_dir(from).with_context(|| from.display().to_string())?;
            let mut names = entries.map(|e| Ok(e?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
            // A folder lists its files in an order of its own.
            names.sort();
            for name in names {
                self.copy_as(&from.join(&name), &to.join(&name))?;
            }
            return Ok(());
        }
        let content = std::fs::read(from).with_context(|| from.display().to_string())?;
        let mode = std::fs::metadata(from).with_context(|| from.display().to_string())?.permissions().mode();
        self.file(to, &content, mode & 0o111 != 0);
        Ok(())
    }

    /// Adds a program of this machine with the libraries it is linked with.
    ///
    /// # Errors
    /// If it, or a library, cannot be read.
    pub fn program(&mut self, path: &Path) -> anyhow::Result<()> {
        self.copy(path)?;
        for library in libraries(path)? {
            self.copy(&library)?;
        }
        Ok(())
    }

    /// The archive, closed.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), 0, &[]);
        self.bytes
    }
}

/// `/bin/x` is `/usr/bin/x`, and `/a/../b` is `/b`.
fn settled(path: &Path) -> PathBuf {
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::ParentDir => drop(parts.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    if parts.first().is_some_and(|first| ["bin", "sbin", "lib", "lib64"].iter().any(|name| first == name)) {
        parts.insert(0, "usr".as_ref());
    }
    Path::new("/").join(parts.iter().collect::<PathBuf>())
}

/// The libraries a program is linked with, as the loader of this machine finds them.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let said = Command::new("ldd").arg(program).output().context("ldd (package libc-bin)")?;
    let text = String::from_utf8_lossy(&said.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        bail!("{}: {}", program.display(), line.trim());
    }
    // "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)", "/lib64/ld-linux-x86-64.so.2 (0x...)". A script or a
    // static program has none.
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_headers_of_110_characters_and_contents_at_multiples_of_four() {
        let mut made = Initramfs::default();
        made.file(Path::new("/hi"), b"hello", true);
        let bytes = made.finish();
        // The header (6 + 13 * 8 characters), "hi" and a zero: 113, so the content begins at 116 and ends at 121.
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081ED", "a file that may be executed: 0o100755");
        assert_eq!(&bytes[54..62], b"00000005", "five bytes");
        assert_eq!(&bytes[94..102], b"00000003", "a name of two letters and a zero");
        assert_eq!(&bytes[110..113], b"hi\0");
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701");
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_nothing_comes_twice() {
        let mut made = Initramfs::new();
        made.file(Path::new("/lib/x/a"), b"1", false);
        made.file(Path::new("/usr/lib/x/a"), b"2", false);
        made.file(Path::new("/usr/lib/y/../x/b"), b"3", false);
        let bytes = made.finish();
        let text = String::from_utf8_lossy(&bytes);
        let at = |name: &str| text.find(&format!("{name}\0")).unwrap();
        assert!(at("usr/lib") < at("usr/lib/x") && at("usr/lib/x") < at("usr/lib/x/a"));
        assert_eq!(text.matches("usr/lib/x/a\0").count(), 1);
        assert!(text.contains("usr/lib/x/b\0") && !text.contains(".."));
    }

    #[test]
    fn a_program_brings_its_libraries() {
        let mut made = Initramfs::new();
        made.program(Path::new("/bin/sh")).unwrap();
        assert!(made.inside.contains(Path::new("/usr/bin/sh")));
        let is_libc = |path: &PathBuf| path.to_string_lossy().contains("libc.so");
        assert!(made.inside.iter().any(is_libc), "{:?}", made.inside);
    }
}
