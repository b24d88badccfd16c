//! What runs inside User-mode Linux: the modules it needs and the script that is its first process.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::command::fill;
use super::namespace::output;

/// The program of Debian's package `user-mode-linux`.
pub(super) const PROGRAM: &str = "linux.uml";
/// The guest's device towards the users.
pub(super) const LAN: &str = "vec0";
/// The guest's device towards the servers.
pub(super) const WAN: &str = "vec1";
/// The console line that says packets pass.
pub(super) const READY: &str = "NARROWS-READY";
/// The console line that begins with the command that failed.
pub(super) const FAILED: &str = "NARROWS-FAILED";
/// The console line before an answer, followed by the request's number.
pub(super) const BEGIN: &str = "NARROWS-BEGIN";
/// The console line after an answer.
pub(super) const END: &str = "NARROWS-END";

/// The guest kernel's modules, as `modules.dep` lists them.
#[derive(Debug)]
pub(super) struct Modules {
    /// The guest kernel's version.
    pub(super) version: String,
    root: PathBuf,
    dep: String,
}

impl Modules {
    /// Of the installed User-mode Linux.
    pub(super) fn find() -> Result<Self, String> {
        let said = output(Command::new(PROGRAM).arg("--version"), "linux.uml --version");
        let version = said.map_err(|e| format!("{e:#}"))?.trim().to_owned();
        let root = Path::new("/usr/lib/uml/modules").join(&version);
        let file = root.join("modules.dep");
        let dep = std::fs::read_to_string(&file)
            .map_err(|e| format!("{}: {e}; reinstall the package user-mode-linux", file.display()))?;
        Ok(Self { version, root, dep })
    }

    /// Whether the guest's kernel has discipline `kind`, as a module or (the FIFOs) built in.
    pub(super) fn has(&self, kind: &str) -> bool {
        matches!(kind, "pfifo" | "bfifo") || self.line(&format!("sch_{kind}")).is_some()
    }

    fn line(&self, module: &str) -> Option<(&str, &str)> {
        let file = format!("/{module}.ko:");
        let line = self.dep.lines().find(|line| line.contains(&file))?;
        line.split_once(':')
    }

    /// The files to load for the bridge and for every word of the commands that names a discipline, classifier or
    /// action, in an order in which each finds what it needs.
    pub(super) fn files_for(&self, commands: &[String]) -> Vec<PathBuf> {
        let mut wanted = vec!["bridge".to_owned()];
        for word in commands.iter().flat_map(|line| line.split_whitespace()) {
            wanted.extend(["sch_", "cls_", "act_"].map(|kind| format!("{kind}{word}")));
        }
        let mut seen = HashSet::new();
        let mut files = Vec::new();
        for (file, needs) in wanted.iter().filter_map(|module| self.line(module)) {
            // depmod lists the nearest need first: load from the end.
            for part in needs.split_whitespace().rev().chain([file]) {
                if seen.insert(part) {
                    files.push(self.root.join(part));
                }
            }
        }
        files
    }
}

/// The guest's first process. It joins the two devices with a bridge, installs the queue, says [`READY`] and then
/// answers requests on the console until it is told to switch off.
pub(super) fn script(modules: &[PathBuf], commands: &[String]) -> String {
    let mut lines = vec![HEAD.to_owned()];
    lines.extend(modules.iter().map(|file| format!("try load {}", file.display())));
    lines.push(BRIDGE.replace("LAN", LAN).replace("WAN", WAN));
    lines.extend(commands.iter().map(|line| format!("try {}", fill(line, LAN, WAN))));
    lines.push(
        SERVE
            .replace("READY", READY)
            .replace("BEGIN", BEGIN)
            .replace("END", END)
            .replace("LAN", LAN)
            .replace("WAN", WAN),
    );
    lines.join("\n").replace("FAILED", FAILED)
}

/// The first process of a guest that is only tried.
pub(super) const TRIAL: &str = "#!/bin/sh
/bin/mount -t proc proc /proc
echo READY
echo o >/proc/sysrq-trigger
exec sleep 5
";

/// `perl-base` is on every Debian and can make the system call (313 is finit_module on x86-64) where kmod is missing.
const HEAD: &str = r#"#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
stty -echo -onlcr
off() { echo o >/proc/sysrq-trigger; sleep 5; exit 1; }
try() { "$@" || { echo "FAILED: $*"; off; }; }
load() {
  if command -v insmod >/dev/null; then insmod "$1"; return; fi
  perl -e 'open F, "<", $ARGV[0] or die "$!\n"; my $none = ""; syscall(313, fileno(F), $none, 0) == 0 or die "$!\n"' \
      "$1"
}"#;

/// Without IPv6 addresses the guest says nothing of its own on the wire. Without offloads the queue sees the packets
/// the link would carry.
const BRIDGE: &str = r"for f in all default; do echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done
try ip link add br0 type bridge forward_delay 0 mcast_snooping 0
for d in LAN WAN; do
  try ethtool -K $d gro off gso off tso off
  try ip link set $d master br0
  try ip link set $d up
done
try ip link set br0 up";

/// Kernel messages stay off the console from here on: they would fall into an answer.
const SERVE: &str = r#"echo 1 >/proc/sys/kernel/printk
echo READY
while read -r what number; do
  case $what in
  qdisc) echo "BEGIN $number"; tc -s -j qdisc show dev LAN; echo; echo END ;;
  links) echo "BEGIN $number"; ip -s -j link show; echo; echo END ;;
  *) break ;;
  esac
done
off
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn modules() -> Modules {
        let dep = "kernel/net/bridge/bridge.ko: kernel/net/802/stp.ko kernel/net/llc/llc.ko\n\
            kernel/net/802/stp.ko: kernel/net/llc/llc.ko\nkernel/net/sched/sch_fq.ko:\n\
            kernel/net/sched/sch_fq_codel.ko:\nkernel/net/sched/sch_htb.ko:\n";
        Modules { version: "6.1.0".into(), root: "/m/6.1.0".into(), dep: dep.into() }
    }

    #[test]
    fn needs_come_before_what_needs_them() {
        let commands = ["tc qdisc replace dev {lan} root htb".to_owned(), "tc qdisc add fq_codel".to_owned()];
        let names: Vec<String> = modules()
            .files_for(&commands)
            .iter()
            .map(|f| f.file_name().unwrap_or_default().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["llc.ko", "stp.ko", "bridge.ko", "sch_htb.ko", "sch_fq_codel.ko"]);
        assert!(modules().has("fq") && modules().has("pfifo") && !modules().has("cake"));
    }

    #[test]
    fn the_script_names_the_guests_devices() {
        let text = script(&["/m/a.ko".into()], &["tc qdisc replace dev {lan} root cake".to_owned()]);
        assert!(text.starts_with("#!/bin/sh\n"));
        for line in ["try load /m/a.ko", "try tc qdisc replace dev vec0 root cake", "echo NARROWS-READY"] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.contains("echo \"NARROWS-FAILED: $*\""), "{text}");
    }
}
