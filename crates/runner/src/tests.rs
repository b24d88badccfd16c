//! Plans of small arithmetic instead of simulations: what the runner promises holds for any function of scenario and
//! seed.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use narrows_scenario::{LabSettings, Probes, Run, Scenario, Topology};
use narrows_sim::{Column, Data, Results, RunError, Table};
use narrows_units::{Duration, Instant};

use crate::{Error, Event, GoOn, RunOptions, RunPlan, RunReport, SpareCores, execute, simulate};

/// A folder of this test's own, gone when dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("narrows-runner-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }
    fn options(&self, jobs: usize) -> RunOptions {
        RunOptions { out: self.0.clone(), jobs, fresh: false }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn scenario(name: &str, share: u64, discipline: &str) -> Arc<Scenario> {
    let text = format!("discipline = \"{discipline}\"\nshare = {share}\n");
    Arc::new(Scenario {
        name: name.into(),
        about: "a test".into(),
        duration: Duration::from_secs(10),
        warmup: Duration::default(),
        jitter: Duration::default(),
        dephase: Duration::default(),
        mtu: 1500,
        topology: Topology::default(),
        thin: None,
        traffic: Vec::new(),
        probes: Probes { interval: Duration::from_secs(1), stalls: Vec::new(), ..Probes::default() },
        lab: LabSettings::default(),
        hash: text.clone(),
        text,
    })
}

/// Two disciplines, two shares, three seeds.
fn plan(name: &str) -> RunPlan {
    let mut runs = Vec::new();
    for discipline in ["fifo:30", "taq"] {
        for share in [2000, 5000] {
            let coords: BTreeMap<String, String> =
                [("discipline", discipline.to_owned()), ("share", share.to_string())]
                    .map(|(k, v)| (k.to_owned(), v))
                    .into();
            let scenario = scenario(name, share, discipline);
            runs.extend((1..=3).map(|seed| Run { coords: coords.clone(), seed, scenario: scenario.clone() }));
        }
    }
    RunPlan::new("the text", "narrows sim tiny.toml", runs)
}

/// A deterministic function of scenario and seed, in ten steps of a second.
fn arithmetic(scenario: &Scenario, seed: u64, _: &SpareCores, go_on: &GoOn<'_>) -> Result<Results, RunError> {
    for second in 1..=10u64 {
        if go_on(Instant::from_nanos(second * 1_000_000_000)).is_break() {
            return Err(RunError::Stopped);
        }
    }
    let size = scenario.text.len() as u64;
    let goodput: Vec<f64> = (0..size).map(|i| (i * seed) as f64 / 7.0).collect();
    let mut tables = vec![Table {
        name: "flows".into(),
        columns: vec![
            Column { name: "flow".into(), data: Data::U64((0..size).collect()) },
            Column { name: "goodput_bps".into(), data: Data::F64(goodput) },
            Column { name: "seed".into(), data: Data::Text(vec!["a,\"b\"".into(); size as usize]) },
        ],
    }];
    if scenario.text.contains("taq") {
        tables[0].columns.push(Column { name: "class".into(), data: Data::U64(vec![7; size as usize]) });
        tables.push(Table {
            name: "states".into(),
            columns: vec![Column { name: "epoch".into(), data: Data::U64(vec![1, 2]) }],
        });
    }
    Ok(Results {
        summary: [("jain".to_owned(), 1.0 / seed as f64), ("none_s".to_owned(), f64::NAN)].into(),
        tables,
        captures: vec![("thin/back".into(), vec![1, 2, 3])],
        qlog: Some("{}".to_owned()),
    })
}

fn quietly(plan: &RunPlan, options: &RunOptions) -> Result<RunReport, Error> {
    execute(plan, options, &arithmetic, &AtomicBool::new(false), &|_| ())
}

/// Every file below a folder and its bytes, but for those that may differ from time to time.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(at: &Path, root: &Path, to: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, to);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                to.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(dir, dir, &mut all);
    assert!(all.remove("timing.csv").is_some() && all.remove(".lock").is_some());
    all
}

