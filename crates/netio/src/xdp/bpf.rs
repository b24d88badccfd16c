//! Calls of bpf(2): maps, a program, and the link that attaches it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
/// Kinds of map, of program, and of attachment (linux/bpf.h).
const ARRAY: u32 = 2;
const XSKMAP: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const TO_XDP: u32 = 37;
/// The map's values can be mapped into a process (Linux 5.5).
const MMAPABLE: u32 = 1 << 10;
/// Mode in the driver, before there is a packet of the stack (linux/if_link.h).
const DRIVER_MODE: u32 = 1 << 2;

/// An instruction (RFC 9669, section 3).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub code: u8,
    /// Destination and source register, each in the half that the machine's byte order gives it.
    pub registers: u8,
    pub offset: i16,
    pub immediate: i32,
}

/// Code of the instruction that loads 64 bits, and the source registers that give them a meaning (RFC 9669, section
/// 5.4): a map by its descriptor, or the value in such a map.
pub const LOAD_64: u8 = 0x18;
pub const A_MAP: u8 = 1;
pub const A_VALUE: u8 = 2;

impl Instruction {
    /// The source register.
    pub const fn source(self) -> u8 {
        if cfg!(target_endian = "little") { self.registers >> 4 } else { self.registers & 0xf }
    }
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

#[expect(unsafe_code, reason = "no crate wraps bpf(2) without libbpf")]
fn call<A>(command: libc::c_long, attributes: &A) -> io::Result<i32> {
    // SAFETY: a prefix of union bpf_attr of the size told; what it points to outlives the call.
    let returned =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<A>()) };
    Ok(Errno::result(returned)? as i32)
}

#[expect(unsafe_code, reason = "the kernel has just made this descriptor")]
fn made<A>(command: libc::c_long, attributes: &A) -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor, close-on-exec as all of bpf(2), owned by nobody else.
    call(command, attributes).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// Makes a map that can be mapped into memory: an array with one value of `bytes` bytes.
pub fn one_value(bytes: u32) -> io::Result<OwnedFd> {
    made(MAP_CREATE, &MapCreate { kind: ARRAY, key_size: 4, value_size: bytes, entries: 1, flags: MMAPABLE })
}

/// Makes a map of sockets by queue.
pub fn sockets(queues: u32) -> io::Result<OwnedFd> {
    made(MAP_CREATE, &MapCreate { kind: XSKMAP, key_size: 4, value_size: 4, entries: queues, flags: 0 })
}

/// Binds a queue's number to a socket in the map, so that the socket gets the queue's frames.
pub fn set_socket(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = number(socket);
    let address = |of: &u32| std::ptr::from_ref(of).addr() as u64;
    let update =
        MapUpdate { map: number(map), key: address(&queue), value: address(&value), ..MapUpdate::default() };
    call(MAP_UPDATE_ELEM, &update).map(drop)
}

/// Loads a program of XDP, if the kernel's verifier takes it for harmless.
pub fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..7].copy_from_slice(b"narrows");
    made(
        PROG_LOAD,
        &ProgramLoad {
            kind: XDP_PROGRAM,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr().addr() as u64,
            licence: c"MIT".as_ptr().addr() as u64,
            name,
            attach: TO_XDP,
            ..ProgramLoad::default()
        },
    )
}

/// Attaches a program to an interface's driver for as long as the descriptor is open.
pub fn attach(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    made(LINK_CREATE, &LinkCreate { program: number(program), interface, attach: TO_XDP, flags: DRIVER_MODE })
}
