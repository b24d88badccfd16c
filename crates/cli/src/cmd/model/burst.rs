//! `narrows model burst`.

use std::collections::BTreeSet;
use std::fmt::Write;

use narrows_models::burst::{After, BurstTcp, Form, Growth, Hop, Overshoot, Path, Rounds};
use narrows_models::declared::burst::{
    ACK_BYTES, BASE, F, FORM, INITIAL, MICE, PACKET_BYTES, PACKETS, PIPE, SYN_BYTES,
};
use narrows_models::{Error, Result};
use narrows_plot::{Chart, Line};
use narrows_units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

use super::flags::word;
use super::{Answer, panel, time_s, usual};

flags! {
    /// Arguments of `narrows model burst`.
    pub struct Args {
        f: u32 = F [default_value_t = usual(&F)];
        mice: u32 = MICE [default_value_t = usual(&MICE)];
        packets: u32 = PACKETS [default_value_t = 64];
        initial: u32 = INITIAL [default_value_t = usual(&INITIAL)];
        base: f64 = BASE [default_value_t = 2.0];
        form: usize = FORM [value_parser = word(&FORM, &[]), default_value = "guarded"];
        /// Growth from the mice threshold on; with --form guarded
        after: String [value_parser = ["slow-start", "avoidance"], default_value = "slow-start"];
        /// Rate of the link, as 1.5mbit
        rate: Rate [default_value = "1.5mbit"];
        /// Propagation of the link one way, in seconds, or as 500ms
        delay: f64 [value_name = "SECONDS", default_value_t = 0.5, value_parser = time_s];
        /// Rate of two side links, one before and one behind the link; without it there are none
        side_rate: Option<Rate> [value_name = "RATE"];
        /// Propagation of each side link one way, in seconds, or as 10ms
        side_delay: f64 [value_name = "SECONDS", default_value_t = 0.0, requires = "side_rate", value_parser = time_s];
        packet: u64 = PACKET_BYTES [default_value_t = 1024];
        ack: u64 = ACK_BYTES [default_value_t = usual(&ACK_BYTES)];
        syn: Option<u64> = SYN_BYTES;
        pipe: u32 = PIPE [default_value_t = 32];
    }
}

/// Factors drawn beside the one asked for.
const FACTORS: [u32; 4] = [2, 4, 8, 12];

/// Transfer under one kind of growth.
struct Outcome {
    rounds: Rounds,
    seconds: f64,
    overshoot: Option<Overshoot>,
}

impl Args {
    /// Windows, rounds and times.
    pub fn answer(&self) -> anyhow::Result<Answer> {
        let path = self.path()?;
        let slow_start = self.outcome(&path, &Growth::SlowStart { base: self.base })?;
        let burst = self.burst(self.f, self.mice)?;
        let flow = burst.flow_level(self.initial, self.packets)?;
        let packet = self.outcome(&path, &Growth::Burst(burst))?;
        let json = json!({
            "f": self.f, "mice": self.mice, "packets": self.packets, "initial": self.initial, "base": self.base,
            "rounds": {
                "slow_start": slow_start.rounds.count(), "flow": flow.count(), "packet": packet.rounds.count(),
            },
            "seconds": { "slow_start": slow_start.seconds, "packet": packet.seconds },
            "windows": {
                "slow_start": slow_start.rounds.windows, "flow": flow.windows, "packet": packet.rounds.windows,
            },
            "sent": { "slow_start": slow_start.rounds.sent, "flow": flow.sent, "packet": packet.rounds.sent },
            "overshoot": {
                "pipe": self.pipe,
                "slow_start": overshoot(slow_start.overshoot),
                "packet": overshoot(packet.overshoot),
            },
        });
        Ok(Answer { json, text: self.text(&slow_start, &flow, &packet)?, chart: self.chart(&path) })
    }

    fn burst(&self, f: u32, mice: u32) -> Result<BurstTcp> {
        let after = if self.after == "avoidance" { After::CongestionAvoidance } else { After::SlowStart };
        let form = match self.form {
            0 => Form::Guarded(after),
            1 => Form::Guarded(After::CongestionAvoidance),
            2 => Form::Printed,
            _ => Form::Ns2,
        };
        BurstTcp::new(f, mice, form)
    }

    fn path(&self) -> Result<Path> {
        let mut hops = vec![Hop { rate: self.rate, delay: seconds("delay", self.delay)? }];
        if let Some(rate) = self.side_rate {
            let side = Hop { rate, delay: seconds("side-delay", self.side_delay)? };
            hops = vec![side, hops[0], side];
        }
        Ok(Path { hops, data: Bytes(self.packet), ack: Bytes(self.ack), syn: self.syn.map(Bytes) })
    }

    fn outcome(&self, path: &Path, growth: &Growth) -> Result<Outcome> {
        Ok(Outcome {
            rounds: growth.rounds(self.initial, self.packets)?,
            seconds: self.seconds(path, growth)?,
            overshoot: growth.overshoot(self.initial, self.pipe)?,
        })
    }

    /// Time at which the last packet is acknowledged, seconds.
    fn seconds(&self, path: &Path, growth: &Growth) -> Result<f64> {
        let acked = path.transfer(growth, self.initial, self.packets)?;
        Ok(acked.last().map_or(0.0, |last| last.as_secs_f64()))
    }

