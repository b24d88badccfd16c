//! Settings of class isolation, and the one table of their keys.

use narrows_units::{Bytes, Dscp, Duration};

use crate::keys::{choices, keys};
use crate::{
    BoxedDiscipline, Buffer, DisciplineSettings, Limits, Packet, Ppm, SettingError, Settings, ShaperConfig,
};

use super::Classes;

/// Judge of a flow's class (notes, section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassifiedBy {
    /// Every flow begins as a short one and is a long one once it has lived past the threshold.
    #[default]
    Lifetime,
    /// A class by chance, with equal chances, for good: load balancing.
    Random,
    /// An edge before this box, by the codepoint that the edge has written.
    Dscp,
}

/// Bound between short flows and long ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threshold {
    /// Bound in packets of data.
    #[default]
    Packets,
    /// Bound in time since the flow's first packet.
    Seconds,
    /// Bound in packets that nine flows of ten do not reach.
    Auto,
}

/// Division of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Division as `share` says.
    #[default]
    Fixed,
    /// Division by the flows that are seen and the capacity that they use.
    Auto,
}

/// Treatment of arrivals by a class's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassQueue {
    /// Drop-tail: a packet is dropped only when the class's buffer is full.
    #[default]
    Tail,
    /// RED (Floyd and Jacobson 1993), gentle, with thresholds at a quarter and three quarters of the class's buffer.
    Red,
}

choices!(ClassQueue: "tail" => Tail, "red" => Red);
choices!(ClassifiedBy: "lifetime" => Lifetime, "random" => Random, "dscp" => Dscp);
choices!(Threshold: "packets" => Packets, "seconds" => Seconds, "auto" => Auto);
choices!(Split: "fixed" => Fixed, "auto" => Auto);

/// All settings. Fields are named as their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Judge of a flow's class.
    pub edge: ClassifiedBy,
    /// Bound between short flows and long ones, with `edge=lifetime`.
    pub threshold: Threshold,
    /// The threshold in packets of data, retransmissions included.
    pub packets: u32,
    /// The threshold in time since the flow's first packet.
    pub seconds: Duration,
    /// Division of the link.
    pub split: Split,
    /// The short class's share of the link; where `split=auto` begins.
    pub share: Ppm,
    /// Whether a class may use what the other leaves.
    pub borrow: bool,
    /// Treatment of arrivals by a class's queue.
    pub queue: ClassQueue,
    /// RED: chance of a drop just below the upper threshold.
    pub max_p: Ppm,
    /// RED: weight of an arrival in the average.
    pub w_q: Ppm,
    /// Buffer of both classes together.
    pub buffer: Buffer,
    /// The short class's buffer in packets; 0 for its share of `buffer`.
    pub buffer_short: u32,
    /// The long class's.
    pub buffer_long: u32,
    /// Whether the codepoint of a packet's class is written on the packet.
    pub mark: bool,
    /// The codepoint of the short class.
    pub dscp_short: u32,
    /// The codepoint of the long class.
    pub dscp_long: u32,
    /// Round-trip time for which the buffer is sized, and in which a flow that sends counts as active.
    pub rtt: Duration,
    /// Packet size for which the buffer is sized.
    pub packet: Bytes,
    /// Flows that can be remembered at once.
    pub flows: u32,
    /// Silence after which a flow is forgotten.
    pub record_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            edge: ClassifiedBy::Lifetime,
            threshold: Threshold::Packets,
            // N_th of the paper's web test.
            packets: 32,
            seconds: Duration::from_secs(5),
            split: Split::Fixed,
            share: Ppm(500_000),
            borrow: false,
            queue: ClassQueue::Tail,
            max_p: Ppm(100_000),
            w_q: Ppm(2_000),
            buffer: Buffer::Rtts(1000),
            buffer_short: 0,
            buffer_long: 0,
            mark: false,
            // RFC 4594, sections 4.7 and 4.8: AF21 for low-latency data, AF11 for high-throughput data.
            dscp_short: 18,
            dscp_long: 10,
            rtt: Duration::from_millis(200),
            packet: Bytes(1500),
            flows: 65_536,
            record_timeout: Duration::from_secs(60),
        }
    }
}

const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

