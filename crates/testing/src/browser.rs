//! Pages in a real browser, where one is installed.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{running, skip_part};

/// Result of opening a page in a browser.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The document after its scripts ran.
    pub dom: String,
    /// The browser's log with the console's messages.
    pub log: String,
}

/// Whether a reader prefers light paper or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Light paper.
    Light,
    /// Dark paper.
    Dark,
}

/// Opens a page in Chromium with a profile of its own; `None`, and told as skipped, where there is none.
#[must_use]
pub fn open(page: &Path, profile: &Path, scheme: Scheme) -> Option<Shown> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    let Some(browser) = browser else {
        let page = page.file_name().unwrap_or_default().to_string_lossy();
        skip_part(&running(), &format!("opening {page}"), "no Chromium; apt-get install chromium");
        return None;
    };
    let scheme = match scheme {
        Scheme::Dark => "--blink-settings=preferredColorScheme=0",
        Scheme::Light => "--blink-settings=preferredColorScheme=1",
    };
    let flags =
        ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"];
    let output = Command::new(browser)
        .args(flags)
        .args([scheme, "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Shown { dom: text(&output.stdout), log: text(&output.stderr) })
}

/// Shows a page in a frame `width` pixels wide and gives the value of an expression of its script, as JSON. A window
/// itself cannot be as narrow as a telephone. Writes files into `folder`.
#[must_use]
pub fn ask(html: &str, folder: &Path, width: u32, scheme: Scheme, expression: &str) -> Option<String> {
    let asking = format!("<script>parent.postMessage(JSON.stringify({expression}), '*')</script></body>");
    let around = format!(
        "<!DOCTYPE html><body><script>addEventListener('message', (said) => \
         document.body.dataset.said = encodeURIComponent(said.data))</script>\
         <iframe src=\"framed.html\" width=\"{width}\" height=\"800\" style=\"border: 0\"></iframe></body>"
    );
    let page = folder.join("frame.html");
    std::fs::write(folder.join("framed.html"), html.replace("</body>", &asking)).ok()?;
    std::fs::write(&page, around).ok()?;
    let shown = open(&page, &folder.join("browser"), scheme)?;
    let said = shown.dom.split("data-said=\"").nth(1).and_then(|rest| rest.split('"').next());
    Some(decoded(said.unwrap_or_default()))
}

/// Text of `encodeURIComponent`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let hex = more.get(..2).and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
        match hex {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        assert_eq!(decoded("%7B%22a%22%3A1%7D"), "{\"a\":1}");
        assert_eq!(decoded("%E2%89%A5 5 %"), "≥ 5 %");
    }
}
