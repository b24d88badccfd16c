//! Flows that last the whole run.

use std::sync::Arc;

use narrows_scenario::Transport;

use super::client::{Life, RETRY, Run, object_end, pause};
use super::connection::Arrivals;
use super::record::LongRecord;

/// One flow that lasts the whole run; a broken one connects again.
pub(super) async fn long(run: Arc<Run>, user: u32, transport: Transport, mut rng: fastrand::Rng) -> Life {
    let mut life = Life { user, ..Life::default() };
    pause(&run, rng.f64() * run.spec.jitter).await;
    let mut record = LongRecord { user, start: run.now(), ..LongRecord::default() };
    let mut last = record.start;
    run.patience.begin(user, last);
    let arrivals = Arrivals::default();
    let stays = stay(&run, transport, &mut life, &mut record, (&mut last, &arrivals));
    // Runs into the end of the run by design: within a record of TLS, mostly.
    let _ = tokio::time::timeout_at(run.end, stays).await;
    catch_up(&run, &mut life, &mut record, (&mut last, &arrivals));
    run.patience.end(user, object_end(&run));
    note_stall(&mut record, last, object_end(&run), run.spec.warmup);
    life.long = Some(record);
    life
}

/// When something came last, and what has come of TLS since then.
type Heard<'a> = (&'a mut f64, &'a Arrivals);

async fn stay(
    run: &Run,
    transport: Transport,
    life: &mut Life,
    record: &mut LongRecord,
    (last, arrivals): Heard<'_>,
) {
    let mut buffer = Vec::with_capacity(32 * 1024);
    loop {
        if let Ok(mut stream) = run.ways.connect(record.user, transport, 1 << 50, arrivals).await {
            record.connected.get_or_insert(run.now());
            while let Some(n) = stream.read(&mut buffer).await {
                catch_up(run, life, record, (&mut *last, arrivals));
                if transport != Transport::Tls {
                    came(run, life, record, last, (run.now(), n));
                }
            }
        }
        record.failures += 1;
        tokio::time::sleep(RETRY).await;
    }
}

/// Counts what has come of TLS at the socket: its records are of up to 16 kB, and a thin link takes long for one.
fn catch_up(run: &Run, life: &mut Life, record: &mut LongRecord, (last, arrivals): Heard<'_>) {
    for (instant, bytes) in arrivals.take() {
        came(run, life, record, last, (run.at(instant), bytes));
    }
}

fn came(run: &Run, life: &mut Life, record: &mut LongRecord, last: &mut f64, (at, bytes): (f64, usize)) {
    run.patience.arrival(record.user, at);
    life.receive(run, at, bytes);
    note_stall(record, *last, at, run.spec.warmup);
    *last = at;
}

/// Counts the part of a stall that lies after the warm-up.
fn note_stall(record: &mut LongRecord, from: f64, to: f64, warmup: f64) {
    record.stall = record.stall.max(to - from.max(warmup));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_after_the_warm_up_counts() {
        // Silent from 15 s to 24 s with 20 s of warm-up: 4 s of it count.
        let mut l = LongRecord::default();
        note_stall(&mut l, 15.0, 24.0, 20.0);
        note_stall(&mut l, 10.0, 19.0, 20.0);
        assert_eq!(l.stall, 4.0);
    }
}
