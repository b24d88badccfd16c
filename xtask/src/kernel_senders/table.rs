//! The figures of all variants: a table in Markdown, the same as CSV, and all confusions as CSV.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::score::Score;
use super::truth::Why;

/// The two causes that the table is about.
const SHOWN: [Why; 2] = [Why::Timeout, Why::FastRetransmit];

/// Title and figures of a variant.
pub type Line = (&'static str, Score);

/// The table: at the sender how many there were, and how well they are told; behind the link how many are said, as a
/// share of those that the kernel had.
pub fn markdown(lines: &[Line]) -> String {
    let mut text = String::from(
        "| senders | timeouts | precision | recall | fast retransmits | precision | recall | \
         timeouts behind, said / had | fast retransmits behind, said / had |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (title, score) in lines {
        _ = write!(text, "| {title} |");
        for why in SHOWN {
            let (precision, recall) = (score.sender.precision(why), score.sender.recall(why));
            _ = write!(text, " {} | {} | {} |", score.sender.were(why), figure(precision), figure(recall));
        }
        for behind in [score.timeouts_behind, score.fast_behind] {
            let ratio = behind.ratio();
            _ = write!(text, " {} / {} = {} |", behind.said, behind.were, figure(ratio));
        }
        text.push('\n');
    }
    text
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |x| format!("{x:.3}"))
}

/// Writes `kernel-senders.md`, `kernel-senders.csv` and `confusion.csv`.
///
/// # Errors
/// If one cannot be written.
pub fn write(lines: &[Line], out: &Path) -> Result<()> {
    let path = out.join("kernel-senders.md");
    std::fs::write(&path, markdown(lines)).with_context(|| format!("writing {}", path.display()))?;
    let path = out.join("kernel-senders.csv");
    figures(lines, &path).with_context(|| format!("writing {}", path.display()))?;
    let path = out.join("confusion.csv");
    confusions(lines, &path).with_context(|| format!("writing {}", path.display()))
}

fn figures(lines: &[Line], path: &Path) -> Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    csv.write_record([
        "senders",
        "cause",
        "at_sender",
        "precision",
        "recall",
        "behind_had",
        "behind_said",
        "behind_ratio",
    ])?;
    for (title, score) in lines {
        for (why, behind) in SHOWN.into_iter().zip([score.timeouts_behind, score.fast_behind]) {
            let number = |value: Option<f64>| value.map_or_else(String::new, |x| format!("{x:.4}"));
            csv.write_record([
                (*title).to_owned(),
                why.name().to_owned(),
                score.sender.were(why).to_string(),
                number(score.sender.precision(why)),
                number(score.sender.recall(why)),
                behind.were.to_string(),
                behind.said.to_string(),
                number(behind.ratio()),
            ])?;
        }
    }
    Ok(csv.flush()?)
}

fn confusions(lines: &[Line], path: &Path) -> Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    csv.write_record(["senders", "was", "said", "packets"])?;
    for (title, score) in lines {
        for was in Why::ALL {
            for said in Why::ALL.into_iter().map(Some).chain([None]) {
                let packets = score.sender.of(was, said);
                if packets > 0 {
                    let said = said.map_or("nothing", Why::name);
                    csv.write_record([title, was.name(), said, packets.to_string().as_str()])?;
                }
            }
        }
    }
    Ok(csv.flush()?)
}

#[cfg(test)]
mod tests {
    use super::super::score::Counts;
    use super::*;

    #[test]
    fn a_variant_without_losses_has_no_precision() {
        let fast_behind = Counts { were: 4, said: 5 };
        let score = Score { fast_behind, ..Score::default() };
        let text = markdown(&[("cubic-30", score)]);
        let row = text.lines().nth(2).unwrap();
        assert_eq!(row, "| cubic-30 | 0 | - | - | 0 | - | - | 0 / 0 = - | 5 / 4 = 1.250 |");
        let columns = |line: &str| line.matches('|').count();
        assert!(text.lines().all(|line| columns(line) == columns(row)), "{text}");
    }
}
