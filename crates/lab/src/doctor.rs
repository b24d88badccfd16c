//! Examination of a machine: which features of the lab work on it. Each feature is tried, where possible, in a network
//! namespace that vanishes after the trial.

use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};

use crate::browser;
use crate::peers::host_has;

/// Asks everything: each question, and what was found or what is wrong and the remedy.
#[must_use]
pub fn examine() -> Vec<(&'static str, Result<String, String>)> {
    vec![
        ("network namespaces", namespaces()),
        ("ip and tc", programs(&["ip", "tc"], "iproute2")),
        ("kernel queues to compare with", kernel_queues()),
        ("virtual machines for those this kernel lacks", machines()),
        ("a browser that loads pages", browser::program().map(str::to_owned)),
        ("congestion controls", congestion_controls()),
        ("fonts for pictures", fonts()),
        ("kernel types (BTF)", btf()),
    ]
}

fn namespaces() -> Result<String, String> {
    let trial = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|e| {
            format!("a network namespace cannot be made ({e}): run as root, on a kernel with CONFIG_NET_NS")
        })
    });
    trial.join().unwrap_or_else(|_| Err("the trial failed".to_owned())).map(|()| "can be made".to_owned())
}

fn programs(names: &[&str], package: &str) -> Result<String, String> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&paths).any(|d| d.join(name).is_file());
    match names.iter().find(|n| !is_there(n)) {
        None => Ok(names.join(" and ")),
        Some(name) => Err(format!("{name} is missing: apt-get install {package}")),
    }
}

fn kernel_queues() -> Result<String, String> {
    let kinds = ["cake", "fq_codel", "sfq"];
    let (here, not): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|k| host_has(k));
    if not.is_empty() {
        Ok(here.join(", "))
    } else {
        Err(format!("this kernel lacks {}: narrows lab --machine 6.12 has them", not.join(", ")))
    }
}

fn machines() -> Result<String, String> {
    narrows_machine::obstacle().map_or_else(|| Ok("qemu is here".to_owned()), Err)
}

fn congestion_controls() -> Result<String, String> {
    let text =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if text.split_whitespace().any(|c| c == "cubic") {
        Ok(text.trim().to_owned())
    } else {
        Err(format!("cubic is missing (there is: {}): modprobe tcp_cubic", text.trim()))
    }
}

fn fonts() -> Result<String, String> {
    let home = std::env::var_os("HOME").map(|h| Path::new(&h).join(".local/share/fonts"));
    let places = ["/usr/share/fonts".into(), "/usr/local/share/fonts".into()].into_iter().chain(home);
    let mut folders: Vec<PathBuf> = places.collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "ttf" || e == "otf") {
                return Ok(path.display().to_string());
            }
        }
    }
    Err("none: pictures have no letters; apt-get install fonts-dejavu-core".to_owned())
}

fn btf() -> Result<String, String> {
    let path = "/sys/kernel/btf/vmlinux";
    if Path::new(path).exists() {
        Ok(path.to_owned())
    } else {
        Err("the kernel was built without CONFIG_DEBUG_INFO_BTF: kernel senders cannot be loaded".to_owned())
    }
}