#[test]
fn the_files_by_hand() {
    let place = Place::new("files");
    let report = quietly(&plan("tiny"), &place.options(2)).unwrap();
    assert_eq!((report.found, report.summaries.len()), (0, 12));
    let text = |name: &str| fs::read_to_string(place.0.join(name)).unwrap();
    let summary = text("summary.csv");
    let mut lines = summary.lines();
    assert_eq!(lines.next(), Some("discipline,share,seed,jain,none_s"));
    assert_eq!(lines.nth(2), Some("fifo:30,2000,3,0.3333333333333333,"));
    // The table has a column of its own that is called seed; the column class is in some runs only.
    let flows = text("flows.csv");
    assert_eq!(flows.lines().next(), Some("discipline,share,sweep.seed,flow,goodput_bps,seed,class"));
    assert_eq!(flows.lines().nth(3), Some("fifo:30,2000,1,2,0.2857142857142857,\"a,\"\"b\"\"\","));
    assert!(flows.lines().last().unwrap().ends_with(",7"));
    assert_eq!(text("states.csv").lines().count(), 1 + 2 * 6);
    let manifest: serde_json::Value = serde_json::from_str(&text("manifest.json")).unwrap();
    assert_eq!(manifest["files"]["states.parquet"]["rows"], 12);
    assert_eq!(manifest["finished"], true);
    assert_eq!(manifest["sweep"]["share"], serde_json::json!(["2000", "5000"]));
    let run = place.0.join("runs").join(manifest["runs"][0].as_str().unwrap());
    assert_eq!(fs::read(run.join("thin_back.pcap")).unwrap(), [1, 2, 3]);
    assert_eq!(fs::read(run.join("connections.qlog")).unwrap(), b"{}");
    assert_eq!(text("timing.csv").lines().count(), 13);
    let joint = crate::parquet::Reader::open(&place.0.join("flows.parquet")).unwrap().read().unwrap();
    assert!(matches!(&joint[1].data, Data::U64(v) if v[0] == 2000));
    assert!(matches!(&joint[6].data, Data::F64(v) if v[0].is_nan()));
}

#[test]
fn one_thread_and_three_give_the_same_bytes() {
    let (one, three) = (Place::new("one"), Place::new("three"));
    quietly(&plan("tiny"), &one.options(1)).unwrap();
    quietly(&plan("tiny"), &three.options(3)).unwrap();
    let (one, three) = (contents(&one.0), contents(&three.0));
    assert_eq!(one.keys().collect::<Vec<_>>(), three.keys().collect::<Vec<_>>());
    assert!(one == three);
}

#[test]
fn stopped_and_resumed_gives_the_same_bytes() {
    let (whole, parts) = (Place::new("whole"), Place::new("parts"));
    quietly(&plan("tiny"), &whole.options(2)).unwrap();
    let stop = AtomicBool::new(false);
    // In the middle of the sixth run.
    let seconds = AtomicUsize::new(0);
    let watch = |event: Event<'_>| {
        if let Event::At(..) = event
            && seconds.fetch_add(1, Ordering::Relaxed) == 54
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let why = execute(&plan("tiny"), &parts.options(1), &arithmetic, &stop, &watch).unwrap_err();
    assert!(matches!(why, Error::Stopped { done: 5, total: 12 }), "{why}");
    assert!(why.to_string().contains("the same command goes on"), "{why}");
    assert!(!parts.0.join("summary.csv").exists());
    let report = quietly(&plan("tiny"), &parts.options(2)).unwrap();
    assert_eq!(report.found, 5);
    assert!(contents(&whole.0) == contents(&parts.0));
    // A third execution finds nothing left to do.
    let ran = AtomicUsize::new(0);
    let count = |event: Event<'_>| {
        ran.fetch_add(usize::from(matches!(event, Event::Begin(_))), Ordering::Relaxed);
    };
    execute(&plan("tiny"), &parts.options(2), &arithmetic, &AtomicBool::new(false), &count).unwrap();
    assert_eq!(ran.into_inner(), 0);
    assert!(contents(&whole.0) == contents(&parts.0));
    // Unless asked for.
    let fresh = RunOptions { fresh: true, ..parts.options(2) };
    assert_eq!(quietly(&plan("tiny"), &fresh).unwrap().found, 0);
}

#[test]
fn a_run_half_written_is_done_again() {
    let (whole, crashed) = (Place::new("sound"), Place::new("crashed"));
    quietly(&plan("tiny"), &whole.options(2)).unwrap();
    quietly(&plan("tiny"), &crashed.options(2)).unwrap();
    let plan = plan("tiny");
    let run = |at: usize| crashed.0.join("runs").join(&plan.jobs[at].key);
    // The program died before the rename; the machine died before the last bytes were on the disk, or a file at all.
    fs::rename(run(0), run(0).with_extension("half")).unwrap();
    fs::File::options().write(true).open(run(1).join("flows.parquet")).unwrap().set_len(10).unwrap();
    fs::remove_file(run(2).join("summary.csv")).unwrap();
    fs::write(run(3).join("run.json"), "{").unwrap();
    let report = quietly(&plan, &crashed.options(1)).unwrap();
    assert_eq!(report.found, 8);
    assert!(contents(&whole.0) == contents(&crashed.0));
}

