//! What an arrival leaves to be told and to be counted.

use narrows_units::Instant;

use super::{FlowId, Tracker};
use crate::flags::FlowFlags;

impl Tracker {
    /// What the last arrival of a flow left to be told: whether the flow is new, and whether it began anew.
    #[inline(never)]
    pub(super) fn take_news(&mut self, id: FlowId) -> (bool, bool) {
        let flags = &mut self.table.slots[id.index()].flags;
        let (fresh, restarted) = (flags.take(FlowFlags::REPORT_NEW), flags.take(FlowFlags::REPORT_RESTARTED));
        self.counters.restarted += u64::from(restarted);
        self.counters.overlapping += u64::from(flags.take(FlowFlags::OVERLAP));
        self.counters.out_of_window += u64::from(flags.take(FlowFlags::OUT_OF_WINDOW));
        (fresh, restarted)
    }

    /// Counts the flow as active from its first packet that shows it to be real.
    pub(crate) fn count_active(&mut self, now: Instant, id: FlowId) {
        let flow = &mut self.table.slots[id.index()];
        if flow.flags.has(FlowFlags::ACTIVE) || flow.closed() {
            return;
        }
        let real = if flow.is_tcp() {
            flow.data_seen() && (flow.packets > 1 || flow.flags.has(FlowFlags::SYN))
        } else {
            flow.packets > 1
        };
        let until = flow.active_until(&self.config);
        if real && now < until {
            flow.flags.set(FlowFlags::ACTIVE);
            self.active.add(now, flow.user(&self.config.users));
            self.wheel.sooner(&mut self.table.hooks, id.0, until);
        }
    }
}
