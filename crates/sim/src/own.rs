//! Parts of a run that its caller brings: congestion controls and disciplines written elsewhere, as Python's classes.
//!
//! A scenario names them by numbers of the caller's, `own:0`, and [`Own`] tells what is behind a number. A control
//! implements [`CongestionControl`](narrows_tcp::cc::CongestionControl), as ours do. A discipline implements
//! [`OwnQueue`]: it sees numbers and headers of packets and never holds one, so it can neither lose nor double any.

use core::any::Any;
use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_qdisc::{
    Backlog, Counters, Discipline, Manage, Packet as _, Qdisc, Reason, Report, ShaperConfig, Verdicts,
};
use narrows_tcp::cc::OwnControl;
use narrows_units::Instant;
use narrows_wire::Header;

use crate::packet::Pkt;

/// Parts that the caller of a run brings, by the numbers that the scenario has.
pub trait Own {
    /// Makes the maker of the congestion controls with `number`; the maker is called once for each end that uses the
    /// control.
    ///
    /// # Errors
    /// Why there is none, in words that go on after the number.
    fn control(&self, number: u16) -> Result<MakeControl, String>;

    /// Makes an empty discipline with `number` for a link.
    ///
    /// # Errors
    /// Why there is none, in words that go on after the number.
    fn queue(&self, number: u16, link: &ShaperConfig, seed: u64) -> Result<Box<dyn OwnQueue>, String>;
}

/// Caller that brings nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

/// Why a scenario with `own:0` cannot be run from a file.
const BROUGHT: &str = "is a part that a program brings: only its run can have it, as narrows.run in Python";

impl Own for Nothing {
    fn control(&self, _number: u16) -> Result<MakeControl, String> {
        Err(BROUGHT.to_owned())
    }
    fn queue(&self, _number: u16, _link: &ShaperConfig, _seed: u64) -> Result<Box<dyn OwnQueue>, String> {
        Err(BROUGHT.to_owned())
    }
}

/// Maker of congestion controls, one for each end.
#[derive(Clone)]
pub struct MakeControl(Arc<dyn Fn() -> OwnControl + Send + Sync>);

impl MakeControl {
    /// A maker that calls `make`.
    pub fn new(make: impl Fn() -> OwnControl + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }
    /// A control for an end.
    pub(crate) fn make(&self) -> OwnControl {
        (self.0)()
    }
}

impl fmt::Debug for MakeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeControl")
    }
}

/// Decision of an [`OwnQueue`] about a packet that waits, by the packet's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Drops the packet.
    Drop(u64),
    /// Marks congestion experienced on the packet, if the packet is ECN-capable.
    Mark(u64),
}

/// A discipline of the caller's. Packets have numbers, in the order in which they come; a number that does not wait is
/// passed over wherever it is told.
pub trait OwnQueue: Send {
    /// Takes packet `number`, which came and waits unless `fates` drops the packet.
    fn enqueue(&mut self, now: Instant, number: u64, header: &Header, fates: &mut Vec<Fate>);

    /// Number of the packet to send now, if one may leave.
    fn dequeue(&mut self, now: Instant, fates: &mut Vec<Fate>) -> Option<u64>;

    /// Time at which calling [`OwnQueue::dequeue`] again makes sense while packets wait; later than now for a
    /// discipline that holds packets back.
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        Some(now)
    }
}

/// The discipline that keeps the packets of an [`OwnQueue`].
pub(crate) struct Keeper {
    queue: Box<dyn OwnQueue>,
    /// Packets that wait, by number.
    waiting: BTreeMap<u64, Pkt>,
    came: u64,
    backlog: Backlog,
    counters: Counters,
    fates: Vec<Fate>,
}

impl Keeper {
    pub(crate) fn new(queue: Box<dyn OwnQueue>) -> Self {
        let (waiting, backlog, counters) = (BTreeMap::new(), Backlog::default(), Counters::default());
        Self { queue, waiting, came: 0, backlog, counters, fates: Vec::new() }
    }

    /// Does what the queue has decided. Of a drop, `reason` tells why.
    fn settle(&mut self, reason: impl Fn(u64) -> Reason, verdicts: &mut Verdicts<Pkt>) {
        for fate in core::mem::take(&mut self.fates) {
            match fate {
                Fate::Drop(number) => {
                    if let Some(packet) = self.take(number) {
                        self.counters.drop_packet(packet, reason(number), verdicts);
                    }
                }
                Fate::Mark(number) => {
                    if let Some(packet) = self.waiting.get_mut(&number) {
                        self.counters.mark_packet(packet, Reason::Early, verdicts);
                    }
                }
            }
        }
    }

    fn take(&mut self, number: u64) -> Option<Pkt> {
        let packet = self.waiting.remove(&number)?;
        self.backlog.sub(packet.len());
        Some(packet)
    }
}

