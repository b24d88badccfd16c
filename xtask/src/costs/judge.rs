//! Judgement of a run: a queue of ours that has become dearer fails the build.
//!
//! Another compiler makes other code, and another kernel other paths. So figures are held against recorded ones only
//! where both were made alike; what is held always is a ratio between two figures of the same run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::case::{Case, Figure};
use super::table::Table;

/// Increase, as a share of the record, that a queue of ours may cost beyond no queue.
const PACKET: f64 = 0.03;
/// Increase, as a share of the record, that TAQ may cost beyond drop-tail: the lesser part of its costs, and the only
/// one that is the discipline's.
const BEYOND: f64 = 0.10;
/// Largest ratio of what TAQ takes beyond our drop-tail to what CAKE takes beyond the kernel's.
const OF_CAKE: f64 = 2.0;
/// Goal for the same ratio, which fails nothing.
const GOAL: f64 = 1.0;

/// Origin of figures. Two runs are comparable only if all of it is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Version of the guest's kernel, as printed by `uname -r`.
    pub kernel: String,
    /// Version of the compiler, as printed by `rustc --version`.
    pub rustc: String,
    /// Cargo's profile.
    pub profile: String,
    /// The processor's architecture.
    pub machine: String,
}

impl Made {
    /// Origin of figures that are made now, with a kernel and a profile.
    pub fn now(kernel: &str, profile: &str) -> Result<Self> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = Command::new(rustc).arg("--version").output().context("rustc --version")?;
        ensure!(said.status.success(), "rustc --version failed");
        Ok(Self {
            kernel: kernel.to_owned(),
            rustc: String::from_utf8_lossy(&said.stdout).trim().to_owned(),
            profile: profile.to_owned(),
            machine: std::env::consts::ARCH.to_owned(),
        })
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, rustc, profile, machine } = self;
        write!(f, "kernel {kernel}, {rustc}, profile {profile}, {machine}")
    }
}

/// Recorded figures of our queues: instructions for each packet, by the names of cases. What sending takes is in none
/// of them, as it depends on how this program is built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    made: Made,
    above_none: BTreeMap<String, f64>,
    above_drop_tail: BTreeMap<String, f64>,
}

impl Expected {
    /// Records a table.
    pub fn of(table: &Table, made: &Made) -> Self {
        let named = |figure: &Figure, value: Option<f64>| Some((figure.case.to_string(), value?.round()));
        let ours = || table.figures().iter().filter(|figure| figure.case.queue.is_ours());
        let taq = ours().filter(|figure| figure.case.queue.is_taq());
        Self {
            made: made.clone(),
            above_none: ours().filter_map(|figure| named(figure, table.above_none(figure))).collect(),
            above_drop_tail: taq.filter_map(|figure| named(figure, table.above_drop_tail(figure))).collect(),
        }
    }

    /// Reads recorded figures from a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Writes the expected figures to a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = format!(
            "# Instructions a packet, two of data to one acknowledgment, beyond no queue and beyond drop-tail.\n\
             # `cargo xtask costs --record` writes this file.\n\n{}",
            toml::to_string_pretty(self)?
        );
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }
}

/// Judgement of a table.
#[derive(Debug, Default, PartialEq)]
pub struct Judgement {
    /// Sentences on broken bounds; any fails the build.
    pub broken: Vec<String>,
    /// Sentences for people, which fail nothing.
    pub notes: Vec<String>,
}

/// Holds a table against what was recorded, and against CAKE in the same run.
pub fn judge(table: &Table, made: &Made, expected: &Expected) -> Judgement {
    let mut judgement = Judgement::default();
    against_cake(table, &mut judgement);
    if expected.made == *made {
        against_record(table, expected, &mut judgement);
    } else {
        judgement.notes.push(format!(
            "not held against the recorded figures, which were made otherwise: {}; now {made}",
            expected.made
        ));
    }
    judgement
}

fn against_record(table: &Table, expected: &Expected, judgement: &mut Judgement) {
    for figure in table.figures().iter().filter(|figure| figure.case.queue.is_ours()) {
        let now = table.above_none(figure);
        compare(&figure.case, "no queue", now, &expected.above_none, PACKET, judgement);
        if figure.case.queue.is_taq() {
            let now = table.above_drop_tail(figure);
            compare(&figure.case, "drop-tail", now, &expected.above_drop_tail, BEYOND, judgement);
        }
    }
}

