//! `xtask systemd`: the Debian package on a router with systemd, over several starts of one virtual machine: installed,
//! started with interfaces that come late, upgraded under load, its power cut, taken out. With `--hardware`, the pages
//! about hardware as they are written.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use narrows_machine::{Halt, Kernel, Machine, Release, Root, Stream};

use self::root::Extra;

mod page;
mod root;

/// Arguments of `xtask systemd`.
#[derive(clap::Args)]
pub struct Args {
    /// Version of the kernel, as 6.1, 6.12 or 7.3; fetched from Debian if it is not at hand
    #[arg(long, default_value = "6.12")]
    kernel: Release,
    /// Release of Debian whose systemd it is; a package runs on the release it was built on and later ones
    #[arg(long, default_value = "bookworm")]
    suite: String,
    /// The package; without it one is built
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
    /// Profile in which it is built: quick, or small as `make release` does
    #[arg(long, default_value = "quick")]
    profile: String,
    /// Tries the pages about hardware in place of the package: network files of each kind, and what to see afterwards
    #[arg(long)]
    hardware: bool,
    /// Stops after that many starts of the machine
    #[arg(long, value_name = "N", default_value_t = STARTS.len())]
    starts: usize,
    /// Runs this script after those
    #[arg(long, value_name = "FILE")]
    then: Option<PathBuf>,
}

/// One start of the machine.
struct Start {
    /// What it is about.
    about: &'static str,
    script: &'static str,
    /// Whether its end is a cut of the power.
    cut: bool,
}

const STARTS: &[Start] = &[
    Start { about: "installed", script: include_str!("systemd/1-install.sh"), cut: false },
    Start { about: "interfaces that come late", script: include_str!("systemd/2-late.sh"), cut: false },
    Start {
        about: "an upgrade, a firewall, a cut under load",
        script: include_str!("systemd/3-upgrade.sh"),
        cut: true,
    },
    Start {
        about: "after the cut, a cut in an upgrade",
        script: include_str!("systemd/4-cut.sh"),
        cut: true,
    },
    Start { about: "after that cut", script: include_str!("systemd/5-half.sh"), cut: false },
    Start { about: "ifupdown, removal", script: include_str!("systemd/6-ifupdown.sh"), cut: false },
];

/// The start in which the pages about hardware are tried: each place with each way to configure a network.
const HARDWARE: &[Start] = &[Start { about: "pages about hardware", script: HARDWARE_SCRIPT, cut: false }];
const HARDWARE_SCRIPT: &str = concat!(include_str!("systemd/place.sh"), include_str!("systemd/hardware.sh"));

/// Packages that these pages install, divided by commas.
const HARDWARE_PACKAGES: &str = "netplan.io,dnsmasq,busybox,bridge-utils,ppp,pppoe";

/// Pages whose files and commands are tried, with the folder of their scripts.
const PAGES: &[(&str, &str)] = &[
    ("page", "docs/how-to/service.md"),
    ("pi", "docs/how-to/raspberry-pi.md"),
    ("hardware", "docs/how-to/hardware.md"),
];

/// Beside Debian and the packages.
const FILES: &[(&str, &str)] = &[
    ("/root/trial/cables", include_str!("systemd/cables")),
    ("/root/trial/traffic.py", include_str!("systemd/traffic.py")),
    ("/root/trial/places", include_str!("systemd/places")),
    ("/root/trial/lease", include_str!("systemd/lease")),
    ("/root/trial/plugged", "eth1 eth0\n"),
    ("/etc/systemd/system/cables.service", include_str!("systemd/cables.service")),
];

/// Arguments of `xtask page`.
#[derive(clap::Args)]
pub struct PageArgs {
    /// Page of the documentation
    page: PathBuf,
    /// Folder for the scripts
    out: PathBuf,
}

/// Writes a script for each section of a page.
pub fn page(args: &PageArgs) -> anyhow::Result<()> {
    let page = std::fs::read_to_string(&args.page).with_context(|| args.page.display().to_string())?;
    std::fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    for (name, script) in page::scripts(&page) {
        let at = args.out.join(format!("{name}.sh"));
        std::fs::write(&at, script).with_context(|| at.display().to_string())?;
    }
    Ok(())
}

/// Runs the task: fails if anything that was judged was wrong.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(why) = obstacle() {
        println!("SKIP the package under systemd: {why}\n0 passed, 0 failed, 1 skipped");
        return Ok(ExitCode::SUCCESS);
    }
    let place = Path::new("target/systemd");
    std::fs::create_dir_all(place).with_context(|| place.display().to_string())?;
    let package = match &args.package {
        Some(package) => package.clone(),
        None => build(&args.profile)?,
    };
    let kernel = Kernel::of(&args.kernel)?;
    let (starts, more) = if args.hardware { (HARDWARE, HARDWARE_PACKAGES) } else { (STARTS, "") };
    let mut extra = extra(place, &package)?;
    if args.hardware {
        // The places have cables of their own.
        extra.retain(|one| !one.path.ends_with("cables.service"));
    }
    let mut root = root::make(place, &args.suite, more, &kernel, &extra)?;
    let machine = Machine::new(kernel).memory_mib(1024);
    let mut count = Count::default();
    for start in starts.iter().take(args.starts) {
        println!("== {}", start.about);
        let began = Instant::now();
        let halt = boot(&machine, &mut root, start.script, &mut count)?;
        if (halt == Halt::Cut) != start.cut {
            count.see(&format!("FAIL the machine's end: {halt:?}"));
        }
        println!("     {} s here", began.elapsed().as_secs());
    }
    if let Some(script) = &args.then {
        let script = std::fs::read_to_string(script).with_context(|| script.display().to_string())?;
        boot(&machine, &mut root, &script, &mut count)?;
    }
    println!("{} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    Ok(if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was judged.
#[derive(Default)]
struct Count {
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl Count {
    fn see(&mut self, line: &str) {
        match line.split_whitespace().next() {
            Some("PASS") => self.passed += 1,
            Some("FAIL") => self.failed += 1,
            Some("SKIP") => self.skipped += 1,
            _ => {}
        }
        println!("{line}");
    }
}

fn boot(machine: &Machine, root: &mut Root, script: &str, count: &mut Count) -> anyhow::Result<Halt> {
    let script = format!("{}{script}", include_str!("systemd/lib.sh"));
    let mut hear = |stream: Stream, line: &str| match stream {
        Stream::Output => count.see(line),
        // The kernel's last word at every end.
        Stream::Error if line.contains("reboot: Restarting") || line.is_empty() => {}
        Stream::Error => println!("   ! {line}"),
    };
    machine.boot(root, &script, &mut hear, &AtomicBool::new(false))
}

/// Why there is no place for the trial, with the remedy.
fn obstacle() -> Option<String> {
    if !nix::unistd::Uid::effective().is_root() {
        return Some("the files of a Debian are root's: try sudo".to_owned());
    }
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path).chain(usual).any(|folder| folder.join(program).is_file())
    };
    let needs = ["debootstrap", "dpkg-deb", "mke2fs"].into_iter().find(|program| !has(program));
    needs.map(|program| format!("it takes {program}")).or_else(narrows_machine::obstacle)
}

