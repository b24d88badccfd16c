//! Reader of `[[edge]]`: the nodes at which flows are divided.

use narrows_units::Dscp;

use crate::read::Reader;
use crate::{EdgeRouter, Error, Policy, Topology};
use narrows_settings::one_of;

/// Reads all edges of a file.
pub(crate) fn read(entries: Vec<Reader<'_>>, topology: &Topology) -> Result<Vec<EdgeRouter>, Error> {
    entries.into_iter().map(|r| edge(r, topology)).collect()
}

fn edge(r: Reader<'_>, topology: &Topology) -> Result<EdgeRouter, Error> {
    let at = r.must("at", "the node where flows are divided", |r, k| r.text(k))?;
    let Some(at) = topology.nodes.iter().position(|n| n == at) else {
        return Err(r.wrong("at", one_of(at, topology.nodes.iter().map(String::as_str))));
    };
    let policy = r.must("policy", POLICIES, policy)?;
    let paths = paths(&r, topology, at)?;
    let mark = marks(&r)?;
    if paths.is_none() && mark.is_none() {
        let expected = "the first links of the two ways, as [\"left-upper\", \"left-lower\"], or mark = [18, 10]: else \
         nothing follows from the division";
        return Err(r.wrong("paths", expected));
    }
    r.finish()?;
    Ok(EdgeRouter { at, policy, paths, mark })
}

const POLICIES: &str = "random, size:75 or lifetime:32 (packets), or dscp:18 (a codepoint)";

/// `random`, `size:75`, `lifetime:32`, `dscp:18`; the numbers of the first two are the paper's and may be left out.
fn policy(r: &Reader<'_>, key: &'static str) -> Result<Option<Policy>, Error> {
    let Some(text) = r.text(key)? else { return Ok(None) };
    let (word, number) = text.split_once(':').map_or((text, None), |(w, n)| (w, Some(n)));
    let packets = |default: u32| match number {
        None => Some(default),
        Some(n) => n.trim().parse().ok().filter(|n| *n > 0),
    };
    let policy = match word {
        "random" if number.is_none() => Some(Policy::Random),
        "size" => packets(75).map(Policy::Size),
        "lifetime" => packets(32).map(Policy::Lifetime),
        "dscp" => number.and_then(|n| n.trim().parse().ok()).and_then(Dscp::new).map(Policy::Dscp),
        _ => None,
    };
    policy.map(Some).ok_or_else(|| r.wrong(key, POLICIES))
}

fn paths(r: &Reader<'_>, topology: &Topology, at: usize) -> Result<Option<[usize; 2]>, Error> {
    let expected = format!("two links that begin at '{}', the first class's first", topology.nodes[at]);
    let Some(list) = r.list("paths", &expected)? else { return Ok(None) };
    let mut found = Vec::new();
    for value in list {
        let name = value.as_str().ok_or_else(|| r.wrong("paths", &expected))?;
        let known = topology.links.iter().position(|l| l.name == name && l.from == at);
        found.push(known.ok_or_else(|| {
            let here = topology.links.iter().filter(|l| l.from == at).map(|l| l.name.as_str());
            r.wrong("paths", format!("{expected}: {}", one_of(name, here)))
        })?);
    }
    match found[..] {
        [a, b] if a != b => Ok(Some([a, b])),
        _ => Err(r.wrong("paths", expected)),
    }
}

fn marks(r: &Reader<'_>) -> Result<Option<[Dscp; 2]>, Error> {
    let expected = "two codepoints from 0 to 63, the first class's first, as [18, 10]";
    let Some(list) = r.list("mark", expected)? else { return Ok(None) };
    let points: Option<Vec<Dscp>> =
        list.iter().map(|v| v.as_integer().and_then(|n| u8::try_from(n).ok()).and_then(Dscp::new)).collect();
    match points.as_deref() {
        Some([a, b]) => Ok(Some([*a, *b])),
        _ => Err(r.wrong("mark", expected)),
    }
}
