//! `narrows model taq`.

use narrows_models::declared::taq_chain::{BACKOFF_ENDS, CHAIN_WORD, ENDS, LOSS, T0_EPOCHS, WMAX};
use narrows_models::taq_chain::{
    Back, BackoffUntil, Settings, Stationary, mean_idle_uncapped, stationary, tipping_point,
    tipping_point_closed,
};
use narrows_plot::{Chart, Line};
use serde_json::{Value, json};

use super::flags::word;
use super::{Answer, usual};

/// Rows in a row of silent epochs that are told.
const IN_A_ROW: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Windows that are told one by one; greater ones together.
const TOLD: usize = 12;

flags! {
    /// Arguments of `narrows model taq`.
    pub struct Args {
        loss: f64 = LOSS;
        wmax: u32 = WMAX [default_value_t = usual(&WMAX)];
        t0: f64 = T0_EPOCHS [default_value_t = usual(&T0_EPOCHS)];
        backoff_ends: usize = BACKOFF_ENDS [alias = "memory", value_parser = word(&BACKOFF_ENDS, &OTHER_ENDS),
            default_value = "s3"];
        /// Back-offs that F3 tells apart; its last stage is "at least" so many (0 to 16)
        stages: u32 [default_value_t = 3];
        /// Back-offs after which F64 stops doubling its timer: 6 is a cap of 64 T0 (0 to 16)
        cap: u32 [default_value_t = 6];
        chain: Vec<usize> = CHAIN_WORD [value_parser = word(&CHAIN_WORD, &[]), value_delimiter = ',',
            default_values = ["partial", "f3", "f64"]];
    }
}

/// Older names of words for the end of a back-off.
pub const OTHER_ENDS: [(&str, &str); 2] = [("s1", "new_ack"), ("sample", "new_sample")];

/// Chain of TAQ's model, chosen by name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainKind {
    Partial,
    F3,
    F64,
}

impl ChainKind {
    /// The words of [`CHAIN_WORD`].
    const ALL: [Self; 3] = [Self::Partial, Self::F3, Self::F64];

    const fn name(self) -> &'static str {
        match self {
            Self::Partial => "partial",
            Self::F3 => "f3",
            Self::F64 => "f64",
        }
    }
}

impl Args {
    fn ends(&self) -> BackoffUntil {
        ENDS[self.backoff_ends]
    }

    fn settings(&self) -> Settings {
        Settings { wmax: self.wmax, t0_epochs: self.t0, backoff_ends: self.ends(), ..Settings::default() }
    }

    fn back(&self, kind: ChainKind) -> Back {
        match kind {
            ChainKind::Partial => Back::Partial,
            ChainKind::F3 => Back::Open(self.stages),
            ChainKind::F64 => Back::Capped(self.cap),
        }
    }

    fn tipping(&self) -> anyhow::Result<(f64, Option<f64>)> {
        let packets = match self.ends() {
            BackoffUntil::NewAck => Some(1),
            BackoffUntil::NewSample => None,
            BackoffUntil::S2 => Some(3),
            BackoffUntil::S3 => Some(6),
        };
        Ok((tipping_point(self.ends()), packets.map(tipping_point_closed).transpose()?))
    }

    /// The chains asked for.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let mut chains: Vec<(ChainKind, Stationary)> = Vec::new();
        for kind in self.chain.iter().map(|at| ChainKind::ALL[*at]) {
            if chains.iter().all(|(known, _)| *known != kind) {
                chains.push((kind, stationary(self.back(kind), self.settings(), self.loss)?));
            }
        }
        let (tipping, closed) = self.tipping()?;
        let uncapped =
            if self.loss > 0.0 { mean_idle_uncapped(self.ends(), self.t0, self.loss)? } else { 0.0 };
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
        let few =
            ChainKind::ALL.map(|kind| curve(kind.name().to_owned(), kind, &Stationary::silent_or_first));
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

/// Figures of a chain as JSON.
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
