//! What a guest gets beside the program that is run in it.

use std::path::{Path, PathBuf};

/// Programs of this machine that every guest gets where they are here. Some may be missing; what needs one says so.
pub(crate) const PROGRAMS: &[&str] = &[
    "awk",
    "basename",
    "bash",
    "bpftool",
    "cat",
    "chmod",
    "cmp",
    "cp",
    "cut",
    "date",
    "dd",
    "dirname",
    "env",
    "ethtool",
    "expr",
    "false",
    "find",
    "grep",
    "head",
    "hostname",
    "id",
    "ip",
    "ip6tables",
    "iptables",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mknod",
    "mktemp",
    "modprobe",
    "insmod",
    "mount",
    "mv",
    "nft",
    "nsenter",
    "ping",
    "printf",
    "ps",
    "readlink",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "setpriv",
    "sh",
    "sleep",
    "sort",
    "ss",
    "stat",
    "stty",
    "sync",
    "sysctl",
    "tail",
    "tar",
    "tc",
    "tee",
    "timeout",
    "touch",
    "tr",
    "true",
    "umount",
    "uname",
    "unshare",
    "wc",
    "xargs",
];

/// Files and folders that these programs read, where they are here.
pub(crate) const FILES: &[&str] = &[
    "/etc/iproute2",
    "/usr/lib/iproute2",
    "/usr/share/iproute2",
    "/etc/protocols",
    "/etc/services",
    "/etc/ethertypes",
];

/// Libraries that programs of Narrows open by name, where they are here.
pub(crate) const LIBRARIES: &[&str] = &["libbpf.so.1"];

/// Modules of the kernel that Narrows or its peers use; those that are built in have no file.
pub(crate) const MODULES: &[&str] = &[
    // Networks.
    "veth",
    "dummy",
    "bridge",
    "ifb",
    "8021q",
    "tun",
    "vxlan",
    "ip_gre",
    "ipip",
    "sit",
    "wireguard",
    "af_packet_diag",
    "tcp_diag",
    "udp_diag",
    "inet_diag",
    "pktgen",
    "ipv6",
    // Queues and congestion controls.
    "sch_cake",
    "sch_fq",
    "sch_fq_codel",
    "sch_fq_pie",
    "sch_codel",
    "sch_pie",
    "sch_red",
    "sch_sfq",
    "sch_sfb",
    "sch_choke",
    "sch_htb",
    "sch_tbf",
    "sch_netem",
    "sch_ingress",
    "sch_prio",
    "sch_drr",
    "sch_hhf",
    "cls_u32",
    "cls_matchall",
    "cls_flower",
    "cls_bpf",
    "act_mirred",
    "act_gact",
    "act_skbedit",
    "em_u32",
    "tcp_bbr",
    "tcp_cubic",
    "tcp_vegas",
    "tcp_westwood",
    "tcp_illinois",
    // Rules that hand packets to user space.
    "nf_tables",
    "nft_queue",
    "nft_ct",
    "nft_compat",
    "nft_chain_nat",
    "nft_masq",
    "nft_nat",
    "nft_limit",
    "nft_log",
    "nft_reject",
    "nft_reject_inet",
    "nft_reject_ipv4",
    "nft_counter",
    "nfnetlink",
    "nfnetlink_queue",
    "nf_conntrack",
    "nf_conntrack_netlink",
    "nf_nat",
    "nf_defrag_ipv4",
    "nf_defrag_ipv6",
    "ip_tables",
    "iptable_filter",
    "iptable_mangle",
    "iptable_nat",
    "ip6_tables",
    "ip6table_filter",
    "ip6table_mangle",
    "x_tables",
    "xt_NFQUEUE",
    "xt_multiport",
    "xt_conntrack",
    "xt_connmark",
    "xt_mark",
    "xt_physdev",
    "xt_tcpudp",
    "xt_MASQUERADE",
    "xt_length",
    "xt_statistic",
    "xt_limit",
    "ip_set",
    "br_netfilter",
    "ebtables",
    "ebtable_filter",
    "nf_tables_bridge",
    "nft_meta_bridge",
    "xt_TCPMSS",
    "xt_addrtype",
    "xt_comment",
    "xt_state",
    "ipt_REJECT",
    "nf_reject_ipv4",
    // The memory by which results leave.
    RESULTS_BUS,
    RESULTS_DRIVER,
];

/// Finds the memory that both sides map (ACPI's table of NVDIMMs).
pub(crate) const RESULTS_BUS: &str = "nfit";
/// Makes a device of it.
pub(crate) const RESULTS_DRIVER: &str = "nd_pmem";

/// Where a program is, if it is here.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Where a library is that a program opens by name, if it is here.
pub(crate) fn find_library(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    folders.into_iter().map(|folder| Path::new(folder).join(name)).find(|file| file.is_file())
}

/// Whether a file is there.
pub(crate) fn is_there(path: &str) -> bool {
    Path::new(path).exists()
}
