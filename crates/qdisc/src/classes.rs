//! Class-based isolation of short and long flows: two classes with their own capacity and their own buffer.
//!
//! S. Yilmaz, I. Matta, "Class-based isolation of short-lived and long-lived TCP flows" (Boston University, about
//! 2001), after the notes on it: an edge that says which class a flow is of ([`Edge`]), and at the bottleneck two
//! queues, as two pipes (CBQ without borrowing) or by deficit round robin (Shreedhar and Varghese 1995). Shares are of
//! the link with its framing.
//!
//! Where we differ:
//! - Queues hold flows, not packets: a flow changes class with all it has waiting, so it is never overtaken by itself.
//!   A flow that is due in the long class, and has more waiting than there is room for there, has what comes of it
//!   dropped until it fits: there it would have been lost too.
//! - A class that waited while the other's packet was sent makes up for that, so two classes that always have something
//!   to send get exactly their shares. The notes' `max with now` alone would lose it each time.
//! - Threshold and split can set themselves ([`adapt`]).
//! - The size split needs the size of a flow at its start, which no box is told: hosts that know it mark their packets
//!   (`edge=dscp`).

mod adapt;
mod config;
mod records;
mod reds;
mod scheduler;
mod store;
#[cfg(test)]
mod tests;

use core::any::Any;

use narrows_units::{Bytes, Dscp, Instant};
use narrows_wire::{Flags, Header};

pub use config::{ClassQueue, ClassifiedBy, Config, Split, Threshold};

use self::adapt::{Divider, Lengths};
use self::records::{Last, Millis, Records};
use self::reds::Reds;
use self::scheduler::Scheduler;
use self::store::ClassQueues;
use crate::early::Call;
use crate::{
    Backlog, ClassReport, Counters, Dice, Discipline, Manage, Packet, Ppm, Qdisc, Reason, Report,
    ShaperConfig, Verdicts,
};

const SHORT: u8 = 0;
const LONG: u8 = 1;
const NAMES: [&str; 2] = ["short", "long"];

/// Two classes before one link.
#[derive(Debug)]
pub struct Classes<P> {
    config: Config,
    link: ShaperConfig,
    records: Records,
    store: ClassQueues<P>,
    scheduler: Scheduler,
    rooms: [usize; 2],
    room: usize,
    /// The threshold in packets at present.
    packets: u32,
    share: Ppm,
    reds: Option<Reds>,
    lengths: Lengths,
    divider: Divider,
    codepoints: [Dscp; 2],
    /// The settings' times in milliseconds.
    timeout: u32,
    age: u32,
    counters: [Counters; 2],
    evicted: u64,
}

impl<P: Packet> Classes<P> {
    /// An empty queue for `link`; `seed` is for hashing and for the dice of `edge=random`.
    #[must_use]
    pub fn new(config: Config, link: ShaperConfig, seed: u64) -> Self {
        let mut new = Self {
            records: Records::new(config.table(&link), seed),
            store: ClassQueues::new(),
            scheduler: Scheduler::new(config.borrow, link, config.share),
            rooms: [0; 2],
            room: 0,
            packets: config.packets,
            share: config.share,
            reds: None,
            lengths: Lengths::new(),
            divider: Divider::new(config.rtt, link.rate, config.share, config.borrow),
            codepoints: config.codepoints(),
            timeout: 0,
            age: 0,
            counters: [Counters::default(), Counters::default()],
            evicted: 0,
            config,
            link,
        };
        new.settle();
        if config.queue == ClassQueue::Red {
            new.reds = Some(Reds::new(&config, &link, new.share, new.rooms, Dice::new(seed)));
        }
        new
    }

    /// Derives times, codepoints and room from the settings and the share.
    fn settle(&mut self) {
        let ms = |t: narrows_units::Duration| u32::try_from(t.as_millis()).unwrap_or(u32::MAX);
        (self.timeout, self.age) = (ms(self.config.record_timeout), ms(self.config.seconds));
        self.codepoints = self.config.codepoints();
        self.room = self.config.room(&self.link);
        self.set_share(self.share);
    }

    /// Keeps the threshold and the split that were learned by measurement, if they are still to be measured.
    fn keep_learned(&mut self, config: &Config, link: &ShaperConfig) {
        // Another edge makes other classes.
        let same = config.edge == self.config.edge;
        let [was, is] =
            [&self.config, config].map(|c| (c.threshold == Threshold::Auto, c.split == Split::Auto));
        if !(same && was.0 && is.0) {
            self.lengths = Lengths::new();
        }
        self.packets = self.lengths.threshold().unwrap_or(config.packets);
        let mut divider = Divider::new(config.rtt, link.rate, config.share, config.borrow);
        self.share = config.share;
        if same && was.1 && is.1 {
            divider.follow(&self.divider);
            self.share = divider.share();
        }
        self.divider = divider;
    }

