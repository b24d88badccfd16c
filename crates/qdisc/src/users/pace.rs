//! Users with rates of their own.
//!
//! A user has paid for what it was sent when its rate would have sent as much (the virtual scheduling of ITU-T I.371,
//! annex A): until then it stands aside, in no list, and the next of the others is served. A little of unused rate is
//! kept ([`SAVED`]). Whatever passes outside the lists (packets without data) is paid for too.

use narrows_lists::Arena as _;
use narrows_units::{Bytes, Duration, Instant, Rate};

use super::{CircuitRates, UserState, Users};

/// Unused rate that is kept, as time and as bytes. Where the rate is less than a user's fair share, a round of the
/// others takes less than one packet at that rate; and who comes back may wait for two.
const SAVED: (Duration, Bytes) = (Duration::from_millis(50), Bytes(2 * 1514));

/// How long a share that was not used for packets without data is kept.
const CONTROL_SAVED: Duration = Duration::from_millis(200);

impl<S> UserState<S> {
    /// Its own rate.
    pub const fn rate(&self) -> Option<Rate> {
        if self.rated { Some(Rate::from_bps(self.rate_bps)) } else { None }
    }

    /// It was sent so many bytes on the link.
    pub(super) fn pay(&mut self, now: Instant, cost: i32) {
        if let Some(rate) = self.rate() {
            let saved = SAVED.0 + rate.time_to_send(SAVED.1);
            let from = self.paid_until.max(now - saved);
            self.paid_until = from + rate.time_to_send(Bytes(u64::from(cost.unsigned_abs())));
        }
    }
}

impl<S> Users<S> {
    /// Whether a packet without data may go before others for the sake of this user: they have had no more than the
    /// share it would have of `link` now.
    pub fn may_send_control(&self, now: Instant, user: u32) -> bool {
        self.at(user).control_until <= now
    }

    /// One went, of `cost` bytes on the link.
    pub fn sent_control(&mut self, now: Instant, user: u32, (link, cost): (Rate, Bytes)) {
        let time = link.time_to_send(cost) * (self.waiting() + 1) as u64;
        let state = self.slab.at_mut(user);
        state.control_until = state.control_until.max(now - CONTROL_SAVED) + time;
    }

    /// The rates of circuits are these from now on. Whoever stands aside is judged anew.
    pub fn set_rates(&mut self, rates: CircuitRates) {
        self.rates = rates;
        for at in 0..self.slab.places() as u32 {
            if self.slab.get(at).is_some() {
                self.set_rate(at);
            }
        }
        while let Some((_, user)) = self.aside.pop_first() {
            // What it owes was reckoned at its old rate.
            self.slab.at_mut(user).paid_until = Instant::ZERO;
            self.back(user);
        }
    }

    /// The rates of circuits.
    pub fn rates(&self) -> CircuitRates {
        self.rates.clone()
    }

    /// Looks up the rate of one user.
    pub(super) fn set_rate(&mut self, at: u32) {
        let state = self.slab.at_mut(at);
        let rate = state.user.as_circuit().and_then(|id| *self.rates.get(id.0 as usize)?);
        state.rate_bps = rate.map_or(0, Rate::as_bps);
        state.rated = state.rate_bps > 0;
    }

    /// The user pays for a packet that is served outside the lists.
    pub fn pay(&mut self, now: Instant, user: u32, cost: i32) {
        let Some(state) = self.slab.get_mut(user) else { return };
        let (aside, before) = (state.aside, state.paid_until);
        state.pay(now, cost);
        let after = state.paid_until;
        if aside && self.aside.remove(&(before, user)) {
            self.aside.insert((after, user));
        }
    }

    /// When somebody may be served: now, unless all who have packets waiting stand aside.
    pub fn next_ready(&self, now: Instant) -> Option<Instant> {
        if self.waiting() > 0 {
            return Some(now);
        }
        self.aside.first().map(|(due, _)| (*due).max(now))
    }

    /// The user has nothing to pay with: it leaves its list until it has.
    pub(super) fn put_aside(&mut self, user: u32) {
        let state = self.slab.at_mut(user);
        state.aside = true;
        let (place, due) = (state.place, state.paid_until);
        self.order.list(place).remove(&mut self.slab, user);
        self.aside.insert((due, user));
    }

    /// Who has paid by now goes on where it left off, behind those who are there.
    pub(super) fn come_back(&mut self, now: Instant) {
        while let Some((due, user)) = self.aside.first().copied().filter(|first| first.0 <= now) {
            self.aside.remove(&(due, user));
            self.back(user);
        }
    }

    fn back(&mut self, user: u32) {
        let state = self.slab.at_mut(user);
        state.aside = false;
        let place = state.place;
        self.order.list(place).push_back(&mut self.slab, user);
    }
}
