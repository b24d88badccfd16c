//! Settings of TAQ: every parameter of table 2.8 of the TAQ notes (Chen, Subramanian, Iyengar, Ford, EuroSys 2014),
//! the choices the paper leaves open, and the switches of the default mode. A key that means something in one mode only
//! is there in that mode only.
//!
//! All keys stand in one table, [`Settings::keys`](crate::Settings::keys): command line, TOML, scenario files and
//! documents read the same names, ranges and explanations. Shares and probabilities are kept in parts per million, so
//! that no float decides about a packet.

use narrows_units::{Bytes, Dscp, Duration};
use narrows_users::UserRule;

use crate::{Buffer, Ppm, ShaperConfig};

/// Among whom the link is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Share by mode: flows in paper mode, as published; users first in default mode.
    #[default]
    Auto,
    /// Every flow gets the same.
    Flow,
    /// Every user gets the same share, which is divided among the user's flows.
    User,
}

/// Meaning of a fair share (paper, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FairShare {
    /// Equal shares: C / N.
    #[default]
    Queueing,
    /// Shares in proportion to 1 / epoch length.
    Proportional,
}

/// Fate of a SYN that has to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitingSyn {
    /// Fate by mode: dropped in paper mode, as published; held in default mode, because then its position is kept
    /// whatever the client's timer does.
    #[default]
    Auto,
    /// A waiting SYN is dropped; the client asks again.
    Drop,
    /// A waiting SYN is held until its pool is admitted.
    Hold,
}

/// Senders whose marks are believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Marks of both sides of the link.
    #[default]
    Any,
    /// Marks that users set.
    Users,
}

/// Codepoints of the differentiated services field (RFC 2474), one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codepoints(pub u64);

impl Codepoints {
    /// Codepoints that ask for a short wait: EF (RFC 3246), VOICE-ADMIT (RFC 5865), CS5 and CS6 (RFC 4594).
    pub const URGENT: Self = Self(1 << 46 | 1 << 44 | 1 << 40 | 1 << 48);

    /// Whether `dscp` is in the set.
    #[must_use]
    pub const fn has(self, dscp: Dscp) -> bool {
        self.0 >> dscp.get() & 1 == 1
    }
}

/// All settings: those of both modes, and those of the mode chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Settings that have a meaning in both modes.
    pub common: Common,
    /// Mode, with the settings of the mode.
    pub mode: Mode,
}

/// Algorithm of TAQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The best found by measurement.
    Default(DefaultConfig),
    /// The published text, with the notes' choices where the text is silent.
    Paper(PaperConfig),
}

impl Default for Mode {
    fn default() -> Self {
        Self::Default(DefaultConfig::default())
    }
}

/// Settings of both modes. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Among whom the link is shared.
    pub share: Share,
    /// Whether new pools may have to wait.
    pub admission: bool,
    /// Fate of a SYN that has to wait.
    pub waiting_syn: WaitingSyn,
    /// A flow joins the pool of its source if that pool started less than this ago.
    pub t_pool: Duration,
    /// Default mode: under overload one pool is admitted in each such time.
    pub t_wait: Duration,
    /// Default mode: cap of packets without data, as a share of the link.
    pub rho_r: Ppm,
    /// Window over which loss is measured: for the report, and in paper mode for admission control.
    pub w_loss: Duration,
    /// Flows that can be followed at once.
    pub flows: u32,
    /// Pools that can be remembered at once.
    pub pools: u32,
    /// Leading bits of an IPv6 address that are a user's; 0 for as the driver tells of each packet.
    pub user_prefix: u32,
}

impl Common {
    /// Whether the default mode shares the link between users first.
    pub(crate) const fn by_user(&self) -> bool {
        !matches!(self.share, Share::Flow)
    }

    /// Rule for the user of a flow, if the link is shared between users or is not. Where it is not, a pool is
    /// whoever opens connections, as in the paper.
    pub(crate) const fn users(&self, link: &ShaperConfig, by_user: bool) -> UserRule {
        if by_user {
            UserRule { side: link.users, ipv6_prefix: crate::users::prefix(self.user_prefix) }
        } else {
            UserRule::OPENER
        }
    }
}

