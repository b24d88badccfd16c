//! RIO: RED with two sets of thresholds, so that packets marked "out" are dropped before packets marked "in"; and
//! RIO-PS, which marks the beginnings of flows "in".
//!
//! Idea: Clark and Fang, Explicit Allocation of Best-Effort Packet Delivery Service, IEEE/ACM Transactions on
//! Networking 6(4), 1998, section III: the fate of an "in" packet depends on the average of "in" packets waiting, that
//! of an "out" packet on the average of all. RIO-PS: Guo and Matta, The War Between Mice and Elephants, ICNP 2001: the
//! edge marks the first packets of each flow "in" and all later ones "out", so that short flows and slow starts are
//! spared.
//!
//! Where we differ:
//! - "In" is a DSCP, by default AF11, whose counterpart "out" is AF12 (RFC 2597).
//! - Edge and core may stand in one box: `edge=ps` counts and drops, and sets the DSCPs only with `mark=on`, for
//!   another box whose edge is `dscp`.
//! - The number of packets after which a flow is long is fixed. The paper's edge moves it so that short and long flows
//!   keep a given ratio. Pure acknowledgments do not count, and are "in" as long as their flow is.
//! - Average, chances, idle time, marks and a full buffer are as in [`Red`](crate::Red).

use core::any::Any;
use std::collections::VecDeque;

use narrows_units::{Bytes, Dscp, Duration, Instant};
use narrows_wire::Flags;

use crate::early::{Average, Call, Curve, Thresholds};
use crate::flow_sizes::FlowSizes;
use crate::keys::{choices, keys};
use crate::{
    Backlog, BoxedDiscipline, Buffer, ClassReport, Counters, Dice, Discipline, DisciplineSettings, Limits,
    Manage, Packet, Ppm, Qdisc, Reason, Report, SettingError, Settings, ShaperConfig, Verdicts,
};

/// Judge of which packets are "in".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaggedBy {
    /// Another box: the codepoint that packets come with (RIO).
    #[default]
    Dscp,
    /// This box: the first packets of each flow are "in" (RIO-PS).
    Ps,
}
choices!(TaggedBy: "dscp" => Dscp, "ps" => Ps);

/// Settings of RIO. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RioConfig {
    /// Judge of which packets are "in".
    pub edge: TaggedBy,
    /// Size of the buffer.
    pub buffer: Buffer,
    /// Round-trip time for which the buffer is sized.
    pub rtt: Duration,
    /// Size of a typical packet.
    pub packet: Bytes,
    /// Lower threshold of "in" packets; 0: half the buffer.
    pub in_min: u32,
    /// Upper threshold of "in" packets; 0: seven eighths of the buffer.
    pub in_max: u32,
    /// Chance of a drop of an "in" packet just below the upper threshold of "in" packets.
    pub in_p: Ppm,
    /// Lower threshold of "out" packets; 0: an eighth of the buffer.
    pub out_min: u32,
    /// Upper threshold of "out" packets; 0: three eighths of the buffer.
    pub out_max: u32,
    /// Chance of a drop of an "out" packet just below the upper threshold of "out" packets.
    pub out_p: Ppm,
    /// Weight of an arrival in the averages.
    pub w_q: Ppm,
    /// Whether the chance above the upper threshold grows to 1 at twice that instead of at once.
    pub gentle: bool,
    /// Whether ECN-capable packets are marked instead of dropped, below every threshold.
    pub ecn: bool,
    /// The codepoint of "in" packets.
    pub in_dscp: u32,
    /// The codepoint of "out" packets.
    pub out_dscp: u32,
    /// Packets of a flow that are "in".
    pub short: u32,
    /// Silence after which a flow begins anew.
    pub idle: Duration,
    /// Flows that can be remembered at once.
    pub flows: u32,
    /// Whether packets leave with the codepoint of the side, "in" or "out", that they were taken for.
    pub mark: bool,
}

impl Default for RioConfig {
    fn default() -> Self {
        Self {
            edge: TaggedBy::Dscp,
            buffer: Buffer::Rtts(1000),
            rtt: Duration::from_millis(200),
            packet: Bytes(1500),
            in_min: 0,
            in_max: 0,
            in_p: Ppm(20_000),
            out_min: 0,
            out_max: 0,
            out_p: Ppm(500_000),
            w_q: Ppm(2_000),
            gentle: false,
            ecn: true,
            in_dscp: 10,
            out_dscp: 12,
            short: 20,
            idle: Duration::from_secs(60),
            flows: 65_536,
            mark: false,
        }
    }
}

