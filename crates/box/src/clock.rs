//! Clocks of the box.

use std::time::Duration;

use narrows_units::Instant;
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> Instant {
    // CLOCK_MONOTONIC exists on every Linux, and its seconds since boot are never negative.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(Instant::ZERO, |t| Instant::from_nanos(t.num_nanoseconds().unsigned_abs()))
}

/// Processor time of the calling thread: it stands still while the thread is stopped or others have the processor.
pub fn spent() -> Duration {
    // CLOCK_THREAD_CPUTIME_ID exists on every Linux (clock_gettime(2)), and counts from the thread's start.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
