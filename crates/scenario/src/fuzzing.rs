//! Properties that hold for any text: reading never panics, and the canonical text of an accepted scenario reads as the
//! same scenario.

use std::collections::BTreeMap;

use crate::{Experiment, Sample, Size};

/// Reads any bytes as a scenario file, for simulator and lab, and judges its claims on one invented result.
///
/// # Panics
/// If a canonical text does not read as the scenario it is of.
pub fn scenario(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = text.parse::<Size>();
    let Ok(mut experiment) = Experiment::parse(&text, &[]) else { return };
    let metrics: BTreeMap<String, f64> = [("jain_20s".to_owned(), 0.5), ("loss".to_owned(), f64::NAN)].into();
    let sample = |seed| Sample {
        coords: [("share".to_owned(), "5".to_owned())].into(),
        seed,
        metrics: metrics.clone(),
    };
    for claim in &experiment.claims {
        let _ = claim.judge(&[]);
        let _ = claim.judge(&[sample(1), sample(2)]);
    }
    // A sweep is checked point by point: a few tell as much as many.
    if experiment.points() > 16 || experiment.seeds.len() > 16 {
        return;
    }
    let _ = experiment.for_lab();
    if experiment.for_simulator().is_err() {
        return;
    }
    for run in experiment.expand().into_iter().flatten() {
        let again = Experiment::parse(&run.scenario.text, &[]).and_then(|e| e.expand());
        let again = again.expect("a canonical text is a scenario");
        assert_eq!(*again[0].scenario, *run.scenario);
    }
}

#[cfg(test)]
mod tests {
    /// Complete files of the reference, cut, spliced and garbled.
    #[test]
    fn any_text() {
        let Some(docs) = crate::reference::documents() else { return };
        let files: Vec<&str> = docs.split("```").filter_map(|b| b.strip_prefix("toml\n")).collect();
        let text = docs.split(['\n', '`', '|']).map(str::trim).filter(|p| p.contains('=') && p.len() > 3);
        // A key and the example of its value: cells of one row.
        let keys = docs.lines().filter(|l| l.starts_with("| `")).filter_map(|l| {
            let mut cells = l.trim_matches('|').split('|').map(|c| c.trim().trim_matches('`'));
            Some(format!("{} = {}", cells.next()?, cells.nth(1)?))
        });
        let pieces: Vec<String> = text.map(str::to_owned).chain(keys).collect();
        for file in &files {
            super::scenario(file.as_bytes());
        }
        for seed in 1..=3_000u64 {
            let mut rng = seed;
            let mut below = |n: usize| {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (rng >> 33) as usize % n.max(1)
            };
            let mut lines: Vec<String> = files[below(files.len())].lines().map(str::to_owned).collect();
            for _ in 0..=below(4) {
                let at = below(lines.len());
                match below(4) {
                    0 => lines.insert(at, pieces[below(pieces.len())].clone()),
                    1 => lines[at] = pieces[below(pieces.len())].clone(),
                    2 => drop(lines.remove(at)),
                    _ => {
                        let mut bytes = lines[at].clone().into_bytes();
                        let i = below(bytes.len() + 1);
                        bytes.splice(i..(i + below(3)).min(bytes.len()), [below(128) as u8]);
                        lines[at] = String::from_utf8_lossy(&bytes).into_owned();
                    }
                }
            }
            let text = lines.join("\n");
            let outcome = std::panic::catch_unwind(|| super::scenario(text.as_bytes()));
            assert!(outcome.is_ok(), "seed {seed}:\n{text}");
        }
    }
}
