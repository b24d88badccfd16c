//! A rate for a discipline: dequeues no faster than the link behind it sends.
//!
//! The link's own framing is counted, so that the queue builds here and not in the modem: a fixed overhead per packet
//! (14 bytes for Ethernet, 8 more for PPPoE, 8 for AAL5's trailer), a least length of what that makes (`mpu`), and then
//! the cells of ATM (48 bytes of payload in each 53) or the 64/65 coding of PTM, as in `tc-stab` and CAKE.
//!
//! A driver that wakes late catches up, by at most the time of one full packet or a fifth of a second, whichever is
//! longer: so the rate is met without fine timers, and on a virtual machine whose processor is taken away for tens of
//! milliseconds. Only time in which packets waited is made up for, so no more ever leaves than the link itself would
//! have sent since the queue began, and one MTU.

use core::any::Any;
use core::marker::PhantomData;

use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_users::Side;
use narrows_wire::FlowKey;

use crate::{Ahead, Backlog, Discipline, Manage, Packet, Qdisc, Report, ReversePath, Verdicts};

/// Framing of the link layer: cells or blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// No framing.
    #[default]
    None,
    /// ATM cells: each 48 bytes, the last padded, take 53 (ITU-T I.363.5, AAL5).
    Atm,
    /// PTM: 65 bytes for each 64 (IEEE 802.3, clause 61).
    Ptm,
}

impl core::str::FromStr for Framing {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "atm" => Ok(Self::Atm),
            "ptm" => Ok(Self::Ptm),
            _ => Err(format!("'{text}' is no framing: expected none, atm or ptm")),
        }
    }
}

/// Lateness of a program in user space, now and then, on a machine that has other work or is virtual. What is made
/// up for at once waits in the modem instead: more would be a stall there.
const LATENESS: Duration = Duration::from_millis(200);

/// The link a shaper imitates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperConfig {
    /// Rate of the link, framing included.
    pub rate: Rate,
    /// Bytes the link adds to each IP packet before framing.
    pub overhead: u32,
    /// Least bytes for which a packet counts, overhead included and before framing: Ethernet pads to 64 bytes.
    pub mpu: u32,
    /// Framing.
    pub framing: Framing,
    /// The largest packet, overhead included but not framing: on the link it takes [`Self::largest`].
    pub mtu: Bytes,
    /// Side of the link on which the users are.
    pub users: Side,
}

impl ShaperConfig {
    /// A bare link of `rate`: no overhead, packets up to 1514 bytes, nobody has told where the users are.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, overhead: 0, mpu: 0, framing: Framing::None, mtu: Bytes(1514), users: Side::Opener }
    }

    /// Length of the largest packet on the link: lengths from [`Self::wire_len`] are compared with it.
    #[must_use]
    pub const fn largest(&self) -> Bytes {
        self.wire_len(self.mtu.saturating_sub(Bytes(self.overhead as u64)))
    }

    /// Length on the link of an IP packet of `len`.
    #[must_use]
    pub const fn wire_len(&self, len: Bytes) -> Bytes {
        let (n, least) = (len.0 + self.overhead as u64, self.mpu as u64);
        let n = if n < least { least } else { n };
        Bytes(match self.framing {
            Framing::None => n,
            Framing::Atm => n.div_ceil(48) * 53,
            Framing::Ptm => (n * 65).div_ceil(64),
        })
    }
}

/// A discipline behind a rate.
#[derive(Debug)]
pub struct Shaper<P, Q> {
    config: ShaperConfig,
    inner: Q,
    /// Time at which the link has sent every packet handed to the link so far.
    free_at: Instant,
    /// Until when the link is or was idle although packets wait, because the discipline inside holds them back.
    held_until: Instant,
    /// Whether nothing waited after the last call.
    idle: bool,
    packets: PhantomData<fn(P)>,
}

