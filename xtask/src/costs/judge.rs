//! What fails a build: a queue of ours that has become dearer.
//!
//! Another compiler makes other code, and another kernel other paths. So figures are held against recorded ones only
//! where both were made alike; what is held always is a ratio between two figures of the same run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::case::{Case, Queue};
use super::table::Table;

/// A packet through a queue of ours may cost so much more than recorded, as a share.
const PACKET: f64 = 0.03;
/// What TAQ takes beyond drop-tail may be so much more than recorded, as a share. It is a tenth to a sixth of what a
/// packet costs, and a difference of two figures.
const BEYOND: f64 = 0.10;
/// TAQ may take so many times beyond drop-tail of ours what CAKE takes beyond the kernel's.
const OF_CAKE: f64 = 2.0;
/// What is aimed at.
const GOAL: f64 = 1.0;

/// By what figures were made. They are comparable only if all of it is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// As `uname -r` says in the guest.
    pub kernel: String,
    /// As `rustc --version` says.
    pub rustc: String,
    /// Cargo's profile.
    pub profile: String,
    /// The processor's architecture.
    pub machine: String,
}

impl Made {
    /// Figures of now, with this kernel and profile.
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

/// Recorded figures: instructions for each packet, by the names of cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    made: Made,
    packet: BTreeMap<String, f64>,
}

impl Expected {
    /// Records a table.
    pub fn of(table: &Table, made: &Made) -> Self {
        let round = |x: f64| (x * 10.0).round() / 10.0;
        let packet = table.figures().iter().map(|f| (f.case.to_string(), round(f.packet))).collect();
        Self { made: made.clone(), packet }
    }

    /// Reads a record.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Writes it.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = format!(
            "# Instructions for each packet, of two data packets to one acknowledgment; `cargo xtask costs --record`\n\
             # writes it anew.\n\n{}",
            toml::to_string_pretty(self)?
        );
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }

    fn packet(&self, case: &Case) -> Option<f64> {
        self.packet.get(&case.to_string()).copied()
    }

    fn above_drop_tail(&self, case: &Case) -> Option<f64> {
        let drop_tail = Case { queue: case.queue.drop_tail()?, ..case.clone() };
        Some(self.packet(case)? - self.packet(&drop_tail)?)
    }
}

/// What is said of a table.
#[derive(Debug, Default, PartialEq)]
pub struct Judgement {
    /// What breaks a bound.
    pub broken: Vec<String>,
    /// What people should know.
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
    for figure in table.figures() {
        let Queue::Box { .. } = figure.case.queue else { continue };
        let Some(recorded) = expected.packet(&figure.case) else {
            judgement.notes.push(format!("{}: nothing is recorded of it", figure.case));
            continue;
        };
        let more = figure.packet / recorded - 1.0;
        let text = format!(
            "{}: {:.0} instructions a packet, recorded {recorded:.0}: {:+.1} %",
            figure.case,
            figure.packet,
            100.0 * more
        );
        if more > PACKET {
            judgement.broken.push(format!("{text}; at most {:+.0} %", 100.0 * PACKET));
        } else if more < -PACKET {
            judgement.notes.push(format!("{text}; --record keeps it so"));
        }
        let beyond = table.above_drop_tail(figure).zip(expected.above_drop_tail(&figure.case));
        if let Some((now, then)) = beyond
            && figure.case.queue.is_taq()
            && now > then * (1.0 + BEYOND)
        {
            judgement.broken.push(format!(
                "{}: {now:.0} instructions a packet beyond drop-tail, recorded {then:.0}; at most {:+.0} %",
                figure.case,
                100.0 * BEYOND
            ));
        }
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
    use super::super::case::{Figure, Layer, Traffic};
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
    fn a_packet_that_costs_three_in_a_hundred_more_than_recorded_fails() {
        assert_eq!(broken(20_000.0, 24_000.0, "rustc 1"), 0);
        // 20 700 is 3.5 % more, and TAQ beyond it 3 900 instead of 4 000.
        assert_eq!(broken(20_700.0, 24_600.0, "rustc 1"), 1);
        assert_eq!(broken(20_700.0, 24_600.0, "rustc 2"), 0, "another compiler makes other code");
    }

    #[test]
    fn what_taq_takes_beyond_drop_tail_is_judged_by_itself() {
        // 24 500 is 2.1 % more, but 4 500 beyond drop-tail 12.5 %.
        assert_eq!(broken(20_000.0, 24_500.0, "rustc 1"), 1);
        assert_eq!(broken(20_000.0, 24_300.0, "rustc 1"), 0);
    }

    #[test]
    fn twice_what_cake_takes_fails_by_any_compiler() {
        assert_eq!(broken(20_000.0, 25_900.0, "rustc 2"), 0);
        assert_eq!(broken(20_000.0, 26_100.0, "rustc 2"), 1);
    }

    #[test]
    fn a_record_comes_back_from_its_file() {
        let path = std::env::temp_dir().join(format!("narrows-costs-{}.toml", std::process::id()));
        let expected = Expected::of(&table(20_000.0, 24_000.0), &made("rustc 1"));
        expected.write(&path).unwrap();
        let read = Expected::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), expected);
    }
}
