//! Plan of the comparison: scenarios, flavours of TCP, and the settings for each simulator's script.

use serde::Serialize;

/// Simulator that runs a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
pub enum Simulator {
    /// Narrows itself.
    #[serde(rename = "narrows")]
    Narrows,
    /// ns-2.35.
    #[serde(rename = "ns-2")]
    Ns2,
    /// ns-3.37.
    #[serde(rename = "ns-3")]
    Ns3,
}

impl Simulator {
    /// Name of the simulator in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Narrows => "narrows",
            Self::Ns2 => "ns-2",
            Self::Ns3 => "ns-3",
        }
    }
}

/// A way of TCP, and whose it is: agreement is judged between Narrows and that peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flavour {
    /// Name in tables and records.
    pub name: &'static str,
    /// Simulator that runs the flavour beside Narrows.
    pub peer: Simulator,
    /// SACK, or NewReno.
    pub sack: bool,
    /// Timestamps, and with them: any new ACK ends the back-off. Without them a new RTT sample does.
    pub timestamps: bool,
    /// Whether each send is delayed at random.
    pub dephased: bool,
    /// The bottleneck's queue: `droptail`, `red` or `sfq`.
    pub queue: &'static str,
}

/// Flavours of S1.
pub const FLAVOURS: [Flavour; 7] = [
    Flavour { name: "NewReno, phase", sack: false, dephased: false, ..DEPHASED },
    Flavour { name: "NewReno, dephased", sack: false, ..DEPHASED },
    Flavour { name: "SACK, dephased", ..DEPHASED },
    Flavour { name: "SACK, dephased, any ACK", timestamps: true, ..DEPHASED },
    Flavour { name: "SACK, dephased, RED", queue: "red", ..DEPHASED },
    Flavour { name: "SACK, dephased, SFQ", queue: "sfq", ..DEPHASED },
    Flavour { name: "LinuxReno, dephased", peer: Simulator::Ns3, timestamps: true, ..DEPHASED },
];

/// Settings that most flavours share.
const DEPHASED: Flavour = Flavour {
    name: "",
    peer: Simulator::Ns2,
    sack: true,
    timestamps: false,
    dephased: true,
    queue: "droptail",
};

/// The flavour of all else, in every simulator: with SACK; ns-3 needs timestamps for its RTT samples.
pub const SACK: &str = "SACK";

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// S1: fair share of each flow, kbit/s.
    Share(u32),
    /// Speed: 100 flows, 100 Mbit/s.
    A,
    /// Speed: 300 flows, 600 kbit/s.
    B,
    /// Speed: 10 000 flows, 1 Gbit/s.
    C,
    /// Scenario of one flow; the buffer is given in percent of the bandwidth-delay product.
    Buffer(u32),
}

/// Fair shares of S1, kbit/s.
pub const SHARES: [u32; 5] = [2, 5, 10, 20, 30];
/// Buffers of the single flow, percent of the bandwidth-delay product.
pub const BUFFERS: [u32; 6] = [5, 10, 25, 50, 75, 100];

impl Case {
    /// Name of the case in records: `s1:2`, `a`, `u:50`.
    pub fn id(self) -> String {
        match self {
            Self::Share(kbps) => format!("s1:{kbps}"),
            Self::A => "a".into(),
            Self::B => "b".into(),
            Self::C => "c".into(),
            Self::Buffer(percent) => format!("u:{percent}"),
        }
    }

    /// Whether its time is what counts: such runs have the machine to themselves.
    pub const fn timed(self) -> bool {
        matches!(self, Self::A | Self::B | Self::C)
    }
}

