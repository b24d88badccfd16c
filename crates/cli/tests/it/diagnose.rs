//! `narrows diagnose` from outside: what a user types, what comes out.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use narrows_testing::Scratch;
use narrows_units::{Bytes, Instant, SeqNum};
use narrows_wire::capture::Writer;
use narrows_wire::{Flags, FlowKey, Header, Proto, QuicPacket, TcpHeader};

/// Where a test runs the program.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Self {
        Self(Scratch::new(&format!("diagnose-{name}")))
    }
    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }
}

fn diagnose(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("diagnose").args(args).output().unwrap()
}

fn json(o: &Output) -> serde_json::Value {
    serde_json::from_slice(&o.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&o.stderr)))
}

/// A transfer by hand: the handshake takes 100 ms, 50 to each side; a segment at 0.2 s is lost, and comes again at 1.2
/// and at 3.2 s.
fn recording(way: impl Fn(bool) -> bool) -> Vec<u8> {
    let client = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 50_000, 80, Proto::TCP);
    let mut w = Writer::new(Vec::new()).unwrap();
    let mut put = |ms: u64, from_client: bool, flags: Flags, seq: u32, ack: u32, payload: u32| {
        let key = if from_client { client } else { client.reverse() };
        let tcp = TcpHeader {
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags,
            window: 501,
            payload,
            ..TcpHeader::default()
        };
        if way(from_client) {
            w.write(
                Instant::from_nanos(ms * 1_000_000),
                &Header { key, tcp: Some(tcp), ..Header::default() },
            )
            .unwrap();
        }
    };
    put(0, true, Flags::SYN, 0, 0, 0);
    put(50, false, Flags::SYN.and(Flags::ACK), 0, 1, 0);
    put(100, true, Flags::ACK, 1, 1, 0);
    put(101, true, Flags::ACK, 1, 1, 100);
    put(150, false, Flags::ACK, 1, 101, 0);
    for ms in [200, 1_200, 3_200] {
        put(ms, false, Flags::ACK, 1, 101, 1000);
    }
    put(3_250, true, Flags::ACK, 101, 1001, 0);
    w.into_inner()
}

#[test]
fn a_stall_worked_by_hand() {
    let place = Place::new("hand");
    let path = place.file("mine.pcap", &recording(|_| true));
    let out = diagnose(&[&path, "--json", "--over", "3"]);
    let all = json(&out);
    let flow = &all["flows"][0];
    assert_eq!((all["schema"].as_u64(), flow["opener"]["port"].as_u64()), (Some(2), Some(50_000)));
    let stall = &flow["stalls"][0];
    // From the first transmission, frame 6, to its acknowledgment, frame 9; frames 7 and 8 are the repairs.
    assert_eq!(
        (&stall["from_s"], &stall["to_s"], &stall["by"]),
        (&0.2.into(), &3.25.into(), &1.into()),
        "{flow:#}"
    );
    assert_eq!(stall["frames"], serde_json::json!([6, 7, 8, 9]));
    assert_eq!(
        (&stall["timeouts"], &stall["backoff"], &stall["lost"]),
        (&2.into(), &4.into(), &"behind".into())
    );
    assert_eq!(stall["cause"], "double_retransmission");
    assert_eq!(out.status.code(), Some(1), "3.05 s is more than 3");
    assert_eq!(diagnose(&[&path, "--over", "3.1"]).status.code(), Some(0));
}

#[test]
fn one_file_a_direction_and_compressed_ones_say_the_same() {
    let place = Place::new("files");
    let whole = recording(|_| true);
    let path = place.file("whole.pcap", &whole);
    let flows = |paths: &[&str]| {
        let mut flows = json(&diagnose(&[paths, &["--json"]].concat()))["flows"].take();
        // Frames are numbered in each file.
        for stall in flows[0]["stalls"].as_array_mut().unwrap() {
            stall["frames"].take();
        }
        for event in flows[0]["events"].as_array_mut().unwrap() {
            event["frame"].take();
        }
        flows
    };
    let expected = flows(&[&path]);
    assert_eq!(expected[0]["stalls"].as_array().unwrap().len(), 1);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&whole).unwrap();
    let gz = place.file("whole.pcap.gz", &gz.finish().unwrap());
    let zst = ruzstd::encoding::compress_to_vec(&whole[..], ruzstd::encoding::CompressionLevel::Fastest);
    let zst = place.file("whole.pcap.zst", &zst);
    let up = place.file("up.pcap", &recording(|client| client));
    let down = place.file("down.pcap", &recording(|client| !client));
    for paths in [&[gz.as_str()][..], &[zst.as_str()], &[up.as_str(), down.as_str()]] {
        assert_eq!(flows(paths), expected, "{paths:?}");
    }
}

