//! Captures exchanged with Wireshark's `tshark`, `capinfos` and `editcap`: each side reads what the other wrote. Where
//! they are not installed, the tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use narrows_testing::{running, skip};
use narrows_units::{Bytes, Ecn, Instant, SeqNum};
use narrows_wire::capture::{Reader, Writer};
use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader, parse};

/// A file that goes when the test does.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("narrows-wire-{}-{name}", std::process::id())))
    }
}
impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs the tool and returns its output; `None` where it is not installed.
fn run(tool: &str, args: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(tool).args(args).output() else {
        skip(&running(), format!("no {tool}; apt-get install tshark"));
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{tool}: {said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

fn tcp(from_server: bool, v6: bool, t: TcpHeader) -> Header {
    let address = |n: u16| {
        if v6 {
            core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into()
        } else {
            core::net::Ipv4Addr::new(192, 0, 2, n as u8).into()
        }
    };
    // Ports of no application: a payload of zeros is malformed to most that Wireshark knows.
    let up = FlowKey::new(address(1), address(2), 50_000, 50_001, Proto::TCP);
    let key = if from_server { up.reverse() } else { up };
    Header { key, tcp: Some(t), ecn: Ecn::Ect0, ..Header::default() }
}

/// A connection with a hole that SACK tells of and a retransmission fills, over IPv4 and over IPv6, and other things.
fn story() -> Vec<Header> {
    let mut story = Vec::new();
    for v6 in [false, true] {
        let mut sack = narrows_wire::SackBlocks::default();
        sack.push(SeqNum(5001 + 2 * 1448), SeqNum(5001 + 3 * 1448));
        let base =
            TcpHeader { flags: Flags::ACK, window: 501, timestamps: Some((1, 1)), ..TcpHeader::default() };
        let syn = TcpHeader {
            flags: Flags::SYN,
            seq: SeqNum(1000),
            mss: Some(1460),
            window_scale: Some(7),
            ..base
        };
        let synack =
            TcpHeader { flags: Flags::SYN.and(Flags::ACK), seq: SeqNum(5000), ack: SeqNum(1001), ..syn };
        let up = TcpHeader { seq: SeqNum(1001), ack: SeqNum(5001), ..base };
        let down =
            |n: u32| TcpHeader { seq: SeqNum(5001 + n * 1448), ack: SeqNum(1001), payload: 1448, ..base };
        let fin = Flags::FIN.and(Flags::ACK);
        for (from_server, t) in [
            (false, syn),
            (true, synack),
            (false, up),
            (true, down(0)),
            (true, down(2)),
            (false, TcpHeader { ack: SeqNum(5001 + 1448), sack, ..up }),
            (true, down(1)),
            (false, TcpHeader { ack: SeqNum(5001 + 3 * 1448), ..up }),
            (true, TcpHeader { flags: fin, seq: SeqNum(5001 + 3 * 1448), payload: 0, ..down(0) }),
            (false, TcpHeader { flags: fin, ack: SeqNum(5002 + 3 * 1448), ..up }),
            (true, TcpHeader { seq: SeqNum(5002 + 3 * 1448), ack: SeqNum(1002), payload: 0, ..down(0) }),
        ] {
            story.push(tcp(from_server, v6, t));
        }
        let other = |proto, len| {
            let mut h = tcp(true, v6, base);
            h.key.proto = proto;
            Header { len: Bytes(len), tcp: None, ..h }
        };
        story.push(other(Proto::UDP, 1200));
        story.push(other(Proto::UDP, 29));
        story.push(other(if v6 { Proto::ICMPV6 } else { Proto::ICMP }, 84));
        story.push(Header { fragment: true, ..other(Proto::UDP, 1000) });
    }
    story
}

fn write(path: &PathBuf, payload: bool) {
    let file = std::io::BufWriter::new(File::create(path).unwrap());
    let mut w = if payload { Writer::with_payload(file).unwrap() } else { Writer::new(file).unwrap() };
    for (n, h) in story().iter().enumerate() {
        w.write(Instant::from_nanos(n as u64 * 10_000_001), h).unwrap();
    }
    w.flush().unwrap();
}

const SUMS: [&str; 6] =
    ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];

/// One line a packet: number, frame length, the statuses of the sums, what is malformed, what the experts say.
fn fields(path: &str) -> Option<Vec<Vec<String>>> {
    let mut args = vec!["-r", path, "-T", "fields", "-E", "separator=|"];
    args.extend(SUMS);
    for field in [
        "frame.number",
        "frame.len",
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
        "icmp.checksum.status",
        "icmpv6.checksum.status",
        "_ws.malformed",
        "_ws.expert.severity",
        "_ws.expert.group",
        "_ws.expert.message",
    ] {
        args.extend(["-e", field]);
    }
    let said = run("tshark", &args)?;
    Some(said.lines().map(|l| l.split('|').map(str::to_owned).collect()).collect())
}

/// Wireshark's levels: chats at 0x200000, notes at 0x400000, warnings and errors above.
const NOTE: u64 = 0x0040_0000;
/// Number of tshark's group of remarks on sequence numbers: the story has a loss, and they say so.
const SEQUENCE: u64 = 0x0200_0000;

#[test]
fn wireshark_has_no_complaint() {
    for payload in [true, false] {
        let scratch = Scratch::new(if payload { "whole.pcap" } else { "headers.pcap" });
        write(&scratch.0, payload);
        let Some(lines) = fields(scratch.0.to_str().unwrap()) else { return };
        let story = story();
        assert_eq!(lines.len(), story.len());
        for (line, header) in lines.iter().zip(&story) {
            println!("{}", line.join(" | "));
            let [ip, transport] = [&line[2], &[&line[3][..], &line[4], &line[5], &line[6]].concat()];
            assert!(ip == "1" || ip.is_empty(), "{line:?}");
            // 1 is good, 2 not verified, as where the payload is left out. A fragment has no sum to check.
            let fine =
                transport == "1" || !payload && transport == "2" || header.fragment && transport.is_empty();
            assert!(fine, "{line:?}");
            assert_eq!(line[7], "", "{line:?}");
            for (severity, group) in line[8].split(',').zip(line[9].split(',')).filter(|s| !s.0.is_empty()) {
                let (severity, group): (u64, u64) = (severity.parse().unwrap(), group.parse().unwrap());
                assert!(severity <= NOTE || group == SEQUENCE, "{line:?}");
            }
        }
    }
}

#[test]
fn capinfos_counts_and_times_alike() {
    let scratch = Scratch::new("counted.pcap");
    write(&scratch.0, false);
    let path = scratch.0.to_str().unwrap();
    let Some(said) = run("capinfos", &["-T", "-r", "-c", "-d", "-u", "-E", "-S", path]) else { return };
    println!("{said}");
    let story = story();
    let seconds = (story.len() - 1) as f64 * 0.010_000_001;
    let bytes: u64 =
        Reader::new(File::open(path).unwrap()).unwrap().map(|c| u64::from(c.unwrap().original_len)).sum();
    for part in
        [format!("\t{}\t", story.len()), format!("\t{bytes}\t"), format!("{seconds:.9}"), "rawip".into()]
    {
        assert!(said.contains(&part), "{part}");
    }
}

/// Wireshark's own pcapng, and pcap of both units, of our packets: read as the same packets at the same times.
#[test]
fn what_wireshark_writes_is_read() {
    let scratch = Scratch::new("ours.pcap");
    write(&scratch.0, true);
    for (format, grain) in [("pcapng", 1), ("nsecpcap", 1), ("pcap", 1000)] {
        let theirs = Scratch::new(format);
        let paths = [scratch.0.to_str().unwrap(), theirs.0.to_str().unwrap()];
        if run("editcap", &["-F", format, paths[0], paths[1]]).is_none() {
            return;
        }
        let got: Vec<_> = Reader::new(File::open(&theirs.0).unwrap()).unwrap().map(Result::unwrap).collect();
        assert_eq!(got.len(), story().len(), "{format}");
        for (n, (c, h)) in got.iter().zip(story()).enumerate() {
            let mut bytes = Vec::new();
            let total = narrows_wire::build(&h, n as u16 + 1, &mut bytes);
            assert_eq!((c.header, c.original_len as usize), (parse(&bytes).unwrap(), total), "{format} {n}");
            assert_eq!(c.at.as_nanos(), n as u64 * 10_000_001 / grain * grain, "{format} {n}");
        }
    }
}
