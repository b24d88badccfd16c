//! `narrows model aimd`.

use narrows_models::declared::aimd::{BETA_HI, BETA_LO, LOSING_SHARE_OR_ALL};
use narrows_models::declared::control::BUFFER_PACKETS;
use narrows_models::declared::yardsticks::{BASE_RTT_S, FLOWS, PACKET_BYTES, RATE_BPS, UTILISATION};
use narrows_models::{Error, aimd, buffers};
use narrows_plot::{Chart, Line};
use narrows_units::{Bytes, Rate};
use serde_json::json;

use super::{Answer, panel, time_s, usual};

flags! {
    /// Arguments of `narrows model aimd`.
    pub struct Args {
        rate: Rate = RATE_BPS;
        rtt: f64 = BASE_RTT_S [value_parser = time_s];
        buffer: f64 = BUFFER_PACKETS;
        packet: u64 = PACKET_BYTES [default_value_t = usual(&PACKET_BYTES)];
        flows: u64 = FLOWS [default_value_t = 1];
        sync: f64 = LOSING_SHARE_OR_ALL [default_value_t = usual(&LOSING_SHARE_OR_ALL)];
        beta_lo: f64 = BETA_LO [default_value_t = usual(&BETA_LO)];
        beta_hi: f64 = BETA_HI [default_value_t = usual(&BETA_HI)];
        utilisation: f64 = UTILISATION [default_value_t = 0.98];
    }
}

/// Behaviour of a link shared by flows of one kind.
struct FlowKind {
    beta: f64,
    alpha: f64,
    /// Efficiency if all flows lose together.
    eta: f64,
    /// The mean factor, and with it: of many flows that lose at the share `sync`.
    factor: f64,
    eta_apart: f64,
    /// Epochs to 80 % and to 95 %.
    epochs: [f64; 2],
    epoch_s: f64,
    /// Buffers in packets: for the utilisation, and for the whole link.
    buffers: [f64; 2],
}

impl Args {
    fn kind(&self, dbp: f64, phi: f64, beta: f64, highest: f64) -> anyhow::Result<FlowKind> {
        let alpha = aimd::increase(beta)?;
        let factor = aimd::mean_backoff(beta, self.sync)?;
        let widest = aimd::mean_backoff(highest, self.sync)?;
        Ok(FlowKind {
            beta,
            alpha,
            eta: aimd::efficiency(phi, beta)?,
            factor,
            eta_apart: aimd::efficiency(phi, factor)?,
            epochs: [aimd::convergence_epochs(factor, 0.8)?, aimd::convergence_epochs(factor, 0.95)?],
            epoch_s: aimd::epoch(phi, factor, alpha, dbp, self.flows)?.base_rtts * self.rtt,
            buffers: [
                dbp * buffers::for_utilisation(self.utilisation, widest)?,
                dbp * buffers::full_link(widest)?,
            ],
        })
    }

