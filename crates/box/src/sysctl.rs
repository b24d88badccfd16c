//! Kernel settings a box changes: bridged packets must pass the packet filter to be queued.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::rules;

/// Kernel setting, and the value before the box changed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctl {
    /// File that shows the setting.
    pub path: PathBuf,
    /// The value before.
    pub before: String,
    /// The value a box needs.
    pub needed: String,
}

const BRIDGE: &str = "/proc/sys/net/bridge";
/// Settings that show bridged packets to the packet filter at all.
const CALLS: [&str; 2] = ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"];

/// Changes needed for packets of a bridge to be queued, not made yet. `inherited` are changes that other living
/// boxes have made: they are shared, and undone by the last.
///
/// # Errors
/// If this kernel cannot show bridged packets to its packet filter, with the remedy.
pub fn for_bridge(inherited: &[Sysctl], ipv6: bool) -> anyhow::Result<Vec<Sysctl>> {
    let mut changes = Vec::new();
    for name in &CALLS[..if ipv6 { 2 } else { 1 }] {
        let path = Path::new(BRIDGE).join(name);
        let now = fs::read_to_string(&path).with_context(|| {
            format!(
                "both interfaces are ports of one bridge, and its packets do not pass the packet filter here ({} is \
                 missing): load the module (modprobe br_netfilter), or use --backend packet without a bridge",
                path.display()
            )
        })?;
        if let Some(shared) = inherited.iter().find(|s| s.path == path) {
            changes.push(shared.clone());
        } else if now.trim() != "1" {
            changes.push(Sysctl { path, before: now.trim().to_owned(), needed: "1".to_owned() });
        }
    }
    changes.extend(TAGGED.iter().filter_map(|name| tagged(name, inherited)));
    Ok(changes)
}

/// Reason why packets of a bridge had better not be shown to the packet filter: it would drop them, and those of
/// every other bridge here. `None` also where they are shown already.
#[must_use]
pub fn would_cut(ipv6: bool) -> Option<String> {
    let changes = for_bridge(&[], ipv6).ok()?;
    if !changes.iter().any(|change| CALLS.iter().any(|name| change.path.ends_with(name))) {
        return None;
    }
    let dropping = rules::dropping();
    (!dropping.is_empty()).then(|| {
        format!(
            "to queue a bridge's packets by iptables, those of all bridges here must pass the packet filter \
             (bridge-nf-call-iptables = 1), and {} drops what no rule accepts, as Docker sets it: bridges would be \
             cut. Use rules = \"nft\" (modprobe nft_queue); or accept bridged packets (iptables -I FORWARD -m physdev \
             --physdev-is-bridged -j ACCEPT, and ip6tables) and then set \
             net.bridge.bridge-nf-call-iptables and -ip6tables to 1",
            dropping.join(" and ")
        )
    })
}

/// Settings that show packets inside VLAN tags and PPPoE sessions too. Off by default.
const TAGGED: [&str; 2] = ["bridge-nf-filter-vlan-tagged", "bridge-nf-filter-pppoe-tagged"];

/// Change that switches a bridge setting on; `None` if the kernel lacks the setting or has it on already.
fn tagged(name: &str, inherited: &[Sysctl]) -> Option<Sysctl> {
    let path = Path::new(BRIDGE).join(name);
    let before = fs::read_to_string(&path).ok()?.trim().to_owned();
    match inherited.iter().find(|s| s.path == path) {
        Some(shared) => Some(shared.clone()),
        None => (before != "1").then(|| Sysctl { path, before, needed: "1".to_owned() }),
    }
}

/// Whether this is a change that [`for_bridge`] makes: one of these files, and a switch that was off.
#[must_use]
pub fn is_ours(sysctl: &Sysctl) -> bool {
    let mut known = CALLS.iter().chain(&TAGGED).map(|name| Path::new(BRIDGE).join(name));
    known.any(|path| path == sysctl.path)
        && ["0", "1"].contains(&sysctl.before.as_str())
        && sysctl.needed == "1"
}

/// Makes a change.
///
/// # Errors
/// If the kernel refuses.
pub fn apply(sysctl: &Sysctl) -> anyhow::Result<()> {
    fs::write(&sysctl.path, &sysctl.needed)
        .with_context(|| format!("cannot write {} to {}", sysctl.needed, sysctl.path.display()))
}

/// Undoes a change, unless somebody has changed the setting since. Returns whether it did.
///
/// # Errors
/// If the kernel refuses.
pub fn restore(sysctl: &Sysctl) -> anyhow::Result<bool> {
    let now = fs::read_to_string(&sysctl.path).unwrap_or_default();
    if now.trim() != sysctl.needed {
        return Ok(false);
    }
    fs::write(&sysctl.path, &sysctl.before)
        .with_context(|| format!("cannot write {} to {}", sysctl.before, sysctl.path.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_somebody_else_changed_is_left_alone() {
        let path = std::env::temp_dir().join(format!("narrows-sysctl-{}", std::process::id()));
        let sysctl = Sysctl { path: path.clone(), before: "0".into(), needed: "1".into() };
        apply(&sysctl).unwrap();
        assert!(restore(&sysctl).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "0");
        assert!(!restore(&sysctl).unwrap());
        fs::remove_file(path).unwrap();
    }
}
