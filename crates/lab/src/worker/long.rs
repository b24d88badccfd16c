//! Flows that last the whole run.

use std::sync::Arc;

use narrows_scenario::Transport;

use super::connection::Arrivals;
use super::load::{Life, RETRY, Run, object_end, pause};
use super::record::LongRecord;

/// One flow that lasts the whole run; a broken one connects again.
pub(super) async fn long(run: Arc<Run>, user: u32, transport: Transport, mut rng: fastrand::Rng) -> Life {
    pause(&run, rng.f64() * run.spec.jitter).await;
    let mut flow = Flow::begin(&run, user, transport);
    // Runs into the end of the run by design: within a record of TLS, mostly.
    let _ = tokio::time::timeout_at(run.end, flow.stay()).await;
    flow.end()
}

/// Flow, and the payload received over the flow so far.
struct Flow<'a> {
    run: &'a Run,
    transport: Transport,
    life: Life,
    record: LongRecord,
    /// Time at which something came last, seconds since the start.
    last: f64,
    /// Bytes of TLS at the socket that have not been counted.
    arrivals: Arrivals,
}

impl<'a> Flow<'a> {
    fn begin(run: &'a Run, user: u32, transport: Transport) -> Self {
        let start = run.now();
        run.patience.begin(user, start);
        Self {
            run,
            transport,
            life: Life { user, ..Life::default() },
            record: LongRecord { user, start, ..LongRecord::default() },
            last: start,
            arrivals: Arrivals::default(),
        }
    }

    async fn stay(&mut self) {
        let mut buffer = Vec::with_capacity(32 * 1024);
        loop {
            let connecting = self.run.ways.connect(self.record.user, self.transport, 1 << 50, &self.arrivals);
            if let Ok(mut stream) = connecting.await {
                self.record.connected.get_or_insert(self.run.now());
                while let Some(n) = stream.read(&mut buffer).await {
                    self.catch_up();
                    if self.transport != Transport::Tls {
                        self.came(self.run.now(), n);
                    }
                }
            }
            self.record.failures += 1;
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Counts bytes of TLS as they come to the socket: records have up to 16 kB, and a thin link takes long for one.
    fn catch_up(&mut self) {
        for (instant, bytes) in self.arrivals.take() {
            self.came(self.run.at(instant), bytes);
        }
    }

    fn came(&mut self, at: f64, bytes: usize) {
        self.run.patience.arrival(self.record.user, at);
        self.life.receive(self.run, at, bytes);
        note_stall(&mut self.record, self.last, at, self.run.spec.warmup);
        self.last = at;
    }

    fn end(mut self) -> Life {
        self.catch_up();
        let end = object_end(self.run);
        self.run.patience.end(self.record.user, end);
        note_stall(&mut self.record, self.last, end, self.run.spec.warmup);
        self.life.long = Some(self.record);
        self.life
    }
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
