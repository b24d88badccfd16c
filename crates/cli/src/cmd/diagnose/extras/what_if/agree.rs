//! Whether a fit can be trusted: the link as it is comes out of the simulation as it was measured.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::collect::Collector;
use super::link::Link;
use super::measure::Figures;
use super::queue;
use super::workload::Workload;
use super::{Fit, Source, virtual_queue};

/// Greatest relative difference of rates, and of goodputs, that agree.
const NEAR_RATE: f64 = 0.1;
/// Greatest relative difference of the numbers of transfers at a time that agree.
const NEAR_LOAD: f64 = 0.25;
/// Greatest difference of shares of repaired data packets that agree.
const NEAR_REPAIRED: f64 = 0.05;
/// Greatest difference of shares of users with a long stall that agree.
const NEAR_STALLED: f64 = 0.2;
/// Median stalls agree within this factor; below a second they are of no account.
const NEAR_STALL: f64 = 2.0;
/// Worst stalls agree within this factor: of few users the worst is a single stall, and each lost repair doubles it.
const NEAR_WORST: f64 = 3.0;
const SHORT_S: f64 = 1.0;
/// The greatest share of bytes that need not be simulated.
const MOST_OTHER: f64 = 0.1;
/// Widths of columns.
const NAMES: usize = 34;
const VALUES: usize = 13;

/// Figures that the fit finds in the simulated present.
#[derive(Clone, Debug)]
pub struct Again {
    rate_bps: f64,
    packets: Option<u32>,
    rtt_p50_s: f64,
    users: usize,
    busy: f64,
}

impl Again {
    /// Fits the simulated capture; `None` if no link or no workload fits.
    pub fn of(c: &mut Collector, fit: &Fit) -> Option<Self> {
        let (way, before, rate_bps) = (fit.link.way, fit.link.before, fit.rate_bps);
        let link = Link::seen(c, way, before)?;
        // The rate that was simulated is known.
        let explained = if before { virtual_queue::fit(c, way, rate_bps, true) } else { None };
        if let Some(queue) = &explained {
            c.explain(1 - way, &queue.bare);
        }
        let waits = link.queue_s.filter(|_| !before).map(|s| queue::packets(s, rate_bps, link.mean));
        let workload = Workload::of(c)?;
        Some(Self {
            rate_bps: link.rate_bps,
            packets: explained.map(|queue| queue.packets).or(waits),
            rtt_p50_s: workload.rtt_s[1],
            users: workload.users,
            busy: workload.busy,
        })
    }
}

/// Figure measured in the capture and simulated on the link as it is.
struct Compared {
    /// Name in the table.
    name: &'static str,
    /// Name in the JSON.
    key: &'static str,
    measured: Option<f64>,
    simulated: Option<f64>,
    unit: &'static str,
    decimals: usize,
    /// Whether the measured and the simulated figure are near each other, or need not be.
    near: bool,
}

impl Compared {
    fn cell(&self, value: Option<f64>) -> String {
        value.map_or("-".to_owned(), |v| format!("{v:.*}{}", self.decimals, self.unit))
    }
}

impl Compared {
    /// Sentence on how the two differ.
    fn why(&self) -> String {
        match (self.measured, self.simulated) {
            (None, _) => format!("{} of the capture is above the link's rate", self.name),
            (_, None) => format!("{} is not found in the simulation", self.name),
            (measured, simulated) => {
                format!("{} {} instead of {}", self.name, self.cell(simulated), self.cell(measured))
            }
        }
    }
}

/// Agreement of the capture and the simulated present.
pub struct Agreement {
    compared: Vec<Compared>,
    /// Reasons against any trust, whatever the figures.
    forbids: Vec<String>,
}

fn within(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= part * a.abs().max(1e-9)
}

fn stalls(a: f64, b: f64, factor: f64) -> bool {
    a.max(b) <= SHORT_S || a.max(b) <= factor * a.min(b)
}