#[test]
fn a_failed_run_costs_no_other() {
    let place = Place::new("failed");
    let broken = |s: &Scenario, seed, spare: &SpareCores, go_on: &GoOn<'_>| {
        assert!(seed != 2 || s.text.contains("taq"), "seed two");
        arithmetic(s, seed, spare, go_on)
    };
    let why =
        execute(&plan("tiny"), &place.options(2), &broken, &AtomicBool::new(false), &|_| ()).unwrap_err();
    let told = why.to_string();
    assert!(
        told.contains("2 of 12") && told.contains("share=2000 seed=2") && told.contains("seed two"),
        "{told}"
    );
    assert_eq!(quietly(&plan("tiny"), &place.options(2)).unwrap().found, 10);
}

#[test]
fn folders_of_others_are_left_alone() {
    let place = Place::new("taken");
    quietly(&plan("tiny"), &place.options(2)).unwrap();
    let before = contents(&place.0);
    let why = quietly(&plan("other"), &place.options(2)).unwrap_err().to_string();
    assert!(why.contains("scenario 'tiny'") && why.contains("--out"), "{why}");
    assert!(contents(&place.0) == before);
    // Other settings of the same scenario take its place; the runs stay.
    let mut fewer = plan("tiny");
    fewer.jobs.truncate(3);
    assert_eq!(quietly(&fewer, &place.options(2)).unwrap().found, 3);
    assert!(!place.0.join("states.csv").exists(), "a table of the settings before");
    assert_eq!(fs::read_dir(place.0.join("runs")).unwrap().count(), 12);

    let why = |place: &Place| quietly(&plan("tiny"), &place.options(2)).unwrap_err().to_string();
    let mine = Place::new("mine");
    fs::create_dir_all(&mine.0).unwrap();
    fs::write(mine.0.join("thesis.tex"), "").unwrap();
    assert!(why(&mine).contains("thesis.tex"), "{}", why(&mine));
    fs::write(mine.0.join("manifest.json"), "{}").unwrap();
    assert!(why(&mine).contains("not written by"), "{}", why(&mine));
    assert_eq!(fs::read_dir(&mine.0).unwrap().count(), 2);

    let beneath = Place(mine.0.join("thesis.tex/out"));
    assert!(why(&beneath).contains("--out"), "{}", why(&beneath));
}

#[test]
fn two_at_once_do_not_mix() {
    let place = Place::new("twice");
    let other = std::sync::Mutex::new(None);
    let watch = |event: Event<'_>| {
        if let Event::Begin(0) = event {
            *other.lock().unwrap() = quietly(&plan("tiny"), &place.options(1)).err();
        }
    };
    execute(&plan("tiny"), &place.options(1), &arithmetic, &AtomicBool::new(false), &watch).unwrap();
    let why = other.into_inner().unwrap().unwrap().to_string();
    assert!(why.contains("another narrows"), "{why}");
}

#[test]
fn equal_points_run_once() {
    let place = Place::new("equal");
    let mut runs = Vec::new();
    for label in ["a", "b"] {
        let coords = [("discipline".to_owned(), label.to_owned())].into();
        runs.push(Run { coords, seed: 1, scenario: scenario("tiny", 1, "taq") });
    }
    let plan = RunPlan::new("", "", runs);
    let ran = AtomicUsize::new(0);
    let count = |event: Event<'_>| {
        ran.fetch_add(usize::from(matches!(event, Event::Begin(_))), Ordering::Relaxed);
    };
    let report = execute(&plan, &place.options(2), &arithmetic, &AtomicBool::new(false), &count).unwrap();
    assert_eq!((ran.into_inner(), report.summaries.len()), (1, 2));
}

#[test]
fn medians_by_hand() {
    let place = Place::new("medians");
    let plan = plan("tiny");
    let report = quietly(&plan, &place.options(2)).unwrap();
    let points = crate::digest(&plan, &report.summaries, crate::Middle::Median);
    assert_eq!(points.len(), 4);
    assert_eq!(
        (points[3].coords.as_slice(), points[3].seeds),
        (&["taq".to_owned(), "5000".to_owned()][..], 3)
    );
    assert_eq!(points[3].figures["jain"], [1.0 / 3.0, 0.5, 1.0]);
    assert!(!points[3].figures.contains_key("none_s"));
}

