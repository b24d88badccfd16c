//! Why a kernel's senders sent again, from the kernel's own trace of two events: `tcp:tcp_cong_state_set` and
//! `tcp:tcp_retransmit_skb`.
//!
//! The state Loss (4) set, then the connection's next retransmission that left (`err=0`) is a timeout; the state
//! Recovery (3) set, then its next one is a fast retransmit. Further ones are `recovery` in Recovery and
//! `after_timeout` in Loss. Setting any other state forgets the mark. A retransmission in a state other than these two
//! is a probe.
//!
//! Times are nanoseconds since 1970 on the clock of the captures, addresses those of the packets sent.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};

/// States of `enum tcp_ca_state` in Linux's `include/uapi/linux/tcp.h`.
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

/// Reason of a retransmission, in the words of `narrows diagnose --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    Timeout,
    FastRetransmit,
    Recovery,
    AfterTimeout,
    Probe,
    /// Reason not known, which only a diagnosis says.
    Unknown,
}

impl Why {
    pub const ALL: [Self; 6] =
        [Self::Timeout, Self::FastRetransmit, Self::Recovery, Self::AfterTimeout, Self::Probe, Self::Unknown];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::FastRetransmit => "fast_retransmit",
            Self::Recovery => "recovery",
            Self::AfterTimeout => "after_timeout",
            Self::Probe => "probe",
            Self::Unknown => "unknown",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.name() == name)
    }
}

/// One direction of a connection: the sender's address and port, then the receiver's.
pub type Way = (IpAddr, u16, IpAddr, u16);

/// A retransmission that the kernel told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resent {
    pub at_ns: i64,
    pub why: Why,
}

/// The retransmissions of each way, in order.
pub type Truth = BTreeMap<Way, Vec<Resent>>;

/// State of a way while the trace is read.
#[derive(Default)]
struct State {
    now: u8,
    /// Cause of the next retransmission, if the latest state decides the cause.
    mark: Option<Why>,
}

/// Labels every retransmission of a trace whose clock is `offset_ns` behind the captures'.
///
/// # Errors
/// If a line tells one of the two events and cannot be read.
pub fn read(trace: &str, offset_ns: i64) -> Result<Truth> {
    let mut states: BTreeMap<Way, State> = BTreeMap::new();
    let mut truth = Truth::new();
    for (n, line) in trace.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let Some(event) = event(line).with_context(|| format!("line {} of the trace: {line}", n + 1))? else {
            continue;
        };
        let state = states.entry(event.way).or_default();
        match event.what {
            What::Set(now) => {
                state.now = now;
                state.mark = match now {
                    LOSS => Some(Why::Timeout),
                    RECOVERY => Some(Why::FastRetransmit),
                    _ => None,
                };
            }
            What::Resent => {
                let why = state.mark.take().unwrap_or(match state.now {
                    LOSS => Why::AfterTimeout,
                    RECOVERY => Why::Recovery,
                    _ => Why::Probe,
                });
                truth.entry(event.way).or_default().push(Resent { at_ns: event.at_ns + offset_ns, why });
            }
            What::Failed => {}
        }
    }
    Ok(truth)
}

struct Event {
    at_ns: i64,
    way: Way,
    what: What,
}

enum What {
    Set(u8),
    Resent,
    /// The packet did not leave the machine.
    Failed,
}

/// An event of a line: `COMMAND-PID [CPU] FLAGS SECONDS: NAME: KEY=VALUE ...`, where a command may hold blanks.
fn event(line: &str) -> Result<Option<Event>> {
    const SET: &str = ": tcp_cong_state_set: ";
    const RESENT: &str = ": tcp_retransmit_skb: ";
    let (before, fields, set) = if let Some((before, fields)) = line.split_once(SET) {
        (before, fields, true)
    } else if let Some((before, fields)) = line.split_once(RESENT) {
        (before, fields, false)
    } else {
        return Ok(None);
    };
    let field = |name: &str| fields.split_whitespace().find_map(|f| f.strip_prefix(name)?.strip_prefix('='));
    let asked = |name: &'static str| field(name).with_context(|| format!("it has no {name}"));
    let address = |name| asked(name)?.parse::<IpAddr>().with_context(|| format!("its {name} is no address"));
    let port = |name| asked(name)?.parse::<u16>().with_context(|| format!("its {name} is no port"));
    let time = before.split_whitespace().next_back().unwrap_or_default();
    let what = if set {
        What::Set(asked("cong_state")?.parse().context("its cong_state is no number")?)
    } else if field("err").is_none_or(|err| err == "0") {
        // Kernels whose event has no `err` tell only of those that left.
        What::Resent
    } else {
        What::Failed
    };
    let way = (address("saddr")?, port("sport")?, address("daddr")?, port("dport")?);
    Ok(Some(Event { at_ns: nanos(time)?, way, what }))
}

