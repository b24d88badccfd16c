//! The program `narrows`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(narrows_cli::main(std::env::args_os()))
}
