//! `narrows model taq`.

use clap::ValueEnum;
use narrows_models::taq_chain::{
    self, Back, Settings, Stationary, mean_idle_uncapped, stationary, tipping_point, tipping_point_closed,
};
use narrows_plot::{Chart, Line};
use serde_json::{Value, json};

use super::Answer;

/// Rows in a row of silent epochs that are told.
const IN_A_ROW: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Windows that are told one by one; greater ones together.
const TOLD: usize = 12;

/// Arguments of `narrows model taq`.
#[derive(clap::Args)]
pub struct Args {
    /// Loss probability of a packet; below 0.5 for the partial chain and F3, below 1 for F64
    #[arg(long, allow_negative_numbers = true)]
    loss: f64,
    /// Greatest window, in packets
    #[arg(long, default_value_t = 6)]
    wmax: u32,
    /// Timer before it is backed off, in epochs (round trips)
    #[arg(long, default_value_t = 2.0, allow_negative_numbers = true)]
    t0: f64,
    /// What ends a back-off
    #[arg(long, alias = "memory", value_enum, default_value_t = BackoffEnds::S3)]
    backoff_ends: BackoffEnds,
    /// Back-offs that F3 tells apart; its last stage is "at least" so many
    #[arg(long, default_value_t = 3)]
    stages: u32,
    /// Back-offs after which F64 stops doubling its timer: 6 is a cap of 64 T0
    #[arg(long, default_value_t = 6)]
    cap: u32,
    /// The chains asked for
    #[arg(long, value_enum, value_delimiter = ',')]
    #[arg(default_values_t = [ChainKind::Partial, ChainKind::F3, ChainKind::F64])]
    chain: Vec<ChainKind>,
}

/// [`taq_chain::BackoffUntil`] as an option.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackoffEnds {
    /// Any new ACK: with timestamps
    #[value(name = "new_ack", alias = "s1")]
    NewAck,
    /// The first ACK of a packet sent once (Karn): without
    #[value(name = "new_sample", alias = "sample")]
    NewSample,
    /// The caption of the paper's Fig. 4: a window of 2 that arrives
    S2,
    /// The paper's text: a window of 3 that arrives
    S3,
}

impl From<BackoffEnds> for taq_chain::BackoffUntil {
    fn from(name: BackoffEnds) -> Self {
        match name {
            BackoffEnds::NewAck => Self::NewAck,
            BackoffEnds::NewSample => Self::NewSample,
            BackoffEnds::S2 => Self::S2,
            BackoffEnds::S3 => Self::S3,
        }
    }
}

/// A chain by its name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChainKind {
    /// Fig. 4 of the paper
    Partial,
    /// Fig. 5, with "at least 3 back-offs"
    F3,
    /// Fig. 5, with a timer that is capped
    F64,
}

