//! When a link whose rate changes sends: by steps, or by the opportunities of a trace.
//!
//! An opportunity carries up to 1500 bytes, of several packets or of a part of one, and what nobody waits for is lost
//! (Winstein, Sivaraman and Balakrishnan, NSDI 2013; mahimahi's `link_queue.cc`).

use std::sync::Arc;

use narrows_units::{Bytes, Duration, Instant, Rate};

use crate::{DeliveryTrace, OPPORTUNITY, Service};

/// Time without an opportunity from which on a link counts as out.
const OUTAGE: Duration = Duration::from_secs(1);
/// Time after an outage in which waits do not count: packets that came in the outage leave first.
const RECOVERY: Duration = Duration::from_secs(2);

/// A link's timetable, and how far the timetable is used.
#[derive(Clone, Debug)]
pub enum Timetable {
    /// Rates, each from its time on.
    Steps(Arc<[(Duration, Rate)]>),
    /// Opportunities of a trace.
    Trace {
        /// Times of the opportunities.
        trace: Arc<DeliveryTrace>,
        /// The opportunity used last, counted from time zero through all rounds; `None` before the first.
        last: Option<u64>,
        /// Bytes that this opportunity has left.
        left: u64,
    },
}

/// Times in which a link carried nothing for a second or longer.
#[derive(Clone, Debug)]
pub struct Outages(Vec<(Instant, Instant)>);

impl Outages {
    /// Begin and end of each, in order.
    #[must_use]
    pub fn times(&self) -> &[(Instant, Instant)] {
        &self.0
    }

    /// Whether a packet that came at `came` and has left at `sent` met an outage, or what an outage had left behind.
    #[must_use]
    pub fn met(&self, came: Instant, sent: Instant) -> bool {
        let next = self.0.partition_point(|o| o.1 + RECOVERY <= came);
        self.0.get(next).is_some_and(|outage| outage.0 < sent)
    }
}

impl Timetable {
    /// Creates the timetable of `service`; `None` for a link whose rate never changes.
    #[must_use]
    pub fn new(service: &Service) -> Option<Self> {
        match service {
            Service::Constant => None,
            Service::Steps(steps) => Some(Self::Steps(steps.clone())),
            Service::Trace(trace) => Some(Self::Trace { trace: trace.clone(), last: None, left: 0 }),
        }
    }

    /// Time at which a packet of `len` has left that begins to at `from`; nothing leaves in between.
    pub fn send(&mut self, from: Instant, len: Bytes) -> Instant {
        match self {
            Self::Steps(steps) => step_through(steps, from, len),
            Self::Trace { trace, last, left } => {
                let (at, number, rest) = ride(trace, *last, *left, from, len);
                (*last, *left) = (Some(number), rest);
                at
            }
        }
    }

    /// Time at which a packet of `len` would have left that begins to at `from`.
    #[must_use]
    pub fn would_send(&self, from: Instant, len: Bytes) -> Instant {
        match self {
            Self::Steps(steps) => step_through(steps, from, len),
            Self::Trace { trace, last, left } => ride(trace, *last, *left, from, len).0,
        }
    }

    /// Bytes that can be sent from `from` on and before `to`.
    #[must_use]
    pub fn capacity(&self, from: Instant, to: Instant) -> u64 {
        match self {
            Self::Steps(steps) => {
                let bytes = |at: Instant| carried(steps, at);
                bytes(to).saturating_sub(bytes(from))
            }
            Self::Trace { trace, .. } => {
                number_at(trace, to).saturating_sub(number_at(trace, from)) * OPPORTUNITY.get()
            }
        }
    }

    /// Outages that begin before `until`.
    #[must_use]
    pub fn outages(&self, until: Instant) -> Outages {
        Outages(match self {
            Self::Steps(steps) => {
                let nothing = |pair: &[(Duration, Rate)]| {
                    let (from, to) = (Instant::ZERO + pair[0].0, Instant::ZERO + pair[1].0);
                    (pair[0].1 == Rate::from_bps(1) && to.since(from) >= OUTAGE).then_some((from, to))
                };
                steps.windows(2).filter_map(nothing).collect()
            }
            Self::Trace { trace, .. } => {
                let (mut found, mut before) = (Vec::new(), Instant::ZERO);
                for number in 0.. {
                    let at = time_of(trace, number);
                    if at.since(before) >= OUTAGE {
                        found.push((before, at));
                    }
                    if at >= until {
                        break;
                    }
                    before = at;
                }
                found
            }
        })
    }
}

/// Bytes carried from time zero on.
fn carried(steps: &[(Duration, Rate)], at: Instant) -> u64 {
    let mut sum = 0;
    for (place, step) in steps.iter().enumerate() {
        let begins = if place == 0 { Instant::ZERO } else { Instant::ZERO + step.0 };
        let ends = steps.get(place + 1).map_or(Instant::FAR_FUTURE, |next| Instant::ZERO + next.0);
        sum += step.1.bytes_in(at.min(ends).since(begins)).get();
    }
    sum
}

fn step_through(steps: &[(Duration, Rate)], from: Instant, len: Bytes) -> Instant {
    let (mut at, mut bits) = (from, u128::from(len.get()) * 8 * 1_000_000_000);
    loop {
        let passed = steps.partition_point(|s| Instant::ZERO + s.0 <= at);
        let rate = u128::from(steps[passed.saturating_sub(1)].1.as_bps());
        let takes = u64::try_from(bits.div_ceil(rate)).unwrap_or(u64::MAX);
        let ends = at + Duration::from_nanos(takes);
        match steps.get(passed) {
            Some(next) if Instant::ZERO + next.0 < ends => {
                let then = Instant::ZERO + next.0;
                bits -= rate * u128::from(then.since(at).as_nanos());
                at = then;
            }
            _ => return ends,
        }
    }
}

