//! TAQ as published: five queues on three levels (EuroSys 2014, sections 3.3 and 4).
//!
//! Sentences are counted within their section: 4.1 s12 is the twelfth of section 4.1. [`text`] has the list of them,
//! each with its place here or the reason why it has none; `tests` has a test for each that asks for something. Where
//! the text leaves a choice, [`text`] names ours.

mod class;
mod limits;
mod predict;
mod scheduler;
mod shares;
mod store;
pub mod text;
mod victims;

use core::any::Any;

use narrows_flow::{FlowId, PacketKind, Tracker, TrackerConfig};
use narrows_lists::prefetch;
use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_wire::{FlowKey, Header, Proto};

use self::class::{Class, Facts, classify, recovery_key};
use self::predict::after_loss;
use self::scheduler::Scheduler;
use self::shares::Shares;
use self::store::{BEHIND_UNKNOWN, LOST, Node, PaperFlow, PaperQueues, Place};
use self::victims::steps;
use super::admission::{Admission, AdmissionConfig, Decisions, Load, Rule, SynDirection, proves};
use super::{Common, Config, Dimensions, LossWindow, Mode, PaperConfig, PoolId, Share, WaitingSyn};
use crate::{
    Ahead, Backlog, ClassReport, Counters, Discipline, Manage, Packet, Qdisc, Report, ReversePath,
    ShaperConfig, Verdicts,
};

/// Bucket of the unknown among possible victims: the first.
const UNKNOWN_BUCKET: u16 = 0;
/// The slot of packets that no record could be made for.
const UNKNOWN: u32 = 0;

/// TAQ's paper mode: the published rules.
#[derive(Debug)]
pub struct PaperMode<P> {
    common: Common,
    config: PaperConfig,
    link: ShaperConfig,
    sizes: Dimensions,
    tracker: Tracker,
    store: PaperQueues<P>,
    scheduler: Scheduler,
    shares: Shares,
    loss: LossWindow,
    admission: Admission<P>,
    counters: Counters,
    backlog: Backlog,
}

const fn slot(id: FlowId) -> u32 {
    id.0 + 1
}

const fn id_of(slot: u32) -> Option<FlowId> {
    match slot {
        UNKNOWN => None,
        s => Some(FlowId(s - 1)),
    }
}

impl<P: Packet> PaperMode<P> {
    /// An empty queue for `link`; `seed` is for hashing.
    #[must_use]
    pub fn new(common: Common, config: PaperConfig, link: ShaperConfig, seed: u64) -> Self {
        Self {
            sizes: config.sizes(&link),
            tracker: Tracker::new(tracker_config(&common, &config, &link), seed),
            store: PaperQueues::new(),
            scheduler: Scheduler::new(recovery_rate(&config, &link), link.mtu),
            shares: Shares::new(link.rate, common.share, config.fair_share),
            loss: LossWindow::new(common.w_loss),
            admission: Admission::new(admission_config(&common, &config, &link)),
            counters: Counters::default(),
            backlog: Backlog::default(),
            common,
            config,
            link,
        }
    }

    /// Whether new pools have to wait (4.3 s2, s11).
    fn is_overloaded(&self, now: Instant) -> bool {
        self.common.admission && self.loss.rate(now) >= self.config.p_admit
    }

    fn load(&self, now: Instant) -> Load {
        // The published rule does not ask for rounds.
        Load { overloaded: self.is_overloaded(now), round: Duration::ZERO }
    }

    /// Puts a packet that may be queued into the packet's class.
    fn admit(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        // The record comes from memory while other things are done.
        let expected = self.tracker.expect(&packet.header().key);
        self.tracker.tick(now);
        let likely = self.tracker.likely(expected);
        self.loss.arrival(now);
        let seen = self.tracker.forward_from(now, packet.header(), likely);
        let kind = seen.kind;
        self.counters.evicted += u64::from(seen.evicted_in_use);
        self.make_slot(now, seen.id.map_or(UNKNOWN, slot), seen.fresh || seen.restarted, &packet);
        self.backlog.add(packet.len());
        let class = match seen.id.filter(|&id| !self.is_behind_unknown(id)) {
            Some(id) => {
                self.tracker.queued(id);
                self.place_packet(now, id, kind, packet)
            }
            None => {
                let place = Place { class: Class::Above, bucket: UNKNOWN_BUCKET };
                self.store.push(packet, UNKNOWN, kind, place);
                Class::Above
            }
        };
        self.enforce_cap(now, class, verdicts);
        self.enforce_buffer(now, verdicts);
    }

