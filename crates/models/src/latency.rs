//! How long a transfer takes, from the first SYN to the ACK of its last segment.
//!
//! Cardwell, Savage and Anderson, "Modeling TCP Latency" (INFOCOM 2000); equation numbers are theirs. A transfer is a
//! handshake, a slow start until its first loss, that loss, and what is left at the rate of a long flow
//! ([`padhye_throughput`]).
//!
//! Where we differ:
//! - Eq. 5 prints `(1-(1-p)^d)(1-p)/p + 1` for a sum that is smaller by one, as it must be: for p -> 0 it is d, the
//!   print d+1. We take the sum.
//! - The SYN's timer is an argument: 3 s in the paper, 1 s since RFC 6298.
//! - A window larger than Wmax starts at Wmax.
//!
//! What the model leaves out: rounds are counted in fractions; a loss in the last few packets of a transfer times out
//! more often than Q of the window says; timers of SYN and SYN+ACK double without end (so no loss of a half or more);
//! the transfer after its first loss is a long flow from its first packet. What that costs is measured in the tests.

use crate::Result;
use crate::domain::within;
use crate::throughput::{LongFlow, loss_of, padhye_throughput, seconds, timeout_probability, timeouts_s};

/// A transfer and the transfer's path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// d: segments to send, 1 to 1e12.
    pub packets: u64,
    /// The path: its loss, which is also that of the SYN (p_f), below 1/2; RTT; T0; b; Wmax.
    pub flow: LongFlow,
    /// p_r: loss on the way back, which here only the SYN+ACK feels. Below 1/2.
    pub reverse_loss: f64,
    /// T_s: the first timeout of SYN and SYN+ACK, seconds. 1 s by RFC 6298 section 2.1.
    pub syn_rto_s: f64,
    /// w_1: initial window, packets, 1 to 1e9. 10 by RFC 6928.
    pub initial_window: f64,
    /// Mean delay of the ACK of a lone first segment, seconds; it counts where `initial_window` is below 2. The paper
    /// takes 0.1 s for receivers with a timer that ticks every 0.2 s.
    /// 2. The paper takes 0.1 s for receivers with a timer that ticks every 0.2 s.
    pub delayed_ack_s: f64,
}

/// The expected time of a transfer, by parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// E\[L_h\]: the handshake, seconds (Eq. 4).
    pub handshake_s: f64,
    /// E\[T_ss\]: slow start up to the first loss, seconds (Eq. 15).
    pub slow_start_s: f64,
    /// E\[T_loss\]: the first loss, seconds (Eq. 20).
    pub loss_s: f64,
    /// E\[T_ca\]: what is left, as a long flow, seconds (Eq. 24).
    pub avoidance_s: f64,
    /// E\[T_delack\], seconds.
    pub delayed_ack_s: f64,
    /// E\[d_ss\]: packets sent before the first loss (Eq. 5).
    pub slow_start_packets: f64,
    /// E\[W_ss\]: the window in which slow start ends if nothing limits it, packets (Eq. 11).
    pub window_packets: f64,
    /// l_ss: probability that the transfer loses anything (Eq. 16).
    pub loss_probability: f64,
    /// Q(p, E\[W_ss\]): probability that its first loss is repaired by a timeout (Eq. 17).
    pub timeout_probability: f64,
}

impl Latency {
    /// E\[T\]: from the first segment of data to the last ACK, seconds (Eq. 25).
    #[must_use]
    pub fn transfer_s(&self) -> f64 {
        self.slow_start_s + self.loss_s + self.avoidance_s + self.delayed_ack_s
    }

    /// Handshake and transfer, seconds.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.handshake_s + self.transfer_s()
    }
}

