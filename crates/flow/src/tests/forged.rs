//! Packets that somebody off the path can forge for a flow, and what they must not do to its record.

use narrows_units::SeqNum;
use narrows_wire::TcpHeader;

use super::*;

const SERVER_ISN: u32 = 70_000;

fn syn(flags: Flags, seq: u32, ack: u32, scale: u8) -> TcpHeader {
    let (seq, ack) = (SeqNum(seq), SeqNum(ack));
    TcpHeader { seq, ack, flags, window: 1000, window_scale: Some(scale), ..TcpHeader::default() }
}

/// The user has called (scale 10), the server has answered (scale 7).
fn opened() -> Scene {
    let mut s = Scene::new();
    s.answers(0, syn(SYN, CALL, 0, 10));
    answered(&mut s, 10, SERVER_ISN, CALL + 1, 7);
    s
}

fn answered(s: &mut Scene, at: u64, seq: u32, ack: u32, scale: u8) {
    s.now = at;
    s.tracker.forward(ms(at), &header(s.key, syn(SYN_ACK, seq, ack, scale)));
}

/// The user has called, and the server has sent a hundred bytes, which are acknowledged.
fn talking() -> Scene {
    let mut s = opened();
    s.passes(20, SERVER_ISN + 1, 100);
    s.acks(30, SERVER_ISN + 101);
    s
}

fn scales(s: &mut Scene) -> [Option<u8>; 2] {
    let flow = s.flow();
    [flow.forward_scale(), flow.reverse_scale()]
}

#[test]
fn an_answer_names_the_call() {
    let mut s = opened();
    assert_eq!(scales(&mut s), [Some(7), Some(10)]);
    answered(&mut s, 11, 1, CALL, 14);
    answered(&mut s, 12, 1, CALL + 20_000, 14);
    assert_eq!(scales(&mut s), [Some(7), Some(10)], "it acknowledges nothing that was sent");
    // An answer by the user, where the server has called, must name the call too.
    let mut s = Scene::new();
    s.arrives(0, SYN, SERVER_ISN, 0);
    s.answers(10, syn(SYN_ACK, CALL, 3, 14));
    assert_eq!(s.flow().reverse_scale(), None);
    s.answers(11, syn(SYN_ACK, CALL, SERVER_ISN + 1, 10));
    assert_eq!(s.flow().reverse_scale(), Some(10));
}

#[test]
fn of_two_answers_none_is_believed_where_they_differ() {
    let mut s = opened();
    answered(&mut s, 11, 1, CALL + 1, 14);
    assert_eq!(scales(&mut s), [None, Some(10)], "which host the user talks to cannot be told");
    let mut s = opened();
    answered(&mut s, 1011, 80_000, CALL + 1, 7);
    assert_eq!(scales(&mut s), [Some(7), Some(10)], "a SYN cookie of a later minute");
}

#[test]
fn no_answer_comes_after_data() {
    let mut s = talking();
    answered(&mut s, 40, 1, CALL + 1, 14);
    assert_eq!(scales(&mut s), [Some(7), Some(10)]);
    assert_eq!(s.flow().max_seq(), SeqNum(SERVER_ISN + 101));
    assert_eq!(s.passes(50, SERVER_ISN + 101, 100), PacketKind::New);
}

#[test]
fn a_call_for_a_connection_that_lives_counts_when_it_is_answered() {
    let mut s = talking();
    s.answers(40, syn(SYN, 9, 0, 14));
    let key = s.key;
    s.tracker.forward(ms(45), &header(key, syn(SYN, 77, 0, 14)));
    assert_eq!(scales(&mut s), [Some(7), Some(10)]);
    assert_eq!(s.passes(50, SERVER_ISN + 101, 100), PacketKind::New);
    s.acks(60, SERVER_ISN + 201);
    assert_eq!(s.flow().highest_ack(), Some(SeqNum(SERVER_ISN + 201)), "the connection goes on");
    // An answer that names no call, and one that does.
    answered(&mut s, 70, 1, 20_000, 3);
    assert_eq!(scales(&mut s), [Some(7), Some(10)]);
    answered(&mut s, 80, 1, 10, 3);
    assert_eq!(scales(&mut s), [Some(3), Some(14)]);
    assert_eq!((s.flow().max_seq(), s.flow().highest_ack()), (SeqNum(2), None));
    assert_eq!(
        s.flow().sender_rtt().map(|rtt| rtt.as_nanos() / 1_000_000),
        Some(39),
        "from the call to its answer"
    );
    assert!(s.flow().is_called_for());
}

#[test]
fn the_same_of_a_sender_that_calls() {
    let mut s = Scene::new();
    s.goes(0, SYN, SERVER_ISN, 0);
    s.answers(10, syn(SYN_ACK, CALL, SERVER_ISN + 1, 10));
    s.passes(20, SERVER_ISN + 1, 100);
    s.acks(30, SERVER_ISN + 101);
    let seen = s.arrives(40, SYN, 9, 0);
    assert_eq!(
        (seen.kind, seen.restarted, s.flow().max_seq()),
        (PacketKind::Syn, false, SeqNum(SERVER_ISN + 101))
    );
    s.answers(50, syn(SYN_ACK, 3, 10, 5));
    assert_eq!((s.flow().max_seq(), s.flow().reverse_scale()), (SeqNum(10), Some(5)));
    assert!(s.arrives(60, ACK, 10, 100).restarted);
}

