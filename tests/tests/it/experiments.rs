//! The papers' experiments in simulation, and those of today's traffic, cut down: every file of their folders that is
//! for the simulator can be read and expanded, its claims name figures that runs have, and those claims that do not
//! need long runs come out as they should. `make claims` runs the files as they are.

use core::ops::ControlFlow;
use std::path::{Path, PathBuf};

use narrows_scenario::{ClaimOutcome, Experiment, Judgment, Sample};
use narrows_testing::skip_part;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

/// All TOML files below `folder` but those of the lab.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "lab") {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "toml") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Files that are drawn only: what their figures say is claimed of others, with more than one flow or size.
const DRAWN: [&str; 1] = ["fig08-13-windows.toml"];

/// Whether a file needs others' traces, which are not there.
fn lacks_traces(file: &Path) -> bool {
    let text = std::fs::read_to_string(file).expect("it can be read");
    text.contains("\"traces/") && !file.with_file_name("traces").exists()
}

#[test]
fn every_file_can_be_run() {
    for file in ["taq", "burst-tcp", "adaptive-aimd", "initial-spreading", "plan", "class-isolation", "real"]
        .iter()
        .flat_map(|paper| files(&folder().join(paper)))
    {
        if lacks_traces(&file) {
            let part = file.display().to_string();
            skip_part("every_file_can_be_run", &part, "its traces are no part of this repository");
            continue;
        }
        let experiment = Experiment::load(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
        let drawn = DRAWN.iter().any(|name| file.ends_with(name));
        assert_eq!(
            experiment.claims.is_empty(),
            drawn,
            "{}: nothing is claimed, or now something",
            file.display()
        );
        experiment.expand().unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Runs an experiment with other settings and judges its claims, each of which must have the figures it names. Those
/// whose sentences begin with one of `hold` must hold.
fn judge(file: &str, sets: &[&str], hold: &[&str]) {
    let sets: Vec<String> = sets.iter().map(|&s| s.to_owned()).collect();
    let experiment = Experiment::load(&folder().join(file), &sets).unwrap_or_else(|e| panic!("{e}"));
    let mut samples = Vec::new();
    for run in experiment.expand().unwrap_or_else(|e| panic!("{e}")) {
        let results = narrows_sim::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(()));
        let metrics = results.expect("it is not stopped").summary;
        samples.push(Sample { coords: run.coords, seed: run.seed, metrics });
    }
    let verdicts: Vec<(&str, Judgment)> = experiment
        .claims
        .iter()
        .map(|c| (c.text.as_str(), c.judge(&samples).unwrap_or_else(|e| panic!("{file}: {e}"))))
        .collect();
    for (text, verdict) in &verdicts {
        println!("{file}: {text}: {:?}, worst {:?}", verdict.outcome, verdict.worst);
    }
    for beginning in hold {
        let mut meant = verdicts.iter().filter(|(text, _)| text.starts_with(beginning)).peekable();
        assert!(meant.peek().is_some(), "{file} claims nothing that begins with '{beginning}'");
        for (text, verdict) in meant {
            assert_eq!(verdict.outcome, ClaimOutcome::Holds, "{file}: {text}: worst {:?}", verdict.worst);
        }
    }
}

const SHORT: [&str; 3] = ["seeds=[1]", "duration=160s", "warmup=60s"];

fn cut<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.iter().chain(more).copied().collect()
}

#[test]
fn taq_figure_1() {
    let sets = ["seeds=[1]", "duration=300s"];
    judge("taq/fig01-access-log.toml", &sets, &["Behind TAQ", "Everything asked for"]);
}

#[test]
fn taq_figure_2() {
    let sets = cut(&["sweep.rate=[\"600kbit\"]", "sweep.share=[2000, 5000, 10000, 30000]", "duration=400s"]);
    let hold = [
        "T2: from 30 kbit/s",
        "T2: below, they are not",
        "T2: the index falls",
        "T2: all the while",
        "T2b: there, 40 %",
    ];
    judge("taq/fig02-fairness.toml", &sets, &hold);
}

#[test]
fn taq_figure_3() {
    let sets =
        cut(&["sweep.traffic.0.flows=[100, 800]", "sweep.each=[0, 1, 2, 5, 10]", "sweep.dephase=[\"30ms\"]"]);
    let hold = ["... from end to end", "More buffer costs", "The more flows"];
    judge("taq/fig03-buffers.toml", &sets, &hold);
}

#[test]
fn taq_figure_6() {
    let sets = cut(&["sweep.rate=[\"600kbit\"]", "sweep.share=[5000, 10000, 20000, 30000, 40000]"]);
    judge("taq/fig06-epochs.toml", &sets, &["The more is lost", "... by silence alone", "... by simulation"]);
}

#[test]
fn taq_figure_8() {
    let sets = cut(&["sweep.rate=[\"200kbit\"]", "sweep.share=[2000, 20000, 30000]"]);
    let hold = [
        "Under TAQ",
        "TAQ wastes",
        "TAQ has at most",
        "The price",
        "The published rules are fairer",
        "Under the published rules",
        "The published rules keep",
    ];
    judge("taq/fig08-taq.toml", &sets, &hold);
}

#[test]
fn taq_figure_9() {
    let sets = cut(&["sweep.dephase=[\"0ms\"]"]);
    let hold = ["Under TAQ hardly", "The published rules leave", "Under drop-tail half"];
    judge("taq/fig09-states.toml", &sets, &hold);
}

#[test]
fn taq_figure_10() {
    let more =
        ["sweep.packets=[2, 20, 80]", "sweep.dephase=[\"30ms\"]", "duration=220s", "traffic.short.start=60s"];
    let hold = ["Under TAQ the time", "Times of equal lengths", "Under the published rules", "The scatter"];
    judge("taq/fig10-downloads.toml", &cut(&more), &hold);
}

#[test]
fn taq_figure_12() {
    let sets = ["seeds=[1]", "duration=300s", "sweep.traffic.0.clients=[2, 12]"];
    judge(
        "taq/fig12-replay.toml",
        &sets,
        &[
            "Small objects are 5 times faster in the worst case",
            "Small objects are 5 times faster at the median where",
        ],
    );
}

#[test]
fn taq_section_2_hangs() {
    let more = ["sweep.dephase=[\"30ms\"]", "sweep.traffic.0.connections=[1, 4]", "duration=400s"];
    judge("taq/sec2-hangs.toml", &cut(&more), &["With fewer connections", "And yet the hangs"]);
}

#[test]
fn taq_section_4_admission() {
    let more = ["sweep.dephase=[\"30ms\"]", "sweep.traffic.0.users=[180, 800]"];
    let hold = ["Under TAQ nothing", "With admission the published rules have", "Without admission control"];
    judge("taq/sec43-admission.toml", &cut(&more), &hold);
}

/// A single long file moves a mean of few runs: what needs more is not judged here.
const FEW: &str = "seeds=[1, 2, 3]";

#[test]
fn burst_tcp_figure_15() {
    let hold = [
        "B8: both are faster",
        "B11: mice of B-TCP(4) lose many times what those of B-TCP(8)",
        "B11: mice of B-TCP(8)",
        "B11: elephants of both",
        "B11: B-TCP(8) loses least",
    ];
    judge("burst-tcp/fig15-mice.toml", &[FEW, "sweep.flows=[250, 1250, 2250, 2500]"], &hold);
}

#[test]
fn burst_tcp_single_files() {
    judge("burst-tcp/fig08-pipe.toml", &[], &["B1: B-TCP(4)", "B1: 128 packets"]);
    judge("burst-tcp/fig10-factor.toml", &[], &["B2", "B3"]);
    judge("burst-tcp/fig11-first.toml", &[], &["B4", "B6"]);
    judge("burst-tcp/fig12-threshold.toml", &[], &["B5"]);
}

#[test]
fn burst_tcp_figures_17_to_20() {
    let hold = ["B12", "B16: everybody", "B16: mice"];
    judge("burst-tcp/fig17-buffers.toml", &[FEW, "sweep.flows=[250, 1250, 1500]"], &hold);
}

#[test]
fn burst_tcp_figures_21_to_27() {
    let hold = ["B17", "B18", "B20: by the median", "B22: with delayed", "B23: B-TCP(8) loses less"];
    judge("burst-tcp/fig21-reverse.toml", &["seeds=[1, 2, 3]"], &hold);
}

#[test]
fn burst_tcp_figures_28_and_29() {
    let sets = ["seeds=[1, 2]", "sweep.flows=[250, 1250]"];
    judge("burst-tcp/fig28-udp.toml", &sets, &["B25: everybody"]);
}

#[test]
fn burst_tcp_figures_31_to_35() {
    let few = ["seeds=[1]", "sweep.flows=[250, 1250]"];
    judge("burst-tcp/fig31-hops.toml", &few, &["B26: and its gain", "B28: B-TCP(8)"]);
    judge("burst-tcp/fig33-mix.toml", &few[..1], &["B30: mice lose more"]);
}

#[test]
fn initial_spreading_windows() {
    let sets = ["seeds=[1]", "duration=600s", "sweep.segments=[10]"];
    judge("initial-spreading/sec5-windows.toml", &sets, &["I4: and a window", "I5", "I7: uncongested"]);
}

#[test]
fn initial_spreading_bursts() {
    let sets = ["seeds=[1]", "duration=600s"];
    let hold = ["I1: of all", "I1: ... than if a twentieth", "I2: one"];
    judge("initial-spreading/fig04-05-bursts.toml", &sets, &hold);
    judge("initial-spreading/fig02-sends.toml", &[], &["I6"]);
}

#[test]
fn adaptive_aimd_one_flow_and_two_hops() {
    let hold = ["After the first", "... where standard", "The factor comes"];
    judge("adaptive-aimd/fig05-one-flow.toml", &[], &hold);
    let hold =
        ["Alone the first", "It has 40", "The second flow's", "Together they", "Afterwards the factor"];
    judge("adaptive-aimd/fig14-two-hops.toml", &[], &hold);
}

#[test]
fn where_the_plan_tips() {
    let sets = ["sweep.tcp.preset=[\"linux\"]", "duration=200s", "warmup=50s"];
    judge("plan/tipping.toml", &sets, &["With fewer", "With a third"]);
}

#[test]
fn class_isolation_figure_3() {
    let sets = ["seeds=[1]", "duration=100s", "warmup=40s"];
    judge(
        "class-isolation/fig03-large-pipe.toml",
        &sets,
        &["C1a: apart", "C1a: what", "C1b: in one queue short"],
    );
}

#[test]
fn class_isolation_figures_4_and_5_and_tahoe() {
    let sets = |more: &'static str| ["seeds=[1]", "duration=160s", "warmup=60s", more];
    let short = ["seeds=[1]", "duration=100s", "warmup=40s"];
    judge("class-isolation/fig04-small-pipe.toml", &short, &["C2a: by less", "C2: isolation"]);
    judge(
        "class-isolation/fig05-buffers.toml",
        &sets("sweep.b=[0.2, 0.5, 1, 2, 3]"),
        &["C3b: in one queue what", "C3b: and"],
    );
    judge("class-isolation/tahoe.toml", &sets("sweep.k=[1]"), &["C-T"]);
}

#[test]
fn class_isolation_figure_7() {
    let sets = ["seeds=[1]", "duration=400s", "warmup=100s"];
    judge("class-isolation/fig07-web.toml", &sets, &["W4", "W5: the thresholds", "The lifetime split"]);
}

#[test]
fn today_s_mix() {
    let sets = ["seeds=[1]", "disciplines=[\"taq\", \"taq:new_quantum=0\", \"cake\"]"];
    judge(
        "real/mix.toml",
        &sets,
        &["Goodput", "Over TCP and over QUIC fewer", "Stalls above 20 s", "Credit"],
    );
}

/// Users who come for a minute, at the link's own load.
#[test]
fn today_s_users_who_come_and_go() {
    let sets = |more: &[&'static str]| -> Vec<&'static str> {
        let short = ["seeds=[1]", "sweep.load=[1.0]", "duration=150s"];
        short.iter().chain(more).copied().collect()
    };
    let stop = ["traffic.tcp.stop=60s", "traffic.quic.stop=60s"];
    judge("real/open.toml", &sets(&stop), &["TAQ: object times"]);
    judge("real/pages.toml", &sets(&stop), &["TAQ: page times"]);
}

/// Whoever asks once and acknowledges from then on has not rested: else uploads would have nothing by share=flow.
#[test]
fn acknowledgments_beside_uploads() {
    let sets =
        ["seeds=[1]", "duration=40s", "disciplines=[\"taq\", \"taq:share=flow\", \"taq:ack_filter=off\"]"];
    judge("real/asymmetric.toml", &sets, &["Downloads", "Uploads", "Flows share"]);
}
