//! Access logs: squid's native format, or CSV with the columns time in seconds, client, bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use narrows_units::Duration;

use crate::LogEntry;

/// Most requests of a log: 24 bytes each in memory.
const MOST: usize = 20_000_000;

/// Reads a log; an error is the end of a sentence about the file.
pub(crate) fn read(path: &Path) -> Result<Arc<[LogEntry]>, String> {
    let text = std::fs::read(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    parse(&String::from_utf8_lossy(&text)).map_err(|e| format!("{}: {e}", path.display()))
}

/// The requests of `text`, in its order; replies without a byte are left out.
fn parse(text: &str) -> Result<Arc<[LogEntry]>, String> {
    let (mut clients, mut entries, mut first) = (BTreeMap::new(), Vec::new(), None);
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    for (n, (line, text)) in lines.enumerate() {
        let fields: Option<(f64, &str, u64)> = if text.contains(',') { csv(text) } else { squid(text) };
        let Some((at, client, bytes)) = fields.filter(|(at, _, _)| at.is_finite() && *at >= 0.0) else {
            // A first line of words names the columns.
            if n == 0 && text.contains(',') {
                continue;
            }
            return Err(format!(
                "line {}: expected squid's format, or time in seconds, client and bytes with commas between",
                line + 1
            ));
        };
        let next = clients.len() as u32;
        let client = *clients.entry(client.to_owned()).or_insert(next);
        let since = (at - *first.get_or_insert(at)).max(0.0);
        if bytes > 0 {
            entries.push(LogEntry { at: Duration::from_nanos((since * 1e9).round() as u64), client, bytes });
        }
        if entries.len() > MOST {
            return Err(format!("expected at most {MOST} requests"));
        }
    }
    if entries.is_empty() {
        Err("expected at least one request with a reply".to_owned())
    } else {
        Ok(entries.into())
    }
}

fn csv(line: &str) -> Option<(f64, &str, u64)> {
    let mut fields = line.split(',').map(str::trim);
    Some((fields.next()?.parse().ok()?, fields.next()?, fields.next()?.parse().ok()?))
}

/// `time elapsed client code/status bytes method URL ...`
fn squid(line: &str) -> Option<(f64, &str, u64)> {
    let mut fields = line.split_whitespace();
    let at = fields.next()?.parse().ok()?;
    let client = fields.nth(1)?;
    Some((at, client, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_by_hand() {
        let squid = "1066036250.603    310 192.168.0.68 TCP_MISS/200 3487 GET http://x/ - DIRECT/1.2.3.4 text/html\n\
                     1066036251.103     10 192.168.0.9 TCP_HIT/304 0 GET http://y/ - NONE/- -\n\
                     1066036252.603     10 192.168.0.68 TCP_HIT/200 12 GET http://y/ - NONE/- -\n";
        let csv = "time_s,client,bytes\n0.0,a,3487\n0.5,b,0\n2.0,a,12\n";
        let expected = [
            LogEntry { at: Duration::ZERO, client: 0, bytes: 3487 },
            LogEntry { at: Duration::from_secs(2), client: 0, bytes: 12 },
        ];
        for text in [squid, csv] {
            assert_eq!(&*parse(text).unwrap(), &expected, "{text}");
        }
        assert!(parse("0,a,1\nnonsense\n").unwrap_err().contains("line 2"));
        assert!(parse("").unwrap_err().contains("at least one"));
        assert!(parse("nan,a,1\ninf,a,1").is_err());
    }
}
