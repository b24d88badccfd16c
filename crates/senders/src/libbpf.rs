//! libbpf, found when it is needed.
//!
//! The library that relocates and loads BPF objects is opened at run time, not linked: `ip` and `tc` need it too, so it
//! is on nearly every machine, and one without it still builds and runs the rest of Narrows
//! (`docs/decisions/libbpf-at-run-time.md`). Only what is called here is declared; libbpf 1.0 and newer keep these
//! calls as they are. All pointers into the library stay in this file.

#![expect(unsafe_code, reason = "calls into a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context as _, bail};

/// A kind of thing that only libbpf sees into.
#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}
type Ptr = *mut Opaque;

/// Receives libbpf's messages, kept so that an error can carry them. A `va_list` cannot be taken apart in Rust, so the
/// C library formats it.
type Print = unsafe extern "C" fn(level: c_int, format: *const c_char, args: *mut c_void) -> c_int;

unsafe extern "C" {
    fn vsnprintf(to: *mut c_char, size: usize, format: *const c_char, args: *mut c_void) -> c_int;
}

macro_rules! library {
    ($($name:ident($($arg:ty),*) -> $out:ty;)*) => {
        #[expect(non_snake_case, reason = "libbpf's own names")]
        struct Lib { $($name: unsafe extern "C" fn($($arg),*) -> $out,)* }

        impl Lib {
            /// Looks every call up.
            fn find(handle: NonNull<c_void>) -> Result<Self, String> {
                Ok(Self { $($name: {
                    let symbol = concat!(stringify!($name), "\0");
                    // SAFETY: the handle is open and the name ends in a zero.
                    let at = unsafe { libc::dlsym(handle.as_ptr(), symbol.as_ptr().cast()) };
                    if at.is_null() {
                        return Err(format!("libbpf is too old: it has no {}", stringify!($name)));
                    }
                    // SAFETY: libbpf 1.x declares the symbol so.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> $out>(at) }
                },)* })
            }
        }
    };
}

library! {
    libbpf_set_print(Print) -> *const c_void;
    bpf_object__open_mem(*const c_void, usize, *const c_void) -> Ptr;
    bpf_object__load(Ptr) -> c_int;
    bpf_object__close(Ptr) -> ();
    bpf_object__next_map(Ptr, Ptr) -> Ptr;
    bpf_object__find_program_by_name(Ptr, *const c_char) -> Ptr;
    bpf_map__name(Ptr) -> *const c_char;
    bpf_map__fd(Ptr) -> c_int;
    bpf_map__initial_value(Ptr, *mut usize) -> *mut c_void;
    bpf_map__attach_struct_ops(Ptr) -> Ptr;
    bpf_program__attach_iter(Ptr, *const c_void) -> Ptr;
    bpf_link__fd(Ptr) -> c_int;
    bpf_link__disconnect(Ptr) -> ();
    bpf_link__destroy(Ptr) -> c_int;
    bpf_iter_create(c_int) -> c_int;
    bpf_obj_pin(c_int, *const c_char) -> c_int;
    bpf_obj_get(*const c_char) -> c_int;
    bpf_map_lookup_elem(c_int, *const c_void, *mut c_void) -> c_int;
    bpf_map_update_elem(c_int, *const c_void, *const c_void, u64) -> c_int;
    bpf_map_delete_elem(c_int, *const c_void) -> c_int;
    ring_buffer__new(
        c_int, unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int, *mut c_void, *const c_void
    ) -> Ptr;
    ring_buffer__epoll_fd(Ptr) -> c_int;
    ring_buffer__consume(Ptr) -> c_int;
    ring_buffer__free(Ptr) -> ();
}

/// The last lines libbpf has printed.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn hear(level: c_int, format: *const c_char, args: *mut c_void) -> c_int {
    const DEBUG: c_int = 2;
    if level >= DEBUG {
        return 0;
    }
    let mut line = vec![0_u8; 1 << 16];
    // SAFETY: libbpf gives a format and its arguments; the buffer's size is told.
    unsafe { vsnprintf(line.as_mut_ptr().cast(), line.len(), format, args) };
    let text = CStr::from_bytes_until_nul(&line).unwrap_or_default().to_string_lossy().trim_end().to_owned();
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() < 200 {
        said.push(text);
    }
    0
}

