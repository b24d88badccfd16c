//! Keeps `docs/reference/scenarios.md` and `workloads.md` true: their tables have exactly the keys that exist, and
//! their examples work.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::table::put;
use crate::{Error, Experiment, Size};

/// Reads both pages as one text; `None` where the crate is outside of its repository.
pub fn documents() -> Option<String> {
    let reference = narrows_testing::repository(env!("CARGO_MANIFEST_DIR"))?.join("docs/reference");
    let read = |page: &str| std::fs::read_to_string(reference.join(page)).unwrap();
    Some(read("scenarios.md") + &read("workloads.md"))
}

const THIN: &str = "name = \"t\"\nrate = \"1mbit\"\ndiscipline = \"taq\"\n";
const LONG: &str = "name = \"t\"\ndiscipline = \"taq\"\nlink = [{ from = \"a\", to = \"b\", rate = \"1mbit\" }]\n\
    hosts = [{ name = \"servers\", at = \"a\" }, { name = \"clients\", at = \"b\" }]\n";
const FLOWS: &str = "traffic = [{ kind = \"long\", flows = 2 }]\n";
const CLAIM: &str = "claim = [{ text = \"t\", expr = \"1\", bound = \"> 0\", why = \"w\" }]\n";

/// A section of the reference: its heading, a file that works, and where in it the section's keys go.
fn sections() -> Vec<(&'static str, String, &'static str)> {
    let mut all = vec![
        ("## Top level", format!("{THIN}{FLOWS}"), ""),
        ("## `[[traffic]]`", format!("{THIN}{FLOWS}"), "traffic.0."),
        ("## `[[link]]`", format!("{LONG}{FLOWS}"), "link.0."),
        (
            "## `[[edge]]`",
            format!("{LONG}{FLOWS}edge = [{{ at = \"a\", policy = \"random\", mark = [18, 10] }}]\n")
                .replace(
                    "link = [",
                    "link = [{ name = \"c\", from = \"a\", to = \"b\", rate = \"1mbit\" }, ",
                ),
            "edge.0.",
        ),
        ("## `[[hosts]]`", format!("{LONG}{FLOWS}"), "hosts.0."),
        ("## `[probes]`", format!("{THIN}{FLOWS}probes = {{}}\n"), "probes."),
        (
            "## `[[probes.groups]]`",
            format!("{THIN}{FLOWS}probes = {{ groups = [{{ name = \"g\" }}] }}\n"),
            "probes.groups.0.",
        ),
        ("## `[[claim]]`", format!("{THIN}{FLOWS}{CLAIM}"), "claim.0."),
    ];
    for (heading, entry) in [
        ("### long", "kind = \"long\", flows = 1"),
        ("### files", "kind = \"files\", arrivals = 1, size = 9"),
        ("### objects", "kind = \"objects\", users = 1, arrivals = 1"),
        ("### pages", "kind = \"pages\", users = 1, objects = 3, arrivals = 1"),
        ("### browser", "kind = \"browser\""),
        ("### telnet", "kind = \"telnet\", flows = 1"),
        ("### udp", "kind = \"udp\", flows = 1, rate = \"9kbit\", on = \"1s\", off = \"1s\""),
        ("### log", "kind = \"log\", clients = 1, synthetic = { requests = 1, clients = 1 }"),
        ("### log.synthetic", "kind = \"log\", clients = 1, synthetic = { requests = 1, clients = 1 }"),
    ] {
        let place = if heading.ends_with("synthetic") { "traffic.0.synthetic." } else { "traffic.0." };
        all.push((heading, format!("{THIN}traffic = [{{ {entry} }}]\n"), place));
    }
    let beside =
        format!("{THIN}traffic = [{{ kind = \"long\", flows = 2 }}, {{ kind = \"calls\", flows = 1 }}]\n");
    all.push(("### calls", beside, "traffic.1."));
    for kind in ["dumbbell", "parking_lot\", hops = \"=2", "diamond"] {
        let file = format!(
            "name = \"t\"\ndiscipline = \"taq\"\ntopology = {{ rate = \"1mbit\", kind = \"{kind}\" }}\n"
        );
        all.push(("## `[topology]`", format!("{file}{FLOWS}"), "topology."));
    }
    all
}

/// The rows of the table under a heading: a key, and an example of the key's value.
fn rows(docs: &str, heading: &str) -> Vec<(String, String)> {
    cells(docs, heading).into_iter().map(|c| (c[0].clone(), c[2].clone())).collect()
}