    fn text(&self, slow_start: &Outcome, flow: &Rounds, packet: &Outcome) -> anyhow::Result<String> {
        let mut text = format!(
            "{} packets of {} B from a window of {}, link {} and {} s one way{}, nothing lost\n\n",
            self.packets,
            self.packet,
            self.initial,
            self.rate,
            self.delay,
            self.side_rate
                .map_or_else(String::new, |rate| format!(", beside it {rate} and {} s", self.side_delay)),
        );
        let names = [
            if self.base == 2.0 {
                "slow start".to_owned()
            } else {
                format!("slow start, base {}", self.base)
            },
            format!("B-TCP({}), flow level", self.f),
            format!("B-TCP({}), packet level", self.f),
        ];
        writeln!(text, "{:<24}{:>7}{:>12}   windows per round trip", "", "rounds", "time s")?;
        let rows = [
            (&slow_start.rounds, Some(slow_start.seconds)),
            (flow, None),
            (&packet.rounds, Some(packet.seconds)),
        ];
        for (name, (rounds, seconds)) in names.iter().zip(rows) {
            let time = seconds.map_or_else(|| "-".to_owned(), |s| format!("{s:.6}"));
            writeln!(text, "{name:<24}{:>7}{time:>12}   {}", rounds.count(), shown(&rounds.windows))?;
        }
        writeln!(text, "\nA pipe of {} packets:", self.pipe)?;
        for (name, outcome) in [(&names[0], slow_start), (&names[2], packet)] {
            match outcome.overshoot {
                Some(o) => writeln!(
                    text,
                    "{name:<24}sends {} before the first loss and loses {}, in round {}",
                    o.sent, o.lost, o.round
                ),
                None => writeln!(text, "{name:<24}never fills it"),
            }?;
        }
        Ok(text)
    }

    /// Windows, packets sent, and times by factor and by threshold (Fig. 8, 10a, 11, 12).
    fn chart(&self, path: &Path) -> Chart {
        let slow_start = Growth::SlowStart { base: self.base };
        let factors: BTreeSet<u32> = FACTORS.into_iter().chain([self.f]).collect();
        let mut growths = vec![("slow start".to_owned(), slow_start)];
        growths.extend(
            factors.iter().filter_map(|f| Some((named(*f), Growth::Burst(self.burst(*f, self.mice).ok()?)))),
        );
        let per_round = |of: &dyn Fn(&Rounds) -> Vec<f64>| {
            let line = |(name, growth): &(String, Growth)| {
                let values = growth.rounds(self.initial, self.packets).map(|r| of(&r)).unwrap_or_default();
                Line {
                    name: name.clone(),
                    points: (1..).zip(values).map(|(x, y)| (f64::from(x), [y; 3])).collect(),
                }
            };
            growths.iter().map(line).collect::<Vec<_>>()
        };
        let time = |growth: Option<Growth>| Some([self.seconds(path, &growth?).ok()?; 3]);
        let of = |f: u32, mice: u32| time(self.burst(f, mice).ok().map(Growth::Burst));
        let sweep = |name: String, xs: &[u32], at: &dyn Fn(u32) -> Option<[f64; 3]>| {
            let points = xs.iter().filter_map(|x| Some((f64::from(*x), at(*x)?))).collect();
            Line { name, points }
        };
        let by_f: Vec<u32> = (1..=16).collect();
        let by_mice: Vec<u32> = (1..=10).map(|k| 8 * k).collect();
        let level = |xs: &[u32]| sweep("slow start".to_owned(), xs, &|_| time(Some(slow_start)));
        let thresholds: BTreeSet<u32> = [32, 40, self.mice].into_iter().collect();
        let mut times_by_f = vec![level(&by_f)];
        times_by_f.extend(thresholds.iter().map(|m| sweep(format!("threshold {m}"), &by_f, &|f| of(f, *m))));
        let mut times_by_mice = vec![level(&by_mice)];
        times_by_mice.extend(factors.iter().map(|f| sweep(named(*f), &by_mice, &|m| of(*f, m))));
        Chart {
            title: format!("{} packets: slow start and Burst TCP", self.packets),
            subtitle: format!(
                "threshold {}, window of {} at first, link {} and {} s one way",
                self.mice, self.initial, self.rate, self.delay
            ),
            panels: vec![
                panel("Windows", "round trip", "packets", per_round(&|r| r.windows.clone())),
                panel(
                    "Sent",
                    "round trip",
                    "packets",
                    per_round(&|r| r.sent.iter().map(|s| *s as f64).collect()),
                ),
                panel("Time by factor (Fig. 10a)", "f", "s", times_by_f),
                panel("Time by threshold (Fig. 12)", "mice threshold, packets", "s", times_by_mice),
            ],
        }
    }
}

fn named(f: u32) -> String {
    format!("B-TCP({f})")
}

/// Whole windows, the first twenty.
fn shown(windows: &[f64]) -> String {
    let some: Vec<String> = windows.iter().take(20).map(|w| w.floor().to_string()).collect();
    some.join(" ") + if windows.len() > 20 { " .." } else { "" }
}

fn overshoot(overshoot: Option<Overshoot>) -> Value {
    json!(overshoot.map(|o| json!({ "sent": o.sent, "lost": o.lost, "round": o.round })))
}

/// Time that was typed in seconds, 0 to 1000.
fn seconds(parameter: &'static str, value: f64) -> Result<Duration> {
    if (0.0..=1000.0).contains(&value) {
        return Ok(Duration::from_nanos((value * 1e9).round() as u64));
    }
    Err(Error { parameter, value, expected: "0 to 1000 s" })
}
