//! The host under test: it plays a script against an [`Endpoint`] without sockets.
//!
//! Sequence numbers of the endpoint begin at 0, as those of scripts do. What the script sees is what packetdrill would
//! compare: the time, sequence numbers, flags, acknowledgment and options of each outbound packet. Not compared: PSH,
//! which in `linux` stands for the limits of a device's packets (`push_every`), and the window field, because the
//! application reads at once and the buffer does not change.

use std::collections::{BTreeMap, VecDeque};

use narrows_tcp::{
    CcKind, Config, Endpoint, Io, LossPhase, Recovery, RtoRecovery, Segment, StartupKind, TcpEvent,
};
use narrows_units::{Duration, Ecn, Instant, SeqNum};
use narrows_wire::{Flags, TcpHeader};

use super::python::{self, Names};
use super::script::{Call, Commands, Due, Event, Packet, Script, TcpOption, Way, What};

/// The figures of a connection that a script may read.
pub const FIGURES: [&str; 14] = [
    "tcpi_snd_cwnd",
    "tcpi_snd_ssthresh",
    "tcpi_unacked",
    "tcpi_sacked",
    "tcpi_lost",
    "tcpi_retrans",
    "tcpi_ca_state",
    "tcpi_reordering",
    "tcpi_rtt",
    "tcpi_rto",
    "tcpi_snd_mss",
    "tcpi_advmss",
    "tcpi_total_retrans",
    "tcpi_state",
];

/// Calls that a script may make. Those that the host does not act upon change nothing that is compared, or fail.
const CALLS: [&str; 19] = [
    "socket",
    "bind",
    "listen",
    "accept",
    "connect",
    "write",
    "send",
    "sendto",
    "sendmsg",
    "read",
    "recv",
    "recvfrom",
    "recvmsg",
    "close",
    "shutdown",
    "setsockopt",
    "getsockopt",
    "fcntl",
    "ioctl",
];

/// How far a packet may be from its time, as in packetdrill without `--tolerance_usecs`.
const TOLERANCE: u64 = 4_000;

#[derive(Default)]
struct Outbox {
    segments: Vec<Segment>,
    delivered: u64,
    failed: bool,
}

impl Io for Outbox {
    fn transmit(&mut self, segment: &Segment) {
        self.segments.push(*segment);
    }
    fn event(&mut self, event: TcpEvent) {
        match event {
            TcpEvent::Delivered { bytes } => self.delivered += bytes,
            TcpEvent::Failed => self.failed = true,
            _ => {}
        }
    }
}

/// Settings that the script chooses for a connection.
#[derive(Clone, Debug)]
struct Choice {
    base: Config,
    /// Payload of a full segment together with the bytes of timestamps.
    mss: u32,
    nodelay: bool,
}

impl Choice {
    /// The settings with or without timestamps.
    fn config(&self, timestamps: bool) -> Config {
        let mss = self.mss - if timestamps { 12 } else { 0 };
        Config { timestamps, mss, nagle: !self.nodelay, ..self.base }
    }
}

pub struct Host<'a> {
    script: &'a Script,
    choice: Choice,
    config: Config,
    end: Endpoint,
    now: Instant,
    tolerance: u64,
    sent: VecDeque<(Instant, Segment)>,
    delivered: u64,
    read: u64,
    /// The application has read all that it wants to.
    shut: bool,
    /// The peer's first sequence number, from which scripts count after the SYN.
    remote: u32,
    /// The clock's value for each timestamp of the script.
    times: BTreeMap<u32, u32>,
    names: Names,
    /// Descriptors of sockets that listen.
    listeners: Vec<String>,
}

fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1000
}
const fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// The `linux` preset with the kernel's settings of a script.
fn base(settings: &[(String, String)], start: &Config) -> Result<Config, String> {
    let mut c = *start;
    for (name, value) in settings {
        let on = value != "0";
        match name.as_str() {
            "tcp_timestamps" => c.timestamps = on,
            "tcp_sack" if !on => c.recovery = Recovery::NewReno,
            "tcp_sack" => c.recovery = Recovery::Sack,
            "tcp_dsack" => c.dsack = on,
            "tcp_frto" if !on => c.rto_recovery = RtoRecovery::Scoreboard,
            "tcp_frto" => c.rto_recovery = RtoRecovery::Frto,
            "tcp_recovery" | "tcp_early_retrans" if !on => c.rack_tlp = false,
            "tcp_congestion_control" if value == "reno" => {
                (c.congestion, c.startup) = (CcKind::Reno, StartupKind::SlowStart);
            }
            "tcp_slow_start_after_idle" => c.restart_after_idle = on,
            "tcp_ecn" => c.ecn = on,
            "tcp_reordering" => c.dupthresh = value.parse().map_err(|_| format!("{name}={value}"))?,
            _ => {}
        }
    }
    Ok(c)
}

