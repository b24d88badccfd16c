//! The program's commands that need no box, for `python -m narrows`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs what `args` say, the name of the program first, and gives the status to end with. Output and Ctrl-C are those
/// of the program: nothing of Python is asked meanwhile.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| narrows_cli::main(args))
}