fn lib() -> anyhow::Result<&'static Lib> {
    static LIB: OnceLock<Result<Lib, String>> = OnceLock::new();
    LIB.get_or_init(|| {
        // SAFETY: a library's start-up code runs; libbpf has none that matters.
        let handle = unsafe { libc::dlopen(c"libbpf.so.1".as_ptr(), libc::RTLD_NOW) };
        let handle =
            NonNull::new(handle).ok_or("libbpf.so.1 is missing: apt-get install libbpf1 (Fedora: libbpf)")?;
        let lib = Lib::find(handle)?;
        // SAFETY: `hear` lives as long as the program.
        unsafe { (lib.libbpf_set_print)(hear) };
        Ok(lib)
    })
    .as_ref()
    .map_err(|e| anyhow::anyhow!("{e}"))
}

/// Whether libbpf can be used; else why not and the remedy.
///
/// # Errors
/// If it is missing or too old.
pub fn available() -> anyhow::Result<()> {
    lib().map(|_| ())
}

/// Takes what libbpf has said since the last call: of a verifier's long log the end, where the reason stands.
fn said() -> String {
    const MOST: usize = 20;
    let text = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner)).join("\n");
    let lines: Vec<_> = text.lines().filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(MOST)..].iter().map(|l| format!("\n    {l}")).collect()
}

/// A system call's answer: below zero is an error, which libbpf 1.x gives as `-errno` or in `errno`.
fn checked(answer: c_int) -> io::Result<c_int> {
    match answer {
        -1 => Err(io::Error::last_os_error()),
        n if n < 0 => Err(io::Error::from_raw_os_error(-n)),
        n => Ok(n),
    }
}

fn path_text(path: &Path) -> anyhow::Result<CString> {
    use std::os::unix::ffi::OsStrExt as _;
    CString::new(path.as_os_str().as_bytes()).with_context(|| path.display().to_string())
}

/// A BPF object: opened, then loaded.
pub struct Object {
    lib: &'static Lib,
    object: Ptr,
}

impl Object {
    /// Opens an ELF object from memory.
    ///
    /// # Errors
    /// If libbpf is missing or does not understand the object.
    pub fn open(bytes: &[u8]) -> anyhow::Result<Self> {
        let lib = lib()?;
        said();
        // SAFETY: libbpf copies what it keeps of the bytes; no options.
        let object = unsafe { (lib.bpf_object__open_mem)(bytes.as_ptr().cast(), bytes.len(), null()) };
        if object.is_null() {
            bail!("libbpf cannot open the object: {}{}", io::Error::last_os_error(), said());
        }
        Ok(Self { lib, object })
    }

    /// Writes `bytes` over the start of the read-only data, before loading.
    ///
    /// # Errors
    /// If the object has less of it, or none.
    pub fn set_rodata(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let map = self.map_ending(".rodata")?;
        let mut size = 0;
        // SAFETY: the map is of this object and not loaded yet.
        let at = unsafe { (self.lib.bpf_map__initial_value)(map, &raw mut size) }.cast::<u8>();
        if at.is_null() || size < bytes.len() {
            bail!("the object's read-only data has {size} bytes, not {}", bytes.len());
        }
        // SAFETY: `size` bytes are there, writable until the object is loaded.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        Ok(())
    }

    /// Relocates the object for this kernel and has the kernel verify it.
    ///
    /// # Errors
    /// The system's, with what libbpf and the verifier said.
    pub fn load(&mut self) -> Result<(), (io::Error, String)> {
        said();
        // SAFETY: the object is open.
        checked(unsafe { (self.lib.bpf_object__load)(self.object) }).map(|_| ()).map_err(|e| (e, said()))
    }

