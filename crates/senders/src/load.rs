//! Into the kernel and out again.
//!
//! A loaded sender is a name the kernel knows (global, at most 15 characters) and a folder of pins in the BPF file
//! system, `/sys/fs/bpf/narrows/NAME`, by which a later `status` or `unload` finds it. The registration outlives the
//! loader; what makes it follow one is that the loader unloads at its end.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::driver;
use crate::knobs::{Sender, Settings};
use crate::layout::{self, Socket};
use crate::libbpf::{self, Object};
use crate::objects;

/// Where the BPF file system is mounted by custom.
pub const BPFFS: &str = "/sys/fs/bpf";
/// Longest name of a congestion control: the kernel's 16 bytes with a zero.
const NAME_MAX: usize = 15;
/// Placeholder in the object file that the sender's name is written over: `NAME_PLACE` in `bpf/narrows.bpf.h`.
const NAME_PLACE: &[u8] = b"@narrows-name-@\0";
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// A sender in the kernel.
#[derive(Debug)]
pub struct Loaded {
    /// The name the kernel knows it by.
    pub name: String,
    /// Knobs that the sender was loaded with.
    pub settings: Settings,
    /// Whether its driver lives; nothing for a sender that needs none.
    pub driven: Option<bool>,
}

/// Whether senders can be loaded here.
///
/// # Errors
/// The first thing that is missing, with the remedy.
pub fn possible() -> anyhow::Result<String> {
    if let Some(why) = objects::WHY_NOT {
        bail!("{why}");
    }
    ensure!(
        Path::new(BTF).exists(),
        "this kernel does not describe its types ({BTF} is missing): use one built with CONFIG_DEBUG_INFO_BTF, as \
         distributions' kernels are"
    );
    let release = nix::sys::utsname::uname().context("uname")?.release().to_string_lossy().into_owned();
    ensure!(
        new_enough(&release),
        "Linux {release} is too old: congestion controls in BPF may call the kernel's own since 5.13"
    );
    libbpf::available()?;
    ensure!(nix::unistd::Uid::effective().is_root(), "not permitted: run as root (sudo)");
    Ok(format!("Linux {release} with BTF, libbpf"))
}

fn new_enough(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 13)
}

/// The folder of pins under a BPF file system.
pub(crate) fn pins(bpffs: &Path) -> PathBuf {
    bpffs.join("narrows")
}

/// Loads a sender under a name and pins it.
///
/// # Errors
/// Names what is in the way and the remedy: a name in use, no BPF file system, no permission, an old kernel.
pub fn load(bpffs: &Path, name: &str, settings: &Settings) -> anyhow::Result<()> {
    load_object(settings.sender().object(), bpffs, name, settings).map(|_| ())
}

/// Loads this object of a sender under a name, pins it, and gives it.
pub(crate) fn load_object(
    object: &[u8],
    bpffs: &Path,
    name: &str,
    settings: &Settings,
) -> anyhow::Result<Object> {
    possible()?;
    let plausible = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    ensure!(
        !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(plausible),
        "'{name}' cannot be a congestion control's name: expected 1 to {NAME_MAX} letters, digits, _ or ."
    );
    ensure!(
        statfs(bpffs).is_ok_and(|s| s.filesystem_type() == BPF_FS_MAGIC),
        "no BPF file system at {0}: mount -t bpf bpf {0}",
        bpffs.display()
    );
    let mut object = Object::open(&renamed(object, name)?)?;
    object.set_rodata(&settings.bytes())?;
    object.load().map_err(|(e, said)| match e.raw_os_error() {
        // EACCES is the verifier's.
        Some(libc::EPERM) => anyhow::anyhow!(
            "the kernel refuses BPF here ({e}): run as root outside of restricted containers (CAP_BPF, CAP_NET_ADMIN, \
             CAP_PERFMON){said}"
        ),
        _ => anyhow::anyhow!("the kernel does not take {}: {e}{said}", settings.sender().name()),
    })?;
    let ops = object.register("sender")?.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => anyhow::anyhow!(
            "the name {name} is in use: narrows senders unload {name}, or load under another name with --as"
        ),
        _ => anyhow::anyhow!("the kernel does not register {name}: {e}"),
    })?;
    pin_all(&pins(bpffs).join(name), &ops, &object, settings.sender()).inspect_err(|_| {
        let _ = libbpf::unregister(&ops);
    })?;
    Ok(object)
}

