//! A hash table of eight ways: who meets another in its place looks for a free one of seven others before sharing.
//!
//! Idea: Høiland-Jørgensen, Täht, Morton, Piece of CAKE, LANMAN 2018, section III-C.

/// Places of a set.
pub const WAYS: usize = 8;

/// Owner of each place.
#[derive(Clone, Debug)]
pub struct Ways {
    tags: Vec<u32>,
}

/// The place that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The flow's own place, as before.
    Own(usize),
    /// Free until now.
    New(usize),
    /// Somebody else's: all eight are taken.
    Shared(usize),
}

impl Found {
    pub const fn index(self) -> usize {
        match self {
            Self::Own(at) | Self::New(at) | Self::Shared(at) => at,
        }
    }
}

impl Ways {
    /// `places`, at least eight.
    pub fn new(places: usize) -> Self {
        Self { tags: vec![0; (places / WAYS).max(1) * WAYS] }
    }

    pub const fn len(&self) -> usize {
        self.tags.len()
    }

    /// The place of `hash`. `taken` tells whether a place is in use; `visited` whether guests without a place of their
    /// own have packets in it: then a guest stays, since packets of a flow may not be in two queues.
    pub fn find(
        &mut self,
        hash: u64,
        taken: impl Fn(usize) -> bool,
        visited: impl Fn(usize) -> bool,
    ) -> Found {
        let sets = (self.tags.len() / WAYS) as u64;
        let first = (((hash >> 32) * sets) >> 32) as usize * WAYS;
        let tag = hash as u32;
        let home = first + tag as usize % WAYS;
        let set = &mut self.tags[first..first + WAYS];
        if let Some(way) = set.iter().position(|t| *t == tag) {
            return Found::Own(first + way);
        }
        if visited(home) {
            return Found::Shared(home);
        }
        let turn = |n: usize| (tag as usize + n) % WAYS;
        match (0..WAYS).map(turn).find(|way| !taken(first + way)) {
            Some(way) => {
                set[way] = tag;
                Found::New(first + way)
            }
            None => Found::Shared(home),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_meet_without_sharing_and_the_ninth_stays_a_guest() {
        let mut ways = Ways::new(8);
        let mut taken = [false; 8];
        for tag in 1..=8u64 {
            let place = ways.find(tag * 8, |at| taken[at], |_| false);
            assert_eq!(place, Found::New(tag as usize - 1), "home is 0, then the next free one");
            taken[place.index()] = true;
        }
        assert_eq!(ways.find(16, |at| taken[at], |_| false), Found::Own(1));
        assert_eq!(ways.find(75, |at| taken[at], |_| false), Found::Shared(3));
        // One leaves. A guest whose packets still wait at home stays there; another takes the place.
        taken[5] = false;
        assert_eq!(ways.find(75, |at| taken[at], |at| at == 3), Found::Shared(3));
        assert_eq!(ways.find(75, |at| taken[at], |_| false), Found::New(5));
    }

    #[test]
    fn a_thousand_places_hold_five_hundred_flows_nearly_without_sharing() {
        // The paper's figure: with a plain hash of 1024, 500 flows collide with 1 - (1023/1024)^499 = 39 %.
        let (mut ways, mut dice) = (Ways::new(1024), crate::Dice::new(7));
        let mut taken = vec![false; 1024];
        let shared = (0..500)
            .filter(|_| {
                let place = ways.find(dice.roll(), |at| taken[at], |_| false);
                taken[place.index()] = true;
                matches!(place, Found::Shared(_))
            })
            .count();
        // A set of eight gets 3.9 on average; Poisson: more than eight in 1.9 % of sets.
        assert!(shared <= 10, "{shared}");
    }
}
