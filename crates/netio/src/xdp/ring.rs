//! A ring shared with the kernel: one side writes descriptors and moves `producer`, the other reads them and moves
//! `consumer`. Both run on without bound and are masked where they point.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::Memory;

/// A ring of descriptors of kind `T`, plain data whose layout is the kernel's.
#[derive(Debug)]
pub struct Ring<T> {
    /// Keeps what the pointers point to.
    _memory: Memory,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    descriptors: NonNull<T>,
    entries: u32,
    /// Position of our side, told to the kernel by [`Ring::publish`].
    own: u32,
    /// Position of the kernel's side when last seen.
    theirs: u32,
}

// SAFETY: the pointers are to memory that this ring alone owns; what the kernel shares of it is read atomically.
#[expect(unsafe_code, reason = "pointers are not Send by themselves")]
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// The ring of a socket that lies at `page` and is laid out so.
    pub fn map(
        socket: BorrowedFd<'_>,
        page: i64,
        layout: &libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Self> {
        let bytes = layout.desc as usize + entries as usize * size_of::<T>();
        let memory = Memory::of_socket(socket, page, bytes)?;
        Ok(Self {
            producer: memory.at(layout.producer as usize),
            consumer: memory.at(layout.consumer as usize),
            flags: memory.at(layout.flags as usize),
            descriptors: memory.at(layout.desc as usize),
            _memory: memory,
            entries,
            own: 0,
            theirs: 0,
        })
    }

    #[expect(unsafe_code, reason = "the counters are shared with the kernel")]
    const fn counters(&self) -> (&AtomicU32, &AtomicU32, &AtomicU32) {
        // SAFETY: all three lie in the mapping, aligned as the kernel laid them out, and live as long as it.
        unsafe { (self.producer.as_ref(), self.consumer.as_ref(), self.flags.as_ref()) }
    }

    #[expect(unsafe_code, reason = "descriptors are shared with the kernel")]
    const fn slot(&self, index: u32) -> NonNull<T> {
        // SAFETY: `entries` is a power of two and as many descriptors lie in the mapping.
        unsafe { self.descriptors.add((index & (self.entries - 1)) as usize) }
    }

    /// Writes a descriptor for the kernel; `false` if there is no room.
    #[expect(unsafe_code, reason = "descriptors are shared with the kernel")]
    pub fn put(&mut self, value: T) -> bool {
        if self.own.wrapping_sub(self.theirs) == self.entries {
            self.theirs = self.counters().1.load(Ordering::Acquire);
            if self.own.wrapping_sub(self.theirs) >= self.entries {
                return false;
            }
        }
        // SAFETY: in the mapping, and the kernel does not read it before it is published.
        unsafe { self.slot(self.own).write(value) };
        self.own = self.own.wrapping_add(1);
        true
    }

    /// Shows the kernel what was put.
    pub fn publish(&self) {
        self.counters().0.store(self.own, Ordering::Release);
    }

    /// Whether the kernel has not read all that was put.
    pub fn is_pending(&self) -> bool {
        self.counters().1.load(Ordering::Acquire) != self.own
    }

    /// The next descriptor from the kernel.
    #[expect(unsafe_code, reason = "descriptors are shared with the kernel")]
    pub fn take(&mut self) -> Option<T> {
        if self.own == self.theirs {
            self.theirs = self.counters().0.load(Ordering::Acquire);
            if self.own == self.theirs {
                return None;
            }
        }
        // SAFETY: in the mapping; the kernel has written it and leaves it alone until it is released.
        let value = unsafe { self.slot(self.own).read() };
        self.own = self.own.wrapping_add(1);
        Some(value)
    }

    /// Gives the kernel back what was taken.
    pub fn release(&self) {
        self.counters().1.store(self.own, Ordering::Release);
    }

    /// Whether the kernel waits to be told (`XDP_RING_NEED_WAKEUP`).
    pub fn wants_wakeup(&self) -> bool {
        self.counters().2.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}