#[test]
fn errors_name_the_file_and_a_cut_one_is_read_up_to_the_cut() {
    let place = Place::new("errors");
    let said = |path: &str| {
        let out = diagnose(&[path]);
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let whole = recording(|_| true);
    let (code, text) = said(&place.file("cut.pcap", &whole[..whole.len() - 3]));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("cut.pcap: at frame 9: the file ends inside"), "{text}");
    for (name, bytes, why) in [
        ("text.pcap", &b"not a capture"[..], "neither pcap nor pcapng"),
        ("broken.gz", &[0x1f, 0x8b, 1, 2, 3, 4][..], "broken.gz"),
        ("empty.pcap", &whole[..24], "no packet of TCP"),
    ] {
        let (code, text) = said(&place.file(name, bytes));
        assert!(code == Some(2) && text.contains(why) && text.contains(name), "{name}: {code:?} {text}");
        // No piece of an answer.
        assert!(diagnose(&["--json", &place.file(name, bytes)]).stdout.is_empty(), "{name}");
    }
    assert!(said("nowhere.pcap").1.contains("nowhere.pcap: cannot be read"));
    let no_number = String::from_utf8(diagnose(&["--over", "abc", "x.pcap"]).stderr).unwrap();
    assert!(no_number.contains("expected a number of seconds, as 5 or 0.5"), "{no_number}");
}

#[test]
fn one_connection_alone_and_its_picture() {
    let place = Place::new("flow");
    let path = place.file("mine.pcap", &recording(|_| true));
    let picture = place.0.join("one.svg").display().to_string();
    let out = diagnose(&[&path, "--flow", "0", "--picture", &picture]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(
        text.contains("connection 0") && text.contains("3.05 s from 0.20 s on: retransmission lost too"),
        "{text}"
    );
    let svg = std::fs::read_to_string(&picture).unwrap();
    for words in ["192.0.2.1:80 &gt; 10.0.0.1:50000", "acknowledged", "timeout", "retransmission lost too"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    let out = diagnose(&[&path, "--flow", "1"]);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(2) && text.contains("has connections 0 to 0"), "{text}");
}

#[test]
fn a_picture_of_all_and_tables() {
    let place = Place::new("all");
    let path = place.file("mine.pcap", &recording(|_| true));
    let (picture, folder) = (place.0.join("all.svg"), place.0.join("tables"));
    let [picture_name, folder_name] = [&picture, &folder].map(|p| p.display().to_string());
    let out = diagnose(&[&path, "--picture", &picture_name, "--parquet", &folder_name]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let svg = std::fs::read_to_string(picture).unwrap();
    for words in [
        ">Stalls in mine.pcap<",
        "#0 10.0.0.1:50000 &gt; 192.0.2.1:80",
        "retransmission lost too",
        "3.0 s",
        ">open, not stalled<",
        ">time since the capture began, s<",
    ] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    for name in ["flows", "stalls"] {
        let bytes = std::fs::read(folder.join(format!("{name}.parquet"))).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
        // Names of columns stand in the footer as they are.
        assert!(bytes.windows(6).any(|w| w == b"from_s"), "{name}");
    }
    for (option, name, why) in [("--picture", "x.pdf", "in .svg or .png"), ("--parquet", &path, "--parquet")]
    {
        let out = diagnose(&[&path, option, name]);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && text.contains(why) && text.contains(name), "{text}");
    }
}

/// A capture of pcap with this link layer and one frame.
fn of_link(link: u32, frame: &[u8]) -> Vec<u8> {
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let len = frame.len() as u32;
    [words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, link]), words(&[1, 0, len, len]), frame.to_vec()]
        .concat()
}

