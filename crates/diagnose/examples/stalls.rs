//! Says who stalls in a capture, and why: `cargo run -p narrows-diagnose --example stalls -- CAPTURE [--json]`.
//! Several captures of one clock, as one of each direction, are read side by side.

use std::fs::File;

use narrows_diagnose::{Analyzer, AnalyzerLimits, FlowReport, Overall, page};
use narrows_units::Duration;
use narrows_wire::capture::Reader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (options, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let mut packets = Vec::new();
    for path in &paths {
        let mut reader = Reader::new(File::open(path)?)?;
        let captured: Vec<_> = reader.by_ref().map_while(Result::ok).collect();
        let origin = reader.origin().unwrap_or(0);
        packets.extend(captured.into_iter().map(|c| (origin + c.at.as_nanos().cast_signed(), c)));
    }
    packets.sort_by_key(|(at, _)| *at);
    let origin = packets.first().map_or(0, |(at, _)| *at);
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    for (at, c) in &packets {
        let since = Duration::from_nanos(u64::try_from(at - origin)?);
        analyzer.packet(narrows_units::Instant::ZERO + since, c.frame, &c.header);
    }
    analyzer.finish();
    let flows: Vec<FlowReport> = analyzer.finished().collect();
    if options.iter().any(|o| o == "--json") {
        println!("{}", serde_json::json!({ "origin_s": origin as f64 / 1e9, "flows": flows }));
        return Ok(());
    }
    let mut overall = Overall::new(Duration::from_secs(5), 10);
    flows.into_iter().for_each(|flow| overall.add(flow));
    overall.finish();
    print!("{}", page(&paths.join(", "), &overall));
    Ok(())
}
