//! How much of a link whose rate changes a sender could use if it knew every opportunity of the link, used or not, but
//! only after a delay: `cargo run --release -p narrows-sim --example late_oracle -- TRACE BOUND_MS [crossed]`
//!
//! It keeps `rate (delay + ahead) + spare` packets under way that it does not know to have crossed, the rate counted
//! over the last `span`. All three settings are chosen afterwards, on the trace itself, for each delay: a reference
//! that no controller meets which has to learn them, as it hears of no opportunity that nobody used. With `crossed` it
//! hears of none either: the rate is that at which packets crossed while some waited. Packets wait in one queue; time
//! in it counts outside of outages of a second and two seconds after, as in docs/decisions/changing-rates.md.

use std::collections::VecDeque;

/// Milliseconds that are simulated, and those at the beginning that do not count.
const LENGTH_MS: usize = 900_000;
const WARMUP_MS: usize = 10_000;
const DELAYS_MS: [usize; 4] = [20, 40, 80, 160];
/// Candidate settings: span and ahead in milliseconds, spare in packets.
const SPANS_MS: [usize; 6] = [25, 50, 100, 200, 400, 800];
const AHEAD_MS: [usize; 6] = [0, 10, 20, 40, 60, 100];
const SPARE: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 3.0];

/// Settings of the sender.
#[derive(Clone, Copy)]
struct Settings {
    span_ms: usize,
    ahead_ms: usize,
    spare: f64,
}

/// News of the link that the sender hears, a delay later.
#[derive(Clone, Copy)]
enum Told {
    /// Every opportunity.
    All,
    /// Packets that crossed.
    Crossed,
}

/// Packets that had crossed after each millisecond in which some waited or crossed.
struct Busy {
    crossed: Vec<usize>,
    /// Number of those milliseconds up to each of all.
    until: Vec<usize>,
}

impl Busy {
    fn new() -> Self {
        Self { crossed: vec![0], until: vec![0; LENGTH_MS] }
    }

    fn note(&mut self, now: usize, crossed: usize, waits: bool) {
        if waits || crossed > self.crossed[self.crossed.len() - 1] {
            self.crossed.push(crossed);
        }
        self.until[now] = self.crossed.len() - 1;
    }

    /// Packets in a millisecond, over the last `span` of these up to and without one of all milliseconds.
    fn rate(&self, to: usize, span: usize) -> f64 {
        let last = to.checked_sub(1).map_or(0, |at| self.until[at]);
        let first = last.saturating_sub(span);
        (self.crossed[last] - self.crossed[first]) as f64 / (last - first).max(1) as f64
    }
}

/// A trace: opportunities by millisecond, their sums, and its outages with the two seconds after.
struct Link {
    opportunities: Vec<u32>,
    before: Vec<u32>,
    outages: Vec<(usize, usize)>,
}

impl Link {
    fn read(file: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
        let mut opportunities = vec![0; LENGTH_MS];
        for line in text.lines() {
            let at: usize = line.trim().parse().map_err(|e| format!("{file}: {line}: {e}"))?;
            if let Some(count) = opportunities.get_mut(at) {
                *count += 1;
            }
        }
        let (mut before, mut outages, mut last) = (vec![0], Vec::new(), 0);
        for (at, count) in opportunities.iter().enumerate() {
            before.push(before[at] + count);
            if *count > 0 {
                if at - last >= 1000 {
                    outages.push((last, at + 2000));
                }
                last = at;
            }
        }
        Ok(Self { opportunities, before, outages })
    }

    /// Opportunities from one millisecond up to and without another.
    fn between(&self, from: usize, to: usize) -> f64 {
        f64::from(self.before[to] - self.before[from])
    }

    /// Share of the opportunities that are used, and p95 of the milliseconds in the queue.
    fn run(&self, told: Told, delay: usize, settings: Settings) -> (f64, usize) {
        let Settings { span_ms, ahead_ms, spare } = settings;
        let (mut queue, mut crossed) = (VecDeque::new(), vec![0_usize; LENGTH_MS]);
        let mut busy = Busy::new();
        let (mut sent, mut used, mut offered) = (0, 0, 0);
        let mut waits = Vec::new();
        for now in 0..LENGTH_MS {
            let known_to = (now + 1).saturating_sub(delay + 1);
            let rate = match told {
                Told::All => self.between(known_to.saturating_sub(span_ms), known_to) / span_ms as f64,
                Told::Crossed => busy.rate(known_to, span_ms),
            };
            let window = ((rate * (delay + ahead_ms) as f64 + spare) as usize).max(1);
            let known = known_to.checked_sub(1).map_or(0, |at| crossed[at]);
            while sent - known < window {
                queue.push_back(now);
                sent += 1;
            }
            for _ in 0..self.opportunities[now] {
                let packet = queue.pop_front();
                if now >= WARMUP_MS {
                    offered += 1;
                    used += usize::from(packet.is_some());
                    waits.extend(packet.filter(|came| !self.is_out(*came, now)).map(|came| now - came));
                }
            }
            crossed[now] = sent - queue.len();
            busy.note(now, crossed[now], !queue.is_empty());
        }
        waits.sort_unstable();
        (used as f64 / offered as f64, waits[waits.len() * 95 / 100])
    }

    fn is_out(&self, from: usize, to: usize) -> bool {
        let next = self.outages.partition_point(|(_, end)| *end <= from);
        self.outages.get(next).is_some_and(|(begin, _)| *begin < to)
    }
}

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("expected a trace and a bound in milliseconds")?;
    let bound: usize =
        args.next().and_then(|text| text.parse().ok()).ok_or("expected a bound in milliseconds")?;
    let told = match args.next().as_deref() {
        None => Told::All,
        Some("crossed") => Told::Crossed,
        Some(other) => return Err(format!("{other}: expected nothing, or crossed")),
    };
    let link = Link::read(&file)?;
    println!("delay ms  used within {bound} ms  p95 ms where .9 is used");
    for delay in DELAYS_MS {
        let mut within = 0.0_f64;
        let mut least: Option<usize> = None;
        for span_ms in SPANS_MS {
            for ahead_ms in AHEAD_MS {
                for spare in SPARE {
                    let (used, p95) = link.run(told, delay, Settings { span_ms, ahead_ms, spare });
                    if p95 <= bound {
                        within = within.max(used);
                    }
                    if used >= 0.9 {
                        least = Some(least.map_or(p95, |l| l.min(p95)));
                    }
                }
            }
        }
        let least = least.map_or("none".to_owned(), |p95| p95.to_string());
        println!("{delay:>8}  {within:>18.3}  {least:>23}");
    }
    Ok(())
}