impl Qdisc<Pkt> for Keeper {
    fn enqueue(&mut self, now: Instant, packet: Pkt, verdicts: &mut Verdicts<Pkt>) {
        let (number, len) = (self.came, packet.len());
        self.came += 1;
        self.counters.arrive(len);
        self.backlog.add(len);
        let header = packet.0.header;
        self.waiting.insert(number, packet);
        self.queue.enqueue(now, number, &header, &mut self.fates);
        self.settle(
            |dropped| if dropped == number { Reason::OverLimit } else { Reason::PushedOut },
            verdicts,
        );
    }
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<Pkt>) -> Option<Pkt> {
        let number = self.queue.dequeue(now, &mut self.fates);
        self.settle(|_| Reason::Early, verdicts);
        let packet = self.take(number?)?;
        self.counters.send(packet.len());
        Some(packet)
    }
    fn next_ready(&self, now: Instant) -> Option<Instant> {
        if self.waiting.is_empty() { None } else { self.queue.next_ready(now) }
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

impl Manage for Keeper {
    fn report(&mut self, _now: Instant) -> Report {
        let counters = self.counters.clone();
        Report { name: "own".into(), counters, backlog: self.backlog, ..Report::default() }
    }
    fn reconfigure(&mut self, _now: Instant, _settings: &dyn Any, _link: &ShaperConfig) -> bool {
        false
    }
}

impl Discipline<Pkt> for Keeper {}

#[cfg(test)]
mod tests {
    use core::ops::ControlFlow;
    use std::collections::VecDeque;

    use narrows_scenario::Experiment;
    use narrows_tcp::Config;
    use narrows_tcp::cc::{AckSample, CongestionControl, Window};

    use super::*;
    use crate::{Results, RunError, run_with};

    /// AIMD by ACKs, as ns-2 counts: half a segment more per round trip, three quarters left by a loss.
    struct Aimd;

    impl CongestionControl for Aimd {
        fn on_ack(&mut self, window: &mut Window, _: &Config, sample: &AckSample) {
            window.cwnd += 0.5 * sample.credit / window.cwnd;
        }
        fn on_loss(&mut self, window: &mut Window, _: &Config, _: Instant, base: f64) {
            window.ssthresh = base * 0.75;
        }
        fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
            self.on_loss(window, config, now, base);
        }
    }

    /// Drop-tail: the most packets that wait, and the numbers of those that do.
    struct Tail(usize, VecDeque<u64>);

    impl OwnQueue for Tail {
        fn enqueue(&mut self, _: Instant, number: u64, _: &Header, fates: &mut Vec<Fate>) {
            if self.1.len() < self.0 {
                self.1.push_back(number);
            } else {
                fates.push(Fate::Drop(number));
            }
        }
        fn dequeue(&mut self, _: Instant, fates: &mut Vec<Fate>) -> Option<u64> {
            // A number that does not wait is passed over.
            fates.extend([Fate::Drop(u64::MAX), Fate::Mark(u64::MAX)]);
            self.1.pop_front()
        }
    }

    struct Brought;

    impl Own for Brought {
        fn control(&self, number: u16) -> Result<MakeControl, String> {
            if number == 3 { Ok(MakeControl::new(|| Box::new(Aimd))) } else { Nothing.control(number) }
        }
        fn queue(&self, number: u16, link: &ShaperConfig, seed: u64) -> Result<Box<dyn OwnQueue>, String> {
            if number == 4 {
                Ok(Box::new(Tail(12, VecDeque::new())))
            } else {
                Nothing.queue(number, link, seed)
            }
        }
    }

    fn run(sets: &[&str], own: &dyn Own) -> Result<Results, RunError> {
        let text = "name = 'own'\nrate = '600kbit'\nrtt = '200ms'\nmtu = 500\nduration = '60s'\njitter = '1s'\n\
             discipline = 'fifo:12'\ntcp = { preset = 'ns2', congestion = 'aimd', alpha = 0.5, beta = 0.75 }\n\
             [[traffic]]\nkind = 'long'\nflows = 12";
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let runs = Experiment::parse(text, &sets).unwrap().expand().unwrap();
        run_with(&runs[0].scenario, 1, own, &mut |_| ControlFlow::Continue(()))
    }

    #[test]
    fn what_is_brought_does_as_ours_does() {
        let ours = run(&[], &Nothing).unwrap().summary;
        assert!(ours["timeouts"] > 0.0 && ours["fast_retransmits"] > 0.0, "{ours:?}");
        assert_eq!(run(&["tcp.congestion=own:3"], &Brought).unwrap().summary, ours);
        assert_eq!(run(&["discipline=own:4"], &Brought).unwrap().summary, ours);
    }

    #[test]
    fn what_nobody_brings_is_refused() {
        for (set, told) in [
            ("tcp.congestion=own:3", "traffic 'long': congestion = 'own:3' is a part that a program brings"),
            ("discipline=own:4", "discipline = 'own:4' is a part that a program brings"),
        ] {
            let Err(RunError::Build(why)) = run(&[set], &Nothing) else { panic!("{set} was run") };
            assert!(why.to_string().contains(told), "{why}");
        }
    }
}
