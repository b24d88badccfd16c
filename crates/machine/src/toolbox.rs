//! Programs, files and kernel modules of this machine that a guest gets beside the program it runs: names, divided by
//! blanks.

use std::path::{Path, PathBuf};

/// Programs of this machine that every guest gets where they are here. Some may be missing; what needs one says so.
pub(crate) const PROGRAMS: &str = "awk basename bash bpftool bridge cat chmod chown cmp conntrack cp cut date \
    dd dirname ebtables env ethtool expr false find getent grep head hostname id insmod ip ip6tables ip6tables-legacy \
    ip6tables-legacy-restore ip6tables-legacy-save ip6tables-restore ip6tables-save iptables iptables-legacy \
    iptables-legacy-restore iptables-legacy-save iptables-nft iptables-restore iptables-save kill ln ls mkdir mknod \
    mktemp modinfo modprobe mount mv nft \
    nsenter ping printf ps readlink rm rmdir rmmod sed seq setpriv sh sleep sort ss stat \
    stty su sync sysctl tail tar tc tee timeout touch tr true umount uname unshare wc xargs";

/// Files and folders that these programs read, where they are here. iptables loads its matches from its folder by name.
pub(crate) const FILES: &str = "/etc/iproute2 /usr/lib/iproute2 /usr/share/iproute2 /etc/protocols /etc/services \
    /etc/ethertypes /etc/nsswitch.conf /usr/lib/x86_64-linux-gnu/xtables /usr/lib/aarch64-linux-gnu/xtables";

/// Libraries that programs of Narrows and the C library open by name, where they are here.
pub(crate) const LIBRARIES: &str = "libbpf.so.1 libnss_files.so.2";

/// Modules of the kernel that Narrows or its peers use; those that are built in have no file.
pub(crate) const MODULES: &str = "\
    veth dummy bridge ifb 8021q tun vxlan ip_gre ipip sit wireguard ppp_generic pppoe af_packet_diag tcp_diag udp_diag \
    inet_diag pktgen ipv6 \
    sch_cake sch_fq sch_fq_codel sch_fq_pie sch_codel sch_pie sch_red sch_sfq sch_sfb sch_choke sch_htb sch_tbf \
    sch_netem sch_ingress sch_prio sch_drr sch_hhf cls_u32 cls_matchall cls_flower cls_bpf act_mirred act_gact \
    act_skbedit em_u32 tcp_bbr tcp_cubic tcp_vegas tcp_westwood tcp_illinois \
    nf_tables nft_queue nft_ct nft_compat nft_chain_nat nft_masq nft_nat nft_limit nft_log nft_reject nft_reject_inet \
    nft_reject_ipv4 nft_counter nfnetlink nfnetlink_queue nf_conntrack nf_conntrack_netlink nf_conntrack_bridge nf_nat \
    nf_defrag_ipv4 nf_defrag_ipv6 ip_tables iptable_filter iptable_mangle iptable_nat iptable_raw ip6_tables \
    ip6table_filter ip6table_mangle x_tables xt_NFQUEUE xt_multiport xt_conntrack xt_connmark xt_mark xt_physdev \
    xt_tcpudp xt_MASQUERADE xt_length xt_statistic xt_limit xt_TCPMSS xt_addrtype xt_comment xt_state xt_CONNMARK \
    br_netfilter ebtables ebtable_filter ebtable_broute nft_meta_bridge nft_reject_bridge ipt_REJECT nf_reject_ipv4 \
    nfit nd_pmem";

/// Finds the programs of [`PROGRAMS`] that this machine has.
pub(crate) fn programs() -> impl Iterator<Item = PathBuf> {
    PROGRAMS.split_whitespace().filter_map(find)
}

/// Finds the files of [`FILES`] that this machine has.
pub(crate) fn files() -> impl Iterator<Item = &'static Path> {
    FILES.split_whitespace().map(Path::new).filter(|path| path.exists())
}

/// Finds the libraries of [`LIBRARIES`] that this machine has.
pub(crate) fn libraries() -> impl Iterator<Item = PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let find = move |name| {
        folders.into_iter().map(|folder| Path::new(folder).join(name)).find(|file| file.is_file())
    };
    LIBRARIES.split_whitespace().filter_map(find)
}

/// Where a program is, if it is here.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(program)).find(|file| file.is_file())
}
