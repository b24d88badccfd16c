//! `narrows explore` from outside: what is served, to whom, and what a browser makes of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use narrows_testing::{Scratch, running, skip_part};

/// The page, served until dropped.
struct Served {
    child: Child,
    /// Address and port.
    at: String,
}

impl Served {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(["explore", "--port", "0", "--no-browser"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let at =
            line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
        Self { child, at }
    }

    fn stream(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Answer to a request, head and body.
    fn ask(&self, request: &str) -> String {
        let mut answer = String::new();
        self.stream(request).read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str, host: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    }

    /// The request for a question.
    fn question(&self, body: &str, kind: &str) -> String {
        format!(
            "POST /ask HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n\
             {body}",
            self.at,
            body.len()
        )
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_is_served_to_this_machine_alone() {
    let served = Served::start();
    assert!(served.at.starts_with("127.0.0.1:"), "{}", served.at);
    let page = served.get("/", &served.at);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("Explore a thin link"), "{page}");
    assert!(page.to_ascii_lowercase().contains("content-security-policy: default-src 'none'"), "{page}");
    for (path, kind) in [
        ("/explore.js", "text/javascript"),
        ("/parts.js", "text/javascript"),
        ("/parts.css", "text/css"),
        ("/explore.css", "text/css"),
    ] {
        let answer = served.get(path, &served.at);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(kind), "{path}: {answer}");
    }
    assert!(served.get("/../Cargo.toml", &served.at).starts_with("HTTP/1.1 404"));
    // A name that was made to lead here, and a form of another page.
    assert!(served.get("/", "elsewhere.example").starts_with("HTTP/1.1 403"));
    assert!(served.ask(&served.question("{\"ask\":\"about\"}", "text/plain")).starts_with("HTTP/1.1 415"));
    let about = served.ask(&served.question("{\"ask\":\"about\"}", "application/json"));
    assert!(about.starts_with("HTTP/1.1 200") && about.contains("\"presets\""), "{about}");
}

/// A run nobody waits for any more is ended: behind many long ones that were dropped a short one is answered, while a
/// long one that somebody waits for is still under way.
#[test]
fn runs_of_readers_who_left_do_not_pile_up() {
    let served = Served::start();
    let ask = |settings: &str| {
        let body = format!("{{\"ask\":\"side\",\"settings\":{settings},\"side\":\"a\",\"user\":null}}");
        served.question(&body, "application/json")
    };
    let long = ask("{\"seconds\":1200,\"rate_kbps\":8000}");
    let waited_for = served.stream(&long);
    // Three times as many as run at a time; the server has 64 places.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for _ in 0..(3 * cores).clamp(12, 48) {
        drop(served.stream(&long));
    }
    let short = served.ask(&ask("{\"seconds\":5,\"users\":2}"));
    assert!(short.contains("\"summary\""), "{short}");
    waited_for.set_nonblocking(true).unwrap();
    let early = waited_for.peek(&mut [0]).unwrap_err();
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock, "the short run was behind the long ones");
}

/// Runs a script of the folder beside this file.
fn node(script: &str, words: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/explore").join(script);
    let out = Command::new("node").arg(script).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
}

fn there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// A browser, and node to drive it; without them it is told what is skipped.
fn browser(part: &str) -> Option<&'static str> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| there(name));
    let missing = match (browser, there("node")) {
        (None, _) => "no Chromium; apt-get install chromium",
        (_, false) => "no node to drive Chromium; apt-get install nodejs",
        (Some(_), true) => return browser,
    };
    skip_part(&running(), part, missing);
    None
}

#[test]
fn a_browser_draws_what_the_engine_says() {
    let Some(browser) = browser("opening the page") else { return };
    let served = Served::start();
    node("page.mjs", &[browser, &format!("http://{}/", served.at)]);
}

/// The simulator as WebAssembly gives the same text as the native one, and the page of files is drawn alike.
#[test]
fn the_page_as_files_is_the_same() {
    let Some(root) = narrows_testing::repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let script = root.join("scripts/explore");
    let has = Command::new(&script).arg("--has").output().unwrap();
    if !has.status.success() {
        let why =
            "no Rust for WebAssembly; rustup target add wasm32-unknown-unknown, or scripts/explore --root";
        return skip_part(&running(), "the page as files", why);
    }
    let Some(browser) = browser("the page as files") else { return };
    let place = Scratch::new("explore-files");
    // The profile that is fast to build gives the same digits.
    let made = Command::new(&script).arg(&*place).env("PROFILE", "quick").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let served = Served::start();
    let module = place.join("narrows.wasm").display().to_string();
    node("same.mjs", &[&module, &format!("http://{}/", served.at)]);
    node("page.mjs", &[browser, &place.display().to_string()]);
}
