//! `narrows model isolation`.

use narrows_models::control::{self, Control, Feedback, Gains, Stability, State};
use narrows_models::declared::control::{ALPHA, BETA, CAPACITY, QUEUE, TARGET};
use narrows_models::fairness;
use narrows_plot::{Chart, Line};
use serde_json::{Value, json};

use super::{Answer, panel};

/// Distance from target, or from capacity, within which a value counts as settled; a share of either.
const BAND: f64 = 0.02;

// Not documentation: clap would take it for that of the command it is part of.
#[derive(clap::Args)]
struct How {
    /// Give each flow a queue of its own to steer by, instead of one for all
    #[arg(long)]
    individual: bool,
    /// Let flows answer to the queue of the step before: one more step of delay
    #[arg(long)]
    late: bool,
}

flags! {
    /// Arguments of `narrows model isolation`.
    pub struct Args {
        /// Flows, or classes of like flows (whole, 1 to 10000)
        flows: u32 [default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000)];
        alpha: Vec<f64> = ALPHA [value_delimiter = ',', required = true];
        beta: Vec<f64> = BETA [value_delimiter = ',', required = true];
        capacity: Vec<f64> = CAPACITY [value_delimiter = ',', default_value = "54.25"];
        target: Vec<f64> = TARGET [value_delimiter = ',', default_value = "50"];
        queue: f64 = QUEUE [default_value_t = 0.0];
        /// Packets each flow sends in the first step [default: the first flow all the capacity, the others none]
        rates: Vec<f64> [value_delimiter = ','];
        /// Steps drawn by --plot (whole, 1 to 10000)
        steps: u32 [default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000)];
        @how: How;
    }
}

/// Flows at one queue, or each flow at a queue of its own, with their start.
struct System(Vec<(Control, State)>);

impl System {
    fn worst(&self, feedback: Feedback) -> Stability {
        let verdicts = self.0.iter().map(|(control, _)| control.stability(feedback));
        verdicts.max_by_key(|verdict| *verdict as u8).unwrap_or(Stability::Marginal)
    }

    fn rho(&self, feedback: Feedback) -> f64 {
        self.0.iter().map(|(control, _)| control.spectral_radius(feedback)).fold(0.0, f64::max)
    }

    /// Queues and rates at rest, if all come to rest.
    fn equilibrium(&self, feedback: Feedback) -> anyhow::Result<Option<(Vec<f64>, Vec<f64>)>> {
        let (mut queues, mut rates) = (Vec::new(), Vec::new());
        for (control, start) in &self.0 {
            let Some(rest) = control.equilibrium(start, feedback)? else { return Ok(None) };
            queues.push(rest.queue);
            // Rounding makes of a rate of nothing a tiny negative one: it is set to zero.
            let least = 1e-9 * control.capacity();
            rates.extend(rest.rates.iter().map(|x| if x.abs() < least { 0.0 } else { *x }));
        }
        Ok(Some((queues, rates)))
    }

    fn settling(&self, feedback: Feedback) -> anyhow::Result<Option<u32>> {
        let mut last = Some(0);
        for (control, start) in &self.0 {
            last = last.max(Some(0)).zip(control.settling(start, feedback, BAND)?).map(|(a, b)| a.max(b));
            if last.is_none() {
                break;
            }
        }
        Ok(last)
    }

    /// Step by step the queue of all, and what the first and the last flow send; it ends where a line leaves the page.
    fn run(&self, feedback: Feedback, steps: u32, page: f64) -> anyhow::Result<Vec<[f64; 3]>> {
        let mut runs = Vec::new();
        for (control, start) in &self.0 {
            runs.push(control.simulate(start.clone(), feedback)?);
        }
        let mut points = Vec::new();
        for _ in 0..=steps {
            let Some(states) = runs.iter_mut().map(Iterator::next).collect::<Option<Vec<State>>>() else {
                break;
            };
            let rate = |state: Option<&State>, at: fn(&[f64]) -> Option<&f64>| {
                state.and_then(|s| at(&s.rates)).copied().unwrap_or_default()
            };
            let point = [
                states.iter().map(|s| s.queue).sum(),
                rate(states.first(), <[f64]>::first),
                rate(states.last(), <[f64]>::last),
            ];
            if point.iter().any(|v| v.abs() > page) {
                break;
            }
            points.push(point);
        }
        Ok(points)
    }
}

impl Args {
    fn feedback(&self) -> Feedback {
        if self.how.late { Feedback::Late } else { Feedback::Prompt }
    }