/// The table of the how-to page: 0 no long stall, 1 one, 2 nothing to read or to show, with counts by kind.
#[test]
fn exit_statuses() {
    let place = Place::new("statuses");
    let plain = place.file("plain.pcap", &recording(|_| true));
    let unknown = place.file("unknown.pcap", &of_link(147, &[9; 60]));
    let arp = place.file("arp.pcap", &of_link(1, &[&[2; 12][..], &[8, 6], &[0; 28]].concat()));
    let usb = "of 1 frames 1 frames of link layer 147 (reserved for private use)";
    let netmon = place.file("netmon.cap", b"GMBU\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let xz = place.file("in.xz", &[0xfd, b'7', b'z', b'X', b'Z', 0, 0, 0]);
    for (args, code, says) in [
        (&["--over", "5", plain.as_str()][..], 0, ""),
        (&["--over", "1", &plain], 1, ""),
        (&["--over", "never", &plain], 2, "--over"),
        (&["--flow", "7", &plain], 2, "--flow 7"),
        (&["--why", "900", &plain], 2, "--why 900"),
        (&["nowhere.pcap"], 2, "nowhere.pcap: cannot be read"),
        (&[&unknown], 2, usb),
        (&[&arp], 2, "of 1 frames 1 frames of ethertype 0x0806 (ARP)"),
        (&[&netmon], 2, "it is a capture of Network Monitor; convert it: editcap"),
        (&[&xz], 2, "is in xz; expand it: xz -dc"),
    ] {
        let out = diagnose(args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(code) && said.contains(says), "{args:?}: {:?} {said}", out.status);
        assert!(code != 2 || out.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn quic_is_told_of_and_tunnels_are_looked_into() {
    let place = Place::new("quic");
    let key = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 50_000, 443, Proto::UDP);
    let mut w = Writer::new(Vec::new()).unwrap();
    for ms in [0, 1000, 3000, 7000] {
        let quic = Some(narrows_wire::QuicPacket::Initial);
        let header = Header { key, quic, len: narrows_units::Bytes(1228), ..Header::default() };
        w.write(Instant::from_nanos(ms * 1_000_000), &header).unwrap();
    }
    let path = place.file("quic.pcap", &w.into_inner());
    let out = diagnose(&[&path, "--json"]);
    let all = json(&out);
    assert_eq!(all["quic"][0]["stalls"][0]["cause"], "no_answer", "{all:#}");
    assert_eq!((out.status.code(), all["quic"][0]["initials"].as_u64()), (Some(1), Some(4)));
    let text = String::from_utf8(diagnose(&[&path]).stdout).unwrap();
    assert!(text.contains("QUIC: 1 connection") && text.contains("no answer (lost or filtered)"), "{text}");

    // The transfer by hand once more, each packet within GRE between two routers.
    let plain = recording(|_| true);
    let mut reader = Frames::of(&plain);
    let outer = |len: usize| {
        let total = u16::try_from(24 + len).unwrap().to_be_bytes();
        let ip = [0x45, 0, total[0], total[1], 0, 1, 0, 0, 64, 47, 0, 0, 203, 0, 113, 1, 203, 0, 113, 2];
        [&ip[..], &[0, 0, 8, 0]].concat()
    };
    let mut tunnel =
        narrows_wire::capture::FrameWriter::new(Vec::new(), narrows_wire::capture::LinkType::Raw, 4096)
            .unwrap();
    while let Some((at, frame, original)) = reader.next() {
        let whole = [&outer(original)[..], frame].concat();
        tunnel.write(at, &whole, 24 + original).unwrap();
    }
    let path = place.file("gre.pcap", &tunnel.into_inner());
    let through = json(&diagnose(&[&path, "--json"]));
    let directly = json(&diagnose(&[&place.file("plain.pcap", &plain), "--json"]));
    assert_eq!(through["flows"], directly["flows"]);
    assert!(
        through["remarks"][0].as_str().unwrap().contains("9 packets came through tunnels"),
        "{through:#}"
    );
}

/// The frames of a pcap with nanoseconds, as [`Writer`] writes it.
struct Frames<'a>(&'a [u8]);

impl<'a> Frames<'a> {
    fn of(file: &'a [u8]) -> Self {
        Self(&file[24..])
    }

    fn next(&mut self) -> Option<(Instant, &'a [u8], usize)> {
        let (head, rest) = self.0.split_at_checked(16)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let (frame, rest) = rest.split_at(word(8) as usize);
        self.0 = rest;
        let at = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4));
        Some((Instant::from_nanos(at), frame, word(12) as usize))
    }
}

