//! One table in Parquet, written as its rows come.

use std::path::{Path, PathBuf};

use narrows_sim::Column;

use crate::Error;
use crate::parquet::{ColumnType, Writer};

/// See the head of the file.
pub struct TableFile {
    path: PathBuf,
    writer: Writer,
}

impl TableFile {
    /// Begins a file with the names and types of these columns; `about` goes into its footer.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn create(path: &Path, columns: &[Column], about: &[(&str, &str)]) -> Result<Self, Error> {
        let columns: Vec<(String, ColumnType)> =
            columns.iter().map(|c| (c.name.clone(), ColumnType::of(&c.data))).collect();
        let writer =
            Writer::create(path, &columns, about, u64::MAX).map_err(Error::parquet("writing", path))?;
        Ok(Self { path: path.to_owned(), writer })
    }

    /// Adds rows: the same columns, all of one length.
    ///
    /// # Errors
    /// A file that cannot be written, or other columns.
    pub fn append(&mut self, columns: Vec<Column>) -> Result<(), Error> {
        let values = columns.into_iter().map(|c| c.data).collect();
        self.writer.append(values).map_err(Error::parquet("writing", &self.path))
    }

    /// Writes the rows that are left and the file's end. Without this it cannot be read.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn close(self) -> Result<(), Error> {
        self.writer.close().map_err(Error::parquet("writing", &self.path))
    }
}
