//! Loss, added delay and jitter of calls, and how many calls are good.

use std::collections::BTreeMap;

use narrows_scenario::calls::{CallWay, Heard, Jitter, is_good};
use narrows_units::{Duration, Instant};

use super::report::{MAX, P50, P95, P99, Tables, Which, integers, numbers, share};
use crate::statistics::Histogram;

/// Quantiles of added delay, in figures and in the table.
const QUANTILES: [Which; 4] = [P50, P95, P99, MAX];

/// One way of a call, or of several.
#[derive(Debug, Default)]
struct Leg {
    sent: u64,
    arrived: u64,
    /// Beyond the least possible, nanoseconds.
    added: Histogram,
    jitter: Jitter,
}

impl Leg {
    fn loss(&self) -> Option<f64> {
        share(self.sent - self.arrived, self.sent)
    }

    fn quantile_s(&self, q: f64) -> Option<f64> {
        self.added.quantile(q).map(|ns| ns as f64 / 1e9)
    }

    fn heard(&self) -> Option<Heard> {
        Some(Heard { loss: self.loss()?, added_p95_s: self.quantile_s(P95.1) })
    }
}

/// A call.
#[derive(Debug, Default)]
struct Call {
    class: u16,
    /// Legs in the order of [`CallWay::BOTH`].
    legs: [Leg; 2],
}

/// Calls, by user.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Time from which on packets that are sent count, and the end of that time.
    counted: (Instant, Instant),
    calls: BTreeMap<u32, Call>,
}

impl Calls {
    /// Makes the probe of a run in which packets count that are sent from `from` until before `until`.
    pub(super) fn new(from: Instant, until: Instant) -> Self {
        Self { counted: (from, until), calls: BTreeMap::new() }
    }

    /// A user of class `class` makes a call.
    pub(crate) fn begins(&mut self, user: u32, class: u16) {
        self.calls.entry(user).or_default().class = class;
    }

    /// A packet is sent.
    pub(crate) fn sent(&mut self, now: Instant, user: u32, way: CallWay) {
        if let Some(leg) = self.leg(now, user, way) {
            leg.sent += 1;
        }
    }

    /// Counts a packet sent at `sent` that has arrived, `added` later than the fastest would.
    pub(crate) fn arrived(&mut self, sent: Instant, user: u32, way: CallWay, added: Duration) {
        if let Some(leg) = self.leg(sent, user, way) {
            leg.arrived += 1;
            leg.added.add(added.as_nanos());
            leg.jitter.add(added);
        }
    }

    /// Finds the leg of a packet that was sent at `sent`; `None` for a packet that does not count.
    fn leg(&mut self, sent: Instant, user: u32, way: CallWay) -> Option<&mut Leg> {
        let (from, until) = self.counted;
        let call = self.calls.get_mut(&user).filter(|_| (from..until).contains(&sent))?;
        Some(&mut call.legs[way as usize])
    }

    /// Adds the figures of another part of the run.
    pub(super) fn absorb(&mut self, other: Self) {
        self.calls.extend(other.calls);
    }

    pub(super) fn report(&self, out: &mut Tables) {
        if self.calls.is_empty() {
            return;
        }
        let judged: Vec<bool> =
            self.calls.values().filter_map(|c| is_good([c.legs[0].heard(), c.legs[1].heard()])).collect();
        out.put("calls_good", share(judged.iter().filter(|good| **good).count() as u64, judged.len() as u64));
        for way in CallWay::BOTH {
            self.report_way(way, out);
        }
        self.table(out);
    }

    /// The figures of all calls together.
    fn report_way(&self, way: CallWay, out: &mut Tables) {
        let (mut all, mut jitters) = (Leg::default(), Vec::new());
        for leg in self.calls.values().map(|c| &c.legs[way as usize]) {
            all.sent += leg.sent;
            all.arrived += leg.arrived;
            all.added.absorb(&leg.added);
            jitters.extend(leg.jitter.mean_s());
        }
        let word = way.word();
        out.put(format!("call_{word}_sent"), all.sent as f64);
        out.put(format!("call_{word}_arrived"), all.arrived as f64);
        out.put(format!("call_{word}_loss"), all.loss());
        out.histogram(&format!("call_{word}_added"), &all.added, &QUANTILES);
        out.put(format!("call_{word}_jitter_s"), crate::statistics::mean(&jitters));
    }

