//! The runs that are digested. All go through a program and its files, so that any version of `narrows` can be asked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::table::{Builder, Summary};
use super::words::former;
use super::{pcap, recording, shorten};

/// Disciplines that replay the arrivals made here: every name there is, and settings that take other paths.
const DISCIPLINES: [&str; 35] = [
    "fifo:30",
    "fifo:45000b",
    "cake",
    "cake:ack_filter=aggressive",
    "cake:isolate=dual_dst",
    "classes",
    "classes:packets=5,mark=on,borrow=on",
    "classes:threshold=auto,split=auto",
    "codel",
    "codel:scale=on",
    "drr",
    "drr:share=hash",
    "fq_codel",
    "fq_codel:scale=on",
    "fq_codel:spare=queue,limit=60",
    "pie",
    "pie:steep=on",
    "red",
    "red:bytes=on,by_size=on,gentle=off",
    "rio",
    "rio:edge=ps",
    "sfq",
    "sfq:buffer=30",
    "taq",
    "taq:admission=off",
    "taq:share=flow",
    "taq:waiting_syn=drop",
    "taq:window_clamp=off,memory_packets=60",
    "taq:suppress_duplicates=off",
    "taq:k=2,memory_packets=200",
    "taq:mode=paper",
    "taq:mode=paper,admission=off",
    "taq:mode=paper,share=user",
    "taq:mode=paper,waiting_syn=hold",
    "taq:mode=paper,fair_share=proportional",
];
/// Disciplines that replay recorded captures.
const OF_CAPTURES: [&str; 4] = ["fifo:10", "fq_codel", "taq", "taq:mode=paper"];
/// Seeds of the arrivals, and of the disciplines.
const SEEDS: [u64; 2] = [1, 0xfeed];
const PACKETS: u64 = 6000;

/// Questions to models and planner: name and command line.
const QUESTIONS: [(&str, &str); 12] = [
    ("plan-thin", "plan --rate 600kbit --users 200 --rtt 200ms --packet 500 --json"),
    (
        "plan-wide",
        "plan --rate 10mbit --users 100 --rtt 40ms --busy 0.3 --connections 4 --object 50000 --json",
    ),
    ("plan-rfc", "plan --rate 1mbit --users 800 --rtt 200ms --stack rfc --buffer 50 --json"),
    ("model-taq", "model taq --loss 0.1 --json"),
    ("model-link", "model link --rate 600kbit --flows 120 --rtt 200ms --packet 500 --json"),
    ("model-throughput", "model throughput --rtt 200ms --loss 0.05 --json"),
    ("model-latency", "model latency --bytes 20000 --loss 0.03 --rtt 200ms --rate 600kbit --load 0.5 --json"),
    ("model-spreading", "model spreading --loss 0.05 --rtt 200ms --json"),
    ("model-burst", "model burst --json"),
    ("model-isolation", "model isolation --alpha 0.5 --beta 0.1 --json"),
    ("model-aimd", "model aimd --rate 10mbit --rtt 100ms --buffer 50 --json"),
    ("plan-time", "plan --rate 2mbit --users 300 --rtt 100ms --buffer 50ms --patience 20s --json"),
];

/// A version of Narrows.
pub struct Subject {
    /// The program.
    pub bin: PathBuf,
    /// Folder of the checkout, in which `experiments` lies.
    pub root: PathBuf,
    /// Folder to which the program writes.
    pub work: PathBuf,
    /// Whether the program's output stays after its digest.
    pub keep: bool,
}

/// Digests so far, and the runs that the program refused.
#[derive(Default)]
pub struct Found {
    /// Digests of tables, in the order of the runs.
    pub tables: Vec<Summary>,
    /// Names of runs that the program refused.
    pub refused: Vec<String>,
}

impl Found {
    /// A run that gave nothing has a table without columns: on both sides, or there is a difference.
    fn refuse(&mut self, name: &str, why: &str) {
        eprintln!("  {name}: {}", why.trim().lines().last().unwrap_or("ended without a word"));
        self.tables.push(Builder::new::<&str>([]).finish(&format!("{name}/refused")));
        self.refused.push(name.to_owned());
    }
}

/// Named run of the program.
pub struct Task {
    /// Name of the run, with which the names of its tables begin.
    pub name: String,
    kind: Kind,
}

