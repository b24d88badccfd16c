//! The one table of TAQ's keys: name, place in [`Config`], range and meaning.

use narrows_units::Duration;

use super::config::{
    Codepoints, Common, Config, DefaultConfig, FairShare, Mode, PaperConfig, Share, Trust, WaitingSyn,
};
use crate::keys::kinds::{ValueKind, Words};
use crate::keys::{choices, keys};
use crate::{SettingError, Settings};

impl Words for Mode {
    const WORDS: &'static [&'static str] = &["default", "paper"];

    fn chosen(&self) -> usize {
        usize::from(matches!(self, Self::Paper(_)))
    }
    /// Chooses the mode at `place`. A mode other than the present one begins with its defaults.
    fn choose(&mut self, place: usize) {
        if place != self.chosen() {
            *self = if place == 0 { Self::default() } else { Self::Paper(PaperConfig::default()) };
        }
    }
}
choices!(Trust: "any" => Any, "users" => Users);
choices!(Share: "auto" => Auto, "flow" => Flow, "user" => User);
choices!(FairShare: "queueing" => Queueing, "proportional" => Proportional);
choices!(WaitingSyn: "auto" => Auto, "drop" => Drop, "hold" => Hold);

/// Names of codepoints that people write; the IANA registry of differentiated services field codepoints.
const NAMES: [(&str, u8); 22] = [
    ("ef", 46),
    ("va", 44),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("le", 1),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
];

/// Codepoints by name or number, joined by `+`; `none` for none.
struct Marks();

impl ValueKind<Codepoints> for Marks {
    fn text(&self, value: &Codepoints) -> String {
        let named = |point: u8| match NAMES.iter().find(|(_, number)| *number == point) {
            Some((name, _)) => (*name).to_owned(),
            None => point.to_string(),
        };
        let words: Vec<String> = (0..64).filter(|point| value.0 >> point & 1 == 1).map(named).collect();
        if words.is_empty() { "none".to_owned() } else { words.join("+") }
    }
    fn range(&self) -> String {
        "codepoints joined by +, as ef+va+cs5+40 (names, or numbers from 0 to 63), or none".to_owned()
    }
    fn read(&self, place: &mut Codepoints, text: &str) -> Option<()> {
        if text == "none" {
            *place = Codepoints(0);
            return Some(());
        }
        let point = |word: &str| match NAMES.iter().find(|(name, _)| *name == word) {
            Some((_, number)) => Some(*number),
            None => word.parse().ok().filter(|number| *number < 64),
        };
        let points: Option<Vec<u8>> = text.split('+').map(point).collect();
        *place = Codepoints(points?.into_iter().fold(0, |bits, point| bits | 1 << point));
        Some(())
    }
}

const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn common(config: &mut Config) -> Option<&mut Common> {
    Some(&mut config.common)
}

fn paper(config: &mut Config) -> Option<&mut PaperConfig> {
    if let Mode::Paper(paper) = &mut config.mode { Some(paper) } else { None }
}

/// Keys that have one meaning and default here, and another in paper mode.
fn default_common(config: &mut Config) -> Option<&mut Common> {
    matches!(config.mode, Mode::Default(_)).then_some(&mut config.common)
}

fn default(config: &mut Config) -> Option<&mut DefaultConfig> {
    if let Mode::Default(default) = &mut config.mode { Some(default) } else { None }
}

