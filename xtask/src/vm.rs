//! `xtask vm`: a command under another kernel, in a machine whose clock counts instructions.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use narrows_machine::{Guest, Kernel, Machine, Release, Stream};

/// Arguments of `xtask vm`.
#[derive(clap::Args)]
pub struct Args {
    /// Version of the kernel, as 6.1, 6.12 or 7.3; fetched from Debian if it is not at hand
    #[arg(long, default_value = "6.12")]
    kernel: Release,
    /// A program that the command starts, put into the machine with its libraries
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// A file or folder that the command reads
    #[arg(long, value_name = "PATH")]
    copy: Vec<PathBuf>,
    /// Memory of the machine in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory: u32,
    /// Seed of every random number in the machine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for what the command leaves in the current directory
    #[arg(long, value_name = "DIR", default_value = "out/vm")]
    out: PathBuf,
    /// File to which the lines of the command's file "skips" are added
    #[arg(long, value_name = "FILE", hide = true)]
    skips: Option<PathBuf>,
    /// Command to run, for sh
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs the task; the exit status is the command's.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut guest = Guest::new(&args.command.join(" "))?;
    let whole = |path: &PathBuf| path.canonicalize().with_context(|| path.display().to_string());
    for program in &args.program {
        guest.program(&whole(program)?)?;
    }
    for path in &args.copy {
        guest.copy(&whole(path)?)?;
    }
    let machine = Machine::new(Kernel::of(&args.kernel)?).memory_mib(args.memory).seed(args.seed);
    let mut show = |stream: Stream, line: &str| match stream {
        Stream::Output => println!("{line}"),
        Stream::Error => eprintln!("{line}"),
    };
    let ended = machine.run(guest, &args.out, &mut show, &AtomicBool::new(false))?;
    if let Some(file) = &args.skips {
        let lines = std::fs::read_to_string(args.out.join("skips")).unwrap_or_default();
        let mut all = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
        std::io::Write::write_all(&mut all, lines.as_bytes())?;
        std::fs::remove_dir_all(&args.out)?;
    }
    Ok(ExitCode::from(u8::try_from(ended.status).unwrap_or(1)))
}
