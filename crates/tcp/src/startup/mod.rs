//! Start-ups: what the window does before congestion avoidance. They compose with any congestion control.

use narrows_units::Instant;

use crate::Config;
use crate::cc::{AckSample, Window};

/// A start-up.
pub trait Startup {
    /// The first window, in segments.
    fn initial_window(&self, config: &Config) -> f64;
    /// New data was acknowledged while cwnd < ssthresh.
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample);
    /// A loss was seen: some start-ups switch off for good.
    fn on_loss(&mut self) {}
    /// When the `index`-th segment of the first window may leave; `None` for at once.
    fn release_at(&self, first: Instant, index: u32) -> Option<Instant> {
        let _ = (first, index);
        None
    }
}