enum Kind {
    /// A scenario file, and the disciplines it is run with instead of its own.
    Sim(PathBuf, Option<toml::Value>),
    /// Arrivals made from a seed; whether both directions are queued.
    Made(u64, bool, &'static str),
    /// A recorded capture.
    Recorded(PathBuf, &'static str),
    /// A question of the command line, answered in JSON.
    Asked(&'static str),
}

/// All tasks of a digest.
pub fn tasks(root: &Path, captures: Option<&Path>) -> Result<Vec<Task>> {
    let experiments = root.join("experiments");
    let league = league(&experiments.join("league.toml"))?;
    let mut tasks = Vec::new();
    for path in files(&experiments, "toml")?.into_iter().filter(|p| p.parent() != Some(&experiments)) {
        let place = stem(&experiments, &path);
        let disciplines = place.starts_with("league/").then(|| league.clone());
        tasks.push(Task { name: format!("sim/{place}"), kind: Kind::Sim(path, disciplines) });
    }
    for spec in DISCIPLINES {
        for (seed, both) in SEEDS.into_iter().flat_map(|seed| [(seed, false), (seed, true)]) {
            let name = format!("parity/{spec}/seed={seed},both={both}");
            tasks.push(Task { name, kind: Kind::Made(seed, both, spec) });
        }
    }
    for capture in captures.map_or(Ok(Vec::new()), |dir| files(dir, "pcap"))? {
        for spec in OF_CAPTURES {
            let name = format!("capture/{}/{spec}", stem(captures.unwrap_or(root), &capture));
            tasks.push(Task { name, kind: Kind::Recorded(capture.clone(), spec) });
        }
    }
    let asked = QUESTIONS
        .iter()
        .map(|&(name, question)| Task { name: format!("asked/{name}"), kind: Kind::Asked(question) });
    tasks.extend(asked);
    Ok(tasks)
}

/// Disciplines of the league: a scenario there that runs by itself has two disciplines only.
fn league(path: &Path) -> Result<toml::Value> {
    let read = || path.display().to_string();
    let text = fs::read_to_string(path).with_context(read)?;
    let file: toml::Table = toml::from_str(&text).with_context(read)?;
    file.get("disciplines").cloned().with_context(|| format!("{}: names no disciplines", path.display()))
}

fn stem(base: &Path, path: &Path) -> String {
    path.strip_prefix(base).unwrap_or(path).with_extension("").display().to_string()
}

/// Files below `dir` whose names have this ending, sorted.
fn files(dir: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, ending)?);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A capture through a discipline, under a name.
struct Replay<'a> {
    name: &'a str,
    capture: &'a Path,
    spec: &'a str,
    args: &'a [&'a str],
}

/// Output of the program, or the text of its error.
type Said = Result<Vec<u8>, String>;