impl Default for Common {
    fn default() -> Self {
        Self {
            share: Share::Auto,
            admission: true,
            waiting_syn: WaitingSyn::Auto,
            t_pool: Duration::from_secs(3),
            t_wait: Duration::from_secs(3),
            rho_r: Ppm(300_000),
            w_loss: Duration::from_secs(5),
            flows: 65_536,
            pools: 4096,
            user_prefix: 0,
        }
    }
}

/// Settings of the paper mode. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperConfig {
    /// Meaning of a fair share.
    pub fair_share: FairShare,
    /// Loss probability above which timeouts repeat (paper: 0.1): nothing goes by it, but `p_admit` has to stay below
    /// it.
    pub p_thresh: Ppm,
    /// Loss probability from which new pools wait; below `p_thresh`.
    pub p_admit: Ppm,
    /// A pool that waited this long is admitted; `None`: only a loss below `p_admit` admits.
    pub t_wait: Option<Duration>,
    /// Cap of the recovery queue, as a share of the link.
    pub rho_r: Ppm,
    /// Drops in one epoch above which a flow's packets move to the over-penalised.
    pub over_penalised: u32,
    /// Cap of the new-flow queue as a share of the buffer.
    pub newflow_cap: Ppm,
    /// Size of the buffer.
    pub buffer: Buffer,
    /// Weight of a new sample in the averages of epoch length and rate, as 1 / 2^shift.
    pub ewma_shift: u32,
    /// A flow that sent nothing for this long is forgotten; in default mode 120 s.
    pub record_timeout: Duration,
    /// Round-trip time for which the buffer is sized.
    pub rtt: Duration,
    /// Packet size for which the buffer is sized.
    pub packet: Bytes,
}

impl Default for PaperConfig {
    fn default() -> Self {
        Self {
            fair_share: FairShare::Queueing,
            p_thresh: Ppm(100_000),
            p_admit: Ppm(90_000),
            t_wait: None,
            // Share of repairs: of all that is sent on, the part that repairs a loss is the loss rate p of what
            // arrives: each lost packet is sent on once more, and of all that arrives 1 - p is. With 180 flows on
            // 600 kbit/s (figure 9) p is 0.48; half as much again is for bursts.
            rho_r: Ppm(700_000),
            over_penalised: 2,
            newflow_cap: Ppm(250_000),
            buffer: Buffer::Rtts(1000),
            ewma_shift: 3,
            record_timeout: Duration::from_secs(120),
            rtt: Duration::from_millis(200),
            packet: Bytes(1500),
        }
    }
}

/// Settings of the default mode. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultConfig {
    /// A flow's backlog in packets from which a repairable packet is dropped.
    pub k: u32,
    /// Hold senders back by the window in returning acknowledgments.
    pub window_clamp: bool,
    /// Least window clamped to, in packets.
    pub window_clamp_min: u32,
    /// Largest window clamped to, in packets.
    pub window_clamp_max: u32,
    /// Discard copies of segments that still wait.
    pub suppress_duplicates: bool,
    /// Whether copies of segments are discarded that have just left and cannot be acknowledged yet.
    pub suppress_departed: bool,
    /// Mark ECN-capable packets where one would be dropped.
    pub mark: bool,
    /// Drop only what fast retransmit repairs.
    pub repairable: bool,
    /// Whether retransmissions go to the front of their flow, TSval rewritten.
    pub retransmissions_first: bool,
    /// No drop in a flow's first window.
    pub first_window_grace: bool,
    /// Whether a flow that was idle is served first for one quantum.
    pub new_flows_first: bool,
    /// Whether a flow that has rested for a round is served first for one quantum, and so is its user.
    pub rested_first: bool,
    /// Bytes DRR adds to what a flow may send each time it comes round; 0: as much as the largest recent packet.
    pub quantum: u32,
    /// Bytes a new flow may send before the old flows.
    pub new_quantum: u32,
    /// Share of the link that new flows may have while old ones wait.
    pub new_share: Ppm,
    /// Discard acknowledgments that wait in a flow's queue once a later one says all that they say.
    pub ack_filter: bool,
    /// Share of the link that calls, games and marked packets may have before all flows.
    pub expedited_share: Ppm,
    /// Codepoints of packets that ask for `expedited_share`.
    pub expedited_dscp: Codepoints,
    /// Senders whose codepoints are believed.
    pub expedited_trust: Trust,
    /// Whether flows of small datagrams both ways have the expedited class without a mark.
    pub expedited_unmarked: bool,
    /// Clear the codepoint of what leaves.
    pub wash: bool,
    /// Discard what a sender of QUIC that has heard nothing sends while other packets of its flow wait.
    pub suppress_probes: bool,
    /// Discard a sender's path MTU probes while other packets of the flow wait.
    pub suppress_mtu_probes: bool,
    /// Bytes a new flow of QUIC may send before the old flows beyond `new_quantum`, because its handshake is padded.
    pub quic_credit: u32,
    /// Packets a flow of QUIC may have waiting in its first window.
    pub quic_first: u32,
    /// Packets a flow of QUIC may have waiting after its first window; beyond, one is dropped per round trip.
    pub quic_hold: u32,
    /// Packets a flow of QUIC may have waiting; beyond, one is marked per round trip. Where the link is before the box
    /// and `quic_hold` is more, that counts.
    pub quic_mark: u32,
    /// Whether a flow has at most one mark or drop in a round trip.
    pub quic_one_signal: bool,
    /// Drop what waits for a receiver that has gone, but for one packet.
    pub purge: bool,
    /// Most packets that wait at once.
    pub memory_packets: u32,
    /// Most bytes that wait at once.
    pub memory_bytes: Bytes,
    /// New pools wait while a round of one packet for each backlogged flow takes longer.
    pub round_limit_ms: Duration,
    /// A pool that has waited this many such rounds is admitted; 0: none is, for that.
    pub wait_rounds: u32,
}

