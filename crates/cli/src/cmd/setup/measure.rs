//! Rate of a link, measured by the interface's counters while its owner makes it busy. No packet is sent.

use std::time::{Duration, Instant};

use anyhow::bail;
use narrows_box::traffic;
use narrows_units::Rate;

/// Seconds of a measurement unless told otherwise.
pub const SECONDS: u64 = 30;
/// The best so many seconds in a row count: less is a burst out of somebody's buffer.
const WINDOW: usize = 5;
/// Percent of the measured rate to set: below it, or the link's own buffer fills.
const SHARE_PERCENT: u64 = 95;
/// Less is no busy link.
const LEAST: Rate = Rate::from_kbps(8);

/// The rates to give the box, to the users and from them, as text.
///
/// # Errors
/// If the interface is gone, or nearly nothing passed.
pub fn rates(wan: &str, time: Duration) -> anyhow::Result<[String; 2]> {
    eprintln!(
        "Make the link busy in both ways now, as by a speed test. Watching {wan} for {} s ...",
        time.as_secs()
    );
    let began = Instant::now();
    let mut readings = vec![(Duration::ZERO, traffic(wan)?)];
    while began.elapsed() < time {
        std::thread::sleep(Duration::from_secs(1));
        readings.push((began.elapsed(), traffic(wan)?));
    }
    let best = [0, 1].map(|way| best(&readings, way));
    eprintln!("At best {} came down and {} went up.", best[0], best[1]);
    if best.into_iter().any(|rate| rate < LEAST) {
        bail!(
            "hardly anything passed {wan}: make the link busy in both ways while it is measured, or say --down, --up"
        );
    }
    Ok(best.map(|rate| format!("{}kbit", rate.as_bps() * SHARE_PERCENT / 100 / 1000)))
}

fn best(readings: &[(Duration, [u64; 2])], way: usize) -> Rate {
    let last = readings.len().saturating_sub(1);
    let window = WINDOW.min(last.max(1));
    let rates = readings.windows(window + 1).map(|part| {
        let (first, last) = (&part[0], &part[window]);
        let nanos = (last.0 - first.0).as_nanos().max(1);
        let bits = u128::from(last.1[way].saturating_sub(first.1[way])) * 8;
        u64::try_from(bits * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    });
    Rate::from_bps(rates.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 75 000 bytes a second are 600 kbit/s; the burst of the first second does not count in full.
    #[test]
    fn the_best_five_seconds() {
        let down = [0, 150_000, 150_000, 225_000, 300_000, 375_000, 450_000, 525_000, 525_000];
        let readings: Vec<_> = (0u64..).map(Duration::from_secs).zip(down.map(|bytes| [bytes, 0])).collect();
        // 150 000 at the start, then five full seconds from the third to the eighth.
        assert_eq!(best(&readings, 0), Rate::from_bps(600_000));
        assert_eq!(best(&readings, 1), Rate::from_bps(0));
        assert_eq!(best(&readings[..1], 0), Rate::from_bps(0));
    }
}
