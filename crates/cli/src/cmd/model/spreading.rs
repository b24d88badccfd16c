//! `narrows model spreading`.

use std::fmt::Write;

use narrows_models::declared::spreading::{I, LOSS, N};
use narrows_models::spreading::{Backoff, Delivery, MOST_SEGMENTS, Parameters, Spreading, no_loss};
use narrows_models::{Error, Result};
use narrows_plot::{Chart, Line};
use serde_json::{Value, json};

use super::{Answer, Timing, panel};

flags! {
    /// Arguments of `narrows model spreading`.
    pub struct Args {
        n: i64 = N [default_value_t = 10];
        i: Option<i64> = I;
        loss: f64 = LOSS;
        @timing: Timing;
    }
}

/// The states asked for: the name in JSON, and in words.
const STATES: [(&str, &str); 5] = [
    ("d", "one burst (D)"),
    ("s", "spread (S)"),
    ("s_no_fr", "spread, no fast retransmit"),
    ("b", "pairs, a later window (B)"),
    ("iw1", "one segment (IW 1)"),
];

/// Delivery from each state; `None` for a state that was not computed.
type States = [Option<Delivery>; 5];

/// The most points of a line over sizes.
const POINTS: usize = 32;

/// Curves of the paper's figures for a window of one: loss, RTT in seconds.
const FIG_13: [(f64, f64); 6] = [(0.02, 0.05), (0.02, 0.1), (0.02, 0.2), (0.1, 0.05), (0.1, 0.1), (0.1, 0.2)];