keys! {
    RioConfig;
    edge: Choice(),
        "packets that are \"in\": those with a codepoint (`dscp`), or the first of each flow (`ps`: RIO-PS)";
    buffer: Buffer(), "buffer, in multiples of one RTT of the link (`1x`) or in packets";
    rtt: Time(Duration::from_millis(1), Duration::from_secs(10)), "round-trip time the buffer is sized for";
    packet: Size(64, 65_535), "size of a typical packet, in bytes: for the buffer and idle time";
    in_min: Number(0, 1_000_000), "average of \"in\" packets below which none is dropped; 0: half the buffer";
    in_max: Number(0, 1_000_000),
        "average of \"in\" packets from which all are dropped (see `gentle`); 0: seven eighths of the buffer";
    in_p: Part(1, 1_000_000), "chance of a drop of an \"in\" packet just below `in_max`";
    out_min: Number(0, 1_000_000), "average queue below which no \"out\" packet is dropped; 0: an eighth of the buffer";
    out_max: Number(0, 1_000_000),
        "average queue from which all \"out\" packets are dropped (see `gentle`); 0: three eighths of the buffer";
    out_p: Part(1, 1_000_000), "chance of a drop of an \"out\" packet just below `out_max`";
    w_q: Part(1, 1_000_000), "weight of an arrival in the averages";
    gentle: Choice(), "let the chance of a drop grow on above the upper threshold, to 1 at twice that";
    ecn: Choice(), "mark ECN-capable packets instead of dropping them, where the average is not above every threshold";
    in_dscp: Number(0, 63), "codepoint of \"in\" packets";
    out_dscp: Number(0, 63), "codepoint of \"out\" packets (`mark=on`)";
    short: Number(1, 1_000_000), "packets with data of a flow that are \"in\" (`edge=ps`)";
    idle: Time(Duration::from_millis(100), Duration::from_secs(3600)),
        "silence after which a flow begins anew (`edge=ps`)";
    flows: Number(16, 1_048_576), "most flows that are remembered at once (`edge=ps`)";
    mark: Choice(), "write the codepoint of \"in\" or \"out\" on each packet (`edge=ps`)";
}

impl Settings for RioConfig {
    const NAME: &'static str = "rio";
    const BARE: &'static str = "edge";

    fn check(&self) -> Result<(), SettingError> {
        for (key, min, max) in [("in_max", self.in_min, self.in_max), ("out_max", self.out_min, self.out_max)]
        {
            if let Buffer::Packets(n) = self.buffer
                && min >= n
            {
                return Err(SettingError::new(
                    key.replace("max", "min"),
                    min.to_string(),
                    format!("less than buffer = {n}, or 0 for a share of it"),
                ));
            }
            if max > 0 && max <= min {
                return Err(SettingError::new(
                    key,
                    max.to_string(),
                    format!("more than the lower threshold, {min}, or 0 for a share of the buffer"),
                ));
            }
        }
        Ok(())
    }
}

impl DisciplineSettings for RioConfig {
    fn limits(&self, link: &ShaperConfig) -> Limits {
        let flows = if self.edge == TaggedBy::Ps { (self.flows as usize).next_multiple_of(4) } else { 0 };
        Limits { packets: self.limit(link), flows }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Rio::new(*self, *link, seed))
    }
}

impl RioConfig {
    fn limit(&self, link: &ShaperConfig) -> usize {
        self.buffer.packets(link, self.rtt, self.packet)
    }

    /// The curves of "in" and "out".
    fn thresholds(&self, link: &ShaperConfig) -> [Thresholds; 2] {
        let buffer = self.limit(link) as u64;
        let or = |set: u32, eighths: u64| if set > 0 { u64::from(set) } else { buffer * eighths / 8 };
        let curve = |min: u64, max: u64, max_p| Thresholds {
            min,
            max: max.max(min + 1),
            max_p,
            gentle: self.gentle,
            wait: false,
        };
        [
            curve(or(self.in_min, 4), or(self.in_max, 7), self.in_p),
            curve(or(self.out_min, 1), or(self.out_max, 3), self.out_p),
        ]
    }
}

/// Side that a packet was counted to when the packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    In,
    Out,
}

/// State of one side of the queue.
#[derive(Clone, Debug)]
struct Half {
    /// Average of "in" packets, or of all.
    average: Average,
    curve: Curve,
    backlog: Backlog,
}

/// The discipline.
#[derive(Debug)]
pub struct Rio<P> {
    config: RioConfig,
    link: ShaperConfig,
    seed: u64,
    limit: usize,
    /// The sides "in" and "out".
    halves: [Half; 2],
    sizes: FlowSizes,
    dice: Dice,
    queue: VecDeque<(Side, P)>,
    counters: Counters,
}