impl<P, Q> Shaper<P, Q> {
    /// `inner`, dequeued at the rate of `config`.
    #[must_use]
    pub const fn new(config: ShaperConfig, inner: Q) -> Self {
        let never = Instant::ZERO;
        Self { config, inner, free_at: never, held_until: never, idle: true, packets: PhantomData }
    }
    /// The discipline inside.
    pub const fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }
    /// Returns the discipline, with all packets that wait in the discipline.
    #[must_use]
    pub fn into_inner(self) -> Q {
        self.inner
    }
    /// The link.
    #[must_use]
    pub const fn config(&self) -> &ShaperConfig {
        &self.config
    }
    /// Time at which the link has sent every packet handed to the link so far.
    pub const fn free_at(&self) -> Instant {
        self.free_at
    }
    /// Goes on where another one stopped: the link is busy until `free_at`, and `waiting` says whether packets do.
    pub const fn resume(&mut self, free_at: Instant, waiting: bool) {
        self.free_at = free_at;
        self.idle = !waiting;
    }
    /// Gives back the time on the link that a packet of `len` was given, which never went there.
    pub fn give_back(&mut self, len: Bytes) {
        let busy = self.config.rate.time_to_send(self.config.wire_len(len));
        self.free_at = Instant::ZERO + self.free_at.since(Instant::ZERO + busy);
    }
    /// Changes the link while packets wait. What is being sent ends at the old rate, but never later than a whole
    /// packet would at the new one: on a thin link the old rate may mean minutes.
    fn set_config(&mut self, now: Instant, config: ShaperConfig) {
        self.config = config;
        self.free_at = self.free_at.min(now + config.rate.time_to_send(config.largest()));
    }
    /// The lateness that is made up for.
    fn tolerated_lateness(&self) -> Duration {
        self.config.rate.time_to_send(self.config.largest()).max(LATENESS)
    }
}

impl<P: Packet, Q: Qdisc<P>> Shaper<P, Q> {
    /// Ends the idle time, as an arrival does, if the reverse path has released a packet into an empty queue.
    fn wake(&mut self, now: Instant) {
        if self.idle && self.inner.backlog().packets > 0 {
            self.free_at = self.free_at.max(now);
            self.note(now);
        }
    }

