//! Account of the packets that come to the box's place: which it saw, and which passed unseen.
//!
//! The kernel numbers a packet when it has room for it in the box's queue. One that finds the queue full passes without
//! a number, so the rules count too: what they have sent and the kernel has not numbered has passed.

/// Account of one direction's packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// Packets that the rules had counted at the last look; `None` before the first.
    offered: Option<u64>,
    /// Packets that the rules had counted before the first one that is numbered here.
    before: i128,
    /// Packets that passed without a number.
    passed: u64,
}

impl Account {
    /// Compares the packets that the kernel has `numbered` with those that the rules had counted by the last look;
    /// `offered` is what they have counted by now. Packets between the two count at the next look. Without rules none
    /// passes by, and later rules count from nothing.
    pub fn look(&mut self, numbered: u64, offered: Option<u64>) {
        let Some(now) = offered else {
            self.before = -i128::from(numbered) - i128::from(self.passed);
            return self.offered = Some(0);
        };
        match self.offered {
            Some(then) if then <= now => {
                let passed = i128::from(then) - self.before - i128::from(numbered);
                self.passed = self.passed.max(u64::try_from(passed).unwrap_or(0));
            }
            // New rules, or the first look.
            _ => self.before = i128::from(now) - i128::from(numbered) - i128::from(self.passed),
        }
        self.offered = Some(now);
    }

    /// Counts packets that have passed without a number.
    pub const fn passed(&self) -> u64 {
        self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_number_has_passed() {
        let mut account = Account::default();
        account.look(0, Some(0));
        account.look(10, Some(12));
        assert_eq!(account.passed(), 0, "two are on their way");
        account.look(20, Some(100));
        account.look(21, Some(100));
        assert_eq!(account.passed(), 79);
        // Rules that were put back count from the beginning; with none there is nothing to compare.
        account.look(25, Some(3));
        account.look(30, Some(8));
        assert_eq!(account.passed(), 79);
        account.look(30, Some(9));
        account.look(30, Some(9));
        assert_eq!(account.passed(), 80);
        account.look(40, None);
        account.look(40, None);
        account.look(50, Some(15));
        account.look(50, Some(15));
        assert_eq!(account.passed(), 85, "five of those since the rules are there again");
    }

    #[test]
    fn a_box_that_begins_counts_from_its_first_packet_and_a_successor_from_its_own() {
        let mut account = Account::default();
        account.look(0, None);
        account.look(10, Some(30));
        account.look(10, Some(30));
        assert_eq!(account.passed(), 20);
        let mut account = Account::default();
        account.look(0, Some(1000));
        account.look(10, Some(1010));
        account.look(10, Some(1010));
        assert_eq!(account.passed(), 0);
    }
}