impl Default for DefaultConfig {
    fn default() -> Self {
        Self {
            k: 6,
            window_clamp: true,
            window_clamp_min: 2,
            window_clamp_max: 1000,
            suppress_duplicates: true,
            suppress_departed: true,
            mark: true,
            repairable: true,
            retransmissions_first: true,
            first_window_grace: true,
            new_flows_first: true,
            rested_first: true,
            quantum: 0,
            new_quantum: 1514,
            new_share: Ppm(700_000),
            ack_filter: true,
            expedited_share: Ppm(200_000),
            expedited_dscp: Codepoints::URGENT,
            expedited_trust: Trust::Any,
            expedited_unmarked: true,
            wash: false,
            suppress_probes: true,
            suppress_mtu_probes: true,
            quic_credit: 1228,
            quic_first: 40,
            quic_hold: 8,
            quic_mark: 4,
            quic_one_signal: true,
            purge: true,
            memory_packets: 4000,
            memory_bytes: Bytes(9_000_000),
            round_limit_ms: Duration::from_secs(3),
            wait_rounds: 5,
        }
    }
}

/// Dimensions that follow from the settings on a given link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// The buffer B in packets.
    pub buffer: usize,
    /// Most packets in the new-flow queue.
    pub newflow_cap: usize,
    /// Most packets in the recovery queue: three quarters of B, so that a flood of copies or of pure acknowledgments
    /// leaves room for new data. The paper asks for a cap and names none.
    pub recovery_cap: usize,
}

impl Config {
    /// The paper mode with default settings.
    #[must_use]
    pub fn paper() -> Self {
        Self { common: Common::default(), mode: Mode::Paper(PaperConfig::default()) }
    }

    /// The settings of the default mode; `None` in the paper mode.
    #[must_use]
    pub const fn as_default(&self) -> Option<&DefaultConfig> {
        if let Mode::Default(config) = &self.mode { Some(config) } else { None }
    }

    /// The settings of the paper mode; `None` in the default mode.
    #[must_use]
    pub const fn as_paper(&self) -> Option<&PaperConfig> {
        if let Mode::Paper(config) = &self.mode { Some(config) } else { None }
    }
}

