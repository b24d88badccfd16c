//! Access logs: squid's native format, the Common Log Format and those that extend it, or three columns with commas.
//!
//! A line's form is that of the log's first line. Times become those of the requests, in order:
//!
//! - squid (`time elapsed client code/status bytes method URL ...`) writes a line when the reply is done, with the
//!   milliseconds it took: the request came that much earlier;
//! - the Common Log Format (`host ident user [day/Mon/year:h:m:s zone] "request" status bytes`) has whole seconds;
//!   requests of the same second come at that second, in the log's order;
//! - columns (`time,client,bytes`, time in seconds, a line of names before them if you like) are what they say.
//!
//! Left out are replies without a byte, lines that begin with `#`, and squid's ICP queries (`UDP_..`), which no client
//! made.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use narrows_units::{Duration, days_since_1970};

use crate::LogEntry;

/// Most requests of a log: 24 bytes each in memory.
const MOST: usize = 20_000_000;

/// Fault in a log: the line, the field, the text found and the text expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// The first line is 1; 0 where the whole log is meant.
    pub line: usize,
    /// Name of the field.
    pub field: &'static str,
    /// Text of the field, cut short.
    pub found: String,
    /// Description of a valid field.
    pub expected: &'static str,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, {} '{}': ", self.line, self.field, self.found)?;
        }
        write!(f, "expected {}", self.expected)
    }
}
impl std::error::Error for LogError {}

/// Format of a log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Squid,
    Common,
    Columns,
}

/// A line that counts.
struct LogLine<'a> {
    /// Time of the request in nanoseconds, from an arbitrary origin.
    at: i128,
    client: &'a str,
    bytes: u64,
}

/// A field's name, the field's text, and a description of a valid text.
type Wrong<'a> = (&'static str, &'a str, &'static str);

/// The requests of `text` by time, clients numbered in order of appearance.
///
/// # Errors
/// If a line is not as the first one's form has it, or if there is no request or too many.
pub fn parse(text: &str) -> Result<Vec<LogEntry>, LogError> {
    let whole = |expected| LogError { line: 0, field: "log", found: String::new(), expected };
    let mut form = None;
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let first = form.is_none();
        let of_line = *form.get_or_insert_with(|| form_of(text));
        match of_line.read(text) {
            Ok(line) => lines.extend(line.filter(|l| l.bytes > 0)),
            // Names of columns.
            Err(_)
                if first && of_line == Form::Columns && !text.starts_with(|c: char| c.is_ascii_digit()) => {}
            Err((field, found, expected)) => {
                let found = found.chars().take(40).collect();
                return Err(LogError { line: number, field, found, expected });
            }
        }
        if lines.len() > MOST {
            return Err(whole("at most 20 million requests"));
        }
    }
    lines.sort_by_key(|line| line.at);
    let begin = lines.first().ok_or_else(|| whole("at least one request with a reply"))?.at;
    let mut clients = BTreeMap::new();
    let entry = |line: &LogLine<'_>| {
        let next = clients.len() as u32;
        // Logs are shorter than the 584 years of a duration; a clock that jumped further makes no order worse.
        let at = Duration::from_nanos(u64::try_from(line.at - begin).unwrap_or(u64::MAX));
        LogEntry { at, client: *clients.entry(line.client.to_owned()).or_insert(next), bytes: line.bytes }
    };
    Ok(lines.iter().map(entry).collect())
}

/// Format of a log, recognised by the log's first line.
fn form_of(line: &str) -> Form {
    if line.split_whitespace().next().is_some_and(|word| nanos(word).is_some()) {
        Form::Squid
    } else if line.contains('[') {
        Form::Common
    } else if line.contains(',') {
        Form::Columns
    } else {
        Form::Squid
    }
}

impl Form {
    /// A line's request; `None` for one that is none.
    fn read(self, line: &str) -> Result<Option<LogLine<'_>>, Wrong<'_>> {
        match self {
            Self::Squid => squid(line),
            Self::Common => common(line).map(Some),
            Self::Columns => columns(line).map(Some),
        }
    }
}

const SECONDS: &str = "seconds, as 1066036250.603";
const BYTES: &str = "a number of bytes";

fn squid(line: &str) -> Result<Option<LogLine<'_>>, Wrong<'_>> {
    let mut fields = line.split_whitespace();
    let mut next = || fields.next().unwrap_or_default();
    let (time, elapsed, client, code, bytes) = (next(), next(), next(), next(), next());
    let done = nanos(time).ok_or(("time", time, SECONDS))?;
    // Squid writes -1 and the like where a clock was set meanwhile.
    let took = elapsed.parse::<i64>().map_err(|_| ("elapsed", elapsed, "milliseconds"))?.max(0);
    let client = named(client)?;
    if !code.contains('/') {
        return Err(("code", code, "a code and a status, as TCP_MISS/200"));
    }
    let bytes = count(bytes)?;
    if code.starts_with("UDP_") {
        return Ok(None);
    }
    Ok(Some(LogLine { at: done - i128::from(took) * 1_000_000, client, bytes }))
}

