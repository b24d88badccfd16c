//! The Debian of the trial: a folder by debootstrap, made once, and an image of it for each run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use narrows_machine::{Kernel, Root};

/// Packages of a small router, and Python, which the trial needs for downloads.
const PACKAGES: &str = "systemd,systemd-sysv,udev,dbus,iproute2,nftables,iputils-ping,ethtool,kmod,ifupdown,apparmor,\
                        procps,python3-minimal";
/// Room beside the files, for packages and logs.
const ROOM: u64 = 256 << 20;

/// Hours pass on the machine, in which apt would begin to look for news by itself, with dpkg's lock in its hand.
const MASKED: [&str; 3] = ["apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer"];

/// File put into the folder beside Debian's.
pub struct Extra {
    /// Path of the file inside the folder.
    pub path: PathBuf,
    pub content: Vec<u8>,
}

/// Makes the image of a Debian of this suite with the modules of this kernel. `more` are further packages, divided by
/// commas; a Debian with them is a folder of its own.
pub fn make(place: &Path, suite: &str, more: &str, kernel: &Kernel, extra: &[Extra]) -> anyhow::Result<Root> {
    let tree = tree(place, suite, more)?;
    modules(&tree, kernel)?;
    for folder in ["root/trial", "etc/systemd/network", "etc/network/interfaces.d", "etc/netplan"] {
        let _ = std::fs::remove_dir_all(tree.join(folder));
        std::fs::create_dir_all(tree.join(folder)).with_context(|| folder.to_owned())?;
    }
    for Extra { path, content } in extra {
        let at = tree.join(path.strip_prefix("/").unwrap_or(path));
        std::fs::create_dir_all(at.parent().context("a file at the root")?)?;
        std::fs::write(&at, content).with_context(|| at.display().to_string())?;
    }
    for name in MASKED {
        let at = tree.join("etc/systemd/system").join(name);
        let _ = std::fs::remove_file(&at);
        std::os::unix::fs::symlink("/dev/null", at).with_context(|| name.to_owned())?;
    }
    // As `systemctl enable` does.
    let wants = tree.join("etc/systemd/system/multi-user.target.wants");
    for Extra { path, .. } in extra.iter().filter(|one| one.path.starts_with("/etc/systemd/system")) {
        let name = path.file_name().context("a unit without a name")?;
        let _ = std::fs::remove_file(wants.join(name));
        std::os::unix::fs::symlink(path, wants.join(name)).with_context(|| path.display().to_string())?;
    }
    Root::make(&tree, &place.join(format!("{suite}.ext4")), ROOM)
}

fn tree(place: &Path, suite: &str, more: &str) -> anyhow::Result<PathBuf> {
    let packages = if more.is_empty() { PACKAGES.to_owned() } else { format!("{PACKAGES},{more}") };
    let name = if more.is_empty() { suite.to_owned() } else { format!("{suite}-more") };
    let (tree, made) = (place.join(format!("{name}.tree")), place.join(format!("{name}.packages")));
    if std::fs::read_to_string(&made).is_ok_and(|made| made == packages) {
        return Ok(tree);
    }
    println!("systemd: debootstrap --variant=minbase {suite}, once");
    std::fs::create_dir_all(place)?;
    let _ = std::fs::remove_dir_all(&tree);
    let log = place.join("debootstrap.log");
    let out = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={packages}"), suite]).arg(&tree);
    command.args(mirror(suite));
    let status = command.stdout(out.try_clone()?).stderr(out).status().context("debootstrap")?;
    ensure!(status.success(), "debootstrap failed: see {}", log.display());
    for folder in ["var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"]
    {
        std::fs::remove_dir_all(tree.join(folder)).with_context(|| folder.to_owned())?;
        std::fs::create_dir_all(tree.join(folder)).with_context(|| folder.to_owned())?;
    }
    std::fs::write(tree.join("etc/hostname"), "box\n")?;
    std::fs::write(tree.join("etc/hosts"), "127.0.0.1 localhost box\n")?;
    // No identity is asked for at the first start.
    std::fs::write(tree.join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n")?;
    std::fs::write(made, packages)?;
    Ok(tree)
}

/// Address from which this machine gets packages of a suite; `None` if apt has none.
fn mirror(suite: &str) -> Option<String> {
    let said = Command::new("apt-get")
        .args(["indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let lines = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let all: Vec<_> = lines.filter(|words| words.len() == 3 && words[1] == "main").collect();
    // Every suite of Debian is where one of them is.
    let is_debian = |words: &&Vec<&str>| ["bookworm", "trixie", "forky", "sid"].contains(&words[0]);
    let best = all.iter().find(|words| words[0] == suite).or_else(|| all.iter().find(is_debian));
    best.map(|words| words[2].to_owned())
}

fn modules(tree: &Path, kernel: &Kernel) -> anyhow::Result<()> {
    let home = tree.join("usr/lib/modules");
    if home.join(kernel.version()).join("modules.dep").is_file() {
        return Ok(());
    }
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home)?;
    let done = Command::new("cp").arg("-r").arg(kernel.modules()).arg(&home).output().context("cp")?;
    if !done.status.success() {
        bail!("cp: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}
