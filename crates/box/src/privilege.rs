//! Privileges of the box: asked for before anything is touched, given up when they are no longer needed.

use std::fs::Metadata;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread::JoinHandle;

use anyhow::{Context, bail, ensure};
use caps::{CapSet, Capability, CapsHashSet};
use narrows_netio::{identity, priority};
use nix::fcntl::{AtFlags, OFlag, open};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Gid, Uid, User, fchownat};
use serde::{Deserialize, Serialize};

/// User that a box becomes where there is such a user and no other is named: packages make it.
pub const USER: &str = "narrows";

/// A user who is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    user: u32,
    group: u32,
}

impl Identity {
    /// The user called so, or by default [`USER`] if there is one. `None` if this process is to stay who it is.
    ///
    /// # Errors
    /// If nobody is called so.
    pub fn find(name: Option<&str>) -> anyhow::Result<Option<Self>> {
        let of = |user: User| Self { user: user.uid.as_raw(), group: user.gid.as_raw() };
        let found = User::from_name(name.unwrap_or(USER)).ok().flatten().map(of);
        match name {
            _ if !Uid::effective().is_root() => Ok(None),
            Some(name) if found.is_none() => {
                bail!("user = \"{name}\": no such user: make one (useradd --system {name}), or leave it out")
            }
            _ => Ok(found.filter(|identity| identity.user != 0)),
        }
    }

    /// Reason why this process may not become another user, if so: a container or a service manager has taken that
    /// away.
    pub fn obstacle() -> Option<String> {
        let needed = [Capability::CAP_SETUID, Capability::CAP_SETGID, Capability::CAP_CHOWN];
        let lacks = |c: &Capability| !caps::has_cap(None, CapSet::Effective, *c).unwrap_or(false);
        needed.into_iter().find(lacks).map(|c| format!("{c} is missing; user = \"root\" says so"))
    }

    /// Makes this user the owner of `file`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn owns(self, file: impl AsFd) -> anyhow::Result<()> {
        let owner = (Some(Uid::from_raw(self.user)), Some(Gid::from_raw(self.group)));
        fchownat(file, "", owner.0, owner.1, AtFlags::AT_EMPTY_PATH)
            .with_context(|| format!("cannot give a file to user {}", self.user))
    }

    /// Gives this socket to the user, which this process has just made in a folder that may be the user's. A file that
    /// the user puts in the socket's place keeps its owner.
    ///
    /// # Errors
    /// If it is another file, or the kernel refuses.
    pub fn owns_socket(self, path: &Path) -> anyhow::Result<()> {
        let made = open_path(path, OFlag::empty())?;
        let what = fstat(&made)?;
        let is_ours = SFlag::from_bits_truncate(what.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK
            && what.st_uid == Uid::effective().as_raw()
            && what.st_nlink == 1;
        ensure!(is_ours, "somebody has put something else in the place of {}", path.display());
        self.owns(made)
    }

    /// Makes a folder, if it is not there, for the user, or for root. One that is there becomes theirs only if it is
    /// ours by name.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn folder(this: Option<Self>, path: &Path) -> anyhow::Result<()> {
        let ours = !path.exists() || path == Path::new(crate::RUN_DIR);
        std::fs::create_dir_all(path)?;
        if ours && Uid::effective().is_root() && Self::obstacle().is_none() {
            // A link in its place is not followed: who owns the folder above may have put it there.
            let folder = open_path(path, OFlag::O_DIRECTORY)?;
            // Without its privileges root may not write into the folders of others.
            this.unwrap_or(Self { user: 0, group: 0 }).owns(folder)?;
        }
        Ok(())
    }

    /// Whether a file of this owner in this folder can be believed to be a box's: root's, this process's, that of the
    /// folder's owner, or of whom boxes become by default; and in a folder where root alone makes files, anybody's to
    /// whom root has given it.
    #[must_use]
    pub fn may_own(owner: u32, folder: &Path) -> bool {
        let folder = std::fs::metadata(folder).ok();
        let is_roots = |folder: &Metadata| folder.uid() == 0 && folder.mode() & 0o022 == 0;
        owner == 0
            || owner == Uid::effective().as_raw()
            || folder.is_some_and(|folder| folder.uid() == owner || is_roots(&folder))
            || User::from_name(USER).ok().flatten().is_some_and(|user| user.uid.as_raw() == owner)
    }

    /// This thread belongs to the user from now on.
    fn take(self) -> anyhow::Result<()> {
        identity::become_user(self.user, self.group).with_context(|| {
            format!("cannot become user {} (CAP_SETUID, CAP_SETGID): user = \"root\" says so", self.user)
        })
    }
}

/// Opens a file of any kind to look at it and to give it away; follows no link.
fn open_path(path: &Path, kind: OFlag) -> anyhow::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | kind;
    open(path, flags, Mode::empty()).with_context(|| format!("cannot open {}", path.display()))
}

/// Packets and rules: CAP_NET_ADMIN for queues, rules and interface settings, CAP_NET_RAW for packet sockets and
/// because `iptables`, where it keeps the rules, opens a raw socket to speak to the kernel.
const NEEDED: [(Capability, &str); 2] = [
    (Capability::CAP_NET_ADMIN, "queues, packet filter rules and interface settings"),
    (
        Capability::CAP_NET_RAW,
        "packet sockets, and the raw socket through which iptables speaks to the kernel",
    ),
];

