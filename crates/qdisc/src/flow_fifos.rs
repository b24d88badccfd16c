//! Common part of FQ-CoDel and CAKE: a FIFO for each of a number of flows in one slab, each packet with the time at
//! which it came, and the longest of them in bytes.
//!
//! What a packet passes through is in line, so that the packet is moved no more often than in one function.

use narrows_lists::{Fifos, Queue};
use narrows_units::{Bytes, Instant};

use crate::{Backlog, ClassReport, Counters, Packet, Report};

/// The packets of all flows. Where each flow's begin and end is kept with the flow; its bytes are kept here, next to
/// each other, so that the longest is soon found.
#[derive(Debug)]
pub struct FlowFifos<P> {
    packets: Fifos<(Instant, P)>,
    bytes: Vec<u64>,
    backlog: Backlog,
}

impl<P: Packet> FlowFifos<P> {
    /// Makes empty queues for `flows` flows.
    pub fn new(flows: usize) -> Self {
        Self { packets: Fifos::new(), bytes: vec![0; flows], backlog: Backlog::default() }
    }

    /// All that waits.
    pub const fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Bytes that wait of one flow.
    pub fn bytes(&self, flow: usize) -> Bytes {
        Bytes(self.bytes[flow])
    }

    /// Appends a packet to the queue of `flow`.
    #[inline(always)]
    pub fn push(&mut self, flow: usize, queue: &mut Queue, now: Instant, packet: P) {
        let len = packet.len();
        self.packets.push_back(queue, (now, packet));
        self.backlog.add(len);
        self.bytes[flow] += len.get();
    }

    /// Takes the first packet of a flow, with the time at which the packet came.
    #[inline(always)]
    pub fn pop(&mut self, flow: usize, queue: &mut Queue) -> Option<(Instant, P)> {
        let (since, packet) = self.packets.pop_front(queue)?;
        self.gone(flow, packet.len());
        Some((since, packet))
    }

    /// Takes out the packet after that at index `at` of a flow's queue.
    pub fn remove_after(&mut self, flow: usize, queue: &mut Queue, at: u32) -> Option<P> {
        let (_, packet) = self.packets.remove_after(queue, at)?;
        self.gone(flow, packet.len());
        Some(packet)
    }

    fn gone(&mut self, flow: usize, len: Bytes) {
        self.backlog.sub(len);
        self.bytes[flow] -= len.get();
    }

    /// A flow's packets from the front, with the packets' indices.
    pub fn iter(&self, queue: &Queue) -> impl Iterator<Item = (u32, &P)> {
        self.packets.iter(queue).map(|(at, (_, packet))| (at, packet))
    }

    /// The flow with most bytes; the first of several.
    pub fn longest(&self) -> usize {
        let mut longest = 0;
        for (at, bytes) in self.bytes.iter().enumerate() {
            if *bytes > self.bytes[longest] {
                longest = at;
            }
        }
        longest
    }

    /// Report of a discipline, under its name and those of its two sets of flows.
    pub fn report<'a>(
        &self,
        name: &'static str,
        counters: &Counters,
        sets: [(&'static str, impl Iterator<Item = &'a Queue>); 2],
    ) -> Report {
        let classes = Vec::from(sets.map(|(name, queues)| self.class(name, queues)));
        let flows = classes.iter().map(|c| c.flows).sum();
        Report {
            name: name.into(),
            counters: counters.clone(),
            backlog: self.backlog,
            classes,
            flows,
            active_flows: flows,
            ..Report::default()
        }
    }

    /// A class of reports made of the flows with the queues given.
    fn class<'a>(&self, name: &'static str, queues: impl Iterator<Item = &'a Queue>) -> ClassReport {
        let mut class = ClassReport { name: name.into(), ..ClassReport::default() };
        for queue in queues.filter(|queue| !queue.is_empty()) {
            class.flows += 1;
            self.iter(queue).for_each(|(_, packet)| class.backlog.add(packet.len()));
        }
        class
    }
}
