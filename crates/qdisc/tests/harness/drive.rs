//! Drivers: one that calls when it is told to, one that also polls without pause, one that comes late.

use narrows_qdisc::{Qdisc, Record};
use narrows_units::{Duration, Instant};

use super::Rng;
use super::ledger::Ledger;
use super::traffic::Arrival;

/// When a driver calls beside arrivals.
pub enum Driver {
    /// At the instants the discipline names, and no other.
    Told,
    /// At those and each 100 us.
    Polling,
    /// Up to 30 ms after those, by a seed.
    Late(Rng),
}

const POLL: u64 = 100_000;
/// How long after the last arrival a run may go on.
const LINGER: Duration = Duration::from_secs(400);

/// Runs the arrivals through `q` and returns the books.
pub fn run(q: &mut dyn Qdisc<Record>, arrivals: &[Arrival], mut driver: Driver) -> Ledger {
    let (mut ledger, mut now) = (Ledger::default(), Instant::ZERO);
    let mut next = arrivals.iter().peekable();
    let end = arrivals.last().map_or(now, |a| a.at) + LINGER;
    loop {
        let arrival_at = next.peek().map(|a| a.at);
        let told = [q.next_ready(now), q.next_release(now)].into_iter().flatten().min().map(|t| t.max(now));
        let wake = match &mut driver {
            Driver::Told => told,
            Driver::Polling => {
                let grid = Instant::from_nanos((now.as_nanos() / POLL + 1) * POLL);
                // After the last arrival polling ends with what waits.
                let busy = arrival_at.is_some() || told.is_some();
                busy.then(|| told.map_or(grid, |t| t.min(grid)))
            }
            Driver::Late(rng) => told.map(|t| t + Duration::from_micros(rng.below(30_000))),
        };
        match (arrival_at, wake) {
            (Some(a), w) if w.is_none_or(|w| a <= w) => {
                now = now.max(a);
                if let Some(arrival) = next.next() {
                    arrive(q, now, arrival, &mut ledger);
                }
                if next.peek().is_some_and(|b| b.at <= now) {
                    ledger.balance(q);
                    continue;
                }
            }
            (_, Some(w)) => now = now.max(w),
            (_, None) => break,
        }
        if now > end {
            break;
        }
        // What is sent may open the door, and what the door lets in may be sent: so until nothing asks for now.
        loop {
            let before = ledger.fates.len();
            serve(q, now, &mut ledger);
            let asks = [q.next_ready(now), q.next_release(now)].into_iter().flatten().min();
            if asks.is_none_or(|t| t > now) {
                break;
            }
            assert!(ledger.fates.len() > before, "asks to be called at {asks:?}, but had nothing at {now:?}");
        }
    }
    ledger
}

fn arrive(q: &mut dyn Qdisc<Record>, now: Instant, arrival: &Arrival, ledger: &mut Ledger) {
    let mut verdicts = Vec::new();
    ledger.arrive(arrival);
    if arrival.forward {
        q.enqueue(now, arrival.packet, &mut verdicts);
    } else if let Some(packet) = q.reverse(now, arrival.packet, &mut verdicts) {
        ledger.passed(now, &packet);
    }
    ledger.judge(now, &mut verdicts);
}

fn serve(q: &mut dyn Qdisc<Record>, now: Instant, ledger: &mut Ledger) {
    let mut verdicts = Vec::new();
    loop {
        let released = q.release_reverse(now, &mut verdicts);
        ledger.judge(now, &mut verdicts);
        let Some(packet) = released else { break };
        ledger.passed(now, &packet);
    }
    loop {
        let sent = q.dequeue(now, &mut verdicts);
        ledger.judge(now, &mut verdicts);
        let Some(packet) = sent else { break };
        ledger.sent(now, &packet);
    }
    ledger.balance(q);
}
