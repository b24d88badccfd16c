//! A real browser that loads a page again and again, each time as a new visitor: a context of its own without cache,
//! cookies, connections or sessions of the one before. Times are the browser's own (Navigation and Resource Timing).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use narrows_scenario::Http;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cdp::Cdp;
use super::content::page_path;
use super::load::{Life, RETRY, Run, object_end, pause};
use super::record::{ConnectRecord, PageRecord, PartRecord};
use super::secure::HOST;
use super::web::WEB_PORT;

/// The server's address for one browser. A browser cannot be told from which address to speak, but a route can: so each
/// knows the server by another.
#[must_use]
pub fn server_address(browser: u32) -> Ipv4Addr {
    let [.., high, low] = (browser + 1).to_be_bytes();
    Ipv4Addr::new(10, 79, high, low)
}

/// Browser of one user, and the pages that the browser loads.
pub(super) struct Browser {
    pub(super) user: u32,
    /// Number among all browsers.
    pub(super) number: u32,
    pub(super) http: Http,
    pub(super) page: Vec<u64>,
    /// Mean pause between pages.
    pub(super) think: f64,
}

/// Times that the page reports, in milliseconds since the navigation began.
#[derive(Debug, Deserialize)]
struct Timing {
    protocol: String,
    connect: [f64; 2],
    first_byte: f64,
    loaded: f64,
    /// Start, end and size of the document and of the document's objects.
    parts: Vec<(f64, f64, f64)>,
}

/// Script that reads the page's times after the load event, when the event's end is known.
const TIMING: &str = "new Promise(done => setTimeout(() => {
    const n = performance.getEntriesByType('navigation')[0];
    const part = e => [e.startTime, e.responseEnd, e.encodedBodySize];
    // A browser may ask for its icon, which no page has.
    const ours = e => !e.name.endsWith('/favicon.ico');
    done(JSON.stringify({ protocol: n.nextHopProtocol, connect: [n.connectStart, n.connectEnd],
        first_byte: n.responseStart, loaded: n.loadEventEnd,
        parts: [n, ...performance.getEntriesByType('resource').filter(ours)].map(part) }));
}, 0))";

/// A browser's pages, one after another.
pub(super) async fn browse(run: Arc<Run>, browser: Browser, mut rng: fastrand::Rng) -> Life {
    let mut life = Life { user: browser.user, ..Life::default() };
    pause(&run, rng.f64() * run.spec.jitter).await;
    let mut cdp = None;
    while !run.over() {
        let mut page = PageRecord { user: browser.user, visitor: browser.user, ..PageRecord::default() };
        let whole =
            tokio::time::timeout_at(run.end, load(&run, &browser, &mut cdp, &mut life, &mut page)).await;
        page.end = object_end(&run);
        if page.begun {
            run.patience.end(browser.user, page.end);
        }
        match whole {
            Ok(Ok(timing)) => {
                timing.tell(&mut page);
                run.objects.fetch_add(page.parts.len() as u64, Ordering::Relaxed);
            }
            Ok(Err(_)) => {
                // A browser in an unknown state is of no use; the next page gets a new one.
                cdp = None;
                page.broken = true;
                if !page.begun {
                    page.start = page.end;
                    page.begun = true;
                }
                pause(&run, RETRY.as_secs_f64()).await;
            }
            Err(_) => {}
        }
        if page.begun {
            life.pages.push(page);
        }
        if browser.think > 0.0 {
            pause(&run, -browser.think * (1.0 - rng.f64()).ln()).await;
        }
    }
    life
}

