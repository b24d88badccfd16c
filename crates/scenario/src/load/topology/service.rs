//! Keys of a link whose rate changes, and of the shaper at a link's entrance.

use std::sync::Arc;

use narrows_units::{Duration, Rate};
use toml::Value;

use crate::load::Files;
use crate::read::Reader;
use crate::{Error, Service, Shaping, quantity};

/// When the link sends: by its trace, by a list of rates, or always. `keys` are what these and the one rate are called.
pub(super) fn read(
    r: &Reader<'_>,
    [trace, rates, rate]: [&'static str; 3],
    files: Files<'_>,
) -> Result<Service, Error> {
    let service = match (r.text(trace)?, self::rates(r, rates)?) {
        (Some(_), Some(_)) => {
            return Err(r.wrong(rates, format!("no such key with {trace}: either tells the rate")));
        }
        (Some(path), None) => {
            let read = files.trace(path).map_err(|e| r.wrong(trace, format!("a trace of mahimahi: {e}")))?;
            Service::Trace(Arc::new(read))
        }
        (None, Some(steps)) => Service::Steps(steps.into()),
        (None, None) => Service::Constant,
    };
    if service != Service::Constant && r.has(rate) {
        return Err(r.wrong(rate, format!("no such key with {trace} or {rates}: these tell the rate")));
    }
    Ok(service)
}

/// The rate that a changing one is taken for where one is needed.
pub(super) fn rate(service: &Service) -> Option<Rate> {
    match service {
        Service::Constant => None,
        Service::Steps(steps) => steps.first().map(|s| s.1),
        Service::Trace(trace) => Some(trace.mean()),
    }
}

pub(super) fn shaping(r: &Reader<'_>, key: &'static str) -> Result<Option<Shaping>, Error> {
    r.parsed(key, "who shapes what enters the link, as \"auto\"", str::parse)
}

/// `[["0s", "600kbit"], ["30s", "0"], ["35s", "1mbit"]]`.
fn rates(r: &Reader<'_>, key: &'static str) -> Result<Option<Vec<(Duration, Rate)>>, Error> {
    let expected = "times and rates, as [[\"0s\", \"600kbit\"], [\"30s\", \"0\"], [\"35s\", \"1mbit\"]], in order, the \
                    last above 0";
    let Some(list) = r.list(key, expected)? else { return Ok(None) };
    let step = |value: &Value| {
        let [at, rate] = value.as_array()?.as_slice() else { return None };
        let rate = match rate.as_str()? {
            "0" => Rate::from_bps(1),
            text => text.parse().ok()?,
        };
        Some((quantity::time(at.as_str()?).ok()?, rate))
    };
    let steps: Option<Vec<_>> = list.iter().map(step).collect();
    let ordered = |s: &Vec<(Duration, Rate)>| {
        s.is_sorted_by(|a, b| a.0 < b.0) && s.last().is_some_and(|last| last.1 > Rate::from_bps(1))
    };
    steps.filter(ordered).map(Some).ok_or_else(|| r.wrong(key, expected))
}
