//! Declarations of [`crate::control`].

use super::arguments::{Arguments, Refused};
use super::{
    Gives, Module, Output, POSITIVE, SHARE, WordList, figure, groups, models, number, parameters, row, to,
    tuples, word,
};
use crate::control::{
    Control, Feedback, Gains, Stability, State, pipe_packets, share_packets, slow_start_rtts,
};

parameters! {
    /// Gain for the distance to the target, one for all flows or one for each.
    pub ALPHA = row("alpha", to(0.0, 1e6), &[0.1, 0.3], "flows");
    /// Gain for the change of the queue, one for all flows or one for each.
    pub BETA = row("beta", to(0.0, 1e6), &[0.2, 0.2], "flows");
    /// Packets served in a step (a round trip), all flows together.
    pub CAPACITY = number("capacity", POSITIVE, 10.0).or(1.0).unit("packets");
    /// Packets that the queue is to hold, all flows together.
    pub TARGET = number("target", POSITIVE, 5.0).or(1.0).unit("packets");
    /// Packets outstanding in the queue at the start.
    pub QUEUE = number("queue", to(-1e12, 1e12), 5.0).unit("packets");
    /// Packets that each flow sends in the first step.
    RATES = row("rates", to(-1e12, 1e12), &[4.0, 8.0], "flows").unit("packets");
    /// Queue that a flow answers to.
    FEEDBACK = word("feedback", &[("prompt", "x(k+1) answers to q(k+1)"), ("late", "x(k+1) answers to q(k)")]);
    /// Number of steps after the start.
    STEPS = number("steps", to(0.0, 3_333_333.0).whole(), 3.0);
    /// Share of target and capacity within which queue and sum of rates stay.
    FRACTION = number("fraction", SHARE.without_low().without_high(), 0.05).or(0.05);
    /// Rate of the path.
    CAPACITY_PPS = number("capacity_pps", POSITIVE, 100.0);
    /// Round-trip time of the path, queue left out.
    RTT_S = number("rtt_s", POSITIVE, 0.2);
    /// Buffer of the path.
    pub BUFFER_PACKETS = number("buffer_packets", to(0.0, 1e12), 30.0);
    /// Size of the pipe.
    PIPE_PACKETS = number("pipe_packets", POSITIVE, 50.0);
    /// Connections that share the pipe.
    CONNECTIONS = number("connections", to(1.0, 2_147_483_648.0).whole(), 10.0);
    /// Number of packets that the connection has to send.
    PACKETS = number("packets", to(0.0, f64::INFINITY).whole(), 10.0);
}

groups! {
    /// Flows at one queue.
    CONTROL = Control control [ALPHA, BETA, CAPACITY, TARGET];
    /// State in which the flows begin.
    START = Start start [QUEUE, RATES];
}

tuples! {
    /// Queue and rates; NaN where there is none.
    STATE = State {
        /// Packets that wait in the queue.
        queue in "packets",
        /// Packets that each flow sends in a step; flows are the last axis.
        rates in "packets",
    }
}

const VERDICT: Output = Output {
    words: Some(&WordList {
        name: "STABILITY",
        words: &["stable", "marginal", "unstable"],
        sentence: "Verdicts of the exact test, from good to bad.",
    }),
    ..figure("stability", "Verdict on the rest point.")
};

fn control(a: &Arguments<'_>) -> Result<Control, Refused> {
    let gain = |(alpha, beta): (&f64, &f64)| Gains { alpha: *alpha, beta: *beta };
    let gains: Vec<Gains> = a.row(ALPHA).iter().zip(a.row(BETA)).map(gain).collect();
    // Equal gains have a sum that is exact.
    Ok(match gains.first() {
        Some(first) if gains.iter().all(|g| g == first) => {
            Control::equal(gains.len(), *first, a[CAPACITY], a[TARGET])?
        }
        _ => Control::new(gains, a[CAPACITY], a[TARGET])?,
    })
}

fn feedback(a: &Arguments<'_>) -> Feedback {
    a.pick(FEEDBACK, [Feedback::Prompt, Feedback::Late])
}

fn start(a: &Arguments<'_>) -> State {
    State { queue: a[QUEUE], rates: a.row(RATES).to_vec() }
}

fn in_a_row(state: State) -> Vec<f64> {
    [state.queue].into_iter().chain(state.rates).collect()
}

/// Steps are held in memory, with the states of all flows each.
const MOST_NUMBERS: f64 = 1e7;

