//! The series of congestion windows: a row for each of the first flows that last at each sample, with the estimates of
//! its congestion control, if it has any; and, for each class, means of them after the warm-up.

use narrows_tcp::cc::CcEstimates;
use narrows_units::{Duration, Instant};

use super::flows::Flows;
use super::plan::ProbePlan;
use super::report::{Tables, integers, numbers};
use crate::connection::Connection;
use crate::statistics::mean;

/// Number of lasting flows, counted from the first, whose windows are kept.
const FLOWS: u32 = 100;
/// Most rows kept.
const MOST: usize = 1 << 22;

/// The window of a flow.
#[derive(Clone, Copy, Debug)]
struct Window {
    at: Instant,
    flow: u32,
    class: u16,
    cwnd: f64,
    ssthresh: f64,
}

#[derive(Debug, Default)]
pub(super) struct Windows {
    rows: Vec<Window>,
    /// Row by row, where there is something.
    estimates: Vec<(usize, CcEstimates)>,
    /// Instant from which on windows were no longer kept.
    cut: Option<Instant>,
}

impl Windows {
    pub(super) fn take(&mut self, now: Instant, flows: &Flows, connections: &[Connection]) {
        if self.rows.len() >= MOST {
            self.cut.get_or_insert(now);
            return;
        }
        for (flow, place) in flows.places().take_while(|(flow, _)| *flow < FLOWS) {
            let c = &connections[place.index()];
            self.estimates.extend(c.ends.cc_estimates().map(|estimates| (self.rows.len(), estimates)));
            let (cwnd, ssthresh) = c.ends.windows();
            self.rows.push(Window { at: now, flow, class: c.class, cwnd, ssthresh });
        }
    }

    /// Joins the windows of several parts; keeps the first flows by their new numbers.
    pub(super) fn join(parts: Vec<Self>, numbers: &[Vec<u32>]) -> Self {
        let cut = parts.iter().filter_map(|part| part.cut).min();
        let mut rows = Vec::new();
        for (part, numbers) in parts.into_iter().zip(numbers) {
            let mut estimates = part.estimates.into_iter().peekable();
            for (at, row) in part.rows.into_iter().enumerate() {
                let estimates = estimates.next_if(|(row, _)| *row == at).map(|(_, estimates)| estimates);
                let flow = numbers[row.flow as usize];
                if flow < FLOWS && cut.is_none_or(|cut| row.at < cut) {
                    rows.push((Window { flow, ..row }, estimates));
                }
            }
        }
        rows.sort_by_key(|(row, _)| (row.at, row.flow));
        let mut all = Self { cut, ..Self::default() };
        for (row, estimates) in rows {
            if all.rows.len() >= MOST && all.rows.last().is_some_and(|last| last.at < row.at) {
                all.cut.get_or_insert(row.at);
                break;
            }
            all.estimates.extend(estimates.map(|estimates| (all.rows.len(), estimates)));
            all.rows.push(row);
        }
        all
    }

    pub(super) fn report(&self, plan: &ProbePlan, out: &mut Tables) {
        if self.rows.is_empty() {
            return;
        }
        let w = || self.rows.iter();
        let mut columns = vec![
            numbers("time_s", w().map(|w| w.at.as_secs_f64())),
            integers("flow", w().map(|w| w.flow.into())),
            numbers("cwnd_pkts", w().map(|w| w.cwnd)),
            // Infinite before the first loss.
            numbers("ssthresh_pkts", w().map(|w| if w.ssthresh.is_finite() { w.ssthresh } else { f64::NAN })),
        ];
        if !self.estimates.is_empty() {
            let seconds = |t: Duration| t.as_secs_f64();
            columns.push(self.column("alpha_pkts", |l| l.alpha));
            columns.push(self.column("beta", |l| l.beta));
            columns.push(self.column("rtt_min_s", |l| seconds(l.rtt_min)));
            columns.push(self.column("rtt_max_s", |l| seconds(l.rtt_max)));
        }
        out.table("cwnd", columns);
        out.put("cwnd_cut_s", self.cut.map(Instant::as_secs_f64));
        for (class, name) in (0..).zip(&plan.classes) {
            self.means(plan, class, &name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"), out);
        }
    }

    /// Column of one of the estimates, for all rows; NaN where there is none.
    fn column(&self, name: &str, value: impl Fn(&CcEstimates) -> f64) -> crate::results::Column {
        let mut values = vec![f64::NAN; self.rows.len()];
        for (row, estimates) in &self.estimates {
            values[*row] = value(estimates);
        }
        numbers(name, values.into_iter())
    }

    fn means(&self, plan: &ProbePlan, class: u16, name: &str, out: &mut Tables) {
        let counts = |w: &Window| w.class == class && w.at >= plan.warmup;
        let windows: Vec<f64> = self.rows.iter().filter(|w| counts(w)).map(|w| w.cwnd).collect();
        out.put(format!("cwnd_{name}_pkts"), mean(&windows));
        out.put(format!("cwnd_peak_{name}_pkts"), mean(&self.peaks(counts)));
        let estimates = self.estimates.iter().filter(|(row, _)| counts(&self.rows[*row]));
        let betas: Vec<f64> = estimates.map(|(_, estimates)| estimates.beta).collect();
        out.put(format!("beta_{name}"), mean(&betas));
    }

    /// The last windows before a fall, of all flows.
    fn peaks(&self, counts: impl Fn(&Window) -> bool) -> Vec<f64> {
        // Previous window of each flow, and whether it was reached without a fall.
        let mut before = [(0.0, false); FLOWS as usize];
        let mut peaks = Vec::new();
        for w in &self.rows {
            let (last, rose) = &mut before[w.flow as usize];
            let fell = w.cwnd < *last;
            if fell && *rose && counts(w) {
                peaks.push(*last);
            }
            (*last, *rose) = (w.cwnd, !fell);
        }
        peaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(of: &[(u32, f64)]) -> Windows {
        let rows = of.iter().zip(1..).map(|(&(flow, cwnd), s)| {
            let at = Instant::ZERO + Duration::from_secs(s);
            Window { at, flow, class: (flow % 2) as u16, cwnd, ssthresh: 2.0 }
        });
        Windows { rows: rows.collect(), ..Windows::default() }
    }

    #[test]
    fn a_peak_is_where_a_window_begins_to_fall() {
        // Flow 0 of class 0: 4, 5, 3, 2, 6, 6, 1: peaks 5 and 6. Flow 1 of class 1, in between: 9, 8.
        let w = windows(&[
            (0, 4.0),
            (0, 5.0),
            (1, 9.0),
            (0, 3.0),
            (0, 2.0),
            (1, 8.0),
            (0, 6.0),
            (0, 6.0),
            (0, 1.0),
        ]);
        assert_eq!(w.peaks(|w| w.class == 0), [5.0, 6.0]);
        assert_eq!(w.peaks(|w| w.class == 1), [9.0]);
        // By the sample after it, which is what counts.
        assert_eq!(w.peaks(|w| w.class == 0 && w.at > Instant::ZERO + Duration::from_secs(4)), [6.0]);
    }
}
