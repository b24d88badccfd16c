//! The chains beside a process: one flow that sends packets one by one, loses each at random, and has a timer. It knows
//! nothing of stages' frequencies or of cuts between states; what it shares with the chain are the assumptions.

use super::*;

const SEED: u64 = 0x7a9;
/// Epochs of a block, and blocks: standard errors are those of the blocks' means.
const BLOCK: usize = 20_000;
const BLOCKS: usize = 60;

struct Flow {
    rng: fastrand::Rng,
    back: Back,
    settings: Settings,
    p: f64,
    window: usize,
    /// Expiries since the back-off last ended.
    expired: u32,
    /// Whether the lost window left one hole, as [`BackoffUntil::NewSample`] draws it.
    one_hole: bool,
}

impl Flow {
    fn lost(&mut self) -> bool {
        self.rng.f64() < self.p
    }

    /// The next timer, and then it is backed off.
    fn timer(&mut self) -> f64 {
        let Settings { t0_epochs, probe_epochs, .. } = self.settings;
        let (last, open) = match self.back {
            Back::Partial => (0, self.window < 4),
            Back::Open(k) => (k, true),
            Back::Capped(k) => (k, false),
        };
        let mut doubled = self.expired;
        self.expired += 1;
        if let Some(probe) = probe_epochs {
            if doubled == 0 {
                return probe;
            }
            doubled -= 1;
        }
        doubled = doubled.min(last);
        if open && doubled == last {
            while self.lost() {
                doubled += 1;
            }
        }
        f64::from(doubled).exp2() * t0_epochs
    }

    /// Sends a window; true if all of it arrived or could be repaired.
    fn send(&mut self) -> bool {
        let lost: Vec<bool> = (0..self.window).map(|_| self.lost()).collect();
        let count = lost.iter().filter(|l| **l).count();
        if self.settings.backoff_ends == BackoffUntil::NewSample
            && self.window == 2
            && (count == 0 || self.one_hole && !lost[0])
        {
            self.expired = 0;
        }
        if count == 0 {
            self.window = (self.window + 1).min(self.settings.wmax as usize);
            return true;
        }
        let told = match self.settings.repair {
            FastRetransmit::One => self.window >= 4 && count == 1,
            FastRetransmit::Sack => match self.window - count {
                0 | 1 => false,
                2 => !(self.lost() && self.lost()),
                _ => true,
            },
        };
        if !told || (0..count).any(|_| self.lost()) {
            return false;
        }
        self.window = (self.window / 2).max(2);
        true
    }

    fn forget(&mut self) {
        let ends_at = match self.settings.backoff_ends {
            BackoffUntil::NewAck => 2,
            BackoffUntil::NewSample | BackoffUntil::S2 => 3,
            BackoffUntil::S3 => 4,
        };
        if self.window >= ends_at {
            self.expired = 0;
        }
    }
}

/// Counts of a block: epochs by packets sent, silences, their length, its part beyond 20 epochs, and times at which two
/// and eight silent epochs begin.
#[derive(Clone, Default)]
struct Counts {
    epochs: f64,
    sent: Vec<f64>,
    silences: f64,
    in_silence: f64,
    beyond_20: f64,
    in_a_row: [f64; 2],
}

fn run(back: Back, settings: Settings, p: f64) -> Vec<Counts> {
    let window = settings.wmax as usize;
    let rng = fastrand::Rng::with_seed(SEED);
    let mut flow = Flow { rng, back, settings, p, window, expired: 0, one_hole: false };
    let empty = Counts { sent: vec![0.0; window + 1], ..Counts::default() };
    (0..BLOCKS).map(|_| block(&mut flow, empty.clone())).collect()
}

fn block(flow: &mut Flow, mut counts: Counts) -> Counts {
    while counts.epochs < BLOCK as f64 {
        counts.epochs += 1.0;
        counts.sent[flow.window] += 1.0;
        if flow.send() {
            flow.forget();
            continue;
        }
        let mut silence = 0.0;
        loop {
            let timer = flow.timer();
            silence += timer;
            counts.epochs += timer;
            counts.sent[0] += timer - 1.0;
            counts.sent[1] += 1.0;
            for (sum, row) in counts.in_a_row.iter_mut().zip([2, 8]) {
                // Counts the silent epochs of 1 to L that have `row` - 1 or more silent epochs behind them.
                *sum += (1..=timer as usize - 1).filter(|first| first + row <= timer as usize).count() as f64;
            }
            flow.window = 1;
            if !flow.lost() {
                break;
            }
        }
        counts.silences += 1.0;
        counts.in_silence += silence;
        counts.beyond_20 += (silence - 20.0).max(0.0);
        flow.window = 2;
        let q = 1.0 - flow.p;
        flow.one_hole = flow.rng.f64() < 2.0 * q * q / (1.0 + q);
        flow.forget();
    }
    counts
}

