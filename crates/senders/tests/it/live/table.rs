//! Burst TCP's windows, round trip by round trip, against the table of its packet-level description.

use std::time::Duration;

use narrows_senders::{Call, CallStep, Sender};

use crate::live::late::until_undisturbed;
use crate::live::world::{Frame, World, can_run, connect, push};

/// Windows per round trip of burst-tcp's packet-level table (mice 32, an ACK for each segment).
const TABLE: [(&str, &[usize]); 2] = [
    ("f=4", &[1, 8, 12, 15, 18, 20, 22, 24, 25, 26, 27, 28, 29, 30, 31]),
    ("f=8", &[1, 4, 6, 8, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21]),
];

/// Payload of a segment.
const MSS: u32 = 1448;
/// Delay of each way.
const DELAY: Duration = Duration::from_millis(50);
/// Largest lateness of an idle machine, with a delay as with the answer to an ACK.
const LATE: Duration = Duration::from_millis(20);

#[test]
fn burst_tcp_sends_the_table() {
    const TEST: &str = "burst_tcp_sends_the_table";
    if !can_run(TEST) {
        return;
    }
    let mut world = World::new(DELAY);
    let mut port = 5100;
    for (knob, windows) in TABLE {
        until_undisturbed(TEST, knob, || {
            port += 1;
            let (name, mut watch) = world.watch(Sender::Btcp, &[knob]);
            let frames = world.frames(|world| {
                let sink = world.sink(port, 1);
                let bytes = MSS as usize * windows.iter().sum::<usize>();
                let using = name.clone();
                world.inside("s", move || push(&mut connect(&using, port), bytes)).join().unwrap();
                sink.join().unwrap();
            });
            let decided = decided(&watch.steps().unwrap(), windows);
            world.unload(&name);
            decided.map_err(|how| format!("the sender was told {how}"))?;
            sent(&frames, knob, windows)
        });
    }
}

/// Checks that the window is the table's whenever all segments of that many windows are acknowledged. That depends on
/// the ACKs alone, not on their times. Says where the sender was told something else than the table supposes.
fn decided(steps: &[CallStep], windows: &[usize]) -> Result<(), String> {
    let mut acked = 0;
    let mut ends = windows.iter().scan(0, |sum, window| {
        *sum += window;
        Some(*sum)
    });
    let mut rounds = windows.iter().skip(1);
    let mut end = ends.next();
    for call in steps.chunks_exact(2) {
        let [begin, now] = call else { unreachable!("pairs") };
        if begin.call == Call::Ssthresh {
            return Err(format!("of a loss after {acked} segments, and none is lost here"));
        }
        let in_first_phase = begin.private[0] == 1;
        if begin.call != Call::CongAvoid || !in_first_phase {
            continue;
        }
        if !begin.used {
            return Err(format!("after {acked} segments that it does not use its window"));
        }
        acked += usize::try_from(begin.value).unwrap();
        if end.is_some_and(|end| acked > end) {
            return Err(format!("of {} segments by one ACK", begin.value));
        }
        if end == Some(acked) {
            let Some(window) = rounds.next() else { break };
            assert_eq!(now.cwnd as usize, *window, "after {acked} segments, of {windows:?}");
            end = ends.next();
        }
    }
    match rounds.next() {
        None => Ok(()),
        Some(_) => Err(format!("of {acked} segments only")),
    }
}

/// Whether the sender sent those windows; what the machine did, if anything, where it did not.
fn sent(frames: &[Frame], knob: &str, windows: &[usize]) -> Result<(), String> {
    let rounds = rounds(frames);
    if rounds == windows {
        return Ok(());
    }
    let how = disturbance(frames);
    let how = how.unwrap_or_else(|| panic!("{knob}: {rounds:?} instead of {windows:?}: {frames:?}"));
    Err(format!("it sent {rounds:?}: {how}"))
}

/// Segments in each round trip: an ACK for the first segment of a round begins the next.
fn rounds(frames: &[Frame]) -> Vec<usize> {
    let (mut rounds, mut sent, mut before) = (vec![0], 0, 0);
    for frame in frames {
        match *frame {
            Frame::Data { seq, .. } => {
                sent = sent.max(seq + MSS);
                *rounds.last_mut().unwrap() += 1;
            }
            Frame::Ack { ack, .. } if ack > before => {
                before = sent;
                rounds.push(0);
            }
            Frame::Ack { .. } => {}
        }
    }
    rounds.retain(|segments| *segments > 0);
    rounds
}

/// Describes the first disturbance of these frames by the machine: something late, sent again, joined or not captured.
/// `None` if there is none.
fn disturbance(frames: &[Frame]) -> Option<String> {
    let ms = |ns: u64| ns as f64 / 1e6;
    let late = |ns: u64, than: Duration| ns > (than + LATE).as_nanos() as u64;
    let (mut next, mut acked, mut heard) = (0, 0, None);
    let mut left = Vec::new();
    for frame in frames {
        match *frame {
            Frame::Data { at_ns, seq } => {
                if seq != next {
                    let what = if seq < next { "sent again" } else { "not captured" };
                    return Some(format!("data were {what} at {:.1} ms", ms(at_ns)));
                }
                next = seq + MSS;
                if let Some(ns) =
                    heard.map(|heard| at_ns.saturating_sub(heard)).filter(|ns| late(*ns, Duration::ZERO))
                {
                    return Some(format!("an ACK was answered after {:.1} ms", ms(ns)));
                }
                left.push(at_ns);
            }
            Frame::Ack { at_ns, ack } => {
                if ack > acked + MSS {
                    return Some(format!(
                        "an ACK for {} segments at {:.1} ms",
                        (ack - acked) / MSS,
                        ms(at_ns)
                    ));
                }
                if ack == acked + MSS {
                    let ns = at_ns.saturating_sub(left[(acked / MSS) as usize]);
                    if late(ns, 2 * DELAY) {
                        return Some(format!("an ACK came after {:.1} ms", ms(ns)));
                    }
                }
                (acked, heard) = (ack, Some(at_ns));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// One segment, then two, each round 100 ms after the other.
    fn frames() -> Vec<Frame> {
        let data = |ms: u64, n: u32| Frame::Data { at_ns: ms * MS, seq: n * MSS };
        let ack = |ms: u64, n: u32| Frame::Ack { at_ns: ms * MS, ack: n * MSS };
        vec![data(0, 0), ack(100, 1), data(100, 1), data(101, 2), ack(200, 2), ack(201, 3)]
    }

    #[test]
    fn rounds_are_told_by_what_is_acknowledged() {
        assert_eq!(rounds(&frames()), [1, 2]);
        assert_eq!(disturbance(&frames()), None);
    }

    #[test]
    fn what_the_machine_does_is_told() {
        let shifted = |n: usize, by: u64| {
            let mut frames = frames();
            for frame in &mut frames[n..] {
                let (Frame::Data { at_ns, .. } | Frame::Ack { at_ns, .. }) = frame;
                *at_ns += by * MS;
            }
            disturbance(&frames)
        };
        assert_eq!(shifted(2, 30).as_deref(), Some("an ACK was answered after 30.0 ms"));
        assert_eq!(shifted(4, 30).as_deref(), Some("an ACK came after 130.0 ms"));
        let without = |n: usize| {
            let mut frames = frames();
            frames.remove(n);
            disturbance(&frames)
        };
        assert_eq!(without(2).as_deref(), Some("data were not captured at 101.0 ms"));
        assert_eq!(without(4).as_deref(), Some("an ACK for 2 segments at 201.0 ms"));
    }
}
