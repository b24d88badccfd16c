//! Clock of the box.

use narrows_units::Instant;
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> Instant {
    // CLOCK_MONOTONIC exists on every Linux, and its seconds since boot are never negative.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(Instant::ZERO, |t| Instant::from_nanos(t.num_nanoseconds().unsigned_abs()))
}
