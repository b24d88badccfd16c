//! Loss, added delay and jitter of calls, and how many calls are good.

use narrows_plot::quantile;
use narrows_scenario::calls::{CallWay, Heard, Jitter, LAST, is_good};
use narrows_units::Duration;

use super::{P50, P95, P99, Table, sorted};
use crate::record::{CallLeg, CallRecord};
use crate::scenario::Scenario;
use crate::worker::record::{CallEnd, CallEnds};

impl CallLeg {
    fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| 1.0 - self.added_ms.len() as f64 / self.sent as f64)
    }

    fn seconds(&self) -> impl Iterator<Item = f64> {
        self.added_ms.iter().map(|ms| ms / 1e3)
    }

    fn heard(&self) -> Option<Heard> {
        Some(Heard { loss: self.loss()?, added_p95_s: quantile(&sorted(self.seconds()), P95.1) })
    }

    /// Puts together what sender and taker saw of packets sent at times for which `counted` holds.
    fn of(sender: &CallEnd, taker: &CallEnd, propagation: Duration, counted: &impl Fn(u64) -> bool) -> Self {
        let mut leg =
            Self { sent: sender.sent.iter().filter(|at| counted(**at)).count() as u64, ..Self::default() };
        let mut jitter = Jitter::default();
        for (_, took) in taker.came.iter().filter(|(sent, _)| counted(*sent)) {
            let added = Duration::from_nanos(*took).saturating_sub(propagation);
            jitter.add(added);
            // Nobody can have measured more digits.
            leg.added_ms.push((added.as_secs_f64() * 1e5).round() / 1e2);
        }
        leg.jitter_s = jitter.mean_s();
        leg
    }
}

/// Puts together what users and server saw of a load of `lasted` seconds.
#[must_use]
pub fn records(scenario: &Scenario, users: &CallEnds, server: &CallEnds, lasted: f64) -> Vec<CallRecord> {
    let since = |s: f64| users.began + (s.max(0.0) * 1e9) as u64;
    let window = since(scenario.warmup.secs())..since(lasted - LAST.as_secs_f64());
    let counted = |at: u64| window.contains(&at);
    let propagation = Duration::from_nanos((scenario.rtt.secs() / 2.0 * 1e9) as u64);
    let callers = scenario.calls.iter().flat_map(|c| c.first..c.first + c.flows);
    callers
        .zip(users.ends.iter().zip(&server.ends))
        .map(|(user, (at_user, at_server))| CallRecord {
            user,
            down: CallLeg::of(at_server, at_user, propagation, &counted),
            up: CallLeg::of(at_user, at_server, propagation, &counted),
        })
        .collect()
}

pub(super) fn calls(t: &mut Table, calls: &[CallRecord]) {
    if calls.is_empty() {
        return;
    }
    let judged: Vec<bool> = calls.iter().filter_map(|c| is_good([c.down.heard(), c.up.heard()])).collect();
    t.put("calls_good", Some(judged.iter().filter(|good| **good).count() as f64 / judged.len() as f64));
    for way in CallWay::BOTH {
        let legs: Vec<&CallLeg> = calls
            .iter()
            .map(|c| match way {
                CallWay::Down => &c.down,
                CallWay::Up => &c.up,
            })
            .collect();
        let word = way.word();
        let (sent, added) =
            (legs.iter().map(|l| l.sent).sum::<u64>(), sorted(legs.iter().flat_map(|l| l.seconds())));
        t.put(&format!("call_{word}_sent"), Some(sent as f64));
        t.put(&format!("call_{word}_arrived"), Some(added.len() as f64));
        t.put(&format!("call_{word}_loss"), Some(1.0 - added.len() as f64 / sent as f64));
        t.quantiles(&format!("call_{word}_added"), &added, &[P50, P95, P99, ("max", 1.0)]);
        let jitters: Vec<f64> = legs.iter().filter_map(|l| l.jitter_s).collect();
        t.put(&format!("call_{word}_jitter_s"), Some(jitters.iter().sum::<f64>() / jitters.len() as f64));
    }
}