/// A crowd that shares .5 Mbit/s for a minute, captured before the link.
const CROWD: &str = r#"
    name = "crowd"
    duration = "60s"
    dephase = "3ms"
    overhead = 0
    discipline = "fifo:20"
    [[link]]
    name = "before"
    from = "world"
    to = "left"
    rate = "50mbit"
    [[link]]
    name = "thin"
    from = "left"
    to = "right"
    rate = "500kbit"
    back_rate = "50mbit"
    [[hosts]]
    name = "servers"
    at = "world"
    delay = "40ms"
    [[hosts]]
    name = "clients"
    at = "right"
    delay = "10ms"
    [[traffic]]
    kind = "objects"
    users = 30
    think = "2s"
    [probes]
    capture = ["before", "before.back"]
"#;

/// The page opens with what was fitted: 30 users with pauses of 2 s on 500 kbit/s and a round trip of 100 ms.
#[cfg(feature = "explore")]
fn explored(to: &str, back: &str) {
    let mut served = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["diagnose", to, back, "--explore"])
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = std::io::BufReader::new(served.stdout.take().unwrap());
    let address =
        std::io::BufRead::lines(said).map_while(Result::ok).find(|line| line.starts_with("http://"));
    served.kill().unwrap();
    served.wait().unwrap();
    let address = address.unwrap();
    let value = |key: &str| -> f64 {
        let of = address.split(['#', '&']).find_map(|pair| pair.strip_prefix(&format!("{key}=")));
        of.unwrap_or_else(|| panic!("{key} is not in {address}")).parse().unwrap()
    };
    assert!((475.0..=525.0).contains(&value("rate_kbps")), "{address}");
    assert!((95.0..=110.0).contains(&value("rtt_ms")), "{address}");
    assert!((1.5..=3.0).contains(&value("think_s")), "{address}");
    assert_eq!(value("users"), 30.0, "{address}");
}

/// A dish that carries 2 Mbit/s for half a minute, and then 1.
const DISH: &str = "\
name = 'dish'
duration = '60s'
mtu = 1500
probes = { capture = ['dish', 'box.back'] }
hosts = [{ name = 'servers', at = 'net', delay = '0ms..65ms' }, { name = 'users', at = 'home', delay = '1ms' }]
traffic = [{ kind = 'long', from = 'servers', to = 'users', flows = 5 }]
[[link]]
name = 'dish'
from = 'net'
to = 'mast'
rates = [['0s', '2mbit'], ['30s', '1mbit']]
back_rate = '10mbit'
delay = '10ms'
discipline = 'fifo:200'
[[link]]
name = 'box'
from = 'mast'
to = 'home'
rate = '100mbit'
discipline = 'fifo:1000'
";