    /// Values of a flag, one for each flow.
    fn each(&self, name: &str, values: &[f64]) -> anyhow::Result<Vec<f64>> {
        let n = self.flows as usize;
        match values {
            [one] => Ok(vec![*one; n]),
            _ if values.len() == n => Ok(values.to_vec()),
            _ => anyhow::bail!(
                "--{name}: {} values for {n} flows: expected one, or one for each",
                values.len()
            ),
        }
    }

    /// Parts of a quantity given for all flows together, or for each.
    fn parts(&self, name: &str, values: &[f64]) -> anyhow::Result<Vec<f64>> {
        let n = f64::from(self.flows);
        let each = self.each(name, values)?;
        Ok(if values.len() == 1 { each.iter().map(|all| all / n).collect() } else { each })
    }

    fn gains(&self) -> anyhow::Result<Vec<Gains>> {
        let (alpha, beta) = (self.each("alpha", &self.alpha)?, self.each("beta", &self.beta)?);
        Ok(alpha.into_iter().zip(beta).map(|(alpha, beta)| Gains { alpha, beta }).collect())
    }

    /// Makes two systems of the flows: all at one queue, and each at a queue of its own.
    fn systems(&self) -> anyhow::Result<[System; 2]> {
        let gains = self.gains()?;
        let (capacities, targets) =
            (self.parts("capacity", &self.capacity)?, self.parts("target", &self.target)?);
        anyhow::ensure!(
            self.how.individual || self.capacity.len().max(self.target.len()) == 1,
            "--capacity, --target: expected one value for the one queue, or --individual"
        );
        let (capacity, target): (f64, f64) = (capacities.iter().sum(), targets.iter().sum());
        let rates = if self.rates.is_empty() {
            let mut rates = vec![0.0; gains.len()];
            rates[0] = capacity;
            rates
        } else {
            self.each("rates", &self.rates)?
        };
        let shared = match (self.alpha.as_slice(), self.beta.as_slice()) {
            ([_], [_]) => Control::equal(gains.len(), gains[0], capacity, target)?,
            _ => Control::new(gains.clone(), capacity, target)?,
        };
        let queue = self.queue / f64::from(self.flows);
        let own = control::isolated(&gains, &capacities, &targets)?;
        let own = own.into_iter().zip(&rates).map(|(c, x)| (c, State { queue, rates: vec![*x] })).collect();
        Ok([System(vec![(shared, State { queue: self.queue, rates })]), System(own)])
    }

