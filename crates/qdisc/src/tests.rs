//! The discipline of `docs/how-to/add-a-discipline.md`: the code of the page is compiled, and keeps what every
//! discipline keeps.

use std::path::Path;

use narrows_testing::repository;
use narrows_units::Instant;

use crate::harness::drive::{Waking, run};
use crate::harness::traffic::Traffic;
use crate::harness::{build, link};
use crate::{Settings as _, Spec, drop_front};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_page_shows_the_code_that_is_compiled() {
    let Some(root) = repository(env!("CARGO_MANIFEST_DIR")) else { return };
    let page = read(&root.join("docs/how-to/add-a-discipline.md"));
    let blocks: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
    let code = read(&root.join("crates/qdisc/src/drop_front.rs"));
    assert!(
        blocks.contains(&format!("rust\n{code}").as_str()),
        "the page has other code than src/drop_front.rs"
    );
    assert!(code.lines().count() <= 60);
    let row = blocks.iter().find_map(|b| b.strip_prefix("rust\n    \"")).expect("the page shows the row");
    assert!(
        read(&root.join("crates/qdisc/src/spec.rs")).contains(row),
        "the page has another row than spec.rs"
    );
}

#[test]
fn it_is_named_set_and_changed_like_any_other() {
    let spec: Spec = "drop_front:3".parse().unwrap();
    assert_eq!((spec.to_string().as_str(), spec.limits(&link()).packets), ("drop_front:limit=3", 3));
    assert!("drop_front:0".parse::<Spec>().is_err());
    let mut q = build("drop_front:3", false, 1);
    assert!(q.reconfigure(Instant::ZERO, spec.settings(), &link()));
    assert!(!q.reconfigure(Instant::ZERO, "red".parse::<Spec>().unwrap().settings(), &link()));
    assert!(drop_front::Config::markdown().contains("| `limit` | 30 |"));
}

#[test]
fn every_packet_leaves_once_and_in_order() {
    for seed in [1, 2] {
        let arrivals = Traffic::new(seed, 60, 600).generate(1_500);
        for shaped in [false, true] {
            let told = run(build("drop_front:8", shaped, seed), &arrivals, Waking::Told).0;
            let polled = run(build("drop_front:8", shaped, seed), &arrivals, Waking::Polling).0;
            assert_eq!(told.fates, polled.fates);
            assert!(told.most_packets <= 8);
        }
    }
}
