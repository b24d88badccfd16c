//! How long a short transfer takes whose first window is a burst, is spread over the first RTT, or is one segment.
//!
//! Sallantin, Baudoin, Chaput, Arnal, Dubois and Beylot, "A TCP Model for Short-Lived Flows to Validate Initial
//! Spreading" (LCN 2014), section IV. A transfer of `i` segments is in one of three states: `D_i^n`, a first window of
//! `n` sent as one burst; `S_i^n`, a first window of `n` spread over the RTT; `B_i^n`, a later window of `n`, sent in
//! pairs as slow start does.
//!
//! Assumptions (section IV.A): a segment is lost with probability `p`, and with it all later ones of its burst; bursts,
//! and segments that are spread, are independent; ACKs arrive; serialization takes no time; a timeout sets the window
//! to one and only what was lost is sent again; three duplicate ACKs are possible only in `S`, and repair begins when
//! three segments after the last loss have arrived.
//!
//! Where we differ. The printed equations are wrong in a dozen places ([`paper_literal`] has them as printed); here is
//! what the paper's own process does. The printed sums over numbers of losses are convolutions, and are computed as
//! such: a window of pairs takes two steps at a time ([`Spreading`]'s `pairs`), so there are no binomial coefficients
//! to overflow and no sum to be weighted wrongly, and the variance comes with the mean. `D_i^n` with `i > n` is not in
//! the paper: it is equation (6) with the window as one burst.

mod moments;
pub mod paper_literal;
#[cfg(test)]
mod tests;

use crate::Result;
use crate::domain::{positive, within};
use moments::Moments;

/// The most segments of a transfer, and of a window: memory grows with their square, to 13 MB here.
pub const MOST_SEGMENTS: usize = 1024;

/// Effect of a timeout on the timer of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// Only the single segment of a window of one doubles the timer, each time it is lost; a timeout of a larger window
    /// starts again with the base timer. The paper's.
    #[default]
    SingleSegment,
    /// Every timeout doubles the timer, and the next cumulative ACK of something new restores it: RFC 6298, (5.5), with
    /// the RTO computed again at each such ACK.
    EveryTimeout,
}

/// The path and the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// `p`: probability that a segment is lost if none of its burst was before; below 1/2, or the doubled timer has no
    /// mean.
    pub loss: f64,
    /// `R`: round-trip time in seconds.
    pub rtt_s: f64,
    /// `T0`: the retransmission timer before any back-off, in seconds; at least the RTT.
    pub rto_s: f64,
    /// Effect of a timeout on the timer of the next one.
    pub backoff: Backoff,
}

/// How long until the last segment is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// Mean in seconds.
    pub mean_s: f64,
    /// Standard deviation in seconds; from a loss of 1/4 on there is none, since the doubled timer has no second
    /// moment.
    pub std_dev_s: Option<f64>,
}

/// The probability that none of `segments` is lost: `(1-p)^m`.
///
/// It is what independent losses give; the bursty loss of this model gives the same, since its first loss is as likely.
/// A real burst does worse from four segments on (Fig. 4), and by how much is what is measured.
///
/// # Errors
/// If `loss` is not in 0 <= loss <= 1.
pub fn no_loss(loss: f64, segments: u32) -> Result<f64> {
    let p = within("loss", loss, 0.0..=1.0, "0 <= loss <= 1")?;
    Ok((1.0 - p).powf(f64::from(segments)))
}

/// The recursion for one path, with everything that a transfer up to some number of segments needs.
#[derive(Clone, Debug)]
pub struct Spreading {
    p: f64,
    q: f64,
    rtt_s: f64,
    rto_s: f64,
    /// `T(B_j^1)` by `j`, from 0.
    fresh: Vec<Moments>,
    /// `T(B_j^1)` by `j`, from 0, entered by a timeout.
    backed_off: Vec<Moments>,
    /// Time that all lost segments take after a timeout, by `c + m` and `m`, where `c` segments are lost and `m` more
    /// are sent in pairs: `sum_t P_{t,m} T(B_{c+t}^1)`.
    pairs: Vec<Vec<Moments>>,
}

