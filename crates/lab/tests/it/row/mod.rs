//! Servers - between - users: three namespaces in a row, and threads that live in them. What stands between is the
//! test's.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use narrows_lab::peers::PeerSpec;

static ROWS: AtomicU32 = AtomicU32::new(0);

/// Namespaces of this test alone, gone when dropped.
pub struct Row {
    prefix: String,
}

impl Row {
    /// Users have `net`.1 and `net`.3, servers `net`.2; `between` has `lan` and `wan`, which are down.
    pub fn make(tag: &str, net: &str) -> Self {
        let prefix = format!("{tag}{}x{}", std::process::id(), ROWS.fetch_add(1, Ordering::Relaxed));
        let row = Self { prefix };
        let [users, between, servers] = row.names();
        for name in [&users, &between, &servers] {
            ip(&format!("netns add {name}"));
        }
        for (end, device, mac, hosts) in [(&users, "lan", 1, &[1, 3][..]), (&servers, "wan", 2, &[2])] {
            let address = format!("02:00:00:4e:51:{mac:02x}");
            ip(&format!(
                "link add {device} netns {between} type veth peer name eth0 address {address} netns {end}"
            ));
            for host in hosts {
                ip(&format!("-n {end} addr add {net}.{host}/24 dev eth0"));
            }
            // The queue between is to see frames as a link of 1500 bytes carries them, not trains of 64 kB.
            for (namespace, name) in [(end, "eth0"), (&between, device)] {
                ip(&format!("netns exec {namespace} ethtool -K {name} tx off tso off gso off gro off"));
            }
            ip(&format!("-n {end} link set eth0 up"));
            ip(&format!("-n {end} link set lo up"));
        }
        // A request for an address that is lost before the bridge forwards is repeated after a second; what waited for
        // its answer would then reach the queue as one train.
        for (end, far, hosts) in [(&users, 2, &[2][..]), (&servers, 1, &[1, 3])] {
            for host in hosts {
                ip(&format!(
                    "-n {end} neigh add {net}.{host} lladdr 02:00:00:4e:51:{far:02x} dev eth0 nud permanent"
                ));
            }
        }
        row
    }

    /// Users, between, servers.
    pub fn names(&self) -> [String; 3] {
        ["u", "b", "s"].map(|part| format!("{}{part}", self.prefix))
    }

    /// A peer that stands between, with the queue that `tc` makes.
    pub fn spec(&self, tc: Vec<String>) -> PeerSpec {
        let [_, netns, _] = self.names();
        PeerSpec { netns, lan: "lan".into(), wan: "wan".into(), tc }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

fn ip(line: &str) {
    let done = Command::new("ip").args(line.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "ip {line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs `work` on a thread that lives in a namespace.
pub fn within<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let file = File::open(format!("/run/netns/{name}")).unwrap();
    std::thread::spawn(move || {
        nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        work()
    })
}
