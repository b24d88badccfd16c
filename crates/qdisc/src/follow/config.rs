//! Settings of a shaper that follows its link.

use narrows_units::{Duration, Rate};

use crate::keys::{choices, keys};
use crate::{SettingError, Settings};

/// How the rate of the link is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idea {
    /// What has left is at most what is across by a forecast, and a little more: the forecast goes on at the rate at
    /// which the link was busy of late, until an acknowledgment does not come that should.
    #[default]
    Forecast,
    /// As many bytes are under way as the link delivered of late in its round trip, and a little more: an
    /// acknowledgment lets the next packet go, so the rate follows at once.
    Window,
    /// The same window, but moved in steps by how late acknowledgments come (as TCP Vegas moves its own).
    Vegas,
    /// A rate, raised in steps while acknowledgments come in time, lowered to what was delivered when they do not.
    Rate,
}

choices! {
    Idea: "window" => Window, "vegas" => Vegas, "rate" => Rate, "forecast" => Forecast
}

/// Settings of [`Follow`](super::Follow). Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FollowConfig {
    /// How.
    pub idea: Idea,
    /// What the link is thought to carry at least, kbit/s.
    pub min: u32,
    /// What it carries at most, kbit/s.
    pub max: u32,
    /// Wait behind the box that is aimed at, beside `packets`.
    pub target: Duration,
    /// Packets behind the box beyond what the link carries in its round trip.
    pub packets: f64,
    /// Packet times of the link over which what it delivers is measured.
    pub span: u32,
    /// The shortest such time.
    pub span_min: Duration,
    /// How long deliveries are taken to go on when acknowledgments pause.
    pub bridge: Duration,
}

impl Default for FollowConfig {
    fn default() -> Self {
        Self {
            idea: Idea::Forecast,
            min: 8,
            max: 1_000_000,
            target: Duration::from_millis(30),
            packets: 0.5,
            span: 8,
            span_min: Duration::from_millis(100),
            bridge: Duration::from_millis(40),
        }
    }
}

keys! {
    FollowConfig;
    idea: Choice(), "how the rate is followed";
    min: Number(1, 10_000_000), "least rate of the link, kbit/s";
    max: Number(1, 10_000_000), "greatest rate of the link, kbit/s";
    target: Time(Duration::ZERO, Duration::from_secs(1)), "wait in the modem that is aimed at, beside `packets`";
    packets: Real(0.0, 100.0), "packets under way beyond what the link carries in its round trip";
    span: Number(1, 1000), "packet times over which deliveries are measured";
    span_min: Time(Duration::from_millis(1), Duration::from_secs(10)), "the shortest such time";
    bridge: Time(Duration::ZERO, Duration::from_secs(1)), "deliveries are taken to go on while acknowledgments pause";
}

impl Settings for FollowConfig {
    const NAME: &'static str = "auto";
    const BARE: &'static str = "idea";

    fn check(&self) -> Result<(), SettingError> {
        if self.min > self.max {
            let expected = format!("at most max = {}", self.max);
            return Err(SettingError::new("min", self.min.to_string(), expected));
        }
        Ok(())
    }
}

impl FollowConfig {
    /// The least rate.
    #[must_use]
    pub const fn floor(&self) -> Rate {
        Rate::from_kbps(self.min as u64)
    }
    /// The greatest rate.
    #[must_use]
    pub const fn ceiling(&self) -> Rate {
        Rate::from_kbps(self.max as u64)
    }
}
