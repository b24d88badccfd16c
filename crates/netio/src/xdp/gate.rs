//! The program in the driver (`bpf/xdp_gate.bpf.c`), and what it is told while it runs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::bpf::{self, A_MAP, A_VALUE, LOAD_64};
use super::gate_program::INSTRUCTIONS;
use super::memory::Memory;

/// Addresses of the machine itself.
const OWN: usize = 3;

/// Memory that program and process share: `struct shared` of the program.
#[repr(C)]
#[derive(Debug)]
struct Shared {
    /// Signs of life so far; 0 while the gate is shut.
    signs: AtomicU64,
    /// Signs when the program last saw a new one, and when that was.
    seen: AtomicU64,
    seen_at_ns: AtomicU64,
    /// Time without a new sign after which frames pass by.
    limit_ns: AtomicU64,
    /// Addresses of the machine itself.
    own: [AtomicU64; OWN],
}

/// A gate that frames pass to a process.
#[derive(Debug)]
pub struct Gate {
    map: OwnedFd,
    memory: Memory,
    signs: u64,
}

impl Gate {
    /// A gate that is shut; once opened, it shuts when the process has been silent for `limit`.
    ///
    /// # Errors
    /// Those of `bpf(2)`; `EPERM` without `CAP_BPF`.
    pub fn new(limit: Duration) -> io::Result<Self> {
        let map = bpf::one_value(size_of::<Shared>() as u32)?;
        let memory = Memory::of_socket(map.as_fd(), 0, size_of::<Shared>())?;
        let gate = Self { map, memory, signs: 0 };
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX).min(i64::MAX as u64);
        gate.shared().limit_ns.store(limit, Ordering::Relaxed);
        Ok(gate)
    }

    #[expect(unsafe_code, reason = "memory shared with the program")]
    fn shared(&self) -> &Shared {
        // SAFETY: in the mapping, which is aligned to a page, made of integers, and lives as long as the gate.
        unsafe { self.memory.at::<Shared>(0).as_ref() }
    }

    /// Shows life: frames come in until the limit has passed without another sign.
    pub fn show_life(&mut self) {
        self.signs += 1;
        self.shared().signs.store(self.signs, Ordering::Relaxed);
    }

    /// Shuts the gate until the next sign of life: frames pass by.
    pub fn shut(&self) {
        self.shared().signs.store(0, Ordering::Relaxed);
    }

    /// Sets the machine's own addresses; the program passes frames for them to the kernel.
    pub fn leave_alone(&self, addresses: [[u8; 6]; OWN]) {
        for (word, mac) in self.shared().own.iter().zip(addresses) {
            word.store(as_word(mac), Ordering::Relaxed);
        }
    }

    /// Loads the program for an interface. The program hands frames to these `sockets` by queue.
    pub fn program(&self, sockets: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let mut all = INSTRUCTIONS;
        for instruction in all.iter_mut().filter(|i| i.code == LOAD_64) {
            match instruction.source() {
                A_VALUE => instruction.immediate = self.map.as_raw_fd(),
                A_MAP => instruction.immediate = sockets.as_raw_fd(),
                _ => {}
            }
        }
        bpf::load(&all)
    }
}

