//! `narrows model latency`.

use std::fmt::Write;

use anyhow::bail;
use narrows_models::declared::sharing::LOAD;
use narrows_models::declared::yardsticks::{
    DELAYED_ACK_S, INITIAL_WINDOW, REVERSE_LOSS, SYN_RTO_S, TRANSFER_LOSS,
};
use narrows_models::latency::{Latency, Transfer, cardwell};
use narrows_models::sharing::{SharedQueue, Sizes};
use narrows_models::throughput::LongFlow;
use narrows_plot::{Chart, Line, Panel};
use narrows_scenario::{Size, web_sizes};
use narrows_units::Rate;
use serde_json::json;

use super::{Answer, Segments, Timing, time_s, usual};

flags! {
    /// Arguments of `narrows model latency`.
    pub struct Args {
        /// Size of the transfer, as 20kB
        bytes: u64 [value_name = "SIZE", value_parser = bytes];
        loss: f64 = TRANSFER_LOSS;
        reverse_loss: f64 = REVERSE_LOSS [default_value_t = usual(&REVERSE_LOSS)];
        syn_rto: f64 = SYN_RTO_S [default_value_t = usual(&SYN_RTO_S), value_parser = time_s];
        iw: f64 = INITIAL_WINDOW [alias = "initial-window", default_value_t = usual(&INITIAL_WINDOW)];
        delayed_ack: f64 = DELAYED_ACK_S [default_value_t = usual(&DELAYED_ACK_S), value_parser = time_s];
        /// Rate of a link that transfers share, as 2mbit; adds what sharing alone costs
        rate: Option<Rate> [requires = "load"];
        load: Option<f64> = LOAD [requires = "rate"];
        /// Law of the sizes of transfers that share the link, as a scenario file has it: 20kB, exp:mean=..,
        /// pareto:mean=..,shape=.., bounded_pareto:.., list:.., web
        sizes: Size [value_name = "LAW", default_value = "web", requires = "rate", value_parser = law];
        @timing: Timing;
        @segments: Segments;
    }
}

fn law(text: &str) -> Result<Size, String> {
    text.parse().map_err(|expected| format!("expected {expected}"))
}

fn bytes(text: &str) -> Result<u64, String> {
    match law(text)? {
        Size::Fixed(bytes) => Ok(bytes),
        _ => Err("expected one size, as 20kB".to_owned()),
    }
}

/// Sizes of the model from the size law of a queue.
fn of_law(size: &Size) -> Sizes {
    let list = |sizes: &[u64]| Sizes::List(sizes.iter().map(|s| *s as f64).collect());
    match size {
        Size::Fixed(n) => Sizes::Fixed { bytes: *n as f64 },
        Size::Exponential { mean } => Sizes::Exponential { mean_bytes: *mean },
        Size::Pareto { scale, shape } => Sizes::Pareto { scale_bytes: *scale, shape: *shape },
        Size::BoundedPareto { low, high, shape } => {
            Sizes::BoundedPareto { low_bytes: *low, high_bytes: *high, shape: *shape }
        }
        Size::List(sizes) => list(sizes),
        Size::Web => list(web_sizes()),
    }
}

