//! Throughput of a long flow as a function of its loss.
//!
//! - Mathis, Semke, Mahdavi and Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm" (1997): the
//!   mean window of a flow that halves at each loss and never times out. [`mathis`].
//! - Padhye, Firoiu, Towsley and Kurose, "Modeling TCP Throughput: A Simple Model and its Empirical Validation"
//!   (SIGCOMM 1998) and "Modeling TCP Reno Performance" (IEEE/ACM ToN 8(2), 2000): timeouts with doubling and a limited
//!   window as well. [`padhye`] and [`padhye_throughput`] are the full model, [`padhye_approximate`] the short form.
//! - RFC 5348 section 3.1: TFRC's equation, the short form with a timeout of four round trips and no limit. [`tfrc`].
//!
//! Padhye's flow sends in rounds of one RTT. A loss takes the rest of its round with it; rounds are independent. A loss
//! is told by three duplicate ACKs, and the window halves, or, where too few packets follow, by a timeout. The two
//! printings number their equations differently, so sections are cited: 2.1 (II-A) duplicate ACKs alone, 2.2 (II-B)
//! timeouts, 2.3 (II-C) the window's limit.
//!
//! What the model leaves out: slow start after a timeout, fast recovery's inflated window, SACK, more than one cut for
//! a round. Its closed form puts means in place of random windows; what that costs is measured in the tests.

use crate::Result;
use crate::domain::{positive, within};

/// Packets per RTT of Mathis et al.: `sqrt(3 / (2 b p))`, with `b` segments acknowledged by one ACK (1, or 2 for
/// delayed ACKs).
///
/// # Errors
/// If `loss` is not in 0 < loss <= 1, or `b` is not above 0.
pub fn mathis(loss: f64, b: f64) -> Result<f64> {
    let p = within(
        "loss",
        loss,
        f64::MIN_POSITIVE..=1.0,
        "0 < loss <= 1: a flow that loses nothing has no mean window",
    )?;
    let b = positive("b", b)?;
    Ok((1.5 / (b * p)).sqrt())
}

/// A long flow and the flow's path, in the symbols of Padhye et al.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongFlow {
    /// p: probability that a packet is lost, given that the one before it in its round was not. 0, or 1e-12 <= p < 1.
    pub loss: f64,
    /// RTT, seconds; queueing included. 1e-9 to 1e9.
    pub rtt_s: f64,
    /// T0: the first timeout of a series, seconds. 1e-9 to 1e9.
    pub rto_s: f64,
    /// b: segments acknowledged by one ACK: 1, or 2 with delayed ACKs. 1 to 1000.
    pub b: f64,
    /// Wmax: the receiver's window, packets, 1 to 1e9; `None`: no limit.
    pub wmax_packets: Option<f64>,
}

impl LongFlow {
    /// Returns the flow if every quantity is in its domain.
    pub(crate) fn checked(&self) -> Result<&Self> {
        loss_of("loss", self.loss)?;
        seconds("rtt", self.rtt_s)?;
        seconds("rto", self.rto_s)?;
        segments_per_ack(self.b)?;
        if let Some(w) = self.wmax_packets {
            within("wmax", w, 1.0..=1e9, "1 to 1e9 packets")?;
        }
        Ok(self)
    }

    /// Wmax where it limits: always without loss, else where the mean window would be at least as large.
    fn limit(&self) -> Result<Option<f64>> {
        match self.wmax_packets {
            None => {
                let expected =
                    "1e-12 <= loss < 1, or a wmax: a flow that loses nothing and has no wmax has no end";
                within("loss", self.loss, 1e-12..1.0, expected)?;
                Ok(None)
            }
            Some(w) if self.loss == 0.0 || mean_window(self.loss, self.b)? >= w => Ok(Some(w)),
            Some(_) => Ok(None),
        }
    }
}

