//! When to wake the driver: when it says so, also without pause, or late.

use narrows_qdisc::{BoxedDiscipline, Direction, Driver, Fifo, Limit, Qdisc as _, Record};
use narrows_units::{Duration, Instant};

use super::Rng;
use super::ledger::Ledger;
use super::traffic::Arrival;

/// A discipline under test.
pub type Tested = BoxedDiscipline<Record>;

/// When the driver is called beside arrivals.
pub enum Waking {
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

/// The direction of an arrival: the discipline under test queues what goes down.
pub const fn direction(arrival: &Arrival) -> Direction {
    if arrival.forward { Direction::Down } else { Direction::Up }
}

/// `q` with nothing in the other direction that would delay or drop a packet.
pub fn driver(q: Tested) -> Driver<Record, Tested> {
    Driver::new(q, Box::new(Fifo::new(Limit::Packets(usize::MAX))))
}

/// Runs the arrivals through `q`; the books, and the discipline again.
pub fn run(q: Tested, arrivals: &[Arrival], mut waking: Waking) -> (Ledger, Tested) {
    let (mut ledger, mut now, mut driver) = (Ledger::default(), Instant::ZERO, driver(q));
    let mut next = arrivals.iter().peekable();
    let end = arrivals.last().map_or(now, |a| a.at) + LINGER;
    loop {
        let arrival_at = next.peek().map(|a| a.at);
        let told = driver.next_service(now).map(|t| t.max(now));
        let wake = match &mut waking {
            Waking::Told => told,
            Waking::Polling => {
                let grid = Instant::from_nanos((now.as_nanos() / POLL + 1) * POLL);
                // After the last arrival polling ends with what waits.
                let busy = arrival_at.is_some() || told.is_some();
                busy.then(|| told.map_or(grid, |t| t.min(grid)))
            }
            Waking::Late(rng) => told.map(|t| t + Duration::from_micros(rng.below(30_000))),
        };
        match (arrival_at, wake) {
            (Some(a), w) if w.is_none_or(|w| a <= w) => {
                now = now.max(a);
                if let Some(arrival) = next.next() {
                    ledger.arrive(arrival);
                    driver.arrive(now, direction(arrival), arrival.packet, &mut |e| ledger.hear(now, e));
                }
                ledger.balance(&**driver.discipline(Direction::Down));
                if next.peek().is_some_and(|b| b.at <= now) {
                    continue;
                }
            }
            (_, Some(w)) => now = now.max(w),
            (_, None) => break,
        }
        if now > end {
            break;
        }
        serve(&mut driver, now, &mut ledger);
    }
    let [q, open] = driver.into_disciplines();
    assert_eq!(open.backlog().packets, 0);
    (ledger, q)
}

/// Serves until nothing asks to be called now: a packet sent may end the overload, and then admitted pools may
/// send.
fn serve(driver: &mut Driver<Record, Tested>, now: Instant, ledger: &mut Ledger) {
    loop {
        let before = ledger.fates.len();
        driver.service(now, &mut |e| ledger.hear(now, e));
        ledger.balance(&**driver.discipline(Direction::Down));
        let asks = driver.next_service(now);
        if asks.is_none_or(|t| t > now) {
            return;
        }
        assert!(ledger.fates.len() > before, "asks to be called at {asks:?}, but had nothing at {now:?}");
    }
}