/// States up to the last step; NaN once the loop has run away.
fn simulated(a: &Arguments<'_>) -> Result<Vec<f64>, Refused> {
    let (start, steps) = (start(a), a.size(STEPS)?);
    let width = start.rates.len() + 1;
    if steps as f64 * width as f64 > MOST_NUMBERS {
        let most = MOST_NUMBERS / width as f64;
        let problem = format!("= {steps}: expected a whole number from 0 to {}", most.floor());
        return Err(Refused { parameter: "steps", problem });
    }
    let mut row: Vec<f64> =
        control(a)?.simulate(start, feedback(a))?.take(steps + 1).flat_map(in_a_row).collect();
    row.resize((steps + 1) * width, f64::NAN);
    Ok(row)
}

pub(super) const MODULE: Module = Module {
    name: "control",
    sentence: "Isolation of classes: flows that steer by one common queue, or each by a queue of its own.

Yilmaz and Matta, \"Class-based isolation of short-lived and long-lived TCP flows\" (Boston University, about 2001),
section 2. Per step, in packets, with q outstanding, x_i sent by flow i, C the capacity and B the target::

    q(k+1)   = q(k) + sum_i x_i(k) - C
    x_i(k+1) = x_i(k) + alpha_i (B - q(k+1)) - beta_i (q(k+1) - q(k))

Flows with queues of their own (individual control, equation 5) are rows of one flow each: add an axis,
`alpha[..., None]`. The model is linear: rates and queues may come out negative. See
docs/explanation/models/isolation.md.",
    models: models! {
        /// Verdict of the exact test: with A and G the sums of alpha and beta, prompt feedback is stable if and only if
        /// A > 0, G > 0 and A + 2G < 4 (Jury's test), late feedback if and only if 0 < A < G (1 - G).
        stability(CONTROL, FEEDBACK) -> Gives::One(VERDICT), "Control::stability",
            |a| match control(a)?.stability(feedback(a)) {
                Stability::Stable => 0.0,
                Stability::Marginal => 1.0,
                Stability::Unstable => 2.0,
            };
        /// Sufficient condition of the paper's equation 2: `N (alpha + 2 beta) < 4` with the largest gains of any flow.
        sufficient_stable(CONTROL) -> Gives::Yes(figure("stable", "Whether the condition holds.")),
            "Control::sufficient_stable", |a| control(a)?.sufficient_stable();
        /// Factor per step by which the slowest mode of queue and sum of rates shrinks; above 1 it grows.
        spectral_radius(CONTROL, FEEDBACK)
            -> Gives::One(figure("radius", "Factor by which the slowest deviation changes per step.")),
            "Control::spectral_radius", |a| control(a)?.spectral_radius(feedback(a));
        /// State in which the flows come to rest (equations 3 and 4); NaN if the loop is not stable.
        equilibrium(CONTROL, START, FEEDBACK) -> Gives::State(&STATE), "Control::equilibrium", |a| {
            let start = start(a);
            let rest = control(a)?.equilibrium(&start, feedback(a))?;
            rest.map_or_else(|| vec![f64::NAN; start.rates.len() + 1], in_a_row)
        };
        /// States from the start on: queue (..., steps + 1), rates (..., steps + 1, flows); NaN once the loop has run
        /// away.
        simulate(CONTROL, START, STEPS, FEEDBACK) -> Gives::States(&STATE, "steps"), "Control::simulate",
            |a| simulated(a)?;
        /// First step from which queue and sum of rates stay near target and capacity; NaN if there is none.
        settling(CONTROL, START, FRACTION, FEEDBACK)
            -> Gives::One(figure("steps", "First step from which both stay near; NaN for never.")), "Control::settling",
            |a| control(a)?.settling(&start(a), feedback(a), a[FRACTION])?.map(f64::from);
        /// Packets that a path holds between a packet and its ACK: `C RTT + B` (section 3.4).
        pipe_packets(CAPACITY_PPS, RTT_S, BUFFER_PACKETS)
            -> Gives::One(figure("packets", "Size of the pipe, in packets.")),
            "pipe_packets", |a| pipe_packets(a[CAPACITY_PPS], a[RTT_S], a[BUFFER_PACKETS])?;
        /// Share of one connection in a pipe, per RTT; isolation pays below about 10 (section 4).
        share_packets(PIPE_PACKETS, CONNECTIONS)
            -> Gives::One(figure("packets", "Packets of a connection per round trip.")),
            "share_packets", |a| share_packets(a[PIPE_PACKETS], a.size(CONNECTIONS)?)?;
        /// Round trips of slow start (1, 2, 4, ... packets, no loss) that a transfer needs.
        slow_start_rtts(PACKETS) -> Gives::One(figure("rtts", "Number of round trips.")), "slow_start_rtts",
            |a| f64::from(slow_start_rtts(a.whole(PACKETS)?));
    },
};