    /// Efficiency of both kinds of flows, and the buffer that each kind needs.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let dbp = buffers::dbp_packets(self.rate, self.rtt, Bytes(self.packet))?;
        let sqrt_rule = buffers::sqrt_rule(dbp, self.flows)?;
        let least = 1.0 / self.flows as f64;
        if !(least..=1.0).contains(&self.sync) {
            let expected = "1/flows <= sync <= 1: at every congestion event somebody loses";
            return Err(Error { parameter: "sync", value: self.sync, expected }.into());
        }
        let limits = aimd::BackoffRange::new(self.beta_lo, self.beta_hi)?;
        let phi = self.buffer / dbp;
        let standard = self.kind(dbp, phi, 0.5, 0.5)?;
        let adaptive = self.kind(dbp, phi, aimd::backoff_for_buffer(phi, limits)?, limits.hi())?;
        let peaks = aimd::mean_over_peak(adaptive.beta)? / aimd::mean_over_peak(0.5)?;
        let of = |kind: &FlowKind| {
            json!({
                "beta": kind.beta,
                "alpha": kind.alpha,
                "eta": kind.eta,
                "mean_beta": kind.factor,
                "eta_apart": kind.eta_apart,
                "convergence_epochs": { "to_80_percent": kind.epochs[0], "to_95_percent": kind.epochs[1] },
                "epoch_s": kind.epoch_s,
                "buffer_packets": { "for_utilisation": kind.buffers[0], "for_full_link": kind.buffers[1] },
            })
        };
        let json = json!({
            "dbp_packets": dbp,
            "phi": phi,
            "beta": adaptive.beta,
            "alpha": adaptive.alpha,
            "eta": { "standard": standard.eta, "adaptive": adaptive.eta },
            "utilisation": self.utilisation,
            "standard": of(&standard),
            "adaptive": of(&adaptive),
            "throughput_at_equal_peaks": peaks,
            "buffer_packets": { "dbp": dbp, "dbp_over_sqrt_flows": sqrt_rule },
        });
        let text = self.text([dbp, phi, sqrt_rule, peaks], &standard, &adaptive);
        Ok(Answer { json, text, chart: self.chart(phi, limits)? })
    }

    fn text(
        &self,
        [dbp, phi, sqrt_rule, peaks]: [f64; 4],
        standard: &FlowKind,
        adaptive: &FlowKind,
    ) -> String {
        let mut text = format!(
            "{}, {} s, packets of {} bytes: a DBP of {dbp:.1} packets; a buffer of {} is {phi:.3} \
             DBP\n\n{:42}{:>10}{:>10}\n",
            self.rate, self.rtt, self.packet, self.buffer, "", "standard", "adaptive"
        );
        let mut row = |name: &str, digits: usize, of: &dyn Fn(&FlowKind) -> f64| {
            text += &format!("{name:42}{:10.digits$}{:10.digits$}\n", of(standard), of(adaptive));
        };
        row("beta (window kept at a loss)", 4, &|k| k.beta);
        row("alpha (packets per RTT)", 4, &|k| k.alpha);
        row("share of the link used, synchronised", 4, &|k| k.eta);
        if self.sync < 1.0 {
            row("mean beta over all events", 4, &|k| k.factor);
            row("share of the link used, many flows", 4, &|k| k.eta_apart);
        }
        row("epochs to 80 % of equilibrium", 1, &|k| k.epochs[0]);
        row("epochs to 95 %", 1, &|k| k.epochs[1]);
        row("length of an epoch (s)", 2, &|k| k.epoch_s);
        let name = format!("buffer to use {} of the link (packets)", self.utilisation);
        row(&name, 1, &|k| k.buffers[0]);
        row("buffer to use all of it (packets)", 1, &|k| k.buffers[1]);
        text + &format!(
            "\nRules: DBP {dbp:.1} packets, DBP over root of flows {sqrt_rule:.1} packets\n\
             With equal peak windows an adaptive flow carries {peaks:.3} times what a standard one does\n"
        )
    }

    /// The paper's Fig. 7, what the factors are, and its inverse.
    fn chart(&self, phi: f64, limits: aimd::BackoffRange) -> anyhow::Result<Chart> {
        let to = (1.2 * phi).max(1.2);
        let buffers = (0..=240).map(|i| to * f64::from(i) / 240.0);
        let curves = buffers
            .map(|phi| {
                let beta = aimd::backoff_for_buffer(phi, limits)?;
                Ok([phi, aimd::efficiency(phi, 0.5)?, aimd::efficiency(phi, beta)?, beta])
            })
            .collect::<anyhow::Result<Vec<[f64; 4]>>>()?;
        let line = |name: &str, column: usize| {
            let points = curves.iter().map(|row| (row[0], [row[column]; 3])).collect();
            Line { name: name.to_owned(), points }
        };
        let beta = aimd::backoff_for_buffer(phi, limits)?;
        let here = |name: &str, at: f64, y: f64| Line { name: name.to_owned(), points: vec![(at, [y; 3])] };
        let shares = (700..=1000).map(|i| f64::from(i) / 1000.0);
        let mut needed: [Vec<(f64, [f64; 3])>; 2] = Default::default();
        for eta in shares {
            for (points, beta) in needed.iter_mut().zip([0.5, limits.hi()]) {
                points.push((eta, [buffers::for_utilisation(eta, beta)?; 3]));
            }
        }
        let [standard, adaptive] = needed;
        let (s, a) = ("standard TCP", "adaptive");
        let used = vec![
            line(s, 1),
            line(a, 2),
            here("standard TCP, here", phi, aimd::efficiency(phi, 0.5)?),
            here("adaptive, here", phi, aimd::efficiency(phi, beta)?),
        ];
        let kept = vec![
            Line { name: s.to_owned(), points: curves.iter().map(|row| (row[0], [0.5; 3])).collect() },
            line(a, 3),
            here("standard TCP, here", phi, 0.5),
            here("adaptive, here", phi, beta),
        ];
        let need = vec![
            Line { name: s.to_owned(), points: standard },
            Line { name: a.to_owned(), points: adaptive },
        ];
        Ok(Chart {
            title: "Synchronised flows and the buffer they find".to_owned(),
            subtitle: format!(
                "{}, {} s, packets of {} bytes, a buffer of {} packets; adaptive: beta from {} to {}",
                self.rate, self.rtt, self.packet, self.buffer, self.beta_lo, self.beta_hi
            ),
            panels: vec![
                panel("Efficiency", "buffer / DBP", "share of the link used", used),
                panel("Backoff", "buffer / DBP", "beta", kept),
                panel("Buffer needed", "share of the link to be used", "buffer / DBP", need),
            ],
        })
    }
}
