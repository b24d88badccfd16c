//! Processes of boxes: one that is heard, and one of which nobody hears. Both are ended at the end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use narrows_box::{self as live, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::live_box::world::PATIENCE;

/// A running box.
pub struct BoxProcess {
    pub child: Child,
    pub control: PathBuf,
    pub log: PathBuf,
}

impl BoxProcess {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its watchdog.
    pub fn children(&self) -> Vec<u32> {
        let listed = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap();
        listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    pub fn control(&self) -> &Path {
        &self.control
    }

    pub fn status(&self) -> Status {
        live::fetch(&self.control).unwrap()
    }

    /// Its thread of this name.
    pub fn thread(&self, name: &str) -> Pid {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
        let mut named = tasks
            .filter(|t| std::fs::read_to_string(t.path().join("comm")).is_ok_and(|comm| comm.trim() == name));
        Pid::from_raw(named.next().unwrap().file_name().into_string().unwrap().parse().unwrap())
    }

    /// Log of the box, without the line that says it runs.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }

    /// Waits until `what` holds of its status.
    pub fn wait_for(&self, why: &str, what: impl Fn(&Status) -> bool) -> Status {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if what(&status) {
                return status;
            }
            assert!(Instant::now() < until, "{why}: {status:#?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it has ended by itself.
    pub fn ended(mut self) {
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{:?}", std::fs::read_to_string(&self.log));
    }

    /// Waits until it has ended by itself with an error; returns its exit status.
    pub fn failed(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }

    /// Stops it as an operator does.
    pub fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{:?}", std::fs::read_to_string(&self.log));
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A process of which nobody hears, killed at the end.
pub struct Unheard(Child);

impl Unheard {
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }

    /// As an operator ends it.
    pub fn end(mut self) {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for BoxProcess {
    fn drop(&mut self) {
        // Harmless where it has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
