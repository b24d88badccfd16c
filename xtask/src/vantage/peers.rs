//! Verdicts of Wireshark and tcptrace on the captures at the users, beside the truth and `narrows diagnose`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::score::Score;
use super::truth::Why;

/// Findings of a program in one capture; a field of an absent program is `None`.
pub struct Said {
    pub name: String,
    pub score: Score,
    expert: Option<Expert>,
    tcptrace_again: Option<u64>,
}

/// Counts of Wireshark's expert information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Expert {
    retransmissions: u64,
    fast: u64,
    spurious: u64,
    duplicate_acks: u64,
    not_captured: u64,
    out_of_order: u64,
}

impl Expert {
    /// Reads the lines that `tshark -z expert` prints: a count, the group, the protocol, and a sentence.
    fn read(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let Some(count) = words.next().and_then(|n| n.parse::<u64>().ok()) else { continue };
            let to = match () {
                () if line.contains("spurious retransmission") => &mut found.spurious,
                () if line.contains("fast retransmission") => &mut found.fast,
                () if line.contains("(suspected) retransmission") => &mut found.retransmissions,
                () if line.contains("Duplicate ACK") => &mut found.duplicate_acks,
                () if line.contains("not captured") => &mut found.not_captured,
                () if line.contains("out-of-order") => &mut found.out_of_order,
                () => continue,
            };
            *to += count;
        }
        found
    }
}

/// Asks the other programs about a capture.
pub fn ask(name: String, capture: &Path, score: Score) -> Said {
    let text = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).arg(capture).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let expert = text("tshark", &["-q", "-z", "expert", "-r"]).map(|t| Expert::read(&t));
    let tcptrace_again = text("tcptrace", &["-l"]).map(|t| again(&t));
    Said { name, score, expert, tcptrace_again }
}

/// Sum of what tcptrace counts as sent again, in both directions.
fn again(text: &str) -> u64 {
    let lines = text.lines().filter(|l| l.contains("rexmt data pkts:"));
    lines.flat_map(str::split_whitespace).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// A row a capture.
pub fn table(all: &[Said]) -> String {
    let mut text = String::from(
        "\nAt the users: seconds waited in truth for the application, for repairs of losses, for packets on the way | \
         as `narrows diagnose` says, and unknown | Wireshark's expert information | tcptrace\n\n\
         | capture | true: application, loss, way | narrows: application, loss, way, unknown | retransmissions, fast, \
         spurious | duplicate ACKs | not captured, out of order | tcptrace: sent again |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    for said in all {
        let m = said.score.matrix_ns;
        let s = |ns: i64| format!("{:.0}", ns as f64 / 1e9);
        let truth = |why: Why| s(m[why as usize].iter().sum());
        let told = |why: Why| s(m.iter().map(|row| row[why as usize]).sum());
        let unknown = s(m.iter().map(|row| row[4]).sum());
        _ = write!(
            text,
            "| {} | {}, {}, {} | {}, {}, {}, {unknown} |",
            said.name,
            truth(Why::Application),
            truth(Why::Loss),
            truth(Why::Waiting),
            told(Why::Application),
            told(Why::Loss),
            told(Why::Waiting)
        );
        match said.expert {
            Some(e) => {
                _ = write!(
                    text,
                    " {}, {}, {} | {} | {}, {} |",
                    e.retransmissions, e.fast, e.spurious, e.duplicate_acks, e.not_captured, e.out_of_order
                );
            }
            None => text.push_str(" not installed | | |"),
        }
        _ = writeln!(
            text,
            " {} |",
            said.tcptrace_again.map_or("not installed".to_owned(), |n| n.to_string())
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_the_expert_information() {
        let text = "Warns (3)\n\
            \x20   2   Sequence  TCP  Previous segment(s) not captured (common at capture start)\n\
            \x20   5   Sequence  TCP  This frame is a (suspected) retransmission\n\
            \x20   1   Sequence  TCP  This frame is a (suspected) fast retransmission\n\
            \x20   4   Sequence  TCP  Duplicate ACK (#1)\n    3   Sequence  TCP  Duplicate ACK (#2)\n";
        let expected =
            Expert { retransmissions: 5, fast: 1, duplicate_acks: 7, not_captured: 2, ..Expert::default() };
        assert_eq!(Expert::read(text), expected);
        assert_eq!(again("  rexmt data pkts:      3      rexmt data pkts:     0 \n"), 3);
    }
}