#[test]
fn the_rate_of_a_slow_link_is_told_over_time() {
    let place = Place::new("slow-link");
    let file = place.file("dish.toml", DISH.as_bytes());
    let out = place.0.join("out");
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["sim", "-q", &file, "--seeds", "1", "--out", &out.display().to_string()])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let run = std::fs::read_dir(out.join("runs")).unwrap().next().unwrap().unwrap().path();
    let [to, back] = ["dish.pcap", "box.back.pcap"].map(|n| run.join(n).display().to_string());
    let picture = place.0.join("link.svg").display().to_string();
    let asked = [to.as_str(), &back, "--link", &picture];
    let text = String::from_utf8(diagnose(&asked).stdout).unwrap();
    assert!(text.contains(" s, before this point; "), "{text}");
    let drawn = std::fs::read_to_string(&picture).unwrap();
    assert!(drawn.contains("rate of the link while full"), "{drawn}");

    let all = json(&diagnose(&[&asked[..], &["--json"]].concat()));
    // Simulated senders open their connections, from the higher port: the data goes up.
    let link = &all["link"]["from_the_users"];
    let full = ["full_before_s", "full_behind_s"].map(|side| link[side].as_u64().unwrap());
    assert!(full[0] >= 55 && full[1] == 0, "{full:?}");
    let rate = |second: u64| {
        let of = link["seconds"].as_array().unwrap().iter().find(|s| s["at_s"] == second).unwrap();
        of["rate_bps"].as_f64().unwrap()
    };
    for (second, mbit) in [(10, 2.0), (25, 2.0), (35, 1.0), (50, 1.0)] {
        assert!((rate(second) / (mbit * 1e6) - 1.0).abs() < 0.02, "{second} s: {}", rate(second));
    }
    assert_eq!(all["link"]["to_the_users"]["full_before_s"], 0);
    let error = diagnose(&[&to, "--link", "link.gif"]);
    let said = String::from_utf8(error.stderr).unwrap();
    assert!(said.contains("--link link.gif: expected a name in .svg or .png"), "{said}");
}

#[test]
fn decisions_of_a_simulated_box_are_told_and_drawn() {
    let place = Place::new("decisions");
    let dish = DISH
        .replace("discipline = 'fifo:1000'", "discipline = 'fifo:1000'\nshaper = 'auto'")
        .replace("capture = ['dish', 'box.back']", "decisions = true");
    let file = place.file("dish.toml", dish.as_bytes());
    let out = place.0.join("out");
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["sim", "-q", &file, "--seeds", "1", "--out", &out.display().to_string()])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let decisions = out.join("decisions.csv").display().to_string();
    let picture = place.0.join("link.svg").display().to_string();
    let told = diagnose(&[&decisions, "--link", &picture]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.status.code(), Some(0), "{}", String::from_utf8_lossy(&told.stderr));
    for line in ["\nbox\n", "  slow link: before the box for ", "  side_found    at ", "  rate_fell "] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let drawn = std::fs::read_to_string(&picture).unwrap();
    for words in [
        "box: rate",
        "wait in the link",
        "side_found",
        "less came across while a queue stood",
        "before the box",
    ] {
        assert!(drawn.contains(words), "{words}");
    }
    let all = &json(&diagnose(&[&decisions, "--json"]))["decisions"][0];
    // The rate halves at 30 s.
    let fell = all["reasons"].as_array().unwrap().iter().find(|r| r["reason"] == "rate_fell").unwrap();
    assert!((30.0..36.0).contains(&fell["time_s"].as_f64().unwrap()), "{fell}");
    assert!((all["rate_bps"]["p95"].as_f64().unwrap() / 2e6 - 1.0).abs() < 0.05, "{all}");

    let error = |args: &[&str]| String::from_utf8(diagnose(args).stderr).unwrap();
    let lines = std::fs::read_to_string(&decisions).unwrap();
    let broken = place.file("broken.csv", lines.replacen("before", "beside", 1).as_bytes());
    let at = 1 + lines.lines().position(|line| line.contains("before")).unwrap();
    let said = error(&[&broken]);
    assert!(
        said.contains(&format!("broken.csv: line {at}: side = 'beside': expected one of before, behind")),
        "{said}"
    );
    let said = error(&[&decisions, &file]);
    assert!(said.contains("dish.toml is not: diagnose them one after the other"), "{said}");
    let said = error(&[&decisions, "--flow", "1"]);
    assert!(
        said.contains("--flow: ") && said.contains("has decisions of a shaper and no connections"),
        "{said}"
    );
    let said = error(&[&decisions, "--picture", "x.svg"]);
    assert!(said.contains("--picture: needs a capture"), "{said}");
}