/// Everything a script is told; the names are those of its options.
/// docs/explanation/simulator-peers.md says what they mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    pub tcp: &'static str,
    pub timestamps: u32,
    pub dephase_ms: u32,
    pub queue: &'static str,
    pub flows: u32,
    pub rate_bps: u64,
    pub wire_bytes: u32,
    pub buffer_packets: u32,
    pub rtt_min_ms: u32,
    pub rtt_max_ms: u32,
    pub start_s: u32,
    pub warmup_s: u32,
    pub duration_s: u32,
    pub slice_s: u32,
    pub window_packets: u32,
    pub rto_min_ms: u32,
    pub seed: u64,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Simulator that runs the job.
    pub simulator: Simulator,
    /// Scenario of the job.
    pub case: Case,
    /// Flavour of TCP.
    pub flavour: &'static str,
    /// Settings of the run.
    pub settings: Settings,
    /// Rough duration, seconds on a machine of 2024: the measure of the progress report.
    pub expected_s: f64,
}

impl Settings {
    fn s1(share_kbps: u32, seed: u64) -> Self {
        Self {
            tcp: "sack",
            timestamps: 0,
            dephase_ms: 0,
            queue: "droptail",
            flows: 600 / share_kbps,
            rate_bps: 600_000,
            wire_bytes: 500,
            // One RTT: 600 kbit/s in 200 ms.
            buffer_packets: 30,
            rtt_min_ms: 190,
            rtt_max_ms: 210,
            start_s: 5,
            warmup_s: 100,
            duration_s: 1000,
            slice_s: 20,
            window_packets: 100,
            rto_min_ms: 200,
            seed,
        }
    }

    fn of(case: Case, seed: u64, quick: bool) -> Self {
        let thin = Self::s1(2, seed);
        let fast = Self {
            wire_bytes: 1500,
            rtt_min_ms: 50,
            rtt_max_ms: 150,
            start_s: 1,
            warmup_s: 0,
            slice_s: 0,
            ..thin
        };
        let full = match case {
            Case::Share(kbps) => Self::s1(kbps, seed),
            // A quarter of the bandwidth-delay product at the mean RTT, 100 ms.
            Case::A => {
                Self { flows: 100, rate_bps: 100_000_000, buffer_packets: 208, duration_s: 60, ..fast }
            }
            Case::B => Self { dephase_ms: 30, warmup_s: 0, slice_s: 0, duration_s: 10_000, ..thin },
            Case::C => {
                Self { flows: 10_000, rate_bps: 1_000_000_000, buffer_packets: 2083, duration_s: 10, ..fast }
            }
            // 1000 packets a second and 100 ms: percent are packets. The floor of the RTO keeps timers out of it.
            Case::Buffer(percent) => Self {
                flows: 1,
                rate_bps: 12_000_000,
                buffer_packets: percent,
                rtt_min_ms: 100,
                rtt_max_ms: 100,
                warmup_s: 100,
                duration_s: 500,
                // Never reached: at its edge ns-3.37 may crash.
                window_packets: 3000,
                rto_min_ms: 1000,
                ..fast
            },
        };
        match case {
            _ if !quick => full,
            Case::C => Self { flows: 1000, rate_bps: 100_000_000, buffer_packets: 208, ..full },
            _ => Self { duration_s: full.duration_s / 5, ..full },
        }
    }

    fn with(self, flavour: &Flavour) -> Self {
        Self {
            tcp: if flavour.sack { "sack" } else { "newreno" },
            timestamps: flavour.timestamps.into(),
            dephase_ms: if flavour.dephased { 30 } else { 0 },
            queue: flavour.queue,
            ..self
        }
    }

    /// Options and values, as the scripts take them.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            unreachable!("a struct of numbers and a word is an object")
        };
        let text =
            |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        fields.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }
}

/// Simulator whose rules a run of Narrows follows: the peer it is compared with, or ns-2 where both take part.
pub fn style(job: &Job) -> Simulator {
    FLAVOURS.iter().find(|flavour| flavour.name == job.flavour).map_or(Simulator::Ns2, |flavour| flavour.peer)
}

