//! Record of the calls between the kernel and a sender: what the kernel passes and what the sender returns. The same
//! programs run, compiled with a recorder around each (`bpf/watch.h`). A call is two steps: as the kernel makes it, and
//! as it returns.

use std::path::Path;

use anyhow::Context as _;

use crate::knobs::{Sender, Settings};
use crate::libbpf::Ring;
use crate::load::load_object;
use crate::objects;

/// Program of a sender that the kernel called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// New data was acknowledged outside of recovery; the value is in segments.
    CongAvoid,
    /// Data was acknowledged; the value is the RTT sample in microseconds, below 1 for none.
    PktsAcked,
    /// A loss; the value, when it returns, is the threshold in segments.
    Ssthresh,
    /// An event of the kernel's `enum tcp_ca_event`, which the value names.
    CwndEvent,
    /// TCP would transmit; the value, when it returns, is how many segments it may join.
    MinTsoSegs,
}

/// A call's begin or end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallStep {
    /// Tells sockets apart; not an address to be used.
    pub socket: u64,
    /// Time of the machine's monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// Counts all steps; a gap means that some were lost because nobody took them.
    pub number: u32,
    /// Program that was called.
    pub call: Call,
    /// Whether the step is the call's end.
    pub returned: bool,
    /// Value that was passed or returned; its meaning is told at each [`Call`].
    pub value: i32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow start threshold in segments.
    pub ssthresh: u32,
    /// The kernel's smoothed RTT in microseconds.
    pub srtt_us: u32,
    /// Whether the window was used, so that it may grow.
    pub used: bool,
    /// The second and third word of the sender's private state: for B-TCP whether it is on, and the window's part of a
    /// segment in 1/1048576; for adaptive AIMD beta in 1/65536 and RTTmin in microseconds; for Initial Spreading its
    /// phase (0 before the first segment, 1 while it spreads, 2 after) and the segments whose slot has come.
    pub private: [u32; 2],
}

/// Bytes of a `struct step`.
const STEP: usize = 56;

impl CallStep {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let u16_at = |at: usize| bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes);
        let u64_at = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let call = match u16_at(20)? {
            1 => Call::CongAvoid,
            2 => Call::PktsAcked,
            3 => Call::Ssthresh,
            4 => Call::CwndEvent,
            5 => Call::MinTsoSegs,
            _ => return None,
        };
        let step = Self {
            socket: u64_at(0)?,
            at_ns: u64_at(8)?,
            number: u32_at(16)?,
            call,
            returned: u16_at(22)? != 0,
            value: u32_at(24)?.cast_signed(),
            cwnd: u32_at(28)?,
            ssthresh: u32_at(32)?,
            srtt_us: u32_at(36)?,
            used: u32_at(40)? != 0,
            private: [u32_at(48)?, u32_at(52)?],
        };
        (bytes.len() == STEP).then_some(step)
    }
}

/// A loaded sender under observation.
pub struct WatchedSender {
    ring: Ring,
}

impl WatchedSender {
    /// Loads a sender as [`crate::load`] does, in the edition that tells what it does.
    ///
    /// # Errors
    /// Those of loading.
    pub fn load(bpffs: &Path, name: &str, settings: &Settings) -> anyhow::Result<Self> {
        let object = match settings.sender() {
            Sender::Btcp => objects::BTCP_WATCHED,
            Sender::Aaimd => objects::AAIMD_WATCHED,
            Sender::Spreading => objects::IS_WATCHED,
        };
        let object = load_object(object, bpffs, name, settings)?;
        Ok(Self { ring: Ring::new(&object.map("steps")?)? })
    }

    /// Takes the steps since the last time. Some 20 000 fit; more are lost, which their numbers tell.
    ///
    /// # Errors
    /// The system's.
    pub fn steps(&mut self) -> anyhow::Result<Vec<CallStep>> {
        let steps = self.ring.consume()?;
        steps.iter().map(|s| CallStep::parse(s).context("a step that is none")).collect()
    }
}
