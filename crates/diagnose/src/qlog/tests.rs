//! Logs by hand: one connection in the forms of several drafts, broken ones, and what they say of silences.

use narrows_units::Duration;

use super::*;

/// Four packets at 100 ms, one of which is acknowledged; the probe timer at 1100 ms; the answer at 1200 ms acknowledges
/// the probe, and two packets are lost.
const EVENTS: [(u64, &str, &str); 8] = [
    (90, "transport:packet_received", r#"{"header":{"packet_type":"initial","packet_number":0}}"#),
    (
        100,
        "transport:packet_sent",
        r#"{"header":{"packet_type":"1RTT","packet_number":0},"raw":{"length":1200}}"#,
    ),
    (100, "transport:packet_sent", r#"{"header":{"packet_type":"1RTT","packet_number":1},"frames":[]}"#),
    (100, "recovery:metrics_updated", r#"{"bytes_in_flight":2400,"min_rtt":50}"#),
    (1100, "recovery:loss_timer_updated", r#"{"timer_type":"pto","event_type":"expired"}"#),
    (1100, "transport:packet_sent", r#"{"header":{"packet_type":"1RTT","packet_number":2}}"#),
    (
        1200,
        "transport:packet_received",
        r#"{"header":{"packet_type":"1RTT","packet_number":1},"frames":[{"frame_type":"ack","acked_ranges":[[2]]}]}"#,
    ),
    (1200, "recovery:packet_lost", r#"{"header":{"packet_type":"1RTT","packet_number":0}}"#),
];

fn event(time: impl core::fmt::Display, name: &str, data: &str) -> String {
    format!("{{\"time\":{time},\"name\":\"{name}\",\"data\":{data}}}")
}

/// The events as one object of 0.3.
fn object() -> String {
    let events: Vec<String> = EVENTS.iter().map(|(ms, name, data)| event(ms, name, data)).collect();
    format!(
        "{{\"qlog_version\":\"0.3\",\"traces\":[{{\"vantage_point\":{{\"type\":\"server\"}},\"title\":\"a\",\
         \"events\":[{}],\"common_fields\":{{\"time_format\":\"relative\",\"reference_time\":0}}}}]}}",
        events.join(",\n")
    )
}

fn read(text: &str) -> QlogFile {
    QlogFile::read(text.as_bytes())
}

/// Figures of the one connection of a file: packets, lost ones, expiries, time from the first to the last, ms.
fn known(file: &QlogFile) -> (usize, [u64; 2], usize, i64) {
    assert_eq!((file.logs.len(), file.unread, &file.first_unread), (1, 0, &None));
    let log = &file.logs[0];
    let begun = log.received[0];
    (log.packets.len(), log.lost(), log.expired.len(), (log.last - begun) / 1_000_000)
}

const KNOWN: (usize, [u64; 2], usize, i64) = (3, [1, 0], 1, 1110);

#[test]
fn one_object_as_narrows_writes_it() {
    let file = read(&object());
    assert_eq!((known(&file), file.events, file.logs[0].owner), (KNOWN, 8, Some(1)));
    assert_eq!(
        (file.logs[0].least_trip, file.logs[0].packets[2].acked),
        (Some(50_000_000), Some(1_200_000_000))
    );
}

#[test]
fn records_with_and_without_separators() {
    // Main schema 0.3 and 0.4, sections 6 and 11: JSON-SEQ; JSON by lines until draft 02.
    let head = "{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"trace\":{\"vantage_point\":{\"type\":\
                \"unknown\"},\"common_fields\":{\"time_format\":\"relative_to_epoch\",\"reference_time\":\
                {\"clock_type\":\"system\",\"epoch\":\"1970-01-01T00:00:00.000Z\"}}}}";
    for separator in ["\u{1e}", ""] {
        let mut text = format!("{separator}{head}\n");
        for (ms, name, data) in EVENTS {
            // Later drafts call the schema of packets quic.
            let name = name.replace("transport:", "quic:");
            text += &format!("{separator}{}\n", event(ms, &name, data));
        }
        let file = read(&text);
        // The vantage point is not told, and who receives first is the server.
        assert_eq!((known(&file), file.logs[0].owner), (KNOWN, Some(1)), "{separator:?}");
    }
}

#[test]
fn lists_of_draft_01_with_numbers_as_text_and_microseconds() {
    let events: Vec<String> = EVENTS
        .iter()
        .map(|(ms, name, data)| {
            let (category, name) = name.split_once(':').unwrap();
            // Whatever follows "packet_number": is a digit.
            let mut data = data.to_string();
            for digit in 0..3 {
                data = data.replace(&format!("number\":{digit}"), &format!("number\":\"{digit}\""));
            }
            format!("[\"{}\",\"{category}\",\"{}\",\"DEFAULT\",{data}]", ms * 1000, name.to_uppercase())
        })
        .collect();
    // The time is a text as well, and an empty event follows the last comma.
    let events = events.join(",") + ",[]";
    let text = format!(
        "{{\"qlog_version\":\"draft-01\",\"traces\":[{{\"configuration\":{{\"time_units\":\"us\"}},\
         \"event_fields\":[\"relative_time\",\"category\",\"event_type\",\"trigger\",\"data\"],\
         \"events\":[{events}]}}]}}"
    );
    assert_eq!(known(&read(&text)), KNOWN);
}

#[test]
fn times_that_are_differences_and_clocks() {
    let mut last = 0;
    let events: Vec<String> = EVENTS
        .iter()
        .map(|(ms, name, data)| event(ms - core::mem::replace(&mut last, *ms), name, data))
        .collect();
    let text = |format: &str| {
        object()
            .replace("relative\"", &format!("{format}\""))
            .replace("reference_time\":0", "reference_time\":1600000000000")
    };
    let text = |format: &str, events: &str| {
        let whole = text(format);
        let begin = whole.find("\"events\":[").unwrap() + 10;
        let end = whole.find("],\"common").unwrap();
        format!("{}{events}{}", &whole[..begin], &whole[end..])
    };
    let file = read(&text("delta", &events.join(",")));
    assert_eq!(known(&file), KNOWN);
    assert_eq!(file.logs[0].received[0], 1_600_000_000_090_000_000);
}

#[test]
fn a_clock_that_is_told_as_a_date() {
    // As quic-go does: a monotonic clock, with the time of day at its beginning.
    let first = |clock: &str| {
        let told =
            format!("{{\"clock_type\":\"monotonic\",\"epoch\":\"unknown\",\"wall_clock_time\":\"{clock}\"}}");
        read(&object().replace("reference_time\":0", &format!("reference_time\":{told}"))).logs[0].received[0]
    };
    // 90 ms after the leap day of 2024, which is day 19782.
    assert_eq!(first("2024-02-29T00:00:01.5Z"), (19_782 * 86_400_000 + 1590) * 1_000_000);
    assert_eq!(first("2024-02-29T01:30:01.5+01:30"), (19_782 * 86_400_000 + 1590) * 1_000_000);
    assert_eq!(first("1970-01-01T00:00:00Z"), 90_000_000);
    for none in
        ["", "T", "2024-02-29T0:0", "2024-02-29", "2024-13-01T00:00:00Z", "\u{e9}T\u{e9}\u{e9}\u{e9}\u{e9}"]
    {
        assert_eq!(first(none), 90_000_000, "{none}");
    }
}

#[test]
fn what_quinn_writes() {
    // No ACK frames, no timers: the count of expiries rises; connections share a trace.
    let mut text =
        "\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{\"vantage_point\":{}}}\n"
            .to_owned();
    for (group, ms) in [("aa", 0), ("bb", 5)] {
        for (after, name, data) in [
            (0, "transport:packet_received", r#"{"header":{"packet_type":"initial","packet_number":0}}"#),
            (
                1,
                "transport:packet_sent",
                r#"{"header":{"packet_type":"handshake","packet_number":0,"length":99}}"#,
            ),
            (900, "recovery:metrics_updated", r#"{"pto_count":1}"#),
            (2900, "recovery:metrics_updated", r#"{"pto_count":2}"#),
            (3000, "recovery:metrics_updated", r#"{"pto_count":0,"bytes_in_flight":0}"#),
        ] {
            text += &format!(
                "\u{1e}{{\"time\":{},\"name\":\"{name}\",\"data\":{data},\"group_id\":\"{group}\"}}\n",
                ms + after
            );
        }
    }
    let file = read(&text);
    assert_eq!((file.logs.len(), file.events, file.unread), (2, 10, 0));
    assert_eq!(file.logs[1].name, "bb");
    assert_eq!((file.logs[1].expired.len(), file.logs[1].in_flight.len()), (2, 1));
}

#[test]
fn what_cannot_be_read_is_counted_and_named() {
    let whole = object();
    // Cut within the last event: what came before is kept.
    let file = read(&whole[..whole.find("packet_lost").unwrap()]);
    assert_eq!((file.events, file.unread, file.logs.len()), (7, 1, 1));
    assert!(file.first_unread.unwrap().contains("line 8"));
    // An event without a time, and a record that is no JSON.
    let file = read(&whole.replace("{\"time\":90,", "{"));
    assert_eq!((file.events, file.unread), (7, 1));
    assert_eq!(file.first_unread.as_deref(), Some("event 1: expected time, name and data"));
    let file = read("\u{1e}{\"trace\":{}}\n\u{1e}{\"time\":1,\n\u{1e}{\"time\":1,\"name\":\"a\"}\n");
    assert_eq!((file.events, file.unread), (1, 1));
    assert!(file.first_unread.unwrap().starts_with("record 2: "));
    for (text, says) in
        [("", "EOF"), ("no qlog", "line 1"), ("{}", "expected a member"), ("[1]", "expected an object")]
    {
        let file = read(text);
        assert!(
            file.events == 0 && file.first_unread.as_deref().is_some_and(|s| s.contains(says)),
            "{file:?}"
        );
    }
}

#[test]
fn no_record_is_longer_than_a_megabyte() {
    let long = format!("{{\"time\":1,\"name\":\"{}\"}}", "x".repeat(1 << 20));
    let file = read(&format!("{{\"trace\":{{}}}}\n{long}\n{}\n", event(1, "a", "{}")));
    assert_eq!((file.events, file.unread), (1, 1));
}

fn at(ms: u64) -> narrows_units::Instant {
    narrows_units::Instant::ZERO + Duration::from_millis(ms)
}

/// Word of the log about a silence in a capture at the server, which begins 90 ms after the log's clock.
fn said(log: &SenderLog, from: u64, to: u64, ended_by: usize) -> Option<SenderWord> {
    let ends = ["10.0.0.1:50000", "192.0.2.1:443"].map(|end| end.parse().unwrap());
    let passed = Passed { ends, first: at(0), answered: Some(at(10)), last: at(2000) };
    log.aligned(&passed, None)?.word(&Silence { from: at(from), to: at(to), ended_by, asks: None })
}

#[test]
fn a_silence_after_which_packets_are_lost() {
    let file = read(&object());
    let word = said(&file.logs[0], 10, 1110, 0).unwrap();
    assert_eq!((word.by, word.timeouts, word.lost, word.needless), (1, 1, 1, false));
    // Before the expiry, and behind the log.
    assert_eq!(said(&file.logs[0], 10, 900, 0).unwrap().timeouts, 0);
    assert_eq!(said(&file.logs[0], 1500, 1900, 0), None);
}

#[test]
fn a_timer_that_was_needless() {
    // The answer acknowledges what was sent before, and not the probe.
    let text = object().replace("[[2]]", "[[\"0\",\"1\"]]").replace("packet_lost", "packet_lost_not");
    let word = said(&read(&text).logs[0], 10, 1110, 0).unwrap();
    assert_eq!((word.timeouts, word.lost, word.needless), (1, 0, true));
    // With the probe, it may have answered that.
    let word = said(&read(&text.replace("[[\"0\",\"1\"]]", "[[0,2]]")).logs[0], 10, 1110, 0).unwrap();
    assert!(!word.needless);
    // A loss that was none: the packet came nevertheless.
    let late = r#"{"frames":[{"acked_ranges":[[1]]}]}"#;
    let more = [
        event(1200, "recovery:packet_lost", r#"{"packet_number":1}"#),
        event(1300, "transport:packet_received", late),
    ];
    let text = object().replace("],\"common", &format!(",{}],\"common", more.join(",")));
    assert_eq!(read(&text).logs[0].lost(), [2, 1]);
}

#[test]
fn an_application_that_has_nothing_to_send() {
    let text = |bytes: u64| {
        object()
            .replace("loss_timer_updated", "nothing")
            .replace("\"bytes_in_flight\":2400", &format!("\"bytes_in_flight\":{bytes}"))
    };
    let idle = |text: &str| said(&read(text).logs[0], 10, 1010, 1).unwrap().idle;
    assert_eq!((idle(&text(0)), idle(&text(2400))), (Some(true), Some(false)));
    // The other end allows no more: then it is not the application.
    let blocked = text(0).replace("\"frames\":[]", "\"frames\":[{\"frame_type\":\"data_blocked\"}]");
    assert_eq!(idle(&blocked), None);
    // A log without bytes in flight does not tell.
    assert_eq!(idle(&text(0).replace("bytes_in_flight", "bytes")), None);
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let records = object().replace("\n", "").replace("{\"time", "\n{\"time");
    let mut rng = narrows_testing::Rng(7);
    for whole in [object(), records.replace("traces\":[{", "trace\":{"), object().replace("90,", "1e300,")] {
        crate::fuzzing::qlog(whole.as_bytes());
        for _ in 0..500 {
            let mut bytes = whole.as_bytes().to_vec();
            for _ in 0..1 + rng.below(6) {
                let at = rng.below(bytes.len() as u64) as usize;
                // Digits in place of digits reach further than any byte.
                bytes[at] = if bytes[at].is_ascii_digit() {
                    b'0' + rng.below(10) as u8
                } else {
                    rng.below(256) as u8
                };
                if rng.below(8) == 0 {
                    bytes.truncate(at + 1);
                }
            }
            crate::fuzzing::qlog(&bytes);
        }
    }
}