impl Args {
    /// Expected time of a transfer, and the parts of that time.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let transfer = self.transfer(self.bytes, self.loss);
        let got = cardwell(&transfer)?;
        let mut json = json!({
            "bytes": self.bytes, "packets": transfer.packets, "loss": self.loss, "reverse_loss": self.reverse_loss,
            "rtt_s": self.timing.rtt, "rto_s": self.timing.rto, "syn_rto_s": self.syn_rto, "iw": self.iw,
            "mss_bytes": self.segments.mss, "wmax_packets": self.segments.wmax, "b": self.segments.b,
            "expected_s": got.total_s(), "transfer_s": got.transfer_s(),
            "handshake_s": got.handshake_s, "slow_start_s": got.slow_start_s, "loss_s": got.loss_s,
            "congestion_avoidance_s": got.avoidance_s, "delayed_ack_s": got.delayed_ack_s,
            "slow_start_packets": got.slow_start_packets, "slow_start_window": got.window_packets,
            "loss_probability": got.loss_probability, "timeout_probability": got.timeout_probability,
        });
        let mut text = self.table(&got, transfer.packets)?;
        let queue = self.queue()?;
        if let (Some(queue), Some(rate), Some(load)) = (&queue, self.rate, self.load) {
            let x = self.bytes as f64;
            let fifo = queue.fifo_wait_s().ok().map(|wait| wait + x * 8.0 / rate.as_bps() as f64);
            json["link"] = json!({
                "rate_bps": rate.as_bps(), "load": load, "sizes": self.sizes.to_string(),
                "mean_bytes": queue.mean_bytes(),
                "ps_s": queue.ps_s(x)?, "srpt_s": queue.srpt_s(x)?, "fifo_s": fifo,
                "ps_mean_s": queue.ps_mean_s(), "srpt_mean_s": queue.srpt_mean_s(),
                "fifo_mean_s": queue.fifo_mean_s().ok(),
            });
            text += &self.link_table(queue, rate, load, fifo)?;
        }
        Ok(Answer { json, text, chart: self.chart(queue.as_ref()) })
    }

    fn transfer(&self, bytes: u64, loss: f64) -> Transfer {
        Transfer {
            packets: bytes.div_ceil(self.segments.mss.into()),
            flow: LongFlow {
                loss,
                rtt_s: self.timing.rtt,
                rto_s: self.timing.rto,
                b: self.segments.b,
                wmax_packets: self.segments.wmax,
            },
            reverse_loss: self.reverse_loss,
            syn_rto_s: self.syn_rto,
            initial_window: self.iw,
            delayed_ack_s: self.delayed_ack,
        }
    }

    fn queue(&self) -> anyhow::Result<Option<SharedQueue>> {
        match (self.rate, self.load) {
            (Some(rate), Some(load)) => Ok(Some(SharedQueue::new(rate, load, of_law(&self.sizes))?)),
            (None, None) => Ok(None),
            _ => bail!("--rate and --load go together"),
        }
    }

    fn heading(&self, packets: u64) -> String {
        let Self { bytes, iw, loss, timing: Timing { rtt, rto }, segments: Segments { mss, b, .. }, .. } =
            self;
        let wmax = self.segments.wmax_words();
        format!(
            "{bytes} B, {packets} packets of {mss} B, IW {iw}{wmax}, loss {loss}, RTT {rtt} s, RTO {rto} s, b {b}"
        )
    }

    fn table(&self, got: &Latency, packets: u64) -> anyhow::Result<String> {
        let mut text = format!("{}\n\n{:<28}{:>10}\n", self.heading(packets), "", "seconds");
        for (words, seconds) in [
            ("handshake", got.handshake_s),
            ("slow start to first loss", got.slow_start_s),
            ("first loss", got.loss_s),
            ("the rest, as a long flow", got.avoidance_s),
            ("delayed ACK", got.delayed_ack_s),
            ("expected", got.total_s()),
        ] {
            writeln!(text, "{words:<28}{seconds:>10.4}")?;
        }
        writeln!(
            text,
            "\nIt loses something with probability {:.4}, and of that a timeout follows with {:.4}.",
            got.loss_probability, got.timeout_probability
        )?;
        writeln!(text, "Before, {:.2} packets are sent.", got.slow_start_packets)?;
        Ok(text)
    }

    fn link_table(
        &self,
        queue: &SharedQueue,
        rate: Rate,
        load: f64,
        fifo: Option<f64>,
    ) -> anyhow::Result<String> {
        let mut text = format!(
            "\nA link of {rate}, load {load}, sizes {} with a mean of {:.0} B\n\n{:<28}{:>14}{:>14}\n",
            self.sizes,
            queue.mean_bytes(),
            "",
            "this size, s",
            "all sizes, s"
        );
        let x = self.bytes as f64;
        let cell = |x: Option<f64>| x.map_or_else(|| "no mean".to_owned(), |x| format!("{x:.4}"));
        for (words, this, all) in [
            ("shared evenly (PS)", Some(queue.ps_s(x)?), Some(queue.ps_mean_s())),
            ("shortest first (SRPT)", Some(queue.srpt_s(x)?), Some(queue.srpt_mean_s())),
            ("one after another (FIFO)", fifo, queue.fifo_mean_s().ok()),
        ] {
            writeln!(text, "{words:<28}{:>14}{:>14}", cell(this), cell(all))?;
        }
        Ok(text)
    }

    /// Time against size: with and without loss, and what the link alone takes.
    fn chart(&self, queue: Option<&SharedQueue>) -> Chart {
        let most = 1e6_f64.max(4.0 * self.bytes as f64);
        let sizes: Vec<u64> =
            (0..=90).map(|i| (1e3 * (most / 1e3).powf(f64::from(i) / 90.0)) as u64).collect();
        let line = |name: String, of: &dyn Fn(u64) -> Option<f64>| Line {
            name,
            points: sizes.iter().filter_map(|x| Some((*x as f64, [of(*x)?; 3]))).collect(),
        };
        let tcp = |loss: f64| move |x: u64| cardwell(&self.transfer(x, loss)).ok().map(|l| l.total_s());
        let mut lines = vec![line(format!("loss {}", self.loss), &tcp(self.loss))];
        for loss in [0.0, 0.05, 0.1, 0.2] {
            if loss != self.loss {
                lines.push(line(format!("loss {loss}"), &tcp(loss)));
            }
        }
        if let Some(queue) = queue {
            lines.push(line("the link alone, shared evenly (PS)".to_owned(), &|x| queue.ps_s(x as f64).ok()));
            lines.push(line("the link alone, shortest first (SRPT)".to_owned(), &|x| {
                queue.srpt_s(x as f64).ok()
            }));
        }
        let panel = Panel {
            title: "Expected time from SYN to last ACK".to_owned(),
            x_name: "bytes".to_owned(),
            y_name: "seconds".to_owned(),
            log: true,
            lines,
            ..Panel::default()
        };
        let subtitle = self.heading(self.transfer(self.bytes, 0.0).packets);
        Chart { title: "Latency of a transfer".to_owned(), subtitle, panels: vec![panel] }
    }
}
