use super::*;
use crate::worker::record::{ConnectRecord, LongRecord, PageRecord, PartRecord};
use crate::worker::{ClientResult, Cost, UploadRecord};

fn scenario(traffic: &str) -> Scenario {
    scenario_of(&format!("warmup='20s'\n{traffic}"))
}

fn scenario_of(traffic: &str) -> Scenario {
    let text = format!("name='t'\nrate='600kbit'\ndisciplines=['fifo:30']\n{traffic}");
    Scenario::parse(&text, &[]).unwrap()
}

fn run(client: ClientResult) -> RunRecord {
    RunRecord {
        discipline: "fifo:30".into(),
        seed: 1,
        client,
        calls: Vec::new(),
        costs: Vec::new(),
        uploads: Vec::new(),
        server: Default::default(),
        emulator: Default::default(),
        status: serde_json::json!({"down": {"report": {"counters": {
            "arrived": 200, "dropped": {"over_limit": 15, "pushed_out": 5}, "suppressed": 2, "marked": 0}}}}),
        samples: Vec::new(),
        box_waits_ms: vec![0.1, 7.0],
        cpu_s: None,
    }
}

#[test]
fn jain_by_hand() {
    assert_eq!(jain(&[3.0, 3.0]), 1.0);
    assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
    assert_eq!(jain(&[0.0, 0.0]), 0.0);
}

#[test]
fn what_is_cut_off_counts() {
    let done = |start: f64, end: f64, size: u32| ObjectRecord {
        size,
        start,
        end,
        connected: Some(start + 0.5),
        done: Some(end),
        stall: 1.0,
        ..ObjectRecord::default()
    };
    let cut = ObjectRecord { size: 2000, start: 10.0, end: 120.0, stall: 110.0, ..ObjectRecord::default() };
    let warm = done(1.0, 19.0, 2000);
    let objects = vec![warm, done(30.0, 34.0, 2000), done(30.0, 36.0, 4000), done(30.0, 50.0, 20_000), cut];
    let mut bins = vec![1000; 120];
    bins[110] += 0;
    let client = ClientResult {
        objects,
        lasted: 120.0,
        bins: vec![bins],
        user_stalls: vec![27.0, 1.0],
        ..Default::default()
    };
    let v = measure(&scenario("[[traffic]]\nkind='objects'\nusers=1"), &run(client));
    assert_eq!((v["objects_done"], v["objects_cut"]), (3.0, 1.0));
    assert_eq!(v["object_p50_s"], 6.0);
    assert_eq!((v["served_mean_s"], v["served_p50_s"]), (9.5, 5.5), "3.5, 5.5 and 19.5 s");
    assert_eq!(v["per_kb_p50_s"], 1.5, "2, 1.5 and 1 s/kB");
    assert_eq!(v["stall_max_s"], 110.0);
    assert_eq!(v["stall_over_5s"], 0.25);
    assert_eq!(v["connect_p50_s"], 0.5);
    assert!(v["connect_p99_s"] > 100.0, "a connection never made waits to the end");
    assert_eq!((v["user_stall_max_s"], v["user_stall_over_20s"]), (27.0, 0.5));
    assert_eq!(v["goodput_kbps"], 8.0);
    assert_eq!((v["dropped"], v["suppressed"]), (0.1, 0.01));
    assert!(spoiled(&v).is_some_and(|why| why.contains("the box")), "6.9 ms at p99");
}

#[test]
fn a_frame_that_the_emulator_lost_spoils_a_run() {
    let s = scenario("[[traffic]]\nkind='long'\nflows=1");
    let mut record = run(ClientResult { lasted: 120.0, bins: vec![vec![0; 120]], ..Default::default() });
    record.box_waits_ms = Vec::new();
    assert_eq!(spoiled(&measure(&s, &record)), None);
    record.emulator.overrun = 1;
    assert!(spoiled(&measure(&s, &record)).is_some_and(|why| why.contains("no room for 1 frames")));
}

#[test]
fn the_users_of_each_transport_stall_by_themselves() {
    let client = ClientResult {
        bins: vec![vec![0; 60]; 5],
        lasted: 60.0,
        addresses: vec![0, 1, 2, 3, 4],
        user_stalls: vec![21.0, 6.0, 1.0, 4.0, 30.0],
        ..ClientResult::default()
    };
    let file = "duration='60s'\n[[traffic]]\nkind='objects'\nusers=2\ntransport='tls'\n\
        [[traffic]]\nkind='objects'\nusers=3\ntransport='quic'";
    let v = measure(&scenario(file), &run(client));
    let shares = |key| ["", "tls_", "quic_"].map(|of| v[&format!("{of}user_stall_over_{key}")]);
    assert_eq!(shares("5s"), [0.6, 1.0, 1.0 / 3.0]);
    assert_eq!(shares("20s"), [0.4, 0.5, 1.0 / 3.0]);
}

