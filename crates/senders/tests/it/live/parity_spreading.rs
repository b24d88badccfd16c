//! Initial Spreading in the kernel and in the simulator on the same handshake, the same times and the same ACKs: when
//! each segment of the first window may leave, and what the window is afterwards.
//!
//! In between the kernel's window is no window: it is what is out, the gate by which segments wait. What is compared
//! there is how many segments may have left.

use std::time::Duration;

use narrows_senders::{Call, CallStep, Sender};
use narrows_tcp::cc::{AckSample, Window};
use narrows_tcp::startup::{FirstRtt, InitialSpreading, Startup};
use narrows_tcp::{Config, InitialWindow, Preset};
use narrows_units::{Duration as Time, Instant};

use crate::live::late::until_in_time;
use crate::live::parity::record;
use crate::live::world::{World, can_run};

/// Phases of `enum phase` in bpf/is.bpf.c.
const WAITING: u32 = 0;
const SPREADING: u32 = 1;

fn at(step: &CallStep) -> Instant {
    Instant::ZERO + Time::from_nanos(step.at_ns)
}

/// Result of the comparison: how late each segment left, and what was counted.
#[derive(Debug)]
struct Found {
    /// Time after its slot in the simulator at which the kernel let each segment go, in milliseconds.
    late_ms: Vec<f64>,
    /// Largest distance of windows after the slots, in segments, and of how many ACKs.
    window: f64,
    acks: usize,
}

fn compare(steps: &[CallStep], iw: u32) -> Found {
    let config = Config { initial_window: InitialWindow::Segments(iw), ..Config::preset(Preset::Linux) };
    let mut window = Window { cwnd: f64::from(iw), ssthresh: f64::INFINITY };
    let mut twin = InitialSpreading::default();
    let r0 = Time::from_micros(steps[0].srtt_us.into());
    twin.on_established(&mut window, FirstRtt::Is(r0), &config);
    let mut found = Found { late_ms: Vec::new(), window: 0.0, acks: 0 };
    // When the twin's last segment left.
    let mut left = None;
    for call in steps.chunks_exact(2) {
        let [begin, end] = call else { unreachable!("pairs") };
        assert!(begin.call == end.call && !begin.returned && end.returned, "{begin:?} {end:?}");
        // Segments that the kernel let go in this call. The last one's slot ends the phase.
        let before = if begin.private[0] == WAITING { 0 } else { begin.private[1] };
        for _ in before..end.private[1] {
            // Data wait all the time, so the twin's segments leave when their slots come.
            let now = *left.get_or_insert_with(|| at(begin));
            let slot = twin.release_at(now).unwrap_or(now);
            twin.on_sent(slot, &config);
            left = Some(slot);
            found.late_ms.push((begin.at_ns as f64 - slot.as_nanos() as f64) / 1e6);
        }
        if begin.call == Call::CongAvoid && (begin.private[0] == SPREADING || begin.used) {
            let credit = f64::from(begin.value);
            let sample = AckSample {
                now: at(begin),
                acked: u64::from(begin.value.unsigned_abs()) * 1448,
                credit,
                by_bytes: true,
                rtt: None,
                srtt: Time::from_micros(begin.srtt_us.into()),
                in_flight: begin.cwnd,
                window_limited: begin.used,
            };
            twin.on_ack(&mut window, &sample, &config);
        }
        if begin.call == Call::CongAvoid && end.private[0] > SPREADING {
            found.window = found.window.max((window.cwnd - f64::from(end.cwnd)).abs());
            found.acks += 1;
        }
    }
    found
}

#[test]
fn initial_spreading_is_the_simulators_step_by_step() {
    const TEST: &str = "initial_spreading_is_the_simulators_step_by_step";
    if !can_run(TEST) {
        return;
    }
    for (port, iw) in [(5621, 10), (5631, 4)] {
        let mut world = World::new(Duration::from_millis(50));
        // A driver that is late by more than two slots, on a machine busy with other tests, loses some for good.
        until_in_time(TEST, &format!("iw = {iw}"), |n| {
            let (knob, port) = (format!("iw={iw}"), port + n);
            let steps = record(&mut world, Sender::Spreading, &[&knob], port, 1448 * 60, None);
            let found = compare(&steps, iw);
            println!("Initial Spreading of {iw}: {found:?}");
            // The kernel's slots are whole microseconds, rounded down.
            let early = -1e-3 * f64::from(iw);
            assert!(found.late_ms.iter().all(|late| *late >= early), "before its slot: {found:?}");
            let in_time = found.late_ms.len() == iw as usize && found.late_ms.iter().all(|late| *late < 2.0);
            in_time && found.acks > 10 && found.window <= 1.0
        });
    }
}