    /// A map's descriptor, another one for the same map. `.rodata` maps have a prefix, so the end of the name counts.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn map(&self, end: &str) -> anyhow::Result<OwnedFd> {
        let map = self.map_ending(end)?;
        // SAFETY: the map is of this object.
        duplicate(unsafe { (self.lib.bpf_map__fd)(map) })
    }

    /// Registers the congestion control in map `name`; it stays after this process until [`unregister`].
    ///
    /// # Errors
    /// The system's: `AlreadyExists` if the name is in use.
    pub fn register(&self, name: &str) -> anyhow::Result<Result<OwnedFd, io::Error>> {
        let map = self.map_ending(name)?;
        // SAFETY: the map is of this object, which is loaded.
        let link = unsafe { (self.lib.bpf_map__attach_struct_ops)(map) };
        if link.is_null() {
            let error = io::Error::last_os_error();
            said();
            return Ok(Err(error));
        }
        // SAFETY: the link is ours; disconnected, destroying it does not unregister.
        unsafe {
            (self.lib.bpf_link__disconnect)(link);
            (self.lib.bpf_link__destroy)(link);
        }
        self.map(name).map(Ok)
    }

    /// Iterator `name`, ready to be read by [`read_iterator`].
    ///
    /// # Errors
    /// The system's.
    pub fn iterator(&self, name: &str) -> anyhow::Result<OwnedFd> {
        let name = CString::new(name)?;
        // SAFETY: the object is loaded and the name ends in a zero.
        let program = unsafe { (self.lib.bpf_object__find_program_by_name)(self.object, name.as_ptr()) };
        if program.is_null() {
            bail!("the object has no program {}", name.to_string_lossy());
        }
        // SAFETY: the program is of this object; no options.
        let link = unsafe { (self.lib.bpf_program__attach_iter)(program, null()) };
        if link.is_null() {
            bail!("iterator: {}{}", io::Error::last_os_error(), said());
        }
        // SAFETY: the link is ours; the copy of its descriptor outlives it.
        unsafe {
            let copy = duplicate((self.lib.bpf_link__fd)(link));
            (self.lib.bpf_link__destroy)(link);
            copy
        }
    }

    fn map_ending(&self, end: &str) -> anyhow::Result<Ptr> {
        let mut map = null_mut();
        loop {
            // SAFETY: the object is open; the previous map is of it, or null to begin.
            map = unsafe { (self.lib.bpf_object__next_map)(self.object, map) };
            if map.is_null() {
                bail!("the object has no map {end}");
            }
            // SAFETY: a map's name ends in a zero and lives as long as the object.
            let name = unsafe { CStr::from_ptr((self.lib.bpf_map__name)(map)) };
            if name.to_bytes().ends_with(end.as_bytes()) {
                return Ok(map);
            }
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: nothing of it is used any more; what the kernel holds, stays.
        unsafe { (self.lib.bpf_object__close)(self.object) };
    }
}

/// The reading end of a ring buffer.
pub struct Ring {
    lib: &'static Lib,
    ring: Ptr,
    // Boxed: libbpf keeps its address.
    events: Box<Events>,
}

#[derive(Default)]
struct Events(Vec<Vec<u8>>);

// SAFETY: a ring belongs to one owner at a time; libbpf keeps no thread's state in it.
unsafe impl Send for Ring {}

unsafe extern "C" fn collect(events: *mut c_void, data: *mut c_void, size: usize) -> c_int {
    // SAFETY: `Ring::new` gave the address of its events, which live as long; the data do until this returns.
    unsafe {
        let events = &mut *events.cast::<Events>();
        events.0.push(std::slice::from_raw_parts(data.cast::<u8>(), size).to_vec());
    }
    0
}

impl Ring {
    /// Reads from a ring buffer map. There must be no other reader.
    ///
    /// # Errors
    /// The system's.
    pub fn new(map: &OwnedFd) -> anyhow::Result<Self> {
        let lib = lib()?;
        let mut events = Box::<Events>::default();
        let to = (&raw mut *events).cast();
        // SAFETY: libbpf maps the ring's memory itself; `to` is valid until the ring is freed.
        let ring = unsafe { (lib.ring_buffer__new)(map.as_raw_fd(), collect, to, null()) };
        if ring.is_null() {
            bail!("ring buffer: {}{}", io::Error::last_os_error(), said());
        }
        Ok(Self { lib, ring, events })
    }

