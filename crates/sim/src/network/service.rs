//! What disciplines with a reverse path need beyond being asked when their link is free, and what becomes of verdicts.

use narrows_qdisc::{Packet as _, Verdict};
use narrows_units::Duration;

use super::Network;
use crate::event::Event;
use crate::packet::Pkt;

impl Network {
    /// A discipline asked to be called now: what the reverse paths of the pair keep and may go is released first, the
    /// lower link's before the other's, and then each is served, as [`narrows_qdisc::Driver`] has it.
    pub(crate) fn service(&mut self, id: u32) {
        let pair = match self.links[id as usize].reverse {
            Some(other) if other < id => [Some(other), Some(id)],
            other => [Some(id), other],
        };
        if let Some(queue) = &mut self.links[id as usize].queue {
            queue.serve_due = None;
        }
        for link in pair.into_iter().flatten() {
            if self.links[link as usize].queue.as_ref().is_some_and(|q| q.watches) {
                self.release(link);
            }
        }
        for link in pair.into_iter().flatten() {
            let Some(queue) = &mut self.links[link as usize].queue else { continue };
            let waits = queue.discipline.backlog().packets > 0;
            if queue.busy_until <= self.now && !queue.free_due && (link == id || waits) {
                self.serve(link);
                continue;
            }
            if waits && !queue.free_due {
                queue.due_when_free(link, &mut self.events);
            }
            if queue.watches || link == id {
                self.schedule(link);
            }
        }
    }

    /// Lets go what the reverse path of link `id` keeps and may go now.
    pub(super) fn release(&mut self, id: u32) {
        let Some(reverse) = self.links[id as usize].reverse else { return };
        while let Some(packet) = self.links[id as usize]
            .queue
            .as_mut()
            .and_then(|q| q.reverse_path().release(self.now, &mut self.verdicts))
        {
            self.apply_verdicts(reverse);
            self.released(reverse, packet);
        }
        self.apply_verdicts(reverse);
    }

    /// What a reverse path let go goes on from where it was kept.
    pub(super) fn released(&mut self, id: u32, mut packet: Pkt) {
        if self.links[id as usize].tail.is_some() {
            return self.queue_up(id, packet);
        }
        if self.links[id as usize].queue.is_some() {
            return self.put(id, packet);
        }
        let link = &mut self.links[id as usize];
        let sent = link.pass(self.now, packet.len());
        let at = sent + link.delay;
        if link.put_on_wire(id, &mut packet, sent, &mut self.tap) {
            return self.pool.give(packet);
        }
        self.go(packet, self.now, at);
    }

    /// Sees to it that a discipline that wakes by itself is woken.
    pub(super) fn schedule(&mut self, id: u32) {
        let Some(queue) = &mut self.links[id as usize].queue else { return };
        let ready = if queue.free_due || queue.busy_until > self.now {
            None
        } else {
            queue.discipline.next_ready(self.now)
        };
        let release = queue.discipline.reverse_path().and_then(|path| path.next_release(self.now));
        let Some(at) = ready.into_iter().chain(release).min() else { return };
        // At the same instant it would be asked for ever if it had nothing to say.
        let at = at.max(self.now + Duration::from_nanos(1));
        if queue.serve_due.is_none_or(|due| due <= self.now || at < due) {
            queue.serve_due = Some(at);
            self.events.push(at, Event::Serve(id));
        }
    }

    /// Counts what the discipline of link `id`, or the one that watches it, decided, and takes the boxes back. What a
    /// reverse path lets go may push out a packet of the other direction: each counts at the link it came to.
    pub(super) fn apply_verdicts(&mut self, id: u32) {
        let routes = &self.routes;
        let at = |packet: &Pkt| {
            let label = &packet.0.label;
            routes[label.route as usize].get(usize::from(label.hop)).copied().unwrap_or(id) as usize
        };
        for verdict in self.verdicts.drain(..) {
            let packet = match verdict {
                Verdict::Marked { .. } => {
                    self.links[id as usize].counters.marked += 1;
                    continue;
                }
                Verdict::Dropped { packet, reason } => {
                    self.links[at(&packet)].counters.dropped[reason as usize] += 1;
                    self.tap.lost(&packet);
                    packet
                }
                Verdict::Suppressed { packet } => {
                    self.links[at(&packet)].counters.suppressed += 1;
                    packet
                }
                Verdict::Refused { packet, .. } => {
                    self.links[at(&packet)].counters.refused += 1;
                    packet
                }
            };
            self.pool.give(packet);
        }
    }
}
