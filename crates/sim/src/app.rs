//! Applications: they open connections, and hear what becomes of them.

use crate::world::World;

/// What happened to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// All data is at the taker.
    Delivered,
    /// All data is acknowledged.
    Acked,
    /// The connection is closed at both ends: it may be retired.
    Closed,
    /// It failed: too many retries.
    Failed,
}

/// An application. It is called with the world it lives in.
pub(crate) trait App {
    /// The run begins; `me` is the application's place, for timers and transfers.
    fn start(&mut self, world: &mut World, me: u32);
    /// A timer set with `token` is due.
    fn wake(&mut self, world: &mut World, token: u32) {
        let _ = (world, token);
    }
    /// Something happened to the connection at `place`, which the application numbered `tag`.
    fn happened(&mut self, world: &mut World, place: u32, tag: u32, what: Happened) {
        let _ = (world, place, tag, what);
    }
}
