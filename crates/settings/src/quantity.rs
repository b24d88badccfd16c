//! Times, sizes and rates as people write them.
//!
//! Scenario files want a unit beside each number ([`time`], [`bytes`], [`number`]) and round to the nanosecond or the
//! byte. Keys have one of their own, so that a unit may be left out, and are exact ([`decimal`], [`seconds`]).

use narrows_units::{Duration, Rate};

/// The longest time that can be named, in seconds: beyond any run this is for.
const MOST_SECONDS: f64 = 1e7;
/// The largest size that can be named, in bytes: a petabyte, which a float still counts one by one.
pub const MOST_BYTES: f64 = 1e15;

/// Splits `1.5kbit` into the number and the unit.
#[must_use]
pub fn split(text: &str) -> Option<(f64, &str)> {
    let t = text.trim();
    let mut end = t.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(t.len());
    // `1e6` is a number; `1e` or `1exp` is not.
    let exponent = t[end..].strip_prefix(['e', 'E']).map(|rest| {
        let sign = usize::from(rest.starts_with(['-', '+']));
        let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        (digits, 1 + sign + digits)
    });
    if let Some((1.., more)) = exponent {
        end += more;
    }
    let number = t[..end].parse::<f64>().ok()?;
    number.is_finite().then(|| (number, t[end..].trim()))
}

/// `200ms`, `1.5s`, `100us`, `2min`, `1h`, `50ns`.
///
/// # Errors
/// What was expected.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time: a number and a unit, as in 200ms, 120s or 2min".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3_600e9,
        _ => return Err(wrong()),
    };
    let ns = (number * nanos).round();
    if ns > MOST_SECONDS * 1e9 {
        return Err(format!("a time of at most {MOST_SECONDS:e} s"));
    }
    Ok(Duration::from_nanos(ns as u64))
}

/// Writes a time as [`time`] reads it.
#[must_use]
pub fn time_text(d: Duration) -> String {
    let ns = d.as_nanos();
    match ns {
        0 => "0ms".to_owned(),
        _ if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
        _ if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1_000) => format!("{}us", ns / 1_000),
        _ => format!("{ns}ns"),
    }
}

/// `1500`, `1500B`, `64kB`, `1.5MB`, `64KiB`.
///
/// # Errors
/// What was expected.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "a size: a number of bytes above 0, as in 1500, 64kB, 1.5MB or 64KiB".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let scale = match unit {
        "" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1_024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return Err(wrong()),
    };
    let bytes = (number * scale).round();
    if !(1.0..=MOST_BYTES).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

/// Any quantity as a number: seconds, bits per second, bytes; a range of times as its middle.
#[must_use]
pub fn number(text: &str) -> Option<f64> {
    if let Some((low, high)) = text.split_once("..") {
        return Some(f64::midpoint(number(low)?, number(high)?));
    }
    if let Some((n, "")) = split(text) {
        return Some(n);
    }
    time(text)
        .map(|d| d.as_secs_f64())
        .ok()
        .or_else(|| text.parse::<Rate>().ok().map(|r| r.as_bps() as f64))
        .or_else(|| bytes(text).ok().map(|b| b as f64))
}

/// `2` or `0.875`: digits and a point, and nothing else.
#[must_use]
pub fn real(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| plain)
}

/// `2` or `0.875` exactly: the whole part, and at most six places as millionths.
#[must_use]
pub fn decimal(text: &str) -> Option<(u64, u32)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    Some((whole.parse().ok()?, format!("{part:0<6}").parse().ok()?))
}

/// `3`, `3s`, `0.2`, `200ms`: seconds where no unit stands, at most six places.
#[must_use]
pub fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1_000_000),
        None => (text.strip_suffix('s').unwrap_or(text), 1_000_000_000),
    };
    let (whole, part) = decimal(number)?;
    let ns = whole.checked_mul(unit)?.checked_add(u64::from(part) * unit / 1_000_000)?;
    Some(Duration::from_nanos(ns))
}

/// Writes a time as [`seconds`] reads it: whole seconds or milliseconds, with as many places as there are.
#[must_use]
pub fn exact_time_text(t: Duration) -> String {
    let (ms, part) = (t.as_millis(), t.as_nanos() % 1_000_000);
    match (ms % 1000, part) {
        (0, 0) => format!("{}s", ms / 1000),
        (_, 0) => format!("{ms}ms"),
        _ => format!("{ms}.{}ms", format!("{part:06}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sizes_and_what_is_neither() {
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time(" 100 us "), Ok(Duration::from_micros(100)));
        assert_eq!(time("2min"), Ok(Duration::from_secs(120)));
        assert_eq!((bytes("64kB"), bytes("64KiB"), bytes("1500")), (Ok(64_000), Ok(65_536), Ok(1500)));
        for wrong in ["", "200", "-1s", "1e99s", "nans", "infs", "1.2.3s", "ms", "1e", "99999999s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "-5", "1e99", "kB", "5 parsecs", "0.1"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_reads_as_it_is_written() {
        for ns in [0, 1, 999, 1_000, 1_500_000, 200_000_000, 90_000_000_000] {
            let d = Duration::from_nanos(ns);
            assert_eq!(time(&time_text(d)), Ok(d), "{}", time_text(d));
            assert_eq!(seconds(&exact_time_text(d)), Some(d), "{}", exact_time_text(d));
        }
    }

    #[test]
    fn quantities_as_numbers() {
        assert_eq!(number("200ms"), Some(0.2));
        assert_eq!(number("190ms..210ms"), Some(0.2));
        assert_eq!(number("600kbit"), Some(6e5));
        assert_eq!(number("64kB"), Some(64e3));
        assert_eq!((number("1e-3"), number("taq")), (Some(1e-3), None));
    }

    #[test]
    fn exact_numbers_and_what_is_none() {
        assert_eq!(
            (decimal("2"), decimal("0.08"), decimal("1.")),
            (Some((2, 0)), Some((0, 80_000)), Some((1, 0)))
        );
        assert_eq!((real("0.5"), real("1e3"), real("inf")), (Some(0.5), None, None));
        let ms = |n| Some(Duration::from_millis(n));
        assert_eq!(
            ["3", "3s", "0.2", "200ms", "1.5s"].map(seconds),
            [ms(3000), ms(3000), ms(200), ms(200), ms(1500)]
        );
        assert_eq!(exact_time_text(Duration::from_micros(1500)), "1.5ms");
        for wrong in ["", ".", ".5", "-1", "1e9", "1.2345678", "0x10", "1 s", "99999999999999999999"] {
            assert_eq!((decimal(wrong), seconds(wrong)), (None, None), "{wrong}");
        }
    }
}
