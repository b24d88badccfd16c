//! Packets a second, from files to what is known of their connections: `cargo bench -p narrows-diagnose --features
//! files --bench read -- CAPTURE...`. They are read three times in one thread, whose time on a processor counts, and
//! three times ahead by a second, where the time on the clock does: two processors must be idle for that. The first
//! time brings the files into the page cache.

use std::path::PathBuf;
use std::time::Instant;

use narrows_diagnose::files::{Inputs, ReadAhead};
use narrows_diagnose::{Analyzer, AnalyzerLimits, Overall, QuicAnalyzer};
use narrows_testing::cpu_time_ns;
use narrows_units::Duration;

/// Sums over all connections.
#[derive(Default)]
struct Found {
    packets: u64,
    connections: u64,
    stalls: usize,
}

fn diagnose(mut inputs: ReadAhead) -> Found {
    let (mut packets, mut stalls) = (0, 0);
    let mut analyzer = Analyzer::new(AnalyzerLimits::default());
    let mut overall = Overall::new(Duration::from_secs(5), 10);
    let mut quic = QuicAnalyzer::default();
    let mut take = |analyzer: &mut Analyzer| {
        for flow in analyzer.finished() {
            stalls += flow.stalls.len();
            overall.add(flow);
        }
    };
    while let Some(packet) = inputs.next() {
        packets += 1;
        analyzer.packet(packet.at, packet.frame, &packet.header);
        quic.packet(packet.at, packet.frame, &packet.header);
        take(&mut analyzer);
    }
    analyzer.finish();
    take(&mut analyzer);
    Found { packets, connections: analyzer.begun(), stalls }
}

fn main() -> anyhow::Result<()> {
    let captures: Vec<PathBuf> =
        std::env::args().skip(1).filter(|a| !a.starts_with("--")).map(PathBuf::from).collect();
    if captures.is_empty() {
        println!("no capture given: nothing to measure");
        return Ok(());
    }
    for ahead in [false, false, false, true, true, true] {
        let (clock, here) = (Instant::now(), cpu_time_ns());
        let inputs = Inputs::open(&captures)?;
        let reading = if ahead { ReadAhead::in_thread(inputs) } else { ReadAhead::in_place(inputs) };
        let Found { packets, connections, stalls } = diagnose(reading);
        let here = (cpu_time_ns() - here) / 1e9;
        let rate = |seconds: f64| packets as f64 / seconds / 1e6;
        if ahead {
            let seconds = clock.elapsed().as_secs_f64();
            let rate = rate(seconds);
            println!(
                "read ahead: {seconds:.2} s, of the thread that follows {here:.2} s: {rate:.2} M packets/s on two"
            );
        } else {
            let rate = rate(here);
            println!(
                "{packets} packets, {connections} connections, {stalls} stalls: {here:.2} s of the processor, \
                 {rate:.2} M packets/s"
            );
        }
    }
    Ok(())
}
