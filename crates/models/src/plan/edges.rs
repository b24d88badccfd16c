//! Where the verdict changes, over rate and users. More flows never make it better and more rate never worse, so
//! bisection finds each edge, and a map needs no more than the edges.

use narrows_units::Rate;

use super::{MOST_FLOWS, Outlook, SharedLink};
use crate::Result;

/// Largest rate looked at, kbit/s.
const MOST_KBPS: u32 = 1_000_000_000;
/// Factor to which an edge of a map is found: less than the width of the edge's line.
const PRECISION: f64 = 1.01;

/// The last of `low..high` that `holds`, where those that do come before those that do not; `low` is not asked and
/// `high` does not.
pub(super) fn last_where(low: u32, high: u32, holds: impl Fn(u32) -> Result<bool>) -> Result<u32> {
    let (mut low, mut high) = (low, high);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Most users of whom the verdict is `to` or better; 0 if not even of one.
pub(super) fn most_users(link: &SharedLink, to: Outlook) -> Result<u32> {
    let good = |users: u32| {
        let one = SharedLink { users, ..*link };
        Ok(one.verdict(one.flows())? <= to)
    };
    last_where(0, link.users, good)
}

/// Least rate, to the kbit/s, at which the verdict is `to` or better.
pub(super) fn least_rate(link: &SharedLink, to: Outlook) -> Result<Option<Rate>> {
    let good = |kbps: u32| {
        let one = SharedLink { rate: Rate::from_kbps(kbps.into()), ..*link };
        Ok(one.verdict(one.flows())? <= to)
    };
    if !good(MOST_KBPS)? {
        return Ok(None);
    }
    let low = u32::try_from(link.rate.as_bps() / 1_000).unwrap_or(MOST_KBPS).max(1);
    let worse = last_where(low.min(MOST_KBPS - 1), MOST_KBPS, |kbps| Ok(!good(kbps)?))?;
    Ok(Some(Rate::from_kbps(u64::from(worse) + 1)))
}

/// The edges of the verdicts at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edges {
    /// The rate.
    pub rate: Rate,
    /// Users from which on a verdict is at least [`Verdict::SmallPackets`], [`Verdict::PastTipping`],
    /// [`Verdict::TooMany`]; below 1 if so for fewer connections than a user has. Fractions stand for single
    /// connections.
    pub users: [f64; 3],
}

/// The edges at each of `rates`, for users like those of `link`.
///
/// # Errors
/// A quantity of `link` outside its domain.
pub fn edges(link: &SharedLink, rates: &[Rate]) -> Result<Vec<Edges>> {
    link.check()?;
    rates
        .iter()
        .map(|rate| {
            let here = SharedLink { rate: *rate, ..*link };
            let mut users = [0.0; 3];
            let mut low = 0.0;
            for (edge, verdict) in
                users.iter_mut().zip([Outlook::SmallPackets, Outlook::PastTipping, Outlook::TooMany])
            {
                low = first_flows(&here, verdict, low)?;
                *edge = low / f64::from(link.connections) / link.busy;
            }
            Ok(Edges { rate: *rate, users })
        })
        .collect()
}

/// About the fewest flows, more than `above`, at which the verdict is `at_least`: to [`PRECISION`].
fn first_flows(link: &SharedLink, at_least: Outlook, above: f64) -> Result<f64> {
    let bad = |flows: f64| Ok(link.verdict(flows.round().max(1.0) as u32)? >= at_least);
    let (mut low, mut high) = (above.max(0.5), f64::from(MOST_FLOWS));
    while high / low > PRECISION && high - low > 0.5 {
        let middle = (low * high).sqrt();
        if bad(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}
