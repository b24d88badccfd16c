//! A path that becomes another while a flow lives.

use super::*;

/// A download: handshake and data, each segment passing at once, with timestamps of a millisecond's clock.
struct Path {
    scene: Scene,
    seq: u32,
    now: u64,
}

/// Round trips behind the box, the sender's side and the receiver's; and how long each segment waits here, those to
/// the receiver and those to the sender.
#[derive(Clone, Copy, Default)]
struct Way {
    far: u64,
    near: u64,
    waits_down: u64,
    waits_up: u64,
}

fn stamped(seq: u32, ack: u32, payload: u32, times: (u64, u64)) -> TcpHeader {
    let timestamps = Some((times.0 as u32, times.1 as u32));
    TcpHeader {
        seq: SeqNum(seq),
        ack: SeqNum(ack),
        payload,
        flags: ACK,
        window: 1000,
        timestamps,
        ..TcpHeader::default()
    }
}

impl Path {
    /// 40 ms to the server and 20 ms to the user.
    fn begun() -> Self {
        let mut scene = Scene::new();
        scene.answers(0, TcpHeader { seq: SeqNum(CALL), flags: SYN, ..TcpHeader::default() });
        scene.goes(40, SYN_ACK, 99, 0);
        scene.acks(60, 100);
        Self { scene, seq: 100, now: 60 }
    }

    /// The user asks, is answered and acknowledges, until `until` seconds.
    fn goes_on(&mut self, until: u64, way: Way) {
        while self.now < until * 1000 {
            let asked = self.now;
            let key = self.scene.key;
            if way.waits_up > 0 {
                self.scene.tracker.behind_others();
            }
            self.scene.answers(asked, stamped(CALL + 1, self.seq, 0, (asked, 0)));
            let comes = asked + way.waits_up + way.far;
            let data = header(key, stamped(self.seq, CALL + 1, 100, (0, asked)));
            let id = self.scene.tracker.forward(ms(comes), &data).id.unwrap();
            self.scene.tracker.departed(ms(comes + way.waits_down), id, &data);
            self.seq += 100;
            self.now = comes + way.waits_down + way.near;
            self.scene.now = self.now;
        }
    }

    /// Known round trips on both sides, in milliseconds.
    fn known(&mut self) -> (u64, u64) {
        let flow = self.scene.flow();
        let ms = |d: Option<Duration>| (d.unwrap().as_nanos() + 500_000) / 1_000_000;
        (ms(flow.sender_rtt()), ms(flow.receiver_rtt()))
    }
}

const SHORT: Way = Way { far: 40, near: 20, waits_down: 0, waits_up: 0 };

#[test]
fn a_path_that_stays_is_known_as_it_was() {
    let mut path = Path::begun();
    path.goes_on(200, SHORT);
    assert_eq!(path.known(), (40, 20));
    // Jitter, delayed acknowledgments, a server that thinks now and then.
    path.goes_on(300, Way { far: 240, near: 220, ..SHORT });
    assert_eq!(path.known(), (40, 20));
}

#[test]
fn a_path_that_becomes_longer_is_learned_in_a_slot_or_two_on_either_side() {
    for (far, near) in [(600, 20), (40, 600), (400, 300)] {
        let mut path = Path::begun();
        path.goes_on(50, SHORT);
        let longer = Way { far, near, ..SHORT };
        path.goes_on(60, longer);
        assert_eq!(path.known(), (40, 20), "ten seconds are no path");
        // A slot that is longer throughout ends within 2 * 2^35 ns, 69 s.
        path.goes_on(125, longer);
        assert_eq!(path.known(), (far, near));
        let epoch = path.scene.flow().epoch_len();
        assert!(epoch + millis(10) > millis(far + near) && epoch < millis(far + near + 2), "{epoch}");
        // A path that becomes shorter again is learned at once.
        path.goes_on(128, SHORT);
        assert_eq!(path.known(), (40, 20));
    }
}

#[test]
fn what_waits_in_the_queues_of_this_box_is_no_path() {
    let mut path = Path::begun();
    path.goes_on(50, SHORT);
    path.goes_on(250, Way { waits_down: 900, ..SHORT });
    assert_eq!(path.known(), (40, 20));
    path.goes_on(450, Way { waits_up: 900, ..SHORT });
    assert_eq!(path.known(), (40, 20));
}

#[test]
fn a_pause_is_no_path() {
    let mut path = Path::begun();
    path.goes_on(50, SHORT);
    for pause in 1..20 {
        // A user who thinks: nothing answers the last acknowledgment, and what answers the next was asked for later.
        path.scene.answers(path.now + 1, stamped(CALL + 1, path.seq, 0, (path.now + 1, 0)));
        path.now += 1000 * pause;
        let now = path.now;
        path.goes_on(now / 1000 + 1, SHORT);
        assert_eq!(path.known(), (40, 20), "pause {pause}");
    }
}

#[test]
fn an_echo_that_was_never_sent_is_given_up() {
    let mut path = Path::begun();
    path.goes_on(50, SHORT);
    // A stranger's timestamp, far ahead: nobody returns it.
    path.scene.answers(path.now, stamped(CALL + 1, path.seq, 0, (1 << 30, 0)));
    path.goes_on(130, Way { far: 600, ..SHORT });
    assert_eq!(path.known(), (600, 20));
}
