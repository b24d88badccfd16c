//! Shares of a group's users, slice by slice: sessions of files back to back have a share as long flows have one.
//!
//! Only where a group asks for it; elsewhere nothing is kept and nothing counted.

use core::ops::Range;

use narrows_scenario::Scenario;
use narrows_units::Duration;

use super::report::Tables;
use super::users::Users;
use crate::statistics::{add_each, jain, mean};

/// The users of a group, by number, and the index of each slice.
#[derive(Clone, Debug)]
struct Sharers {
    name: String,
    users: Vec<Range<usize>>,
    indices: Vec<f64>,
    /// Bytes of each user in each slice, if kept.
    got: Vec<Vec<u64>>,
}

/// Bytes that each user got.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    groups: Vec<Sharers>,
    /// Bytes of a packet, the least that can come.
    packet: u64,
    /// Payload in order, by the index of the user: in all, when the slice began, when counting began.
    delivered: Vec<u64>,
    at_slice: Vec<u64>,
    at_warmup: Vec<u64>,
    /// Whether shares by slice are kept, to be joined with those of other parts.
    keeps_all: bool,
}

impl Shares {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut first = 0;
        let mut entries = Vec::new();
        for t in &scenario.traffic {
            let next = first + t.users() as usize;
            entries.push(first..next);
            first = next;
        }
        let groups: Vec<Sharers> = scenario
            .probes
            .groups
            .iter()
            .filter(|g| g.shares)
            .map(|g| Sharers {
                name: g.name.clone(),
                users: g.traffic.iter().map(|t| entries[*t].clone()).collect(),
                indices: Vec::new(),
                got: Vec::new(),
            })
            .collect();
        Self { groups, packet: u64::from(scenario.mtu), ..Self::default() }
    }

    #[inline(always)]
    pub(super) fn took(&mut self, user_index: u32, bytes: u64) {
        if !self.groups.is_empty() {
            self.keep(user_index, bytes);
        }
    }

    #[inline(never)]
    fn keep(&mut self, user_index: u32, bytes: u64) {
        let user_index = user_index as usize;
        if user_index >= self.delivered.len() {
            self.delivered.resize(user_index + 1, 0);
        }
        self.delivered[user_index] += bytes;
    }

    /// Counting begins.
    pub(super) fn warm_up(&mut self) {
        self.at_warmup.clone_from(&self.delivered);
        self.at_slice.clone_from(&self.delivered);
    }

    pub(super) fn end_slice(&mut self, indices: &Users) {
        for group in &mut self.groups {
            let users = group.users.iter().cloned().flatten();
            let got: Vec<u64> =
                users.map(|u| since(indices.user_index(u), &self.delivered, &self.at_slice)).collect();
            if self.keeps_all {
                group.got.push(got);
            } else {
                group.indices.push(jain(&got));
            }
        }
        self.at_slice.clone_from(&self.delivered);
    }

    pub(super) const fn keep_all(&mut self) {
        self.keeps_all = true;
    }

    /// Adds the shares of another part's users, the first of whom has place `first` now.
    pub(super) fn absorb(&mut self, other: Self, first: usize) {
        let lists = [&mut self.delivered, &mut self.at_slice, &mut self.at_warmup];
        for (own, more) in lists.into_iter().zip([other.delivered, other.at_slice, other.at_warmup]) {
            own.resize(first, 0);
            own.extend(more);
        }
        for (own, more) in self.groups.iter_mut().zip(other.groups) {
            own.got.iter_mut().zip(more.got).for_each(|(sums, more)| add_each(sums, &more));
        }
    }

    /// Computes the indices of the shares kept, when all parts are there.
    pub(super) fn settle(&mut self) {
        for group in &mut self.groups {
            group.indices = core::mem::take(&mut group.got).iter().map(|got| jain(got)).collect();
        }
    }

    /// `counted` is the time since counting began.
    pub(super) fn report(&self, indices: &Users, slice: Duration, counted: Duration, out: &mut Tables) {
        for group in &self.groups {
            let users = group.users.iter().cloned().flatten();
            let got: Vec<u64> =
                users.map(|u| since(indices.user_index(u), &self.delivered, &self.at_warmup)).collect();
            let kbps = |bytes: f64| bytes * 8e-3 / counted.as_secs_f64();
            let stem = format!("of_{}", group.name);
            let index = format!("{stem}_jain_{}s", slice.as_secs_f64());
            out.put(format!("{index}_min"), group.indices.iter().copied().reduce(f64::min));
            out.put(index, mean(&group.indices));
            out.put(format!("{stem}_goodput_kbps"), kbps(got.iter().sum::<u64>() as f64));
            out.put(format!("{stem}_each_kbps"), geometric(&got, self.packet).map(kbps));
            out.put(format!("{stem}_got_nothing"), got.iter().filter(|b| **b == 0).count() as f64);
        }
    }
}

/// Bytes that came to a user since `before`; zero for a user who is not known.
fn since(user_index: Option<usize>, now: &[u64], before: &[u64]) -> u64 {
    let of = |list: &[u64]| user_index.and_then(|i| list.get(i)).copied().unwrap_or(0);
    of(now) - of(before)
}

/// The geometric mean, with at least `least` for each: one user of hundreds who got nothing would make it 0 whatever
/// the others have, and the mean over seeds a matter of whether there was one.
fn geometric(values: &[u64], least: u64) -> Option<f64> {
    let logs = values.iter().map(|v| narrows_scenario::maths::ln((*v).max(least) as f64));
    mean(&logs.collect::<Vec<_>>()).map(narrows_scenario::maths::exp)
}

#[cfg(test)]
mod tests {
    use super::geometric;

    #[test]
    fn a_user_who_got_nothing_counts_as_one_packet() {
        let of = |got: &[u64]| geometric(got, 500).unwrap();
        assert!((of(&[1000, 4000]) - 2000.0).abs() < 1e-9);
        assert!((of(&[0, 2000]) - 1000.0).abs() < 1e-9);
        assert!((of(&[0, 0]) - 500.0).abs() < 1e-9);
        assert_eq!(geometric(&[], 500), None);
    }
}
