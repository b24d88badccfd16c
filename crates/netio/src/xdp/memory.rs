//! Memory shared with the kernel.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Mapping of memory; a drop of the value unmaps the memory.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to no thread.
#[expect(unsafe_code, reason = "pointers are not Send by themselves")]
unsafe impl Send for Memory {}

const ACCESS: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

impl Memory {
    /// Maps zeroed memory that only this process has.
    #[expect(unsafe_code, reason = "mmap")]
    pub fn own(bytes: usize) -> io::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping where the kernel likes; nothing else points there.
        let start = unsafe { mmap_anonymous(None, length, ACCESS, MapFlags::MAP_PRIVATE)? };
        Ok(Self { start: start.cast(), bytes })
    }

    /// Maps the memory of a descriptor, from the offset `at` on.
    #[expect(unsafe_code, reason = "mmap")]
    pub fn of_socket(fd: BorrowedFd<'_>, at: i64, bytes: usize) -> io::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        #[allow(
            clippy::useless_conversion,
            reason = "off_t has 32 bits on some machines, where rings lie beyond it"
        )]
        let at = libc::off_t::try_from(at).map_err(|_| io::ErrorKind::Unsupported)?;
        // SAFETY: a new mapping where the kernel likes; nothing else points there.
        let start = unsafe { mmap(None, length, ACCESS, MapFlags::MAP_SHARED, fd.as_fd(), at)? };
        Ok(Self { start: start.cast(), bytes })
    }

    /// A pointer to something in it.
    ///
    /// # Panics
    /// If it would end outside: the kernel has told a layout that it has not mapped.
    #[expect(unsafe_code, reason = "pointers into a mapping")]
    pub fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset + size_of::<T>() <= self.bytes, "a layout beyond its mapping");
        // SAFETY: inside the mapping.
        unsafe { self.start.add(offset) }.cast()
    }

    /// Bytes of the memory; `None` if any byte would lie outside.
    #[expect(unsafe_code, reason = "pointers into a mapping")]
    pub fn bytes(&self, from: usize, count: usize) -> Option<&[u8]> {
        let inside = from.checked_add(count).is_some_and(|end| end <= self.bytes);
        // SAFETY: inside the mapping, which is initialised; who calls reads what the kernel has handed over.
        inside.then(|| unsafe { std::slice::from_raw_parts(self.start.add(from).as_ptr(), count) })
    }

    /// Bytes of the memory, mutable; `None` if any byte would lie outside.
    #[expect(unsafe_code, reason = "pointers into a mapping")]
    pub fn bytes_mut(&mut self, from: usize, count: usize) -> Option<&mut [u8]> {
        let inside = from.checked_add(count).is_some_and(|end| end <= self.bytes);
        // SAFETY: inside the mapping, borrowed whole; who calls writes what the kernel has given back.
        inside.then(|| unsafe { std::slice::from_raw_parts_mut(self.start.add(from).as_ptr(), count) })
    }

    /// Address of the memory, as the kernel is told.
    pub fn address(&self) -> u64 {
        self.start.addr().get() as u64
    }
}

impl Drop for Memory {
    #[expect(unsafe_code, reason = "munmap")]
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which nothing points any more.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}
