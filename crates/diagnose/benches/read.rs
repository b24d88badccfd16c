//! Packets a second, from a file to what is known of its connections: `cargo bench -p narrows-diagnose --features files
//! --bench read -- CAPTURE`. It is read three times, so that the second finds it in the page cache.

use narrows_diagnose::files::Inputs;
use narrows_diagnose::{Analyzer, AnalyzerLimits, Overall, QuicAnalyzer};
use narrows_testing::cpu_time_ns;
use narrows_units::Duration;

fn main() -> anyhow::Result<()> {
    let Some(path) = std::env::args().skip(1).find(|a| !a.starts_with("--")) else {
        println!("no capture given: nothing to measure");
        return Ok(());
    };
    for _ in 0..3 {
        let start = cpu_time_ns();
        let (mut packets, mut stalls) = (0_u64, 0);
        let mut inputs = Inputs::open(&[path.clone().into()])?;
        let mut analyzer = Analyzer::new(AnalyzerLimits::default());
        let mut overall = Overall::new(Duration::from_secs(5), 10);
        let mut quic = QuicAnalyzer::default();
        while let Some(packet) = inputs.next() {
            packets += 1;
            analyzer.packet(packet.at, packet.frame, &packet.header);
            quic.packet(packet.at, packet.frame, &packet.header);
            for flow in analyzer.finished() {
                stalls += flow.stalls.len();
                overall.add(flow);
            }
        }
        analyzer.finish();
        for flow in analyzer.finished() {
            stalls += flow.stalls.len();
            overall.add(flow);
        }
        let seconds = (cpu_time_ns() - start) / 1e9;
        println!(
            "{packets} packets, {} connections, {stalls} stalls: {seconds:.2} s of the processor, {:.2} M packets/s",
            analyzer.begun(),
            packets as f64 / seconds / 1e6
        );
    }
    Ok(())
}
