//! The loop's part in being replaced: it stops between two steps, and goes on if nobody takes over after all.

use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, SyncSender};

use anyhow::Context;

use super::{Live, now};
use crate::channel::Channel;
use crate::engine::{Engine, EngineState};
use crate::handover::{Estate, Handed, Successor};
use crate::packet::HeldPacket;
use crate::run::Notice;

impl<C: Channel> Live<C> {
    /// Goes on where another process has stopped; for one that knows nothing yet.
    ///
    /// # Errors
    /// Those of the back end.
    pub fn resume(&mut self, mut state: EngineState<HeldPacket>) -> anyhow::Result<()> {
        for lane in &mut state {
            for packet in lane.waiting.iter_mut().chain(&mut lane.held) {
                packet.circuit = self.users.circuit(packet.direction, &packet.header.key, packet.link);
            }
        }
        let resumed = self.engine.resume(now(), state, &mut self.channel);
        resumed.context("the way to the kernel's packets is lost")
    }

    /// What is known of flows and users.
    pub fn knowledge(&self) -> [Option<Vec<u8>>; 2] {
        self.engine.knowledge(now())
    }

    /// Gives all to the process that takes this one's place; `estate` are descriptors that go first. `false` if it has
    /// not taken it: then this one goes on.
    pub(super) fn hand_over(
        &mut self,
        successor: &Successor,
        estate: &[BorrowedFd<'_>],
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<bool> {
        let begun = std::time::Instant::now();
        let state = self.engine.take_apart(now(), &mut self.channel).context("what waits cannot be told")?;
        let (legacy, numbers) = self.channel.legacy();
        // The state file and the control socket go first, then the page, if there is one.
        let told = Estate::of(&state, numbers, estate.len() > 2);
        let fds: Vec<_> = estate.iter().copied().chain(legacy).collect();
        let ready = begun.elapsed();
        let taken = successor.offer(&told, &fds).and_then(|()| self.watched.watchdog.give_way(successor));
        match taken {
            Ok(()) => {
                tell(Notice::Detail(format!(
                    "handed over: {told}, ready after {ready:.1?}, taken after {:.1?}",
                    begun.elapsed()
                )));
                Ok(true)
            }
            Err(error) => {
                self.go_on(state)?;
                tell(Notice::Warning(format!("a process that wanted to take over did not: {error:#}")));
                Ok(false)
            }
        }
    }

    /// Tells all there is to who looks after the links. `false` if nobody has taken it: then this one goes on.
    pub(super) fn hand_over_with_others(
        &mut self,
        answer: &SyncSender<Handed>,
        taken: &Receiver<()>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<bool> {
        let state = self.engine.take_apart(now(), &mut self.channel).context("what waits cannot be told")?;
        let (legacy, numbers) = self.channel.legacy();
        match Handed::new(&Estate::of(&state, numbers, false), &legacy) {
            Ok(handed) => drop(answer.send(handed)),
            Err(error) => {
                tell(Notice::Warning(format!("another process could not take over: {error:#}")));
                self.go_on(state)?;
                return Ok(false);
            }
        }
        // Nobody else may decide: should that thread hang, the watchdog lets traffic pass.
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
