//! Measures the time of TAQ's chain and of an operating point: `cargo bench -p narrows-models --bench chain`. The bound
//! is 1 ms for the whole chain at one loss; a map of operating points asks for tens of thousands.

#![expect(clippy::disallowed_methods, reason = "a bench is a driver: it has a clock")]

use std::hint::black_box;
use std::time::Instant;

use narrows_models::Result;
use narrows_models::operating::{Bottleneck, operating_point};
use narrows_models::taq_chain::{Back, FastRetransmit, Settings, stationary};
use narrows_units::{Duration, Rate};

fn main() -> Result<()> {
    let paper = Settings::default();
    let wide = Settings { wmax: 10_000, repair: FastRetransmit::Sack, ..paper };
    for (name, back, settings, loss) in [
        ("partial, Wmax 6, p = 0.1", Back::Partial, paper, 0.1),
        ("F3, Wmax 6, p = 0.1", Back::Open(3), paper, 0.1),
        ("F64, Wmax 6, p = 0.1", Back::Capped(6), paper, 0.1),
        ("F64, Wmax 100, p = 0.01", Back::Capped(6), Settings { wmax: 100, ..paper }, 0.01),
        ("F64, Wmax 10 000, SACK, p = 10^-6", Back::Capped(6), wide, 1e-6),
    ] {
        measure(name, || stationary(back, settings, loss).map(|chain| chain.packets_per_epoch()))?;
    }
    for flows in [2, 20, 100, 1000] {
        let link = Bottleneck::new(Rate::from_kbps(2000), Duration::from_millis(200), flows);
        measure(&format!("operating point, {flows} flows on 2 Mbit/s"), || {
            operating_point(&link).map(|point| point.loss)
        })?;
    }
    Ok(())
}

/// The least mean of five runs of 50 ms.
fn measure(name: &str, what: impl Fn() -> Result<f64>) -> Result<()> {
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let started = Instant::now();
        let mut times = 0;
        while started.elapsed().as_millis() < 50 {
            black_box(what()?);
            times += 1;
        }
        least = least.min(started.elapsed().as_secs_f64() / f64::from(times));
    }
    println!("{name:<40} {:>10.2} us", 1e6 * least);
    Ok(())
}