/// `expected` within three standard errors of the ratio of sums of `of` over epochs.
fn agrees(what: &str, blocks: &[Counts], of: impl Fn(&Counts) -> f64, expected: f64) {
    let epochs: f64 = blocks.iter().map(|b| b.epochs).sum();
    let mean = blocks.iter().map(&of).sum::<f64>() / epochs;
    let n = blocks.len() as f64;
    let spread: f64 = blocks.iter().map(|b| (of(b) - mean * b.epochs).powi(2)).sum();
    // A rare event may be missing from the run: the error is at least that of a count of ones.
    let error = ((n / (n - 1.0) * spread).sqrt() / epochs).max((expected / epochs).sqrt());
    assert!(
        (mean - expected).abs() <= 3.0 * error + 1e-9,
        "{what}, seed {SEED:#x}: the process has {mean} +- {error}, the chain {expected}"
    );
}

fn compare(back: Back, settings: Settings, p: f64) {
    let what = format!("{back:?} {settings:?} at {p}");
    let blocks = run(back, settings, p);
    let chain = stationary(back, settings, p).unwrap();
    for (n, share) in chain.sent().iter().enumerate() {
        agrees(&format!("{what}, {n} sent"), &blocks, |b| b.sent[n], *share);
    }
    if settings.t0_epochs.fract() == 0.0 && settings.probe_epochs.is_none_or(|probe| probe.fract() == 0.0) {
        agrees(&format!("{what}, two in a row"), &blocks, |b| b.in_a_row[0], chain.silent_in_a_row(2));
        agrees(&format!("{what}, eight in a row"), &blocks, |b| b.in_a_row[1], chain.silent_in_a_row(8));
    }
    if let Some(silences) = chain.silences() {
        agrees(&format!("{what}, silences"), &blocks, |b| b.silences, silences.per_epoch());
        let mean = silences.per_epoch() * silences.mean_epochs();
        agrees(&format!("{what}, in silence"), &blocks, |b| b.in_silence, mean);
        agrees(&format!("{what}, beyond 20"), &blocks, |b| b.beyond_20, silences.longer_than(20.0));
    }
}

#[test]
fn papers_chains() {
    for p in [0.02, 0.1, 0.2] {
        for back in [Back::Partial, Back::Open(3), Back::Capped(6)] {
            compare(back, Settings::default(), p);
        }
    }
}

#[test]
fn other_memories() {
    for backoff_ends in [BackoffUntil::NewAck, BackoffUntil::NewSample, BackoffUntil::S2] {
        compare(Back::Capped(4), Settings { backoff_ends, ..Settings::default() }, 0.15);
        compare(Back::Open(2), Settings { backoff_ends, ..Settings::default() }, 0.1);
    }
}

#[test]
fn other_windows_and_timers() {
    for (wmax, t0_epochs, repair) in
        [(4, 3.0, FastRetransmit::One), (9, 1.4, FastRetransmit::One), (20, 2.5, FastRetransmit::Sack)]
    {
        for p in [0.03, 0.15] {
            compare(Back::Capped(5), Settings { wmax, t0_epochs, repair, ..Settings::default() }, p);
        }
    }
}

/// Runs the chain with the settings that the operating point uses.
#[test]
fn probes_and_selective_acknowledgments() {
    for (backoff_ends, p) in
        [(BackoffUntil::NewAck, 0.3), (BackoffUntil::NewAck, 0.05), (BackoffUntil::NewSample, 0.2)]
    {
        let settings = Settings {
            wmax: 16,
            t0_epochs: 3.0,
            probe_epochs: Some(2.0),
            backoff_ends,
            repair: FastRetransmit::Sack,
        };
        compare(Back::Capped(7), settings, p);
    }
}
