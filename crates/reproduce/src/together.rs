//! Settings that a plan sweeps together: one of them stands for all, so that a value's place names it once.

use std::collections::BTreeMap;

use narrows_runner::RunPlan;

/// The settings of a plan that follow others.
pub(crate) struct Together<'a> {
    plan: &'a RunPlan,
    /// Places of axes with more than one value, by the place of the first whose value decides theirs and is decided by
    /// it.
    followers: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Together<'a> {
    pub(crate) fn of(plan: &'a RunPlan) -> Self {
        let mut followers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let swept = |at: &usize| plan.jobs.iter().any(|job| job.coords[*at] != plan.jobs[0].coords[*at]);
        for at in (0..plan.axes.len()).filter(swept) {
            let leader = followers.keys().copied().find(|leader| alike(plan, *leader, at));
            match leader {
                Some(leader) => followers.entry(leader).or_default().push(at),
                None => {
                    followers.insert(at, Vec::new());
                }
            }
        }
        Self { plan, followers }
    }

    /// Whether a setting's value is told by another's.
    pub(crate) fn is_told(&self, name: &str) -> bool {
        self.followers.values().flatten().any(|at| self.plan.axes[*at].name == name)
    }

    /// Writes the values that follow another setting's, as `tcp.preset=ns2: tcp.prr=off`.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for (leader, followers) in self.followers.iter().filter(|(_, followers)| !followers.is_empty()) {
            for job in &self.plan.jobs {
                let pair = |at: &usize| format!("{}={}", self.plan.axes[*at].name, job.coords[*at]);
                let others: Vec<String> = followers.iter().map(pair).collect();
                let line = format!("{}: {}", pair(leader), others.join(", "));
                if !words.contains(&line) {
                    words.push(line);
                }
            }
        }
        words
    }
}

/// Whether two axes have one value of the one for each value of the other.
fn alike(plan: &RunPlan, one: usize, other: usize) -> bool {
    let decides = |from: usize, to: usize| {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        plan.jobs.iter().all(|job| {
            let value = job.coords[to].as_str();
            *seen.entry(job.coords[from].as_str()).or_insert(value) == value
        })
    };
    decides(one, other) && decides(other, one)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn settings_that_go_together_are_told_once() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/taq/fig08-taq.toml");
        let (plan, _) = RunPlan::load(&file, &["seeds=[1]".to_owned()]).unwrap();
        let together = Together::of(&plan);
        let told =
            ["tcp.prr", "tcp.rto_recovery", "tcp.rtt_sampling", "tcp.preset", "share", "rate", "dephase"];
        assert_eq!(told.map(|name| together.is_told(name)), [true, true, true, false, false, false, false]);
        assert_eq!(
            together.words(),
            [
                "tcp.preset=ns2: tcp.prr=off, tcp.rto_recovery=go_back_n, tcp.rtt_sampling=one_at_a_time",
                "tcp.preset=linux: tcp.prr=on, tcp.rto_recovery=scoreboard, tcp.rtt_sampling=every_segment",
            ]
        );
    }
}
