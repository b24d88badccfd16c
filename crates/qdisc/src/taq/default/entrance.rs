//! When the door is overloaded, and who is let in.

use narrows_units::{Duration, Instant};

use super::DefaultMode;
use crate::taq::admission::{Admission, AdmissionConfig, Load, Rule, Way};
use crate::taq::{Common, DefaultConfig, WaitingSyn};
use crate::{Packet, Verdicts};

/// How long a connection counts as coming: a handshake and a request over a long path.
const COMING: Duration = Duration::from_secs(1);
/// Connections that can be coming at once: more than any door lets in.
const MOST_COMING: usize = 4096;

impl<P: Packet> DefaultMode<P> {
    /// Whether new pools have to wait: a round of one full packet for everybody who is in takes longer than a silence may
    /// last. In are the pools of the flows that wait for a turn (a user with four connections is silent only if all four
    /// are), and the connections let in a moment ago that have nothing to send yet.
    pub(super) fn inside(&self, now: Instant) -> Load {
        let coming = self.entered.len() - self.entered.partition_point(|t| now.since(*t) >= COMING);
        let waiting = self.waiting().min(self.tracker.active_pools());
        let round = self.turn_time() * (waiting + coming) as u64;
        Load { overloaded: round >= self.config.round_limit_ms, round }
    }

    /// When [`Self::inside`] may next change by time alone: as the first of those coming is no longer counted.
    pub(super) fn next_change(&self, now: Instant) -> Instant {
        let gone = self.entered.partition_point(|t| now.since(*t) >= COMING);
        self.entered.get(gone).map_or(Instant::FAR_FUTURE, |t| *t + COMING)
    }

    /// Notes a connection that was let in.
    pub(super) fn note_entry(&mut self, now: Instant) {
        while self.entered.front().is_some_and(|t| now.since(*t) >= COMING)
            || self.entered.len() >= MOST_COMING
        {
            self.entered.pop_front();
        }
        self.entered.push_back(now);
    }

    pub(super) fn request(
        &mut self,
        now: Instant,
        way: Way,
        packet: P,
        verdicts: &mut Verdicts<P>,
    ) -> Option<P> {
        if !self.common.admission || !Admission::<P>::is_connection_request(packet.header()) {
            return Some(packet);
        }
        let inside = self.inside(now);
        let packet = self.admission.request(now, inside, way, packet, &mut self.counters, verdicts)?;
        if self.tracker.active_in_pool(packet.header().key.src()) == 0 {
            self.note_entry(now);
        }
        Some(packet)
    }
}

/// The line at the door. A pool joins its own earlier connections for `t_pool`; after that it stands in line like any
/// other, or those who are in would stay in for as long as they have something to ask for.
pub(super) fn admission_config(common: &Common, config: &DefaultConfig) -> AdmissionConfig {
    AdmissionConfig {
        rule: Rule::Line {
            idle: common.t_pool,
            pace: Duration::ZERO,
            guarantee: Some(common.t_wait),
            rounds: config.wait_rounds,
        },
        hold: common.waiting_syn != WaitingSyn::Drop,
        answered: common.http_503,
        pools: common.pools as usize,
    }
}