    fn table(&self, out: &mut Tables) {
        let mut columns = vec![
            integers("class", self.calls.values().map(|c| c.class.into())),
            integers("user", self.calls.keys().map(|user| u64::from(*user))),
        ];
        for way in CallWay::BOTH {
            let legs = || self.calls.values().map(|c| &c.legs[way as usize]);
            let word = way.word();
            let number = |name: &str, of: &dyn Fn(&Leg) -> Option<f64>| {
                numbers(format!("{word}_{name}"), legs().map(|leg| of(leg).unwrap_or(f64::NAN)))
            };
            columns.push(integers(format!("{word}_sent"), legs().map(|leg| leg.sent)));
            columns.push(integers(format!("{word}_arrived"), legs().map(|leg| leg.arrived)));
            columns.push(number("loss", &Leg::loss));
            for (name, q) in QUANTILES {
                columns.push(number(&format!("added_{name}_s"), &|leg| leg.quantile_s(q)));
            }
            columns.push(number("jitter_s", &|leg| leg.jitter.mean_s()));
        }
        let good = |c: &Call| is_good([c.legs[0].heard(), c.legs[1].heard()]);
        columns.push(numbers("good", self.calls.values().map(|c| good(c).map_or(f64::NAN, f64::from))));
        out.table("calls", columns);
    }
}

#[cfg(test)]
mod tests {
    use core::ops::ControlFlow;

    use narrows_scenario::Experiment;

    use crate::results::{Data, Results};

    /// One G.711 call of 12 s by one of three users of `other`, over 200 kbit/s and 100 ms there and back.
    fn run(sets: &[&str], other: &str) -> Results {
        let text = format!(
            "name = 't'\nrate = '200kbit'\nrtt = '100ms'\nduration = '12s'\nwarmup = '1s'\njitter = '0s'\n\
             discipline = 'fifo:1000'\n[[traffic]]\nkind = 'objects'\nusers = 3\n{other}\n\
             [[traffic]]\nkind = 'calls'\nflows = 1\nbeside = 'objects'\n"
        );
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        let run = Experiment::parse(&text, &sets).unwrap().expand().unwrap().remove(0);
        crate::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    const NOBODY: &str = "start = '11.9s'";

    #[test]
    fn a_call_on_an_empty_link_feels_nothing() {
        let r = run(&[], NOBODY);
        // From 1 s to 11 s, a packet each 20 ms.
        for (name, value) in [
            ("calls_good", 1.0),
            ("call_down_sent", 500.0),
            ("call_down_arrived", 500.0),
            ("call_up_arrived", 500.0),
            ("call_down_loss", 0.0),
            ("call_down_added_max_s", 0.0),
            ("call_up_added_max_s", 0.0),
            ("call_down_jitter_s", 0.0),
        ] {
            assert_eq!(r.summary.get(name), Some(&value), "{name}");
        }
        assert!(!r.summary.contains_key("datagram_loss"));
    }

    #[test]
    fn two_calls_in_step_wait_for_a_packet_of_the_other() {
        let r = run(&["traffic.1.flows=2"], NOBODY);
        // (200 + 14) bytes at 200 kbit/s are 8.56 ms; half of the packets wait so long.
        let p99 = r.summary["call_down_added_p99_s"];
        assert!((p99 - 8.56e-3).abs() < 8.56e-3 / 256.0, "{p99}");
        let calls = r.tables.iter().find(|t| t.name == "calls").unwrap();
        let column = |name: &str| &calls.columns.iter().find(|c| c.name == name).unwrap().data;
        assert_eq!(column("user"), &Data::U64(vec![3, 4]));
        let Data::F64(maxima) = column("down_added_max_s") else { panic!() };
        assert_eq!((maxima[0], maxima[1]), (0.0, 8.56e-3));
    }

    #[test]
    fn a_full_queue_loses_and_is_not_good() {
        let r = run(&["traffic.1.flows=3"], NOBODY);
        // Three calls want 257 of 200 kbit/s: the queue of 1000 packets grows by 0.3 kB each 40 ms.
        assert_eq!(r.summary["calls_good"], 0.0);
        assert!(r.summary["call_down_added_max_s"] > 2.0 && r.summary["call_up_loss"] == 0.0);
        let short = run(&["traffic.1.flows=3", "discipline=fifo:10"], NOBODY);
        // 1 - 200 / 256.8, give or take the ten that wait.
        assert!(
            (short.summary["call_down_loss"] - 0.221).abs() < 0.005,
            "{:?}",
            short.summary["call_down_loss"]
        );
    }

    #[test]
    fn a_user_who_downloads_too_is_one_host() {
        // A call of 45.6 kbit/s. As the fourth user it has a share of 50 of 200 kbit/s; beside one of the three
        // downloads half of 66.7.
        let loss = |calls: &str| {
            let sets = ["discipline=cake:isolate=dual_dst".to_owned(), format!("traffic.1={calls}")];
            run(&sets.each_ref().map(String::as_str), "size = '500kB'").summary["call_down_loss"]
        };
        let own = loss("{ kind = 'calls', flows = 1, shape = 'opus24' }");
        let beside = loss("{ kind = 'calls', flows = 1, shape = 'opus24', beside = 'objects' }");
        assert!(own < 0.02 && beside > 0.2, "{own} {beside}");
    }
}
