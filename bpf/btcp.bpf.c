/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Burst TCP: a first phase whose first step is large and whose steps shrink as the window nears the mice threshold.
 *
 * Goncalves, "Burst TCP: an approach for benefiting mice flows", UFPE, about 2007. On each segment newly acknowledged:
 *   inc = floor((mice - cwnd)/f), at least 1;   cwnd <- cwnd + inc/cwnd
 * It is off for good at the first loss, also of a SYN; above the threshold plain TCP follows (knob `after`: slow start,
 * or congestion avoidance).
 *
 * Where we differ: the printed step is taken below the threshold only (above, the paper's formula would shrink the
 * window); and once for each *segment* acknowledged, not each ACK, so that a receiver that delays ACKs gets the same
 * windows.
 *
 * The fraction of a segment is kept in 1/2^20, rounded down at each step: after the 255 steps to 32 segments with f = 8
 * the window is less than 255/2^20 of a segment behind.
 */
#include "narrows.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

enum after { AFTER_SLOW_START, AFTER_AVOIDANCE };

const volatile struct {
    u32 kind;
    u32 f;
    u32 mice;
    u32 after;
    u32 iw;
} knobs SEC(".rodata") = {KIND_BTCP, 8, 32, AFTER_SLOW_START, 1};

struct state {
    u32 kind;
    u32 enabled;
    u32 fraction_q20;
};

enum {
    ONE_BITS = 20,
    /* Segments one ACK may cover; what lies beyond grows the window by nothing, as in RFC 3465's limit L. */
    MOST_ACKED = 64,
};

SEC("struct_ops/init")
int btcp_init(u64 *ctx) {
    struct tcp_sock *tp = (void *)ctx[0];
    struct state *s = priv(tp);
    s->kind = KIND_BTCP;
    /* A lost SYN is a loss, and was lost before this call. */
    s->enabled = !tp->total_retrans;
    s->fraction_q20 = 0;
    /* A sender chosen in mid-connection must not throw away the window that is there. */
    if (!tp->data_segs_out)
        tp->snd_cwnd = knobs.iw;
    return 0;
}

PROGRAM(ssthresh, btcp_ssthresh) {
    struct state *s = priv((void *)ctx[0]);
    s->enabled = 0;
    return tcp_reno_ssthresh((void *)ctx[0]);
}

PROGRAM(cong_avoid, btcp_cong_avoid) {
    struct tcp_sock *tp = (void *)ctx[0];
    u32 ack = (u32)ctx[1];
    u32 acked = (u32)ctx[2];
    struct state *s = priv(tp);
    if (!s->enabled || tp->snd_cwnd >= tp->snd_ssthresh) {
        tcp_reno_cong_avoid((void *)tp, ack, acked);
        return 0;
    }
    if (!window_used(tp))
        return 0;
    u64 cwnd = ((u64)tp->snd_cwnd << ONE_BITS) | s->fraction_q20;
    u64 mice = (u64)knobs.mice << ONE_BITS;
    for (int i = 0; i < MOST_ACKED; i++) {
        if (!acked || cwnd >= mice)
            break;
        u64 inc = ((mice - cwnd) >> ONE_BITS) / knobs.f;
        if (!inc)
            inc = 1;
        cwnd += (inc << (2 * ONE_BITS)) / cwnd;
        acked--;
    }
    tp->snd_cwnd = at_most(cwnd >> ONE_BITS, tp->snd_cwnd_clamp);
    s->fraction_q20 = cwnd & ((1 << ONE_BITS) - 1);
    if (cwnd >= mice) {
        s->enabled = 0;
        if (knobs.after == AFTER_AVOIDANCE)
            tp->snd_ssthresh = tp->snd_cwnd;
        if (acked)
            tcp_reno_cong_avoid((void *)tp, ack, acked);
    }
    return 0;
}

#ifdef WATCHED
/* Says which losses are timeouts. */
PROGRAM(cwnd_event, btcp_cwnd_event) { return 0; }
#endif

SEC("struct_ops/undo_cwnd")
int btcp_undo_cwnd(u64 *ctx) { return tcp_reno_undo_cwnd((void *)ctx[0]); }

SEC(".struct_ops")
struct tcp_congestion_ops sender = {
    .name = NAME_PLACE,
    .flags = NON_RESTRICTED,
    .init = (void *)btcp_init,
    .ssthresh = (void *)btcp_ssthresh,
#ifdef WATCHED
    .cwnd_event = (void *)btcp_cwnd_event,
#endif
    .cong_avoid = (void *)btcp_cong_avoid,
    .undo_cwnd = (void *)btcp_undo_cwnd,
};
