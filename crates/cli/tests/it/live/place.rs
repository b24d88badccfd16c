//! A network namespace of a test's own.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use narrows_testing::Scratch;

pub fn ip(args: &str) -> bool {
    Command::new("ip").args(args.split_whitespace()).output().is_ok_and(|out| out.status.success())
}

/// A network namespace with `lan0`, `wan0` and a default route by `wan0`.
pub struct Place {
    pub name: String,
    dir: Scratch,
}

impl Place {
    pub fn try_new(test: &str) -> Option<Self> {
        let place = Self {
            name: format!("nrs{}{test}", std::process::id()),
            dir: Scratch::new(&format!("setup-{test}")),
        };
        let ns = &place.name;
        if !nix::unistd::Uid::effective().is_root() || !ip(&format!("netns add {ns}")) {
            narrows_testing::skip(
                &narrows_testing::running(),
                "needs root, network namespaces and the program ip",
            );
            return None;
        }
        for (name, address) in [("lan0", "10.1.0.1/24"), ("wan0", "10.2.0.1/24")] {
            assert!(ip(&format!("-n {ns} link add {name} type veth peer name {name}x")));
            assert!(ip(&format!("-n {ns} addr add {address} dev {name}")));
            assert!(
                ip(&format!("-n {ns} link set {name} up")) && ip(&format!("-n {ns} link set {name}x up"))
            );
        }
        assert!(ip(&format!("-n {ns} link set lo up")));
        assert!(ip(&format!("-n {ns} route add default via 10.2.0.2")));
        Some(place)
    }

    pub fn file(&self) -> PathBuf {
        self.dir.join("link.toml")
    }

    /// `narrows ARGS`, setup with the file of this place.
    pub fn narrows(&self, args: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(env!("CARGO_BIN_EXE_narrows"));
        command.args(args.split_whitespace());
        if args.starts_with("setup") {
            command.arg("--output").arg(self.file());
        }
        command
    }

    pub fn setup(&self, args: &str) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } =
            self.narrows(&format!("setup {args}")).stdin(Stdio::null()).output().unwrap();
        (status.code(), [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat())
    }

    pub fn settings(&self) -> Option<String> {
        let text = fs::read_to_string(self.file()).ok()?;
        Some(text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.name));
    }
}