    /// Room for what is kept beside the flow's record; forgotten if the flow is `new` there.
    fn make_slot(&mut self, now: Instant, flow: u32, new: bool, packet: &P) {
        let at = flow as usize;
        if self.store.flows.len() <= at {
            self.store.flows.resize(at + 1, PaperFlow::default());
        }
        // The record is new, so nothing of the flow waits, unless it waits among the unknown or the same ports are used
        // again.
        if new {
            let opened_here = Admission::<P>::is_connection_request(packet.header());
            let pool = if self.common.admission && flow != UNKNOWN {
                self.admission.of_flow(packet, !opened_here)
            } else {
                None
            };
            let behind_unknown = self.store.flows[UNKNOWN as usize].packets() > 0;
            let kept = &mut self.store.flows[at];
            kept.pool = pool.unwrap_or(PoolId::NOBODY);
            kept.put(LOST, false);
            kept.transmits(now);
            if behind_unknown {
                kept.put(BEHIND_UNKNOWN, true);
            }
        }
    }

    fn is_behind_unknown(&mut self, id: FlowId) -> bool {
        if !self.store.flows[slot(id) as usize].has(BEHIND_UNKNOWN) {
            return false;
        }
        let waits = self.store.flows[UNKNOWN as usize].packets() > 0;
        self.store.flows[slot(id) as usize].put(BEHIND_UNKNOWN, waits);
        waits
    }

    /// Queues a packet of a known flow and returns the packet's class.
    fn place_packet(&mut self, now: Instant, id: FlowId, kind: PacketKind, packet: P) -> Class {
        let flow = slot(id);
        self.shares.seen(now, id, &mut self.tracker);
        let due = self.shares.of(id, self.tracker.active_flows());
        let kept = &mut self.store.flows[flow as usize];
        let record = self.tracker.flow(id);
        if kind == PacketKind::Retransmission {
            kept.put(LOST, true);
            let key = recovery_key(record, kept.since_normal(now));
            self.store.push_recovery(packet, flow, key);
            return Class::Recovery;
        }
        let facts = Facts { lost: kept.has(LOST), share_bps: due.bps };
        let rate_bps = record.rate().as_bps();
        let class = classify(now, record, kind, rate_bps, facts);
        let bucket = victims::bucket(after_loss(record, kind), steps(rate_bps), due.steps);
        self.store.push(packet, flow, kind, Place { class, bucket });
        class
    }

    /// A packet that need not wait: one that asks for a connection may have to.
    fn request(
        &mut self,
        now: Instant,
        way: SynDirection,
        packet: P,
        verdicts: &mut Verdicts<P>,
    ) -> Option<P> {
        if !self.common.admission || !Admission::<P>::is_connection_request(packet.header()) {
            return Some(packet);
        }
        let load = self.load(now);
        let mut decisions = Decisions { counters: &mut self.counters, verdicts };
        self.admission.request(now, load, way, packet, &mut decisions)
    }

    /// A packet of a flow was sent: its pool is active, and no made-up address unless that was an answer to its SYN.
    fn refresh(&mut self, now: Instant, flow: u32, header: &Header) {
        let pool = self.store.flows[flow as usize].pool;
        if pool != PoolId::NOBODY && proves(header) {
            self.admission.refresh(now, pool);
        }
    }
}

