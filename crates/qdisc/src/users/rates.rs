//! Rates of users in one direction, as a file and those who tell changes give them.

use std::sync::Arc;

use narrows_units::Rate;
use narrows_users::{CircuitId, User};

/// Levels of sites above a circuit, at most: a turn of a user is booked at each.
pub const LEVELS: usize = 8;

/// A site: circuits and other sites that share the site's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Rate of the site; `None` for no limit.
    pub rate: Option<Rate>,
    /// Site above, at which the site hangs; stands before the site in the list.
    pub above: Option<u32>,
}

/// Rates of circuits, of the sites they hang at, and of users who are in no circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CircuitRates {
    circuits: Arc<[Option<Rate>]>,
    others: Option<Rate>,
    sites: Arc<[Site]>,
    /// Site of each circuit, by number; circuits beyond the end hang at no site.
    site_of: Arc<[Option<u32>]>,
}

impl CircuitRates {
    /// Rates of circuits by number; `None` for no limit.
    #[must_use]
    pub fn new(circuits: impl Into<Arc<[Option<Rate>]>>) -> Self {
        Self { circuits: circuits.into(), ..Self::default() }
    }

    /// Gives `rate` to each user that is no circuit.
    #[must_use]
    pub fn with_others(self, rate: Option<Rate>) -> Self {
        Self { others: rate, ..self }
    }

    /// Hangs circuits at sites: the place of each circuit's in `sites`, by the circuit's number. A site whose place is
    /// not after that of the site above it, or more than [`LEVELS`] deep, hangs at none.
    #[must_use]
    pub fn with_sites(self, sites: &[Site], site_of: impl Into<Arc<[Option<u32>]>>) -> Self {
        let mut depths: Vec<usize> = Vec::new();
        let checked = sites.iter().map(|site| {
            let above = site.above.filter(|above| depths.get(*above as usize).is_some_and(|d| *d < LEVELS));
            depths.push(above.map_or(0, |above| depths[above as usize]) + 1);
            Site { above, ..*site }
        });
        let sites: Vec<Site> = checked.collect();
        Self { sites: sites.into(), site_of: site_of.into(), ..self }
    }

    /// Rate of a user; `None` for no limit.
    #[must_use]
    pub fn of(&self, user: User) -> Option<Rate> {
        match user.as_circuit() {
            Some(CircuitId(number)) => self.circuits.get(number as usize).copied().flatten(),
            None if user == User::STRANGERS => None,
            None => self.others,
        }
    }

    /// Place of a user's site in [`Self::sites`].
    #[must_use]
    pub fn site(&self, user: User) -> Option<u32> {
        let site = self.site_of.get(user.as_circuit()?.0 as usize).copied().flatten();
        site.filter(|site| (*site as usize) < self.sites.len())
    }

    /// The sites; each stands after the site at which it hangs.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The lowest of all rates; `None` if there is none.
    #[must_use]
    pub fn lowest(&self) -> Option<Rate> {
        let sites = self.sites.iter().filter_map(|site| site.rate);
        self.circuits.iter().copied().flatten().chain(self.others).chain(sites).min()
    }
}

impl<const N: usize> From<[Option<Rate>; N]> for CircuitRates {
    fn from(circuits: [Option<Rate>; N]) -> Self {
        Self::new(circuits)
    }
}
