//! Hand-over of a link to another process: the loop stops between two steps, and goes on if nobody takes over.

use std::sync::mpsc::{Receiver, SyncSender};

use anyhow::Context;

use super::Live;
use crate::channel::Channel;
use crate::clock::now;
use crate::engine::{Engine, EngineState};
use crate::handover::{Handed, LinkState};
use crate::log::Notice;
use crate::packet::HeldPacket;

impl<C: Channel> Live<C> {
    /// Goes on where another process has stopped; for one that knows nothing yet.
    ///
    /// # Errors
    /// Those of the back end.
    pub fn resume(&mut self, mut state: EngineState<HeldPacket>) -> anyhow::Result<()> {
        for lane in &mut state {
            for packet in lane.waiting.iter_mut().chain(&mut lane.held) {
                packet.user = self.users.whose(packet.direction, &packet.header.key, packet.link);
            }
        }
        let resumed = self.engine.resume(now(), state, &mut self.channel);
        resumed.context("the way to the kernel's packets is lost")
    }

    /// Knowledge of flows and users.
    pub fn knowledge(&self) -> [Option<Vec<u8>>; 2] {
        self.engine.knowledge(now())
    }

    /// Tells all that is known to the thread that looks after the links. `false` if nobody has taken it: then this loop
    /// goes on.
    pub(super) fn hand_over(
        &mut self,
        answer: &SyncSender<Handed>,
        taken: &Receiver<()>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<bool> {
        let state = self.engine.take_apart(now(), &mut self.channel).context("what waits cannot be told")?;
        let (fds, numbers) = self.channel.hand_over();
        match Handed::new(&LinkState::of(&state, numbers, self.users.told()), &fds) {
            Ok(handed) => drop(answer.send(handed)),
            Err(error) => {
                tell(Notice::Warning(format!("another process could not take over: {error:#}")));
                self.go_on(state)?;
                return Ok(false);
            }
        }
        // Only that thread decides: should it hang, the watchdog lets traffic pass.
        if taken.recv().is_ok() {
            return Ok(true);
        }
        self.go_on(state).map(|()| false)
    }

    /// Goes on with what was taken apart.
    fn go_on(&mut self, state: EngineState<HeldPacket>) -> anyhow::Result<()> {
        self.engine = Engine::new(&self.settings.lanes_as_told(&self.told));
        self.tell_circuit_rates();
        self.resume(state)
    }
}
