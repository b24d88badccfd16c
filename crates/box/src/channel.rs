//! Interface of a back end to the loop of a link, beside packets.

use std::os::fd::BorrowedFd;

use super::backend::Backend;
use super::packet::{ErrorCounters, HeldPacket, Passage};

/// A back end on real interfaces.
pub trait Channel: Backend<Packet = HeldPacket> {
    /// Readable when packets wait.
    fn fds(&self) -> [BorrowedFd<'_>; 2];

    /// Counts packets with errors so far. Reading the counters may ask the kernel.
    fn error_counters(&mut self) -> ErrorCounters;

    /// Counts packets so far whose way was gone when their turn came. The kernel is not asked.
    fn gone(&self) -> u64;

    /// Counts packets of each direction so far. Packets neither unqueued nor lost were handed over to the box.
    fn passages(&mut self) -> [Passage; 2];

    /// Interfaces have come, gone or changed.
    fn links_changed(&mut self);

    /// Discards the packets that came while the box was late, if this back end joins the interfaces itself: they
    /// may have passed by the box. Returns whether it does.
    fn discard_late(&mut self) -> bool {
        false
    }

    /// Answers connections to port 80 that admission control refuses, or ceases to.
    ///
    /// # Errors
    /// If this back end cannot answer, with the remedy.
    fn answer_http(&mut self, on: bool) -> anyhow::Result<()> {
        if on {
            anyhow::bail!("http_503 = true needs the nfqueue back end: leave one or the other out");
        }
        Ok(())
    }

    /// Bounds the packets that the kernel's queues hold of each direction, if there are such queues.
    fn hold_at_most(&mut self, packets: [u32; 2]) {
        let _ = packets;
    }

    /// Descriptors by which another process goes on in this one's place, and numbers that go with them.
    fn hand_over(&self) -> (Vec<BorrowedFd<'_>>, Vec<u32>);

    /// Lets go of what is held and stops. Sockets stay open until it is dropped: the kernel takes its time for that.
    ///
    /// # Errors
    /// Those of the socket.
    fn close(&mut self) -> std::io::Result<()>;
}