impl Subject {
    /// Does a task and adds the digests of its results to `found`.
    pub fn run(&self, task: &Task, found: &mut Found) -> Result<()> {
        let safe = |c: char| if c.is_ascii_alphanumeric() || "/-_".contains(c) { c } else { '-' };
        let dir = self.work.join(task.name.chars().map(safe).collect::<String>());
        // Files from an earlier run would be taken for results of this one.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        match &task.kind {
            Kind::Sim(file, disciplines) => self.sim(&task.name, file, disciplines.as_ref(), &dir, found),
            Kind::Made(seed, both, spec) => self.made(&task.name, *seed, *both, spec, &dir, found),
            Kind::Recorded(capture, spec) => self.recorded(&task.name, capture, spec, &dir, found),
            Kind::Asked(question) => self.asked(&task.name, question, &dir, found),
        }
        .with_context(|| task.name.clone())?;
        if !self.keep {
            fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
        }
        Ok(())
    }

    /// Runs the program; writes its output to `dir` too.
    fn say(&self, dir: &Path, args: &[&str]) -> Result<Said> {
        let output = Command::new(&self.bin).args(args).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("starting {}", self.bin.display()))?;
        fs::write(dir.join("stdout"), &output.stdout)?;
        fs::write(dir.join("stderr"), &output.stderr)?;
        if output.status.success() {
            return Ok(Ok(output.stdout));
        }
        Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    fn sim(
        &self,
        name: &str,
        file: &Path,
        disciplines: Option<&toml::Value>,
        dir: &Path,
        found: &mut Found,
    ) -> Result<()> {
        let text = fs::read_to_string(file)?;
        let short = dir.join("scenario.toml");
        fs::write(&short, shorten::shortened(name.trim_start_matches("sim/"), &text, disciplines)?)?;
        let results = dir.join("results");
        let args = ["sim", text_of(&short)?, "--out", text_of(&results)?, "--quiet", "--json"];
        if let Err(why) = self.say(dir, &args)? {
            found.refuse(name, &why);
            return Ok(());
        }
        found.tables.extend(results_of(name, &results)?);
        Ok(())
    }

    /// Runs the discipline `spec` over packets made from `seed`, shaped down alone or in `both` directions.
    fn made(
        &self,
        name: &str,
        seed: u64,
        both: bool,
        spec: &str,
        dir: &Path,
        found: &mut Found,
    ) -> Result<()> {
        let capture = dir.join("arrivals.pcap");
        recording::write(BufWriter::new(File::create(&capture)?), seed, PACKETS)?;
        let seed = seed.to_string();
        let mut args =
            vec!["--local", recording::LOCAL, "--rate", "600kbit", "--overhead", "14", "--seed", &seed];
        if both {
            args.extend(["--up", "200kbit"]);
        }
        self.replay(&Replay { name, capture: &capture, spec, args: &args }, dir, found)
    }

    fn recorded(&self, name: &str, capture: &Path, spec: &str, dir: &Path, found: &mut Found) -> Result<()> {
        let reader = narrows_wire::capture::Reader::new(File::open(capture)?);
        let first = reader.ok().and_then(|mut r| r.next()?.ok());
        let local = first.map(|c| {
            let user = c.header.key.dst();
            format!("{user}/{}", if user.is_ipv4() { 32 } else { 128 })
        });
        let mut args = vec!["--rate", "256kbit"];
        if let Some(local) = &local {
            args.extend(["--local", local, "--up", "128kbit"]);
        }
        self.replay(&Replay { name, capture, spec, args: &args }, dir, found)
    }

    fn replay(&self, replay: &Replay<'_>, dir: &Path, found: &mut Found) -> Result<()> {
        let Replay { name, capture, spec, args } = *replay;
        let left = dir.join("left");
        let mut said = Err(String::new());
        for spec in [spec.to_owned(), former(spec)] {
            let mut all = vec!["replay", text_of(capture)?, "--json", "--out", text_of(&left)?];
            all.extend(["--discipline", &spec]);
            all.extend(args);
            said = self.say(dir, &all)?;
            if said.is_ok() {
                break;
            }
        }
        let json = match said {
            Ok(json) => json,
            Err(why) => {
                found.refuse(name, &why);
                return Ok(());
            }
        };
        found.tables.extend(replayed(name, &serde_json::from_slice(&json)?)?);
        let mut packets = Builder::new(pcap::COLUMNS);
        for path in files(&left, "pcap")? {
            pcap::add(&mut packets, &fs::read(&path)?).with_context(|| path.display().to_string())?;
        }
        found.tables.push(packets.finish(&format!("{name}/left")));
        Ok(())
    }

    fn asked(&self, name: &str, question: &str, dir: &Path, found: &mut Found) -> Result<()> {
        let mut args: Vec<&str> = question.split(' ').collect();
        let plot = dir.join("plot.svg");
        args.extend(["--plot", text_of(&plot)?]);
        match self.say(dir, &args)? {
            Ok(json) => found.tables.push(answer(name, &serde_json::from_slice(&json)?)?),
            Err(why) => found.refuse(name, &why),
        }
        Ok(())
    }
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{}: expected a path in UTF-8", path.display()))
}

/// Tables and captures of a folder of results.
fn results_of(name: &str, dir: &Path) -> Result<Vec<Summary>> {
    let manifest: Value = serde_json::from_slice(&fs::read(dir.join("manifest.json"))?)?;
    let mut tables = Vec::new();
    for (file, about) in manifest["files"].as_object().into_iter().flatten() {
        let Some((table, ending)) = file.rsplit_once('.') else { continue };
        if ending == "csv" {
            tables.push(Summary::of_csv(&format!("{name}/{table}"), &dir.join(file))?);
        }
        let as_text = manifest["files"].get(format!("{table}.csv")).is_some();
        ensure!(as_text, "{file}: {} rows are written as Parquet alone: shorten more", about["rows"]);
    }
    let mut captures: BTreeMap<String, Builder> = BTreeMap::new();
    for run in manifest["runs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        for path in files(&dir.join("runs").join(run), "pcap")? {
            let link = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let table = captures.entry(link).or_insert_with(|| Builder::new(pcap::COLUMNS));
            pcap::add(table, &fs::read(&path)?).with_context(|| path.display().to_string())?;
        }
    }
    tables.extend(captures.into_iter().map(|(link, table)| table.finish(&format!("{name}/capture/{link}"))));
    Ok(tables)
}