impl PaperConfig {
    /// The sizes of the queues on `link` (notes, table 2.8).
    #[must_use]
    pub fn sizes(&self, link: &ShaperConfig) -> Dimensions {
        let buffer = self.buffer.packets(link, self.rtt, self.packet) as u64;
        let at_least_one = |n: u64| usize::try_from(n.max(1)).unwrap_or(usize::MAX);
        Dimensions {
            buffer: at_least_one(buffer),
            newflow_cap: at_least_one(self.newflow_cap.of(buffer)),
            recovery_cap: at_least_one(buffer * 3 / 4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings as _;
    use narrows_units::Rate;

    #[test]
    fn the_table_of_the_notes_by_key() {
        // Table 2.8: default, one value below its range, one above.
        for (key, default, below, above) in [
            ("p_thresh", "0.1", "0.049", "0.21"),
            ("p_admit", "0.09", "-0.1", "0.2001"),
            ("t_pool", "3s", "0.9", "10.1"),
            ("t_wait", "off", "0.9", "10.1"),
            ("over_penalised", "2", "0", "6"),
            ("rho_r", "0.7", "0.09", "0.91"),
            ("newflow_cap", "0.25", "0.09", "0.51"),
            ("buffer", "1x", "0.4x", "4.1x"),
            ("w_loss", "5s", "0.9s", "21"),
            ("ewma_shift", "3", "0", "5"),
            ("record_timeout", "120s", "59", "601"),
        ] {
            let mut c = Config::paper();
            assert_eq!(Config::key(key).and_then(|k| k.value(&c)).as_deref(), Some(default), "{key}");
            for wrong in [below, above, "", "x", "1e9", "NaN", "99999999999999999999"] {
                let e = c.set(key, wrong).unwrap_err();
                assert!(e.to_string().contains(key) && e.to_string().contains(" to "), "{e}");
            }
            assert_eq!(c, Config::paper(), "{key}: a refused value changed something");
        }
    }

    #[test]
    fn every_key_reads_what_it_prints() {
        for key in Config::keys() {
            let home = if key.section == Some("mode=paper") { Config::paper() } else { Config::default() };
            let mut copy = home;
            copy.set(key.name, &key.value(&home).unwrap()).unwrap();
            assert_eq!(copy, home, "{}", key.name);
            assert!(!key.range().is_empty() && !key.doc.is_empty());
        }
    }

    #[test]
    fn a_key_of_the_other_mode_is_refused_wherever_the_mode_stands() {
        for (text, key, problem) in [
            (
                "mode=paper,window_clamp=off",
                "window_clamp",
                "no meaning in mode=paper; it belongs to mode=default",
            ),
            (
                "window_clamp=off,paper",
                "window_clamp",
                "no meaning in mode=paper; it belongs to mode=default",
            ),
            ("p_admit=0.05", "p_admit", "no meaning in mode=default; it belongs to mode=paper"),
            ("swallow=off", "swallow", "called suppress_duplicates"),
            ("door=hold", "door", "called waiting_syn"),
            ("order=short", "order", "this key is gone: old flows are served in turn"),
        ] {
            let e = Config::read(text).unwrap_err();
            assert!(e.key == key && e.to_string().contains(problem), "{e}");
        }
        let config = Config::read("p_admit=0.05,flows=99,mode=paper").unwrap();
        assert_eq!(config.differences(), "mode=paper,flows=99,p_admit=0.05");
        // Named twice, the last counts, and the settings of the first are gone.
        assert_eq!(Config::read("paper,mode=default").unwrap(), Config::default());
    }

    #[test]
    fn combinations_are_checked() {
        let broken = |settings: &str| Config::read(settings).unwrap_err().key;
        assert_eq!(broken("paper,p_admit=0.1"), "p_admit");
        assert_eq!(broken("window_clamp_min=9,window_clamp_max=3"), "window_clamp_min");
        assert!(Config::default().check().is_ok());
    }

    #[test]
    fn sizes_by_hand() {
        // 600 kbit/s * 200 ms = 15 000 B: ten packets of 1500 B, a quarter of them 2, three quarters 7.
        let link = ShaperConfig::new(Rate::from_kbps(600));
        let mut c = Config::paper();
        assert_eq!(
            c.as_paper().unwrap().sizes(&link),
            Dimensions { buffer: 10, newflow_cap: 2, recovery_cap: 7 }
        );
        // The paper's packets: 500 B, so 30 of them; four times that.
        c.set("packet", "500").unwrap();
        c.set("buffer", "4x").unwrap();
        assert_eq!(c.as_paper().unwrap().sizes(&link).buffer, 120);
        c.set("buffer", "50").unwrap();
        assert_eq!(c.as_paper().unwrap().sizes(&link).buffer, 50);
        assert_eq!(PaperConfig::default().sizes(&ShaperConfig::new(Rate::from_bps(1))).buffer, 4);
    }

    #[test]
    fn differences_read_back() {
        let mut c = Config::paper();
        c.set("p_admit", "0.085").unwrap();
        c.set("rtt", "50ms").unwrap();
        assert_eq!(c.differences(), "mode=paper,p_admit=0.085,rtt=50ms");
    }
}