#[test]
fn waste_is_what_the_idle_link_would_not_have_carried() {
    let connected =
        |user, at, got| ObjectRecord { user, connected: Some(at), got, end: at + 1.0, ..Default::default() };
    // Two users: one over TLS, the other over QUIC; the first second is the warm-up.
    let client = ClientResult {
        objects: vec![connected(0, 0.5, 10_000), connected(0, 1.5, 9_000), connected(1, 2.5, 2_000)],
        bins: vec![vec![9_000, 10_000, 0], vec![0, 0, 2_000]],
        link: vec![vec![9_999, 14_000, 0], vec![0, 0, 10_000]],
        lasted: 3.0,
        ..ClientResult::default()
    };
    let cost = |empty, full| Some(Cost { points: vec![(0, empty), (10_000, full)] });
    let costs = vec![cost(1_500, 12_500), cost(2_800, 14_800)];
    let file = "duration='3s'\n[[traffic]]\nkind='objects'\nusers=1\ntransport='tls'\n\
        [[traffic]]\nkind='objects'\nusers=1\ntransport='quic'";
    let scenario = Scenario { warmup: crate::scenario::Span::from_secs(1.0), ..scenario_of(file) };
    let v = measure(&scenario, &RunRecord { costs, ..run(client.clone()) });
    // TLS needed 1500 + 9900 for the new connection and 1100 for the old one of 14000 bytes, QUIC 2800 + 2400 of 10000.
    assert_eq!((v["link_bytes"], v["useful_bytes"]), (24_000.0, 12_000.0));
    assert!((v["waste"] - (1.0 - 17_700.0 / 24_000.0)).abs() < 1e-12, "{v:?}");
    assert!((v["tls_waste"] - 1_500.0 / 14_000.0).abs() < 1e-12, "{v:?}");
    assert!((v["quic_waste"] - 0.48).abs() < 1e-12, "{v:?}");
    let unknown = RunRecord { costs: vec![cost(1_500, 12_500), None], ..run(client) };
    assert!(!measure(&scenario, &unknown).contains_key("waste"));
}

#[test]
fn flows_with_nothing_lower_the_index() {
    let long = (0..4).map(|user| LongRecord { user, ..LongRecord::default() }).collect();
    let mut bins = vec![vec![0; 60]; 4];
    bins[0] = vec![100; 60];
    bins[1][..20].fill(100);
    let client = ClientResult { long, bins, lasted: 60.0, ..ClientResult::default() };
    let v = measure(&scenario("duration='60s'\n[[traffic]]\nkind='long'\nflows=4"), &run(client));
    // Two slices after the warm-up, one flow alive of four in each.
    assert_eq!((v["jain_20s"], v["zero_slices"]), (0.25, 0.75));
}

#[test]
fn medians_of_seeds() {
    let run = |x: f64| Values::from([("goodput_kbps".to_owned(), x)]);
    let s = summarize(&[run(3.0), run(1.0), run(2.0)])["goodput_kbps"];
    assert_eq!((s.median, s.min, s.max), (2.0, 1.0, 3.0));
}

#[test]
fn pages_by_hand() {
    let page = |user, start: f64, took: Option<f64>, size| PageRecord {
        user,
        start,
        done: took.map(|t| start + t),
        end: took.map_or(60.0, |t| start + t),
        parts: vec![PartRecord {
            size,
            start: Some(start + 0.5),
            done: took.map(|t| start + t),
            ..PartRecord::default()
        }],
        connects: vec![ConnectRecord { start, connected: Some(start + 0.5), got: u64::from(size) }],
        ..PageRecord::default()
    };
    let warm = page(0, 1.0, Some(2.0), 50_000);
    let pages = vec![
        warm,
        page(0, 30.0, Some(2.0), 50_000),
        page(0, 40.0, Some(8.0), 400_000),
        page(1, 30.0, Some(5.0), 200_000),
        page(1, 50.0, None, 200_000),
    ];
    let client = ClientResult { pages, bins: vec![vec![0; 60]; 2], lasted: 60.0, ..ClientResult::default() };
    let file = "duration='60s'\n[[traffic]]\nkind='pages'\nhttp='1.1'\nusers=1\nobjects=1\n\
        [[traffic]]\nkind='pages'\nhttp='2'\nusers=1\nobjects=1";
    let v = measure(&scenario(file), &run(client));
    assert_eq!((v["pages_done"], v["pages_cut"], v["page_mean_s"], v["page_p50_s"]), (3.0, 1.0, 5.0, 5.0));
    assert_eq!((v["page_small_p50_s"], v["page_large_p50_s"]), (2.0, 8.0));
    assert_eq!((v["http1_page_mean_s"], v["http2_page_mean_s"], v["http2_pages_done"]), (5.0, 5.0, 1.0));
    assert_eq!((v["connect_p50_s"], v["page_object_p50_s"]), (0.5, 4.5));
    assert!(!v.contains_key("tls_page_p50_s"), "both go over TLS");
}