/// Builds the package.
fn build(profile: &str) -> anyhow::Result<PathBuf> {
    println!("systemd: building the package, profile {profile}");
    let features = ["-p", "narrows-cli", "--no-default-features", "--features", "package"];
    let built = Command::new("cargo").args(["build", "-q", "--profile", profile]).args(features).status();
    ensure!(built.context("cargo")?.success(), "the program was not built");
    let made = Command::new("scripts/deb").arg("BUILT").env("PROFILE", profile).output();
    let made = made.context("scripts/deb")?;
    ensure!(made.status.success(), "scripts/deb: {}", String::from_utf8_lossy(&made.stderr).trim());
    Ok(PathBuf::from(String::from_utf8_lossy(&made.stdout).trim()))
}

/// The package, a later version of the same, the pages of the how-to and what plays the network.
fn extra(place: &Path, package: &Path) -> anyhow::Result<Vec<Extra>> {
    let later = later(place, package)?;
    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    let new = |path: &str, content: Vec<u8>| Extra { path: PathBuf::from(path), content };
    let mut all: Vec<Extra> = FILES.iter().map(|(path, text)| new(path, text.as_bytes().to_vec())).collect();
    all.push(new("/root/trial/narrows_1.deb", read(package)?));
    all.push(new("/root/trial/narrows_2.deb", read(&later)?));
    for (folder, page) in PAGES {
        let page = std::fs::read_to_string(page).with_context(|| (*page).to_owned())?;
        for (name, script) in page::scripts(&page) {
            all.push(new(&format!("/root/trial/{folder}/{name}.sh"), script.into_bytes()));
        }
    }
    Ok(all)
}

/// The same package with a later version.
fn later(place: &Path, package: &Path) -> anyhow::Result<PathBuf> {
    let (folder, later) = (place.join("later"), place.join("narrows_later.deb"));
    let _ = std::fs::remove_dir_all(&folder);
    let dpkg = |command: &mut Command| -> anyhow::Result<()> {
        let done = command.output().context("dpkg-deb")?;
        ensure!(done.status.success(), "dpkg-deb: {}", String::from_utf8_lossy(&done.stderr).trim());
        Ok(())
    };
    dpkg(Command::new("dpkg-deb").arg("-R").arg(package).arg(&folder))?;
    let control = folder.join("DEBIAN/control");
    let text = std::fs::read_to_string(&control).with_context(|| control.display().to_string())?;
    let text: Vec<String> = text
        .lines()
        .map(|line| if line.starts_with("Version:") { format!("{line}.later") } else { line.to_owned() })
        .collect();
    std::fs::write(&control, text.join("\n") + "\n")?;
    dpkg(Command::new("dpkg-deb").args(["-Znone", "-b"]).arg(&folder).arg(&later))?;
    Ok(later)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Sections that `hardware.sh` runs, by the names that it composes.
    #[test]
    fn every_section_that_the_trial_runs_is_on_its_page() {
        let mut all = BTreeMap::new();
        for (folder, page) in PAGES {
            let page = std::fs::read_to_string(crate::peers::programs::root().join(page)).unwrap();
            all.extend(
                page::scripts(&page).into_iter().map(|(name, script)| (format!("{folder}/{name}"), script)),
            );
        }
        let mut wanted: Vec<String> =
            ["pi/the-network", "pi/the-box", "pi/in-an-emergency"].map(str::to_owned).into();
        wanted.extend(["hardware/what-a-router-needs", "hardware/access-points"].map(str::to_owned));
        for section in ["two-ports", "one-port-and-a-switch", "behind-a-router"] {
            for part in
                ["with-systemd-networkd", "with-netplan", "with-ifupdown", "the-box", "in-an-emergency"]
            {
                wanted.push(format!("hardware/{section}.{part}"));
            }
        }
        // The trial skips these where the kernel has no PPP.
        for part in ["with-systemd-networkd", "with-ifupdown", "the-box", "in-an-emergency"] {
            wanted.push(format!("hardware/a-modem-for-pppoe.{part}"));
        }
        for name in wanted {
            let script = all.get(&name).unwrap_or_else(|| panic!("no section for {name}"));
            assert!(
                script.contains("systemctl") || script.contains("netplan apply") || name.ends_with("points"),
                "{name}: {script}"
            );
        }
    }
}