/// Loads the page once, in a browser that is started if there is none.
async fn load(
    run: &Run,
    browser: &Browser,
    cdp: &mut Option<Cdp>,
    life: &mut Life,
    page: &mut PageRecord,
) -> anyhow::Result<Timing> {
    let cdp = match cdp {
        Some(cdp) => cdp,
        None => cdp.insert(browser.start(run)?),
    };
    let context = cdp.call(None, "Target.createBrowserContext", json!({})).await?["browserContextId"].take();
    let target = json!({ "url": "about:blank", "browserContextId": context });
    let target = cdp.call(None, "Target.createTarget", target).await?["targetId"].take();
    let attach = json!({ "targetId": target, "flatten": true });
    let session = cdp.call(None, "Target.attachToTarget", attach).await?;
    let session = session["sessionId"].as_str().context("a session")?;
    for method in ["Page.enable", "Network.enable"] {
        cdp.call(Some(session), method, json!({})).await?;
    }
    let url = format!("https://{HOST}:{WEB_PORT}{}", page_path(&browser.page));
    page.start = run.now();
    page.begun = true;
    page.parts =
        browser.page.iter().map(|n| PartRecord { size: *n as u32, ..PartRecord::default() }).collect();
    page.connects = vec![ConnectRecord { start: page.start, ..ConnectRecord::default() }];
    run.patience.begin(browser.user, page.start);
    let navigation = cdp.ask(Some(session), "Page.navigate", &json!({ "url": url }))?;
    loop {
        let word = cdp.next().await?;
        match word["method"].as_str() {
            Some("Network.dataReceived") => came(run, browser, life, page, &word["params"]),
            Some("Network.loadingFailed") => bail!("{}", word["params"]["errorText"]),
            Some("Page.loadEventFired") => break,
            _ if word["id"] == navigation && word["result"]["errorText"].is_string() => {
                bail!("{}", word["result"]["errorText"])
            }
            _ => {}
        }
    }
    let ask = json!({ "expression": TIMING, "awaitPromise": true, "returnByValue": true });
    let said = cdp.call(Some(session), "Runtime.evaluate", ask).await?;
    let said = said["result"]["value"].as_str().context("the page's timings")?;
    let timing = serde_json::from_str(said).with_context(|| said.to_owned())?;
    cdp.call(None, "Target.disposeBrowserContext", json!({ "browserContextId": context })).await?;
    Ok(timing)
}

/// A piece of a body.
fn came(run: &Run, browser: &Browser, life: &mut Life, page: &mut PageRecord, params: &Value) {
    let (now, n) = (run.now(), params["dataLength"].as_u64().unwrap_or(0));
    run.patience.arrival(browser.user, now);
    life.receive(run, now, n as usize);
    page.first_byte.get_or_insert(now);
    page.connects[0].connected.get_or_insert(now);
    page.connects[0].got += n;
}

impl Timing {
    /// The browser's own times instead of ours.
    fn tell(&self, page: &mut PageRecord) {
        let at = |ms: f64| page.start + ms / 1e3;
        page.done = Some(at(self.loaded));
        page.first_byte = Some(at(self.first_byte));
        page.connects[0].connected = Some(at(self.connect[1]));
        page.connects[0].start = at(self.connect[0]);
        let part = |&(from, to, size): &(f64, f64, f64)| PartRecord {
            size: size as u32,
            start: Some(at(from)),
            done: Some(at(to)),
            ..PartRecord::default()
        };
        page.parts = self.parts.iter().map(part).collect();
        page.protocol = Some(self.protocol.clone());
    }
}

impl Browser {
    fn start(&self, run: &Run) -> anyhow::Result<Cdp> {
        let spec = run.spec.browser.as_ref().context("no browser")?;
        let key = base64::engine::general_purpose::STANDARD.encode(&spec.spki_sha256);
        let mut flags = vec![
            format!("--ignore-certificate-errors-spki-list={key}"),
            format!("--host-resolver-rules=MAP {HOST} {},MAP * ~NOTFOUND", server_address(self.number)),
        ];
        flags.extend(match self.http {
            Http::One => vec!["--disable-quic".to_owned(), "--disable-http2".to_owned()],
            Http::Two => vec!["--disable-quic".to_owned()],
            Http::Three => vec![format!("--origin-to-force-quic-on={HOST}:{WEB_PORT}")],
        });
        Cdp::start(&spec.program, &spec.dir.join(format!("browser-{}", self.number)), &flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_s_times_stand() {
        let said = r#"{ "protocol": "h2", "connect": [5, 205], "first_byte": 310, "loaded": 4000,
            "parts": [[0, 400, 20000], [401, 3900, 8000]] }"#;
        let timing: Timing = serde_json::from_str(said).unwrap();
        let mut page =
            PageRecord { start: 10.0, connects: vec![ConnectRecord::default()], ..Default::default() };
        timing.tell(&mut page);
        assert_eq!((page.done, page.first_byte), (Some(14.0), Some(10.31)));
        assert_eq!((page.connects[0].start, page.connects[0].connected), (10.005, Some(10.205)));
        assert_eq!((page.size(), page.parts[1].done), (28_000, Some(13.9)));
        assert_eq!(page.protocol.as_deref(), Some("h2"));
    }
}
