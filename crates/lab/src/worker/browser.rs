//! A real browser that loads a page again and again, each time as a new visitor: a context of its own without cache,
//! cookies, connections or sessions of the one before. Times are the browser's own (Navigation and Resource Timing).

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use narrows_scenario::Http;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::cdp::{Cdp, log};
use super::content::page_path;
use super::load::{BrowserSpec, ClientSpec, Life, RETRY, Run, object_end, pause};
use super::record::{ConnectRecord, PageRecord, PartRecord};
use super::secure::HOST;
use super::user::rng;
use super::web::WEB_PORT;
use crate::scenario::Traffic;

/// The server's address for one browser. A browser cannot be told from which address to speak, but a route can: so each
/// knows the server by another.
#[must_use]
pub fn server_address(browser: u32) -> Ipv4Addr {
    let [.., high, low] = (browser + 1).to_be_bytes();
    Ipv4Addr::new(10, 79, high, low)
}

/// Browser of one user, and the pages that the browser loads.
struct Browser {
    of: BrowserSpec,
    user: u32,
    /// Number among all browsers.
    number: u32,
    http: Http,
    page: Vec<u64>,
    /// Mean pause between pages.
    think: f64,
}

/// Tab of a browser that runs, in a context of its own.
struct Tab {
    cdp: Cdp,
    context: Value,
    session: String,
}

/// Browsers that wait with an empty tab for the load to begin. A browser's start takes seconds of processor time, which
/// no user of the link waits for.
pub(super) struct Browsers(Vec<(Browser, Tab)>);