#[test]
fn calls_by_hand() {
    use crate::worker::record::{CallEnd, CallEnds};
    let s = scenario_of(
        "rtt='100ms'\nwarmup='2s'\n[[traffic]]\nkind='long'\nflows=3\n\
         [[traffic]]\nkind='calls'\nflows=2\nbeside='long'",
    );
    let ms = 1_000_000;
    // Six seconds from 1000 s on: packets sent from 1002 to 1005 s count.
    let at = |seconds: f64| (seconds * 1e9) as u64;
    let user = |sent: &[f64], came: &[(f64, u64)]| CallEnd {
        sent: sent.iter().map(|s| at(*s)).collect(),
        came: came.iter().map(|(s, took)| (at(*s), took * ms)).collect(),
    };
    let times = [1001.0, 1002.0, 1003.0, 1004.0, 1005.5];
    let users = CallEnds {
        began: at(1000.0),
        ends: vec![
            user(&times, &[(1001.0, 900), (1002.0, 50), (1003.0, 82), (1004.0, 66)]),
            user(&times, &[(1002.0, 61), (1003.0, 49)]),
        ],
    };
    let heard = [(1002.0, 50), (1003.0, 50), (1004.0, 50)];
    let server = CallEnds { began: 0, ends: vec![user(&times, &heard), user(&times, &heard)] };
    let calls = records(&s, &users, &server, 6.0);
    assert_eq!(calls.iter().map(|c| c.user).collect::<Vec<_>>(), [0, 1]);
    // Half of the round trip is propagation, and nothing comes before its time.
    assert_eq!((calls[0].down.sent, &calls[0].down.added_ms), (3, &vec![0.0, 32.0, 16.0]));
    assert_eq!((calls[1].down.sent, &calls[1].down.added_ms), (3, &vec![11.0, 0.0]));
    // D of 32 ms, then of 16: J = 2 ms, then 2 + 14/16.
    assert!((calls[0].down.jitter_s.unwrap() - 2.4375e-3).abs() < 1e-8);
    let v = measure(&s, &RunRecord { calls, ..run(ClientResult { lasted: 6.0, ..Default::default() }) });
    let near = |key: &str, x: f64| assert!((v[key] - x).abs() < 1e-9, "{key} {}", v[key]);
    // The second call lost one of three.
    near("calls_good", 0.5);
    near("call_down_loss", 1.0 / 6.0);
    near("call_down_added_p50_s", 0.011);
    near("call_down_added_max_s", 0.032);
    near("call_up_loss", 0.0);
    near("call_up_sent", 6.0);
}

#[test]
fn the_link_before_the_box_has_rows_of_its_own() {
    let s = scenario("[[traffic]]\nkind='long'\nflows=1");
    let mut record = run(ClientResult { lasted: 120.0, bins: vec![vec![0; 120]], ..Default::default() });
    let link = crate::worker::ThinResult {
        capacity: 1000,
        used: 900,
        arrived: 50,
        dropped: 5,
        outages: 1,
        there_p50_ms: 100.0,
        there_p95_ms: 500.0,
        there_p99_ms: 700.0,
    };
    assert!(!measure(&s, &record).contains_key("before_used"));
    record.emulator.down = Some(link.clone());
    record.emulator.up = Some(crate::worker::ThinResult { used: 10, ..link });
    record.status["down"]["report"]["follows"] = serde_json::json!({"rate_bps": 640_000});
    let v = measure(&s, &record);
    assert_eq!((v["before_used"], v["before_there_p95_s"], v["before_dropped"]), (0.9, 0.5, 0.1));
    assert_eq!((v["before_up_used"], v["believed_kbps"]), (0.01, 640.0));
}

#[test]
fn an_object_of_a_page_stalls_while_nothing_of_it_comes() {
    let mut part = PartRecord::default();
    part.hear(1.0);
    assert_eq!(part.stall, None, "nobody has asked for it");
    part.waits = Some(1.0);
    for now in [1.5, 7.5, 8.0] {
        part.hear(now);
    }
    assert_eq!(part.stall, Some(6.0));
}

#[test]
fn uploads_are_counted_by_themselves() {
    let s = scenario("up_rate='128kbit'\n[[traffic]]\nkind='long'\nflows=2\nfrom='clients'\nto='servers'");
    let mut record = run(ClientResult { lasted: 120.0, ..Default::default() });
    let upload = |user| UploadRecord { user, bins: vec![1000; 120], stall: 3.0 };
    record.uploads = vec![upload(0), upload(1)];
    let v = measure(&s, &record);
    assert_eq!((v["up_goodput_kbps"], v["up_stall_max_s"], v["goodput_kbps"]), (16.0, 3.0, 0.0));
    record.uploads.pop();
    assert_eq!(measure(&s, &record)["up_stall_max_s"], 100.0, "one got nothing through");
}