/// Checks that we may do what a box does.
///
/// # Errors
/// Names the capability that is missing and the remedy.
pub fn check() -> anyhow::Result<()> {
    for (capability, why) in NEEDED {
        if !caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false) {
            bail!(
                "no permission: {capability} is missing, needed for {why}. Run as root (sudo narrows run ...)"
            );
        }
    }
    Ok(())
}

/// Gives up all other capabilities, in this thread and whatever it starts from now on; becomes this user, and asks for
/// a filter of system calls. Returns what of these two was not to be had.
///
/// # Errors
/// If the kernel refuses to take capabilities.
pub fn keep_only_needed(user: Option<Identity>) -> anyhow::Result<Vec<String>> {
    let keep: CapsHashSet = NEEDED.iter().map(|n| n.0).collect();
    // Without CAP_SETPCAP the bounding set stays as it is; a child that is not root gains nothing from it.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).unwrap_or(false) {
        for capability in caps::all().difference(&keep) {
            // One this kernel does not know is not there to be given up.
            let _ = caps::drop(None, CapSet::Bounding, *capability);
        }
    }
    let taken = user.map_or(Ok(()), Identity::take);
    // Inheritable and ambient, so that iptables can still take the rules out where we are not root.
    caps::set(None, CapSet::Inheritable, &keep).context("cannot set inheritable capabilities")?;
    // Effective first: it may never hold more than permitted.
    caps::set(None, CapSet::Effective, &keep).context("cannot give up capabilities (effective)")?;
    caps::set(None, CapSet::Permitted, &keep).context("cannot give up capabilities (permitted)")?;
    if !nix::unistd::Uid::effective().is_root() {
        for capability in &keep {
            caps::raise(None, CapSet::Ambient, *capability).context("cannot set ambient capabilities")?;
        }
    }
    let refused = [taken, confine()].into_iter().filter_map(Result::err);
    Ok(refused.map(|error| format!("{error:#}")).collect())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
use crate::confine::{to_a_box as confine, to_talking};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn confine() -> anyhow::Result<()> {
    bail!("no filter of system calls is written for this processor")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn to_talking() -> anyhow::Result<()> {
    Ok(())
}

/// Gives up every capability of this thread: it talks to people only. The process becomes this user, and asks for
/// little of the kernel from now on.
pub fn give_up_all(user: Option<Identity>) {
    // Whoever is not root can no longer do this. What is refused was not to be had, or can do no harm alone.
    let _ = caps::clear(None, CapSet::Bounding);
    let _ = user.map_or(Ok(()), Identity::take);
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        let _ = caps::clear(None, set);
    }
    let _ = to_talking();
}

/// Starts a thread that hears no signal, gives up every capability and becomes this user ([`give_up_all`]).
///
/// # Errors
/// If the kernel has no thread left.
pub fn talker(
    name: &str,
    user: Option<Identity>,
    run: impl FnOnce() + Send + 'static,
) -> anyhow::Result<JoinHandle<()>> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).context("cannot block signals")?;
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        give_up_all(user);
        run();
    });
    before.thread_set_mask().context("cannot unblock signals")?;
    thread.context("cannot start a thread")
}

/// Asks for the CPU a little before others (nice -10), where we may: on a machine that has other work a timer is
/// otherwise late by that work's time slice, some milliseconds. At load 3 on two cores 10 Mbit/s fell 0.3 % short
/// without.
pub fn prefer() {
    // Where it is refused we do without.
    let _ = priority::set_nice(-10);
}

/// Puts this thread before ordinary programs (SCHED_FIFO, priority 10), but not the threads and programs it starts.
///
/// # Errors
/// If the kernel refuses: CAP_SYS_NICE is missing.
pub fn realtime() -> anyhow::Result<()> {
    priority::realtime(10, true).context(
        "cannot run in real time (SCHED_FIFO): CAP_SYS_NICE is missing; leave --realtime out, or run as root",
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn whose_files_in_a_folder_are_a_boxs() {
        if !Uid::effective().is_root() {
            narrows_testing::skip(&narrows_testing::running(), "needs root");
            return;
        }
        let folder = narrows_testing::Scratch::new("whose");
        let (user, other) = (Identity { user: 65_533, group: 65_533 }, 65_532);
        for (owner, mode, of_user, of_other) in [
            (user, 0o755, true, false),
            (user, 0o777, true, false),
            (Identity { user: 0, group: 0 }, 0o755, true, true),
            (Identity { user: 0, group: 0 }, 0o1777, false, false),
        ] {
            std::fs::set_permissions(&*folder, std::fs::Permissions::from_mode(mode)).unwrap();
            owner.owns(open_path(&folder, OFlag::O_DIRECTORY).unwrap()).unwrap();
            let may = |owner| Identity::may_own(owner, &folder);
            assert_eq!((may(0), may(user.user), may(other)), (true, of_user, of_other), "{owner:?} {mode:o}");
        }
    }
}