/// Time at which an opportunity comes, counted through all rounds.
fn time_of(trace: &DeliveryTrace, number: u64) -> Instant {
    let times = trace.opportunities();
    let (round, place) = (number / times.len() as u64, number % times.len() as u64);
    Instant::ZERO + trace.period() * round + Duration::from_millis(u64::from(times[place as usize]))
}

/// The number of the first opportunity at or after an instant.
fn number_at(trace: &DeliveryTrace, at: Instant) -> u64 {
    let (times, period) = (trace.opportunities(), trace.period().as_nanos());
    let (round, within) = (at.as_nanos() / period, at.as_nanos() % period);
    let place = times.partition_point(|t| u64::from(*t) * 1_000_000 < within);
    let number = round * times.len() as u64 + place as u64;
    // The last opportunity of a round is at the time at which the next begins.
    if within == 0 && round > 0 {
        number - times.iter().rev().take_while(|t| **t == *times.last().unwrap_or(&0)).count() as u64
    } else {
        number
    }
}

/// Time at which a packet has left, with which opportunity, and what that has left. `last` was used last, and has
/// `left`.
fn ride(
    trace: &DeliveryTrace,
    last: Option<u64>,
    left: u64,
    from: Instant,
    len: Bytes,
) -> (Instant, u64, u64) {
    let mut needed = len.get();
    let (mut number, mut rest) = match last {
        Some(last) if left > 0 && time_of(trace, last) >= from => (last, left),
        // Whoever comes after an opportunity cannot use what it had left.
        _ => (number_at(trace, from).max(last.map_or(0, |last| last + 1)), OPPORTUNITY.get()),
    };
    while needed > rest {
        needed -= rest;
        number += 1;
        rest = OPPORTUNITY.get();
    }
    (time_of(trace, number), number, rest - needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn trace(text: &str) -> Timetable {
        Timetable::new(&Service::Trace(Arc::new(DeliveryTrace::parse("t", text).unwrap()))).unwrap()
    }

    #[test]
    fn opportunities_by_hand() {
        let mut t = trace("10\n20\n20\n50\n");
        // Two small packets share the first; a full one does not fit beside them, and takes the rest of the second.
        assert_eq!(t.send(ms(0), Bytes(500)), ms(10));
        assert_eq!(t.send(ms(10), Bytes(500)), ms(10));
        assert_eq!(t.send(ms(10), Bytes(1500)), ms(20));
        // 1000 B are left of the second at 20 ms, all of the third.
        assert_eq!(t.send(ms(20), Bytes(1000)), ms(20));
        // Whoever comes at 30 ms waits for 50 ms, and the next for 10 ms of the second round.
        assert_eq!(t.send(ms(30), Bytes(1500)), ms(50));
        assert_eq!(t.send(ms(50), Bytes(40)), ms(60));
        assert_eq!(t.would_send(ms(60), Bytes(1460)), ms(60));
        assert_eq!(t.would_send(ms(60), Bytes(1461)), ms(70));
        assert_eq!(t.would_send(ms(61), Bytes(40)), ms(70));
    }

    #[test]
    fn the_first_opportunity_carries_one_full_packet() {
        let mut t = trace("10\n20\n");
        assert_eq!((t.send(ms(0), Bytes(1500)), t.send(ms(10), Bytes(1500))), (ms(10), ms(20)));
        assert_eq!(t.send(ms(20), Bytes(1500)), ms(30));
    }

    #[test]
    fn what_can_be_sent_and_when_nothing_can() {
        let t = trace("10\n20\n20\n50\n1500\n");
        assert_eq!(t.capacity(ms(0), ms(20)), 1500);
        assert_eq!(t.capacity(ms(20), ms(51)), 4500);
        assert_eq!(t.capacity(ms(1500), ms(1511)), 3000);
        // The second outage has begun by 2000 ms.
        assert_eq!(t.outages(ms(2000)).times(), [(ms(50), ms(1500)), (ms(1550), ms(3000))]);
        let out = t.outages(ms(2000));
        // Whoever has left before an outage did not meet it; two seconds after its end what it left is gone.
        assert!(!out.met(ms(20), ms(50)) && out.met(ms(20), ms(1500)) && out.met(ms(3000), ms(3010)));
        assert!(out.met(ms(4999), ms(5000)) && !out.met(ms(5000), ms(5010)));
    }

    #[test]
    fn steps_by_hand() {
        let step = |ms, kbps| (Duration::from_millis(ms), Rate::from_kbps(kbps));
        let steps = [step(0, 12), (Duration::from_secs(1), Rate::from_bps(1)), step(3000, 120)];
        let mut t = Timetable::new(&Service::Steps(steps.into())).unwrap();
        // 1500 B at 12 kbit/s are a second. Of two from 500 ms on half a one is over at 1 s; the other half takes 50 ms
        // from 3 s on (less 2 bits of 12 000), the next 100 ms.
        assert_eq!(t.send(ms(0), Bytes(750)), ms(500));
        assert_eq!(t.send(ms(500), Bytes(1500)).as_nanos() / 1_000_000, 3049);
        assert_eq!(t.send(ms(4000), Bytes(1500)), ms(4100));
        assert_eq!(t.capacity(ms(500), ms(3100)), 750 + 1500);
        assert_eq!(t.outages(ms(5000)).times(), [(ms(1000), ms(3000))]);
    }
}
