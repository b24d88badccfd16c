//! Settings of following flows, and the ranges within which a choice makes sense.

use core::fmt;

use narrows_units::Duration;
use narrows_users::UserRule;

/// How flows are followed. Defaults are those of the TAQ notes, table 2.8, and section 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerConfig {
    /// Most flows known at a time, 1 to 2^24.
    pub capacity: usize,
    /// Time without packets in either direction after which a flow's record is forgotten; 1 s to 1 h.
    pub record_timeout: Duration,
    /// Time without packets after which the record of a flow that ended by RST or by FIN in both directions is
    /// forgotten; at most `record_timeout`.
    pub closed_timeout: Duration,
    /// Weight of a sample in the averages of epoch and rate: one part in `2^ewma_shift`, 1 to 6.
    pub ewma_shift: u32,
    /// Shortest epoch; at least 1 ms.
    pub epoch_min: Duration,
    /// Longest epoch; at most 4 s.
    pub epoch_max: Duration,
    /// The epoch of a flow of which no sample is known yet.
    pub initial_epoch: Duration,
    /// Whether the epoch includes the time packets wait in this box's own queue, as the round trip that the sender
    /// sees does (TAQ, section 3.3: "the middlebox perceived RTT of the flow").
    pub epoch_includes_queue: bool,
    /// Whether a flow's rate is that of what was sent on (TAQ, section 4.2: the "transmit rate"), or else of what
    /// arrived.
    pub rate_of_departures: bool,
    /// Shortest time for which a flow counts as active after the flow's last packet.
    pub active_for: Duration,
    /// Epochs for which a flow counts as active after the flow's last packet, if the epochs are longer than
    /// `active_for`.
    pub active_epochs: u32,
    /// Rule that tells which user a flow belongs to.
    pub users: UserRule,
}

impl Default for TrackerConfig {
    fn default() -> Self {
        Self {
            capacity: 65_536,
            record_timeout: Duration::from_secs(120),
            closed_timeout: Duration::from_secs(10),
            ewma_shift: 3,
            epoch_min: Duration::from_millis(10),
            epoch_max: Duration::from_secs(3),
            initial_epoch: Duration::from_millis(200),
            epoch_includes_queue: false,
            rate_of_departures: false,
            active_for: Duration::from_secs(2),
            active_epochs: 4,
            users: UserRule::OPENER,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The setting's name.
    pub key: &'static str,
    /// Value that was given.
    pub value: String,
    /// Range or values that are allowed, in words.
    pub expected: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: expected {}", self.key, self.value, self.expected)
    }
}
impl std::error::Error for ConfigError {}

impl TrackerConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first one out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let within = |ok: bool, key, value: String, expected| {
            if ok { Ok(()) } else { Err(ConfigError { key, value, expected }) }
        };
        let time = |d: Duration| d.to_string();
        within(
            (1..=1 << 24).contains(&self.capacity),
            "capacity",
            self.capacity.to_string(),
            "1 to 16777216 flows",
        )?;
        within(
            (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&self.record_timeout),
            "record_timeout",
            time(self.record_timeout),
            "1 s to 3600 s",
        )?;
        within(
            self.closed_timeout <= self.record_timeout,
            "closed_timeout",
            time(self.closed_timeout),
            "at most record_timeout",
        )?;
        within((1..=6).contains(&self.ewma_shift), "ewma_shift", self.ewma_shift.to_string(), "1 to 6")?;
        within(
            self.epoch_min >= Duration::from_millis(1) && self.epoch_min <= self.epoch_max,
            "epoch_min",
            time(self.epoch_min),
            "1 ms to epoch_max",
        )?;
        within(
            self.epoch_max <= Duration::from_secs(4),
            "epoch_max",
            time(self.epoch_max),
            "epoch_min to 4 s",
        )?;
        within(
            (self.epoch_min..=self.epoch_max).contains(&self.initial_epoch),
            "initial_epoch",
            time(self.initial_epoch),
            "epoch_min to epoch_max",
        )?;
        within(
            self.active_for <= Duration::from_secs(60),
            "active_for",
            time(self.active_for),
            "at most 60 s",
        )?;
        within(
            (1..=64).contains(&self.active_epochs),
            "active_epochs",
            self.active_epochs.to_string(),
            "1 to 64",
        )
    }

    /// The nearest settings that pass [`TrackerConfig::check`], so that a tracker can always be made.
    #[must_use]
    pub(crate) fn clamped(mut self) -> Self {
        let second = Duration::from_secs(1);
        self.capacity = self.capacity.clamp(1, 1 << 24);
        self.record_timeout = self.record_timeout.clamp(second, second * 3600);
        self.closed_timeout = self.closed_timeout.min(self.record_timeout);
        self.ewma_shift = self.ewma_shift.clamp(1, 6);
        self.epoch_min = self.epoch_min.clamp(Duration::from_millis(1), second * 4);
        self.epoch_max = self.epoch_max.clamp(self.epoch_min, second * 4);
        self.initial_epoch = self.initial_epoch.clamp(self.epoch_min, self.epoch_max);
        self.active_for = self.active_for.min(second * 60);
        self.active_epochs = self.active_epochs.clamp(1, 64);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_and_a_wrong_value_is_named() {
        assert_eq!(TrackerConfig::default().check(), Ok(()));
        let wrong = [
            ("capacity", TrackerConfig { capacity: 0, ..TrackerConfig::default() }),
            ("record_timeout", TrackerConfig { record_timeout: Duration::ZERO, ..TrackerConfig::default() }),
            ("closed_timeout", TrackerConfig { closed_timeout: Duration::MAX, ..TrackerConfig::default() }),
            ("ewma_shift", TrackerConfig { ewma_shift: 0, ..TrackerConfig::default() }),
            ("epoch_min", TrackerConfig { epoch_min: Duration::ZERO, ..TrackerConfig::default() }),
            ("epoch_max", TrackerConfig { epoch_max: Duration::from_secs(5), ..TrackerConfig::default() }),
            ("initial_epoch", TrackerConfig { initial_epoch: Duration::ZERO, ..TrackerConfig::default() }),
            ("active_for", TrackerConfig { active_for: Duration::MAX, ..TrackerConfig::default() }),
            ("active_epochs", TrackerConfig { active_epochs: 0, ..TrackerConfig::default() }),
        ];
        for (key, config) in wrong {
            assert_eq!(config.check().unwrap_err().key, key);
            assert_eq!(config.clamped().check(), Ok(()), "{key}");
        }
        let error = wrong[0].1.check().unwrap_err();
        assert_eq!(error.to_string(), "capacity = 0: expected 1 to 16777216 flows");
    }
}
