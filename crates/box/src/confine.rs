//! System calls that a box may make (seccomp(2)): those that it and the programs it starts need, and none that
//! would help a stranger who had taken it over. Every other call is answered as by a kernel that does not have it
//! (ENOSYS): a C library that tries something new falls back to what it did before.

use anyhow::Context;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Memory, threads, time, and what any program does.
const ALWAYS: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mlock,
    libc::SYS_mlockall,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munlockall,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
];

/// Threads and programs: its watchdog, and where they keep the rules or the bridge, iptables and ip.
const PROGRAMS: &[libc::c_long] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_kill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_prlimit64,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Calls that tell the process's identity, and give up privileges.
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_prctl,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_seccomp,
    libc::SYS_setpriority,
];

/// Sockets, pipes and files.
const DESCRIPTORS: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_chdir,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fchmodat,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    libc::SYS_listen,
    libc::SYS_lseek,
    libc::SYS_memfd_create,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_signalfd4,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Older forms of the same, which newer processors never had.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_fork,
    libc::SYS_getpgrp,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Calls that a thread that serves clients does not need: programs, files by name, other sockets, signals.
const NOT_TALKING: &[libc::c_long] = &[
    libc::SYS_bind,
    libc::SYS_capset,
    libc::SYS_chdir,
    libc::SYS_connect,
    libc::SYS_execve,
    libc::SYS_ioctl,
    libc::SYS_kill,
    libc::SYS_listen,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_socket,
    libc::SYS_unlinkat,
];
#[cfg(target_arch = "x86_64")]
const NOT_TALKING_OLDER: &[libc::c_long] = &[libc::SYS_fork, libc::SYS_unlink, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const NOT_TALKING_OLDER: &[libc::c_long] = &[];

/// Confines this thread, and all threads and programs it starts from now on, to what a box needs.
///
/// # Errors
/// If the kernel has no such filters.
pub fn to_a_box() -> anyhow::Result<()> {
    let all = [ALWAYS, PROGRAMS, DESCRIPTORS, OLDER].concat();
    apply(&all, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))
}

/// Confines this thread beyond that: it answers people, or writes for them.
///
/// # Errors
/// If the kernel has no such filters.
pub fn to_talking() -> anyhow::Result<()> {
    let refused = [NOT_TALKING, NOT_TALKING_OLDER].concat();
    apply(&refused, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// Answers the `calls` with the action `these`, all others with `others`.
fn apply(calls: &[libc::c_long], these: SeccompAction, others: SeccompAction) -> anyhow::Result<()> {
    let architecture =
        std::env::consts::ARCH.try_into().context("no filter of system calls for this processor")?;
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let filter =
        SeccompFilter::new(rules, others, these, architecture).context("a filter of system calls")?;
    let program: BpfProgram = filter.try_into().context("a filter of system calls")?;
    apply_filter(&program).context("the kernel refuses a filter of system calls (CONFIG_SECCOMP_FILTER)")
}
