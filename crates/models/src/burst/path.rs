//! A file over an empty path, packet by packet: store and forward at each hop, queues without end, one ACK a packet.

use narrows_units::{Bytes, Duration, Rate};

use super::{Growth, packets, whole};
use crate::Result;
use crate::domain::within;

/// One link, the same both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Rate of the hop; at least 1 kbit/s.
    pub rate: Rate,
    /// Propagation time one way; at most 1000 s.
    pub delay: Duration,
}

/// Path between sender and receiver, and the sizes of the packets on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Hops from the sender on; 1 to 16.
    pub hops: Vec<Hop>,
    /// Size of a data packet, headers included; up to 65 535 bytes.
    pub data: Bytes,
    /// An ACK; zero takes no time.
    pub ack: Bytes,
    /// Size of a first packet that stands for the SYN, as ns-2's one-way agents send it: it is counted as a packet, and
    /// its ACK opens the window. `None`: the connection stands already.
    pub syn: Option<Bytes>,
}

impl Path {
    /// When each of `count` packets is acknowledged, from the sending of the first; nothing is lost.
    ///
    /// Packets and ACKs stay in order, so nothing but the next ACK can happen next: it lets go what the window then has
    /// room for, at once.
    ///
    /// # Errors
    /// If `initial` or `count` is not in 1 to 100 000, a base not in 1 < b <= 1024, or a hop or size outside what its
    /// field says.
    pub fn transfer(&self, growth: &Growth, initial: u32, count: u32) -> Result<Vec<Duration>> {
        growth.check()?;
        self.check()?;
        let mut cwnd = f64::from(packets("initial", initial)?);
        let count = packets("packets", count)? as usize;
        let mut there = vec![0; self.hops.len()];
        let mut back = there.clone();
        let mut acked: Vec<Duration> = Vec::with_capacity(count);
        let (mut now, mut done) = (0, 0);
        loop {
            // Beyond `count` no window lets anything go.
            let may = (done as u64).saturating_add(whole(cwnd)).min(count as u64) as usize;
            while acked.len() < may {
                let size = self.syn.filter(|_| acked.is_empty()).unwrap_or(self.data);
                let arrived = cross(self.hops.iter().zip(&mut there), size, now);
                let returned = cross(self.hops.iter().zip(&mut back).rev(), self.ack, arrived);
                acked.push(Duration::from_nanos(returned));
            }
            if done == count {
                return Ok(acked);
            }
            now = acked[done].as_nanos();
            done += 1;
            cwnd = growth.grown(cwnd);
        }
    }

    fn check(&self) -> Result<()> {
        within("hops", self.hops.len() as f64, 1.0..=16.0, "1 to 16 hops")?;
        for hop in &self.hops {
            // The bounds let 100 000 round trips fit into 64 bits of nanoseconds.
            within("rate", hop.rate.as_bps() as f64, 1000.0.., "a rate of at least 1 kbit/s")?;
            within("delay", hop.delay.as_secs_f64(), 0.0..=1000.0, "at most 1000 s")?;
        }
        for (name, size) in [("packet", Some(self.data)), ("ack", Some(self.ack)), ("syn", self.syn)] {
            within(name, size.unwrap_or_default().get() as f64, 0.0..=65_535.0, "0 to 65535 bytes")?;
        }
        Ok(())
    }
}

/// When a packet that leaves at `now` has crossed, in nanoseconds; each hop begins with it when it is free.
fn cross<'a>(hops: impl Iterator<Item = (&'a Hop, &'a mut u64)>, size: Bytes, now: u64) -> u64 {
    hops.fold(now, |now, (hop, free)| {
        *free = now.max(*free) + hop.rate.time_to_send(size).as_nanos();
        *free + hop.delay.as_nanos()
    })
}