#[test]
fn claims_are_judged_and_written() {
    let place = Place::new("claims");
    let text = "[[claim]]\ntext = \"fair\"\nsource = \"here\"\nexpr = \"min(jain{discipline=taq})\"\nbound = \">= \
     0.5\"\n\
                why = \"exact\"\n[[claim]]\ntext = \"fairer\"\nexpr = \"jain\"\nbound = \"> 0.6\"\nwhy = \"x\"\n\
                [[claim]]\ntext = \"typo\"\nexpr = \"jian\"\nbound = \"> 0\"\nwhy = \"x\"\n";
    let claims = narrows_scenario::Experiment::parse(text, &[]).unwrap().claims;
    let report = quietly(&RunPlan { claims, ..plan("tiny") }, &place.options(2)).unwrap();
    let outcomes: Vec<_> = report.verdicts.iter().map(|v| v.as_ref().map(|v| v.outcome)).collect();
    use narrows_scenario::ClaimOutcome::{Fails, Holds};
    assert_eq!((outcomes[0], outcomes[1]), (Ok(Holds), Ok(Fails)));
    assert!(outcomes[2].unwrap_err().contains("did you mean 'jain'"), "{outcomes:?}");
    let csv = fs::read_to_string(place.0.join("claims.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[1], "fair,here,min(jain{discipline=taq}),>= 0.5,holds,holds,0.5,,1,exact,,,paper");
    assert!(lines[2].contains("> 0.6,fails,holds,0.5,discipline=fifo:30 share=2000,4,"), "{}", lines[2]);
    assert!(lines[3].contains("cannot be judged"), "{}", lines[3]);
}

/// Eight links that do not meet, the ends of each at nodes of its own.
fn eight() -> Run {
    let mut text = String::from(
        "name = \"eight\"\nduration = \"30s\"\nwarmup = \"5s\"\ndiscipline = \"fq_codel\"\nseeds = [3]\n\
         [probes]\nslice = \"5s\"\nseries = [\"queue\", \"cwnd\"]\ninterval = \"500ms\"\n",
    );
    for n in 0..8 {
        text += &format!(
            "[[link]]\nname = \"l{n}\"\nfrom = \"a{n}\"\nto = \"b{n}\"\nrate = \"{}kbit\"\ndelay = \"20ms\"\n\
             [[hosts]]\nname = \"s{n}\"\nat = \"a{n}\"\n[[hosts]]\nname = \"c{n}\"\nat = \"b{n}\"\n\
             [[traffic]]\nkind = \"long\"\nflows = 5\nfrom = \"s{n}\"\nto = \"c{n}\"\n\
             [[traffic]]\nkind = \"objects\"\nusers = 3\nfrom = \"s{n}\"\nto = \"c{n}\"\n",
            500 + 100 * n
        );
    }
    narrows_scenario::Experiment::parse(&text, &[]).unwrap().expand().unwrap().remove(0)
}

#[test]
fn one_run_gives_the_same_on_any_number_of_threads() {
    let run = eight();
    assert_eq!(narrows_sim::Parts::of(&run.scenario).count(), 8);
    let alone = narrows_sim::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(alone.tables.iter().any(|t| t.name == "transfers" && !t.columns.is_empty()));
    for threads in [1, 2, 3, 8, 20] {
        let last = Mutex::new(Instant::ZERO);
        let go_on = |now: Instant| {
            let mut last = last.lock().unwrap();
            *last = now.max(*last);
            ControlFlow::Continue(())
        };
        let spare = SpareCores::new(threads - 1);
        let results = simulate(&run.scenario, run.seed, &spare, &go_on).unwrap();
        // A NaN, which means that there is no figure, is not equal to itself.
        assert!(format!("{results:?}") == format!("{alone:?}"), "{threads} threads");
        assert!(*last.lock().unwrap() < Instant::ZERO + run.scenario.duration);
    }
}

/// A sweep of two runs of eight parts, kept as files.
#[test]
fn spare_cores_change_no_byte_of_a_plan() {
    let mut runs = vec![eight(), eight()];
    runs[1].seed = 4;
    let plan = RunPlan::new("the text", "narrows sim eight.toml", runs);
    let written = |jobs: usize| {
        let place = Place::new(&format!("eight-{jobs}"));
        execute(&plan, &place.options(jobs), &simulate, &AtomicBool::new(false), &|_| ()).unwrap();
        contents(&place.0)
    };
    let one = written(1);
    for jobs in [2, 5, 16] {
        assert!(one == written(jobs), "{jobs} jobs");
    }
}

#[test]
fn a_run_of_parts_stops_and_its_panics_are_told() {
    let run = eight();
    let spare = SpareCores::new(3);
    let stopped = simulate(&run.scenario, run.seed, &spare, &|_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(RunError::Stopped) | Ok(_)), "{stopped:?}");
    let told = crate::caught(|| simulate(&run.scenario, run.seed, &spare, &|_| panic!("no such part")));
    assert!(told.is_ok() || told.unwrap_err().ends_with("no such part"));
}