impl Args {
    /// Mean delivery times.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let (n, i) = (segments("n", self.n)?, segments("i", self.i.unwrap_or(self.n))?);
        let plain = states(&self.model(self.loss, Backoff::SingleSegment, i)?, i, n)?;
        let doubling = states(&self.model(self.loss, Backoff::EveryTimeout, i)?, i, n)?;
        // At least one segment: the largest u32 is far beyond what there is a model for.
        let arrives = no_loss(self.loss, u32::try_from(n.min(i)).unwrap_or(u32::MAX))?;
        let std_dev = |state: &Option<Delivery>| state.and_then(|d| d.std_dev_s);
        let mut json = json!({
            "loss": self.loss, "rtt_s": self.timing.rtt, "rto_s": self.timing.rto, "n": n, "i": i,
            "no_loss": arrives,
            "std_dev": object(plain.iter().map(std_dev)),
            "rfc6298": object(doubling.iter().map(|state| state.map(|d| d.mean_s))),
        });
        for ((key, _), state) in STATES.iter().zip(&plain) {
            json[key] = json!(state.map(|d| d.mean_s));
        }
        Ok(Answer { json, text: self.text(i, n, &plain, &doubling, arrives)?, chart: self.chart(i, n) })
    }

    fn model(&self, loss: f64, backoff: Backoff, most: usize) -> Result<Spreading> {
        Spreading::new(Parameters { loss, rtt_s: self.timing.rtt, rto_s: self.timing.rto, backoff }, most)
    }

    fn text(
        &self,
        i: usize,
        n: usize,
        plain: &States,
        doubling: &States,
        arrives: f64,
    ) -> anyhow::Result<String> {
        let Self { loss, timing: Timing { rtt, rto }, .. } = self;
        let mut text = format!("{i} segments, first window {n}, loss {loss}, RTT {rtt} s, RTO {rto} s\n\n");
        writeln!(text, "{:<28}{:>10}{:>12}{:>20}", "first window", "mean s", "std dev s", "RFC 6298 mean s")?;
        let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
        for (((_, words), plain), doubling) in STATES.iter().zip(plain).zip(doubling) {
            let mean = |state: &Option<Delivery>| cell(state.map(|d| d.mean_s));
            let std_dev = cell(plain.and_then(|d| d.std_dev_s));
            writeln!(text, "{words:<28}{:>10}{std_dev:>12}{:>20}", mean(plain), mean(doubling))?;
        }
        writeln!(
            text,
            "\nRFC 6298: every timeout doubles the timer; else only a single segment's does, as in the paper."
        )?;
        let burst = n.min(i);
        writeln!(
            text,
            "{burst} segments with independent losses arrive whole with probability {arrives:.4}."
        )?;
        if i > n && n > 1 {
            writeln!(text, "Spreading is modelled for one window: 1 <= i <= n.")?;
        }
        Ok(text)
    }

    /// Fig. 14, the same against loss, and Fig. 13.
    fn chart(&self, i: usize, n: usize) -> Chart {
        let most = n.max(i).max(10);
        let (sizes, steps) = ((1..=most).step_by(most.div_ceil(POINTS)), if most > 100 { 10 } else { 40 });
        let names = ["IW 1", "burst", "spread", "spread, no fast retransmit"];
        let lines = |at: Vec<(f64, States)>| {
            let line = |(name, state): (&str, usize)| Line {
                name: if state == 4 { name.to_owned() } else { format!("IW {n}, {name}") },
                points: at.iter().filter_map(|(x, states)| Some((*x, [states[state]?.mean_s; 3]))).collect(),
            };
            names.into_iter().zip([4, 0, 1, 2]).map(line).collect::<Vec<_>>()
        };
        let model = self.model(self.loss, Backoff::SingleSegment, most);
        let by_size =
            sizes.clone().filter_map(|i| Some((i as f64, states(model.as_ref().ok()?, i, n).ok()?)));
        let by_loss = (0..=steps).filter_map(|step| {
            let loss = 0.2 * f64::from(step) / f64::from(steps);
            Some((loss, states(&self.model(loss, Backoff::SingleSegment, i).ok()?, i, n).ok()?))
        });
        let fig_13 = FIG_13.map(|(loss, rtt)| {
            let model = Self { timing: Timing { rtt, ..self.timing }, ..*self }.model(
                loss,
                Backoff::SingleSegment,
                most,
            );
            let at = |i: usize| Some((i as f64, [model.as_ref().ok()?.b(i, 1).ok()?.mean_s; 3]));
            Line {
                name: format!("IW 1, {} ms, {} %", rtt * 1e3, loss * 100.0),
                points: sizes.clone().filter_map(at).collect(),
            }
        });
        let panel = |title, x_name, lines| panel(title, x_name, "mean delivery time, s", lines);
        Chart {
            title: "How long a short transfer takes".to_owned(),
            subtitle: format!("loss {}, RTT {} s, RTO {} s", self.loss, self.timing.rtt, self.timing.rto),
            panels: vec![
                panel("By size (Fig. 14)", "segments", lines(by_size.collect())),
                panel(&format!("{i} segments, by loss"), "loss", lines(by_loss.collect())),
                panel("Window of one, by RTT and loss (Fig. 13)", "segments", fig_13.into()),
            ],
        }
    }
}

/// All states, in the order of [`STATES`]; none where spreading would go on into a second window.
fn states(model: &Spreading, i: usize, n: usize) -> Result<States> {
    let one_window = i <= n || n == 1;
    let spread = |of: fn(&Spreading, usize, usize) -> Result<Delivery>| {
        one_window.then(|| of(model, i, n)).transpose()
    };
    Ok([
        Some(model.d(i, n)?),
        spread(Spreading::s)?,
        spread(Spreading::s_no_fr)?,
        Some(model.b(i, n)?),
        Some(model.b(i, 1)?),
    ])
}

fn object(values: impl Iterator<Item = Option<f64>>) -> Value {
    STATES.iter().zip(values).map(|((key, _), value)| ((*key).to_owned(), json!(value))).collect()
}

/// Number of segments that was typed, 1 to 1024.
fn segments(parameter: &'static str, value: i64) -> Result<usize> {
    usize::try_from(value).ok().filter(|size| (1..=MOST_SEGMENTS).contains(size)).ok_or(Error {
        parameter,
        value: value as f64,
        expected: "1 to 1024 segments",
    })
}
