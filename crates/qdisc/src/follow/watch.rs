//! Slow link as it shows to somebody who changes nothing: where its queue stands, and its rate then, second by second.
//!
//! The controllers of a shaper that follows its link look on, so a capture tells what a box at its place would have
//! learnt.

use narrows_units::{Bytes, Duration, Instant, Rate};
use narrows_wire::Header;

use super::before::Before;
use super::config::{FollowConfig, LinkPlace};
use super::control::Control;
use super::standing::Waits;

/// A second of one direction, as it showed at one point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkSecond {
    /// Seconds since the first packet.
    pub at: u64,
    /// Bytes that passed.
    pub passed: Bytes,
    /// Shortest wait before the point, and behind it, of the packets that told.
    pub waits: [Option<Duration>; 2],
    /// Side on which a queue stood.
    pub full: Option<LinkPlace>,
    /// Rate of the link on that side; not told of a link behind the point that loses packets: what is acknowledged
    /// there is not all that it carries.
    pub rate: Option<Rate>,
}

/// Packets for each one that is sent again, from which the rate of a link behind the point is told.
const SENT_FOR_AGAIN: u64 = 50;

/// Observer of one direction of a link.
#[derive(Debug)]
pub struct LinkWatch {
    target: Duration,
    before: Before,
    behind: Control,
    /// Waits in this second, before the point and behind it.
    waits: [Waits; 2],
    /// Packets that have passed in this second, and those sent again before it.
    packets: u64,
    again: u64,
    from: Option<Instant>,
    now: LinkSecond,
    seconds: Vec<LinkSecond>,
}

impl LinkWatch {
    /// An observer of a link of which nothing is known. `seed` keys the hashes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let config = FollowConfig::default();
        let (mut before, mut behind) = (Before::new(config, seed), Control::new(config, seed));
        before.look_on(true);
        behind.look_on(true);
        Self {
            target: config.target,
            before,
            behind,
            waits: [Waits::default(); 2],
            packets: 0,
            again: 0,
            from: None,
            now: LinkSecond::default(),
            seconds: Vec::new(),
        }
    }

    /// Notes a packet of this direction that takes `bytes` on the link.
    pub fn passes(&mut self, now: Instant, header: &Header, bytes: Bytes) {
        self.tick(now);
        self.now.passed += bytes;
        self.packets += 1;
        if self.before.arrives(now, header, bytes.get()) {
            self.waits[0].note(self.before.late());
        }
        // Packets leave as they come: nothing waits at the point.
        self.behind.keep_up(now, bytes.get());
        self.before.keep_up(now, bytes.get());
        self.behind.departs(now, header, bytes.get(), true);
        self.before.departs(now, header, bytes.get(), true);
    }

    /// Notes a packet of the other direction.
    pub fn returns(&mut self, now: Instant, header: &Header) {
        self.tick(now);
        self.before.returns(now, header);
        if self.behind.returns(now, header) {
            self.waits[1].note(self.behind.late());
        }
    }

    /// Ends the observation, and gives all seconds in which something passed.
    #[must_use]
    pub fn finish(mut self) -> Vec<LinkSecond> {
        self.close();
        self.seconds
    }

    /// Begins a second, if one has begun.
    fn tick(&mut self, now: Instant) {
        let from = *self.from.get_or_insert(now);
        let at = now.since(from).as_millis() / 1000;
        if at != self.now.at {
            self.close();
            self.now.at = at;
        }
    }

    fn close(&mut self) {
        let second = core::mem::take(&mut self.now);
        let waits = core::mem::take(&mut self.waits);
        let packets = core::mem::take(&mut self.packets);
        let again = self.behind.sent_again() - core::mem::replace(&mut self.again, self.behind.sent_again());
        if packets == 0 {
            return;
        }
        let rates = [self.before.rate(), self.behind.rate()];
        let longest = usize::from(waits[1].shortest() > waits[0].shortest());
        let full = waits[longest].stand(self.target, rates[longest]);
        self.seconds.push(LinkSecond {
            waits: waits.map(|waits| waits.shortest()),
            full: full.then_some([LinkPlace::Before, LinkPlace::Behind][longest]),
            rate: (full && (longest == 0 || again * SENT_FOR_AGAIN <= packets)).then_some(rates[longest]),
            ..second
        });
    }
}
