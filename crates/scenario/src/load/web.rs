//! Keys of `[[traffic]]` for real stacks: HTTP, pages and browsers; and for users who come and go.

use narrows_units::Duration;
use toml::Value;

use crate::read::Reader;
use crate::web::PAGE;
use crate::{Error, Http, Size, Traffic, TrafficKind, Transport, Visits, Web};

/// Most users who come in a run.
const MOST_VISITS: f64 = 1e6;
/// Most objects of a page.
const MOST_OBJECTS: usize = 1_000;
/// Browsers take some 200 MB each.
const MOST_BROWSERS: u32 = 50;

/// Reads the web keys of an entry, and the visits of users who come and go.
pub(super) fn web(r: &Reader<'_>, kind: &str) -> Result<Web, Error> {
    let mut web = Web { browser: kind == "browser", ..Web::default() };
    if matches!(kind, "objects" | "pages") {
        let arrivals = r.number("arrivals", "users per second, a number above 0", |x| x > 0.0)?;
        let fetches = r.count("visit", 1, 1_000)?;
        web.visits = match (arrivals, fetches) {
            (Some(arrivals), fetches) => Some(Visits { arrivals, fetches: fetches.unwrap_or(1) }),
            (None, Some(_)) => return Err(r.wrong("visit", "no such key without arrivals: nobody goes")),
            (None, None) => None,
        };
    }
    if matches!(kind, "pages" | "browser") {
        web.http = http(r)?;
        web.page = page(r)?;
    }
    Ok(web)
}

/// Reads a version of HTTP by its word, or from a number that looks like the word.
fn http(r: &Reader<'_>) -> Result<Option<Http>, Error> {
    match r.value("http") {
        Some(value @ (Value::Integer(_) | Value::Float(_))) => {
            let word = value.to_string();
            let known = Http::ALL.into_iter().find(|h| h.word() == word);
            known.map(Some).ok_or_else(|| r.wrong("http", "1.1, 2 or 3"))
        }
        _ => r.word("http", &Http::ALL.map(|h| (h.word(), h))),
    }
}

/// The sizes of a page, as a list.
fn page(r: &Reader<'_>) -> Result<Option<std::sync::Arc<[u64]>>, Error> {
    let expected = "the sizes of 1 to 1000 objects, the document first, as [20000, 8000, 8000]";
    match r.size("page")? {
        None => Ok(None),
        Some(Size::List(sizes)) if sizes.len() <= MOST_OBJECTS => Ok(Some(sizes)),
        Some(_) => Err(r.wrong("page", expected)),
    }
}

/// A browser's pages: whole, and of known parts.
pub(super) fn browser(r: &Reader<'_>, web: &mut Web) -> Result<TrafficKind, Error> {
    let sizes = web.page.get_or_insert_with(|| PAGE.into()).clone();
    web.http = Some(web.http.unwrap_or(Http::Two));
    Ok(TrafficKind::Pages {
        users: r.or("users", 1, |r, k| r.count(k, 1, MOST_BROWSERS))?,
        connections: 6,
        objects: Size::Fixed(sizes.len() as u64),
        size: Size::List(sizes),
        think: r.or("think", Duration::ZERO, |r, k| r.time(k))?,
    })
}

/// Transport of an entry's data; a version of HTTP decides the transport.
pub(super) fn transport(r: &Reader<'_>, web: &Web) -> Result<Transport, Error> {
    let transports = Transport::ALL.map(|t| (t.word(), t));
    let asked = r.word("transport", &transports)?;
    match (web.http.map(Http::transport), asked) {
        (Some(carries), Some(asked)) if asked != carries => {
            Err(r.wrong("transport", format!("{}, which carries this http, or no such key", carries.word())))
        }
        (carries, asked) => Ok(carries.or(asked).unwrap_or_default()),
    }
}

/// Refuses visits beyond what a result file can hold.
pub(super) fn bounded(r: &Reader<'_>, t: &Traffic) -> Result<(), Error> {
    let Some(visits) = t.web.visits else { return Ok(()) };
    let come = visits.arrivals * t.stop.saturating_sub(t.start).as_secs_f64();
    if come > MOST_VISITS {
        return Err(
            r.wrong("arrivals", format!("at most {MOST_VISITS:e} users in a run: these are {come:e}"))
        );
    }
    Ok(())
}
