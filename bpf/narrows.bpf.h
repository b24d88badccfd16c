/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Declarations that the programs of this folder share: the few kernel fields they touch, the helpers they call, and the
 * knobs and private state that the loader (crates/senders) knows the layout of.
 *
 * No vmlinux.h: the structs below name only the fields we use, and `preserve_access_index` makes the loader look up
 * where the running kernel keeps each one. Bitfields must go through BITFIELD(): a plain read of a cut-down struct is
 * wrong. Helper numbers are those of the user-space API (linux/bpf.h), which never change.
 *
 * Units: windows in segments, times in microseconds unless a name ends in _ns, fractions as the name says:
 * _q16 in 1/65536, _q20 in 1/1048576.
 */
#ifndef NARROWS_BPF_H
#define NARROWS_BPF_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms")))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define CORE __attribute__((preserve_access_index))

/* ---- kernel types, cut down ---- */

struct tcp_congestion_ops {
    char name[16];
    u32 flags;
    u32 (*ssthresh)(void *sk);
    void (*cong_avoid)(void *sk, u32 ack, u32 acked);
    void (*cwnd_event)(void *sk, int event);
    void (*pkts_acked)(void *sk, const void *sample);
    u32 (*min_tso_segs)(void *sk);
    u32 (*undo_cwnd)(void *sk);
    void (*init)(void *sk);
} CORE;

struct ns_common {
    u32 inum;
} CORE;

struct net {
    struct ns_common ns;
} CORE;

typedef struct {
    struct net *net;
} CORE possible_net_t;

struct sock_common {
    possible_net_t skc_net;
    u8 skc_state;
    u16 skc_family;
    u16 skc_dport;
    u16 skc_num;
    u32 skc_daddr;
    u32 skc_rcv_saddr;
    u64 skc_cookie;
} CORE;

typedef struct {
    int owned; /* locked by a process, not by the network's own work */
} CORE socket_lock_t;

struct task_struct {
    s32 pid; /* id of the thread; tgid is the process's */
    s32 tgid;
} CORE;

struct inode {
    unsigned long i_ino;
} CORE;

struct socket;

struct socket_alloc {
    struct inode vfs_inode;
} CORE;

struct sock {
    struct sock_common __sk_common;
    socket_lock_t sk_lock;
    struct socket *sk_socket;
} CORE;

struct inet_connection_sock {
    const struct tcp_congestion_ops *icsk_ca_ops;
    u8 icsk_retransmits;
    u64 icsk_ca_priv[13];
} CORE;

struct tcp_sock {
    u32 srtt_us; /* smoothed RTT, in 1/8 us */
    u32 snd_cwnd;
    u32 snd_cwnd_cnt;
    u32 snd_cwnd_clamp;
    u32 snd_ssthresh;
    u32 snd_una;
    u32 snd_nxt;
    u32 write_seq;
    u32 packets_out;
    u32 max_packets_out;
    u32 mss_cache;
    u32 delivered;
    u32 data_segs_out;
    u32 total_retrans;
    u8 nonagle : 4;
    u8 is_cwnd_limited : 1;
} CORE;

struct seq_file;

struct bpf_iter_meta {
    struct seq_file *seq;
} CORE;

struct bpf_iter__tcp {
    struct bpf_iter_meta *meta;
    struct sock_common *sk_common;
} CORE;

struct ack_sample {
    u32 pkts_acked;
    s32 rtt_us; /* negative: no valid sample, for example of retransmitted data */
    u32 in_flight;
} CORE;

enum tcp_ca_event { CA_EVENT_LOSS = 3 };

/* Declared only to ask whether the running kernel has it. */
enum bpf_func_id { BPF_FUNC_task_pt_regs = 175 };

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
    unsigned long di;
} CORE;
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
    u64 regs[31];
} CORE;
#endif

/* ---- functions of the kernel ---- */

extern u32 tcp_reno_undo_cwnd(struct sock *sk) KSYM;
extern u32 tcp_reno_ssthresh(struct sock *sk) KSYM;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) KSYM;
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) KSYM;

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_setsockopt)(void *sk, int level, int name, void *value, int size) = (void *)49;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_seq_write)(void *seq, const void *data, u32 size) = (void *)127;
static long (*const bpf_ringbuf_output)(void *ringbuf, void *data, u64 size, u64 flags) = (void *)130;
static void *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;
static void *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_task_pt_regs)(void *task) = (void *)175;

#define UINT(name, value) int (*name)[value]
#define TYPE(name, type) type *name
enum { MAP_ARRAY = 2, MAP_RINGBUF = 27 };

/* A bitfield of up to eight bytes, wherever the running kernel keeps it. Numbers are the compiler's: 0 byte offset,
 * 1 byte size, 4 and 5 left and right shift. */
#define BITFIELD(s, field)                                                                  \
    ({                                                                                      \
        const void *at = (const void *)(s) + __builtin_preserve_field_info((s)->field, 0); \
        u64 word = 0;                                                                       \
        switch (__builtin_preserve_field_info((s)->field, 1)) {                             \
        case 1: word = *(const u8 *)at; break;                                              \
        case 2: word = *(const u16 *)at; break;                                             \
        case 4: word = *(const u32 *)at; break;                                             \
        case 8: word = *(const u64 *)at; break;                                             \
        }                                                                                   \
        word <<= __builtin_preserve_field_info((s)->field, 4);                              \
        word >>= __builtin_preserve_field_info((s)->field, 5);                              \
        word;                                                                               \
    })

/* ---- shared with the loader: crates/senders/src/layout.rs ---- */

/* Sender that the private state belongs to: the first word of that state. */
enum kind { KIND_BTCP = 0x4e525701, KIND_AAIMD = 0x4e525702, KIND_IS = 0x4e525703 };

/* TCP_CONG_NON_RESTRICTED: sockets without privilege and other network namespaces may choose it. */
enum { NON_RESTRICTED = 1 };

/* The loader writes the name over this, so that one object can be loaded under any name. */
#define NAME_PLACE "@narrows-name-@"

static ALWAYS_INLINE void *priv(void *sk) { return ((struct inet_connection_sock *)sk)->icsk_ca_priv; }

/* Whether the sender used what its window allowed: a window nobody uses must not grow (RFC 7661, section 1). In slow
 * start a window counts as used while less than twice what was out. */
static ALWAYS_INLINE int window_used(struct tcp_sock *tp) {
    if (BITFIELD(tp, is_cwnd_limited))
        return 1;
    return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static ALWAYS_INLINE u32 at_most(u32 a, u32 b) { return a < b ? a : b; }
static ALWAYS_INLINE u32 at_least(u32 a, u32 b) { return a > b ? a : b; }

/* One of a sender's programs. */
#ifdef WATCHED
#include "watch.h"
#else
#define PROGRAM(call, name) SEC("struct_ops/" #call) int name(u64 *ctx)
#endif

#endif
