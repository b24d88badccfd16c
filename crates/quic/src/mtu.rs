//! The search for the path's MTU: PINGs padded to a size between what is known to pass and the largest worth trying,
//! half-way each time (RFC 8899, section 5.3). A size that is lost three times does not pass.

use narrows_units::Instant;

use crate::MtuSearch;

/// MAX_PROBES (RFC 8899, section 5.1.2).
const TRIES: u32 = 3;

/// Search for the path's MTU, in bytes of a datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mtu {
    low: u16,
    high: u16,
    tried: u16,
    lost: u32,
    /// The packet number of the probe under way.
    probe: Option<u64>,
    searching: bool,
    /// Time at which the next search begins; the first does so at once.
    next: Instant,
}

impl Mtu {
    /// The size of a probe to send now as packet `number`, if one is due; `current` is known to pass.
    pub(crate) fn probe(
        &mut self,
        now: Instant,
        current: u16,
        number: u64,
        search: &MtuSearch,
    ) -> Option<u16> {
        if !self.searching {
            if now < self.next {
                return None;
            }
            let high = search.upper.max(current);
            *self = Self { low: current, high, tried: current, searching: true, ..*self };
        }
        if self.probe.is_some() {
            return None;
        }
        if self.lost == 0 || self.lost >= TRIES {
            let passed = self.lost == 0;
            self.lost = 0;
            let Some(size) = self.step(passed, search.step) else {
                (self.searching, self.next) = (false, now + search.interval);
                return None;
            };
            self.tried = size;
        }
        self.probe = Some(number);
        Some(self.tried)
    }

    fn step(&mut self, passed: bool, step: u16) -> Option<u16> {
        if passed {
            self.low = self.tried;
        } else {
            self.high = self.tried.saturating_sub(1).max(self.low);
        }
        let middle = u16::midpoint(self.low, self.high);
        if middle.abs_diff(self.tried) >= step {
            return Some(middle);
        }
        // The largest is tried by itself if it is far enough.
        (self.high.saturating_sub(self.tried) >= step).then_some(self.high)
    }

    /// Tells whether the packet `number` is the probe under way.
    pub(crate) fn is_probe(&self, number: u64) -> bool {
        self.probe == Some(number)
    }

    /// The probe was acknowledged: the size that passes.
    pub(crate) fn passed(&mut self) -> u16 {
        (self.probe, self.lost) = (None, 0);
        self.tried
    }
    /// The probe was lost.
    pub(crate) const fn failed(&mut self) {
        self.probe = None;
        self.lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Duration;

    const SEARCH: MtuSearch = MtuSearch { upper: 1452, step: 20, interval: Duration::from_secs(600) };

    #[test]
    fn halves_up_to_the_top() {
        // Between 1200 and 1452: 1326, 1389, 1420; then 1436 is too near, and 1452 is tried by itself.
        let (mut m, mut now, mut sizes, mut current) = (Mtu::default(), Instant::ZERO, Vec::new(), 1200);
        while let Some(size) = m.probe(now, current, 7, &SEARCH) {
            assert_eq!(m.probe(now, current, 8, &SEARCH), None, "one at a time");
            sizes.push(size);
            current = m.passed();
        }
        assert_eq!(sizes, [1326, 1389, 1420, 1452]);
        now += Duration::from_secs(599);
        assert_eq!(m.probe(now, current, 9, &SEARCH), None);
    }

    #[test]
    fn three_losses_are_an_answer() {
        let mut m = Mtu::default();
        let mut sizes = Vec::new();
        for _ in 0..4 {
            sizes.extend(m.probe(Instant::ZERO, 1200, 0, &SEARCH));
            m.failed();
        }
        // 1326 does not pass: (1200 + 1325) / 2.
        assert_eq!(sizes, [1326, 1326, 1326, 1262]);
    }
}
