//! Memory that is taken from a box and from nobody else: a control group of its own.

use std::fs;
use std::path::{Path, PathBuf};

/// A page or two: all that the box wants beyond what it has, it does not get.
const LIMIT: &str = "65536";

/// Processes that get no more memory while this lives.
pub struct Pressure {
    group: PathBuf,
    /// Their group before, by its file of processes.
    before: PathBuf,
    processes: Vec<u32>,
    /// Whether control groups are of version 2, which slows processes down; version 1 lets them wait.
    unified: bool,
}

impl Pressure {
    /// Puts processes into a group of their own; `None` where control groups cannot be made here, or know no
    /// memory.
    pub fn on(processes: &[u32]) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", processes.first()?)).ok()?;
        let path_of = |controller: &str| {
            let mut lines = groups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
            lines.find(|part| part[1] == controller).map(|part| part[2].trim_start_matches('/').to_owned())
        };
        let root = Path::new("/sys/fs/cgroup");
        let (root, own, unified) = match path_of("memory") {
            Some(own) => (root.join("memory"), own, false),
            None => (root.to_owned(), path_of("")?, true),
        };
        let group = root.join(format!("narrows-soak-{}", processes[0]));
        fs::create_dir(&group).ok()?;
        let before = root.join(own).join("cgroup.procs");
        let pressure = Self { group, before, processes: processes.to_vec(), unified };
        // Nobody is killed for want of memory; a limit that is not taken is none.
        let limits: &[_] = if unified {
            &[("memory.high", LIMIT)]
        } else {
            &[("memory.oom_control", "1"), ("memory.limit_in_bytes", LIMIT)]
        };
        limits.iter().try_for_each(|(file, value)| fs::write(pressure.group.join(file), value)).ok()?;
        let into = pressure.group.join("cgroup.procs");
        processes.iter().try_for_each(|pid| fs::write(&into, pid.to_string())).ok()?;
        Some(pressure)
    }
}

impl Drop for Pressure {
    fn drop(&mut self) {
        let (file, most) =
            if self.unified { ("memory.high", "max") } else { ("memory.limit_in_bytes", "-1") };
        let _ = fs::write(self.group.join(file), most);
        for pid in &self.processes {
            let _ = fs::write(&self.before, pid.to_string());
        }
        // The group is busy for as long as the kernel moves its processes.
        for _ in 0..100 {
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