/// Scenarios of `s1,a,b,c,u` that are wanted, and their seeds and length.
pub struct Wish<'a> {
    /// Names of scenarios.
    pub only: &'a [String],
    /// Seeds of S1 and of the single flow's first; timed cases take the first.
    pub seeds: &'a [u64],
    /// Shorter runs, two shares.
    pub quick: bool,
}

/// Jobs that are wanted, timed ones last.
pub fn jobs(wish: &Wish<'_>) -> Vec<Job> {
    let wants = |name: &str| wish.only.iter().any(|only| only == name);
    let mut jobs = Vec::new();
    if wants("s1") {
        let shares: &[u32] = if wish.quick { &[5, 20] } else { &SHARES };
        for &share in shares {
            for flavour in &FLAVOURS {
                for &seed in wish.seeds {
                    let case = Case::Share(share);
                    let settings = Settings::of(case, seed, wish.quick).with(flavour);
                    for simulator in [Simulator::Narrows, flavour.peer] {
                        jobs.push(job(simulator, case, flavour.name, settings.clone()));
                    }
                }
            }
        }
    }
    let singles = BUFFERS.map(Case::Buffer);
    let timed = [("u", &singles[..]), ("a", &[Case::A]), ("b", &[Case::B]), ("c", &[Case::C])];
    for (name, cases) in timed {
        for &case in cases.iter().filter(|_| wants(name)) {
            for simulator in [Simulator::Narrows, Simulator::Ns2, Simulator::Ns3] {
                let settings = Settings::of(case, wish.seeds[0], wish.quick);
                // Without timestamps ns-3 takes a retransmitted SYN's time for an RTT sample.
                let timestamps = u32::from(simulator == Simulator::Ns3);
                jobs.push(job(simulator, case, SACK, Settings { timestamps, ..settings }));
            }
        }
    }
    jobs
}

fn job(simulator: Simulator, case: Case, flavour: &'static str, settings: Settings) -> Job {
    let packets = f64::from(settings.warmup_s + settings.duration_s) * settings.rate_bps as f64
        / (8.0 * f64::from(settings.wire_bytes));
    // Seconds per flow to set up, and per packet, as measured.
    let (flow_s, packet_s) = match simulator {
        Simulator::Narrows => (1e-5, 5e-7),
        Simulator::Ns2 => (4e-3, 2.5e-6),
        Simulator::Ns3 => (3e-3, 4e-5),
    };
    let expected_s = f64::from(settings.flows) * flow_s + packets * packet_s;
    Job { simulator, case, flavour, settings, expected_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_has_the_flows_that_give_each_share() {
        let flows = SHARES.map(|share| Settings::s1(share, 1).flows);
        assert_eq!(flows, [300, 120, 60, 30, 20]);
    }

    #[test]
    fn a_full_plan() {
        let only: Vec<String> = ["s1", "a", "b", "c", "u"].map(Into::into).into();
        let jobs = jobs(&Wish { only: &only, seeds: &[1, 2, 3], quick: false });
        // 5 shares, 7 flavours, 3 seeds, each by Narrows and one peer; 6 buffers and 3 timed cases by all three.
        assert_eq!(jobs.len(), 210 + 27);
        let first_timed = jobs.iter().position(|job| job.case.timed()).unwrap();
        assert!(jobs[first_timed..].iter().all(|job| job.case.timed()));
    }

    #[test]
    fn options_are_named_as_the_scripts_name_them() {
        let tcl = include_str!("../../../peers/ns2/dumbbell.tcl");
        let cc = include_str!("../../../peers/ns3/dumbbell.cc");
        for (name, _) in Settings::s1(2, 1).pairs() {
            assert!(tcl.contains(&format!(" {name} ")), "ns-2 has no {name}");
            // The program for ns-3 has a single way of TCP and a single queue.
            assert!(
                name == "tcp" || name == "queue" || cc.contains(&format!("\"{name}\"")),
                "ns-3 has no {name}"
            );
        }
    }
}
