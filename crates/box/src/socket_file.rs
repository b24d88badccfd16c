//! Sockets that a box makes in the file system, for programs that tell it something.

use std::fs::{Permissions, remove_file, set_permissions, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// Name of a socket. It goes with this value, unless it is left to another process.
#[derive(Debug)]
pub struct SocketFile(Option<PathBuf>);

impl SocketFile {
    /// Makes a socket with these rights by `bind`, in place of one that was left there. `key` is the setting that names
    /// the path.
    ///
    /// # Errors
    /// If the socket cannot be made, or something else has its name.
    pub fn bind<'a, S>(
        key: &str,
        path: &'a Path,
        rights: u32,
        bind: impl FnOnce(&'a Path) -> io::Result<S>,
    ) -> anyhow::Result<(S, Self)> {
        let what = || format!("cannot make the socket of {key} = unix:{}", path.display());
        if let Ok(there) = symlink_metadata(path) {
            ensure!(there.file_type().is_socket(), "{}: something else has that name", what());
            remove_file(path).with_context(what)?;
        }
        let socket = bind(path).with_context(what)?;
        let file = Self(Some(path.to_owned()));
        set_permissions(path, Permissions::from_mode(rights)).with_context(what)?;
        Ok((socket, file))
    }

    /// Leaves the socket's name in the file system for the process that has taken this process's place.
    pub fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = self.0.as_ref().map(remove_file);
    }
}