impl ChainKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Partial => "partial",
            Self::F3 => "f3",
            Self::F64 => "f64",
        }
    }
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            wmax: self.wmax,
            t0_epochs: self.t0,
            backoff_ends: self.backoff_ends.into(),
            ..Settings::default()
        }
    }

    fn back(&self, kind: ChainKind) -> Back {
        match kind {
            ChainKind::Partial => Back::Partial,
            ChainKind::F3 => Back::Open(self.stages),
            ChainKind::F64 => Back::Capped(self.cap),
        }
    }

    fn tipping(&self) -> anyhow::Result<(f64, Option<f64>)> {
        let closed = match self.backoff_ends {
            BackoffEnds::NewAck => Some(tipping_point_closed(1)?),
            BackoffEnds::NewSample => None,
            BackoffEnds::S2 => Some(tipping_point_closed(3)?),
            BackoffEnds::S3 => Some(tipping_point_closed(6)?),
        };
        Ok((tipping_point(self.backoff_ends.into()), closed))
    }

    /// The chains asked for.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let mut chains: Vec<(ChainKind, Stationary)> = Vec::new();
        for &kind in &self.chain {
            if chains.iter().all(|(known, _)| *known != kind) {
                chains.push((kind, stationary(self.back(kind), self.settings(), self.loss)?));
            }
        }
        let (tipping, closed) = self.tipping()?;
        let uncapped = if self.loss > 0.0 {
            mean_idle_uncapped(self.backoff_ends.into(), self.t0, self.loss)?
        } else {
            0.0
        };
        let mut object = json!({
            "loss": self.loss,
            "wmax": self.wmax,
            "t0_epochs": self.t0,
            "tipping_point": { "chain": tipping, "closed": closed },
            // Infinite from the tipping point on, which JSON cannot say.
            "mean_idle_uncapped_epochs": uncapped.is_finite().then_some(uncapped),
        });
        for (kind, chain) in &chains {
            object[kind.name()] = told(chain);
        }
        Ok(Answer { json: object, text: self.text(&chains, tipping, uncapped), chart: self.chart(tipping) })
    }

    fn text(&self, chains: &[(ChainKind, Stationary)], tipping: f64, uncapped: f64) -> String {
        let mut text = format!("share of epochs, p = {}\n{:22}", self.loss, "packets sent");
        for (kind, _) in chains {
            text += &format!("{:>10}", kind.name());
        }
        text.push('\n');
        let mut row = |name: &str, digits: usize, value: &dyn Fn(&Stationary) -> f64| {
            text += &format!("{name:22}");
            for (_, chain) in chains {
                text += &format!("{:>10.digits$}", value(chain));
            }
            text.push('\n');
        };
        let told = TOLD.min(self.wmax as usize);
        for n in 0..=told {
            row(&n.to_string(), 4, &|chain| chain.sent()[n]);
        }
        if told < self.wmax as usize {
            row("more", 4, &|chain| chain.sent()[told + 1..].iter().sum());
        }
        row("0 or 1", 4, &Stationary::silent_or_first);
        row("packets per epoch", 3, &Stationary::packets_per_epoch);
        row("timeouts per epoch", 4, &Stationary::timeouts_per_epoch);
        row("mean idle, epochs", 2, &Stationary::mean_idle_epochs);
        for (name, quantile) in [("  half are up to", 0.5), ("  9 of 10 up to", 0.9), ("  99 % up to", 0.99)]
        {
            row(name, 1, &|chain| chain.idle_quantile(quantile));
        }
        for k in [2, 8, 32] {
            row(&format!("{k} silent in a row"), 4, &|chain| chain.silent_in_a_row(k));
        }
        text += &format!("\ntipping point: p = {tipping:.4}");
        if self.loss > 0.0 {
            let wait =
                if uncapped.is_finite() { format!("{uncapped:.2} epochs") } else { "infinite".to_owned() };
            text +=
                &format!("; without a cap the mean idle time of a timeout at p = {} is {wait}", self.loss);
        }
        text + "\n"
    }

    /// The paper's figure 6, without its measurements: shares of epochs against the loss.
    fn chart(&self, tipping: f64) -> Chart {
        let losses = || (1..=99).map(|i| f64::from(i) * 0.003_5);
        let curve = |name: String, kind: ChainKind, value: &dyn Fn(&Stationary) -> f64| {
            let point = |loss| {
                let chain = stationary(self.back(kind), self.settings(), loss).ok()?;
                Some((loss, [value(&chain); 3]))
            };
            Line { name, points: losses().filter_map(point).collect() }
        };
        let upright =
            |name: &str, x: f64| Line { name: name.to_owned(), points: vec![(x, [0.0; 3]), (x, [1.0; 3])] };
        let panel = |title: &str, mut lines: Vec<Line>| {
            lines.push(upright("tipping point", tipping));
            lines.push(upright("p asked for", self.loss));
            super::panel(title, "loss p", "share of epochs", lines)
        };
        let sent = |kind: ChainKind| {
            (0..=self.wmax.min(6) as usize)
                .map(|n| curve(format!("{n} sent"), kind, &|chain| chain.sent()[n]))
                .collect()
        };
        let few = [ChainKind::Partial, ChainKind::F3, ChainKind::F64]
            .map(|kind| curve(kind.name().to_owned(), kind, &Stationary::silent_or_first));
        Chart {
            title: "Epochs by packets sent, in TAQ's chains".to_owned(),
            subtitle: format!("windows of up to {}, T0 = {} epochs", self.wmax, self.t0),
            panels: vec![
                panel("partial chain (Fig. 4)", sent(ChainKind::Partial)),
                panel("full chain, timer capped", sent(ChainKind::F64)),
                panel("nothing sent, or one packet", few.into()),
            ],
        }
    }
}

/// All that is known of a chain.
fn told(chain: &Stationary) -> Value {
    let quantiles = |of: &dyn Fn(f64) -> f64| json!({ "p50": of(0.5), "p90": of(0.9), "p99": of(0.99) });
    let stages: Vec<Value> = chain
        .stages()
        .iter()
        .map(|s| {
            json!({ "timer_epochs": s.timer_epochs, "open": s.open, "mean_idle_epochs": s.mean_idle_epochs,
                "idle": s.idle, "s1": s.first, "s2": s.second, "s3": s.third })
        })
        .collect();
    let in_a_row: Vec<Value> = IN_A_ROW
        .iter()
        .map(|&epochs| json!({ "epochs": epochs, "share": chain.silent_in_a_row(epochs) }))
        .collect();
    let silences = chain.silences().map(|s| {
        json!({ "per_epoch": s.per_epoch(), "mean_epochs": s.mean_epochs(),
            "epochs": quantiles(&|q| s.quantile(q)), "epochs_by_time": quantiles(&|q| s.quantile_by_time(q)) })
    });
    json!({
        "sent": chain.sent(),
        "silent": chain.silent(),
        "silent_or_first": chain.silent_or_first(),
        "packets_per_epoch": chain.packets_per_epoch(),
        "timeouts_per_epoch": chain.timeouts_per_epoch(),
        "idle": {
            "mean_epochs": chain.mean_idle_epochs(),
            "epochs": quantiles(&|q| chain.idle_quantile(q)),
            "epochs_by_time": quantiles(&|q| chain.idle_quantile_by_time(q)),
        },
        "silent_in_a_row": in_a_row,
        "silences": silences,
        "stages": stages,
    })
}