#[test]
fn a_capture_is_fitted_and_another_queue_tried() {
    let place = Place::new("what-if");
    let file = place.file("crowd.toml", CROWD.as_bytes());
    let (out, again) = (place.0.join("out"), place.0.join("again"));
    let sim = |file: &str, out: &std::path::Path| {
        let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(["sim", "-q", file, "--out", &out.display().to_string()])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    sim(&file, &out);
    let run = std::fs::read_dir(out.join("runs")).unwrap().next().unwrap().unwrap().path();
    let [to, back] = ["before.pcap", "before.back.pcap"].map(|n| run.join(n).display().to_string());
    let fitted = place.0.join("fitted/mine.toml").display().to_string();
    let asked = [to.as_str(), &back, "--what-if", "taq", "--what-if", "codel", "--what-if-scenario", &fitted];
    let text = String::from_utf8(diagnose(&asked).stdout).unwrap();
    for words in [
        "What if",
        "measured     simulated",
        "captured  ",
        "simulated as it is, fifo:",
        "simulated with codel",
        "(observed)",
        "dropped  repaired",
        "Rule of thumb for this load:",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let all = json(&diagnose(&[&asked[..], &["--json"]].concat()));
    let what_if = &all["what_if"];
    assert_eq!(what_if["simulated"].as_array().unwrap().len(), 3);
    let rate = what_if["fit"]["rate_bps"].as_f64().unwrap();
    assert!((rate / 500e3 - 1.0).abs() < 0.05, "{rate}");
    assert_eq!(what_if["fit"]["users"], 30);
    // The written scenario runs like any other, and gives the same figures.
    assert!(sim(&fitted, &again).contains("taq"));
    #[cfg(feature = "explore")]
    explored(&to, &back);
    for (args, why) in [
        (&["--what-if", "nonsense"][..], "one of"),
        (&["--rate", "1mbit"], "--what-if"),
        (&["--what-if", "taq", "--buffer", "0"], "a buffer is packets"),
        (&["--what-if", "taq", "--what-if-scenario", "mine.txt"], "in .toml"),
    ] {
        let out = diagnose(&[&[to.as_str(), &back], args].concat());
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && text.contains(why), "{args:?}: {text}");
    }
    let hand = place.file("hand.pcap", &recording(|_| true));
    let out = diagnose(&[&hand, "--what-if", "taq"]);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(2) && text.contains("too short to fit"), "{text}");
    // The JSON holds all that could be told, with the reason for what could not.
    let out = diagnose(&[&hand, "--what-if", "taq", "--json"]);
    let (status, said) = (out.status.code(), json(&out));
    assert!(status == Some(2) && said["error"].as_str().unwrap().contains("too short to fit"), "{said}");
    assert_eq!((said["flows"].as_array().unwrap().len(), &said["what_if"]), (1, &serde_json::Value::Null));
}

/// QUIC at its server, by hand: a handshake, a datagram at 0.3 s and another at 6.3 s, which is answered.
fn quic_recording() -> Vec<u8> {
    let client = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 50_000, 443, Proto::UDP);
    let short = QuicPacket::Short { spin: false };
    let mut w = Writer::new(Vec::new()).unwrap();
    for (ms, from_client, quic) in [
        (0, true, QuicPacket::Initial),
        (1, false, QuicPacket::Initial),
        (100, true, short),
        (300, false, short),
        (6300, false, short),
        (6400, true, short),
    ] {
        let key = if from_client { client } else { client.reverse() };
        let header = Header { key, len: Bytes(1228), quic: Some(quic), ..Header::default() };
        w.write(Instant::from_nanos(ms * 1_000_000), &header).unwrap();
    }
    w.into_inner()
}

