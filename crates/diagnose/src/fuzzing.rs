//! The bodies of the fuzz targets `diagnose` and `qlog`. They stand here so that ordinary tests run them too.

use narrows_units::{Bytes, Duration, Instant};
use narrows_wire::capture::Reader;
use narrows_wire::{FlowKey, Header, Proto, QuicPacket};

use crate::{Analyzer, AnalyzerLimits, Overall, QlogFile, QuicAnalyzer, page, quic_page};

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

/// Reads any bytes as a qlog, and judges a connection with silences by what it says.
///
/// # Panics
/// If what is said contradicts itself.
pub fn qlog(bytes: &[u8]) {
    let file = QlogFile::read(bytes);
    assert_eq!(file.unread > 0, file.first_unread.is_some());
    assert!(file.logs.len() as u64 <= file.events);
    let key = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 50_000, 443, Proto::UDP);
    let extremes = [i64::MIN, 0, 1_600_000_000_000_000_000, i64::MAX].map(|ns| Some(ns.into()));
    for origin in [None].into_iter().chain(extremes) {
        let mut analyzer = QuicAnalyzer::default();
        let short = QuicPacket::Short { spin: false };
        let packets =
            [(0, 0, QuicPacket::Initial), (10, 1, QuicPacket::Initial), (20, 0, short), (30, 1, short)];
        let later =
            [(1000, 1, short), (1100, 0, short), (2100, 0, short), (4000, 1, short), (9000, 0, short)];
        for ((ms, from, quic), frame) in packets.into_iter().chain(later).zip(1..) {
            let key = [key, key.reverse()][from];
            let at = Instant::ZERO + Duration::from_millis(ms);
            analyzer.packet(
                at,
                frame,
                &Header { key, len: Bytes(1228), quic: Some(quic), ..Header::default() },
            );
        }
        let (reports, without) = analyzer.finish_with(&file.logs, origin);
        let judged = usize::from(reports[0].qlog.is_some());
        assert_eq!(judged + without.len(), file.logs.len());
        assert!(reports[0].stalls.iter().all(|s| s.sender.is_some() || !s.by_qlog));
        assert!(!quic_page(&reports, 1).is_empty());
    }
}
