//! The program in the driver, and what it is told while it runs.
//!
//! A frame is handed over if it may carry IP, is for one other than the machine itself and not for a group, and the
//! one who reads shows life. All other frames go on to the kernel's stack, to a bridge if the interface is its port.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::bpf::{self, Instruction};
use super::memory::Memory;

/// Addresses of the machine itself.
const OWN: usize = 3;
/// What program and process share, in words: signs of life so far, none while the gate is shut; how many the program
/// had seen when it last saw a new one; when that was; addresses of the machine.
const SIGNS: i16 = 0;
const SEEN: i16 = 8;
const SEEN_AT: i16 = 16;
const ADDRESSES: [i16; OWN] = [24, 32, 40];
const BYTES: usize = 48;

/// Types of frames that may carry IP (IEEE 802): IPv4, IPv6, VLAN tags, PPPoE sessions.
const TYPES: [u16; 5] = [0x0800, 0x86dd, 0x8100, 0x88a8, 0x8864];

/// What opens and shuts the way of frames to a process.
#[derive(Debug)]
pub struct Gate {
    map: OwnedFd,
    memory: Memory,
    signs: u64,
    /// How long the process may be silent.
    limit: Duration,
}

impl Gate {
    /// A gate that is shut.
    ///
    /// # Errors
    /// Those of `bpf(2)`; `EPERM` without `CAP_BPF`.
    pub fn new(limit: Duration) -> io::Result<Self> {
        let map = bpf::one_value(BYTES as u32)?;
        let memory = Memory::of_socket(map.as_fd(), 0, BYTES)?;
        Ok(Self { map, memory, signs: 0, limit })
    }

    #[expect(unsafe_code, reason = "words shared with the program")]
    fn word(&self, at: i16) -> &AtomicU64 {
        let word: NonNull<AtomicU64> = self.memory.at(at.unsigned_abs().into());
        // SAFETY: in the mapping, aligned, and it lives as long as the gate.
        unsafe { word.as_ref() }
    }

    /// Shows life: frames come in until the limit has passed without another sign.
    pub fn show_life(&mut self) {
        self.signs += 1;
        self.word(SIGNS).store(self.signs, Ordering::Relaxed);
    }

    /// Lets all frames pass from now on, until there is a sign of life.
    pub fn shut(&self) {
        self.word(SIGNS).store(0, Ordering::Relaxed);
    }

    /// Frames for these addresses are the machine's own.
    pub fn leave_alone(&self, addresses: [[u8; 6]; OWN]) {
        for (at, mac) in ADDRESSES.into_iter().zip(addresses) {
            self.word(at).store(as_word(mac), Ordering::Relaxed);
        }
    }

    /// The program for an interface, with the sockets it hands frames to by queue.
    pub fn program(&self, sockets: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let limit = i32::try_from(self.limit.as_nanos()).unwrap_or(i32::MAX);
        bpf::load(&assemble(self.map.as_raw_fd(), sockets.as_raw_fd(), limit))
    }
}

