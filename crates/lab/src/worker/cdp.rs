//! Chromium told what to do by its DevTools protocol, over a pair of pipes: one JSON object after another, each ended
//! by a zero byte (`--remote-debugging-pipe`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// File of the standard error of a browser whose profile is in `dir`.
pub(super) fn log(dir: &Path) -> PathBuf {
    dir.join("log")
}

/// A browser that runs; ended when dropped.
pub(super) struct Cdp {
    child: Child,
    tell: Option<ChildStdin>,
    said: mpsc::UnboundedReceiver<Value>,
    last: u64,
}

impl Cdp {
    /// Starts `program` with a profile in `dir`.
    pub(super) fn start(program: &str, dir: &Path, flags: &[String]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        // The pipes are descriptors 3 and 4; a shell moves them there.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", program])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--no-first-run", "--disable-extensions", "--disable-sync", "--disable-dev-shm-usage"])
            .args(["--disable-background-networking", "--disable-component-update", "--mute-audio"])
            .arg(format!("--user-data-dir={}", dir.display()))
            .args(flags)
            .env("HOME", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log(dir))?)
            .spawn()
            .context("the browser")?;
        let tell = child.stdin.take();
        let out = child.stdout.take().context("a browser without a pipe")?;
        let (hand_on, said) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for piece in BufReader::new(out).split(0).map_while(Result::ok) {
                let Ok(word) = serde_json::from_slice(&piece) else { continue };
                if hand_on.send(word).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, tell, said, last: 0 })
    }

    /// Next event or answer of the browser.
    pub(super) async fn next(&mut self) -> anyhow::Result<Value> {
        self.said.recv().await.context("the browser ended")
    }

    /// Asks, and gives the number of the question.
    pub(super) fn ask(&mut self, session: Option<&str>, method: &str, params: &Value) -> anyhow::Result<u64> {
        self.last += 1;
        let mut word = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = session {
            word["sessionId"] = session.into();
        }
        let tell = self.tell.as_mut().context("the browser ended")?;
        tell.write_all(format!("{word}\0").as_bytes()).and_then(|()| tell.flush()).context("the browser")?;
        Ok(self.last)
    }

    /// Asks and waits for the answer; what else is said meanwhile is dropped.
    pub(super) async fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> anyhow::Result<Value> {
        let id = self.ask(session, method, &params)?;
        loop {
            let mut word = self.next().await?;
            if word["id"] == id {
                if !word["error"].is_null() {
                    bail!("{method}: {}", word["error"]);
                }
                return Ok(word["result"].take());
            }
        }
    }
}

impl Drop for Cdp {
    fn drop(&mut self) {
        // Without its pipe it ends by itself, and takes its parts along.
        self.tell = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