#[test]
fn who_floods_with_calls_has_the_latest_only() {
    let mut s = talking();
    for n in 0..1000 {
        s.answers(40, syn(SYN, 100_000 + n * 10_000, 0, 14));
    }
    answered(&mut s, 50, 1, 100_001, 3);
    assert_eq!(scales(&mut s), [Some(7), Some(10)], "the first is forgotten");
    answered(&mut s, 60, 1, 100_001 + 9_990_000, 3);
    assert_eq!(scales(&mut s), [Some(3), Some(14)]);
}

#[test]
fn a_segment_far_ahead_is_believed_when_the_receiver_acknowledges_it() {
    let mut s = talking();
    let far = SERVER_ISN + 101 + (1 << 29);
    assert_eq!(s.passes(40, far, 100), PacketKind::New);
    assert_eq!(s.flow().max_seq(), SeqNum(SERVER_ISN + 101));
    assert_eq!(s.passes(50, SERVER_ISN + 101, 100), PacketKind::New, "what is true stays new");
    s.acks(60, SERVER_ISN + 201);
    assert_eq!(s.passes(70, SERVER_ISN + 201, 100), PacketKind::New);
    // The connection has gone on elsewhere for half a gigabyte.
    s.passes(80, far + 500, 100);
    s.acks(90, far + 600);
    assert_eq!(s.flow().max_seq(), SeqNum(far + 600));
    assert_eq!(s.passes(100, far + 600, 100), PacketKind::New);
}

#[test]
fn a_dropped_retransmission_leaves_a_segment_far_ahead_doubted() {
    let mut s = talking();
    let next = SERVER_ISN + 101;
    let far = next + (1 << 29);
    s.falls(40, next, 100);
    s.passes(50, far, 100);
    assert_eq!(s.falls(60, next, 100), PacketKind::Retransmission);
    s.acks(70, far + 100);
    assert_eq!(s.flow().max_seq(), SeqNum(far + 100));
}

#[test]
fn an_acknowledgment_of_what_nobody_sent_moves_nothing() {
    let mut s = talking();
    for ahead in [1, 1000, 1 << 20, 1 << 30] {
        s.acks(40, SERVER_ISN + 101 + ahead);
    }
    assert_eq!(s.flow().max_seq(), SeqNum(SERVER_ISN + 101));
    assert_eq!(s.passes(50, SERVER_ISN + 101, 100), PacketKind::New);
}

#[test]
fn an_acknowledgment_of_what_nobody_sent_says_nothing_else() {
    let mut s = talking();
    assert!(s.flow().permits(SeqNum(SERVER_ISN + 101)) && s.flow().permits(SeqNum(SERVER_ISN + 1)));
    // Half of all numbers are ahead, nearly all others are older than anything that is still under way.
    for off in [1, 1 << 16, 1 << 29, 1 << 30, 1 << 31, 3 << 30, u32::MAX - (1 << 17)] {
        let ack = SeqNum(SERVER_ISN + 101) + off;
        assert!(!s.flow().permits(ack), "{off}");
        s.answers(40, TcpHeader { ack, flags: FIN_ACK, window: 0, ..TcpHeader::default() });
        s.answers(40, TcpHeader { ack, flags: RST.and(ACK), ..TcpHeader::default() });
    }
    s.goes(50, FIN_ACK, SERVER_ISN + 101, 0);
    assert!(!s.flow().closed(), "neither reset nor ended on both sides");
}

#[test]
fn a_segment_of_no_window_changes_nothing() {
    let mut s = talking();
    let max = SeqNum(SERVER_ISN + 101);
    // Ahead by more than four windows and 64 kB, or so far behind.
    for off in [1 << 17, 1 << 20, 1 << 29, 3 << 29, 1 << 31, 5 << 29, u32::MAX - (1 << 17)] {
        let seq = max + off;
        s.passes(40, seq.0, 100);
        s.goes(40, FIN_ACK, seq.0, 0);
        s.goes(40, RST, seq.0, 0);
        assert_eq!((s.flow().max_seq(), s.flow().highest_ack()), (max, Some(max)), "{off}");
        assert_eq!((s.flow().retx_pkts(), s.flow().closed()), (0, false), "{off}");
    }
    assert_eq!(s.passes(50, max.0, 100), PacketKind::New);
    s.acks(60, max.0 + 100);
    assert_eq!(s.flow().highest_ack(), Some(max + 100));
}

#[test]
fn a_window_of_segments_may_be_lost_on_the_way_here() {
    let mut s = talking();
    // A flight of 40 kB, then another one of which only the last comes.
    s.burst(40, SERVER_ISN + 101, 400);
    assert_eq!(s.passes(80, SERVER_ISN + 101 + 40_000 + 80_000, 100), PacketKind::New);
    assert_eq!(s.flow().max_seq(), SeqNum(SERVER_ISN + 101 + 120_100));
}

#[test]
fn a_reset_is_undone_by_what_is_acknowledged_after_it() {
    let mut s = talking();
    s.answers(40, TcpHeader { flags: RST, ..TcpHeader::default() });
    assert!(s.flow().closed());
    s.passes(50, SERVER_ISN + 101, 100);
    s.acks(60, SERVER_ISN + 201);
    assert!(!s.flow().closed());
}
