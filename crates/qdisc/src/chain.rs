//! Doubly linked lists through an array: a place leaves from anywhere in constant time, and nothing is allocated.

/// No place.
pub const NONE: u32 = u32::MAX;

/// The neighbours of each place; a place is in at most one [`Chain`] of the same links.
#[derive(Clone, Debug)]
pub struct Links(Vec<(u32, u32)>);

/// A list: its first and last place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    pub first: u32,
    pub last: u32,
}

impl Chain {
    pub const EMPTY: Self = Self { first: NONE, last: NONE };
}

impl Links {
    pub fn new(places: usize) -> Self {
        Self(vec![(NONE, NONE); places])
    }

    /// Room for `places`.
    pub fn grow(&mut self, places: usize) {
        self.0.resize(places.max(self.0.len()), (NONE, NONE));
    }

    pub fn push_back(&mut self, chain: &mut Chain, at: u32) {
        self.0[at as usize] = (chain.last, NONE);
        match chain.last {
            NONE => chain.first = at,
            last => self.0[last as usize].1 = at,
        }
        chain.last = at;
    }

    pub fn push_front(&mut self, chain: &mut Chain, at: u32) {
        self.0[at as usize] = (NONE, chain.first);
        match chain.first {
            NONE => chain.last = at,
            first => self.0[first as usize].0 = at,
        }
        chain.first = at;
    }

    /// Who stands behind `at`.
    pub fn after(&self, at: u32) -> u32 {
        self.0[at as usize].1
    }

    /// Takes `at` out of `chain`, in which it must be.
    pub fn remove(&mut self, chain: &mut Chain, at: u32) {
        let (before, after) = self.0[at as usize];
        match before {
            NONE => chain.first = after,
            before => self.0[before as usize].1 = after,
        }
        match after {
            NONE => chain.last = before,
            after => self.0[after as usize].0 = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_and_go_at_both_ends_and_between() {
        let (mut links, mut chain) = (Links::new(5), Chain::EMPTY);
        (0..3).for_each(|n| links.push_back(&mut chain, n));
        links.push_front(&mut chain, 4);
        let list = |links: &Links, chain: &Chain| {
            let mut found = Vec::new();
            let mut at = chain.first;
            while at != NONE {
                found.push(at);
                at = links.0[at as usize].1;
            }
            found
        };
        assert_eq!(list(&links, &chain), [4, 0, 1, 2]);
        links.remove(&mut chain, 1);
        links.remove(&mut chain, 4);
        links.push_back(&mut chain, 1);
        assert_eq!(list(&links, &chain), [0, 2, 1]);
        [2, 1, 0].into_iter().for_each(|n| links.remove(&mut chain, n));
        assert_eq!(chain, Chain::EMPTY);
    }
}
