//! Runs a scenario file under each of its seeds and prints every figure of the summary:
//! `cargo run --release -p narrows-sim --example summary -- FILE [KEY=VALUE ...]`

use core::ops::ControlFlow;
use std::path::Path;

use narrows_scenario::Experiment;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("expected a scenario file")?;
    let sets: Vec<String> = args.collect();
    for run in Experiment::load(Path::new(&file), &sets)?.expand()? {
        let results = narrows_sim::run(&run.scenario, run.seed, &mut |_| ControlFlow::Continue(()))?;
        println!("# {} seed {} {:?}", run.scenario.name, run.seed, run.coords);
        for (name, value) in &results.summary {
            println!("{name} {value}");
        }
    }
    Ok(())
}