/// Nanoseconds of a decimal number of seconds, without rounding; digits beyond the ninth are cut.
pub fn nanos(seconds: &str) -> Result<i64> {
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    ensure!(!whole.is_empty() && digits(whole) && digits(part), "`{seconds}` is no number of seconds");
    let part: String = part.chars().chain("000000000".chars()).take(9).collect();
    let whole: i64 = whole.parse().with_context(|| format!("`{seconds}` is too large"))?;
    let part: i64 = part.parse().with_context(|| format!("`{seconds}` is no number of seconds"))?;
    whole
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(part))
        .with_context(|| format!("`{seconds}` seconds are too many"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line of the kernel's trace about a sender on port 80.
    fn line(at: &str, dport: u16, rest: &str) -> String {
        let name = if rest.starts_with("cong") { "tcp_cong_state_set" } else { "tcp_retransmit_skb" };
        format!(
            " lto e2b-4866    [001] .Ns1.  {at}: {name}: family=AF_INET sport=80 dport={dport} saddr=10.78.2.2 \
             daddr=10.77.1.7 saddrv6=::ffff:10.78.2.2 daddrv6=::ffff:10.77.1.7 {rest}\n"
        )
    }

    fn way(dport: u16) -> Way {
        (IpAddr::from([10, 78, 2, 2]), 80, IpAddr::from([10, 77, 1, 7]), dport)
    }

    fn whys(trace: &str, dport: u16) -> Vec<&'static str> {
        let truth = read(trace, 0).unwrap();
        truth.get(&way(dport)).map_or_else(Vec::new, |all| all.iter().map(|r| r.why.name()).collect())
    }

    #[test]
    fn the_first_after_a_state_is_its_cause() {
        let trace = [
            line("1.000000", 7, "cong_state=4"),
            line("1.000010", 7, "state=TCP_ESTABLISHED err=0"),
            line("1.100000", 7, "state=TCP_ESTABLISHED err=0"),
            line("2.000000", 7, "cong_state=3"),
            line("2.000010", 7, "state=TCP_ESTABLISHED err=0"),
            line("2.100000", 7, "state=TCP_ESTABLISHED err=0"),
            // The timer fires again, in Loss already.
            line("3.000000", 7, "cong_state=4"),
            line("3.000001", 7, "cong_state=4"),
            line("3.000010", 7, "state=TCP_ESTABLISHED err=0"),
        ];
        assert_eq!(
            whys(&trace.concat(), 7),
            ["timeout", "after_timeout", "fast_retransmit", "recovery", "timeout"]
        );
    }

    #[test]
    fn another_state_forgets_and_a_failure_does_not() {
        let trace = [
            line("1.000000", 7, "cong_state=3"),
            line("1.000001", 7, "cong_state=0"),
            line("1.000010", 7, "state=TCP_ESTABLISHED err=0"),
            line("2.000000", 7, "cong_state=4"),
            line("2.000010", 7, "state=TCP_FIN_WAIT1 err=-113"),
            line("2.000020", 7, "state=TCP_FIN_WAIT1 err=0"),
        ];
        assert_eq!(whys(&trace.concat(), 7), ["probe", "timeout"]);
    }

    #[test]
    fn connections_do_not_mix_and_other_lines_are_passed_over() {
        let trace = [
            "# tracer: nop\n".to_owned(),
            line("1.000000", 7, "cong_state=4"),
            line("1.000005", 8, "state=TCP_ESTABLISHED err=0"),
            "CPU:1 [LOST 5 EVENTS]\n".to_owned(),
            // As before `err` was added to the event.
            line("1.000010", 7, "state=TCP_ESTABLISHED"),
        ];
        assert_eq!(whys(&trace.concat(), 7), ["timeout"]);
        assert_eq!(whys(&trace.concat(), 8), ["probe"]);
    }

    #[test]
    fn times_are_the_captures() {
        let trace = line("2336.044069", 7, "state=TCP_ESTABLISHED err=0");
        let truth = read(&trace, nanos("1795518479.2334483").unwrap()).unwrap();
        // 2336.044069 s + 1795518479.2334483 s = 1795520815.2775173 s.
        assert_eq!(truth[&way(7)][0].at_ns, 1_795_520_815_277_517_300);
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let whole = line("1.000000", 7, "cong_state=4");
        let cut = whole.split(" daddr").next().unwrap();
        let told = format!("{:#}", read(cut, 0).unwrap_err());
        assert!(told.starts_with("line 1 of the trace") && told.ends_with("it has no cong_state"), "{told}");
    }

    #[test]
    fn seconds() {
        assert_eq!(nanos("12").unwrap(), 12_000_000_000);
        assert_eq!(nanos("0.000001").unwrap(), 1_000);
        assert_eq!(nanos("1.1234567899").unwrap(), 1_123_456_789);
        for wrong in ["", ".5", "1.2.3", "-1", "1e3", "99999999999999999999"] {
            assert!(nanos(wrong).is_err(), "{wrong}");
        }
    }
}
