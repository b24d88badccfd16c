//! The one table of TAQ's keys: name, place in [`Config`], range and meaning.

use narrows_units::Duration;

use super::config::{Config, FairShare, Mode, Share, WaitingSyn};
use crate::keys::{choices, keys};
use crate::{Key, SettingError, Settings};

choices!(Mode: "default" => Default, "paper" => Paper);
choices!(Share: "flow" => Flow, "pool" => Pool);
choices!(FairShare: "queueing" => Queueing, "proportional" => Proportional);
choices!(WaitingSyn: "auto" => Auto, "drop" => Drop, "hold" => Hold);

const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

keys! {
    Config;
    mode: Choice(), "which rules: `default` is the best found by measurement, `paper` the published text";
    share: Choice(), "whom the link is shared among: flows, or pools (user addresses) first";
    fair_share: Choice(), "equal shares, or in proportion to 1 / epoch length (paper mode)";
    admission: Choice(), "new pools wait at the door while the link has more than it can serve";
    waiting_syn: Choice(), "a waiting SYN is dropped (the client asks again) or held; auto: dropped in paper mode, held in default";
    http_503: Choice(), "a connection to port 80 that has to wait is answered 503 with Retry-After (nfqueue back end)";
    p_thresh: Part(50_000, 200_000), "loss probability from which timeouts repeat: decides nothing but how high `p_admit` may be";
    p_admit: Part(1_000, 200_000), "loss probability from which new pools wait (paper mode); below p_thresh";
    t_pool: Time(secs(1), secs(10)), "a flow joins the pool its source started less than this ago";
    t_wait: Time(secs(1), secs(10)), "who has waited this long is let in (paper mode); while the door is closed one pool enters each `t_wait` (default mode)";
    over_penalised: Number(1, 5), "more drops than this in two epochs make a flow over-penalised (paper mode)";
    rho_r: Part(100_000, 500_000), "cap of the recovery queue (paper mode), of packets without data (default mode), as a share of the link";
    newflow_cap: Part(100_000, 500_000), "cap of the new-flow queue, as a share of the buffer (paper mode)";
    buffer: Buffer(), "buffer, in multiples of one RTT of the link (`1x`) or in packets (paper mode)";
    w_loss: Time(secs(1), secs(20)), "window over which loss is measured, for the report and for the door of paper mode";
    ewma_shift: Number(1, 4), "weight of a new sample in epoch and rate averages: 1 / 2^shift (paper mode)";
    record_timeout: Time(secs(60), secs(600)), "a flow that sent nothing for this long is forgotten (paper mode)";
    rtt: Time(Duration::from_millis(1), secs(10)), "round-trip time the buffer is sized for (paper mode)";
    packet: Size(64, 65_535), "packet size the buffer is sized for, in bytes (paper mode)";
    flows: Number(16, 1_048_576), "flows that can be followed at once";
    pools: Number(16, 1_048_576), "pools that can be remembered at once";
    k: Number(1, 1_000), "packets a flow may have waiting before a repairable one is dropped (default mode)";
    window_clamp: Choice(), "hold senders back by the window in returning acknowledgments (default mode)";
    window_clamp_min: Number(1, 1_000), "least window clamped to, in packets (default mode)";
    window_clamp_max: Number(1, 10_000), "largest window clamped to, in packets (default mode)";
    suppress_duplicates: Choice(), "discard copies of segments that still wait (default mode)";
    suppress_departed: Choice(), "discard copies of segments whose acknowledgment cannot be back yet (default mode)";
    mark: Choice(), "mark ECN-capable packets where one would be dropped (default mode)";
    repairable: Choice(), "drop only what fast retransmit repairs (default mode)";
    retransmissions_first: Choice(), "retransmissions go to the front of their flow, TSval rewritten (default mode)";
    first_window_grace: Choice(), "no drop in a flow's first window (default mode)";
    new_flows_first: Choice(), "a flow that was idle is served first for one quantum (default mode)";
    young_kb: Number(0, 10_000), "kilobytes up to which a flow counts as young (default mode)";
    young_weight: Number(100, 1_600), "a young flow's share, in percent of an old one's (default mode)";
    quantum: Number(0, 65_535), "bytes a turn adds to what a flow may send; 0: the largest packet of late (default mode)";
    new_quantum: Number(0, 1_000_000), "bytes a flow that waits for nothing may send before the round (default mode)";
    new_share: Part(100_000, 1_000_000), "what such flows may have of the link while others wait for their turns; 1: they go before all (default mode)";
    memory_packets: Number(16, 1_000_000), "most packets that wait at once (default mode)";
    memory_bytes: Size(65_536, 4_000_000_000), "most bytes that wait at once (default mode)";
    round_limit_ms: Millis(100, 600_000), "new pools wait while a round of one packet per flow takes longer (default mode)";
    wait_rounds: Number(0, 10_000), "who has waited this many such rounds is let in; 0: nobody is, for that (default mode)";
}

impl Settings for Config {
    const NAME: &'static str = "taq";
    const BARE: &'static str = "mode";
    const RENAMED: &'static [(&'static str, &'static str)] = &[
        ("door", "waiting_syn"),
        ("clamp", "window_clamp"),
        ("clamp_min", "window_clamp_min"),
        ("clamp_max", "window_clamp_max"),
        ("swallow", "suppress_duplicates"),
        ("swallow_departed", "suppress_departed"),
        ("front", "retransmissions_first"),
        ("new_first", "new_flows_first"),
        ("new_bytes", "new_quantum"),
        ("line_rounds", "wait_rounds"),
    ];

    fn keys() -> &'static [Key<Self>] {
        KEYS
    }

    fn check(&self) -> Result<(), SettingError> {
        let wrong = |key: &str, value: String, expected: String| {
            Err(SettingError { key: key.to_owned(), value, expected })
        };
        if self.p_admit >= self.p_thresh {
            return wrong("p_admit", self.p_admit.to_string(), format!("below p_thresh = {}", self.p_thresh));
        }
        if self.window_clamp_min > self.window_clamp_max {
            return wrong(
                "window_clamp_min",
                self.window_clamp_min.to_string(),
                format!("at most window_clamp_max = {}", self.window_clamp_max),
            );
        }
        if self.http_503 && !self.admission {
            return wrong(
                "http_503",
                "on".to_owned(),
                "admission = on: without a door nobody is refused".to_owned(),
            );
        }
        if self.memory_packets < self.k {
            return wrong(
                "memory_packets",
                self.memory_packets.to_string(),
                format!("at least k = {}, or no flow could ever hold its backlog", self.k),
            );
        }
        Ok(())
    }
}
