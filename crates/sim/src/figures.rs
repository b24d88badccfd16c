//! Names of the figures that a run can have, as in `docs/reference/probes.md`: a request for a figure is checked
//! against them before anything runs.

use std::collections::BTreeSet;

use narrows_qdisc::Reason;
use narrows_scenario::Scenario;

/// Every name of a summary, as `docs/reference/probes.md` has it: in braces either choices or, in capitals, what
/// the scenario decides.
const NAMES: &[&str] = &[
    // The link
    "goodput_bps",
    "goodput_kbps",
    "goodput_share",
    "wasted",
    "utilisation",
    "arrived",
    "dropped",
    "dropped_{REASON}",
    "lost",
    "loss",
    "suppressed",
    "marked",
    "refused",
    "clamped",
    "wait_{control,small,bulk,datagram}_{p50,p99,max}_s",
    "admission_waiting",
    "admission_wait_{p50,p99}_s",
    "utilisation_{LINK}",
    "loss_{LINK}",
    "believed_kbps_{LINK}",
    "used_of_{demand,capacity}_{LINK}",
    "modem_{LINK}_{p50,p95,p99}_s",
    "modem_beyond_{LINK}_p95_s",
    "outages_{LINK}",
    "recovery_{LINK}_{p95,max}_s",
    "recoveries_slow_{LINK}",
    "throughput_peak_{LINK}_kbps",
    // Flows without end
    "jain_{SLICE}",
    "jain_{SLICE}_min",
    "jain_long",
    "zero_slices",
    "top40_share",
    "flow_stall_{p50,p99,max}_s",
    // Objects
    "objects_{done,failed,cut}",
    "objects_unkept",
    "object_{min,p10,p50,p90,p95,p99,max,mean}_s",
    "small_{p10,p50,p90,max}_s",
    "large_{p10,p50,p90,max}_s",
    "per_kb_{p50,p99}_s",
    "per_kb_spread",
    "user_per_kb_spread",
    "stall_{p50,p90,p99,max}_s",
    "stall_over_{5,20}s",
    "admitted_stall_p99_s",
    "connect_{p50,p99}_s",
    "first_byte_{p50,p99}_s",
    // Pages
    "pages_{done,failed,cut}",
    "page_mean_s",
    "page_{p50,p95,p99}_s",
    // Groups
    "of_{GROUP}_done",
    "of_{GROUP}_mean_s",
    "of_{GROUP}_{p50,p90,p99}_s",
    "of_{GROUP}_{cov,below_mean}",
    "of_{GROUP}_stall_p99_s",
    "of_{GROUP}_stall_over_{5,20}s",
    "of_{GROUP}_acked_mean_s",
    "of_{GROUP}_acked_{p50,p90,p99}_s",
    "of_{GROUP}_acked_{cov,below_mean}",
    "of_{GROUP}_{data_sent,lost,timeouts}",
    "of_{GROUP}_loss",
    "of_{GROUP}_jain_{SLICE}",
    "of_{GROUP}_jain_{SLICE}_min",
    "of_{GROUP}_goodput_kbps",
    "of_{GROUP}_each_kbps",
    "of_{GROUP}_got_nothing",
    // Edges
    "first_class",
    "reordered",
    // Users
    "user_stall_{p50,p99,max}_s",
    "user_stall_over_{HANG}",
    "entry_{p50,p99}_s",
    "never_in",
    "write_{p50,p99,max}_s",
    // Senders
    "timeouts",
    "timeouts_per_flow_s",
    "backoff_max",
    "backoff_deep",
    "retransmitted",
    "quic_lost",
    "quic_spurious",
    "quic_spurious_ptos",
    "fast_retransmits",
    "syn_retries",
    "loss_{small,large}",
    "datagram_kbps",
    "datagram_loss",
    "datagram_delay_{p50,p99,max}_s",
    // Calls
    "calls_good",
    "call_{down,up}_sent",
    "call_{down,up}_arrived",
    "call_{down,up}_loss",
    "call_{down,up}_added_{p50,p95,p99,max}_s",
    "call_{down,up}_jitter_s",
    // Windows
    "cwnd_{NAME}_pkts",
    "cwnd_peak_{NAME}_pkts",
    "beta_{NAME}",
    // Epochs
    "epoch_s",
    "epoch_{maintained,dropped,arriving,stalled}",
    "epoch_{maintained,dropped,arriving,stalled}_share",
    "epoch_sent_{0,1,2,3,4,5,6}",
    "epoch_sent_more",
    // Bursts
    "bursts",
    "burst_whole",
    "burst_loss",
    "burst_first_{K}",
    "burst_after_{K}_{J}",
    // Limits met
    "cwnd_cut_s",
    "capture_missed",
];

