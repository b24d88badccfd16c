//! Path to the peer: the size of its datagrams, and the limit against amplification (RFC 9000, section 8.1).

use narrows_units::Instant;

use super::Role;
use crate::mtu::Mtu;
use crate::{Config, MtuSearch};

/// Bytes of UDP payload both ways, and the size that passes.
#[derive(Clone, Debug)]
pub(super) struct Path {
    came: u64,
    gone: u64,
    /// Whether the address of the peer is validated as the peer's own.
    validated: bool,
    /// UDP payload of a full datagram.
    datagram: u16,
    mtu: Mtu,
}

impl Path {
    /// Makes the path of one side. A server does not know yet whose address the server answers.
    pub(super) fn new(config: &Config, side: Role) -> Self {
        let validated = side == Role::Client;
        Self { came: 0, gone: 0, validated, datagram: config.datagram, mtu: Mtu::default() }
    }

    /// Counts a datagram of `len` bytes that came.
    pub(super) fn came(&mut self, len: u32) {
        self.came += u64::from(len);
    }
    /// Counts a datagram of `len` bytes that has left.
    pub(super) fn left(&mut self, len: u32) {
        self.gone += u64::from(len);
    }
    /// Whether no datagram has left.
    pub(super) const fn is_unused(&self) -> bool {
        self.gone == 0
    }
    /// Notes that the address of the peer is the peer's own.
    pub(super) const fn validate(&mut self) {
        self.validated = true;
    }
    /// Whether the limit of three times what came is reached (RFC 9000, section 8.1). As in all stacks with a preset, a
    /// datagram may begin below it and end above.
    pub(super) const fn is_blocked(&self) -> bool {
        !self.validated && self.gone >= 3 * self.came
    }

    /// UDP payload of a full datagram.
    pub(super) const fn datagram(&self) -> u16 {
        self.datagram
    }
    /// The size of a probe for larger datagrams to send now as packet `number`, if one is due.
    pub(super) fn probe(&mut self, now: Instant, number: u64, search: &MtuSearch) -> Option<u16> {
        self.mtu.probe(now, self.datagram, number, search)
    }
    /// Tells whether the 1-RTT packet `number` is the probe under way.
    pub(super) fn is_probe(&self, number: u64) -> bool {
        self.mtu.is_probe(number)
    }
    /// The probe was acknowledged: the size of a full datagram from now on.
    pub(super) fn probe_passed(&mut self) -> u16 {
        self.datagram = self.mtu.passed().max(self.datagram);
        self.datagram
    }
    /// The probe was lost.
    pub(super) const fn probe_failed(&mut self) {
        self.mtu.failed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn three_times_what_came_by_hand() {
        let mut path = Path::new(&Config::preset(Preset::Rfc), Role::Server);
        assert!(path.is_blocked(), "nothing came");
        path.came(1200);
        path.left(3599);
        assert!(!path.is_blocked());
        path.left(1);
        assert!(path.is_blocked());
        path.validate();
        assert!(!path.is_blocked());
        assert!(!Path::new(&Config::preset(Preset::Rfc), Role::Client).is_blocked());
    }
}
