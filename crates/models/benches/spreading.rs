//! Measures the time of the tables of Initial Spreading: `cargo bench -p narrows-models --bench spreading`. They are
//! all `T(S_i^n)`, with and without fast retransmit, with `i <= n`, and all `T(B_i^n)` with `n <= i`, with their
//! standard deviations; the bound is 1 s to n = i = 64.

#![expect(clippy::disallowed_methods, reason = "a bench is a driver: it has a clock")]

use std::hint::black_box;
use std::time::Instant;

use narrows_models::Result;
use narrows_models::spreading::{Backoff, Delivery, Parameters, Spreading};

fn main() -> Result<()> {
    let parameters = Parameters { loss: 0.065, rtt_s: 0.1, rto_s: 1.0, backoff: Backoff::SingleSegment };
    for most in [10, 64, 128] {
        let started = Instant::now();
        let model = Spreading::new(parameters, most)?;
        let made = started.elapsed();
        let later = table(most, |i, n| model.b(n, i))?;
        let with_b = started.elapsed();
        let spread = table(most, |i, n| model.s(i, n))? + table(most, |i, n| model.s_no_fr(i, n))?;
        let all = started.elapsed();
        println!(
            "to {most:>3} segments: made {made:>9.2?}, T(B) {:>9.2?}, T(S) {:>9.2?}, together {all:>9.2?}   (sums \
             {later:.3} s, {spread:.3} s)",
            with_b - made,
            all - with_b,
        );
    }
    let started = Instant::now();
    let model = Spreading::new(parameters, 1024)?;
    black_box((model.d(1024, 10)?, model.s(1024, 1024)?, model.b(1024, 1)?));
    println!("one transfer of 1024 segments: {:.2?}", started.elapsed());
    Ok(())
}

/// The sum of the means, so that nothing is left out.
fn table(most: usize, of: impl Fn(usize, usize) -> Result<Delivery>) -> Result<f64> {
    let mut sum = 0.0;
    for n in 1..=most {
        for i in 1..=n {
            sum += of(i, n)?.mean_s;
        }
    }
    Ok(sum)
}
