//! Caps and the buffer: who loses a packet when they are full, and whether a mark will do (notes, 2.6).

use narrows_units::{Ecn, Instant};

use super::class::Class;
use super::store::{LOST, Node};
use super::victims::{self, steps};
use super::{PaperMode, UNKNOWN_BUCKET, id_of};
use crate::{Packet, Reason, Verdict, Verdicts};

impl<P: Packet> PaperMode<P> {
    /// NEWFLOW and RECOVERY drop at their own caps (notes, 2.6).
    pub(super) fn enforce_cap(&mut self, now: Instant, class: Class, verdicts: &mut Verdicts<P>) {
        let cap = match class {
            Class::New => self.sizes.newflow_cap,
            Class::Recovery => self.sizes.recovery_cap,
            _ => return,
        };
        let waiting = self.store.backlog(class).packets;
        if waiting > cap {
            let room_to_mark = waiting <= with_headroom(cap);
            self.lose_one(now, class, room_to_mark, verdicts);
        }
    }

    pub(super) fn enforce_buffer(&mut self, now: Instant, verdicts: &mut Verdicts<P>) {
        // Two for one: a buffer that was made smaller empties step by step and not in one blow.
        for _ in 0..2 {
            if self.backlog.packets <= self.sizes.buffer {
                return;
            }
            let room_to_mark = self.backlog.packets <= with_headroom(self.sizes.buffer);
            let class = self.victim_class();
            if self.lose_one(now, class, room_to_mark, verdicts) {
                return;
            }
        }
    }

    /// The queue that loses a packet when the buffer is full: above fair share, then that of level 2 most above its
    /// weight (new flows on a tie), then recovery.
    pub(super) fn victim_class(&self) -> Class {
        if self.store.backlog(Class::Above).packets > 0 {
            return Class::Above;
        }
        let excess = |i: usize| self.scheduler.excess(i, &self.store);
        let worst = (0..3).reduce(|a, b| if excess(b) > excess(a) { b } else { a }).unwrap_or(0);
        if excess(worst) > 0 { Class::LEVEL2[worst] } else { Class::Recovery }
    }

    /// Marks or drops one packet of a class. Returns whether it was marked and stays.
    pub(super) fn lose_one(
        &mut self,
        now: Instant,
        class: Class,
        may_mark: bool,
        verdicts: &mut Verdicts<P>,
    ) -> bool {
        let Some(node) = self.victim(now, class) else { return true };
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

    /// The packet a class loses: the last of the flow with the fewest drops this epoch, of these the one with the
    /// largest rate for its share, of equals the one with the newest packet.
    pub(super) fn victim(&mut self, now: Instant, class: Class) -> Option<u32> {
        let Some(fifo) = class.fifo() else { return self.store.tail(class) };
        for _ in 0..victims::LOOK {
            let (flows, n) = self.store.victims(fifo).candidates(&self.store.flows);
            let mut best: Option<(u32, u64, u64, u32)> = None;
            let mut moved = false;
            for &flow in &flows[..n] {
                let (drops, ratio, bucket) = self.standing(now, flow);
                if self.store.flows[flow as usize].bucket() != Some(bucket) {
                    // What was noted at its last packet has passed with its epoch.
                    self.store.place(flow, bucket);
                    moved = true;
                    continue;
                }
                let Some(tail) = self.store.tail_of(flow) else { continue };
                let newest = self.store.node(tail).arrival;
                let better = best.is_none_or(|(d, r, a, _)| {
                    (core::cmp::Reverse(drops), ratio, newest) > (core::cmp::Reverse(d), r, a)
                });
                if better {
                    best = Some((drops, ratio, newest, tail));
                }
            }
            if let Some((.., tail)) = best.filter(|_| !moved) {
                return Some(tail);
            }
            if n == 0 {
                break;
            }
        }
        self.store.tail(class)
    }

    /// A flow's drops this epoch, its rate over its share in 1/256, and the bucket it belongs in, as of now.
    pub(super) fn standing(&mut self, now: Instant, flow: u32) -> (u32, u64, u16) {
        let Some(id) = id_of(flow) else { return (0, u64::MAX, UNKNOWN_BUCKET) };
        let due = self.shares.of(id, self.tracker.active_flows());
        let record = self.tracker.flow_at(now, id);
        let (drops, rate) = (record.drops_cur(), record.rate().as_bps());
        // Rates stay below 2^55, so the shift loses nothing.
        (drops, (rate << 8) / due.bps.max(1), victims::bucket(drops, steps(rate), due.steps))
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
            let (drops, _, bucket) = self.standing(now, flow);
            if drops + self.tracker.flow(id).drops_prev() > self.config.over_penalised {
                self.store.change_class(flow, Class::Over);
            }
            self.store.place(flow, bucket);
        }
        verdicts.push(Verdict::Dropped { packet, reason });
    }
}

/// A limit and a quarter more: how far marks instead of drops may carry a queue.
const fn with_headroom(limit: usize) -> usize {
    limit + limit.div_ceil(4)
}