    /// Takes every event that is there.
    ///
    /// # Errors
    /// The system's.
    pub fn consume(&mut self) -> anyhow::Result<Vec<Vec<u8>>> {
        // SAFETY: the ring is ours, and `collect` writes to our events.
        checked(unsafe { (self.lib.ring_buffer__consume)(self.ring) }).context("ring buffer")?;
        Ok(std::mem::take(&mut self.events.0))
    }
}

impl std::os::fd::AsFd for Ring {
    /// Readable when an event is there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the ring, which is as long as the loan.
        unsafe { BorrowedFd::borrow_raw((self.lib.ring_buffer__epoll_fd)(self.ring)) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { (self.lib.ring_buffer__free)(self.ring) };
    }
}

fn duplicate(fd: c_int) -> anyhow::Result<OwnedFd> {
    // SAFETY: the descriptor is checked by the call, and its copy is ours alone.
    unsafe {
        let copy = checked(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3)).context("descriptor of a map")?;
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// Runs an iterator once over the network namespace of this thread, and gives everything it says.
///
/// # Errors
/// The system's.
pub fn read_iterator(iterator: &OwnedFd) -> anyhow::Result<Vec<u8>> {
    // SAFETY: the new descriptor is ours alone.
    let made = unsafe {
        let made = checked((lib()?.bpf_iter_create)(iterator.as_raw_fd())).context("iterator")?;
        OwnedFd::from_raw_fd(made)
    };
    let mut file = std::fs::File::from(made);
    let (mut out, mut part) = (Vec::new(), vec![0; 65536]);
    loop {
        match io::Read::read(&mut file, &mut part).context("iterator")? {
            0 => return Ok(out),
            n => out.extend_from_slice(&part[..n]),
        }
    }
}

/// Takes a registered congestion control back. Connections that use it go on.
///
/// # Errors
/// The system's.
pub fn unregister(ops: &OwnedFd) -> anyhow::Result<()> {
    let key = 0_u32;
    // SAFETY: the key is four bytes, as the map's.
    checked(unsafe { (lib()?.bpf_map_delete_elem)(ops.as_raw_fd(), (&raw const key).cast()) })?;
    Ok(())
}

/// Gives a map or iterator a name in the BPF file system.
///
/// # Errors
/// The system's.
pub fn pin(what: &OwnedFd, path: &Path) -> anyhow::Result<()> {
    let text = path_text(path)?;
    // SAFETY: the path ends in a zero.
    checked(unsafe { (lib()?.bpf_obj_pin)(what.as_raw_fd(), text.as_ptr()) })
        .with_context(|| path.display().to_string())?;
    Ok(())
}

/// Opens what is pinned at `path`.
///
/// # Errors
/// The system's.
pub fn pinned(path: &Path) -> anyhow::Result<OwnedFd> {
    let text = path_text(path)?;
    // SAFETY: the path ends in a zero; the descriptor is ours alone.
    unsafe {
        let fd = checked((lib()?.bpf_obj_get)(text.as_ptr())).with_context(|| path.display().to_string())?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The value of a map with one element of `size` bytes.
///
/// # Errors
/// The system's.
pub fn only_value(map: &OwnedFd, size: usize) -> anyhow::Result<Vec<u8>> {
    let key = 0_u32;
    // The kernel writes the map's own value size, which a pinned map of another version might have bigger.
    let mut value = vec![0_u8; size.max(4096)];
    // SAFETY: key and value are at least as long as the map's.
    checked(unsafe {
        (lib()?.bpf_map_lookup_elem)(map.as_raw_fd(), (&raw const key).cast(), value.as_mut_ptr().cast())
    })?;
    value.truncate(size);
    Ok(value)
}

/// Sets the value of a map with one element.
///
/// # Errors
/// The system's.
pub fn set_only_value(map: &OwnedFd, value: u64) -> anyhow::Result<()> {
    let key = 0_u32;
    // SAFETY: the key is four bytes and the value eight, as the map's.
    checked(unsafe {
        (lib()?.bpf_map_update_elem)(map.as_raw_fd(), (&raw const key).cast(), (&raw const value).cast(), 0)
    })?;
    Ok(())
}
