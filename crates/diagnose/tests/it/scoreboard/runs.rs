//! Simulated workloads. Every way of standing still that the simulator's ends and links can bring about is made by one
//! of these workloads, over one path: senders, 95 ms, a thin link, clients. Its six captures are the three points.

use core::ops::ControlFlow;
use core::str;
use std::fmt::Write as _;

use narrows_scenario::Experiment;
use narrows_sim::Results;

/// The path, without what sends over it.
const PATH: &str = include_str!("path.toml");

/// Traffic over the path, and the behaviour of the thin link.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// `[[traffic]]`.
    traffic: &'static str,
    sets: &'static [&'static str],
    /// Rates in kbit/s that are held out: the rules were made at the first, which [`PATH`] or `sets` has.
    rate: u32,
    other_rate: u32,
    /// The thin link stands still for this long, every 10 s, in milliseconds.
    outage: u32,
}

const OBJECTS: &str = "[[traffic]]\nkind = 'objects'\nusers = 40\nthink = '1s'\n";

/// All workloads.
pub(crate) const WORKLOADS: [Workload; 8] = [
    Workload {
        name: "flows30",
        traffic: "[[traffic]]\nkind = 'long'\nflows = 30\n",
        sets: &["dephase=30ms"],
        rate: 1000,
        other_rate: 600,
        outage: 0,
    },
    Workload {
        name: "flows200",
        traffic: "[[traffic]]\nkind = 'long'\nflows = 200\n",
        sets: &["dephase=30ms"],
        rate: 1000,
        other_rate: 1500,
        outage: 0,
    },
    // Web objects that overload a thin link: handshakes, short windows and ends of objects are lost.
    Workload { name: "objects", traffic: OBJECTS, sets: &[], rate: 500, other_rate: 800, outage: 0 },
    // Bursts of losses on a faster link, longer than a window.
    Workload {
        name: "bursts",
        traffic: "[[traffic]]\nkind = 'objects'\nusers = 30\nthink = '1s'\nsize = 'exp:60000'\n",
        sets: &["link.thin.loss=gilbert:to_bad=0.004,to_good=0.1", "link.thin.discipline=fifo:200"],
        rate: 8000,
        other_rate: 5000,
        outage: 0,
    },
    // Most acknowledgments are lost.
    Workload {
        name: "acks",
        traffic: "[[traffic]]\nkind = 'objects'\nusers = 60\nthink = '1s'\nsize = 'exp:20000'\n",
        sets: &["link.thin.back_loss=0.35", "link.thin.discipline=fifo:200"],
        rate: 8000,
        other_rate: 5000,
        outage: 0,
    },
    // The receivers' windows are two or three segments.
    Workload {
        name: "windows",
        traffic: "[[traffic]]\nkind = 'long'\nflows = 30\n",
        sets: &["tcp.receive_window=2900", "link.thin.loss=0.04", "link.thin.discipline=fifo:200"],
        rate: 4000,
        other_rate: 3000,
        outage: 0,
    },
    // Applications that have nothing to say for a second or two, at either end.
    Workload {
        name: "talk",
        traffic: "[[traffic]]\nkind = 'telnet'\nflows = 40\ninterval = '2s'\nbytes = 400\n\
                  [[traffic]]\nkind = 'telnet'\nflows = 40\ninterval = '2s'\nbytes = 400\nopened_by = 'receiver'\n",
        sets: &["link.thin.loss=0.03"],
        rate: 1000,
        other_rate: 600,
        outage: 0,
    },
    // A link that stands still for less than a timer of one second takes, and loses nothing.
    Workload {
        name: "outages",
        traffic: "[[traffic]]\nkind = 'long'\nflows = 40\n",
        sets: &["link.thin.discipline=fifo:2000", "link.way.delay=20ms", "tcp.receive_window=4000"],
        rate: 8000,
        other_rate: 6000,
        outage: 600,
    },
];

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) preset: &'static str,
    pub(crate) seed: u64,
    /// Whether to run at the rate that is held out.
    pub(crate) other: bool,
}

impl Workload {
    pub(crate) fn run(&self, draw: Draw) -> Results {
        let rate = if draw.other { self.other_rate } else { self.rate };
        let mut sets: Vec<String> = self.sets.iter().map(|s| (*s).to_owned()).collect();
        sets.push(format!("tcp.preset={}", draw.preset));
        sets.push(format!("seeds={0}..{0}", draw.seed));
        if self.outage == 0 {
            sets.push(format!("link.thin.rate={rate}kbit"));
        }
        let path = if self.outage == 0 {
            PATH.to_owned()
        } else {
            PATH.replace("rate = \"1mbit\"", &format!("rates = [{}]", self.steps(rate)))
        };
        let text = format!("{path}\n{}", self.traffic);
        let runs = Experiment::parse(&text, &sets).unwrap().expand().unwrap();
        narrows_sim::run(&runs[0].scenario, runs[0].seed, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    /// The rate, and every ten seconds nothing for a while.
    fn steps(&self, rate: u32) -> String {
        let mut steps = format!("['0s', '{rate}kbit']");
        for n in 1..30 {
            let _ = write!(
                steps,
                ", ['{0}000ms', '0'], ['{0}{1:03}ms', '{rate}kbit']",
                n * 10,
                self.outage + n * 20 % 100
            );
        }
        steps
    }
}