impl<P: Packet> Qdisc<P> for PaperMode<P> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        let expected = self.tracker.expect(flow);
        if ahead == Ahead::Near {
            let likely = self.tracker.likely(expected);
            if let Some(kept) = self.store.flows.get(likely.index().saturating_add(1)) {
                prefetch(kept);
            }
        }
    }

    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.counters.arrive(packet.len());
        if let Some(packet) = self.request(now, SynDirection::Own, packet, verdicts) {
            self.admit(now, packet, verdicts);
        }
    }

    fn dequeue(&mut self, now: Instant, _verdicts: &mut Verdicts<P>) -> Option<P> {
        let choice = self.scheduler.choose(now, &self.store)?;
        let node = self.store.head(choice.class)?;
        let Node { packet, flow, kind, .. } = self.store.remove(node);
        let len = packet.len();
        self.backlog.sub(len);
        let emptied = self.store.head(choice.class).is_none();
        self.scheduler.sent(now, choice, len, self.link.wire_len(len), emptied);
        if let Some(id) = id_of(flow) {
            self.tracker.departed(now, id, packet.header());
            self.tracker.unqueued(id);
            self.refresh(now, flow, packet.header());
        }
        self.counters.send(len);
        if kind != PacketKind::Retransmission {
            self.counters.goodput_bytes += payload(packet.header());
            if kind.is_new_data() {
                self.store.flows[flow as usize].transmits(now);
            }
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl<P: Packet> ReversePath<P> for PaperMode<P> {
    fn reverse(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) -> Option<P> {
        let packet = self.request(now, SynDirection::Reverse, packet, verdicts)?;
        self.tracker.reverse(now, packet.header());
        Some(packet)
    }

    fn behind_others(&mut self) {
        self.tracker.behind_others();
    }

    fn release(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        loop {
            let load = self.load(now);
            let mut decisions = Decisions { counters: &mut self.counters, verdicts };
            match self.admission.release(now, load, &mut decisions)? {
                (SynDirection::Own, packet) => self.admit(now, packet, verdicts),
                (SynDirection::Reverse, packet) => {
                    self.tracker.reverse(now, packet.header());
                    return Some(packet);
                }
            }
        }
    }

    fn next_release(&self, now: Instant) -> Option<Instant> {
        if self.admission.held() == 0 {
            return None;
        }
        self.admission.next_release(now, self.load(now), self.loss.next_change(now))
    }

    fn held(&self) -> usize {
        self.admission.held()
    }

    fn release_all(&mut self, now: Instant) {
        self.admission.release_all(now);
    }
}

impl<P: Packet> Manage for PaperMode<P> {
    fn report(&mut self, now: Instant) -> Report {
        let census = self.tracker.census(now);
        let class = |c: Class| ClassReport {
            name: c.name().into(),
            backlog: self.store.backlog(c),
            flows: self.store.flows_in(c),
            ..ClassReport::default()
        };
        let overloaded = self.is_overloaded(now);
        Report {
            name: "taq".into(),
            counters: self.counters.clone(),
            backlog: self.backlog,
            classes: Class::ALL.into_iter().map(class).collect(),
            loss_ppm: self.loss.rate(now).0,
            admission: self.common.admission.then(|| self.admission.report(now, overloaded)),
            bytes_per_flow: Self::bytes_per_flow(),
            ..super::follow_report(&census)
        }
    }

    /// Flows, packets and the wait queue stay. A smaller buffer empties as packets come; `flows` keeps its value,
    /// since the table was made for it.
    fn reconfigure(&mut self, _now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let Some(settings) = settings.downcast_ref::<Config>() else { return false };
        let Mode::Paper(config) = settings.mode else { return false };
        let (old, common) = (self.common, settings.common);
        self.config = config;
        self.common = Common { flows: old.flows, ..common };
        self.link = *link;
        self.sizes = config.sizes(link);
        self.scheduler.reconfigure(recovery_rate(&config, link), link.mtu);
        self.shares.reconfigure(link.rate, common.share, config.fair_share);
        if old.w_loss != common.w_loss {
            self.loss = LossWindow::new(common.w_loss);
        }
        self.admission.reconfigure(admission_config(&common, &config, link));
        true
    }
}

impl<P: Packet> Discipline<P> for PaperMode<P> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        Some(self)
    }

    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        Some(self)
    }
}

impl<P> PaperMode<P> {
    /// Memory for one flow: its record with its share of the index, and its queue with what is kept beside.
    #[must_use]
    pub const fn bytes_per_flow() -> usize {
        Tracker::BYTES_PER_FLOW + size_of::<PaperFlow>()
    }
}

/// Payload of TCP and UDP; of the rest nothing counts as goodput.
fn payload(header: &Header) -> Bytes {
    if let Some(tcp) = header.tcp {
        return Bytes(u64::from(tcp.payload));
    }
    let ip = if header.key.src().is_ipv4() { 20 } else { 40 };
    if header.key.proto == Proto::UDP { header.len.saturating_sub(Bytes(ip + 8)) } else { Bytes::ZERO }
}

fn recovery_rate(config: &PaperConfig, link: &ShaperConfig) -> Rate {
    Rate::from_bps(config.rho_r.of(link.rate.as_bps()))
}

fn admission_config(common: &Common, config: &PaperConfig, link: &ShaperConfig) -> AdmissionConfig {
    AdmissionConfig {
        rule: Rule::Paper { join: common.t_pool, wait: config.t_wait },
        hold: common.waiting_syn == WaitingSyn::Hold,
        pools: common.pools as usize,
        users: common.users(link, common.share == Share::User),
    }
}

fn tracker_config(common: &Common, config: &PaperConfig, link: &ShaperConfig) -> TrackerConfig {
    TrackerConfig {
        capacity: common.flows as usize,
        record_timeout: config.record_timeout,
        ewma_shift: config.ewma_shift,
        active_for: Duration::from_secs(2),
        active_epochs: 4,
        // 3.3 s3: the round trip as it is perceived.
        epoch_includes_queue: true,
        // 4.2 s8: the transmit rate.
        rate_of_departures: true,
        users: common.users(link, common.share == Share::User),
        ..TrackerConfig::default()
    }
}

#[cfg(test)]
mod tests;
