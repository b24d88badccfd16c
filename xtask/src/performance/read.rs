//! From what the benchmarks print to rows.

use anyhow::{Context as _, Result, ensure};

use super::{Bound, Row};

/// Words of a line that are numbers.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().filter_map(|w| w.parse().ok()).collect()
}

/// Words of the first line that begins so.
fn words<'a>(text: &'a str, begin: &str) -> Result<Vec<&'a str>> {
    let line = text
        .lines()
        .find(|l| l.trim_start().starts_with(begin))
        .with_context(|| format!("no line {begin}"))?;
    Ok(line.split_whitespace().collect())
}

/// Row of ours without a peer, against a bound of our own.
fn alone(what: impl Into<String>, value: f64, digits: usize, bound: Bound) -> Row {
    Row {
        what: what.into(),
        ours: format!("{value:.digits$}"),
        peer: String::new(),
        times: None,
        value,
        bound,
    }
}

/// runs.csv of the peers: the least processor time of each.
pub fn simulator(text: &str) -> Result<Vec<Row>> {
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let head = csv.headers()?.clone();
    let column =
        |name: &str| head.iter().position(|h| h == name).with_context(|| format!("no column {name}"));
    let (who, case, cpu) = (column("simulator")?, column("case")?, column("cpu_s")?);
    let runs: Vec<_> = csv.records().collect::<Result<_, _>>()?;
    let least = |name: &str, of: &str| {
        let its = runs.iter().filter(|r| r[who] == *name && r[case].eq_ignore_ascii_case(of));
        its.filter_map(|r| r[cpu].parse::<f64>().ok()).min_by(f64::total_cmp)
    };
    let cases = [
        ("a", "a: 100 flows, 100 Mbit/s, 60 s", 12.0),
        ("b", "b: 300 flows, 600 kbit/s, 10 000 s", 10.0),
        ("c", "c: 10 000 flows, 1 Gbit/s, 10 s", 60.0),
    ];
    let mut rows = Vec::new();
    for (of, what, times) in cases {
        let Some(ours) = least("narrows", of) else { continue };
        if least("ns-2", of).or(least("ns-3", of)).is_none() {
            rows.push(alone(format!("{what}: s"), ours, 2, Bound::None));
        }
        for (peer, bound) in [("ns-2", times), ("ns-3", 200.0)] {
            let Some(theirs) = least(peer, of) else { continue };
            rows.push(Row {
                what: format!("{what}: s"),
                ours: format!("{ours:.2}"),
                peer: format!("{peer} {theirs:.2}"),
                times: Some(theirs / ours),
                value: theirs / ours,
                bound: Bound::Times(bound),
            });
        }
    }
    Ok(rows)
}

/// The bench `scale` of the simulator.
pub fn growth(text: &str) -> Result<Vec<Row>> {
    let million =
        numbers(text.lines().find(|l| l.trim_start().starts_with("1000000 ")).context("no million flows")?);
    let idle = words(text, "ns2:")?;
    let each = idle.iter().rev().nth(2).and_then(|w| w.parse().ok()).context("no bytes of an idle flow")?;
    Ok(vec![
        alone("a million flows of ten packets: s", million[1], 2, Bound::Most(5.0)),
        alone("an idle flow: bytes", each, 0, Bound::Most(1000.0)),
    ])
}

/// The benches `parts` of the simulator and `sweep` of the runner.
pub fn cores(text: &str) -> Result<Vec<Row>> {
    let of = |words: &str| text.lines().find(|l| l.contains(words)).map(numbers).context("a bench said else");
    let (wall, sweep) = (of("wall time:")?, of("outside of runs")?);
    let faster = *wall.last().context("no speed-up")?;
    let outside = *sweep.get(3).context("no share")?;
    Ok(vec![
        alone("one run of eight bottlenecks, two cores: times as fast", faster, 2, Bound::Least(1.7)),
        alone("1000 short runs: % outside of runs", outside, 1, Bound::Most(5.0)),
    ])
}

/// The bench `per_packet` of disciplines: flows, name, ns, ..., bytes.
pub fn queue(text: &str) -> Result<Vec<Row>> {
    let cell = |name: &str, flows: &str| -> Result<(f64, f64)> {
        let line = text.lines().find(|l| {
            let mut words = l.split_whitespace();
            words.next() == Some(flows) && words.next() == Some(name)
        });
        let all = numbers(line.with_context(|| format!("no {name} with {flows} flows"))?);
        Ok((all[1], *all.last().unwrap_or(&f64::NAN)))
    };
    let mut rows = Vec::new();
    for (name, flows, bound) in
        [("taq", "10000", 100.0), ("taq", "1000000", 200.0), ("taq:paper", "10000", 200.0)]
    {
        let (ours, base) = (cell(name, flows)?.0, cell("fifo+lookup", flows)?.0);
        rows.push(Row {
            peer: format!("fifo+lookup {base:.0}"),
            times: Some(ours / base),
            ..alone(format!("{name}, {flows} flows: ns a packet"), ours, 0, Bound::Most(bound))
        });
    }
    let grown = cell("taq", "50000")?.0 / cell("taq", "100")?.0;
    rows.push(alone("taq, 50 000 flows against 100: times", grown, 2, Bound::Most(2.0)));
    rows.push(alone("taq: bytes a flow", cell("taq", "10000")?.1, 0, Bound::Most(320.0)));
    Ok(rows)
}

/// The bench `sight` of the box: flows, nothing, alone, together.
pub fn sight(text: &str) -> Result<Vec<Row>> {
    let rows = ["1000", "10000"].map(|flows| {
        let all = numbers(&words(text, &format!("{flows} "))?.join(" "));
        Ok(alone(format!("sight of {flows} flows: ns a packet"), all[3], 0, Bound::Most(30.0)))
    });
    rows.into_iter().collect()
}

