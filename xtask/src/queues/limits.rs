//! Our SFQ under the limits of ns-2's, to tell what in them differs: who is let in, or who is served.

use narrows_qdisc::{Backlog, Qdisc, Reason, Record, ShaperConfig, Spec, Verdict, Verdicts};
use narrows_units::Instant;

use super::arrivals::{FLOWS, RATE, Sent, through};

/// Refuses whom ns-2's SFQ refuses: of `left` free places a bucket may hold no more than half, none is let in if fewer
/// than two are left, and as long as fewer places are left than there are buckets, busy or not, a bucket may hold one
/// more than `places / buckets`.
struct Limits<Q> {
    inner: Q,
    places: usize,
    buckets: usize,
    /// Packets of each flow; each flow has a bucket of its own.
    waiting: [usize; FLOWS.len()],
}

/// Flow of a packet among the arrivals.
fn flow(r: &Record) -> usize {
    (r.id & 0xff) as usize
}

impl<Q: Qdisc<Record>> Qdisc<Record> for Limits<Q> {
    fn enqueue(&mut self, now: Instant, packet: Record, verdicts: &mut Verdicts<Record>) {
        let left = self.places - self.waiting.iter().sum::<usize>();
        let used = &mut self.waiting[flow(&packet)];
        let share = self.places / self.buckets;
        if *used >= left / 2 || (left < self.buckets && *used > share) {
            verdicts.push(Verdict::Dropped { packet, reason: Reason::OverLimit });
            return;
        }
        *used += 1;
        self.inner.enqueue(now, packet, verdicts);
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<Record>) -> Option<Record> {
        let packet = self.inner.dequeue(now, verdicts)?;
        self.waiting[flow(&packet)] -= 1;
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        self.inner.next_ready(now)
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

/// Packets that leave our SFQ of `places` places, if it admits those that ns-2's SFQ would admit.
pub fn under_ns2s_limits(places: usize, buckets: usize, sent: &[Sent]) -> Vec<(usize, u32)> {
    let link = ShaperConfig::new(RATE);
    let spec = format!("sfq:{places}").parse::<Spec>().expect("a discipline");
    let inner = spec.build(&link, 1);
    through(link, Limits { inner, places, buckets, waiting: [0; FLOWS.len()] }, sent)
}