/// An address as the program reads it: four bytes, and two above them.
fn as_word([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from(u32::from_ne_bytes([a, b, c, d])) | u64::from(u16::from_ne_bytes([e, f])) << 32
}

/// Sizes of loads and stores, and the codes of what is used here.
const W: u8 = 0x61;
const H: u8 = 0x69;
const DW: u8 = 0x79;
const STORE: u8 = 0x7b;
const LOAD_MAP: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const SUBTRACT: u8 = 0x1f;
const OR: u8 = 0x4f;
const SHIFT_LEFT: u8 = 0x67;
const IF_ABOVE: u8 = 0x2d;
const IF_SIGNED_ABOVE_NUMBER: u8 = 0x65;
const IF_EQUAL: u8 = 0x1d;
const IF_EQUAL_NUMBER: u8 = 0x15;
const IF_BITS: u8 = 0x45;
const GOTO: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Helpers, and the verdict that leaves a frame to the stack.
const KTIME: i32 = 5;
const REDIRECT_MAP: i32 = 51;
const PASS: i32 = 2;
/// In place of an offset until all is written.
const TO_PASS: i16 = i16::MIN;

fn assemble(gate: i32, sockets: i32, limit: i32) -> Vec<Instruction> {
    let mut all = Vec::new();
    let mut add = |code, destination: u8, source: u8, offset, immediate| {
        let (low, high) =
            if cfg!(target_endian = "little") { (destination, source) } else { (source, destination) };
        all.push(Instruction { code, registers: low | high << 4, offset, immediate });
    };
    // r6: context; r2: the frame; the whole Ethernet header must be there.
    add(MOVE, 6, 1, 0, 0);
    add(W, 2, 6, 0, 0);
    add(W, 3, 6, 4, 0);
    add(MOVE, 4, 2, 0, 0);
    add(ADD_NUMBER, 4, 0, 0, 14);
    add(IF_ABOVE, 4, 3, TO_PASS, 0);
    // What may carry IP. Each comparison skips those behind it and the way out.
    add(H, 5, 2, 12, 0);
    for (left, kind) in (1..=5).rev().zip(TYPES) {
        add(IF_EQUAL_NUMBER, 5, 0, left, i32::from(kind.to_be()));
    }
    add(GOTO, 0, 0, TO_PASS, 0);
    // r4: to whom; a group's address has the lowest bit of its first byte set.
    add(0x71, 5, 2, 0, 0);
    add(IF_BITS, 5, 0, TO_PASS, 1);
    add(W, 4, 2, 0, 0);
    add(H, 5, 2, 4, 0);
    add(SHIFT_LEFT, 5, 0, 0, 32);
    add(OR, 4, 5, 0, 0);
    // r7: what we share. The source register says that the immediate is a map's descriptor, and its value is meant.
    add(LOAD_MAP, 7, 2, 0, gate);
    add(0, 0, 0, 0, 0);
    for at in ADDRESSES {
        add(DW, 5, 7, at, 0);
        add(IF_EQUAL, 5, 4, TO_PASS, 0);
    }
    // r0: now. A new sign of life is noted with its time; without one it must not be too long ago.
    add(CALL, 0, 0, 0, KTIME);
    add(DW, 1, 7, SIGNS, 0);
    add(IF_EQUAL_NUMBER, 1, 0, TO_PASS, 0);
    add(DW, 2, 7, SEEN, 0);
    add(IF_EQUAL, 1, 2, 3, 0);
    add(STORE, 7, 0, SEEN_AT, 0);
    add(STORE, 7, 1, SEEN, 0);
    add(GOTO, 0, 0, 3, 0);
    add(DW, 2, 7, SEEN_AT, 0);
    add(SUBTRACT, 0, 2, 0, 0);
    add(IF_SIGNED_ABOVE_NUMBER, 0, 0, TO_PASS, limit);
    // To the socket of the queue it came in by; where there is none, the helper says what it was told: pass.
    add(LOAD_MAP, 1, 1, 0, sockets);
    add(0, 0, 0, 0, 0);
    add(W, 2, 6, 16, 0);
    add(MOVE_NUMBER, 3, 0, 0, PASS);
    add(CALL, 0, 0, 0, REDIRECT_MAP);
    add(EXIT, 0, 0, 0, 0);
    all.push(Instruction { code: MOVE_NUMBER, registers: 0, offset: 0, immediate: PASS });
    all.push(Instruction { code: EXIT, registers: 0, offset: 0, immediate: 0 });
    // From behind: the last two are the way out.
    for (left, instruction) in (-1..).zip(all.iter_mut().rev()) {
        if instruction.offset == TO_PASS {
            instruction.offset = left - 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_stays_inside() {
        let all = assemble(3, 4, 5);
        for (at, i) in (0..).zip(&all) {
            let jumps = matches!(i.code & 7, 5) && !matches!(i.code, CALL | EXIT);
            let left = all.len() - at - 1;
            assert!(!jumps || usize::try_from(i.offset).unwrap() < left, "{at}: {i:?}");
        }
        assert_eq!(all.last().unwrap().code, EXIT);
    }

    #[test]
    fn an_address_is_what_the_program_loads() {
        let mac = [2, 3, 4, 5, 6, 7];
        let low = u32::from_ne_bytes([2, 3, 4, 5]);
        assert_eq!(as_word(mac) as u32, low);
        assert_eq!((as_word(mac) >> 32) as u16, u16::from_ne_bytes([6, 7]));
    }
}
