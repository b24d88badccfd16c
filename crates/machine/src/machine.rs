//! One run of one guest.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::initramfs::Initramfs;
use super::kernel::Kernel;
use super::root::Root;
use super::toolbox;

#[cfg(target_arch = "x86_64")]
const QEMU: &str = "qemu-system-x86_64";
#[cfg(not(target_arch = "x86_64"))]
const QEMU: &str = "qemu-system-aarch64";

/// The processor: has instructions for AES, which TLS needs to be quick, and none that draw random numbers. A model by
/// name has the same instructions in every version of qemu.
const PROCESSOR: &str = "Westmere-v1";
/// The date in every guest at its start: the same in all runs, and within the validity of what guests sign.
const DATE: &str = "2026-01-01T00:00:00";
/// Room for results, bytes. The file is sparse: what is not used costs nothing.
const RESULTS: u64 = 1 << 30;
/// Command line of the kernel. `quiet` keeps its messages to those that are errors; TSC and jiffies need no watchdog
/// where both count the same instructions; mitigations of processor faults would cost instructions that a real
/// machine's clock hardly sees.
const KERNEL_LINE: &str =
    "console=ttyS1 quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=off tsc=reliable";

/// Further words of the command line for a root with systemd. Its console is where errors are heard, and nobody logs in
/// there.
const SYSTEMD_LINE: &str = "systemd.mask=serial-getty@ttyS1.service systemd.show_status=false";

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The script's standard output.
    Output,
    /// The script's standard error, the errors of the guest's kernel, and what qemu says.
    Error,
}

/// How a guest's script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The script's exit status.
    pub status: i32,
}

/// How a guest with a root of its own ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The script came to its end with this status, and systemd shut the machine down.
    InOrder(i32),
    /// The machine went at once, as if its plug had been pulled: the script asked for that by `echo b >
    /// /proc/sysrq-trigger`.
    Cut,
}

/// Content of a machine: files, and a script for `sh` that starts in `/out`, whose content is the result.
#[derive(Debug)]
pub struct Guest {
    files: Initramfs,
    script: String,
}

impl Guest {
    /// A guest with the usual programs of this machine.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn new(script: &str) -> anyhow::Result<Self> {
        let mut files = Initramfs::new();
        for program in toolbox::programs().chain(toolbox::libraries()) {
            files.program(&program)?;
        }
        for path in toolbox::files() {
            files.copy(path)?;
        }
        files.file(
            Path::new("/etc/passwd"),
            b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
            false,
        );
        files.file(Path::new("/etc/group"), b"root:x:0:\nnogroup:x:65534:\n", false);
        files.file(Path::new("/etc/hosts"), b"127.0.0.1 localhost\n::1 localhost\n", false);
        files.file(Path::new("/init"), include_bytes!("init.sh"), true);
        Ok(Self { files, script: script.to_owned() })
    }

    /// Builds the first root, which only mounts the guest's root and starts the systemd in it.
    fn to_boot(script: &str) -> anyhow::Result<Self> {
        let mut files = Initramfs::new();
        for name in ["sh", "mount", "modprobe", "mkdir", "cp", "ln", "switch_root"] {
            files.program(&toolbox::find(name).with_context(|| format!("{name} is missing"))?)?;
        }
        files.file(Path::new("/init"), include_bytes!("system.sh"), true);
        files.file(Path::new("/machine.sh"), include_bytes!("machine.sh"), false);
        files.file(Path::new("/machine.service"), include_bytes!("machine.service"), false);
        Ok(Self { files, script: script.to_owned() })
    }

    /// Adds a program with its libraries, under its own path.
    ///
    /// # Errors
    /// If it, or a library, cannot be read.
    pub fn program(&mut self, path: &Path) -> anyhow::Result<()> {
        self.files.program(path)
    }

    /// Adds a file or folder of this machine, under its own path.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn copy(&mut self, path: &Path) -> anyhow::Result<()> {
        self.files.copy(path)
    }

    /// Adds a file with this content.
    pub fn file(&mut self, path: &Path, content: &[u8]) {
        self.files.file(path, content, false);
    }
}

/// A kernel and what it runs on.
#[derive(Clone, Debug)]
pub struct Machine {
    kernel: Kernel,
    memory_mib: u32,
    seed: u64,
    most: Duration,
}

impl Machine {
    /// A machine of 2 GiB with this kernel.
    #[must_use]
    pub const fn new(kernel: Kernel) -> Self {
        Self { kernel, memory_mib: 2048, seed: 1, most: Duration::from_secs(3600) }
    }

    /// Kernel of the machine.
    #[must_use]
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Memory in MiB; files and results of the guest are in it.
    #[must_use]
    pub const fn memory_mib(mut self, mib: u32) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Decides every random number in the guest.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The longest that a run may take on this host's clock; one that takes longer is ended with an error.
    #[must_use]
    pub const fn at_most(mut self, most: Duration) -> Self {
        self.most = most;
        self
    }