    fn set_share(&mut self, share: Ppm) {
        self.share = share;
        self.rooms = self.config.rooms(&self.link, share);
        self.scheduler.set_share(share);
        if let Some(reds) = &mut self.reds {
            reds.follow(&self.config, &self.link, share, self.rooms);
        }
    }

    /// The class a flow that nobody has heard of begins in.
    fn first_class(&self, header: &Header, hash: u64) -> u8 {
        match self.config.edge {
            ClassifiedBy::Lifetime => SHORT,
            // The index takes the low bits of the hash.
            ClassifiedBy::Random => (hash >> 63) as u8,
            ClassifiedBy::Dscp => self.class_of(header.dscp),
        }
    }

    fn class_of(&self, dscp: Dscp) -> u8 {
        if dscp == self.codepoints[usize::from(SHORT)] { SHORT } else { LONG }
    }

    /// Finds or makes the record of a packet's flow.
    fn record(&mut self, header: &Header, now: Millis) -> u32 {
        let hash = self.records.hash(&header.key);
        let class = self.first_class(header, hash);
        let Some(at) = self.records.find(&header.key, hash) else {
            let (at, lost) = self.records.make(header.key, hash, class, now, self.timeout);
            self.evicted += u64::from(lost);
            return at;
        };
        let syn = header.tcp.is_some_and(|t| t.flags.has(Flags::SYN));
        let record = &mut self.records.all[at as usize];
        // Waiting packets are of the old flow: until they have left, so is this one.
        if !record.waits() && (record.closed() || syn || now.since(record.seen) > self.timeout) {
            record.renew(class, now);
        }
        at
    }

    /// Records a packet of a flow and returns the class that the flow is due in.
    fn classify(&mut self, at: u32, header: &Header, now: Instant, ms: Millis) -> u8 {
        let record = &mut self.records.all[at as usize];
        let before = core::mem::replace(&mut record.seen, ms);
        if header.tcp.is_some_and(|t| t.flags.has(Flags::FIN) || t.flags.has(Flags::RST)) {
            record.last = Last::Closed;
        }
        // Acknowledgments and handshakes make no flow long.
        let counts = header.tcp.is_none_or(|t| t.payload > 0);
        let lost = counts && record.last == Last::Lost;
        if lost {
            record.last = Last::Sent;
        }
        if counts {
            record.count = record.count.saturating_add(1);
            if self.config.threshold == Threshold::Auto
                && let Some(packets) = self.lengths.note(record.count)
            {
                self.packets = packets;
            }
        }
        let count = record.count;
        let class = match self.config.edge {
            ClassifiedBy::Lifetime if record.class == SHORT && counts => {
                u8::from(match self.config.threshold {
                    Threshold::Seconds => ms.since(record.begun) > self.age,
                    Threshold::Packets | Threshold::Auto => record.count > self.packets,
                })
            }
            ClassifiedBy::Lifetime | ClassifiedBy::Random => record.class,
            ClassifiedBy::Dscp => self.class_of(header.dscp),
        };
        if self.config.split == Split::Auto {
            let pause = (count > 1).then(|| ms.since(before));
            self.adapt(class, pause, counts, lost, now);
        }
        class
    }

    /// Lets the split follow what is seen.
    fn adapt(&mut self, class: u8, pause: Option<u32>, counts: bool, lost: bool, now: Instant) {
        if self.divider.pass(now) {
            self.set_share(self.divider.share());
        }
        if counts {
            self.divider.heard(usize::from(class), pause, lost);
        }
    }

    /// Whether a packet of the flow at `at` finds room in `class`, into which that flow then moves if it is not there.
    fn admit(&mut self, at: u32, class: u8) -> bool {
        let record = &mut self.records.all[at as usize];
        let to = usize::from(class);
        let moving = record.class != class && record.waits();
        let there = self.store.backlog(to).packets + if moving { self.store.waiting(record) } else { 0 };
        let fits = there < self.rooms[to] && self.backlog().packets < self.room;
        let record = &mut self.records.all[at as usize];
        if record.class != class && (fits || !moving) {
            self.store.move_to(record, class);
        }
        fits
    }

    /// Decision of RED on an arrival in `class`, by the length of the queue of `class`.
    fn decide(&mut self, now: Instant, class: usize) -> Call {
        let queue = self.store.backlog(class).packets;
        self.reds.as_mut().map_or(Call::Pass, |reds| reds.decide(now, class, queue))
    }

    /// Whether a packet for which there is room is lost by that. It may be marked instead.
    fn lost_early(&mut self, call: Call, class: usize, packet: &mut P, verdicts: &mut Verdicts<P>) -> bool {
        // RFC 3168, section 7: where the average is above every threshold a mark is not enough.
        match call {
            Call::Pass => false,
            Call::Early => !self.counters[class].mark_packet(packet, Reason::Early, verdicts),
            Call::Above => true,
        }
    }

    /// The two classes' first packets.
    fn first(&self) -> [Option<Bytes>; 2] {
        [self.store.first_len(0), self.store.first_len(1)]
    }