    /// Whether the flows come to rest, and where.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let systems = self.systems()?;
        let asked = &systems[usize::from(self.how.individual)];
        let feedback = self.feedback();
        let (verdict, rho) = (asked.worst(feedback), asked.rho(feedback));
        let sufficient = asked.0.iter().all(|(control, _)| control.sufficient_stable());
        let rest = asked.equilibrium(feedback)?;
        let settling = asked.settling(feedback)?;
        let sum = |list: &[Gains], of: fn(&Gains) -> f64| list.iter().map(of).sum::<f64>();
        let gains = self.gains()?;
        let flows: Vec<Value> = if self.how.individual {
            let one = |(control, _): &(Control, State)| {
                json!({
                    "verdict": word(control.stability(feedback)), "rho": control.spectral_radius(feedback),
                })
            };
            asked.0.iter().map(one).collect()
        } else {
            Vec::new()
        };
        let json = json!({
            "control": if self.how.individual { "individual" } else { "aggregate" },
            "flows": self.flows,
            "sum_alpha": sum(&gains, |g| g.alpha),
            "sum_beta": sum(&gains, |g| g.beta),
            "verdict": word(verdict),
            "rho": rho,
            "sufficient_stable": sufficient,
            "late": {
                "verdict": word(asked.worst(Feedback::Late)),
                "rho": asked.rho(Feedback::Late),
            },
            "equilibrium": rest.as_ref().map(|(queues, rates)| json!({
                "queue": queues.iter().sum::<f64>(),
                "queues": queues,
                "rates": rates,
                // A linear model may end below zero, where there is no index.
                "jain": fairness::jain(rates).ok(),
            })),
            "settling_steps": settling,
            "each": flows,
        });
        let text = self.text(asked, rest.as_ref(), settling, sufficient);
        Ok(Answer { json, text, chart: self.chart(&systems)? })
    }

    fn text(
        &self,
        asked: &System,
        rest: Option<&(Vec<f64>, Vec<f64>)>,
        settling: Option<u32>,
        sufficient: bool,
    ) -> String {
        let queues = if self.how.individual { "a queue of its own each" } else { "one queue" };
        let mut text = format!("{} flows, {queues}\n\n", self.flows);
        let mut row = |name: &str, value: String| text += &format!("{name:44}{value}\n");
        let feedback = self.feedback();
        row("verdict", word(asked.worst(feedback)).to_owned());
        row("spectral radius (factor per step)", format!("{:.4}", asked.rho(feedback)));
        row("the paper's sufficient form", if sufficient { "holds" } else { "does not hold" }.to_owned());
        let late = format!("{}, {:.4}", word(asked.worst(Feedback::Late)), asked.rho(Feedback::Late));
        row("with one step of delay more", late);
        if let Some((queues, rates)) = rest {
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row("queue at rest (packets)", format!("{:.2}", queues.iter().sum::<f64>()));
            row("a flow at rest (packets per step)", format!("{least:.3} to {most:.3}"));
            if let Ok(jain) = fairness::jain(rates) {
                row("Jain index of the flows", format!("{jain:.3}"));
            }
        }
        let name = format!("steps until within {} % of the rest", 100.0 * BAND);
        row(&name, settling.map_or_else(|| "never".to_owned(), |steps| steps.to_string()));
        text
    }

    fn chart(&self, systems: &[System; 2]) -> anyhow::Result<Chart> {
        let feedback = self.feedback();
        let size = |(control, start): &(Control, State)| {
            control.capacity() + control.target() + start.queue.abs() + start.total().abs()
        };
        let page = 4.0 * systems[0].0.iter().map(size).fold(0.0, f64::max);
        let names = ["one queue", "queues of their own"];
        let (mut queues, mut rates) = (Vec::new(), Vec::new());
        for (system, name) in systems.iter().zip(names) {
            let run = system.run(feedback, self.steps, page)?;
            let line = |name: String, column: usize| {
                let points = run.iter().enumerate().map(|(k, v)| (k as f64, [v[column]; 3])).collect();
                Line { name, points }
            };
            queues.push(line(name.to_owned(), 0));
            rates.push(line(format!("first flow, {name}"), 1));
            if self.flows > 1 {
                rates.push(line(format!("last flow, {name}"), 2));
            }
        }
        let feedback = if self.how.late { ", one step of delay more" } else { "" };
        Ok(Chart {
            title: "One queue for all flows, or one for each".to_owned(),
            subtitle: format!(
                "{} flows, alpha {}, beta {}{feedback}",
                self.flows,
                list(&self.alpha),
                list(&self.beta)
            ),
            panels: vec![
                panel("Queue", "step", "packets, all flows", queues),
                panel("Rates", "step", "packets in a step", rates),
                panel(
                    "Stable below 1",
                    "flows with these gains in the mean",
                    "spectral radius",
                    self.radii()?,
                ),
            ],
        })
    }

    /// The spectral radius against the number of flows.
    fn radii(&self) -> anyhow::Result<Vec<Line>> {
        let gains = self.gains()?;
        let n = gains.len() as f64;
        let mean = Gains {
            alpha: gains.iter().map(|g| g.alpha).sum::<f64>() / n,
            beta: gains.iter().map(|g| g.beta).sum::<f64>() / n,
        };
        let rho = |flows: usize| {
            Control::equal(flows, mean, 1.0, 1.0).map(|control| control.spectral_radius(self.feedback()))
        };
        let most = (3 * gains.len()).div_ceil(2).max(12);
        let every = most.div_ceil(400);
        let (mut shared, mut own) = (Vec::new(), Vec::new());
        for flows in (1..=most).step_by(every) {
            shared.push((flows as f64, [rho(flows)?; 3]));
            own.push((flows as f64, [rho(1)?; 3]));
        }
        let here = rho(if self.how.individual { 1 } else { gains.len() })?;
        Ok(vec![
            Line { name: "one queue".to_owned(), points: shared },
            Line { name: "queues of their own".to_owned(), points: own },
            Line { name: "here".to_owned(), points: vec![(n, [here; 3])] },
        ])
    }
}

fn word(verdict: Stability) -> &'static str {
    match verdict {
        Stability::Stable => "stable",
        Stability::Marginal => "marginal",
        Stability::Unstable => "unstable",
    }
}

/// List of values with commas between them, as flags take a list.
fn list(values: &[f64]) -> String {
    values.iter().map(f64::to_string).collect::<Vec<String>>().join(",")
}
