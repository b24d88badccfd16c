//! Class isolation's split that sets itself, against the control model: the discipline is the loop that
//! `docs/explanation/classes.md` says it is, and that loop is stable with room to spare.

use narrows_models::control::{Control, Feedback, Gains, Stability, State};
use narrows_qdisc::{Packet as _, Qdisc as _, Record, ShaperConfig, Spec, Verdicts};
use narrows_units::{Bytes, Dscp, Instant, Rate};
use narrows_wire::{FlowKey, Proto};

/// e' = e + y, y' = -A e + (1 - A - G) y stays on y = -e/8 with A = 1/8 and G = 1.
const GAINS: Gains = Gains { alpha: 0.125, beta: 1.0 };

#[test]
fn the_loop_is_stable_up_to_sixteen_times_its_gain() {
    let loop_of = |alpha: f64| Control::equal(1, Gains { alpha, ..GAINS }, 1.0, 1.0).unwrap();
    let control = loop_of(0.125);
    assert_eq!(control.stability(Feedback::Prompt), Stability::Stable);
    assert!(control.sufficient_stable(), "the paper's N (alpha + 2 beta) < 4, too");
    assert!((control.spectral_radius(Feedback::Prompt) - 0.875).abs() < 1e-12);
    assert_eq!(loop_of(1.99).stability(Feedback::Prompt), Stability::Stable);
    assert_eq!(loop_of(2.01).stability(Feedback::Prompt), Stability::Unstable);
}

/// Three short flows to one long, one packet of each in a step of 200 ms. The short ones use half of the link, with
/// which they begin, and are due 3/4: a quarter of what they leave makes 9/16, and the share goes there as the model's
/// queue goes to its target.
#[test]
fn the_discipline_takes_the_model_s_steps() {
    // Six packets in 200 ms.
    let packet = ShaperConfig::new(Rate::from_kbps(1)).wire_len(Bytes(500)).get();
    let link = ShaperConfig::new(Rate::from_bps(6 * packet * 8 * 5));
    let spec: Spec = "classes:dscp,split=auto,borrow=on,buffer=100".parse().unwrap();
    let mut q = spec.build::<Record>(&link, 1);
    // The queue of the model counts from what is served, so the share is its queue, and a step serves nothing but y.
    let (target, capacity) = (0.5625, 1.0);
    let control = Control::equal(1, GAINS, capacity, target).unwrap();
    let start = State { queue: 0.5, rates: vec![capacity + (target - 0.5) / 8.0] };
    let mut verdicts = Verdicts::new();
    for (k, state) in (0..60_u64).zip(control.simulate(start, Feedback::Prompt).unwrap()) {
        let now = Instant::from_nanos(k * 200_000_000);
        for flow in 0..4_u16 {
            let mut r = Record::default();
            r.header.key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1, flow, Proto::UDP);
            r.header.len = Bytes(500);
            r.set_dscp(Dscp::new(if flow < 3 { 18 } else { 10 }).unwrap());
            q.enqueue(now, r, &mut verdicts);
        }
        while q.dequeue(now, &mut verdicts).is_some() {}
        let share = f64::from(q.report(now).classes[0].share.unwrap().0) / 1e6;
        assert!((share - state.queue).abs() < 3e-6, "step {k}: {share}, the model {}", state.queue);
    }
}