/// `loss` if it is 0 or from 1e-12 to below 1. What is between is 0 for every purpose, but 1/p is no longer exact.
pub(crate) fn loss_of(parameter: &'static str, loss: f64) -> Result<f64> {
    if loss == 0.0 { Ok(0.0) } else { within(parameter, loss, 1e-12..1.0, "0, or 1e-12 <= loss < 1") }
}

/// A time the equations can take.
pub(crate) fn seconds(parameter: &'static str, time_s: f64) -> Result<f64> {
    within(parameter, time_s, 1e-9..=1e9, "1e-9 to 1e9 seconds")
}

fn segments_per_ack(b: f64) -> Result<f64> {
    within("b", b, 1.0..=1000.0, "1 to 1000 segments for an ACK")
}

/// E\[W\], packets: the mean window at the moment of a loss if no receiver limits it (Padhye, section 2.1):
/// `(2+b)/(3b) + sqrt(8(1-p)/(3bp) + ((2+b)/(3b))^2)`. The mean over time is about three quarters of it.
///
/// # Errors
/// If `loss` is not in 1e-12 <= loss < 1, or `b` not in 1 to 1000.
pub fn mean_window(loss: f64, b: f64) -> Result<f64> {
    let p = within("loss", loss, 1e-12..1.0, "1e-12 <= loss < 1")?;
    let b = segments_per_ack(b)?;
    let c = (2.0 + b) / (3.0 * b);
    Ok(c + (8.0 * (1.0 - p) / (3.0 * b * p) + c * c).sqrt())
}

/// Q^(w): the probability that a loss in a window of `w` packets ends in a timeout (Padhye, section 2.2): fewer than
/// three packets of the round before the loss, or of the round those clocked out, arrive.
/// `min(1, (1-q^3)(1 + q^3(1-q^(w-3))) / (1-q^w))` with q = 1-p; 1 for w <= 3.
///
/// # Errors
/// If `loss` is neither 0 nor in 1e-12 <= loss < 1, or `w` is not from 0 to 1e9.
pub fn timeout_probability(loss: f64, w: f64) -> Result<f64> {
    let p = loss_of("loss", loss)?;
    let w = within("w", w, 0.0..=1e9, "0 to 1e9 packets")?;
    if w <= 3.0 {
        return Ok(1.0);
    }
    if p == 0.0 {
        // The limit: each of the w places is as likely.
        return Ok(3.0 / w);
    }
    // 1 - q^n without cancellation.
    let some_of = |n: f64| -(n * (-p).ln_1p()).exp_m1();
    let q3 = 1.0 - some_of(3.0);
    Ok((some_of(3.0) * (1.0 + q3 * some_of(w - 3.0)) / some_of(w)).min(1.0))
}

/// E\[Z^TO\], seconds: the mean length of a series of timeouts whose timer doubles to 64 times `rto_s` and stays there:
/// `T0 f(p) / (1-p)`, f(p) = 1 + p + 2p^2 + 4p^3 + 8p^4 + 16p^5 + 32p^6 (Padhye, section 2.2).
///
/// # Errors
/// If `loss` is neither 0 nor in 1e-12 <= loss < 1, or `rto_s` is not in 1e-9 to 1e9.
pub fn timeouts_s(loss: f64, rto_s: f64) -> Result<f64> {
    let p = loss_of("loss", loss)?;
    Ok(seconds("rto", rto_s)? * back_off(p) / (1.0 - p))
}

/// f(p).
fn back_off(p: f64) -> f64 {
    1.0 + p * (1.0 + p * (2.0 + p * (4.0 + p * (8.0 + p * (16.0 + p * 32.0)))))
}

/// B(p), packets per second: the send rate of the full model (Padhye, section 2.3), retransmissions and packets that
/// are lost included. With w = E\[W\] below Wmax
///
/// `((1-p)/p + w + Q^(w)/(1-p)) / (RTT (b w/2 + 1) + Q^(w) T0 f(p)/(1-p))`,
///
/// else with w = Wmax and the RTTs `b w/8 + (1-p)/(p w) + 2`. Without loss: Wmax / RTT. The two meet only for b = 2: at
/// the loss that makes E\[W\] = Wmax the RTTs of a cycle jump by (2-b)/4, so for b = 1 the rate rises a little there.
///
/// # Errors
/// A quantity outside the domain that [`LongFlow`] states; no loss and no Wmax.
pub fn padhye(flow: &LongFlow) -> Result<f64> {
    full(flow, |w, timeout, p| w + timeout / (1.0 - p))
}

