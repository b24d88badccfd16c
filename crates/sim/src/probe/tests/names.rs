//! Every name of a table, a column or a figure is in the documents.

use super::real::{busy, busy_behind};
use super::*;

/// `a_{b,c}_d` as `a_b_d` and `a_c_d`.
fn spelt_out(name: &str) -> Vec<String> {
    let Some((before, (inside, after))) =
        name.split_once('{').and_then(|(b, rest)| Some((b, rest.split_once('}')?)))
    else {
        return vec![name.to_owned()];
    };
    inside.split(',').flat_map(|word| spelt_out(&format!("{before}{word}{after}"))).collect()
}

#[test]
fn every_name_is_documented() {
    let Some(root) = narrows_testing::repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let page = std::fs::read_to_string(root.join("docs/reference/probes.md")).unwrap();
    let mut known: Vec<String> = page.split('`').skip(1).step_by(2).flat_map(spelt_out).collect();
    for (what, called) in [("LINK", "thin"), ("LINK", "thin_back"), ("LINK", "thin.back"), ("GROUP", "all")] {
        let named: Vec<String> = known.iter().map(|n| n.replace(what, called)).collect();
        known.extend(named);
    }
    let object = Transfer { size: 3000, ..transfer(2) };
    let acts = vec![
        (0.0, Act::Datagram(500)),
        (0.0, Act::Open(Transfer { size: 0, ..transfer(1) })),
        (1.0, Act::Open(object)),
        (5.0, Act::Write(0, 10)),
        (6.0, delivered(0, 10)),
        (7.0, delivered(1, 3000)),
    ];
    let all = Group { name: "all".into(), traffic: vec![0], over: 0, up_to: u64::MAX, shares: false };
    let grouped = ProbePlan { groups: vec![all], ..plan(0.0) };
    for r in [busy_behind("taq:mode=paper", 20, false), busy(20, false), scripted(grouped, acts, 40.0)] {
        let columns = r.tables.iter().flat_map(|t| t.columns.iter().map(|c| &c.name));
        let classes = r.tables.iter().find(|t| t.name == "classes").and_then(|t| t.columns.first());
        let names = classes.map(|c| if let Data::Text(names) = &c.data { names.as_slice() } else { &[] });
        let named =
            names.unwrap_or_default().iter().flat_map(|n| known.iter().map(move |k| k.replace("NAME", n)));
        let known: Vec<String> = known.iter().cloned().chain(named).collect();
        for name in r.summary.keys().chain(r.tables.iter().map(|t| &t.name)).chain(columns) {
            assert!(known.contains(name), "{name}");
        }
    }
}
