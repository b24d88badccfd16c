//! Forms of values in reports: seconds, shares and names in place of nanoseconds, parts per million and places.

use narrows_units::Duration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Ppm;

/// The time nearest to `seconds`; zero for negative numbers.
fn time(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9).round().max(0.0) as u64)
}

/// A time in seconds.
pub mod seconds {
    use super::*;

    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        time.as_secs_f64().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        f64::deserialize(from).map(time)
    }
}

/// A time in seconds, or none.
pub mod maybe_seconds {
    use super::*;

    pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        time.map(Duration::as_secs_f64).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.map(time))
    }
}

/// A share from 0 to 1, or none.
pub mod share {
    use super::*;

    pub fn serialize<S: Serializer>(share: &Option<Ppm>, to: S) -> Result<S::Ok, S::Error> {
        share.map(|share| f64::from(share.0) / 1e6).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ppm>, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.map(|share| Ppm((share * 1e6).round() as u32)))
    }
}

/// Drops by the name of the drop's reason, and the sum of all drops.
pub mod drops {
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    use super::*;
    use crate::Reason;

    type Drops = [u64; Reason::ALL.len()];

    #[derive(Serialize, Deserialize)]
    struct Named<'a> {
        dropped: BTreeMap<Cow<'a, str>, u64>,
        dropped_total: u64,
    }

    pub fn serialize<S: Serializer>(drops: &Drops, to: S) -> Result<S::Ok, S::Error> {
        let dropped = Reason::ALL.iter().map(|r| (Cow::Borrowed(r.name()), drops[*r as usize])).collect();
        Named { dropped, dropped_total: drops.iter().sum() }.serialize(to)
    }

    /// A reason of another version is left out.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Drops, D::Error> {
        let named = Named::deserialize(from)?.dropped;
        Ok(Reason::ALL.map(|reason| named.get(reason.name()).copied().unwrap_or(0)))
    }
}