/// Every figure a run of `scenario` can have, whether or not this one will: what means nothing to it is missing from
/// its summary.
#[must_use]
pub fn names(scenario: &Scenario) -> BTreeSet<String> {
    let plain = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let probes = &scenario.probes;
    let of = |key: &str| -> Option<Vec<String>> {
        Some(match key {
            "REASON" => Reason::ALL.iter().map(|r| r.name().to_owned()).collect(),
            "LINK" => scenario.topology.links.iter().map(|l| plain(&l.name)).collect(),
            "GROUP" => probes.groups.iter().map(|g| g.name.clone()).collect(),
            "NAME" => scenario.traffic.iter().map(|t| plain(&t.name)).collect(),
            "SLICE" => vec![format!("{}s", probes.slice.as_secs_f64())],
            "HANG" => {
                let own = probes.stalls.iter().map(|h| h.as_secs_f64());
                [20.0, 60.0].into_iter().chain(own).map(|s| format!("{s}s")).collect()
            }
            "K" => (1..=16).map(|k| k.to_string()).collect(),
            "J" => (1..=3).map(|j| j.to_string()).collect(),
            _ => return None,
        })
    };
    NAMES.iter().flat_map(|name| written_out(name, &of)).collect()
}

/// A list of names: `name` with each choice of what stands in its braces.
fn written_out(name: &str, of: &dyn Fn(&str) -> Option<Vec<String>>) -> Vec<String> {
    let braces = name.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (inside, after))) = braces else { return vec![name.to_owned()] };
    let choices = of(inside).unwrap_or_else(|| inside.split(',').map(str::to_owned).collect());
    let tails = written_out(after, of);
    choices.iter().flat_map(|c| tails.iter().map(move |tail| format!("{before}{c}{tail}"))).collect()
}

#[cfg(test)]
mod tests {
    use core::ops::ControlFlow;

    use narrows_scenario::Experiment;

    use super::*;

    /// The names in the first columns of the page's tables, those of its section "Tables" left out.
    fn documented(page: &str) -> BTreeSet<String> {
        let (summary, _) = page.split_once("## Tables").unwrap();
        let rows = summary.lines().filter_map(|l| l.strip_prefix("| `"));
        let limits = summary.split_once("### Limits met").unwrap().1;
        let cells = rows.map(|row| row.split_once(" | ").unwrap().0).chain([limits]);
        let names = cells
            .flat_map(|cell| cell.split('`').filter(|w| w.contains('_') || !w.contains([' ', ',', '|'])));
        let none = |_: &str| None;
        names.filter(|w| !w.trim().is_empty()).flat_map(|name| written_out(name, &none)).collect()
    }

    #[test]
    fn the_page_names_them_all_and_no_others() {
        let Some(root) = narrows_testing::repository(env!("CARGO_MANIFEST_DIR")) else { return };
        let page = std::fs::read_to_string(root.join("docs/reference/probes.md")).unwrap();
        let as_documented = |key: &str| -> Option<Vec<String>> {
            match key {
                "REASON" => Some(Reason::ALL.iter().map(|r| r.name().to_owned()).collect()),
                "SLICE" => Some(vec!["20s".to_owned()]),
                "HANG" => Some(vec!["20s".to_owned(), "60s".to_owned()]),
                capitals if capitals.chars().all(|c| c.is_ascii_uppercase()) => {
                    Some(vec![capitals.to_owned()])
                }
                _ => None,
            }
        };
        let ours: BTreeSet<String> = NAMES.iter().flat_map(|n| written_out(n, &as_documented)).collect();
        let theirs = documented(&page);
        let missing: Vec<_> = ours.symmetric_difference(&theirs).collect();
        assert!(missing.is_empty(), "in docs/reference/probes.md or here, but not in both: {missing:?}");
    }

    /// A run with every kind of traffic gives no figure that was not announced.
    #[test]
    fn what_a_run_gives_was_to_be_expected() {
        let text = "
            name = 't'
            duration = '60s'
            warmup = '5s'
            mtu = 1000
            link = [{ name = 'th-in', from = 'a', to = 'b', rate = '400kbit', delay = '50ms', discipline = 'taq' }]
            hosts = [{ name = 'servers', at = 'a' }, { name = 'clients', at = 'b' }]
            traffic = [{ kind = 'objects', name = 'web', users = 30 }, { kind = 'long', name = 'bulk', flows = 3 },
                       { kind = 'pages', users = 2, objects = 4, think = '1s' },
                       { kind = 'telnet', flows = 2 }, { kind = 'udp', flows = 1, rate = '20kbit' },
                       { kind = 'calls', flows = 2, beside = 'web' }]
            [probes]
            slice = '2.5s'
            epochs = '1s'
            bursts = true
            series = ['cwnd']
            stalls = ['3s']
            groups = [{ name = 'mice', traffic = ['web'], up_to = '6kB' }, 
                { name = 'all', traffic = ['web'], shares = true }]
        ";
        for discipline in ["taq", "taq:paper", "fifo:10"] {
            let sets = [format!("link.0.discipline={discipline}")];
            let run = Experiment::parse(text, &sets).unwrap().expand().unwrap().remove(0);
            let results = crate::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(())).unwrap();
            let known = names(&run.scenario);
            let strange: Vec<_> = results.summary.keys().filter(|k| !known.contains(*k)).collect();
            assert!(
                strange.is_empty() && results.summary.len() > 100,
                "{discipline}: {strange:?} {}",
                results.summary.len()
            );
        }
    }
}
