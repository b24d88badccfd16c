//! Virtual machines with a clock of their own.
//!
//! A [`Machine`] runs one shell script under a stock kernel in qemu, by plain emulation. The machine's clock counts
//! executed instructions, one a nanosecond, and jumps over idleness (qemu's `-icount shift=0,sleep=off`). A host that
//! is busy makes such a machine slower for the person who waits, and changes nothing that happens inside: the same
//! [`Guest`], kernel and seed give the same bytes on any host.
//!
//! What had to be fixed for that:
//!
//! - All files are in the machine's memory before it starts ([`Initramfs`]). A wait for the host's disk would be
//!   idleness to the machine, and its clock would jump over it by as much as the next timer allows.
//! - No device answers from another thread of qemu while the guest works. Results leave by a piece of memory that both
//!   sides map (an NVDIMM), which the guest first touches when the script has ended. A virtio disk is no substitute:
//!   the firmware reads from it at the start, and the order of its interrupts differs from run to run.
//! - Random numbers come from the seed: the processor has neither RDRAND nor RDSEED, qemu's own draws are seeded
//!   (`-seed`), the clock starts at a fixed date, and there is one processor.
//!
//! [`Machine::boot`] starts the systemd of a [`Root`], which outlives the machine: for what happens over several
//! starts, packages and units.
//!
//! One instruction is one nanosecond, so caches cost nothing and the core has 1 GIPS: good for queues, TCP and costs in
//! instructions, and no measure of packets a second on real hardware.

mod initramfs;
mod kernel;
mod machine;
mod root;
mod toolbox;

pub use initramfs::Initramfs;
pub use kernel::{Kernel, Release};
pub use machine::{Ended, Guest, Halt, Machine, Stream, obstacle};
pub use root::Root;