fn pin_all(dir: &Path, ops: &OwnedFd, object: &Object, sender: Sender) -> anyhow::Result<()> {
    // The kernel has just taken the name, so pins of that name are of one that is gone.
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    libbpf::pin(ops, &dir.join("ops"))?;
    libbpf::pin(&object.map(".rodata")?, &dir.join("knobs"))?;
    if sender.needs_driver() {
        for map in ["heart", "wanted"] {
            libbpf::pin(&object.map(map)?, &dir.join(map))?;
        }
        libbpf::pin(&object.iterator("kick")?, &dir.join("kick"))?;
    }
    Ok(())
}

/// The object with `name` in the place kept for it.
fn renamed(object: &[u8], name: &str) -> anyhow::Result<Vec<u8>> {
    let mut at =
        object.windows(NAME_PLACE.len()).enumerate().filter(|(_, w)| *w == NAME_PLACE).map(|(i, _)| i);
    let (Some(place), None) = (at.next(), at.next()) else {
        bail!("the compiled object does not keep exactly one place for the name");
    };
    let mut copy = object.to_vec();
    copy[place..place + NAME_PLACE.len()].fill(0);
    copy[place..place + name.len()].copy_from_slice(name.as_bytes());
    Ok(copy)
}

/// The names of all loaded senders, in order.
#[must_use]
pub fn names(bpffs: &Path) -> Vec<String> {
    let entries = fs::read_dir(pins(bpffs)).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Every loaded sender.
///
/// # Errors
/// If a pin cannot be read.
pub fn loaded(bpffs: &Path) -> anyhow::Result<Vec<Loaded>> {
    names(bpffs).into_iter().map(|name| one(bpffs, name)).collect()
}

fn one(bpffs: &Path, name: String) -> anyhow::Result<Loaded> {
    let knobs = libbpf::pinned(&pins(bpffs).join(&name).join("knobs"))?;
    let longest = 4 + 4 * Sender::ALL.map(|s| s.knobs().len()).into_iter().max().unwrap_or(0);
    let settings =
        Settings::from_bytes(&libbpf::only_value(&knobs, longest)?).with_context(|| name.clone())?;
    let heart = || driver::beating(&libbpf::pinned(&pins(bpffs).join(&name).join("heart"))?);
    let driven = settings.sender().needs_driver().then(heart).transpose()?;
    Ok(Loaded { name, settings, driven })
}

/// Takes a sender out of the kernel. Connections that use it go on with it; new ones cannot choose it.
///
/// # Errors
/// If none of that name is loaded, or the kernel refuses.
pub fn unload(bpffs: &Path, name: &str) -> anyhow::Result<()> {
    let dir = pins(bpffs).join(name);
    ensure!(
        dir.is_dir(),
        "{name} is not loaded (no {}): narrows senders status shows what is",
        dir.display()
    );
    libbpf::unregister(&libbpf::pinned(&dir.join("ops"))?)
        .with_context(|| format!("cannot unload {name}"))?;
    fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
    // The last one takes the folder along; not empty means there are others.
    let _ = fs::remove_dir(pins(bpffs));
    Ok(())
}

/// Every connection of this network namespace that one of our senders drives.
///
/// # Errors
/// If the kernel refuses the iterator.
pub fn sockets() -> anyhow::Result<Vec<Socket>> {
    possible()?;
    let mut object = Object::open(objects::SHOW)?;
    object.load().map_err(|(e, said)| {
        anyhow::anyhow!("the kernel does not take the iterator over sockets: {e}{said}")
    })?;
    Ok(layout::sockets(&libbpf::read_iterator(&object.iterator("show")?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_compared_by_number() {
        assert!(new_enough("5.13.0-52-generic") && new_enough("6.1.0") && new_enough("10.0"));
        assert!(!new_enough("5.9.16") && !new_enough("4.19.0") && !new_enough(""));
    }

    #[test]
    fn the_name_has_one_place() {
        let object = [&b"ELF"[..], NAME_PLACE, b"rest"].concat();
        assert_eq!(renamed(&object, "mine").unwrap(), b"ELFmine\0\0\0\0\0\0\0\0\0\0\0\0rest");
        assert!(renamed(b"ELF", "mine").is_err());
        assert!(renamed(&[NAME_PLACE, NAME_PLACE].concat(), "mine").is_err());
    }
}
