/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Gate in an interface's driver: hands frames to a process by AF_XDP while that process shows life. A frame is handed
 * over if it may carry IP, and is neither for the machine itself nor for a group. All other frames go on to the
 * kernel's stack, and from there to a bridge if the interface is its port.
 *
 * The instructions are committed (crates/netio/src/xdp/gate_program.rs), so that a box needs neither clang nor libbpf.
 * Both symbols below are left to the loader: `shared` is the value of an array of one, `sockets` an XSKMAP.
 */
#include "narrows.bpf.h"

struct xdp_md {
    u32 data;
    u32 data_end;
    u32 data_meta;
    u32 ingress_ifindex;
    u32 rx_queue_index;
};

/* linux/bpf.h: enum xdp_action */
#define XDP_PASS 2

static long (*const bpf_redirect_map)(void *map, u32 key, u64 flags) = (void *)51;

/* An Ethernet header (IEEE 802.3, clause 3): the address as two words. */
struct ethernet {
    u32 to_first;
    u16 to_last;
    u16 from[3];
    u16 type;
};
#define ETHERNET_BYTES 14

/* crates/netio/src/xdp/gate.rs: Shared */
struct shared {
    u64 signs;      /* of life so far; 0 while the gate is shut */
    u64 seen;       /* signs when this program last saw a new one */
    u64 seen_at_ns; /* when that was */
    u64 limit_ns;   /* time without a new sign after which frames pass by */
    u64 own[3];     /* addresses of the machine itself */
};
extern volatile struct shared shared;
extern char sockets;

#define BIG_ENDIAN_16(n) (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? (n) : __builtin_bswap16(n))

/* IPv4, IPv6, VLAN tags (IEEE 802.1Q), PPPoE sessions (RFC 2516, section 4). */
static ALWAYS_INLINE int may_carry_ip(u16 type) {
    return type == BIG_ENDIAN_16(0x0800) || type == BIG_ENDIAN_16(0x86dd) || type == BIG_ENDIAN_16(0x8100) ||
           type == BIG_ENDIAN_16(0x88a8) || type == BIG_ENDIAN_16(0x8864);
}

/* Whether the process lives: a new sign is noted with its time; without one, the last must not be too long ago. */
static ALWAYS_INLINE int lives(void) {
    u64 now = bpf_ktime_get_ns();
    u64 signs = shared.signs;
    if (signs == 0)
        return 0;
    if (signs != shared.seen) {
        shared.seen_at_ns = now;
        shared.seen = signs;
        return 1;
    }
    return (s64)(now - shared.seen_at_ns) <= (s64)shared.limit_ns;
}

SEC("xdp")
int xdp_gate(struct xdp_md *ctx) {
    struct ethernet *frame = (void *)(long)ctx->data;
    if ((void *)frame + ETHERNET_BYTES > (void *)(long)ctx->data_end)
        return XDP_PASS;
    if (!may_carry_ip(frame->type))
        return XDP_PASS;
    /* A group's address has the lowest bit of its first byte set (IEEE 802, section 8.2.2). */
    if (*(u8 *)frame & 1)
        return XDP_PASS;
    u64 to = frame->to_first | (u64)frame->to_last << 32;
    if (to == shared.own[0] || to == shared.own[1] || to == shared.own[2])
        return XDP_PASS;
    if (!lives())
        return XDP_PASS;
    /* To the socket of the queue it came in by; where there is none, the helper returns its flags: pass. */
    return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}
