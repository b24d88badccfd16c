//! Closed loops of objects, each over a new connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use narrows_scenario::{Size, Transport};

use super::connection::{Arrivals, Connection};
use super::load::{Life, RETRY, Run, object_end, pause};
use super::record::ObjectRecord;
use super::request::HEADER;

/// Connection of a user, and the settings to make the connection.
pub(super) struct Who {
    pub(super) user: u32,
    pub(super) visitor: u32,
    pub(super) connection: u32,
    pub(super) transport: Transport,
    /// Number of objects after which the user leaves; `None` for a permanent user.
    pub(super) most: Option<u32>,
}

/// One connection of a closed-loop user.
pub(super) async fn objects(run: Arc<Run>, who: Who, think: f64, size: Size, mut rng: fastrand::Rng) -> Life {
    let Who { user, visitor, connection, transport, most } = who;
    let mut life = Life { user, ..Life::default() };
    if most.is_none() {
        pause(&run, rng.f64() * run.spec.jitter).await;
    }
    while !run.over() {
        // A larger one would not come to its end either.
        let size = u32::try_from(size.sample(&mut || rng.f64())).unwrap_or(u32::MAX);
        let start = run.now();
        let mut gap = Gap { last: start, connected: start, arrivals: Arrivals::default() };
        run.patience.begin(visitor, start);
        let mut object = ObjectRecord { user, visitor, connection, size, start, ..ObjectRecord::default() };
        let fetch = fetch(&run, transport, &mut life, &mut object, &mut gap);
        let whole = tokio::time::timeout_at(run.end, fetch).await;
        object.end = run.now();
        if whole.is_ok() && !object.broken {
            gap.catch_up(&run, &mut object);
            object.done = Some(object.end);
            run.objects.fetch_add(1, Ordering::Relaxed);
        } else {
            gap.cut_off(&run, &mut life, &mut object);
        }
        run.patience.end(visitor, object_end(&run));
        life.objects.push(object);
        if most.is_some_and(|most| life.objects.len() >= most as usize) {
            break;
        }
        if think > 0.0 {
            pause(&run, -think * (1.0 - rng.f64()).ln()).await;
        }
    }
    life
}

/// Instants of the last payload: in all, and since the connection was established.
struct Gap {
    last: f64,
    connected: f64,
    /// Arrivals not read yet.
    arrivals: Arrivals,
}

impl Gap {
    fn note(&mut self, object: &mut ObjectRecord, now: f64) {
        object.stall = object.stall.max(now - self.last);
        if object.connected.is_some() {
            object.stall_connected = object.stall_connected.max(now - self.connected);
        }
        self.last = now;
        self.connected = now;
    }

    /// Notes what came over the socket, when it came, and gives what of it came behind the handshake. Of a handshake
    /// cut off by the end of the run nothing counts.
    fn catch_up(&mut self, run: &Run, object: &mut ObjectRecord) -> Vec<Arrival> {
        let arrivals = self.arrivals.take();
        let Some(connected) = object.connected else { return Vec::new() };
        let mut came = Vec::new();
        for (instant, bytes) in arrivals {
            let at = run.at(instant);
            run.patience.arrival(object.visitor, at);
            self.note(object, at);
            if at >= connected {
                came.push(Arrival { at, bytes });
            }
        }
        came
    }

    /// Counts what an object that is cut off had: its stall up to now, and what came of a record of TLS that will
    /// never be handed on.
    fn cut_off(&mut self, run: &Run, life: &mut Life, object: &mut ObjectRecord) {
        for arrival in self.catch_up(run, object) {
            count(run, life, object, &arrival);
        }
        self.note(object, object_end(run));
    }
}

/// Bytes that came over a socket at one instant.
struct Arrival {
    at: f64,
    bytes: usize,
}

/// The `n` bytes of a reply that were read at `now`, at the times at which the socket had them: a record of TLS is
/// handed on when its last byte is there, and its user had something all along.
fn when_they_came(came: &[Arrival], n: usize, now: f64) -> Vec<Arrival> {
    let all: usize = came.iter().map(|arrival| arrival.bytes).sum();
    let Some((last, others)) = came.split_last().filter(|_| all > 0) else {
        return vec![Arrival { at: now, bytes: n }];
    };
    // The overhead of TLS is spread evenly over the bytes.
    let mut spread: Vec<Arrival> =
        others.iter().map(|a| Arrival { at: a.at, bytes: a.bytes * n / all }).collect();
    let rest = n - spread.iter().map(|arrival| arrival.bytes).sum::<usize>();
    spread.push(Arrival { at: last.at, bytes: rest });
    spread
}

/// Counts bytes of an object when they came.
fn count(run: &Run, life: &mut Life, object: &mut ObjectRecord, arrival: &Arrival) {
    life.receive(run, arrival.at, arrival.bytes);
    object.got = object.got.saturating_add(arrival.bytes as u32);
}

