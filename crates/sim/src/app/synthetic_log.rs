//! A synthetic access log: Poisson requests, sizes of any law, clients of unequal zeal.
//!
//! Made to stand in for the log of a campus in Kerala (TAQ, section 2.2 and Fig. 1), of which only totals are
//! published: 2 hours, 221 client addresses, 1.5 GB over a link of 2 Mbit/s, and a range of sizes that reaches beyond 1
//! MB. What of this is fitted by which setting stands in `docs/reference/workloads.md`; the test below holds the
//! generator to it.

use fastrand::Rng;
use narrows_scenario::maths::pow;
use narrows_scenario::{LogEntry, Size};
use narrows_units::Duration;

use super::exponential;

/// Requests one after another until the log's end.
#[derive(Clone, Debug)]
pub(super) struct SyntheticLog {
    rng: Rng,
    /// Mean time between requests.
    mean: Duration,
    end: Duration,
    at: Duration,
    /// Sum of the weights of clients up to each one.
    zeal: Vec<f64>,
    size: Size,
}

impl SyntheticLog {
    /// A log of `length` with so many `requests` per second. A request is of client i with a probability that goes as
    /// (i + 1)^-zipf.
    pub(super) fn new(
        rng: Rng,
        length: Duration,
        requests: f64,
        clients: u32,
        zipf: f64,
        size: Size,
    ) -> Self {
        let mut sum = 0.0;
        let weight = |i: u32| {
            sum += 1.0 / pow(f64::from(i) + 1.0, zipf);
            sum
        };
        Self {
            rng,
            mean: Duration::from_nanos((1e9 / requests).round() as u64),
            end: length,
            at: Duration::default(),
            zeal: (0..clients.max(1)).map(weight).collect(),
            size,
        }
    }

    fn client(&mut self) -> u32 {
        let whole = self.zeal.last().copied().unwrap_or(1.0);
        let u = self.rng.f64() * whole;
        let client = self.zeal.partition_point(|sum| *sum <= u);
        u32::try_from(client.min(self.zeal.len() - 1)).unwrap_or(0)
    }
}

impl Iterator for SyntheticLog {
    type Item = LogEntry;

    fn next(&mut self) -> Option<LogEntry> {
        self.at += exponential(&mut self.rng, self.mean);
        let client = self.client();
        let rng = &mut self.rng;
        let bytes = self.size.sample(&mut || rng.f64());
        (self.at < self.end).then_some(LogEntry { at: self.at, client, bytes })
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Rate;

    use super::*;

    /// Settings of `docs/reference/workloads.md` for the campus in Kerala.
    fn kerala(seed: u64) -> SyntheticLog {
        let size = "bounded_pareto:low=2066,high=10MB,shape=1.1".parse().unwrap();
        SyntheticLog::new(Rng::with_seed(seed), Duration::from_secs(7_200), 16.03, 221, 0.75, size)
    }

    #[test]
    fn the_published_figures() {
        for seed in 0..5 {
            let log: Vec<_> = kerala(seed).collect();
            // 115 416 requests are expected; a Poisson count has a standard error of 340.
            assert!((log.len() as f64 - 115_416.0).abs() < 4.0 * 340.0, "{}", log.len());
            let clients: std::collections::BTreeSet<_> = log.iter().map(|e| e.client).collect();
            assert_eq!(clients.len(), 221);
            // The law's standard deviation is 104 kB, 8 times its mean: a standard error of 2.4 % in the sum.
            let bytes: u64 = log.iter().map(|e| e.bytes).sum();
            assert!((bytes as f64 / 1.5e9 - 1.0).abs() < 4.0 * 0.024, "{bytes}");
            // The log keeps the link of 2 Mbit/s in use for five sixths of the two hours.
            let of = Rate::from_kbps(2_000).bytes_in(Duration::from_secs(7_200)).get();
            assert!((0.75..0.92).contains(&(bytes as f64 / of as f64)), "{bytes} of {of}");
            assert!(log.is_sorted_by_key(|e| e.at) && log.iter().all(|e| e.at < Duration::from_secs(7_200)));
        }
    }

    #[test]
    fn sizes_fill_buckets_from_small_to_beyond_a_megabyte() {
        let mut buckets = [0; 6];
        let mut all = 0.0;
        for entry in kerala(1) {
            // Buckets of a factor of ten: 1 to 10 kB, 10 to 100 kB, ...
            buckets[entry.bytes.ilog10() as usize - 3] += 1;
            all += 1.0;
        }
        // P(X > x) = ((L/x)^a - (L/H)^a) / (1 - (L/H)^a), with (L/H)^a = 8.8e-5: 17.6 % above 10 kB, 1.39 % above 100
        // kB, and
        // 1.02e-3 above 1 MB. Bounds of four standard errors.
        for (least, expected) in [(1, 0.1764), (2, 0.0139), (3, 0.00102)] {
            let above = f64::from(buckets[least..].iter().sum::<i32>()) / all;
            let error = (expected / all * (1.0 - expected)).sqrt();
            assert!((above - expected).abs() < 4.0 * error, "{least} {above} {expected}");
        }
    }

    #[test]
    fn requests_fall_to_clients_by_zipf_s_law() {
        let log = |zipf| {
            SyntheticLog::new(Rng::with_seed(3), Duration::from_secs(1_000), 100.0, 3, zipf, Size::Fixed(1))
        };
        let mut counts = [0.0; 3];
        log(1.0).for_each(|e| counts[e.client as usize] += 1.0);
        // 1 : 1/2 : 1/3 of some 100 000, a standard error of at most 0.5 % of the whole.
        let all: f64 = counts.iter().sum();
        for (count, share) in counts.into_iter().zip([6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]) {
            assert!((count / all - share).abs() < 0.006, "{counts:?}");
        }
        let mut counts = [0.0; 3];
        log(0.0).for_each(|e| counts[e.client as usize] += 1.0);
        assert!(counts.iter().all(|c| (c / all - 1.0 / 3.0).abs() < 0.01), "{counts:?}");
    }
}