/// An Ethernet address as the program reads it: four bytes, and two above them.
fn as_word([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from(u32::from_ne_bytes([a, b, c, d])) | u64::from(u16::from_ne_bytes([e, f])) << 32
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use elf::ElfBytes;
    use elf::endian::AnyEndian;
    use narrows_testing::{Scratch, running, skip_part};

    use super::super::gate_program::CLANG;
    use super::*;

    fn source() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/xdp_gate.bpf.c")
    }

    /// The clang that the senders are compiled with too, and its version up to the first point.
    fn clang() -> Option<(String, String)> {
        let name = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        let told = Command::new(&name).arg("-dumpversion").output().ok()?;
        let version = String::from_utf8(told.stdout).ok()?;
        Some((name, version.trim().split('.').next()?.to_owned()))
    }

    /// The program's instructions for machines of one byte order, as rows of the table.
    fn rows(clang: &str, target: &str, scratch: &Scratch) -> String {
        let object = scratch.join(target);
        let told = Command::new(clang)
            .args(["-O2", "-Wall", "-Werror", "-mcpu=v3", "-target", target, "-c"])
            .arg(source())
            .arg("-o")
            .arg(&object)
            .output()
            .unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        let object = std::fs::read(object).unwrap();
        let file = ElfBytes::<AnyEndian>::minimal_parse(&object).unwrap();
        let section = |name| file.section_header_by_name(name).unwrap().expect(name);
        let (symbols, names) = file.symbol_table().unwrap().unwrap();
        // Where a symbol's address is loaded, and as what.
        let meanings: Vec<(u64, u8)> = file
            .section_data_as_rels(&section(".relxdp"))
            .unwrap()
            .map(|at| {
                let symbol = symbols.get(at.r_sym as usize).unwrap();
                let name = names.get(symbol.st_name as usize).unwrap();
                (at.r_offset / 8, if name == "shared" { A_VALUE } else { A_MAP })
            })
            .collect();
        let little = target == "bpfel";
        let (code, _) = file.section_data(&section("xdp")).unwrap();
        let mut text = String::new();
        for (at, word) in (0..).zip(code.chunks(8)) {
            let (two, four) = ([word[2], word[3]], [word[4], word[5], word[6], word[7]]);
            let offset = if little { i16::from_le_bytes(two) } else { i16::from_be_bytes(two) };
            let immediate = if little { i32::from_le_bytes(four) } else { i32::from_be_bytes(four) };
            let meaning = meanings.iter().find(|(place, _)| *place == at).map_or(0, |(_, meaning)| *meaning);
            assert!(meaning == 0 || immediate == 0, "the loader knows no places inside a value");
            let registers = word[1] | if little { meaning << 4 } else { meaning };
            writeln!(text, "    i({:#04x}, {registers:#04x}, {offset}, {immediate}),", word[0]).unwrap();
        }
        text
    }

    /// FNV-1a, so that a change of the source is seen without a compiler.
    fn digest(text: &[u8]) -> u64 {
        text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    const HOW: &str = "NARROWS_WRITE=1 cargo test -p narrows-netio gate writes it";

    #[test]
    fn the_instructions_are_those_of_the_source() {
        let committed = include_str!("gate_program.rs");
        let digest =
            format!("// Digest of the source: {:016x}.\n", digest(&std::fs::read(source()).unwrap()));
        let writes = std::env::var_os("NARROWS_WRITE").is_some();
        assert!(writes || committed.contains(&digest), "bpf/xdp_gate.bpf.c has changed: {HOW}");
        let found = clang();
        let Some((clang, version)) = found.filter(|(_, version)| writes || version == CLANG) else {
            return skip_part(&running(), "the comparison with the source", format!("no clang {CLANG}"));
        };
        let scratch = Scratch::new("gate");
        let mut text = format!(
            "//! Instructions of `bpf/xdp_gate.bpf.c`. {HOW}.\n{digest}\n\
             use super::bpf::Instruction;\n\n\
             /// Version of the compiler: others may write the same program in other instructions.\n\
             #[cfg(test)]\npub const CLANG: &str = \"{version}\";\n\n\
             const fn i(code: u8, registers: u8, offset: i16, immediate: i32) -> Instruction {{\n    \
             Instruction {{ code, registers, offset, immediate }}\n}}\n"
        );
        for (endian, target) in [("little", "bpfel"), ("big", "bpfeb")] {
            let rows = rows(&clang, target, &scratch);
            let count = rows.lines().count();
            write!(
                text,
                "\n#[cfg(target_endian = \"{endian}\")]\n#[rustfmt::skip]\n\
                 pub const INSTRUCTIONS: [Instruction; {count}] = [\n{rows}];\n"
            )
            .unwrap();
        }
        if writes {
            let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/xdp/gate_program.rs");
            std::fs::write(place, &text).unwrap();
        } else {
            assert_eq!(committed, text, "{HOW}");
        }
    }

    #[test]
    fn an_address_is_what_the_program_loads() {
        let mac = [2, 3, 4, 5, 6, 7];
        let low = u32::from_ne_bytes([2, 3, 4, 5]);
        assert_eq!(as_word(mac) as u32, low);
        assert_eq!((as_word(mac) >> 32) as u16, u16::from_ne_bytes([6, 7]));
    }
}