/// The live bench: name, and thousands of packets of 100 B a second, a core.
pub fn live_box(text: &str) -> Result<Vec<Row>> {
    let rate = |name: &str, column: usize| -> Result<f64> {
        let line = text.lines().find(|l| l.starts_with(name)).with_context(|| format!("no line {name}"))?;
        let all = numbers(&line[name.len()..]);
        Ok(*all.get(column).with_context(|| format!("{name}: too few figures"))? / 1e3)
    };
    // A second table is of round trips.
    let table = text.lines().skip_while(|l| !l.starts_with("plain")).take_while(|l| !l.is_empty());
    let names = table.filter_map(|l| l.split_once(", taq ").map(|(name, _)| name));
    let mut rows = Vec::new();
    for name in names.filter(|name| rate(&format!("{name}, taq "), 3).is_ok()) {
        let plain = if name.starts_with("nfqueue") { "plain forwarding" } else { "plain bridging" };
        let (ours, base) = (rate(&format!("{name}, taq "), 3)?, rate(plain, 2)?);
        let bound = if name.contains("XDP") { Bound::Least(0.8) } else { Bound::None };
        let row = alone(format!("{name}, taq, 100 B: million packets/s a core"), ours, 2, bound);
        rows.push(Row { peer: format!("{plain} {base:.2}"), times: Some(ours / base), ..row });
    }
    Ok(rows)
}

/// Rows of the diagnosis bench `read` for each capture, and of its peers on the first.
pub fn diagnose(text: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for part in text.split("capture ").skip(1) {
        let name = part.lines().next().unwrap_or_default();
        let most = |end: &str| {
            let lines = part.lines().filter(|l| l.ends_with(end)).map(numbers);
            lines.filter_map(|all| Some((*all.first()?, *all.last()?))).max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let (packets, rate) = most("M packets/s").with_context(|| format!("{name}: nothing was read"))?;
        let what = format!("diagnose, {name}: million packets/s");
        rows.push(alone(format!("{what} a core"), rate, 2, Bound::Least(5.0)));
        for peer in ["tcptrace", "tshark"] {
            let Ok(took) = words(part, peer) else { continue };
            let theirs = packets / 1e6 / took[1].parse::<f64>()?;
            rows.push(Row {
                what: "the same beside a peer".to_owned(),
                ours: format!("{rate:.2}"),
                peer: format!("{peer} {theirs:.2}"),
                times: Some(rate / theirs),
                value: rate,
                bound: Bound::None,
            });
        }
        let (_, ahead) = most("on two").with_context(|| format!("{name}: nothing was read ahead"))?;
        rows.push(alone(format!("{what} on two cores"), ahead, 2, Bound::Least(10.0)));
    }
    ensure!(!rows.is_empty(), "nothing was read");
    Ok(rows)
}

/// Milliseconds, a line each time.
pub fn plan(text: &str) -> Result<Vec<Row>> {
    let least = numbers(text).into_iter().min_by(f64::total_cmp).context("no time")?;
    Ok(vec![alone("narrows plan, warm: ms", least, 0, Bound::Most(50.0))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_capture_has_its_rates() {
        let text = "capture calm\n\
                    900 packets, 20 connections, 1 stalls: 0.31 s of the processor, 5.02 M packets/s\n\
                    900 packets, 20 connections, 1 stalls: 0.30 s of the processor, 5.31 M packets/s\n\
                    read ahead: 0.20 s, of the thread that follows 0.18 s: 7.50 M packets/s on two\n\
                    tshark 0.003\n\
                    capture users\n\
                    80 packets, 9 connections, 7 stalls: 0.40 s of the processor, 2.70 M packets/s\n\
                    read ahead: 0.20 s, of the thread that follows 0.18 s: 3.60 M packets/s on two\n";
        let rows = diagnose(text).unwrap();
        let told: Vec<_> = rows.iter().map(|row| (row.what.as_str(), row.value)).collect();
        let expected = [
            ("diagnose, calm: million packets/s a core", 5.31),
            ("the same beside a peer", 5.31),
            ("diagnose, calm: million packets/s on two cores", 7.5),
            ("diagnose, users: million packets/s a core", 2.7),
            ("diagnose, users: million packets/s on two cores", 3.6),
        ];
        assert_eq!(told, expected);
        assert_eq!(rows[1].peer, "tshark 0.30");
        assert!(diagnose("").is_err());
    }

    #[test]
    fn the_queues_bench_as_it_prints() {
        let line = |flows: u32, name: &str, ns: f64| {
            format!("{flows:>8}  {name:<44} {ns:>8.1} {:>9} {ns:>13.1} {:>9} {:>11}\n", "1.00", "1.00", 412)
        };
        let mut text = String::new();
        for (flows, ns) in [(100, 100.0), (10_000, 150.0), (50_000, 250.0), (1_000_000, 300.0)] {
            for name in ["fifo+lookup", "taq", "taq:paper"] {
                text += &line(flows, name, ns);
            }
        }
        let rows = queue(&text).expect("it can be read");
        let kept: Vec<_> = rows.iter().map(|r| (r.value, r.bound.kept(r.value))).collect();
        assert_eq!(kept, [(150.0, "no"), (300.0, "no"), (150.0, "yes"), (2.5, "no"), (412.0, "no")]);
    }

    #[test]
    fn peers_by_their_least_time() {
        let text = "simulator,case,cpu_s\nnarrows,b,0.6\nnarrows,b,0.5\nns-2,b,2.5\n";
        let rows = simulator(text).expect("it can be read");
        assert_eq!((rows.len(), rows[0].value, rows[0].bound.kept(rows[0].value)), (1, 5.0, "no"));
    }
}
