//! Parts of scenarios of every shape, beside the same scenarios in one world.

use core::fmt::Write as _;
use core::ops::ControlFlow;

use fastrand::Rng;
use narrows_scenario::{Experiment, Run};

use super::*;
use crate::results::{Data, Results};
use crate::{join, run_part};

fn parse(text: &str) -> Run {
    Experiment::parse(text, &[]).unwrap_or_else(|e| panic!("{e}: {text}")).expand().unwrap().remove(0)
}

/// `islands` of one to three links in a row, with traffic of all kinds. Nothing in it depends on what a world draws or
/// numbers as things happen: no edges, no delays inside hosts, no queue that looks at ports.
fn random(rng: &mut Rng, islands: u32) -> String {
    let mut text = String::from(
        "name = 't'\nduration = '25s'\nwarmup = '4s'\ndephase = '0s'\njitter = '1s'\ndiscipline = 'fifo:12'\n\
         [probes]\nslice = '3s'\nepochs = '1s'\nbursts = true\nseries = ['queue', 'cwnd', 'throughput']\n\
         interval = '700ms'\ngroups = [{ name = 'all', traffic = ['web0', 'web1'], shares = true }]\n",
    );
    for n in 0..islands {
        let links = rng.u32(1..4);
        for l in 0..links {
            let (rate, delay) = (rng.u32(100..2000), rng.u32(1..60));
            let discipline = ["fifo:12", "red:30", "fifo:40"][rng.usize(0..3)];
            let _ = writeln!(
                text,
                "[[link]]\nname = 'l{n}x{l}'\nfrom = 'n{n}x{l}'\nto = 'n{n}x{}'\nrate = '{rate}kbit'\n\
                 delay = '{delay}ms'\ndiscipline = '{discipline}'\nloss = {}",
                l + 1,
                f64::from(rng.u32(0..3)) / 100.0,
            );
        }
        for (end, node) in [("s", 0), ("c", links)] {
            let _ = writeln!(text, "[[hosts]]\nname = '{end}{n}'\nat = 'n{n}x{node}'");
        }
        let (flows, users) = (rng.u32(1..60), rng.u32(1..8));
        for kind in [
            format!("kind = 'long'\nflows = {flows}\nname = 'long{n}'"),
            format!("kind = 'objects'\nusers = {users}\nname = 'web{n}'"),
            "kind = 'files'\nflows = 20\nsize = '14kB'".to_owned(),
            "kind = 'pages'\nusers = 2\nobjects = 4\nthink = '1s'".to_owned(),
            "kind = 'telnet'\nflows = 2".to_owned(),
            "kind = 'udp'\nflows = 2\nrate = '20kbit'".to_owned(),
            format!("kind = 'calls'\nflows = 1\nbeside = 'web{n}'"),
        ]
        .iter()
        .take(rng.usize(2..8))
        {
            let _ = writeln!(text, "[[traffic]]\n{kind}\nfrom = 's{n}'\nto = 'c{n}'");
        }
    }
    text
}

fn results(run: &Run, parts: &Parts, order: &mut dyn FnMut(&mut Vec<usize>)) -> Results {
    let mut numbers: Vec<usize> = (0..parts.count()).collect();
    order(&mut numbers);
    let mut ends: Vec<_> = numbers
        .into_iter()
        .map(|n| {
            (n, run_part(&run.scenario, run.seed, parts, n, &mut |_| ControlFlow::Continue(())).unwrap())
        })
        .collect();
    ends.sort_by_key(|(number, _)| *number);
    join(&run.scenario, parts, ends.into_iter().map(|(_, end)| end).collect())
}

/// All there is, as text. What is cut off by the end is listed connection by connection in a world, whose parts do not
/// number theirs together, so that rows of transfers are compared in an order of their own.
fn told(results: &Results) -> String {
    let mut text = format!("{:?} {:?}", results.summary, results.captures);
    for table in &results.tables {
        let cell = |data: &Data, row: usize| match data {
            Data::U64(v) => v.get(row).map(|v| v.to_string()),
            Data::F64(v) => v.get(row).map(|v| v.to_string()),
            Data::Text(v) => v.get(row).cloned(),
        };
        let row = |row| table.columns.iter().map(|c| cell(&c.data, row)).collect::<Option<Vec<_>>>();
        let mut rows: Vec<_> = (0..).map_while(row).collect();
        if ["pages", "transfers"].contains(&table.name.as_str()) {
            rows.sort();
        }
        let _ = write!(text, "\n{} {rows:?}", table.name);
    }
    text
}

