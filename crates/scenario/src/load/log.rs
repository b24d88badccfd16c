//! The access log a scenario names.

use std::path::Path;
use std::sync::Arc;

use crate::{LogEntry, access_log};

/// Reads a log; an error is the end of a sentence about the file.
pub(crate) fn read(path: &Path) -> Result<Arc<[LogEntry]>, String> {
    let text = std::fs::read(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    let entries = access_log::parse(&String::from_utf8_lossy(&text));
    Ok(entries.map_err(|e| format!("{}: {e}", path.display()))?.into())
}
