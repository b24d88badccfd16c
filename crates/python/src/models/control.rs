//! Flows at common queues and at queues of their own: Yilmaz and Matta.

use narrows_models::control::{
    Control, Feedback, Gains, Stability, State, pipe_packets, share_packets, slow_start_rtts,
};

use super::{Args, EXACT, Model, Wrong, model, size, whole};

const FEEDBACK: [(&str, Feedback); 2] = [("prompt", Feedback::Prompt), ("late", Feedback::Late)];

fn feedback(args: &Args<'_>) -> Result<Feedback, Wrong> {
    args.word("feedback", &FEEDBACK)
}

fn control(alpha: &[f64], beta: &[f64], capacity: f64, target: f64) -> Result<Control, Wrong> {
    let gains: Vec<Gains> =
        alpha.iter().zip(beta).map(|(alpha, beta)| Gains { alpha: *alpha, beta: *beta }).collect();
    // Equal gains have a sum that is exact.
    Ok(match gains.first() {
        Some(first) if gains.iter().all(|g| g == first) => {
            Control::equal(gains.len(), *first, capacity, target)?
        }
        _ => Control::new(gains, capacity, target)?,
    })
}

fn start(queue: f64, rates: &[f64]) -> State {
    State { queue, rates: rates.to_vec() }
}

fn in_a_row(state: State) -> Vec<f64> {
    [state.queue].into_iter().chain(state.rates).collect()
}

/// So many steps after the start; NaN once the loop has run away.
fn simulated(control: &Control, start: State, feedback: Feedback, steps: usize) -> Result<Vec<f64>, Wrong> {
    let width = start.rates.len() + 1;
    let mut row: Vec<f64> =
        control.simulate(start, feedback)?.take(steps.saturating_add(1)).flat_map(in_a_row).collect();
    row.resize((steps + 1) * width, f64::NAN);
    Ok(row)
}

/// Numbers of steps are held in memory, states of all flows each.
const MOST_STEPS: u64 = 10_000_000;

pub(super) const MODELS: &[Model] = &[
    model!("control::Control::stability"; capacity, target; [alpha, beta] => (stability), |args| {
        match control(alpha, beta, capacity, target)?.stability(feedback(args)?) {
            Stability::Stable => 0.0,
            Stability::Marginal => 1.0,
            Stability::Unstable => 2.0,
        }
    }),
    model!("control::Control::sufficient_stable"; capacity, target; [alpha, beta] => (stable),
        |args| f64::from(u8::from(control(alpha, beta, capacity, target)?.sufficient_stable()))),
    model!("control::Control::spectral_radius"; capacity, target; [alpha, beta] => (radius),
        |args| control(alpha, beta, capacity, target)?.spectral_radius(feedback(args)?)),
    model!("control::Control::equilibrium"; capacity, target, queue; [alpha, beta, rates] => (), |args| {
        let rest = control(alpha, beta, capacity, target)?.equilibrium(&start(queue, rates), feedback(args)?)?;
        rest.map_or_else(|| vec![f64::NAN; rates.len() + 1], in_a_row)
    }),
    model!("control::Control::simulate"; capacity, target, queue, steps; [alpha, beta, rates] => (), |args| {
        let steps = whole("steps", steps, MOST_STEPS / (rates.len() as u64 + 1))?;
        let control = control(alpha, beta, capacity, target)?;
        simulated(&control, start(queue, rates), feedback(args)?, usize::try_from(steps).unwrap_or(0))?
    }),
    model!("control::Control::settling"; capacity, target, queue, fraction; [alpha, beta, rates] => (steps), |args| {
        let control = control(alpha, beta, capacity, target)?;
        control.settling(&start(queue, rates), feedback(args)?, fraction)?.map(f64::from)
    }),
    model!("control::pipe_packets"; capacity_pps, rtt_s, buffer_packets; [] => (packets),
        |args| pipe_packets(capacity_pps, rtt_s, buffer_packets)?),
    model!("control::share_packets"; pipe_packets, connections; [] => (packets),
        |args| share_packets(pipe_packets, size("connections", connections)?)?),
    model!("control::slow_start_rtts"; packets; [] => (rtts),
        |args| f64::from(slow_start_rtts(whole("packets", packets, EXACT)?))),
];
