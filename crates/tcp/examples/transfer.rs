//! A transfer with a loss, segment by segment.
//!
//! `cargo run -p narrows-tcp --example transfer`, or with other settings, for instance
//! `cargo run -p narrows-tcp --example transfer -- linux:mss=1000` or `rfc:mss=1000,recovery=tahoe`.

#[path = "../tests/it/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::{Act, LoggedSegment, SegmentFate, Side, Wire, WirePath};
use narrows_tcp::{Config, Segment, TcpEvent};
use narrows_units::{Duration, Rate, SeqNum};
use narrows_wire::{Flags, TcpHeader};

const SEGMENTS: u64 = 20;
const LOST: u32 = 6;
const ISN: SeqNum = SeqNum(1000);

fn main() -> ExitCode {
    let settings = std::env::args().nth(1).unwrap_or_else(|| "rfc:mss=1000,initial_window=4".to_owned());
    match settings.parse() {
        Ok(config) => show(&settings, config),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn show(settings: &str, config: Config) {
    let path = WirePath { delay: Duration::from_millis(50), rate: Some(Rate::from_kbps(2000)), header: 40 };
    let mut lost = false;
    let mut wire = Wire::new(config, path, move |from, _, segment| {
        let strikes =
            !lost && from == Side::A && number(&config, segment.tcp.seq) == LOST && segment.tcp.payload > 0;
        lost |= strikes;
        if strikes { SegmentFate::Drop } else { SegmentFate::Pass }
    });
    println!(
        "{SEGMENTS} segments from A to B, 2 Mbit/s, 50 ms each way, segment {LOST} is lost once; {settings}\n"
    );
    println!("    ms  cwnd  A                              B");
    wire.act(Side::A, Act::Open);
    wire.act(Side::A, Act::Write(SEGMENTS * u64::from(config.mss)));
    wire.act(Side::A, Act::Close);
    let (mut sent, mut seen) = (0, 0);
    loop {
        for (_, side, event) in &wire.events[seen..] {
            if let Some(text) = note(&config, event) {
                println!(
                    "{:>6}        {}{text}",
                    ms(&wire),
                    if *side == Side::A { "" } else { "                               " }
                );
            }
        }
        for line in &wire.log[sent..] {
            let cwnd =
                if line.from == Side::A { format!("{:.1}", wire.ends[0].cwnd()) } else { String::new() };
            println!("{:>6} {cwnd:>5}  {}", ms(&wire), picture(&config, line));
        }
        (sent, seen) = (wire.log.len(), wire.events.len());
        if !wire.step() {
            break;
        }
    }
    let counters = wire.ends[0].counters();
    println!(
        "\n{} data segments sent, {} of them again, {} timeouts",
        counters.data_sent, counters.retransmitted, counters.timeouts
    );
}

fn ms(wire: &Wire<'_>) -> String {
    format!("{:.1}", wire.now.as_secs_f64() * 1e3)
}

/// Segments are numbered from 1.
fn number(config: &Config, seq: SeqNum) -> u32 {
    (seq - (ISN + 1)) / config.mss + 1
}

fn picture(config: &Config, line: &LoggedSegment) -> String {
    let Segment { tcp, .. } = &line.segment;
    let text = if line.from == Side::A { data(config, tcp) } else { ack(config, tcp) };
    match (line.from, line.fate) {
        (Side::A, SegmentFate::Drop) => format!("{text:<18} ───✗  lost"),
        (Side::A, _) => format!("{text:<18} ──────────►"),
        (Side::B, _) => format!("{:<18} ◄──────────  {text}", ""),
    }
}

fn data(config: &Config, tcp: &TcpHeader) -> String {
    let fin = if tcp.flags.has(Flags::FIN) { " FIN" } else { "" };
    if tcp.flags.has(Flags::SYN) {
        "SYN".to_owned()
    } else if tcp.payload > 0 {
        format!("segment {}{fin}", number(config, tcp.seq))
    } else {
        format!("ACK{fin}")
    }
}

fn ack(config: &Config, tcp: &TcpHeader) -> String {
    let fin = if tcp.flags.has(Flags::FIN) { " FIN" } else { "" };
    if tcp.flags.has(Flags::SYN) {
        return "SYN-ACK".to_owned();
    }
    let mut text = format!("wants {}{fin}", number(config, tcp.ack));
    for (i, &(left, right)) in tcp.sack.as_slice().iter().enumerate() {
        let (first, last) = (number(config, left), number(config, right) - 1);
        text += if i == 0 { ", has " } else { " and " };
        text += &if first == last { first.to_string() } else { format!("{first}-{last}") };
    }
    text
}

fn note(config: &Config, event: &TcpEvent) -> Option<String> {
    Some(match event {
        TcpEvent::Established => "-- established".to_owned(),
        TcpEvent::FastRetransmit => "-- a segment is lost: fast retransmit".to_owned(),
        TcpEvent::Recovered => "-- recovered".to_owned(),
        TcpEvent::Timeout { backoff } => format!("-- timeout; the next after {backoff} times the RTO"),
        TcpEvent::Delivered { bytes } if *bytes > u64::from(config.mss) => {
            format!("-- {} segments at once", bytes / u64::from(config.mss))
        }
        TcpEvent::Closed => "-- closed".to_owned(),
        TcpEvent::Failed => "-- failed".to_owned(),
        _ => return None,
    })
}
