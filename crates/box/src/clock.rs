//! Clock of the box.

use narrows_units::Instant;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> Instant {
    // CLOCK_MONOTONIC exists on every Linux, and its seconds since boot are never negative.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Instant::ZERO, |t| {
        Instant::from_nanos(t.tv_sec().unsigned_abs() * 1_000_000_000 + t.tv_nsec().unsigned_abs())
    })
}
