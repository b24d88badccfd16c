//! The program that is the guest's kernel: the installed one, or a copy for processors with wide registers.
//!
//! The guest's kernel keeps the registers of its programs with `ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, ..)` in
//! a buffer of 2 696 bytes (`arch/x86/um/os-Linux/registers.c` of Linux 6.1). With AMX the set has some 11 kB: what
//! was cut off cannot be set back, and the guest dies at its first program. The copy asks for a set that does not
//! exist. The guest's kernel then takes the older calls, which keep the registers of SSE and nothing wider, so its
//! programs are told to use no more.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::guest::PROGRAM;
use super::namespace::find_program;

/// Which registers of its programs the guest's kernel keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// All that the installed program knows of.
    All,
    /// Those of SSE: by a copy of the program that knows of no others.
    Sse,
}

impl Registers {
    /// What the guest needs on a machine whose `/proc/cpuinfo` says `cpuinfo`.
    #[must_use]
    pub fn needed(cpuinfo: &str) -> Self {
        let amx = cpuinfo.split_whitespace().any(|flag| flag == "amx_tile");
        if amx { Self::Sse } else { Self::All }
    }

    /// What the guest needs here.
    #[must_use]
    pub fn needed_here() -> Self {
        // Without the file nothing is known of the processor; a guest that dies is told of.
        Self::needed(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }
}

/// `mov $0x202,%edx`: NT_X86_XSTATE as the third argument of a call.
const XSTATE: [u8; 5] = [0xba, 0x02, 0x02, 0, 0];
/// `mov $0x2ff,%edx`: a set that no kernel has.
const NO_SET: [u8; 5] = [0xba, 0xff, 0x02, 0, 0];
/// `mov $0x4204,%edi` and `mov $0x4205,%edi`: PTRACE_GETREGSET and PTRACE_SETREGSET as the first argument.
const REQUESTS: [[u8; 5]; 2] = [[0xbf, 0x04, 0x42, 0, 0], [0xbf, 0x05, 0x42, 0, 0]];
/// How far apart the two stand at most, in bytes.
const NEAR: usize = 40;
/// One call asks whether the set exists, one reads it, one writes it.
const CALLS: usize = 3;

/// Where `kernel` asks `ptrace` for the XSTATE set.
fn calls(kernel: &[u8]) -> Vec<usize> {
    let request_near = |at: usize| {
        let around = &kernel[at.saturating_sub(NEAR)..kernel.len().min(at + XSTATE.len() + NEAR)];
        around.windows(5).any(|bytes| REQUESTS.iter().any(|request| bytes == request))
    };
    let starts = kernel.windows(XSTATE.len()).enumerate().filter(|(_, bytes)| *bytes == XSTATE);
    starts.map(|(at, _)| at).filter(|at| request_near(*at)).collect()
}

/// A copy of `kernel` whose guests keep the registers of SSE only; `None` if its calls are not those expected.
fn without_xstate(kernel: &[u8]) -> Option<Vec<u8>> {
    let calls = calls(kernel);
    (calls.len() == CALLS).then(|| {
        let mut copy = kernel.to_vec();
        for at in calls {
            copy[at..at + NO_SET.len()].copy_from_slice(&NO_SET);
        }
        copy
    })
}

/// For the guest's environment: its C library is to use no registers beyond those of SSE.
const ONLY_SSE: &str = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX,-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,\
    -AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-BMI2,-RTM";

/// A program to start, what to add to its arguments, and a file to remove afterwards.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<&'static str>,
    copy: bool,
}

impl Program {
    /// For guests with these registers; a copy is written into `workdir` as `name`.
    pub(super) fn prepare(registers: Registers, workdir: &Path, name: &str) -> anyhow::Result<Self> {
        let installed = find_program(PROGRAM).with_context(|| format!("no {PROGRAM}"))?;
        if registers == Registers::All {
            return Ok(Self { file: installed, arguments: Vec::new(), copy: false });
        }
        let kernel = std::fs::read(&installed).with_context(|| format!("reading {}", installed.display()))?;
        let kernel = without_xstate(&kernel).with_context(|| {
            format!(
                "{} cannot run on a processor with AMX, and is not the one we can mend",
                installed.display()
            )
        })?;
        let file = workdir.join(name);
        super::uml::write_program(&file, &kernel)?;
        Ok(Self { file, arguments: vec![ONLY_SSE], copy: true })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.copy {
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call as the compiler writes it, with so many bytes between set and request.
    fn call(request: [u8; 5], between: usize) -> Vec<u8> {
        let mut bytes = XSTATE.to_vec();
        bytes.resize(5 + between, 0x90);
        bytes.extend(request);
        bytes
    }

    /// Calls far from each other.
    fn kernel(calls: &[Vec<u8>]) -> Vec<u8> {
        let gap = vec![0xcc; 100];
        calls.iter().flat_map(|call| gap.iter().chain(call)).chain(&gap).copied().collect()
    }

    #[test]
    fn the_three_calls_ask_for_a_set_that_does_not_exist() {
        let [get, set] = REQUESTS;
        // The same constant far from any request is something else, and stays.
        let other = call([0xbf, 0x06, 0x42, 0, 0], 10);
        let before = kernel(&[call(get, 15), other.clone(), call(set, 15), call(get, 3)]);
        let after = without_xstate(&before).unwrap();
        assert_eq!(before.len(), after.len());
        let changed: Vec<_> = (0..before.len()).filter(|i| before[*i] != after[*i]).collect();
        // 100 bytes of gap before each; the calls are 25, 20, 25 and 13 bytes long.
        assert_eq!(changed, [101, 346, 471]);
        assert!(changed.iter().all(|i| before[*i] == 0x02 && after[*i] == 0xff));
        assert_eq!(without_xstate(&after), None, "nothing is left to change");
    }

    #[test]
    fn a_program_with_other_calls_is_left_alone() {
        let [get, set] = REQUESTS;
        for calls in [
            vec![],
            vec![call(get, 15), call(set, 15)],
            vec![call(get, 15), call(set, 15), call(get, 3), call(set, 3)],
            vec![call(get, 15), call(set, 15), call(get, NEAR - 4)],
        ] {
            assert_eq!(without_xstate(&kernel(&calls)), None, "{} calls", calls.len());
        }
        assert_eq!(without_xstate(&XSTATE), None);
        assert_eq!(without_xstate(&XSTATE[..4]), None);
    }

    #[test]
    fn a_processor_with_amx_needs_the_copy() {
        assert_eq!(
            Registers::needed("flags\t\t: fpu sse2 amx_bf16 avx512f amx_tile amx_int8\n"),
            Registers::Sse
        );
        assert_eq!(Registers::needed("flags\t\t: fpu sse2 avx512f amx_bf16\n"), Registers::All);
        assert_eq!(Registers::needed(""), Registers::All);
    }

    #[test]
    fn the_installed_program_has_the_three_calls() {
        let Some(installed) = find_program(PROGRAM) else {
            return narrows_testing::skip(
                "the_installed_program_has_the_three_calls",
                format!("no {PROGRAM}"),
            );
        };
        assert!(without_xstate(&std::fs::read(installed).unwrap()).is_some());
    }
}
