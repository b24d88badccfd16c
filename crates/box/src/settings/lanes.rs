//! One direction, of what is said of both.

use narrows_qdisc::{Direction, ShaperConfig, Spec};
use narrows_users::Side;

use super::{DEFAULT_DISCIPLINE, Options};
use crate::lane::LaneSettings;

impl Options {
    /// One direction, and the text of its discipline.
    pub(super) fn lane(
        &self,
        direction: Direction,
        (overhead, mpu): (u32, u32),
        seed: u64,
    ) -> anyhow::Result<(LaneSettings, String)> {
        let (rate, own, users) = match direction {
            Direction::Down => (self.down, &self.down_discipline, Side::Destination),
            Direction::Up => (self.up, &self.up_discipline, Side::Source),
        };
        let discipline = match own.as_ref().or(self.discipline.as_ref()) {
            Some(d) => d.clone(),
            None => DEFAULT_DISCIPLINE.parse()?,
        };
        let framing = self.framing.unwrap_or_default();
        let link =
            rate.map(|r| ShaperConfig { overhead, mpu, framing, users, ..ShaperConfig::new(r.at_first()) });
        let lane = LaneSettings {
            observe: self.observe.unwrap_or(false),
            users,
            follow: rate.and_then(|r| r.follow()),
            ..LaneSettings::new(link, discipline.spec, seed)
        };
        Ok((lane, discipline.text))
    }
}

/// Whether somebody may have to wait for this direction.
pub(super) fn admits(lane: &LaneSettings) -> bool {
    let admission = matches!(&lane.discipline, Spec::Taq(taq) if taq.common.admission);
    admission && lane.link.is_some() && !lane.observe
}

/// Whether this direction is shared between users.
pub(super) const fn knows_users(lane: &LaneSettings) -> bool {
    lane.discipline.shares_between_users() && lane.link.is_some() && !lane.observe
}