/// E\[L_h\], seconds (Eq. 4): `RTT + T_s ((1-p_r)/(1-2p_r) + (1-p_f)/(1-2p_f) - 2)`. The SYN is lost i times with
/// probability p_f^i (1-p_f) and that costs (2^i - 1) T_s; the SYN+ACK likewise.
///
/// # Errors
/// If a loss is neither 0 nor in 1e-12 <= loss < 1/2, where the sum of doubling timers has no end, or a time is not in
/// 1e-9 to 1e9 seconds.
pub fn handshake_s(forward_loss: f64, reverse_loss: f64, rtt_s: f64, syn_rto_s: f64) -> Result<f64> {
    let waits = |parameter, p: f64| {
        let expected = "0 <= loss < 0.5: above, the SYN's doubling timer has no mean";
        // (1-p)/(1-2p) - 1, without cancellation.
        within(parameter, loss_of(parameter, p)?, 0.0..0.5, expected).map(|p| p / (1.0 - 2.0 * p))
    };
    let timers = waits("loss", forward_loss)? + waits("reverse_loss", reverse_loss)?;
    Ok(seconds("rtt", rtt_s)? + seconds("syn_rto", syn_rto_s)? * timers)
}

/// The expected latency of a transfer.
///
/// With gamma = 1 + 1/b, the growth of the window in a round of slow start:
/// - Eq. 5: `E[d_ss] = (1-p)(1-(1-p)^d)/p`; Eq. 16: `l_ss = 1-(1-p)^d`
/// - Eq. 11: `E[W_ss] = E[d_ss](gamma-1)/gamma + w_1/gamma`
/// - Eq. 15: `E[T_ss] = RTT log_gamma(E[d_ss](gamma-1)/w_1 + 1)` if E\[W_ss\] <= Wmax, else
///   `RTT (log_gamma(Wmax/w_1) + 1 + (E[d_ss] - (gamma Wmax - w_1)/(gamma-1)) / Wmax)`
/// - Eq. 20: `E[T_loss] = l_ss (Q E[Z^TO] + (1-Q) RTT)`: a timeout ([`timeouts_s`]), or a fast recovery of one RTT
/// - Eq. 21 to 24: `E[T_ca] = (d - E[d_ss]) / R`, R = [`padhye_throughput`]
///
/// # Errors
/// A quantity outside the domain that [`Transfer`] and [`Flow`] state.
pub fn cardwell(transfer: &Transfer) -> Result<Latency> {
    let LongFlow { loss: p, rtt_s, rto_s, b, wmax_packets } = *transfer.flow.checked()?;
    let d = within("packets", transfer.packets as f64, 1.0..=1e12, "1 to 1e12 packets")?;
    let handshake_s = handshake_s(p, transfer.reverse_loss, rtt_s, transfer.syn_rto_s)?;
    let w1 = within(
        "initial_window",
        transfer.initial_window,
        1.0..=1e9,
        "an initial window of 1 to 1e9 packets",
    )?;
    let delayed_ack_s = within("delayed_ack", transfer.delayed_ack_s, 0.0..=1e9, "0 to 1e9 seconds")?;
    let w1 = wmax_packets.map_or(w1, |most| w1.min(most));

    let gamma = 1.0 + 1.0 / b;
    let loss_probability = -(d * (-p).ln_1p()).exp_m1();
    let before = if p == 0.0 { d } else { loss_probability * (1.0 - p) / p };
    let window = before * (gamma - 1.0) / gamma + w1 / gamma;
    // log_gamma(1 + x), exact for a transfer that is small beside its window.
    let rounds_for = |x: f64| x.ln_1p() / (1.0 / b).ln_1p();
    let rounds = match wmax_packets {
        Some(most) if window > most => {
            let grown = (gamma * most - w1) / (gamma - 1.0);
            rounds_for(most / w1 - 1.0) + 1.0 + (before - grown) / most
        }
        _ => rounds_for(before * (gamma - 1.0) / w1),
    };
    // The window is a share of at most 1e12 packets: more than 1e9 changes no probability that can be told.
    let timeout = timeout_probability(p, wmax_packets.map_or(window, |most| window.min(most)).min(1e9))?;
    let left = d - before;
    let avoidance_s = if p == 0.0 { 0.0 } else { left.max(0.0) / padhye_throughput(&transfer.flow)? };
    Ok(Latency {
        handshake_s,
        slow_start_s: rounds * rtt_s,
        loss_s: loss_probability * (timeout * timeouts_s(p, rto_s)? + (1.0 - timeout) * rtt_s),
        avoidance_s,
        delayed_ack_s: if w1 < 2.0 { delayed_ack_s } else { 0.0 },
        slow_start_packets: before,
        window_packets: window,
        loss_probability,
        timeout_probability: timeout,
    })
}

#[cfg(test)]
mod tests;