fn cells(docs: &str, heading: &str) -> Vec<Vec<String>> {
    let after = docs.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}")).1;
    let section = after.split("\n#").next().unwrap();
    let rows = section.lines().filter(|l| l.starts_with("| `"));
    rows.map(|l| {
        let cells: Vec<&str> = l.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{l}");
        cells.iter().map(|c| c.trim_matches('`').to_owned()).collect()
    })
    .collect()
}

fn expand(table: &Table) -> Result<(), Error> {
    Experiment::parse(&toml::to_string(table).unwrap(), &[])?.expand().map(drop)
}

/// Converts the file for the lab, whose pages need a version of HTTP.
fn in_lab(mut table: Table, heading: &str) -> Result<(), Error> {
    let entry = table["traffic"][0].as_table_mut().unwrap();
    if heading == "### pages" {
        entry.entry("http").or_insert(Value::from("1.1"));
    }
    if entry.contains_key("page") {
        entry.remove("objects");
    }
    Experiment::parse(&toml::to_string(&table).unwrap(), &[])?.for_lab().map(drop)
}

/// The keys of a section, as the refusal of a key that cannot be lists them.
fn known(file: &str, place: &str) -> BTreeSet<String> {
    let mut table: Table = toml::from_str(file).unwrap();
    put(&mut table, &format!("{place}zzzzzzzzzzzzzzzz"), Value::Integer(1)).unwrap();
    let said = expand(&table).unwrap_err().to_string();
    let list = said.split_once("expected one of ").unwrap_or_else(|| panic!("{said}")).1;
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_tables_have_the_keys_that_exist() {
    let Some(docs) = documents() else { return };
    let rows = |heading: &str| rows(&docs, heading);
    let everyone: BTreeSet<String> = rows("## `[[traffic]]`").into_iter().map(|(k, _)| k).collect();
    let mut topology = BTreeSet::new();
    for (heading, file, place) in sections() {
        let exist = known(&file, place);
        let mut told: BTreeSet<String> = rows(heading).into_iter().map(|(k, _)| k).collect();
        match heading {
            "## `[topology]`" => {
                topology.extend(exist);
                continue;
            }
            "## `[[traffic]]`" => {
                assert!(told.is_subset(&exist), "{heading}: {told:?}");
                continue;
            }
            _ if ["traffic.0.", "traffic.1."].contains(&place) => told.extend(everyone.iter().cloned()),
            _ => {}
        }
        assert_eq!(told, exist, "{heading}");
    }
    assert_eq!(rows("## `[topology]`").into_iter().map(|(k, _)| k).collect::<BTreeSet<_>>(), topology);
}

#[test]
fn every_row_s_example_works() {
    let Some(docs) = documents() else { return };
    let mut tried = 0;
    for (heading, file, place) in sections() {
        for row in cells(&docs, heading) {
            let (key, example) = (row[0].as_str(), row[2].as_str());
            let special = heading == "## `[topology]`"
                && match key {
                    "kind" => true,
                    "hops" => !file.contains("hops"),
                    _ => key.starts_with("lower") && !file.contains("diamond"),
                };
            // A log's file is read where it is, and tables have sections of their own.
            if special || example == "see below" || key == "file" {
                continue;
            }
            let new: Table = toml::from_str(&format!("{key} = {example}"))
                .unwrap_or_else(|e| panic!("{heading} {key} = {example}: {e}"));
            let mut table: Table = toml::from_str(&file).unwrap();
            if key == "disciplines" {
                table.remove("discipline");
            }
            for (k, v) in new {
                put(&mut table, &format!("{place}{k}"), v).unwrap();
            }
            if row[3].starts_with("lab only") || heading == "### browser" {
                in_lab(table, heading).unwrap_or_else(|e| panic!("{heading} {key} = {example}: {e}"));
            } else if let Err(e) = expand(&table) {
                panic!("{heading} {key} = {example}: {e}");
            }
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn whole_examples_and_laws_work() {
    let Some(docs) = documents() else { return };
    let blocks = docs.split("```").filter_map(|b| b.strip_prefix("toml\n"));
    let runs: Vec<usize> =
        blocks.map(|b| Experiment::parse(b, &[]).unwrap().expand().unwrap().len()).collect();
    // 2 disciplines x 3 rates x 5 shares x 3 seeds; 2 x 4 x 2 points.
    assert_eq!(runs, [90, 16]);
    let laws = docs.split_once("## Size laws").unwrap().1.split_once("\nDraws").unwrap().0;
    for cell in laws.lines().filter(|l| l.starts_with("| `")) {
        for law in cell.split('`').skip(1).step_by(2) {
            law.parse::<Size>().unwrap_or_else(|e| panic!("{law}: {e}"));
        }
    }
}
