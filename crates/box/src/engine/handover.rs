//! A box's inner state goes over to another box, or comes from one.

use std::io;

use narrows_qdisc::{Direction, Packet};
use narrows_units::Instant;

use super::{Engine, hand_on};
use crate::backend::Backend;
use crate::lane::LaneState;

/// State of both directions, down first.
pub type EngineState<P> = [LaneState<P>; 2];

impl<P: Packet + Send + 'static> Engine<P> {
    /// Knowledge of the disciplines about flows and users, down first.
    #[must_use]
    pub fn knowledge(&self, now: Instant) -> [Option<Vec<u8>>; 2] {
        Direction::BOTH.map(|d| self.driver.discipline(d).knowledge(now))
    }

    /// Takes all out; only [`Engine::resume`] can go on with it.
    ///
    /// # Errors
    /// Errors of the back end.
    pub fn take_apart<B: Backend<Packet = P>>(
        &mut self,
        now: Instant,
        backend: &mut B,
    ) -> io::Result<EngineState<P>> {
        let state = Direction::BOTH.map(|direction| {
            let mut verdicts = Vec::new();
            let lane = self.driver.discipline_mut(direction).take_apart(now, &mut verdicts);
            hand_on(now, direction, verdicts, backend);
            lane
        });
        backend.flush()?;
        Ok(state)
    }

    /// Goes on where another stopped, with nothing of it lost or out of order; for one that knows nothing yet.
    ///
    /// # Errors
    /// Those of the back end.
    pub fn resume<B: Backend<Packet = P>>(
        &mut self,
        now: Instant,
        state: EngineState<P>,
        backend: &mut B,
    ) -> io::Result<()> {
        for (direction, mut state) in Direction::BOTH.into_iter().zip(state) {
            let mut verdicts = Vec::new();
            let held = std::mem::take(&mut state.held);
            // As if they had just come: admission control knows whose they are and holds them again.
            self.arrivals.extend(held.into_iter().map(|packet| (direction.other(), packet)));
            let lane = self.driver.discipline_mut(direction);
            lane.resume(now, state, &mut verdicts);
            hand_on(now, direction, verdicts, backend);
        }
        backend.flush()
    }
}
