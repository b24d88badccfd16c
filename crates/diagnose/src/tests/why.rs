//! The evidence about a frame, and the row that decided.

use super::*;
use crate::why::Subject;
use crate::words::why_page;

/// Ten segments are acknowledged at 209 ms; of five more the first is lost behind the capture, four duplicates tell of
/// it, and the repair passes at 352 ms. Gives its frame as well.
fn fast_retransmit(asked: Option<u64>) -> (FlowReport, u64) {
    let mut s = Story::new();
    asked.into_iter().for_each(|frame| s.analyzer.ask_why(frame));
    s.put(0, CLIENT, Flags::SYN, (0, 0), 0);
    s.put(50, SERVER, Flags::SYN.and(Flags::ACK), (0, 1), 0);
    s.put(60, CLIENT, Flags::ACK, (1, 1), 0);
    s.request(70);
    (0..10).for_each(|n| _ = s.data(190 + u64::from(n), n));
    (0..10).for_each(|n| _ = s.ack(200 + u64::from(n), n + 1));
    (10..15).for_each(|n| _ = s.data(270 + u64::from(n), n));
    (0..4).for_each(|n| _ = s.ack(300 + n, 10));
    let frame = s.data(352, 10);
    s.ack(362, 15);
    (s.end(), frame)
}

#[test]
fn a_frame_that_is_asked_about_shows_its_evidence_and_the_row() {
    let (silent, frame) = fast_retransmit(None);
    assert!(silent.whys.is_empty(), "nobody asked");
    let (flow, _) = fast_retransmit(Some(frame));
    let [why] = &flow.whys[..] else { panic!("one verdict: {:?}", flow.whys) };
    assert_eq!(why.said, Subject::Retransmission(Repair::FastRetransmit));
    assert_eq!((why.name, why.certainty), ("duplicate ACKs", Certainty::Certain));
    let value = |name: &str| why.evidence.iter().find(|i| i.name == name).unwrap().value.clone();
    // The third duplicate passed at 302 ms. The sender is 50 ms away.
    assert_eq!(["duplicates", "told", "react_least"].map(value), ["4 ACKs", "50.0 ms", "50.0 ms"]);
    let page = why_page(frame, &flow);
    assert!(page.contains("\"duplicate ACKs\": fast retransmit, certain"), "{page}");
    assert!(page.contains("Source: RFC 5681, section 3.2; RFC 6675, section 5"), "{page}");
}

#[test]
fn a_silence_is_judged_again_when_it_shows_what_followed() {
    let story = |asked: u64| {
        let mut s = Story::new();
        s.analyzer.ask_why(asked);
        s.put(0, CLIENT, Flags::SYN, (0, 0), 0);
        s.put(50, SERVER, Flags::SYN.and(Flags::ACK), (0, 1), 0);
        s.put(60, CLIENT, Flags::ACK, (1, 1), 0);
        s.request(70);
        s.data(130, 0);
        s.data(131, 1);
        s.ack(141, 1);
        // The timer repairs the second segment, and no more was to send.
        let again = s.data(741, 1);
        s.ack(751, 2);
        (s.end(), again)
    };
    let (flow, _) = story(story(0).1);
    let names: Vec<&str> = flow.whys.iter().map(|w| w.name).collect();
    assert_eq!(names, ["timer", "few under way", "nothing followed"]);
    assert_eq!(flow.whys[2].said, Subject::Silence(Cause::TailLoss));
    assert_eq!(flow.stalls[0].cause, Cause::TailLoss);
}