    /// Runs a guest to its end. Its lines are given to `hear` as they come, the files of its `/out` are put into
    /// `results`; `stop` ends it early with an error.
    ///
    /// # Errors
    /// What is missing here, with the remedy; that the guest did not come to its end, with the last that was heard of
    /// it; or that it was stopped.
    pub fn run(
        &self,
        guest: Guest,
        results: &Path,
        hear: &mut dyn FnMut(Stream, &str),
        stop: &AtomicBool,
    ) -> anyhow::Result<Ended> {
        if let Some(why) = obstacle() {
            bail!("{why}");
        }
        let place = Place::make()?;
        let files = self.archive(guest)?;
        std::fs::write(place.files(), files).with_context(|| place.files().display().to_string())?;
        let memory =
            std::fs::File::create(place.results()).with_context(|| place.results().display().to_string())?;
        memory.set_len(RESULTS).context("results of a guest")?;
        let (ended, last) = self.watch(&mut self.command(&place), hear, stop)?;
        let status = place.unpack(results).with_context(|| {
            format!(
                "kernel {}: the guest ended without its results (qemu: {ended}){}",
                self.kernel.version(),
                last.said()
            )
        })?;
        Ok(Ended { status })
    }

    /// Starts the systemd of `root`, which starts `script` for `sh` in `/run/machine`, with `multi-user.target` and not
    /// before it. Its standard output and error are heard line by line, as are the kernel's errors; when it has ended
    /// the machine is shut down.
    ///
    /// # Errors
    /// Those of [`Machine::run`].
    pub fn boot(
        &self,
        root: &mut Root,
        script: &str,
        hear: &mut dyn FnMut(Stream, &str),
        stop: &AtomicBool,
    ) -> anyhow::Result<Halt> {
        if let Some(why) = obstacle() {
            bail!("{why}");
        }
        let place = Place::make()?;
        std::fs::write(place.files(), self.archive(Guest::to_boot(script)?)?)
            .with_context(|| place.files().display().to_string())?;
        let mut command = self.qemu(root.size(), &root.start());
        command
            .arg("-serial")
            .arg(format!("file:{}", place.status().display()))
            .args(memory_device("root", root.image(), root.size()))
            .arg("-initrd")
            .arg(place.files())
            .args(["-append", &format!("{KERNEL_LINE} {SYSTEMD_LINE}")]);
        let (ended, last) = self.watch(&mut command, hear, stop)?;
        anyhow::ensure!(ended.success(), "qemu: {ended}{}", last.said());
        let status = std::fs::read_to_string(place.status()).context("the status")?;
        match status.trim() {
            "" => Ok(Halt::Cut),
            status => Ok(Halt::InOrder(status.parse().context("the status")?)),
        }
    }