keys! {
    Config;
    [None, Some, Config::default] {
        mode: Choice(),
            "rules of TAQ: `default`, the best found by measurement, or `paper`, the published text, by which UDP, \
             QUIC and pure acknowledgments lose first";
    }
    [None, common, Config::default] {
        share: Choice(),
            "sharing of the link: among flows, or among users and then their flows; auto: flows in paper mode, \
             users in default mode";
        admission: Choice(), "admission control: new users wait while the link has more than it can serve";
        waiting_syn: Choice(),
            "fate of a SYN that waits for admission: dropped (the client asks again) or held; auto: dropped in \
             paper mode, held in default mode";
        t_pool: Time(secs(1), secs(10)), "age of a pool below which new flows of its source join it";
        w_loss: Time(secs(1), secs(20)),
            "window over which loss is measured: for the report, and in paper mode for admission";
        flows: Number(16, 1_048_576), "most flows that are followed at once";
        pools: Number(16, 1_048_576), "most pools that are remembered at once";
        user_prefix: Number(0, 128),
            "length of a user's IPv6 prefix in bits, where users share the link; 0: as the box finds it, and 64 \
             elsewhere";
    }
    [Some("mode=paper"), paper, Config::paper] {
        fair_share: Choice(), "fair share of a flow: equal for all, or in proportion to 1 / epoch length";
        p_thresh: Part(50_000, 200_000),
            "loss probability from which timeouts repeat; only an upper bound for `p_admit`";
        p_admit: Part(1_000, 200_000),
            "loss probability from which new users wait for admission; must be below `p_thresh`";
        t_wait: TimeOrOff(secs(1), secs(10)),
            "wait after which a user is admitted (section 4.3); off: users wait until the loss is below `p_admit`";
        rho_r: Part(100_000, 900_000), "largest share of the link for the recovery queue";
        over_penalised: Number(1, 5),
            "number of drops in an epoch above which the flow's packets count as over-penalised";
        newflow_cap: Part(100_000, 500_000), "largest share of the buffer for the new-flow queue";
        buffer: Buffer(), "buffer, in multiples of one RTT of the link (`1x`) or in packets";
        ewma_shift: Number(1, 4), "weight of a new sample in epoch and rate averages: 1 / 2^shift";
        record_timeout: Time(secs(60), secs(600)), "silence after which a flow is forgotten";
        rtt: Time(Duration::from_millis(1), secs(10)), "round-trip time the buffer is sized for";
        packet: Size(64, 65_535), "packet size the buffer is sized for, in bytes";
    }
    [Some("mode=default"), default_common, Config::default] {
        t_wait: Time(secs(1), secs(10)), "time under overload after which one more waiting pool is admitted";
        rho_r: Part(100_000, 500_000), "largest share of the link for packets without data";
    }
    [Some("mode=default"), default, Config::default] {
        k: Number(1, 1_000),
            "packets a flow may have waiting; of more, one is dropped whose loss its sender can repair";
        window_clamp: Choice(), "hold senders back by the window in returning acknowledgments";
        window_clamp_min: Number(1, 1_000), "least window that `window_clamp` sets, in packets";
        window_clamp_max: Number(1, 10_000), "largest window that `window_clamp` sets, in packets";
        suppress_duplicates: Choice(), "discard copies of segments that still wait";
        suppress_departed: Choice(), "discard copies of segments whose acknowledgment cannot be back yet";
        mark: Choice(), "mark ECN-capable packets where one would be dropped";
        repairable: Choice(), "drop only packets whose loss fast retransmit repairs";
        retransmissions_first: Choice(),
            "send retransmissions before other packets of their flow, with TSval rewritten";
        first_window_grace: Choice(), "drop no packet of a flow's first window";
        new_flows_first: Choice(), "serve a flow that was idle before the others, for one quantum";
        rested_first: Choice(),
            "serve a flow that had nothing waiting for a round before the others, for one quantum, and its user \
             likewise";
        quantum: Number(0, 65_535),
            "bytes that a flow may send in each round (DRR); 0: length of the largest recent packet";
        new_quantum: Number(0, 1_000_000),
            "bytes a new flow may send before the old flows; one packet, if it is longer than half of these bytes";
        new_share: Part(100_000, 1_000_000),
            "share of the link that new flows may have while old flows wait; 1: new flows go before all others";
        ack_filter: Choice(),
            "discard waiting acknowledgments beyond `rho_r` that a later one makes superfluous (RFC 3449)";
        expedited_share: Part(0, 500_000),
            "share of the link that calls, games and marked packets may have before all flows; 0: none";
        expedited_dscp: Marks(),
            "codepoints of packets that ask for `expedited_share`, joined by +; none: no mark asks for it";
        expedited_trust: Choice(), "senders whose codepoints are believed: any, or users only";
        expedited_unmarked: Choice(),
            "give flows of datagrams up to 320 bytes both ways, except QUIC, `expedited_share` without a mark";
        wash: Choice(), "set the codepoint of every packet that leaves to 0 (best effort)";
        suppress_probes: Choice(),
            "discard probes that a QUIC sender sends after a silence while other packets of its flow wait";
        suppress_mtu_probes: Choice(), "discard QUIC's path MTU probes while other packets of the flow wait";
        quic_credit: Number(0, 10_000), "bytes a new QUIC flow may send beyond `new_quantum`: its handshake is padded";
        quic_first: Number(2, 1_000), "packets a QUIC flow may have waiting in its first window";
        quic_hold: Number(2, 1_000),
            "packets a QUIC flow may have waiting after its first window; beyond, one is dropped per round trip";
        quic_mark: Number(1, 1_000),
            "packets a QUIC flow may have waiting; beyond, one is marked per round trip (beyond `quic_hold`, if that \
             is more, where `auto` has found the link before the box)";
        quic_one_signal: Choice(), "mark or drop at most one packet of a QUIC flow in a round trip";
        purge: Choice(),
            "drop packets that wait for a receiver that has reset (TCP), refuses (UDP) or says nothing (QUIC)";
        memory_packets: Number(16, 1_000_000), "most packets that wait at once";
        memory_bytes: Size(65_536, 4_000_000_000), "most bytes that wait at once";
        round_limit_ms: Millis(100, 600_000),
            "time of a round of one packet per flow, in milliseconds, above which new users wait";
        wait_rounds: Number(0, 10_000),
            "rounds of one packet per flow after which a waiting pool is admitted; 0: no pool is, for its wait alone";
    }
}

impl Settings for Config {
    const NAME: &'static str = "taq";
    const BARE: &'static str = "mode";
    const SELECTOR: Option<&'static str> = Some("mode");

    fn check(&self) -> Result<(), SettingError> {
        match &self.mode {
            Mode::Default(config) => config.check(),
            Mode::Paper(config) => config.check(),
        }
    }
}

impl PaperConfig {
    fn check(&self) -> Result<(), SettingError> {
        if self.p_admit >= self.p_thresh {
            let expected = format!("below p_thresh = {}", self.p_thresh);
            return Err(SettingError::new("p_admit", self.p_admit.to_string(), expected));
        }
        Ok(())
    }
}

impl DefaultConfig {
    fn check(&self) -> Result<(), SettingError> {
        if self.window_clamp_min > self.window_clamp_max {
            let expected = format!("at most window_clamp_max = {}", self.window_clamp_max);
            return Err(SettingError::new("window_clamp_min", self.window_clamp_min.to_string(), expected));
        }
        if self.memory_packets < self.k {
            let expected = format!("at least k = {}, or no flow could ever hold its backlog", self.k);
            return Err(SettingError::new("memory_packets", self.memory_packets.to_string(), expected));
        }
        Ok(())
    }
}
