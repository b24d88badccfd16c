//! A box's inner state goes over to another box, or comes from one.

use std::io;

use narrows_qdisc::{Direction, Driver, Packet};
use narrows_units::Instant;

use super::{Engine, hand_on};
use crate::backend::Backend;
use crate::lane::{LaneSettings, LaneState, LinkQueue};

/// Both directions, down first.
pub type EngineState<P> = [LaneState<P>; 2];

impl<P: Packet + Send + 'static> Engine<P> {
    /// What the disciplines know of flows and users.
    #[must_use]
    pub fn knowledge(&self, now: Instant) -> [Option<Vec<u8>>; 2] {
        Direction::BOTH.map(|d| self.driver.discipline(d).knowledge(now))
    }

    /// Takes all out; only [`Engine::resume`] can go on with it.
    ///
    /// # Errors
    /// Those of the back end.
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

    /// A box that goes on where another stopped, with nothing of it lost or out of order.
    ///
    /// # Errors
    /// Those of the back end.
    pub fn resume<B: Backend<Packet = P>>(
        now: Instant,
        settings: &[LaneSettings; 2],
        state: EngineState<P>,
        backend: &mut B,
    ) -> io::Result<Self> {
        let mut arrivals = Vec::new();
        let mut lane = |direction: Direction, state: LaneState<P>| {
            let mut verdicts = Vec::new();
            let LaneState { knowledge, free_at, waiting, held } = state;
            // As if they had just come: admission control knows whose they are and holds them again.
            arrivals.extend(held.into_iter().map(|packet| (direction.other(), packet)));
            let (settings, waits) = (&settings[direction as usize], (free_at, waiting));
            let lane = LinkQueue::resume(now, settings, knowledge.as_deref(), waits, &mut verdicts);
            hand_on(now, direction, verdicts, backend);
            lane
        };
        let [down, up] = state;
        let driver = Driver::new(lane(Direction::Down, down), lane(Direction::Up, up));
        backend.flush()?;
        Ok(Self { driver, arrivals })
    }
}