/// T(p), packets per second: what arrives of [`padhye`] (the extension of the 2000 paper to throughput): of a cycle's
/// packets half a window is lost, of a series of timeouts one packet arrives. The numerator is `(1-p)/p + w/2 + Q^(w)`.
///
/// # Errors
/// As [`padhye`].
pub fn padhye_throughput(flow: &LongFlow) -> Result<f64> {
    full(flow, |w, timeout, _| w / 2.0 + timeout)
}

/// The full model; `beyond` is what a cycle sends beyond the (1-p)/p before its loss, of w, Q^(w) and p.
fn full(flow: &LongFlow, beyond: impl Fn(f64, f64, f64) -> f64) -> Result<f64> {
    let LongFlow { loss: p, rtt_s, rto_s, b, .. } = *flow.checked()?;
    let limit = flow.limit()?;
    if let (Some(w), true) = (limit, p == 0.0) {
        return Ok(w / rtt_s);
    }
    let before = (1.0 - p) / p;
    let (w, rounds) = match limit {
        None => {
            let w = mean_window(p, b)?;
            (w, b * w / 2.0 + 1.0)
        }
        Some(w) => (w, b * w / 8.0 + before / w + 2.0),
    };
    let timeout = timeout_probability(p, w)?;
    Ok((before + beyond(w, timeout, p)) / (rtt_s * rounds + timeout * timeouts_s(p, rto_s)?))
}

/// The short form of [`padhye`], packets per second (Padhye, section 2.3):
/// `min(Wmax/RTT, 1 / (RTT sqrt(2bp/3) + T0 min(1, 3 sqrt(3bp/8)) p (1 + 32p^2)))`.
///
/// # Errors
/// As [`padhye`].
pub fn padhye_approximate(flow: &LongFlow) -> Result<f64> {
    let LongFlow { loss: p, rtt_s, rto_s, b, wmax_packets } = *flow.checked()?;
    flow.limit()?;
    let timeout = (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0);
    let rate = 1.0 / (rtt_s * (2.0 * b * p / 3.0).sqrt() + rto_s * timeout * p * (1.0 + 32.0 * p * p));
    Ok(wmax_packets.map_or(rate, |w| rate.min(w / rtt_s)))
}

/// X, packets per second, of TFRC (RFC 5348 section 3.1): `1 / (R sqrt(2bp/3) + t_RTO 3 sqrt(3bp/8) p (1 + 32p^2))`
/// with t_RTO = 4R and, as the RFC recommends, no care for delayed ACKs: `b` = 1. Here p is the rate of loss events,
/// and what is lost within one RTT of the first is one event. At p above 0.2 or so the probability of a timeout in it
/// is above 1.
///
/// # Errors
/// If `loss` is not in 1e-12 <= loss <= 1, `rtt_s` not in 1e-9 to 1e9, or `b` not in 1 to 1000.
pub fn tfrc(loss: f64, rtt_s: f64, b: f64) -> Result<f64> {
    let p = within("loss", loss, 1e-12..=1.0, "1e-12 <= loss <= 1: without loss the equation sets no rate")?;
    let r = seconds("rtt", rtt_s)?;
    let b = segments_per_ack(b)?;
    let t_rto = 4.0 * r;
    let timeout = 3.0 * (3.0 * b * p / 8.0).sqrt();
    Ok(1.0 / (r * (2.0 * b * p / 3.0).sqrt() + t_rto * timeout * p * (1.0 + 32.0 * p * p)))
}

#[cfg(test)]
mod tests;