fn common(line: &str) -> Result<LogLine<'_>, Wrong<'_>> {
    let client = named(line.split_whitespace().next().unwrap_or_default())?;
    let date = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let (date, rest) = date.ok_or(("date", line, "a date in brackets"))?;
    let at = epoch(date).ok_or(("date", date, "a date as 10/Oct/2000:13:55:36 -0700"))?;
    let mut fields = after_request(rest).ok_or(("request", rest, "a request in quotes"))?.split_whitespace();
    let status = fields.next().unwrap_or_default();
    if status.parse::<u16>().is_err() {
        return Err(("status", status, "a status, as 200"));
    }
    let bytes = fields.next().unwrap_or_default();
    // A reply without a body.
    let bytes = if bytes == "-" { 0 } else { count(bytes)? };
    Ok(LogLine { at: i128::from(at) * 1_000_000_000, client, bytes })
}

fn columns(line: &str) -> Result<LogLine<'_>, Wrong<'_>> {
    let mut fields = line.split(',').map(str::trim);
    let mut next = || fields.next().unwrap_or_default();
    let (time, client, bytes) = (next(), next(), next());
    let at = nanos(time).ok_or(("time", time, "seconds"))?;
    Ok(LogLine { at, client: named(client)?, bytes: count(bytes)? })
}

fn named(client: &str) -> Result<&str, Wrong<'_>> {
    if client.is_empty() { Err(("client", client, "an address or a name")) } else { Ok(client) }
}

fn count(bytes: &str) -> Result<u64, Wrong<'_>> {
    // Larger than any reply is an error of whoever wrote the log.
    bytes.parse().ok().filter(|b| *b < 1 << 50).ok_or(("bytes", bytes, BYTES))
}

/// Returns the text after a quoted string, in which a backslash escapes the next character.
fn after_request(text: &str) -> Option<&str> {
    let quoted = text.trim_start().strip_prefix('"')?;
    let mut escaped = false;
    let end = quoted.find(|c| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    })?;
    quoted.get(end + 1..)
}

/// Seconds with up to nine decimals, as nanoseconds.
fn nanos(text: &str) -> Option<i128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || whole.len() > 12 {
        return None;
    }
    let nanos = format!("{part:0<9}");
    Some(whole.parse::<i128>().ok()? * 1_000_000_000 + nanos.get(..9)?.parse::<i128>().ok()?)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Seconds since 1970 of `10/Oct/2000:13:55:36 -0700`.
fn epoch(date: &str) -> Option<i64> {
    fn within<T: FromStr + PartialOrd>(text: &str, low: T, high: T) -> Option<T> {
        text.parse().ok().filter(|n| (low..=high).contains(n))
    }
    let (clock, zone) = date.trim().split_once(' ')?;
    let mut parts = clock.splitn(4, ['/', ':']);
    let day = within(parts.next()?, 1, 31)?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|m| m.eq_ignore_ascii_case(name))?;
    let year = within(parts.next()?, 1970, 9999)?;
    let mut of_day = parts.next()?.split(':');
    let mut next = |high| within(of_day.next()?, 0, high);
    // 60 is a leap second.
    let (hour, minute, second): (i64, i64, i64) = (next(23)?, next(59)?, next(60)?);
    let (sign, zone) = (if zone.starts_with('-') { -1 } else { 1 }, zone.trim_start_matches(['+', '-']));
    let (hours, minutes) = (within(zone.get(..2)?, 0, 23)?, within::<i64>(zone.get(2..)?, 0, 59)?);
    let local = days_since_1970(year, month + 1, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(local - sign * (hours * 3_600 + minutes * 60))
}