#[test]
fn parts_give_what_one_world_gives() {
    let mut rng = Rng::with_seed(11);
    for case in 0..8 {
        let islands = rng.u32(2..6);
        let text = random(&mut rng, islands);
        let run = parse(&text);
        let parts = Parts::of(&run.scenario);
        assert_eq!(parts.count(), islands as usize, "{text}");
        let whole = told(&results(&run, &Parts::whole(&run.scenario), &mut |_| ()));
        let apart = results(&run, &parts, &mut |_| ());
        let (a, b) = (whole.lines(), told(&apart));
        for (whole, apart) in a.zip(b.lines()) {
            assert!(whole == apart, "case {case}\n{text}\n{}", difference(whole, apart));
        }
        // In whichever order they are simulated.
        let shuffled = results(&run, &parts, &mut |numbers| rng.shuffle(numbers));
        assert!(format!("{shuffled:?}") == format!("{apart:?}"), "case {case}: {text}");
        let alone = crate::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(format!("{alone:?}") == format!("{apart:?}"), "case {case}: {text}");
    }
}

/// Excerpts of two texts around their first difference.
fn difference(a: &str, b: &str) -> String {
    let at = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(40);
    let cut = |s: &str| s.get(at..(at + 240).min(s.len())).unwrap_or_default().to_owned();
    format!("...{}\n...{}", cut(a), cut(b))
}

fn count(text: &str) -> usize {
    Parts::of(&parse(&format!("name = 't'\nduration = '10s'\ndiscipline = 'fifo:10'\n{text}")).scenario)
        .count()
}

/// By hand: two bottlenecks that hang at one node, with servers there.
#[test]
fn what_is_shared_joins() {
    let star = "link = [{ name = 'l', from = 'hub', to = 'a', rate = '1mbit', delay = '5ms' },\n\
                        { name = 'm', from = 'hub', to = 'b', rate = '1mbit', delay = '5ms' }]\n\
                hosts = [{ name = 's', at = 'hub' }, { name = 't', at = 'hub' }, { name = 'a', at = 'a' },\n\
                         { name = 'b', at = 'b' }, { name = 'few', at = 'hub', count = 3 }]\n";
    let long = |from: &str, to: &str| {
        format!("[[traffic]]\nkind = 'long'\nflows = 2\nfrom = '{from}'\nto = '{to}'\n")
    };
    let of = |traffic: &[(&str, &str)]| {
        count(&traffic.iter().fold(star.to_owned(), |text, (from, to)| text + &long(from, to)))
    };
    // Each has servers of its own.
    assert_eq!(of(&[("s", "a"), ("t", "b")]), 2);
    // The two entries share the servers.
    assert_eq!(of(&[("s", "a"), ("s", "b")]), 1);
    // The two entries share the link.
    assert_eq!(of(&[("s", "a"), ("t", "a")]), 1);
    // A third entry takes both links, one after the other.
    assert_eq!(of(&[("s", "a"), ("t", "b"), ("a", "b")]), 1);
    // The second entry for `a` sits on the third server and the first, which has users behind `b` too.
    assert_eq!(of(&[("s", "a"), ("few", "a"), ("few", "b")]), 1);
    let few = parse(&format!(
        "name = 't'\nduration = '10s'\ndiscipline = 'fifo:10'\n{star}{}{}{}",
        long("s", "a"),
        long("few", "a"),
        long("t", "b")
    ));
    assert_eq!(Parts::of(&few.scenario).traffic, [0, 0, 1]);
}

#[test]
fn one_part_is_the_whole() {
    let run = parse(&random(&mut Rng::with_seed(3), 1).replace(", 'web1'", ""));
    assert_eq!(Parts::of(&run.scenario), Parts::whole(&run.scenario));
}