    /// Notes whether anything waits, and until when the discipline holds it back: that is not lateness of the driver.
    fn note(&mut self, now: Instant) {
        self.idle = self.inner.backlog().packets == 0;
        match self.inner.next_ready(now) {
            Some(at) if at > now => self.held_until = at,
            _ => self.held_until = self.held_until.min(now),
        }
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Shaper<P, Q> {
    fn coming(&self, flow: &FlowKey, ahead: Ahead) {
        self.inner.coming(flow, ahead);
    }

    fn enqueue(&mut self, now: Instant, packet: P, verdicts: &mut Verdicts<P>) {
        self.wake(now);
        self.inner.enqueue(now, packet, verdicts);
        // An empty queue does not save up: the link was idle until this packet came.
        if self.inner.backlog().packets == 1 && self.free_at < now {
            self.free_at = now;
        }
        self.note(now);
    }

    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts<P>) -> Option<P> {
        self.wake(now);
        if now < self.free_at {
            return None;
        }
        let Some(packet) = self.inner.dequeue(now, verdicts) else {
            self.idle = self.inner.backlog().packets == 0;
            return None;
        };
        let busy = self.config.rate.time_to_send(self.config.wire_len(packet.len()));
        self.free_at = self.free_at.max(now - self.tolerated_lateness()).max(self.held_until) + busy;
        self.note(now);
        Some(packet)
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        Some(self.inner.next_ready(now)?.max(self.free_at))
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

impl<P: Packet, Q: Qdisc<P> + Manage> Manage for Shaper<P, Q> {
    fn report(&mut self, now: Instant) -> Report {
        self.inner.report(now)
    }

    fn reconfigure(&mut self, now: Instant, settings: &dyn Any, link: &ShaperConfig) -> bool {
        let kept = self.inner.reconfigure(now, settings, link);
        if kept {
            self.set_config(now, *link);
            self.note(now);
        }
        kept
    }

    crate::forward!(inner: export, import, set_circuit_rates);
}

impl<P: Packet, Q: Discipline<P>> Discipline<P> for Shaper<P, Q> {
    fn reverse_path(&self) -> Option<&dyn ReversePath<P>> {
        self.inner.reverse_path()
    }

    fn reverse_path_mut(&mut self) -> Option<&mut dyn ReversePath<P>> {
        self.inner.reverse_path_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fifo, Limit, Record, Spec};

    fn packet(len: u64) -> Record {
        let mut r = Record::default();
        r.header.len = Bytes(len);
        r
    }

    fn shaper(kbps: u64) -> Shaper<Record, Fifo<Record>> {
        Shaper::new(
            ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(kbps)) },
            Fifo::new(Limit::Packets(1000)),
        )
    }

    #[test]
    fn wire_lengths_by_hand() {
        let mut c = ShaperConfig::new(Rate::from_kbps(1));
        c.overhead = 8;
        assert_eq!(c.wire_len(Bytes(1500)), Bytes(1508));
        c.framing = Framing::Atm; // 1508 / 48 = 31.4: 32 cells
        assert_eq!(c.wire_len(Bytes(1500)), Bytes(32 * 53));
        c.framing = Framing::Ptm; // 1508 * 65 / 64 = 1531.56
        assert_eq!(c.wire_len(Bytes(1500)), Bytes(1532));
        // DOCSIS: Ethernet with its FCS, 64 bytes at least. 28 + 18 are 46; 46 + 18 are 64; 47 are one more.
        c = ShaperConfig { overhead: 18, mpu: 64, ..ShaperConfig::new(Rate::from_kbps(1)) };
        assert_eq!([28, 46, 47, 1500].map(|n| c.wire_len(Bytes(n)).0), [64, 64, 65, 1518]);
        // Bridged over ATM (LLC/SNAP, AAL5's trailer): an acknowledgment of 40 B is padded to 60 + 32, two cells.
        c = ShaperConfig { overhead: 32, mpu: 92, framing: Framing::Atm, ..c };
        assert_eq!([40, 64, 65].map(|n| c.wire_len(Bytes(n)).0), [106, 106, 159]);
    }

    #[test]
    fn a_packet_every_twenty_milliseconds() {
        // 1500 B at 600 kbit/s are 20 ms each; waking only when told sends at 100, 120, 140 ms.
        let (mut q, mut v) = (shaper(600), Vec::new());
        let mut now = Instant::from_nanos(100_000_000);
        for _ in 0..3 {
            q.enqueue(now, packet(1500), &mut v);
        }
        let mut sent = Vec::new();
        while let Some(t) = q.next_ready(now) {
            now = now.max(t);
            sent.push(now.as_nanos() / 1_000_000);
            assert!(q.dequeue(now, &mut v).is_some());
            assert!(q.dequeue(now, &mut v).is_none());
        }
        assert_eq!(sent, [100, 120, 140]);
    }

    /// 1500 B at 600 kbit/s are 20 ms. The second of three never left: the third has its time.
    #[test]
    fn the_time_of_what_never_left_is_given_back() {
        let (mut q, mut v) = (shaper(600), Vec::new());
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        for _ in 0..4 {
            q.enqueue(at(100), packet(1500), &mut v);
        }
        assert!(q.dequeue(at(100), &mut v).is_some() && q.dequeue(at(120), &mut v).is_some());
        assert_eq!(q.next_ready(at(121)), Some(at(140)));
        q.give_back(Bytes(1500));
        assert!(q.dequeue(at(121), &mut v).is_some());
        assert_eq!(q.next_ready(at(121)), Some(at(140)), "it has taken the place of the one before");
        // More than was ever given makes the link free at once, and no sooner.
        (0..9).for_each(|_| q.give_back(Bytes(1500)));
        assert_eq!(q.next_ready(at(121)), Some(at(121)));
    }

    #[test]
    fn a_late_driver_catches_up_a_fifth_of_a_second_and_no_more() {
        let (mut q, mut v) = (shaper(600), Vec::new());
        for _ in 0..30 {
            q.enqueue(Instant::ZERO, packet(1500), &mut v);
        }
        assert!(q.dequeue(Instant::ZERO, &mut v).is_some());
        // 70 ms later three were due; 1 s later one, and ten of 20 ms each are made up for. Then the link is busy.
        let mut burst = |ms: u64| {
            let late = Instant::from_nanos(ms * 1_000_000);
            std::iter::from_fn(|| q.dequeue(late, &mut v)).count()
        };
        assert_eq!((burst(70), burst(1070), burst(1070)), (3, 11, 0));
    }

    #[test]
    fn no_more_leaves_than_since_the_queue_began() {
        // A packet takes 20 ms. Idle for a second, then 60 ms of queue before a driver that sleeps: one for now and
        // three made up for, not the second before.
        let (mut q, mut v) = (shaper(600), Vec::new());
        for _ in 0..30 {
            q.enqueue(Instant::from_nanos(1_000_000_000), packet(1500), &mut v);
        }
        let late = Instant::from_nanos(1_060_000_000);
        assert_eq!(std::iter::from_fn(|| q.dequeue(late, &mut v)).count(), 4);
    }

    #[test]
    fn a_slow_link_makes_up_for_one_packet() {
        // 1500 B at 12 kbit/s are a second: ten seconds late, one for now and one made up for.
        let (mut q, mut v) = (shaper(12), Vec::new());
        for _ in 0..9 {
            q.enqueue(Instant::ZERO, packet(1500), &mut v);
        }
        let late = Instant::from_nanos(10_000_000_000);
        assert_eq!(std::iter::from_fn(|| q.dequeue(late, &mut v)).count(), 2);
    }

    #[test]
    fn a_faster_link_does_not_wait_for_the_old_one() {
        // 1500 B at 1 kbit/s are 12 s. At 1 s the link becomes one of 12 Mbit/s: 1 ms a packet, with what a class
        // inside holds back too.
        let slow = ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(1)) };
        let fast = ShaperConfig { rate: Rate::from_kbps(12_000), ..slow };
        let second = Instant::from_nanos(1_000_000_000);
        for (text, ready) in [("fifo:9", 1_001_000), ("classes:share=0.05,buffer=60", 1_020_000)] {
            let spec: Spec = text.parse().unwrap();
            let (mut q, mut v) = (Shaper::new(slow, spec.build::<Record>(&slow, 1)), Vec::new());
            for _ in 0..3 {
                q.enqueue(Instant::ZERO, packet(1500), &mut v);
            }
            assert!(q.dequeue(Instant::ZERO, &mut v).is_some());
            assert!(q.next_ready(Instant::ZERO) >= Some(Instant::from_nanos(12_000_000_000)));
            assert!(q.reconfigure(second, spec.settings(), &fast));
            assert_eq!(q.next_ready(second).map(|t| t.as_nanos() / 1000), Some(ready), "{text}");
            // The packet after that follows at the new rate.
            let now = Instant::from_nanos(ready * 1000);
            assert!(q.dequeue(now, &mut v).is_some(), "{text}");
            assert!(q.next_ready(now).is_some_and(|t| t.since(now) <= Duration::from_millis(20)), "{text}");
        }
    }

    #[test]
    fn a_full_packet_in_cells_is_made_up_for_whole() {
        // 1500 B and 14 of overhead are 32 cells of 53: 1696 B, 226 ms at 60 kbit/s. One second late: one packet for
        // now, one made up for.
        let config =
            ShaperConfig { overhead: 14, framing: Framing::Atm, ..ShaperConfig::new(Rate::from_kbps(60)) };
        let (mut q, mut v) = (Shaper::new(config, Fifo::new(Limit::Packets(100))), Vec::new());
        for _ in 0..10 {
            q.enqueue(Instant::ZERO, packet(1500), &mut v);
        }
        assert!(q.dequeue(Instant::ZERO, &mut v).is_some());
        let late = Instant::from_nanos(1_000_000_000);
        assert_eq!(std::iter::from_fn(|| q.dequeue(late, &mut v)).count(), 2);
    }

    #[test]
    fn an_idle_link_saves_nothing_up() {
        let (mut q, mut v) = (shaper(600), Vec::new());
        let now = Instant::from_nanos(5_000_000_000);
        for _ in 0..3 {
            q.enqueue(now, packet(1500), &mut v);
        }
        assert_eq!(std::iter::from_fn(|| q.dequeue(now, &mut v)).count(), 1);
    }
}