#[test]
fn a_senders_qlog_says_what_a_capture_of_quic_does_not() {
    let place = Place::new("qlog");
    let path = place.file("quic.pcap", &quic_recording());
    let packet = |ms: u64, what: &str, number: u64| {
        format!(
            "\u{1e}{{\"time\":{ms},\"name\":\"transport:packet_{what}\",\"data\":{{\"header\":{{\
             \"packet_type\":\"1RTT\",\"packet_number\":{number}}}}}}}\n"
        )
    };
    let log = [
        "\u{1e}{\"qlog_format\":\"JSON-SEQ\",\"trace\":{\"vantage_point\":{\"type\":\"server\"}}}\n"
            .to_owned(),
        packet(0, "received", 0),
        packet(1, "sent", 0),
        packet(300, "sent", 1),
        "\u{1e}{broken\n".to_owned(),
        "\u{1e}{\"time\":6300,\"name\":\"recovery:loss_timer_updated\",\"data\":{\"timer_type\":\"pto\",\
         \"event_type\":\"expired\"}}\n"
            .to_owned(),
        packet(6300, "sent", 2),
        packet(6400, "received", 1),
        packet(6400, "lost", 1),
    ];
    let log = place.file("server.sqlog", log.concat().as_bytes());
    let stall = |args: &[&str]| json(&diagnose(args))["quic"][0]["stalls"][0].take();
    let alone = stall(&[&path, "--json"]);
    assert_eq!((&alone["cause"], &alone["certainty"]), (&"starved".into(), &"possible".into()));
    assert_eq!(alone.get("sender"), None);
    let told = stall(&[&path, "--json", "--qlog", &log]);
    assert_eq!((&told["cause"], &told["certainty"]), (&"starved".into(), &"certain".into()));
    assert_eq!((&told["sender"]["timeouts"], &told["sender"]["lost"]), (&1.into(), &1.into()));
    let out = diagnose(&[&path, "--qlog", &log]);
    assert_eq!(out.status.code(), Some(1), "6.1 s are more than 5");
    let (page, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(
        page.contains("certain, the sender's qlog says so: 1 timeout, 1 packet lost (frames 4, 6)"),
        "{page}"
    );
    assert!(
        errors.contains("server.sqlog: 1 line or event could not be read; the first: record 5:"),
        "{errors}"
    );
    for (bytes, says) in [(&b"no qlog"[..], "no event of qlog in it"), (b"", "expected JSON or JSON-SEQ")] {
        let none = place.file("none.qlog", bytes);
        let out = diagnose(&[&path, "--qlog", &none]);
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && out.stdout.is_empty() && errors.contains(says), "{errors}");
    }
}

/// Segments of one connection, each acknowledged at once, beyond what is read at the beginning of a capture.
fn many() -> Vec<u8> {
    let key = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 50_000, 80, Proto::TCP);
    let mut w = Writer::new(Vec::new()).unwrap();
    for n in 0..20_000_u32 {
        let at = Instant::from_nanos(u64::from(n) * 10_000_000);
        let data =
            TcpHeader { seq: SeqNum(n * 100), flags: Flags::ACK, payload: 100, ..TcpHeader::default() };
        let ack =
            TcpHeader { ack: SeqNum(n * 100 + 100), flags: Flags::ACK, window: 501, ..TcpHeader::default() };
        w.write(at, &Header { key, tcp: Some(data), ..Header::default() }).unwrap();
        w.write(at, &Header { key: key.reverse(), tcp: Some(ack), ..Header::default() }).unwrap();
    }
    w.into_inner()
}

#[test]
fn one_processor_a_pipe_and_a_file_tell_the_same() {
    let place = Place::new("ahead");
    let mut bytes = many();
    // The last frame is cut.
    bytes.truncate(bytes.len() - 10);
    let path = place.file("many.pcap", &bytes);
    let told = |o: &Output, name: &str| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(name, "NAME");
        (o.status.code(), text(&o.stdout), text(&o.stderr))
    };
    let file = told(&diagnose(&[&path]), &path);
    assert!(file.2.contains("at frame 40000: the file ends inside a frame's bytes"), "{}", file.2);

    let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["diagnose", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for piece in bytes.chunks(100_001) {
        pipe.write_all(piece).unwrap();
    }
    drop(pipe);
    let piped = told(&child.wait_with_output().unwrap(), "-:");
    assert_eq!((piped.0, piped.2.replace("NAME", "NAME:")), (file.0, file.2.clone()));

    // Bound to one processor, the program reads each packet when it is asked for.
    let bound =
        Command::new("taskset").args(["1", env!("CARGO_BIN_EXE_narrows"), "diagnose", &path]).output();
    match bound {
        Ok(bound) => assert_eq!(told(&bound, &path), file),
        Err(why) => {
            narrows_testing::skip_part("one_processor_a_pipe_and_a_file_tell_the_same", "taskset", why)
        }
    }
}

#[test]
fn an_interrupt_ends_it_while_a_pipe_has_nothing() {
    // Whoever runs the tests in the background of a script has them ignore interrupts, and what they start.
    let mut child = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_narrows"), "diagnose", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&many()).unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}
