/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Every connection of one network namespace that one of our senders drives: one record each, read from an iterator.
 * Reading a socket this way holds its lock, so a record is of one moment.
 */
#include "narrows.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* crates/senders/src/layout.rs: Record */
struct record {
    char name[16];
    u64 priv[13];
    u32 cwnd;
    u32 ssthresh;
    u32 srtt_us;
    u32 packets_out;
    u32 saddr;
    u32 daddr;
    u16 sport;
    u16 dport;
    u16 family;
    u16 unused;
};

SEC("iter/tcp")
int show(struct bpf_iter__tcp *ctx) {
    struct sock_common *skc = ctx->sk_common;
    if (!skc)
        return 0;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock(skc);
    if (!tp)
        return 0;
    struct inet_connection_sock *icsk = (void *)tp;
    u32 kind = (u32)icsk->icsk_ca_priv[0];
    if (kind != KIND_BTCP && kind != KIND_AAIMD && kind != KIND_IS)
        return 0;
    struct record r = {};
    bpf_probe_read_kernel(r.name, sizeof(r.name), icsk->icsk_ca_ops->name);
    bpf_probe_read_kernel(r.priv, sizeof(r.priv), icsk->icsk_ca_priv);
    r.cwnd = tp->snd_cwnd;
    r.ssthresh = tp->snd_ssthresh;
    r.srtt_us = tp->srtt_us >> 3;
    r.packets_out = tp->packets_out;
    r.saddr = skc->skc_rcv_saddr;
    r.daddr = skc->skc_daddr;
    r.sport = skc->skc_num;
    r.dport = skc->skc_dport;
    r.family = skc->skc_family;
    bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
    return 0;
}