/// Fetches one object, trying until a connection stands.
async fn fetch(run: &Run, transport: Transport, life: &mut Life, object: &mut ObjectRecord, gap: &mut Gap) {
    loop {
        let connect = run.ways.connect(object.user, transport, u64::from(object.size), &gap.arrivals);
        let Ok(mut stream) = connect.await else {
            gap.arrivals.take();
            object.refused += 1;
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let now = run.now();
        object.connected = Some(now);
        gap.connected = now;
        match receive(run, life, object, gap, &mut stream).await {
            Reply::Whole => return,
            Reply::Broken => {
                object.broken = true;
                return;
            }
            Reply::TurnedAway(wait) => {
                object.turned_away += 1;
                object.connected = None;
                tokio::time::sleep(wait).await;
            }
        }
    }
}

enum Reply {
    Whole,
    Broken,
    TurnedAway(Duration),
}

async fn receive(
    run: &Run,
    life: &mut Life,
    object: &mut ObjectRecord,
    gap: &mut Gap,
    stream: &mut Connection,
) -> Reply {
    let expected = HEADER + object.size as usize;
    let (mut got, mut head) = (0, Vec::with_capacity(HEADER));
    let mut buffer = Vec::with_capacity(32 * 1024);
    while got < expected {
        let Some(n) = stream.read(&mut buffer).await else {
            return if head.starts_with(b"HTTP/1.1 503") {
                Reply::TurnedAway(retry_after(&head))
            } else {
                Reply::Broken
            };
        };
        if head.len() < HEADER {
            head.extend_from_slice(&buffer[..n.min(HEADER - head.len())]);
        }
        let came = gap.catch_up(run, object);
        let now = run.now();
        got += n;
        // A refusal ends no stall: the user still has nothing of the object.
        if !head.starts_with(b"HTTP/1.1 503") {
            object.first_byte.get_or_insert(now);
            gap.note(object, now);
            run.patience.arrival(object.visitor, now);
            for arrival in when_they_came(&came, n, now) {
                count(run, life, object, &arrival);
            }
        }
    }
    Reply::Whole
}

/// Seconds of `Retry-After` (RFC 9110, section 10.2.3), at most a minute; 5 if it is missing.
fn retry_after(head: &[u8]) -> Duration {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let secs = text
        .split("retry-after:")
        .nth(1)
        .and_then(|t| t.split("\r\n").next()?.trim().parse::<u64>().ok())
        .unwrap_or(5);
    Duration::from_secs(secs.min(60))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::load::ClientSpec;
    use super::*;

    #[test]
    fn silences_by_hand() {
        // Connected at 1 s, payload at 3 s and 4 s, cut off at 10 s.
        let mut o = ObjectRecord::default();
        let mut gap = Gap { last: 0.0, connected: 0.0, arrivals: Arrivals::default() };
        o.connected = Some(1.0);
        gap.connected = 1.0;
        gap.note(&mut o, 3.0);
        assert_eq!((o.stall, o.stall_connected), (3.0, 2.0));
        gap.note(&mut o, 4.0);
        gap.note(&mut o, 10.0);
        assert_eq!((o.stall, o.stall_connected), (6.0, 6.0));
    }

    #[test]
    fn a_record_counts_when_its_bytes_came() {
        let spread = |came: &[(f64, usize)], n| -> Vec<(f64, usize)> {
            let came: Vec<Arrival> =
                came.iter().map(|(at, bytes)| Arrival { at: *at, bytes: *bytes }).collect();
            when_they_came(&came, n, 9.0).iter().map(|arrival| (arrival.at, arrival.bytes)).collect()
        };
        // 22 bytes around 1000: a header of 5, a type of 1 and a tag of 16 (RFC 8446, section 5.2).
        assert_eq!(spread(&[(1.0, 511), (4.0, 511)], 1000), [(1.0, 500), (4.0, 500)]);
        assert_eq!(spread(&[(1.0, 1), (2.0, 1), (3.0, 1)], 10), [(1.0, 3), (2.0, 3), (3.0, 4)]);
        // In the clear and over QUIC bytes come when they are read.
        assert_eq!(spread(&[], 7), [(9.0, 7)]);
    }

    #[test]
    fn what_came_of_a_record_that_is_cut_off_counts() {
        let begin = Instant::now();
        let run = Run::new(ClientSpec::of_nobody(), begin).unwrap();
        let visitor = run.patience.add(0);
        let mut object = ObjectRecord { visitor, connected: Some(1.0), ..ObjectRecord::default() };
        let mut gap = Gap { last: 0.0, connected: 1.0, arrivals: Arrivals::default() };
        // 900 bytes of the handshake at 0.5 s; 1400 of a record at 3 s and at 8 s, whose end never comes.
        for (secs, bytes) in [(0.5, 900), (3.0, 1400), (8.0, 1400)] {
            gap.arrivals.note(begin + Duration::from_secs_f64(secs), bytes);
        }
        let mut life = Life::default();
        gap.cut_off(&run, &mut life, &mut object);
        assert_eq!(life.bins, [0, 0, 0, 1400, 0, 0, 0, 0, 1400]);
        assert_eq!((object.got, object.stall), (2800, 5.0));
    }

    #[test]
    fn waits_the_box_asks_for() {
        assert_eq!(retry_after(b"HTTP/1.1 503 x\r\nRetry-After: 7\r\n\r\n"), Duration::from_secs(7));
        assert_eq!(retry_after(b"HTTP/1.1 503 x\r\nretry-after: 9999\r\n"), Duration::from_secs(60));
        assert_eq!(retry_after(b"HTTP/1.1 503 x\r\n\r\n"), Duration::from_secs(5));
    }
}
