//! The users of each transport, and of each version of HTTP, by themselves, where there are several.

use narrows_scenario::{Http, Transport};

use super::rows::{BY_HTTP, BY_TRANSPORT, Row, http_word};
use super::{Table, Values, traffic};
use crate::record::RunRecord;
use crate::scenario::{Scenario, Traffic};
use crate::worker::ClientResult;

pub(super) fn apart(t: &mut Table, scenario: &Scenario, run: &RunRecord) {
    let used = |its: &dyn Fn(&Traffic) -> bool| scenario.traffic.iter().any(its);
    let transports: Vec<_> =
        Transport::IN_LAB.into_iter().filter(|w| used(&|x| x.transport() == *w)).collect();
    if transports.len() > 1 {
        for transport in transports {
            let its = |x: &Traffic| x.transport() == transport;
            part(t, scenario, &of(scenario, run, &its), transport.word(), BY_TRANSPORT);
        }
    }
    let versions: Vec<_> = Http::ALL.into_iter().filter(|h| used(&|x| x.http() == Some(*h))).collect();
    if versions.len() > 1 {
        for version in versions {
            let its = |x: &Traffic| x.http() == Some(version);
            part(t, scenario, &of(scenario, run, &its), http_word(version), BY_HTTP);
        }
    }
}

fn part(t: &mut Table, scenario: &Scenario, run: &RunRecord, word: &str, rows: &[Row]) {
    let mut part = Table(Values::new());
    traffic(&mut part, scenario, run);
    for row in rows {
        if let Some(value) = part.0.get(row.key) {
            t.0.insert(format!("{word}_{}", row.key), *value);
        }
    }
}

/// Records of the users of groups that `group` selects, without the others'.
fn of(scenario: &Scenario, run: &RunRecord, group: &dyn Fn(&Traffic) -> bool) -> RunRecord {
    let client = &run.client;
    let its = |user: u32| scenario.group(user).is_some_and(group);
    let stalls = client.addresses.iter().zip(&client.user_stalls).filter(|(user, _)| its(**user));
    RunRecord {
        client: ClientResult {
            objects: client.objects.iter().filter(|o| its(o.user)).cloned().collect(),
            long: client.long.iter().filter(|l| its(l.user)).cloned().collect(),
            pages: client.pages.iter().filter(|p| its(p.user)).cloned().collect(),
            visits: client.visits.iter().filter(|v| its(v.user)).cloned().collect(),
            bins: (0..)
                .zip(&client.bins)
                .map(|(user, b)| if its(user) { b.clone() } else { Vec::new() })
                .collect(),
            link: (scenario.traffic.iter().zip(&client.link))
                .map(|(x, b)| if group(x) { b.clone() } else { Vec::new() })
                .collect(),
            user_stalls: stalls.map(|(_, stall)| *stall).collect(),
            addresses: Vec::new(),
            calls: None,
            ..*client
        },
        costs: run.costs.clone(),
        ..RunRecord::default()
    }
}