/// Counts of a replay, by direction and by flow.
fn replayed(name: &str, json: &Value) -> Result<Vec<Summary>> {
    let (mut ways, mut flows) = (Vec::new(), Vec::new());
    for replay in json["replays"].as_array().context("no replays")? {
        ways.extend([&replay["down"], &replay["up"]]);
        flows.extend(replay["flows"].as_array().context("no flows")?);
    }
    Ok(vec![records(&format!("{name}/ways"), &ways)?, records(&format!("{name}/flows"), &flows)?])
}

/// Objects with the same keys, a row each.
fn records(name: &str, objects: &[&Value]) -> Result<Summary> {
    let rows: Vec<Vec<(String, String)>> = objects.iter().map(|o| leaves(o)).collect();
    let columns: Vec<&str> = rows.first().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    let mut table = Builder::new(columns.iter().copied());
    for row in &rows {
        ensure!(row.iter().map(|(key, _)| key).eq(&columns), "{name}: rows with different keys");
        table.row(row.iter().map(|(_, value)| value.as_str()))?;
    }
    Ok(table.finish(name))
}

/// The numbers of an answer, a column each. What is said in words may be said otherwise.
fn answer(name: &str, json: &Value) -> Result<Summary> {
    let numbers: Vec<(String, String)> =
        leaves(json).into_iter().filter(|(_, value)| !value.starts_with('"')).collect();
    let mut table = Builder::new(numbers.iter().map(|(key, _)| key.as_str()));
    table.row(numbers.iter().map(|(_, value)| value.as_str()))?;
    Ok(table.finish(name))
}

/// Dotted keys and the text of what is there.
fn leaves(json: &Value) -> Vec<(String, String)> {
    fn walk(prefix: &str, value: &Value, into: &mut Vec<(String, String)>) {
        let key = |part: &str| if prefix.is_empty() { part.to_owned() } else { format!("{prefix}.{part}") };
        match value {
            Value::Object(map) => map.iter().for_each(|(k, v)| walk(&key(k), v, into)),
            Value::Array(list) => {
                list.iter().enumerate().for_each(|(n, v)| walk(&key(&n.to_string()), v, into))
            }
            leaf => into.push((prefix.to_owned(), leaf.to_string())),
        }
    }
    let mut found = Vec::new();
    walk("", json, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::Spec;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_discipline_is_replayed() {
        for name in Spec::NAMES {
            let named = |spec: &&str| spec.split(':').next() == Some(*name);
            assert!(DISCIPLINES.iter().any(named), "{name}");
        }
        for spec in DISCIPLINES.iter().chain(&OF_CAPTURES) {
            let accepted = [(*spec).to_owned(), former(spec)].iter().any(|s| s.parse::<Spec>().is_ok());
            assert!(accepted, "{spec}");
        }
    }

    #[test]
    fn replays_are_tables() {
        let counts = json!({ "sent": 3, "dropped": { "over_limit": 1, "early": 0 } });
        let json = json!({ "replays": [{ "down": counts, "up": counts, "flows": [counts] }] });
        let tables = replayed("r", &json).unwrap();
        assert_eq!((tables[0].name.as_str(), tables[0].rows), ("r/ways", 2));
        assert_eq!(tables[1].rows, 1);
        let names: Vec<&str> = tables[0].columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["dropped.early", "dropped.over_limit", "sent"]);
        assert!(records("r", &[&json!({"a": 1}), &json!({"b": 1})]).is_err());
    }

    #[test]
    fn words_of_an_answer_are_left_out() {
        let table = answer("a", &json!({ "told": "as it is", "n": [1, 2.5], "none": null })).unwrap();
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["n.0", "n.1", "none"]);
    }

    #[test]
    fn the_experiments_of_this_tree_are_found_and_cut_down() {
        let root = crate::peers::programs::root();
        let tasks = tasks(root, None).unwrap();
        let sims: Vec<&Task> = tasks.iter().filter(|t| t.name.starts_with("sim/")).collect();
        assert!(sims.len() > 50, "{}", sims.len());
        for task in sims {
            let Kind::Sim(file, disciplines) = &task.kind else { panic!("{}", task.name) };
            let text = fs::read_to_string(file).unwrap();
            shorten::shortened(&task.name, &text, disciplines.as_ref()).unwrap();
        }
    }
}