keys! {
    Config;
    edge: Choice(), "measure of a flow's class: how long it has lived, chance, or the codepoint it bears";
    threshold: Choice(),
        "bound above which a flow is a long one: `packets`, `seconds`, or the packets that nine flows of ten stay \
         below";
    packets: Number(1, 1_000_000),
        "packets of data from which a flow is a long one; with `threshold=auto`, the first bound";
    seconds: Time(Duration::from_millis(100), secs(3600)), "age from which a flow is a long one";
    split: Choice(), "division of the link: as `share` says, or by the flows seen and what they use";
    share: Part(50_000, 950_000),
        "share of the link and of the buffer for the short class; with `split=auto`, the first share";
    borrow: Choice(), "let a class use what the other leaves (deficit round robin); off: two pipes";
    queue: Choice(),
        "queue of each class: drop-tail, or RED (gentle, from a quarter to three quarters of its buffer)";
    max_p: Part(1, 1_000_000), "chance of a drop just below the upper threshold (`queue=red`)";
    w_q: Part(1, 1_000_000), "weight of an arrival in RED's average of the queue (`queue=red`)";
    buffer: Buffer(),
        "size of both classes' buffers together, in multiples of one RTT of the link (`1x`) or in packets";
    buffer_short: Number(0, 500_000), "size of the short class's buffer in packets; 0: its share of `buffer`";
    buffer_long: Number(0, 500_000), "size of the long class's buffer in packets; 0: its share of `buffer`";
    mark: Choice(), "write the codepoint of its class on every packet, for a box behind this one";
    dscp_short: Number(0, 63), "codepoint of the short class (18 is AF21)";
    dscp_long: Number(0, 63),
        "codepoint of the long class (10 is AF11); packets with neither codepoint belong to it too";
    rtt: Time(Duration::from_millis(1), secs(10)),
        "round-trip time the buffer is sized for, and in which active flows are counted";
    packet: Size(64, 65_535), "packet size the buffer is sized for, in bytes";
    flows: Number(16, 1_048_576), "most flows that are remembered at once; never fewer than packets can wait";
    record_timeout: Time(secs(1), secs(600)), "silence after which a flow is forgotten";
}

impl Settings for Config {
    const NAME: &'static str = "classes";
    const BARE: &'static str = "edge";

    fn check(&self) -> Result<(), SettingError> {
        let wrong = |key: &str, value: String, expected: &str| Err(SettingError::new(key, value, expected));
        if self.dscp_short == self.dscp_long {
            return wrong(
                "dscp_short",
                self.dscp_short.to_string(),
                "another codepoint than dscp_long, or the classes cannot be told apart",
            );
        }
        if self.threshold != Threshold::Packets && self.edge != ClassifiedBy::Lifetime {
            let value = if self.threshold == Threshold::Auto { "auto" } else { "seconds" };
            return wrong("threshold", value.to_owned(), "edge=lifetime: other edges have no threshold");
        }
        let own = (self.buffer_short > 0, self.buffer_long > 0);
        if own.0 != own.1 {
            let key = if own.0 { "buffer_long" } else { "buffer_short" };
            return wrong(key, "0".to_owned(), "a number of packets, as the other class has its own");
        }
        if own.0 && self.split == Split::Auto {
            let value = self.buffer_short.to_string();
            return wrong("buffer_short", value, "0 with split=auto: buffers follow the shares");
        }
        Ok(())
    }
}

impl DisciplineSettings for Config {
    fn limits(&self, link: &ShaperConfig) -> Limits {
        let packets = self.room(link);
        Limits { packets, flows: self.table(link) }
    }

    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P> {
        Box::new(Classes::new(*self, *link, seed))
    }
}

impl Config {
    /// Packets that may wait, of both classes together; at least one each.
    pub(crate) fn room(&self, link: &ShaperConfig) -> usize {
        if self.buffer_short > 0 {
            return self.buffer_short as usize + self.buffer_long as usize;
        }
        self.buffer.packets(link, self.rtt, self.packet).max(2)
    }

    /// Packets of each class that may wait when the short one has `share`.
    pub(crate) fn rooms(&self, link: &ShaperConfig, share: Ppm) -> [usize; 2] {
        if self.buffer_short > 0 {
            return [self.buffer_short as usize, self.buffer_long as usize];
        }
        let all = self.room(link);
        // To the nearest packet, so that equal shares of an odd buffer differ by one and no more.
        let short = (share.of(2 * all as u64) as usize).div_ceil(2).clamp(1, all - 1);
        [short, all - short]
    }

    /// Records kept: a flow of which a packet waits must have one, or it could be overtaken by itself.
    pub(crate) fn table(&self, link: &ShaperConfig) -> usize {
        (self.flows as usize).max(self.room(link) + 1)
    }

    /// The codepoint of each class.
    pub(crate) fn codepoints(&self) -> [Dscp; 2] {
        let of = |n: u32| u8::try_from(n).ok().and_then(Dscp::new).unwrap_or(Dscp::DEFAULT);
        [of(self.dscp_short), of(self.dscp_long)]
    }
}