impl Spreading {
    /// Prepares the recursion for transfers of up to `most` segments: takes a time and memory that grow with the square
    /// of `most`.
    ///
    /// # Errors
    /// If `loss` is not in 0 <= loss < 1/2, `rtt_s` not above 0, `rto_s` below `rtt_s`, or `most` not in 1 to 1024.
    pub fn new(parameters: Parameters, most: usize) -> Result<Self> {
        let Parameters { loss, rtt_s, rto_s, backoff } = parameters;
        let p = within("loss", loss, 0.0..0.5, "0 <= loss < 0.5: from there on doubled timers have no mean")?;
        let rtt_s = positive("rtt", rtt_s)?;
        let rto_s =
            within("rto", rto_s, rtt_s..=1e6, "rtt <= rto <= 1e6 s: a shorter timer fires without a loss")?;
        let most = segments("i", most, MOST_SEGMENTS)?;
        let mut this = Self {
            p,
            q: 1.0 - p,
            rtt_s,
            rto_s,
            fresh: Vec::new(),
            backed_off: Vec::new(),
            pairs: Vec::new(),
        };
        let one = Moments::doubling(p, rtt_s, rto_s);
        let one_more = match backoff {
            Backoff::SingleSegment => one,
            Backoff::EveryTimeout => Moments::doubling(p, rtt_s, 2.0 * rto_s),
        };
        this.push(Moments::NOW, Moments::NOW);
        for j in 1..=most {
            // T(B_j^1) = T(B_1^1) + T(B_{j-1}^2): the first is delivered, however long it takes, and two may go.
            let rest = this.later(j - 1, 2);
            this.push(one.then(rest), one_more.then(rest));
        }
        Ok(this)
    }

    /// The next of `fresh`, `backed_off` and `pairs`.
    fn push(&mut self, fresh: Moments, backed_off: Moments) {
        let (p, q) = (self.p, self.q);
        let sum = self.fresh.len();
        let mut row: Vec<Moments> = Vec::with_capacity(sum + 1);
        row.push(backed_off);
        if sum > 0 {
            row.push(self.lost(sum - 1, 0).with_probability(q) + backed_off.with_probability(p));
        }
        for m in 2..=sum {
            // A pair is delivered, loses its second, or both: q^2, qp, p.
            let (none, second) = (self.pairs[sum - 2][m - 2], self.pairs[sum - 1][m - 2]);
            row.push(
                none.with_probability(q * q)
                    + second.with_probability(q * p)
                    + row[m - 2].with_probability(p),
            );
        }
        self.fresh.push(fresh);
        self.backed_off.push(backed_off);
        self.pairs.push(row);
    }

    /// Time to repair `lost` segments and those lost of `sent` more in pairs, after a timeout.
    fn lost(&self, lost: usize, sent: usize) -> Moments {
        self.pairs[lost + sent][sent]
    }

    /// Time to repair the losses as [`Self::lost`] gives it, with the rest of one window and a second window after it.
    /// Either window may end with half a pair.
    fn lost_of_two(&self, lost: usize, rest: usize, next: usize) -> Moments {
        if rest % 2 == 1 && next % 2 == 1 {
            let sent = rest + next - 2;
            // Two single segments, of which `pairs` knows one at a time.
            return self.lost(lost, sent + 1).with_probability(self.q)
                + self.lost(lost + 1, sent + 1).with_probability(self.p);
        }
        self.lost(lost, rest + next)
    }

    /// `B_i^n`, equations (5) and (6) with corrections 7 to 12 of the notes, by the first segment that is lost.
    ///
    /// None of the first window: `R`, then `B_{i-n}^{2n}`. The first: its pair is gone, `T0`. The `u+1`th: `u` ACKs
    /// have set the timer, at `R`, and let `min(i-n, 2u)` more go; so `R + T0`.
    fn later(&self, i: usize, n: usize) -> Moments {
        let n = n.min(i);
        if n <= 1 {
            return self.fresh[i];
        }
        let unsent = i - n;
        let first = self.lost(unsent + 2, n - 2).after(self.rto_s).with_probability(self.p);
        let mut total = first;
        let mut delivered = self.q;
        for u in 1..n {
            let next = unsent.min(2 * u);
            // An even number delivered: the lost one opens a pair and takes its second with it, if there is one.
            let gone = if u % 2 == 0 && n - u >= 2 { 2 } else { 1 };
            let left = self.lost_of_two(unsent - next + gone, n - u - gone, next);
            total = total + left.after(self.rtt_s + self.rto_s).with_probability(delivered * self.p);
            delivered *= self.q;
        }
        total + self.later(unsent, 2 * n).after(self.rtt_s).with_probability(delivered)
    }

    /// `D_i^n`, equation (1), and beyond one window as in [`Self::later`]: all after the first loss is lost.
    fn burst(&self, i: usize, n: usize) -> Moments {
        let n = n.min(i);
        if n <= 1 {
            return self.fresh[i];
        }
        let unsent = i - n;
        let mut total = self.backed_off[i].after(self.rto_s).with_probability(self.p);
        let mut delivered = self.q;
        for u in 1..n {
            let next = unsent.min(2 * u);
            let left = self.lost(unsent - next + n - u, next);
            total = total + left.after(self.rtt_s + self.rto_s).with_probability(delivered * self.p);
            delivered *= self.q;
        }
        total + self.later(unsent, 2 * n).after(self.rtt_s).with_probability(delivered)
    }