/// The ECN field that a script writes; Not-ECT where it writes none.
fn ecn_of(packet: &Packet) -> Ecn {
    match packet.ecn.as_deref() {
        Some("ect0") => Ecn::Ect0,
        Some("ect1") => Ecn::Ect1,
        Some("ce") => Ecn::Ce,
        _ => Ecn::NotEct,
    }
}

impl<'a> Host<'a> {
    /// A host with these settings of the kernel, from `start` on.
    pub fn new(script: &'a Script, commands: &Commands, start: &Config) -> Result<Self, String> {
        let settings = &commands.settings;
        let mut base = base(settings, start)?;
        // Scripts scale by 8, because a buffer may grow to 15 MB.
        base.window_scale = Some(8);
        let tolerance = script.option("--tolerance_usecs").and_then(|t| t.parse().ok()).unwrap_or(TOLERANCE);
        let mss = script.option("--mtu").and_then(|m| m.parse::<u32>().ok()).map_or(1460, |mtu| mtu - 40);
        let ecn_asks = settings.iter().rev().find(|s| s.0 == "tcp_ecn").is_some_and(|s| s.1 == "1");
        let opens = script.calls().any(|c| c.name == "connect");
        base.ecn &= ecn_asks || !opens;
        let choice = Choice { base, mss, nodelay: false };
        let config = choice.config(base.timestamps);
        let mut names: Names = [
            ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
            ("TCP_CA_Open", 0),
            ("TCP_CA_Disorder", 1),
            ("TCP_CA_CWR", 2),
            ("TCP_CA_Recovery", 3),
            ("TCP_CA_Loss", 4),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let states = ["ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE"];
        names.extend(states.iter().zip(1..).map(|(state, n)| (format!("TCP_{state}"), n)));
        Ok(Self {
            script,
            config,
            end: Endpoint::new(&config, SeqNum(0)),
            choice,
            now: Instant::ZERO,
            tolerance,
            sent: VecDeque::new(),
            delivered: 0,
            read: 0,
            shut: false,
            remote: 0,
            times: BTreeMap::new(),
            names,
            listeners: vec![],
        })
    }

    /// Plays the script to its end, or up to what differs. A script that compares nothing has shown nothing.
    pub fn play(&mut self) -> Result<(), String> {
        let script = self.script;
        let mut compared = 0;
        for event in &script.events {
            compared += self.play_one(event).map_err(|why| format!("line {}: {why}", event.line))?;
        }
        if compared == 0 { Err("neither a packet nor a figure is compared".to_owned()) } else { Ok(()) }
    }

    /// Plays an event. Returns how many packets and figures it has compared.
    fn play_one(&mut self, event: &Event) -> Result<u32, String> {
        let now = micros(self.now);
        let (first, last) = match event.due {
            Due::At(t) => (t, t),
            Due::After(t) => (now + t, now + t),
            Due::Between(a, b) => (now + a, now + b),
            Due::Any => (0, u64::MAX / 2000),
        };
        if let What::Packet(Way::Out, packet) = &event.what {
            return self.expect(packet, first, last).map(|()| 1);
        }
        self.run_until(at(first));
        match &event.what {
            What::Packet(_, packet) => self.take(packet)?,
            What::Call(call) => self.call(call)?,
            What::Python(code) => {
                let mut names = std::mem::take(&mut self.names);
                let result = python::run(code, &mut names, &|name| self.look(name));
                self.names = names;
                return result;
            }
            // Its settings were taken when the host was made.
            What::Shell(_) => {}
            What::Foreign(text) => return Err(format!("not TCP: {text}")),
        }
        Ok(0)
    }

    fn act(&mut self, act: impl FnOnce(&mut Endpoint, &Config, Instant, &mut Outbox)) {
        let mut out = Outbox::default();
        act(&mut self.end, &self.config, self.now, &mut out);
        self.delivered += out.delivered;
        self.sent.extend(out.segments.into_iter().map(|segment| (self.now, segment)));
    }

    /// Wakes the end whenever it asks to be, up to `until`.
    fn run_until(&mut self, until: Instant) {
        while self.end.wake_at() <= until {
            self.now = self.now.max(self.end.wake_at());
            self.act(|end, config, now, out| end.wake(config, now, out));
        }
        self.now = self.now.max(until);
    }

    /// The next packet is `packet`, and it leaves between the two times, give or take the tolerance.
    fn expect(&mut self, packet: &Packet, first: u64, last: u64) -> Result<(), String> {
        let latest = at(last + self.tolerance);
        while self.sent.is_empty() && self.end.wake_at() <= latest {
            self.now = self.now.max(self.end.wake_at());
            self.act(|end, config, now, out| end.wake(config, now, out));
        }
        let Some((sent, mut segment)) = self.sent.pop_front() else {
            let next = self.end.next_wake().map(micros);
            self.now = self.now.max(at(last));
            return Err(format!("nothing leaves by {last} us; the next timer is at {next:?}"));
        };
        // A device may carry several segments as one packet.
        let strict = self.script.option("--strict_segments").is_some();
        while !strict
            && segment.tcp.payload < packet.payload
            && let Some((at, next)) = self.sent.front()
            && *at == sent
            && next.tcp.seq == segment.tcp.seq + segment.tcp.payload
            && next.tcp.ack == segment.tcp.ack
        {
            segment.tcp.payload += next.tcp.payload;
            segment.tcp.flags = segment.tcp.flags.and(next.tcp.flags);
            self.sent.pop_front();
        }
        self.compare(packet, &segment)?;
        let sent = micros(sent);
        if sent + self.tolerance < first || sent > last + self.tolerance {
            return Err(format!("leaves at {sent} us, not at {first} to {last} us"));
        }
        Ok(())
    }

    fn compare(&mut self, packet: &Packet, segment: &Segment) -> Result<(), String> {
        let tcp = &segment.tcp;
        let mut flags = String::new();
        for (bit, letter) in [
            (Flags::SYN, 'S'),
            (Flags::FIN, 'F'),
            (Flags::RST, 'R'),
            (Flags::ACK, '.'),
            (Flags::ECE, 'E'),
            (Flags::CWR, 'W'),
        ] {
            if tcp.flags.has(bit) {
                flags.push(letter);
            }
        }
        let sorted = |text: &str| {
            let mut letters: Vec<char> = text.chars().filter(|&c| c != 'P' && c != '-').collect();
            letters.sort_unstable();
            letters
        };
        let got = format!(
            "{flags} {}:{}({}) ack {}",
            tcp.seq.0,
            tcp.seq.0.wrapping_add(tcp.payload),
            tcp.payload,
            tcp.ack.0.wrapping_sub(self.base_of(packet))
        );
        let ack = packet.ack.map(|ack| ack.wrapping_add(self.base_of(packet)));
        let same = sorted(&flags) == sorted(&packet.flags)
            && tcp.seq.0 == packet.seq
            && tcp.payload == packet.payload
            && ack.is_none_or(|ack| tcp.ack.0 == ack);
        if !same {
            return Err(format!(
                "leaves {got} at {} us, not {} {}:{}({}) ack {:?}",
                micros(self.now),
                packet.flags,
                packet.seq,
                packet.seq.wrapping_add(packet.payload),
                packet.payload,
                packet.ack
            ));
        }
        if packet.ecn.is_some() && segment.ecn != ecn_of(packet) {
            return Err(format!("{got} leaves with {:?}, not {:?}", segment.ecn, ecn_of(packet)));
        }
        match &packet.options {
            Some(options) => self.compare_options(options, tcp).map_err(|why| format!("{got}: {why}")),
            None => Ok(()),
        }
    }

    /// Sequence numbers of the peer count from its SYN, but for a SYN's.
    fn base_of(&self, packet: &Packet) -> u32 {
        if packet.has('S') { 0 } else { self.remote }
    }

    fn compare_options(&mut self, options: &[TcpOption], tcp: &TcpHeader) -> Result<(), String> {
        let (mut times, mut sack, mut mss, mut scale) = (None, vec![], None, None);
        for option in options {
            match option {
                TcpOption::Times(val, ecr) => times = Some((*val, *ecr)),
                TcpOption::Sack(blocks) => sack.clone_from(blocks),
                TcpOption::Mss(n) => mss = Some(*n),
                TcpOption::Scale(n) => scale = Some(*n),
                // SACK is in the settings, which both ends have in common.
                TcpOption::SackOk => {}
                TcpOption::Other(name) => return Err(format!("unknown option {name}")),
            }
        }
        if times.is_some() != tcp.timestamps.is_some() {
            return Err(format!("timestamps {:?}, not {times:?}", tcp.timestamps));
        }
        if let (Some((val, ecr)), Some((clock, echo))) = (times, tcp.timestamps) {
            let known = *self.times.entry(val).or_insert(clock);
            // A tick of the clock may have begun between two events of the script.
            if known.abs_diff(clock) > 1 + (self.tolerance / 1000) as u32 || ecr != echo {
                return Err(format!("timestamps {clock} {echo}, not {known} {ecr}"));
            }
        }
        let blocks: Vec<(u32, u32)> =
            tcp.sack.as_slice().iter().map(|b| (b.0.0 - self.remote, b.1.0 - self.remote)).collect();
        if blocks != sack {
            return Err(format!("SACK {blocks:?}, not {sack:?}"));
        }
        if tcp.flags.has(Flags::SYN) && (mss, scale) != (tcp.mss, tcp.window_scale) {
            return Err(format!("MSS and scale {:?} {:?}, not {mss:?} {scale:?}", tcp.mss, tcp.window_scale));
        }
        Ok(())
    }

    /// A packet comes in.
    fn take(&mut self, packet: &Packet) -> Result<(), String> {
        let syn = packet.has('S');
        let mut tcp = TcpHeader { payload: packet.payload, ..TcpHeader::default() };
        let letters =
            [('S', Flags::SYN), ('F', Flags::FIN), ('R', Flags::RST), ('P', Flags::PSH), ('.', Flags::ACK)];
        for (letter, bit) in letters.into_iter().chain([('E', Flags::ECE), ('W', Flags::CWR)]) {
            if packet.has(letter) {
                tcp.flags = tcp.flags.and(bit);
            }
        }
        if syn && !self.end.is_established() {
            self.remote = packet.seq;
        }
        tcp.seq = SeqNum(packet.seq.wrapping_add(self.base_of(packet)));
        tcp.ack = SeqNum(packet.ack.unwrap_or(0));
        tcp.window = packet.window.unwrap_or(0).min(u32::from(u16::MAX)) as u16;
        let mut sack_ok = false;
        for option in packet.options.iter().flatten() {
            match option {
                TcpOption::Mss(n) => tcp.mss = Some(*n),
                TcpOption::Scale(n) => tcp.window_scale = Some(*n),
                TcpOption::Times(val, ecr) => {
                    tcp.timestamps = Some((*val, self.times.get(ecr).copied().unwrap_or(*ecr)));
                }
                TcpOption::Sack(blocks) => {
                    for &(left, right) in blocks {
                        tcp.sack.push(SeqNum(left), SeqNum(right));
                    }
                }
                TcpOption::SackOk => sack_ok = true,
                TcpOption::Other(name) => return Err(format!("unknown option {name}")),
            }
        }
        if syn && !self.end.is_established() {
            self.agree(&tcp, sack_ok);
        }
        self.act(|end, config, now, out| end.receive(config, now, &tcp, ecn_of(packet), out));
        Ok(())
    }

    /// Takes timestamps and SACK from the peer's SYN, as both ends must have the same settings for them.
    fn agree(&mut self, syn: &TcpHeader, sack_ok: bool) {
        if !sack_ok && self.choice.base.recovery == Recovery::Sack {
            self.choice.base.recovery = Recovery::NewReno;
        }
        self.config = self.choice.config(self.choice.base.timestamps && syn.timestamps.is_some());
        if !syn.flags.has(Flags::ACK) && self.end.is_idle() {
            self.end = Endpoint::new(&self.config, SeqNum(0));
        }
    }

    fn call(&mut self, call: &Call) -> Result<(), String> {
        let done = call.returns().unwrap_or(0);
        match call.name.as_str() {
            "socket" if !self.end.is_idle() => {
                // Another connection.
                self.config = self.choice.config(self.choice.base.timestamps);
                self.end = Endpoint::new(&self.config, SeqNum(0));
                (self.delivered, self.read, self.remote, self.shut) = (0, 0, 0, false);
            }
            "connect" if self.end.is_idle() && (done >= 0 || call.result.contains("EINPROGRESS")) => {
                self.end = Endpoint::new(&self.choice.config(false), SeqNum(0));
                self.config = self.choice.config(self.choice.base.timestamps);
                self.act(|end, config, now, out| end.open(config, now, out));
            }
            "write" | "send" | "sendto" | "sendmsg" if done > 0 => {
                self.act(|end, config, now, out| end.write(config, now, done as u64, out));
            }
            "read" | "recv" | "recvfrom" | "recvmsg" if done >= 0 => {
                let most = if call.blocks { u64::MAX } else { self.delivered - self.read };
                if done as u64 > most {
                    return Err(format!("{} returns {most}, not {done}", call.name));
                }
                self.read += done as u64;
                self.shut |= done == 0;
            }
            "listen" => self.listeners.push(call.arg(0).to_owned()),
            // The listener is another socket than the connection.
            "close" if self.listeners.iter().any(|fd| fd == call.arg(0)) => {
                self.listeners.retain(|fd| fd != call.arg(0));
            }
            "close" => self.close(),
            "shutdown" if done == 0 && call.arg(1) != "SHUT_RD" => {
                self.act(|end, config, now, out| end.close(config, now, out));
            }
            "accept" if done >= 0 && !call.blocks && !self.end.is_established() => {
                return Err("accept: the connection is not established".to_owned());
            }
            "setsockopt" => self.set(call),
            name if CALLS.contains(&name) => {}
            name => return Err(format!("unknown call {name}")),
        }
        Ok(())
    }

    fn close(&mut self) {
        if self.end.is_established() && self.read < self.delivered && !self.shut {
            // Data was left unread (RFC 2525, section 2.17).
            self.act(|end, config, now, out| end.abort(config, now, out));
        } else if self.end.is_established() {
            self.act(|end, config, now, out| end.close(config, now, out));
        } else if !self.end.is_idle() {
            // A connection that does not exist yet is given up, and its answer refused.
            self.end = Endpoint::new(&self.config, SeqNum(0));
        }
    }

    fn set(&mut self, call: &Call) {
        let value = call.number(3).unwrap_or(0);
        match call.arg(2) {
            "TCP_NODELAY" => {
                (self.choice.nodelay, self.config.nagle) = (value != 0, value == 0);
            }
            "TCP_MAXSEG" => {
                self.choice.mss = self.choice.mss.min(value as u32);
                self.config = self.choice.config(self.config.timestamps);
            }
            _ => {}
        }
    }

    /// The value of a name that a snippet of Python reads.
    fn look(&self, name: &str) -> Option<i64> {
        let micros = |d: Duration| (d.as_nanos() / 1000).cast_signed();
        let end = &self.end;
        Some(match name {
            "tcpi_snd_cwnd" => end.cwnd() as i64,
            "tcpi_snd_ssthresh" if end.ssthresh() > 1e9 => 0x7fff_ffff,
            "tcpi_snd_ssthresh" => end.ssthresh() as i64,
            "tcpi_unacked" => end.marks().outstanding.into(),
            "tcpi_sacked" => end.marks().sacked.into(),
            "tcpi_lost" => end.marks().lost.into(),
            "tcpi_retrans" => end.marks().copies.into(),
            "tcpi_ca_state" => match end.loss_phase() {
                LossPhase::Open => i64::from(end.marks().sacked > 0),
                LossPhase::Recovery => 3,
                LossPhase::Loss => 4,
            },
            "tcpi_reordering" => end.reordering(&self.config).into(),
            "tcpi_rtt" => micros(end.srtt(&self.config)),
            "tcpi_rto" => micros(end.rto(&self.config)),
            "tcpi_snd_mss" => end.segment().into(),
            "tcpi_advmss" => self.choice.mss.into(),
            "tcpi_total_retrans" => end.counters().retransmitted.into(),
            "tcpi_state" => i64::from(end.is_established()),
            _ => return None,
        })
    }
}