/// Entry of the fuzz target `access_log`: entries of an accepted log are ordered by time, begin at zero, and number
/// their clients.
///
/// # Panics
/// If one of these properties does not hold.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let entries = match parse(&text) {
        Ok(entries) => entries,
        Err(e) => return assert!(e.line <= text.lines().count() && e.to_string().len() < 400, "{e}"),
    };
    assert!(entries.first().is_some_and(|e| e.at == Duration::ZERO && e.client == 0));
    assert!(entries.is_sorted_by_key(|e| e.at) && entries.iter().all(|e| e.bytes > 0));
    let mut known = 0;
    for entry in &entries {
        assert!(entry.client <= known);
        known = known.max(entry.client + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ms: u64, client: u32, bytes: u64) -> LogEntry {
        LogEntry { at: Duration::from_millis(ms), client, bytes }
    }

    #[test]
    fn squid_s_format_by_hand() {
        // Done at 50.603 after 310 ms: asked at 50.293. The second was asked before it, at 50.103; a comma in a URL is
        // no column, and a query of another cache is no client's.
        let log = "1066036250.603    310 192.168.0.68 TCP_MISS/200 3487 GET http://x/a,b - DIRECT/1.2.3.4 text/html\n\
                   1066036251.103   1000 192.168.0.9 TCP_HIT/200 12 GET http://y/ - NONE/- -\n\
                   1066036251.200      0 192.168.0.7 UDP_MISS/000 61 ICP_QUERY http://y/ - NONE/- -\n\
                   1066036251.603     10 192.168.0.8 TCP_HIT/304 0 GET http://y/ - NONE/- -\n\
                   \n# rotated\n\
                   1066036252.603      0 192.168.0.68 TCP_HIT/200 99 GET http://y/ - NONE/- -\n";
        assert_eq!(parse(log).unwrap(), [entry(0, 0, 12), entry(190, 1, 3487), entry(2_500, 1, 99)]);
    }

    #[test]
    fn the_common_format_by_hand() {
        let log = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326
            host.example - - [10/Oct/2000:20:55:35 +0000] "GET /[\"x\"] HTTP/1.1" 200 17 "http://from/" "Mozilla, 4"
            127.0.0.1 - "a b" [10/Oct/2000:20:56:36 +0000] "-" 408 -
            127.0.0.1 - - [11/Oct/2000:02:25:36 +0530] "HEAD / HTTP/1.0" 200 5"#;
        // 13:55:36 seven hours west of Greenwich is 20:55:36 there, and 02:25:36 the next day in India.
        assert_eq!(parse(log).unwrap(), [entry(0, 0, 17), entry(1_000, 1, 2_326), entry(1_000, 1, 5)]);
        // `date -d '2000-10-10 20:55:36 UTC' +%s`, and around a leap day.
        assert_eq!(epoch("10/Oct/2000:13:55:36 -0700"), Some(971_211_336));
        assert_eq!(epoch("29/Feb/2012:00:00:00 +0000"), Some(1_330_473_600));
        assert_eq!(epoch("01/Mar/2012:00:00:00 +0000"), Some(1_330_560_000));
        assert_eq!(epoch("01/Jan/1970:00:00:00 +0000"), Some(0));
        for wrong in
            ["32/Oct/2000:13:55:36 -0700", "10/Okt/2000:13:55:36 -0700", "10/Oct/2000:13:55:36", "", " "]
        {
            assert_eq!(epoch(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn columns_with_and_without_names() {
        for names in ["", "time_s,client,bytes\n"] {
            let log = format!("{names}2.0,a,12\n0.5,b,3487\n0.75,a,0\n");
            assert_eq!(parse(&log).unwrap(), [entry(0, 0, 3487), entry(1_500, 1, 12)]);
        }
    }

    #[test]
    fn errors_name_line_and_field() {
        let squid = "1066036250.603 310 c TCP_MISS/200 3487 GET u - D/1 t\n";
        let common = "h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2326\n";
        for (log, says) in [
            (format!("{squid}x 310 c TCP_MISS/200 3487"), "line 2, time 'x': expected seconds"),
            (format!("{squid}1 long c TCP_MISS/200 3487"), "line 2, elapsed 'long': expected milliseconds"),
            (format!("{squid}1 3 c 200 3487"), "line 2, code '200': expected a code and a status"),
            (format!("{squid}1 3 c TCP_MISS/200 -7"), "line 2, bytes '-7': expected a number of bytes"),
            (format!("{squid}\n1 3 c TCP_MISS/200"), "line 3, bytes '': expected"),
            (
                format!("{common}h - - [yesterday] \"GET\" 200 1"),
                "line 2, date 'yesterday': expected a date as",
            ),
            (format!("{common}h - - [10/Oct/2000:13:55:36 -0700] \"GET 200 1"), "line 2, request "),
            (format!("{common}h - - [10/Oct/2000:13:55:36 -0700] \"G\" OK 1"), "line 2, status 'OK'"),
            ("0,a,1\nnonsense\n".to_owned(), "line 2, time 'nonsense'"),
            ("0,a,1\n1,,1\n".to_owned(), "line 2, client ''"),
            ("nan,a,1\ninf,a,1".to_owned(), "line 2, time 'inf'"),
            ("some prose".to_owned(), "line 1, time 'some'"),
            (String::new(), "at least one request"),
        ] {
            let e = parse(&log).unwrap_err().to_string();
            assert!(e.contains(says), "{log}: {e}");
        }
    }

    #[test]
    fn any_bytes() {
        let squid = b"1066036250.603 310 10.0.0.1 TCP_MISS/200 3487 GET http://x/ - D/1 t\n".as_slice();
        let common = b"h - - [10/Oct/2000:13:55:36 -0700] \"GET \\\" HTTP/1.0\" 200 2326\n".as_slice();
        let mut state = 0x1234_5678_9abc_def1_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..random() % 4 {
                bytes.extend_from_slice([squid, common, b"1.5,a,7\n"][random() % 3]);
            }
            for _ in 0..random() % 4 {
                let at = random() % (bytes.len() + 1);
                match random() % 3 {
                    0 => bytes.insert(at, random() as u8),
                    1 => bytes.truncate(at),
                    _ => bytes.insert(at, b" []\"\\.,/:-+09\n"[random() % 14]),
                }
            }
            fuzz(&bytes);
        }
    }
}
