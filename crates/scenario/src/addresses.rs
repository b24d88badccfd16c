//! Assignment of addresses to users who come and go, in the simulator as in the lab.

/// The addresses of a group, from 0 on. A user who arrives takes the next free address in turn, or, if all are taken,
/// the next in turn.
#[derive(Clone, Debug)]
pub struct Addresses {
    taken: Vec<u32>,
    turn: usize,
}

impl Addresses {
    /// Creates a group of `count` addresses, at least one.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self { taken: vec![0; count.max(1) as usize], turn: 0 }
    }

    /// Gives an address to a user who arrives.
    pub fn take(&mut self) -> u32 {
        let n = self.taken.len();
        let free = (0..n).map(|i| (self.turn + i) % n).find(|at| self.taken[*at] == 0);
        let at = free.unwrap_or(self.turn);
        self.turn = (at + 1) % n;
        self.taken[at] += 1;
        at as u32
    }

    /// Takes back the address of a user who leaves.
    pub fn give_back(&mut self, address: u32) {
        self.taken[address as usize] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_round_and_the_free_first() {
        let mut addresses = Addresses::new(3);
        assert_eq!([addresses.take(), addresses.take(), addresses.take()], [0, 1, 2]);
        addresses.give_back(1);
        assert_eq!(addresses.take(), 1, "the only one nobody has");
        assert_eq!([addresses.take(), addresses.take()], [2, 0], "all are taken: in turn");
        addresses.give_back(0);
        addresses.give_back(2);
        assert_eq!(addresses.take(), 1, "two each at 0 and 2 before, one each now; 1 is next in turn");
    }
}