    /// `S_i^n`, equations (2) and (3) with corrections 1 to 6, by the first segment `k` that is lost and the last, `x`.
    ///
    /// The timer would fire at `T0`, or `T0` after the ACK of segment `k-1`; the third duplicate ACK after the last
    /// loss is that of segment `x+3`, sent at `(x+2) R/n`. What comes first begins the repair of what was lost.
    fn spread(&self, i: usize, n: usize, fast_retransmit: bool) -> Moments {
        if i == 1 || n == 1 {
            return self.fresh[i];
        }
        let p = self.p;
        let gap_s = self.rtt_s / n as f64;
        let delivered: Vec<f64> =
            core::iter::successors(Some(1.0), |all| Some(all * self.q)).take(i + 1).collect();
        let repaired = between(&self.fresh, i, p);
        let timed_out = between(&self.backed_off, i, p);
        let mut total = Moments::default();
        for k in 1..=i {
            let timer_s = if k == 1 { self.rto_s } else { self.rto_s + self.rtt_s + (k - 2) as f64 * gap_s };
            for x in k..=i {
                let third_s = self.rtt_s + (x + 2) as f64 * gap_s;
                let fast = fast_retransmit && x + 3 <= i && third_s < timer_s;
                let (rest, at_s) = if fast { (&repaired, third_s) } else { (&timed_out, timer_s) };
                let ends = if x == k { p } else { p * p };
                let probability = ends * delivered[k - 1] * delivered[i - x];
                total = total + rest[x - k].after(at_s).with_probability(probability);
            }
        }
        let all_s = self.rtt_s + (i - 1) as f64 * gap_s;
        total + Moments::NOW.after(all_s).with_probability(delivered[i])
    }

    /// `T(D_i^n)`: `i` segments, the first window of `n` sent as one burst.
    ///
    /// # Errors
    /// If `i` is not in 1 to the most this was made for, or `n` not in 1 to 1024.
    pub fn d(&self, i: usize, n: usize) -> Result<Delivery> {
        self.check(i, n)?;
        Ok(self.delivery(self.burst(i, n)))
    }

    /// `T(S_i^n)` with fast retransmit: `i` segments at `R/n` from each other.
    ///
    /// # Errors
    /// As [`Self::d`], and if `i > n > 1`: the paper has no model of what follows a spread window without a loss.
    pub fn s(&self, i: usize, n: usize) -> Result<Delivery> {
        self.check_spread(i, n)?;
        Ok(self.delivery(self.spread(i, n, true)))
    }

    /// `T(S_i^n)` without fast retransmit.
    ///
    /// # Errors
    /// As [`Self::s`].
    pub fn s_no_fr(&self, i: usize, n: usize) -> Result<Delivery> {
        self.check_spread(i, n)?;
        Ok(self.delivery(self.spread(i, n, false)))
    }

    /// `T(B_i^n)`: `i` segments in a window of `n` that is sent in pairs. `T(B_i^1)` is slow start from a window of
    /// one.
    ///
    /// # Errors
    /// As [`Self::d`].
    pub fn b(&self, i: usize, n: usize) -> Result<Delivery> {
        self.check(i, n)?;
        Ok(self.delivery(self.later(i, n)))
    }

    fn check(&self, i: usize, n: usize) -> Result<()> {
        segments("i", i, self.fresh.len() - 1)?;
        segments("n", n, MOST_SEGMENTS).map(drop)
    }

    fn check_spread(&self, i: usize, n: usize) -> Result<()> {
        self.check(i, n)?;
        if n == 1 {
            return Ok(());
        }
        within("i", i as f64, 1.0..=n as f64, "1 <= i <= n, or n = 1: spreading is modelled for one window")
            .map(drop)
    }

    fn delivery(&self, time: Moments) -> Delivery {
        let variance = time.second - time.first * time.first;
        let std_dev_s = (self.p < 0.25).then(|| variance.max(0.0).sqrt());
        Delivery { mean_s: time.first, std_dev_s }
    }
}

/// Time to repair the losses, by the distance `x - k` of the last loss from the first: those two, and of the segments
/// between them each lost with probability `p`; for distances below `i`.
fn between(by_lost: &[Moments], i: usize, p: f64) -> Vec<Moments> {
    let mut left: Vec<Moments> = by_lost[..=i].to_vec();
    let mut out = vec![left[1]];
    for sent in 0..i.saturating_sub(1) {
        out.push(left[2]);
        // The next distance has one more segment between the two losses.
        for lost in 2..i - sent {
            left[lost] = left[lost].with_probability(1.0 - p) + left[lost + 1].with_probability(p);
        }
    }
    out
}

fn segments(parameter: &'static str, value: usize, most: usize) -> Result<usize> {
    within(
        parameter,
        value as f64,
        1.0..=most as f64,
        "1 to 1024 segments, and no more than the table was made for",
    )?;
    Ok(value)
}