/// Holds what a case costs beyond another against what is recorded of it.
fn compare(
    case: &Case,
    beyond: &str,
    now: Option<f64>,
    recorded: &BTreeMap<String, f64>,
    most: f64,
    judgement: &mut Judgement,
) {
    let Some(now) = now else { return };
    let Some(then) = recorded.get(&case.to_string()) else {
        judgement.notes.push(format!("{case}: nothing is recorded of it"));
        return;
    };
    let more = now / then - 1.0;
    let text = format!(
        "{case}: {now:.0} instructions a packet beyond {beyond}, recorded {then:.0}: {:+.1} %",
        100.0 * more
    );
    if more > most {
        judgement.broken.push(format!("{text}; at most {:+.0} %", 100.0 * most));
    } else if more < -most {
        judgement.notes.push(format!("{text}; --record keeps it so"));
    }
}

fn against_cake(table: &Table, judgement: &mut Judgement) {
    let mut worst: Option<(f64, String)> = None;
    for figure in table.figures().iter().filter(|figure| figure.case.queue.is_taq()) {
        let beyond = table.above_drop_tail(figure).zip(table.cake_above_drop_tail(&figure.case));
        let Some((ours, cake)) = beyond else { continue };
        let times = ours / cake;
        let text = format!(
            "{}: {ours:.0} instructions a packet beyond drop-tail, {times:.2} times CAKE's {cake:.0}",
            figure.case
        );
        if times > OF_CAKE {
            judgement.broken.push(format!("{text}; at most {OF_CAKE}"));
        }
        if worst.as_ref().is_none_or(|(most, _)| times > *most) {
            worst = Some((times, text));
        }
    }
    if let Some((times, text)) = worst {
        let kept = if times <= GOAL { "kept" } else { "missed" };
        judgement.notes.push(format!("goal {kept}, at most what CAKE takes; dearest: {text}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{Layer, Queue, Traffic};
    use super::*;

    fn figure(queue: Queue, packet: f64) -> Figure {
        let case = Case { layer: Layer::Routed, traffic: Traffic::Passing, flows: 100, queue };
        Figure { case, data: packet, ack: packet, packet }
    }

    fn ours(discipline: &str) -> Queue {
        Queue::Box { backend: "nfqueue".to_owned(), discipline: discipline.to_owned() }
    }

    /// CAKE takes 3000 beyond pfifo; ours as told.
    fn table(fifo: f64, taq: f64) -> Table {
        let kernel = |name: &str| Queue::Kernel(name.to_owned());
        Table::new(vec![
            figure(Queue::None, 7_000.0),
            figure(kernel("pfifo"), 7_200.0),
            figure(kernel("cake"), 10_200.0),
            figure(ours("fifo:1000"), fifo),
            figure(ours("taq"), taq),
        ])
    }

    fn made(rustc: &str) -> Made {
        let own = str::to_owned;
        Made { kernel: own("6.12"), rustc: own(rustc), profile: own("release"), machine: own("x86_64") }
    }

    fn broken(fifo: f64, taq: f64, rustc: &str) -> usize {
        let expected = Expected::of(&table(20_000.0, 24_000.0), &made("rustc 1"));
        judge(&table(fifo, taq), &made(rustc), &expected).broken.len()
    }

    #[test]
    fn a_queue_that_costs_three_in_a_hundred_more_than_recorded_fails() {
        assert_eq!(broken(20_000.0, 24_000.0, "rustc 1"), 0);
        // Beyond no queue drop-tail takes 13 400 instead of 13 000, 3.1 % more; TAQ 17 400, 2.4 %.
        assert_eq!(broken(20_400.0, 24_400.0, "rustc 1"), 1);
        assert_eq!(broken(20_400.0, 24_400.0, "rustc 2"), 0, "another compiler makes other code");
    }

    #[test]
    fn what_taq_takes_beyond_drop_tail_is_judged_by_itself() {
        // 17 450 is 2.6 % more beyond no queue, but 4 450 beyond drop-tail 11.3 %.
        assert_eq!(broken(20_000.0, 24_450.0, "rustc 1"), 1);
        assert_eq!(broken(20_000.0, 24_390.0, "rustc 1"), 0);
    }

    #[test]
    fn twice_what_cake_takes_fails_by_any_compiler() {
        assert_eq!(broken(20_000.0, 25_900.0, "rustc 2"), 0);
        assert_eq!(broken(20_000.0, 26_100.0, "rustc 2"), 1);
    }

    #[test]
    fn a_record_comes_back_from_its_file() {
        let folder = narrows_testing::Scratch::new("costs");
        let path = folder.join("costs.toml");
        let expected = Expected::of(&table(20_000.0, 24_000.0), &made("rustc 1"));
        expected.write(&path).unwrap();
        assert_eq!(Expected::read(&path).unwrap(), expected);
    }
}
