//! Decisions of shapers that follow their link, as a box writes them.

use narrows_qdisc::follow::{DECISION_COLUMNS, Decision, DecisionCell};
use narrows_units::Duration;

use super::plan::ProbePlan;
use super::report::{Tables, numbers, words};
use crate::network::Network;
use crate::results::Column;

/// Time between two fetches: a discipline keeps decisions of some more seconds.
pub(super) const FETCHES_EVERY: Duration = Duration::from_secs(1);

/// Decisions so far, each with the place of its link in the plan.
#[derive(Debug, Default)]
pub(super) struct Decisions(Vec<(usize, Decision)>);

impl Decisions {
    /// Has all disciplines record their decisions from now on.
    pub(super) fn watch(plan: &ProbePlan, net: &mut Network) {
        for watched in &plan.links {
            if let Some(queue) = net.links[watched.link.index()].discipline_mut() {
                queue.discipline.record_decisions(true);
            }
        }
    }

    /// Fetches what was decided since the last call.
    pub(super) fn take(&mut self, plan: &ProbePlan, net: &mut Network) {
        for (place, watched) in plan.links.iter().enumerate() {
            let Some(queue) = net.links[watched.link.index()].discipline_mut() else { continue };
            while let Some(decision) = queue.discipline.next_decision() {
                self.0.push((place, decision));
            }
            debug_assert_eq!(queue.discipline.decisions_lost(), 0, "decisions of {}", watched.name);
        }
    }

    /// Adds the decisions of another part of the run.
    pub(super) fn absorb(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn report(mut self, plan: &ProbePlan, out: &mut Tables) {
        self.0.sort_by_key(|(place, decision)| (decision.at, *place));
        let all = &self.0;
        let times = all.iter().map(|(_, decision)| (decision.at.as_secs_f64() * 1e3).round() / 1e3);
        let names = all.iter().map(|(place, _)| plan.links[*place].name.clone());
        let mut columns = vec![numbers("time_s", times), words("link", names)];
        let cells: Vec<_> = all.iter().map(|(_, decision)| decision.cells()).collect();
        let names = DECISION_COLUMNS.iter().skip(columns.len());
        for (at, ((name, _), kind)) in names.zip(Decision::default().cells()).enumerate() {
            columns.push(column(name, kind, cells.iter().map(|cells| cells[at])));
        }
        out.table("decisions", columns);
    }
}

fn column(name: &str, kind: DecisionCell, values: impl Iterator<Item = DecisionCell>) -> Column {
    match kind {
        DecisionCell::Text(_) => words(name, values.map(|value| value.to_string())),
        DecisionCell::Number(_) | DecisionCell::Time(_) => numbers(name, values.map(|value| value.number())),
    }
}
