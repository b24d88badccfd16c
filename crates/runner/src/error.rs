//! Why there are no results, each with its remedy.

use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// Reason why [`crate::execute`] did not come to an end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder refused.
    #[error("{doing} {}: {why}{}", path.display(), remedy(why))]
    Io {
        /// Operation that failed, as `writing`.
        doing: &'static str,
        /// File or folder of the operation.
        path: PathBuf,
        /// Error of the system.
        why: std::io::Error,
    },
    /// The output folder belongs to something else.
    #[error("{}: {why}; choose another folder with --out", dir.display())]
    Taken {
        /// Path of the folder.
        dir: PathBuf,
        /// Reason, naming the foreign content.
        why: String,
    },
    /// Stopped before all runs were done.
    #[error("stopped: {done} of {total} runs are done and kept; the same command goes on from there")]
    Stopped {
        /// Number of finished runs.
        done: usize,
        /// Number of planned runs.
        total: usize,
    },
    /// Runs that gave no results; all others are done and kept.
    #[error("{} of {total} runs failed, the first: {}", failed.len(), failed.first().map_or("", |f| f.1.as_str()))]
    Failed {
        /// Failed runs: index in the plan, and reason.
        failed: Vec<(usize, String)>,
        /// Number of planned runs.
        total: usize,
    },
}

impl Error {
    /// Wraps an error of the system for `map_err`.
    pub(crate) fn io<E: Into<std::io::Error>>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |why| Self::Io { doing, path: path.to_owned(), why: why.into() }
    }

    /// Wraps an error of the Parquet library for `map_err`, unpacking the system's error if there is one inside.
    pub(crate) fn parquet(doing: &'static str, path: &Path) -> impl FnOnce(ParquetError) -> Self {
        move |why| {
            let why = match why {
                ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                    Ok(system) => *system,
                    Err(other) => std::io::Error::other(other),
                },
                other => std::io::Error::other(other),
            };
            Self::Io { doing, path: path.to_owned(), why }
        }
    }
}

fn remedy(why: &std::io::Error) -> &'static str {
    use std::io::ErrorKind as Kind;
    match why.kind() {
        Kind::StorageFull | Kind::QuotaExceeded => "; finished runs are kept: make room and start again",
        Kind::FileTooLarge => "; finished runs are kept: raise the limit of file sizes and start again",
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::NotADirectory => {
            "; choose a folder that can be written with --out"
        }
        _ => "",
    }
}
