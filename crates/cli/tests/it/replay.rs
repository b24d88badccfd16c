//! `narrows replay` from outside: what a user types, what comes out.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::process::{Command, Output};

use narrows_testing::Scratch;
use narrows_units::{Bytes, Instant, SeqNum};
use narrows_wire::capture::{Reader, Writer};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

/// Where a test runs the program.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Self {
        Self(Scratch::new(&format!("replay-{name}")))
    }
    fn write(&self, bytes: &[u8]) -> &Self {
        std::fs::write(self.0.join("mine.pcap"), bytes).unwrap();
        self
    }
    fn replay(&self, args: &[&str]) -> Output {
        let mut c = Command::new(env!("CARGO_BIN_EXE_narrows"));
        c.arg("replay").arg(self.0.join("mine.pcap")).args(["--rate", "600kbit"]).args(args).output().unwrap()
    }
}

fn key() -> FlowKey {
    FlowKey::new([192, 0, 2, 1].into(), [10, 0, 0, 1].into(), 80, 50_000, Proto::TCP)
}

/// Ten segments of 1500 B every 10 ms, twice what 600 kbit/s take, each with an acknowledgment 1 ms later; and two
/// packets of others.
fn recording() -> Vec<u8> {
    let mut w = Writer::new(Vec::new()).unwrap();
    let base = TcpHeader { flags: Flags::ACK, window: 501, timestamps: Some((1, 1)), ..TcpHeader::default() };
    for n in 0..10 {
        let data = TcpHeader { seq: SeqNum(1 + n * 1448), payload: 1448, ..base };
        let ack = TcpHeader { ack: SeqNum(1 + n * 1448), ..base };
        let at = |ms: u32| Instant::from_nanos((u64::from(n) * 10 + u64::from(ms)) * 1_000_000);
        w.write(at(0), &Header { key: key(), tcp: Some(data), ..Header::default() }).unwrap();
        w.write(at(1), &Header { key: key().reverse(), tcp: Some(ack), ..Header::default() }).unwrap();
    }
    for (a, b) in [([10, 0, 0, 1], [10, 0, 0, 2]), ([1, 1, 1, 1], [2, 2, 2, 2])] {
        let key = FlowKey::new(a.into(), b.into(), 1, 2, Proto::UDP);
        w.write(Instant::from_nanos(95_000_000), &Header { key, len: Bytes(100), ..Header::default() })
            .unwrap();
    }
    w.into_inner()
}

fn json(o: &Output) -> serde_json::Value {
    serde_json::from_slice(&o.stdout).unwrap()
}

#[test]
fn the_figures_are_those_worked_by_hand() {
    let place = Place::new("figures");
    place.write(&recording());
    let out = place.replay(&["--discipline", "fifo:3", "--local", "10.0.0.0/8", "--json"]);
    let all = json(&out);
    let r = &all["replays"][0];
    // One leaves every 20 ms from 0 on; what comes at the same instant comes first. Packet 1 waits from 10 to 20
    // ms, 2 to 40, 3 to 60. Packets 6 and 8 come at 60 and 80 ms to a queue of three and are dropped; 4, 5, 7 and 9
    // leave at 80, 100, 120 and 140. So the waits are 0, 10, 20, 30, 40, 50, 50 and 50 ms.
    assert_eq!((&r["down"]["arrived"], &r["down"]["sent"]), (&10.into(), &8.into()), "{r:#}");
    assert_eq!(r["down"]["dropped"]["over_limit"], 2);
    for (name, s) in [("waited_p50_s", 0.03), ("waited_p99_s", 0.05), ("waited_max_s", 0.05)] {
        assert_eq!(r["down"][name], s, "{name}");
    }
    assert_eq!(
        (&r["up"]["arrived"], &r["up"]["sent"], &r["up"]["waited_max_s"]),
        (&10.into(), &10.into(), &0.0.into())
    );
    assert_eq!((&r["last_departure_s"], r["flows"].as_array().unwrap().len()), (&0.14.into(), 2));
    assert_eq!(r["flows"][0]["flow"], "tcp 10.0.0.1:50000 > 192.0.2.1:80");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("2 packets not between a local address and another were left out"), "{said}");
}

#[test]
fn a_table_of_two_disciplines_and_their_captures() {
    let place = Place::new("table");
    place.write(&recording());
    let dir = place.0.join("results");
    let args = ["--discipline", "fifo:3", "--discipline", "taq", "--local", "10.0.0.1", "--up", "64kbit"];
    let out = place.replay(&[&args[..], &["--out", dir.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    let row = |name: &str| {
        let line = said.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name} in\n{said}"));
        line[name.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("down: packets"), ["10", "10"]);
    assert_eq!(row("down: dropped")[..3], ["2", "(20.0", "%)"]);
    assert_eq!(row("down:   over limit")[0], "2");
    // 52 B at 64 kbit/s are 6.5 ms: the one that comes at 91 ms keeps the other that comes at 95 waiting to 97.5.
    assert_eq!(row("up: waited max"), ["2.5", "ms", "2.5", "ms"]);
    let read = |name: &str| {
        let file = std::fs::File::open(dir.join(name)).unwrap();
        Reader::new(file).unwrap().map(|c| c.unwrap()).collect::<Vec<_>>()
    };
    let left = read("mine-fifo-3.pcap");
    let down: Vec<_> =
        left.iter().filter(|c| c.header.key == key()).map(|c| c.at.as_nanos() / 1_000_000).collect();
    assert_eq!((down, left.len()), (vec![0, 20, 40, 60, 80, 100, 120, 140], 19));
    assert!(read("mine-taq.pcap").len() > 10);
    let written = std::fs::read_to_string(dir.join("mine.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["replays"].as_array().unwrap().len(), 2);
}

#[test]
fn without_local_addresses_all_goes_down() {
    let place = Place::new("down");
    let all = json(&place.write(&recording()).replay(&["--json"]));
    assert_eq!(all["replays"][0]["discipline"], "taq");
    assert_eq!(all["replays"][0]["down"]["arrived"], 22);
    assert_eq!(all["replays"][0]["up"]["arrived"], 0);
}

#[test]
fn what_is_wrong_is_named() {
    let place = Place::new("wrong");
    let file = recording();
    // Cut inside the last frame: the rest is used, and it is said.
    let out = place.write(&file[..file.len() - 3]).replay(&["--json"]);
    assert_eq!(json(&out)["replays"][0]["down"]["arrived"], 21);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("mine.pcap: at frame 22: the file ends inside a frame's bytes"), "{said}");
    for (bytes, args, says) in [
        (&b"nonsense"[..], &[][..], "mine.pcap: neither pcap nor pcapng"),
        (&file[..30], &[], "mine.pcap: at frame 1: the file ends inside a frame's header"),
        (&file[..24], &[], "mine.pcap: no packet to replay"),
        (&file[..], &["--local", "10.9.0.0/16"], "22 between other addresses than --local says"),
        (&file[..], &["--local", "ten"], "'ten' is no address and no prefix"),
        (&file[..], &["--discipline", "codle"], "expected one of"),
        (&file[..], &["--up", "64kbit"], "--local"),
    ] {
        let out = place.write(bytes).replay(args);
        assert_eq!(out.status.code(), Some(2));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains(says), "{says}:\n{said}");
    }
}