impl Agreement {
    pub fn of(fit: &Fit, captured: &Figures, simulated: &Figures, again: Option<&Again>) -> Self {
        let w = &fit.workload;
        let all = |name, key, (measured, simulated): (f64, Option<f64>), unit, decimals, near| Compared {
            name,
            key,
            measured: Some(measured),
            simulated,
            unit,
            decimals,
            near,
        };
        let of = |get: fn(&Again) -> f64| again.map(get);
        let near = |measured: f64, found: Option<f64>, part| found.is_some_and(|s| within(measured, s, part));
        let (rate, load) = (of(|a| a.rate_bps), of(|a| a.busy));
        let rate_near = fit.rate_from != Source::Observed || near(fit.rate_bps, rate, NEAR_RATE);
        let [goodput, simulated_goodput] = [captured, simulated].map(|f| f.goodput_within(fit.rate_bps));
        let kbps = |bps: Option<f64>| bps.map(|b| b / 1e3);
        let (p50, p99) = ("longest stall of a user, median", "longest stall of a user, p99");
        let stalled = (captured.stalled_over - simulated.stalled_over).abs() <= NEAR_STALLED;
        let repaired = (captured.repaired - simulated.repaired).abs() <= NEAR_REPAIRED;
        let compared = vec![
            all("rate", "rate_kbps", (fit.rate_bps / 1e3, kbps(rate)), " kbit/s", 0, rate_near),
            all(
                "buffer",
                "buffer_packets",
                (fit.queue_packets.into(), again.and_then(|a| a.packets).map(f64::from)),
                " packets",
                0,
                true,
            ),
            all(
                "round trip without queue, median",
                "rtt_p50_ms",
                (w.rtt_s[1] * 1e3, of(|a| a.rtt_p50_s * 1e3)),
                " ms",
                0,
                true,
            ),
            all("users", "users", (w.users as f64, of(|a| a.users as f64)), "", 0, true),
            all("transfers under way, mean", "busy", (w.busy, load), "", 1, near(w.busy, load, NEAR_LOAD)),
            Compared {
                name: "goodput",
                key: "goodput_kbps",
                measured: kbps(goodput),
                simulated: kbps(simulated_goodput),
                unit: " kbit/s",
                decimals: 0,
                near: goodput.is_some_and(|g| near(g, simulated_goodput, NEAR_RATE)),
            },
            all(
                p50,
                "stall_p50_s",
                (captured.stall_p50_s, Some(simulated.stall_p50_s)),
                " s",
                1,
                stalls(captured.stall_p50_s, simulated.stall_p50_s, NEAR_STALL),
            ),
            all(
                p99,
                "stall_p99_s",
                (captured.stall_p99_s, Some(simulated.stall_p99_s)),
                " s",
                1,
                stalls(captured.stall_p99_s, simulated.stall_p99_s, NEAR_WORST),
            ),
            all(
                "users with a long stall",
                "stalled_over_percent",
                (captured.stalled_over * 100.0, Some(simulated.stalled_over * 100.0)),
                " %",
                0,
                stalled,
            ),
            all(
                "data packets repaired",
                "repaired_percent",
                (captured.repaired * 100.0, Some(simulated.repaired * 100.0)),
                " %",
                1,
                repaired,
            ),
        ];
        Self { compared, forbids: forbids(fit) }
    }

    pub fn is_trusted(&self) -> bool {
        self.why_not().is_empty()
    }

    /// Reasons why the fit is not to be trusted; empty if the fit is trusted.
    pub fn why_not(&self) -> Vec<String> {
        let far = self.compared.iter().filter(|c| !c.near).map(Compared::why);
        self.forbids.iter().cloned().chain(far).collect()
    }

    /// Table of the compared figures, and the conclusion from the table.
    pub fn text(&self) -> String {
        let mut text =
            format!("{:NAMES$} {:>VALUES$} {:>VALUES$}\n", "the link as it is", "measured", "simulated");
        for c in &self.compared {
            let mark = if c.near { "" } else { "  far" };
            let (measured, simulated) = (c.cell(c.measured), c.cell(c.simulated));
            let _ = writeln!(text, "{:NAMES$} {measured:>VALUES$} {simulated:>VALUES$}{mark}", c.name);
        }
        let _ = match self.why_not() {
            why if why.is_empty() => writeln!(text, "\nThe simulated link is near the measured one."),
            why => {
                writeln!(text, "\nNo other queue is compared, as the fit is not trusted: {}.", why.join("; "))
            }
        };
        text
    }

    pub fn json(&self) -> Value {
        let compared = self.compared.iter().map(|c| {
            (c.key.to_owned(), json!({ "measured": c.measured, "simulated": c.simulated, "near": c.near }))
        });
        Value::Object(compared.collect())
    }
}

/// Reasons, each with its remedy, for which a fit is worthless even if figures happen to agree.
fn forbids(fit: &Fit) -> Vec<String> {
    let mut all = Vec::new();
    if fit.rate_from == Source::Guessed {
        all.push("the link was seldom full and its rate is a guess (give it with --rate)".to_owned());
    }
    if fit.other > MOST_OTHER {
        all.push(format!("{:.0} % of the bytes are not TCP and are not simulated", fit.other * 100.0));
    }
    if fit.left_out > 0 {
        all.push(format!("{} connections are left out (give a shorter capture)", fit.left_out));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_a_part_and_short_stalls_are_of_no_account() {
        assert!(within(600.0, 540.0, NEAR_RATE) && !within(600.0, 539.0, NEAR_RATE));
        assert!(within(600.0, 660.0, NEAR_RATE) && !within(600.0, 661.0, NEAR_RATE));
        let near = |a, b| stalls(a, b, NEAR_STALL);
        assert!(near(5.0, 10.0) && !near(5.0, 10.1) && near(0.0, 1.0) && !near(0.0, 1.1));
    }
}