    /// Runs qemu to its end.
    fn watch(
        &self,
        command: &mut Command,
        hear: &mut dyn FnMut(Stream, &str),
        stop: &AtomicBool,
    ) -> anyhow::Result<(ExitStatus, Last)> {
        let mut last = Last::default();
        let mut qemu = Running(command.spawn().with_context(|| QEMU.to_owned())?);
        let (tell, told) = mpsc::channel();
        let streams: [(Stream, Option<Box<dyn Read + Send>>); 2] = [
            (Stream::Output, qemu.0.stdout.take().map(|s| Box::new(s) as _)),
            (Stream::Error, qemu.0.stderr.take().map(|s| Box::new(s) as _)),
        ];
        for (stream, from) in streams {
            let (tell, from) = (tell.clone(), from.context("a pipe from qemu")?);
            std::thread::spawn(move || {
                for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                    if tell.send((stream, line)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(tell);
        let begun = Instant::now();
        loop {
            if stop.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            if begun.elapsed() > self.most {
                bail!("the guest took longer than {} s and was ended{}", self.most.as_secs(), last.said());
            }
            match told.recv_timeout(Duration::from_millis(100)) {
                Ok((stream, line)) => {
                    last.note(&line);
                    hear(stream, &line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let ended = qemu.0.wait().context("qemu")?;
        Ok((ended, last))
    }

    fn archive(&self, guest: Guest) -> anyhow::Result<Vec<u8>> {
        let Guest { mut files, script } = guest;
        files.file(Path::new("/script"), script.as_bytes(), false);
        let home = Path::new("/usr/lib/modules").join(self.kernel.version());
        for file in self.kernel.module_files(toolbox::MODULES)? {
            let inside =
                file.strip_prefix(self.kernel.modules()).with_context(|| file.display().to_string())?;
            files.copy_as(&file, &home.join(inside))?;
        }
        for entry in std::fs::read_dir(self.kernel.modules())?.filter_map(Result::ok) {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with("modules.") {
                files.copy_as(&entry.path(), &home.join(name))?;
            }
        }
        Ok(files.finish())
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = self.qemu(RESULTS, DATE);
        command
            .args(memory_device("results", &place.results(), RESULTS))
            .arg("-initrd")
            .arg(place.files())
            .args(["-append", KERNEL_LINE]);
        command
    }

    /// Composes the QEMU command that every guest shares; the caller adds an NVDIMM of `kept` bytes. The clock begins
    /// at `date`.
    fn qemu(&self, kept: u64, date: &str) -> Command {
        use std::os::unix::process::CommandExt as _;
        // Ended with this process, however that ends.
        let mut command = match toolbox::find("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--", QEMU]);
                command
            }
            None => Command::new(QEMU),
        };
        let memory = u64::from(self.memory_mib) << 20;
        let most = (memory + kept) >> 20;
        command
            // Ctrl-C reaches us alone, and we end it.
            .process_group(0)
            .args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"])
            .args(["-cpu", PROCESSOR, "-smp", "1", "-machine", "q35,nvdimm=on"])
            .args(["-m", &format!("{}M,slots=1,maxmem={most}M", self.memory_mib)])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .args(["-seed", &self.seed.to_string(), "-rtc", &format!("base={date},clock=vm")])
            .args(["-serial", "file:/dev/stdout", "-serial", "file:/dev/stderr"])
            .arg("-kernel")
            .arg(self.kernel.image())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// An NVDIMM: memory of the guest that is a file of this machine.
fn memory_device(name: &str, file: &Path, size: u64) -> [String; 4] {
    [
        "-object".to_owned(),
        format!("memory-backend-file,id={name},share=on,mem-path={},size={size}", file.display()),
        "-device".to_owned(),
        format!("nvdimm,memdev={name}"),
    ]
}

/// Reason why no guest can run here, with the remedy.
#[must_use]
pub fn obstacle() -> Option<String> {
    let missing = |program: &str, package: &str| {
        toolbox::find(program)
            .is_none()
            .then(|| format!("virtual machines need {program}: apt-get install {package}"))
    };
    let package = if cfg!(target_arch = "x86_64") { "qemu-system-x86" } else { "qemu-system-arm" };
    missing(QEMU, package).or_else(|| missing("depmod", "kmod"))
}

/// A process that is ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The last lines that were heard, for errors.
#[derive(Default)]
struct Last(std::collections::VecDeque<String>);

impl Last {
    fn note(&mut self, line: &str) {
        if self.0.len() == 20 {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    fn said(&self) -> String {
        format!("; its last lines:\n{}", self.0.iter().map(String::as_str).collect::<Vec<_>>().join("\n"))
    }
}

/// A folder for the files of one run, gone when dropped.
struct Place(PathBuf);

static PLACES: AtomicU32 = AtomicU32::new(0);

/// Begin of the names of these folders; the process and a number follow.
const PREFIX: &str = "narrows-machine-";

/// Removes the folders of processes that were killed: each holds a machine's files, some 200 MB.
fn sweep(temporary: &Path) {
    let left = |name: &str| {
        let process = name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok()?;
        Some(!Path::new("/proc").join(process.to_string()).exists())
    };
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        if entry.file_name().to_str().and_then(left) == Some(true) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Place {
    fn make() -> anyhow::Result<Self> {
        let temporary = std::env::temp_dir();
        sweep(&temporary);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let place = Self(temporary.join(format!("{PREFIX}{}-{number}", std::process::id())));
        std::fs::create_dir_all(&place.0).with_context(|| place.0.display().to_string())?;
        Ok(place)
    }

    fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    fn results(&self) -> PathBuf {
        self.0.join("results")
    }

    /// Where a guest with a root of its own tells its script's status.
    fn status(&self) -> PathBuf {
        self.0.join("status")
    }

    /// Puts the guest's files into `folder`, and gives its status.
    fn unpack(&self, folder: &Path) -> anyhow::Result<i32> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let status = self.status();
        let done = Command::new("tar")
            .arg("-xf")
            .arg(self.results())
            .arg("-C")
            .arg(folder)
            .args(["--no-same-owner"])
            .output();
        let done = done.context("tar cannot be started; is it installed?")?;
        std::fs::rename(folder.join(".status"), &status)
            .or_else(|_| std::fs::copy(folder.join(".status"), &status).map(drop))
            .with_context(|| {
                format!("no status among them ({})", String::from_utf8_lossy(&done.stderr).trim())
            })?;
        let _ = std::fs::remove_file(folder.join(".status"));
        std::fs::read_to_string(&status)?.trim().parse().context("the status")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let temporary = std::env::temp_dir().join(format!("narrows-sweep-{}", std::process::id()));
        // No process has this number: the kernel's are below 2^22.
        let left = temporary.join(format!("{PREFIX}4194305-0"));
        let own = temporary.join(format!("{PREFIX}{}-0", std::process::id()));
        let other = temporary.join("narrows-machine-notes");
        for folder in [&left, &own, &other] {
            std::fs::create_dir_all(folder).unwrap();
        }
        sweep(&temporary);
        assert_eq!([&left, &own, &other].map(|folder| folder.exists()), [false, true, true]);
        std::fs::remove_dir_all(&temporary).unwrap();
    }
}