    /// Whether `class` is the short class and a threshold in packets ends a flow's stay there.
    fn has_threshold(&self, class: usize) -> bool {
        class == 0
            && self.config.edge == ClassifiedBy::Lifetime
            && self.config.threshold != Threshold::Seconds
    }

    fn total(&self) -> Counters {
        let [mut sum, long] = self.counters.clone();
        sum.arrived += long.arrived;
        sum.arrived_bytes += long.arrived_bytes;
        sum.sent += long.sent;
        sum.sent_bytes += long.sent_bytes;
        sum.marked += long.marked;
        for (a, b) in sum.dropped.iter_mut().zip(long.dropped) {
            *a += b;
        }
        sum.evicted = self.evicted;
        sum
    }
}

impl<P: Packet> Qdisc<P> for Classes<P> {
    fn enqueue(&mut self, now: Instant, mut packet: P, verdicts: &mut Verdicts<P>) {
        let ms = Millis::of(now);
        let at = self.record(packet.header(), ms);
        let class = self.classify(at, packet.header(), now, ms);
        let to = usize::from(class);
        self.counters[to].arrive(packet.len());
        let from = usize::from(self.records.all[at as usize].class);
        let (empty, waited) = (self.store.is_empty(to), !self.store.is_empty(from));
        let call = self.decide(now, to);
        // A flow changes class also where the packet that makes it long is lost.
        let fits = self.admit(at, class);
        if empty && !self.store.is_empty(to) {
            self.scheduler.wakes(to, now);
        }
        if let Some(reds) = &mut self.reds
            && waited
            && self.store.is_empty(from)
        {
            // Floyd and Jacobson, figure 2: q_time.
            reds.empty(from, now);
        }
        // A packet that finds no room is not marked first.
        let early = fits && self.lost_early(call, to, &mut packet, verdicts);
        if !fits || early {
            let reason = if early { Reason::Early } else { Reason::OverLimit };
            self.counters[to].drop_packet(packet, reason, verdicts);
            self.divider.lose(to);
            self.records.all[at as usize].lose();
            return;
        }
        self.store.push(&mut self.records.all, at, packet);
        if empty {
            self.scheduler.wakes(to, now);
        }
    }

    fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        let first = self.first();
        let class = self.scheduler.choose(now, first)?;
        let mut packet = self.store.pop(&mut self.records.all, class)?;
        self.counters[class].send(packet.len());
        if let Some(reds) = &mut self.reds
            && self.store.is_empty(class)
        {
            reds.empty(class, now + self.link.rate.time_to_send(self.link.wire_len(packet.len())));
        }
        if self.config.split == Split::Auto {
            self.divider.send(class, self.link.wire_len(packet.len()));
        }
        if self.config.mark && packet.header().dscp != self.codepoints[class] {
            // A packet that cannot be changed goes as it is: the next box puts it into the long class.
            let _ = packet.set_dscp(self.codepoints[class]);
        }
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        self.scheduler.ready(now, [!self.store.is_empty(0), !self.store.is_empty(1)])
    }

    fn backlog(&self) -> Backlog {
        let [a, b] = [self.store.backlog(0), self.store.backlog(1)];
        Backlog { packets: a.packets + b.packets, bytes: a.bytes + b.bytes }
    }
}

impl<P: Packet> Manage for Classes<P> {
    /// The number of records stays, and with it what the buffers may grow to; drop-tail stays drop-tail.
    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(config) = settings.downcast_ref::<Config>() else { return false };
        if config.table(link) > self.config.table(&self.link) || config.queue != self.config.queue {
            return false;
        }
        self.keep_learned(config, link);
        self.config = Config { flows: self.config.flows, ..*config };
        self.link = *link;
        let mut scheduler = Scheduler::new(config.borrow, *link, self.share);
        scheduler.follow(now, &self.scheduler);
        self.scheduler = scheduler;
        self.settle();
        true
    }

    fn report(&mut self, now: Instant) -> Report {
        let ms = Millis::of(now);
        let flows = ClassQueues::<P>::flows(&self.records.all);
        let known = self.records.known(ms, self.timeout);
        let shares = [self.share, Ppm(Ppm::ONE.0 - self.share.0)];
        let classes = (0..2).map(|c| ClassReport {
            name: NAMES[c].into(),
            backlog: self.store.backlog(c),
            flows: flows[c],
            counters: Some(self.counters[c].clone()),
            share: Some(shares[c]),
            up_to_packets: self.has_threshold(c).then_some(self.packets),
        });
        Report {
            name: "classes".into(),
            counters: self.total(),
            backlog: self.backlog(),
            classes: classes.collect(),
            states: NAMES.map(Into::into).into_iter().zip(known).collect(),
            flows: known[0] + known[1],
            bytes_per_flow: size_of::<records::Record>() + 2 * size_of::<u32>(),
            ..Report::default()
        }
    }
}

impl<P: Packet> Discipline<P> for Classes<P> {}
