//! Caps and the buffer: which packet is lost when they are full (4 s1, s2; 4.1; 4.2 s12, s15), and whether a mark will
//! do, which the paper does not know.
//!
//! A full buffer loses the packet whose loss has the cheapest consequence; of equal consequences one above its fair
//! share, then of the queue most above its weight. The two queues that have limits of their own lose by those: new
//! flows lose to a full buffer only if no other data waits, retransmissions only if nothing else does (4.1 s14, s15).

use narrows_flow::PacketKind;
use narrows_units::{Ecn, Instant};

use super::class::Class;
use super::predict::{NextState, after_loss};
use super::store::{LOST, Node};
use super::victims::{self, steps};
use super::{PaperMode, UNKNOWN_BUCKET, id_of};
use crate::{Packet, Reason, Verdict, Verdicts};

/// Consequence that a packet's loss would have for the packet's flow at present.
#[derive(Clone, Copy, Debug)]
struct Standing {
    next: NextState,
    /// The flow's rate divided by the flow's share, in 1/256.
    ratio: u64,
    bucket: u16,
}

impl<P: Packet> PaperMode<P> {
    /// The queues of new flows and of retransmissions are limited each for itself (4.2 s12, s15).
    pub(super) fn enforce_cap(&mut self, now: Instant, class: Class, verdicts: &mut Verdicts<P>) {
        let cap = match class {
            Class::New => self.sizes.newflow_cap,
            Class::Recovery => self.sizes.recovery_cap,
            _ => return,
        };
        let waiting = self.store.backlog(class).packets;
        if waiting > cap {
            let room_to_mark = waiting <= with_headroom(cap);
            self.lose_one(now, &[class], room_to_mark, verdicts);
        }
    }

    pub(super) fn enforce_buffer(&mut self, now: Instant, verdicts: &mut Verdicts<P>) {
        // Two for one: a buffer that was made smaller empties step by step and not in one blow.
        for _ in 0..2 {
            if self.backlog.packets <= self.sizes.buffer {
                return;
            }
            let room_to_mark = self.backlog.packets <= with_headroom(self.sizes.buffer);
            if self.lose_one(now, self.losing(), room_to_mark, verdicts) {
                return;
            }
        }
    }

    /// The queues among which a full buffer chooses, in the order in which they lose packets of equal consequence.
    fn losing(&self) -> &'static [Class] {
        let waits = |class| self.store.backlog(class).packets > 0;
        if waits(Class::Above) || waits(Class::Over) || waits(Class::Below) {
            let [over, below] = [1, 2].map(|i| self.scheduler.excess(i, &self.store));
            if below > over {
                &[Class::Above, Class::Below, Class::Over]
            } else {
                &[Class::Above, Class::Over, Class::Below]
            }
        } else if waits(Class::New) {
            &[Class::New]
        } else {
            &[Class::Recovery]
        }
    }

    /// Marks or drops one packet of these classes. Returns whether it was marked and stays.
    pub(super) fn lose_one(
        &mut self,
        now: Instant,
        classes: &[Class],
        may_mark: bool,
        verdicts: &mut Verdicts<P>,
    ) -> bool {
        let Some(node) = self.victim(now, classes) else { return true };
        let fresh = self.store.is_newest(node);
        if may_mark
            && let Some(packet) = self.store.packet_mut(node)
            && packet.header().ecn != Ecn::Ce
            && self.counters.mark_packet(packet, Reason::OverLimit, verdicts)
        {
            return true;
        }
        let reason = if fresh { Reason::OverLimit } else { Reason::PushedOut };
        self.drop_node(now, node, reason, verdicts);
        false
    }

    /// The packet that is lost: the cheapest consequence first, then the order of `classes`, then the largest rate for
    /// its share, then the newest.
    pub(super) fn victim(&mut self, now: Instant, classes: &[Class]) -> Option<u32> {
        for _ in 0..victims::LOOK {
            let cheapest = |class: &Class| Some((self.store.cheapest(class.fifo()?)?, *class));
            // The first class goes first among those of equal consequences.
            let Some((_, class)) = classes.iter().filter_map(cheapest).min_by_key(|&(next, _)| next) else {
                break;
            };
            let (nodes, n) = self.store.candidates(class.fifo()?);
            let mut best = None;
            let mut moved = false;
            for &node in &nodes[..n] {
                let &Node { flow, kind, arrival, bucket, .. } = self.store.node(node);
                let standing = self.standing(now, flow, kind);
                if standing.bucket != bucket {
                    // The prediction made at its arrival has passed.
                    self.store.replace(node, standing.bucket);
                    moved = true;
                    continue;
                }
                best = best.max(Some((core::cmp::Reverse(standing.next), standing.ratio, arrival, node)));
            }
            if let Some((.., node)) = best.filter(|_| !moved) {
                return Some(node);
            }
        }
        classes.iter().find_map(|&class| self.store.tail(class))
    }

    /// Computes what the loss of a packet of this kind would mean to its flow at present.
    fn standing(&mut self, now: Instant, flow: u32, kind: PacketKind) -> Standing {
        let Some(id) = id_of(flow) else {
            return Standing { next: NextState::LossRecovery, ratio: u64::MAX, bucket: UNKNOWN_BUCKET };
        };
        let due = self.shares.of(id, self.tracker.active_flows());
        let record = self.tracker.flow_at(now, id);
        let (next, rate) = (after_loss(record, kind), record.rate().as_bps());
        // Rates stay below 2^55, so the shift loses nothing.
        let ratio = (rate << 8) / due.bps.max(1);
        Standing { next, ratio, bucket: victims::bucket(next, steps(rate), due.steps) }
    }

    pub(super) fn drop_node(&mut self, now: Instant, node: u32, reason: Reason, verdicts: &mut Verdicts<P>) {
        let Node { packet, flow, .. } = self.store.remove(node);
        self.backlog.sub(packet.len());
        self.loss.drop(now);
        self.counters.drop_for(reason);
        self.store.flows[flow as usize].put(LOST, true);
        if let Some(id) = id_of(flow) {
            self.tracker.dropped(now, id, packet.header());
            self.tracker.unqueued(id);
            if self.tracker.flow(id).drops_cur() > self.config.over_penalised {
                self.store.over_penalise(flow);
            }
        }
        verdicts.push(Verdict::Dropped { packet, reason });
    }
}

/// A limit and a quarter more: how far marks instead of drops may carry a queue.
const fn with_headroom(limit: usize) -> usize {
    limit + limit.div_ceil(4)
}
