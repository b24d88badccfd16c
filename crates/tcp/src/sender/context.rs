//! What a call works with besides the sender, and what it asks of the settings.

use narrows_units::Instant;

use crate::endpoint::Counts;
use crate::receiver::Receiver;
use crate::{ByteCounting, Config, Io, PrrBound, Recovery, RestartTimer, RttSampling, SwsAvoidance};

/// What a call works with besides the sender itself.
pub(crate) struct Context<'a, I> {
    pub(crate) config: &'a Config,
    pub(crate) now: Instant,
    /// Every segment carries an acknowledgment.
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) counters: &'a mut Counts,
    pub(crate) io: &'a mut I,
    /// Whether this call has sent a segment, and an acknowledgment with it.
    pub(crate) sent: bool,
    /// How many segments of new data this call has sent.
    pub(crate) new_segments: u32,
}

impl<I: Io> Context<'_, I> {
    pub(crate) const fn recovery(&self) -> Recovery {
        self.config.recovery
    }
    pub(crate) const fn has_timestamps(&self) -> bool {
        self.config.timestamps
    }
    pub(crate) const fn has_rack_tlp(&self) -> bool {
        self.config.rack_tlp
    }
    /// Whether an ACK that only SACKs gives a sample too.
    pub(crate) fn samples_every_ack(&self) -> bool {
        self.config.rtt_sampling == RttSampling::EveryAck
    }
    pub(crate) const fn sws_avoidance(&self) -> SwsAvoidance {
        self.config.sws_avoidance
    }
    pub(crate) const fn has_nagle(&self) -> bool {
        self.config.nagle
    }
    pub(crate) fn times_one(&self) -> bool {
        self.config.rtt_sampling == RttSampling::OneAtATime
    }
    pub(crate) fn has_linux_timer(&self) -> bool {
        self.config.restart_timer == RestartTimer::Linux
    }
    pub(crate) const fn prr(&self) -> PrrBound {
        self.config.prr
    }
    pub(crate) const fn byte_counting(&self) -> ByteCounting {
        self.config.byte_counting
    }
}