impl<P: Packet> Rio<P> {
    /// An empty queue for `link`; `seed` is for the dice and the hash of flows.
    #[must_use]
    pub fn new(config: RioConfig, link: ShaperConfig, seed: u64) -> Self {
        let slot = link.rate.time_to_send(link.wire_len(config.packet));
        let half = |at| Half {
            average: Average::new(config.w_q, slot),
            curve: Curve::new(at),
            backlog: Backlog::default(),
        };
        let mut dice = Dice::new(seed);
        let flows = if config.edge == TaggedBy::Ps { config.flows } else { 0 };
        Self {
            config,
            link,
            seed,
            limit: config.limit(&link),
            halves: config.thresholds(&link).map(half),
            sizes: FlowSizes::new(flows, config.idle, dice.roll()),
            dice,
            queue: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    fn side(&mut self, now: Instant, packet: &P) -> Side {
        let header = packet.header();
        let within = match self.config.edge {
            TaggedBy::Dscp => u32::from(header.dscp.get()) == self.config.in_dscp,
            TaggedBy::Ps => {
                let flags = header.tcp.map_or(Flags::default(), |t| t.flags);
                // The ports of a flow that ended, seen or not, are those of another.
                if flags.has(Flags::SYN) {
                    self.sizes.forget(&header.key);
                }
                let counts = header.tcp.is_none_or(|t| t.payload > 0);
                let count = self.sizes.count(now, &header.key, counts);
                if flags.has(Flags::FIN) || flags.has(Flags::RST) {
                    self.sizes.forget(&header.key);
                }
                count <= self.config.short
            }
        };
        if within { Side::In } else { Side::Out }
    }

    /// Reason for which an arrival is lost; `None` for an arrival that is queued, marked or not.
    fn decide(
        &mut self,
        now: Instant,
        side: Side,
        packet: &mut P,
        verdicts: &mut Verdicts<P>,
    ) -> Option<Reason> {
        let all = self.queue.len();
        // The average of "in" packets moves when one comes, that of all whenever anything comes; idle time ages both.
        let waiting = self.halves[0].backlog.packets as u64;
        match side {
            Side::In => self.halves[0].average.arrival(now, waiting, all == 0),
            Side::Out if all == 0 => _ = self.halves[0].average.age(now),
            Side::Out => {}
        }
        self.halves[1].average.arrival(now, all as u64, all == 0);
        let half = &mut self.halves[side as usize];
        let call = half.curve.decide(&half.average, None, &mut self.dice);
        if all >= self.limit {
            return Some(Reason::OverLimit);
        }
        match call {
            Call::Pass => None,
            Call::Early if self.config.ecn && self.counters.mark_packet(packet, Reason::Early, verdicts) => {
                None
            }
            Call::Early | Call::Above => Some(Reason::Early),
        }
    }

    fn backlog_now(&self) -> Backlog {
        let [a, b] = &self.halves;
        Backlog { packets: a.backlog.packets + b.backlog.packets, bytes: a.backlog.bytes + b.backlog.bytes }
    }
}

impl<P: Packet> Qdisc<P> for Rio<P> {
    fn enqueue(&mut self, now: Instant, mut packet: P, verdicts: &mut Verdicts<P>) {
        let len = packet.len();
        self.counters.arrive(len);
        let side = self.side(now, &packet);
        if self.config.mark && self.config.edge == TaggedBy::Ps {
            let code = [self.config.in_dscp, self.config.out_dscp][side as usize];
            if let Some(dscp) = u8::try_from(code).ok().and_then(Dscp::new) {
                packet.set_dscp(dscp);
            }
        }
        if let Some(reason) = self.decide(now, side, &mut packet, verdicts) {
            self.counters.drop_packet(packet, reason, verdicts);
            return;
        }
        self.halves[side as usize].backlog.add(len);
        self.queue.push_back((side, packet));
    }

    fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        let (side, packet) = self.queue.pop_front()?;
        self.halves[side as usize].backlog.sub(packet.len());
        self.counters.send(packet.len());
        if self.queue.is_empty() {
            let free_at = now + self.link.rate.time_to_send(self.link.wire_len(packet.len()));
            self.halves.iter_mut().for_each(|half| half.average.sent_at(free_at));
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog_now()
    }
}

impl<P: Packet> Manage for Rio<P> {
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<RioConfig>() else { return false };
        let mut fresh = Self::new(*config, *link, self.seed);
        // What waits stays, as what it was taken for.
        for (new, old) in fresh.halves.iter_mut().zip(&self.halves) {
            new.average.carry(&old.average);
            new.backlog = old.backlog;
        }
        let same = |c: &RioConfig| (c.edge, c.flows);
        if same(config) == same(&self.config) {
            core::mem::swap(&mut fresh.sizes, &mut self.sizes);
            fresh.sizes.set_idle(config.idle);
        }
        fresh.queue = core::mem::take(&mut self.queue);
        fresh.counters = core::mem::take(&mut self.counters);
        *self = fresh;
        true
    }

    fn report(&mut self, _now: Instant) -> Report {
        let class = |name: &'static str, half: &Half| ClassReport {
            name: name.into(),
            backlog: half.backlog,
            ..ClassReport::default()
        };
        let mut counters = self.counters.clone();
        counters.evicted = self.sizes.evicted();
        Report {
            name: "rio".into(),
            counters,
            backlog: self.backlog_now(),
            classes: vec![class("in", &self.halves[0]), class("out", &self.halves[1])],
            flows: self.sizes.known(),
            bytes_per_flow: if self.config.edge == TaggedBy::Ps { FlowSizes::ENTRY_BYTES } else { 0 },
            ..Report::default()
        }
    }
}

impl<P: Packet> Discipline<P> for Rio<P> {}

#[cfg(test)]
mod tests;