impl Browsers {
    /// Starts a browser for each user who has one, and waits until each has a tab.
    ///
    /// # Errors
    /// If a browser opens no tab; says what it wrote last.
    pub(super) async fn start(spec: &ClientSpec) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for (users, traffic) in Traffic::groups(&spec.traffic) {
            let Traffic::Browser { page, think, http, .. } = traffic else { continue };
            for user in users {
                let (of, page) = (spec.browser.clone().context("no browser")?, page.clone());
                let number = all.len() as u32;
                all.push(Browser { of, user, number, http: *http, page, think: think.secs() });
            }
        }
        // All start at once, and each is then asked for a tab.
        let started: Vec<_> = all.iter().map(Browser::start).collect::<Result<_, _>>()?;
        let mut ready = Vec::new();
        for (browser, cdp) in all.into_iter().zip(started) {
            let tab = Tab::open(cdp).await.with_context(|| browser.last_words())?;
            ready.push((browser, tab));
        }
        Ok(Self(ready))
    }

    /// Has each browser load its page until the load ends.
    pub(super) fn browse(self, run: &Arc<Run>, lives: &mut JoinSet<Vec<Life>>) {
        for (browser, tab) in self.0 {
            let rng = rng(run.spec.seed, browser.user, 0);
            let life = browse(run.clone(), browser, tab, rng);
            lives.spawn(async { vec![life.await] });
        }
    }
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
async fn browse(run: Arc<Run>, browser: Browser, tab: Tab, mut rng: fastrand::Rng) -> Life {
    let mut life = Life { user: browser.user, ..Life::default() };
    pause(&run, rng.f64() * run.spec.jitter).await;
    let mut tab = Some(tab);
    while !run.over() {
        let mut page = PageRecord { user: browser.user, visitor: browser.user, ..PageRecord::default() };
        let whole =
            tokio::time::timeout_at(run.end, load(&run, &browser, &mut tab, &mut life, &mut page)).await;
        page.end = object_end(&run);
        if page.begun {
            run.patience.end(browser.user, page.end);
        }
        match whole {
            Ok(Ok(timing)) => {
                timing.tell(&mut page);
                run.objects.fetch_add(page.parts.len() as u64, Ordering::Relaxed);
                if let Some(last) = tab.take() {
                    tab = tokio::time::timeout_at(run.end, last.renew()).await.ok().and_then(Result::ok);
                }
            }
            Ok(Err(_)) => {
                // A browser in an unknown state is of no use; the next page gets a new one.
                tab = None;
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
    tab: &mut Option<Tab>,
    life: &mut Life,
    page: &mut PageRecord,
) -> anyhow::Result<Timing> {
    let tab = match tab {
        Some(tab) => tab,
        None => tab.insert(Tab::open(browser.start()?).await?),
    };
    let url = format!("https://{HOST}:{WEB_PORT}{}", page_path(&browser.page));
    page.start = run.now();
    page.begun = true;
    page.parts =
        browser.page.iter().map(|n| PartRecord { size: *n as u32, ..PartRecord::default() }).collect();
    page.connects = vec![ConnectRecord { start: page.start, ..ConnectRecord::default() }];
    run.patience.begin(browser.user, page.start);
    let navigation = tab.cdp.ask(Some(&tab.session), "Page.navigate", &json!({ "url": url }))?;
    loop {
        let word = tab.cdp.next().await?;
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
    let said = tab.cdp.call(Some(&tab.session), "Runtime.evaluate", ask).await?;
    let said = said["result"]["value"].as_str().context("the page's timings")?;
    serde_json::from_str(said).with_context(|| said.to_owned())
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

impl Tab {
    async fn open(mut cdp: Cdp) -> anyhow::Result<Self> {
        let context =
            cdp.call(None, "Target.createBrowserContext", json!({})).await?["browserContextId"].take();
        let target = json!({ "url": "about:blank", "browserContextId": context });
        let target = cdp.call(None, "Target.createTarget", target).await?["targetId"].take();
        let attach = json!({ "targetId": target, "flatten": true });
        let session = cdp.call(None, "Target.attachToTarget", attach).await?;
        let session = session["sessionId"].as_str().context("a session")?.to_owned();
        for method in ["Page.enable", "Network.enable"] {
            cdp.call(Some(&session), method, json!({})).await?;
        }
        Ok(Self { cdp, context, session })
    }

    /// Opens a tab for a new visitor, who has nothing of the last one's.
    async fn renew(mut self) -> anyhow::Result<Self> {
        self.cdp
            .call(None, "Target.disposeBrowserContext", json!({ "browserContextId": self.context }))
            .await?;
        Self::open(self.cdp).await
    }
}

impl Browser {
    fn start(&self) -> anyhow::Result<Cdp> {
        let key = base64::engine::general_purpose::STANDARD.encode(&self.of.spki_sha256);
        let mut flags = vec![
            format!("--ignore-certificate-errors-spki-list={key}"),
            format!("--host-resolver-rules=MAP {HOST} {},MAP * ~NOTFOUND", server_address(self.number)),
        ];
        flags.extend(match self.http {
            Http::One => vec!["--disable-quic".to_owned(), "--disable-http2".to_owned()],
            Http::Two => vec!["--disable-quic".to_owned()],
            Http::Three => vec![format!("--origin-to-force-quic-on={HOST}:{WEB_PORT}")],
        });
        Cdp::start(&self.of.program, &self.folder(), &flags)
    }

    fn folder(&self) -> PathBuf {
        self.of.dir.join(format!("browser-{}", self.number))
    }

    /// The last line that the program wrote, of one that opened no tab.
    fn last_words(&self) -> String {
        let written = std::fs::read_to_string(log(&self.folder())).unwrap_or_default();
        let words = written.lines().last().unwrap_or("it wrote nothing");
        format!("{} opened no tab: {words}", self.of.program)
    }
}

#[cfg(test)]
mod tests {
    use narrows_testing::Scratch;

    use super::*;
    use crate::scenario::Scenario;

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

    #[tokio::test]
    async fn a_browser_that_does_not_start_is_named_with_its_last_words() {
        let dir = Scratch::new("test-no-browser");
        let file = "name='t'\nrate='1mbit'\ndiscipline='taq'\ntraffic=[{kind='browser',users=1}]";
        // `ls` knows none of a browser's options, and says so.
        let program = "ls".to_owned();
        let browser = BrowserSpec { program, dir: dir.to_path_buf(), spki_sha256: vec![0; 32] };
        let spec = ClientSpec {
            traffic: Scenario::parse(file, &[]).unwrap().traffic,
            browser: Some(browser),
            ..ClientSpec::of_nobody()
        };
        let error = format!("{:#}", Browsers::start(&spec).await.err().unwrap());
        assert!(error.starts_with("ls opened no tab: ") && !error.contains("wrote nothing"), "{error}");
    }
}
