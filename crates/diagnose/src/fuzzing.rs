//! The body of the fuzz target `diagnose`. The target stands here so that ordinary tests run it too.

use narrows_units::{Duration, Instant};
use narrows_wire::capture::Reader;

use crate::{Analyzer, AnalyzerLimits, Overall, page};

/// Diagnoses any bytes as a capture.
///
/// # Panics
/// If what is said contradicts itself.
pub fn diagnose(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes) else { return };
    let mut analyzer = Analyzer::new(AnalyzerLimits {
        connections: 16,
        linger: Duration::from_secs(1),
        silence: Duration::from_secs(60),
    });
    let mut overall = Overall::new(Duration::from_secs(5), 3);
    let (mut last, mut packets) = (Instant::ZERO, 0);
    let mut take = |analyzer: &mut Analyzer| {
        for flow in analyzer.finished() {
            let end = flow.to;
            assert!(flow.from <= end && flow.stalls.iter().all(|s| s.from <= s.to && !s.frames.is_empty()));
            overall.add(flow);
        }
    };
    for captured in reader.flatten() {
        last = last.max(captured.at);
        packets += u64::from(analyzer.packet(captured.at, captured.frame, &captured.header).is_some());
        assert!(analyzer.open() <= 16);
        take(&mut analyzer);
    }
    analyzer.finish();
    take(&mut analyzer);
    overall.finish();
    assert_eq!(overall.packets, packets);
    assert!(!page("any", &overall).is_empty());
}
