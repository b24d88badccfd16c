//! The one table of TAQ's keys: name, place in [`Config`], range and meaning.

use core::fmt::Write as _;

use narrows_units::{Bytes, Duration};

use super::config::{Buffer, Config, DoorPolicy, FairShare, Mode, Ppm, Share};
use crate::SpecError;

/// One key.
pub struct Key {
    /// Its name, the same on a command line, in TOML and in scenario files.
    pub name: &'static str,
    /// What it means, in one line.
    pub doc: &'static str,
    slot: for<'a> fn(&'a mut Config) -> Slot<'a>,
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// Where a key's value lives, with its range.
enum Slot<'a> {
    Switch(&'a mut bool),
    Number(&'a mut u32, u32, u32),
    Part(&'a mut Ppm, u32, u32),
    /// Given in seconds, or with a unit.
    Time(&'a mut Duration, Duration, Duration),
    /// Given in milliseconds.
    Millis(&'a mut Duration, u64, u64),
    Size(&'a mut Bytes, u64, u64),
    Buffer(&'a mut Buffer),
    Mode(&'a mut Mode),
    Share(&'a mut Share),
    FairShare(&'a mut FairShare),
    Door(&'a mut DoorPolicy),
}

const MODES: [(&str, Mode); 2] = [("default", Mode::Default), ("paper", Mode::Paper)];
const SHARES: [(&str, Share); 2] = [("flow", Share::Flow), ("pool", Share::Pool)];
const FAIR: [(&str, FairShare); 2] =
    [("queueing", FairShare::Queueing), ("proportional", FairShare::Proportional)];
const DOORS: [(&str, DoorPolicy); 3] =
    [("auto", DoorPolicy::Auto), ("drop", DoorPolicy::Drop), ("hold", DoorPolicy::Hold)];
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// Buffers in multiples of one round-trip time: 0.5 to 4, in thousandths (table 2.8).
const BUFFER_RTTS: (u32, u32) = (500, 4000);
/// Buffers in packets: what fits in memory.
const BUFFER_PACKETS: (u32, u32) = (1, 1_000_000);

const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

macro_rules! keys {
    ($($name:ident: $kind:ident($($range:expr),*), $doc:literal;)*) => {
        /// Every key, in the order of the documents.
        pub(super) static KEYS: &[Key] = &[
            $(Key { name: stringify!($name), doc: $doc, slot: |c| Slot::$kind(&mut c.$name, $($range),*) },)*
        ];
    };
}

keys! {
    mode: Mode(), "which rules: `default` is the best found by measurement, `paper` the published text";
    share: Share(), "whom the link is shared among: flows, or pools (user addresses) first";
    fair_share: FairShare(), "equal shares, or in proportion to 1 / epoch length";
    admission: Switch(), "new pools wait at the door while the link has more than it can serve";
    door: Door(), "a waiting SYN is dropped (the client asks again) or held; auto: dropped in paper mode, held in default";
    http_503: Switch(), "a connection to port 80 that has to wait is answered 503 with Retry-After (nfqueue back end)";
    p_thresh: Part(50_000, 200_000), "loss probability from which timeouts repeat";
    p_admit: Part(1_000, 200_000), "loss probability from which new pools wait (paper mode); below p_thresh";
    t_pool: Time(secs(1), secs(10)), "a flow joins the pool its source started less than this ago";
    t_wait: Time(secs(1), secs(10)), "a pool that waited this long is let in (paper mode)";
    over_penalised: Number(1, 5), "more drops than this in two epochs make a flow over-penalised";
    rho_r: Part(100_000, 500_000), "cap of the recovery queue, as a share of the link";
    newflow_cap: Part(100_000, 500_000), "cap of the new-flow queue, as a share of the buffer";
    buffer: Buffer(), "buffer, in multiples of one RTT of the link (`1x`) or in packets (paper mode)";
    w_loss: Time(secs(1), secs(20)), "window over which loss is measured";
    ewma_shift: Number(1, 4), "weight of a new sample in epoch and rate averages: 1 / 2^shift";
    record_timeout: Time(secs(60), secs(600)), "a flow that sent nothing for this long is forgotten";
    rtt: Time(Duration::from_millis(1), secs(10)), "round-trip time the buffer is sized for";
    packet: Size(64, 65_535), "packet size the buffer is sized for, in bytes";
    flows: Number(16, 1_048_576), "flows that can be followed at once";
    pools: Number(16, 1_048_576), "pools that can be remembered at once";
    k: Number(1, 1_000), "packets a flow may have waiting before a repairable one is dropped (default mode)";
    clamp: Switch(), "hold senders back by the window in returning acknowledgments (default mode)";
    clamp_min: Number(1, 1_000), "least window clamped to, in packets (default mode)";
    clamp_max: Number(1, 10_000), "largest window clamped to, in packets (default mode)";
    swallow: Switch(), "discard copies of segments that still wait (default mode)";
    swallow_departed: Switch(), "discard copies of segments whose acknowledgment cannot be back yet (default mode)";
    mark: Switch(), "mark ECN-capable packets where one would be dropped (default mode)";
    repairable: Switch(), "drop only what fast retransmit repairs (default mode)";
    front: Switch(), "retransmissions go to the front of their flow, TSval rewritten (default mode)";
    first_window_grace: Switch(), "no drop in a flow's first window (default mode)";
    new_first: Switch(), "a flow that was idle is served first for one quantum (default mode)";
    young_kb: Number(0, 10_000), "kilobytes up to which a flow counts as young (default mode)";
    young_weight: Number(100, 1_600), "a young flow's share, in percent of an old one's (default mode)";
    quantum: Number(0, 65_535), "bytes a turn adds to what a flow may send; 0: the largest packet of late (default mode)";
    new_bytes: Number(0, 1_000_000), "bytes a flow that waits for nothing may send before the round (default mode)";
    memory_packets: Number(16, 1_000_000), "most packets that wait at once (default mode)";
    memory_bytes: Size(65_536, 4_000_000_000), "most bytes that wait at once (default mode)";
    round_limit_ms: Millis(100, 600_000), "new pools wait while a round of one packet per flow takes longer (default mode)";
}

impl Key {
    /// The value in `config`, as [`Config::set`] reads it.
    #[must_use]
    pub fn value(&self, config: &Config) -> String {
        let mut c = *config;
        match (self.slot)(&mut c) {
            Slot::Switch(v) => name(&SWITCH, *v).to_owned(),
            Slot::Number(v, ..) => v.to_string(),
            Slot::Part(v, ..) => v.to_string(),
            Slot::Time(v, ..) => time(*v),
            Slot::Millis(v, ..) => v.as_millis().to_string(),
            Slot::Size(v, ..) => v.get().to_string(),
            Slot::Buffer(Buffer::Rtts(milli)) => format!("{}x", Ppm(*milli * 1000)),
            Slot::Buffer(Buffer::Packets(n)) => n.to_string(),
            Slot::Mode(v) => name(&MODES, *v).to_owned(),
            Slot::Share(v) => name(&SHARES, *v).to_owned(),
            Slot::FairShare(v) => name(&FAIR, *v).to_owned(),
            Slot::Door(v) => name(&DOORS, *v).to_owned(),
        }
    }

    /// What values are allowed, in words.
    #[must_use]
    pub fn range(&self) -> String {
        let mut c = Config::default();
        match (self.slot)(&mut c) {
            Slot::Switch(_) => choices(&SWITCH),
            Slot::Number(_, low, high) => format!("{low} to {high}"),
            Slot::Part(_, low, high) => format!("{} to {}", Ppm(low), Ppm(high)),
            Slot::Time(_, low, high) => format!("{} to {}", time(low), time(high)),
            Slot::Millis(_, low, high) => format!("{low} to {high}"),
            Slot::Size(_, low, high) => format!("{low} to {high}"),
            Slot::Buffer(_) => {
                let part = |milli: u32| Ppm(milli * 1000);
                format!(
                    "{}x to {}x, or {} to {} packets",
                    part(BUFFER_RTTS.0),
                    part(BUFFER_RTTS.1),
                    BUFFER_PACKETS.0,
                    BUFFER_PACKETS.1
                )
            }
            Slot::Mode(_) => choices(&MODES),
            Slot::Share(_) => choices(&SHARES),
            Slot::FairShare(_) => choices(&FAIR),
            Slot::Door(_) => choices(&DOORS),
        }
    }

    pub(super) fn set(&self, config: &mut Config, value: &str) -> Result<(), SpecError> {
        let text = value.trim();
        let done = match (self.slot)(config) {
            Slot::Switch(v) => put(v, pick(&SWITCH, text)),
            Slot::Number(v, low, high) => put(v, text.parse().ok().filter(|n| (low..=high).contains(n))),
            Slot::Part(v, low, high) => {
                put(v, millionths(text).filter(|n| (low..=high).contains(n)).map(Ppm))
            }
            Slot::Time(v, low, high) => put(v, read_time(text).filter(|t| (low..=high).contains(t))),
            Slot::Millis(v, low, high) => {
                let ms = text.parse().ok().filter(|n| (low..=high).contains(n));
                put(v, ms.map(Duration::from_millis))
            }
            Slot::Size(v, low, high) => {
                put(v, text.parse().ok().filter(|n| (low..=high).contains(n)).map(Bytes))
            }
            Slot::Buffer(v) => put(v, read_buffer(text)),
            Slot::Mode(v) => put(v, pick(&MODES, text)),
            Slot::Share(v) => put(v, pick(&SHARES, text)),
            Slot::FairShare(v) => put(v, pick(&FAIR, text)),
            Slot::Door(v) => put(v, pick(&DOORS, text)),
        };
        done.ok_or_else(|| SpecError {
            key: self.name.to_owned(),
            value: value.to_owned(),
            expected: self.range(),
        })
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn pick<T: Copy>(table: &[(&str, T)], text: &str) -> Option<T> {
    table.iter().find(|(n, _)| *n == text).map(|(_, v)| *v)
}

fn name<T: Copy + PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    table.iter().find(|(_, v)| *v == value).map_or("?", |(n, _)| n)
}

fn choices<T>(table: &[(&str, T)]) -> String {
    table.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(" or ")
}

/// A decimal number of at most six places, in millionths.
fn millionths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u32 = format!("{part:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(part)
}

/// `3`, `3s`, `0.2`, `200ms`.
fn read_time(text: &str) -> Option<Duration> {
    let (number, micros) = match text.strip_suffix("ms") {
        Some(n) => (n, 1_000),
        None => (text.strip_suffix('s').unwrap_or(text), 1_000_000),
    };
    let n = u64::from(millionths(number)?);
    Some(Duration::from_nanos(n.checked_mul(micros)? / 1_000))
}

fn time(t: Duration) -> String {
    let (ms, part) = (t.as_millis(), t.as_nanos() % 1_000_000);
    match (ms % 1000, part) {
        (0, 0) => format!("{}s", ms / 1000),
        (_, 0) => format!("{ms}ms"),
        _ => format!("{ms}.{}ms", format!("{part:06}").trim_end_matches('0')),
    }
}

fn read_buffer(text: &str) -> Option<Buffer> {
    if let Some(times) = text.strip_suffix('x') {
        let milli = millionths(times)? / 1000;
        return (BUFFER_RTTS.0..=BUFFER_RTTS.1).contains(&milli).then_some(Buffer::Rtts(milli));
    }
    let n: u32 = text.parse().ok()?;
    (BUFFER_PACKETS.0..=BUFFER_PACKETS.1).contains(&n).then_some(Buffer::Packets(n))
}

/// The keys as `--help` shows them.
pub(super) fn help() -> String {
    let plain = Config::default();
    KEYS.iter().fold(String::new(), |mut text, k| {
        let _ = writeln!(text, "  {:<20} {} [{}; {}]", k.name, k.doc, k.value(&plain), k.range());
        text
    })
}
