//! The settings file comes to be whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, bail};

/// Writes `text` to `file`; over one that is there only if told so.
///
/// # Errors
/// Names the file and the reason.
pub fn write(file: &Path, text: &str, overwrite: bool) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", file.display());
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(dir).with_context(cannot)?;
    let name = file.file_name().with_context(|| format!("{} is no file", file.display()))?;
    let draft = dir.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&draft)
        .and_then(|mut new| new.write_all(text.as_bytes()).and_then(|()| new.sync_all()))
        .and_then(|()| {
            if overwrite {
                return fs::rename(&draft, file);
            }
            // Fails where somebody else was quicker, as a rename would not.
            fs::hard_link(&draft, file)
        });
    let _ = fs::remove_file(&draft);
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} is there already: it stays as it is; --overwrite replaces it", file.display())
        }
        other => other.with_context(cannot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_over_another_file_unless_told() {
        let dir = narrows_testing::Scratch::new("setup-file");
        let file = dir.join("deep/link.toml");
        write(&file, "one", false).unwrap();
        let told = write(&file, "two", false).unwrap_err().to_string();
        assert!(told.contains("link.toml is there already"), "{told}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        write(&file, "two", true).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.join("deep")).unwrap().count(), 1);
    }
}
