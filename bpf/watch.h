/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Recorder around the programs of a sender compiled with WATCHED: a record when the kernel calls a program, with what
 * it passes, and another when the program returns, with what it answers. Only comparisons with the simulator use it.
 */
#ifndef NARROWS_WATCH_H
#define NARROWS_WATCH_H

/* crates/senders/src/watch.rs: Call */
enum call { CALL_cong_avoid = 1, CALL_pkts_acked = 2, CALL_ssthresh = 3, CALL_cwnd_event = 4, CALL_min_tso_segs = 5 };

/* crates/senders/src/watch.rs: Step */
struct step {
    u64 sk;
    u64 at_ns;
    u32 number; /* a gap tells that the ring was full */
    u16 call;
    u16 returned;
    /* cong_avoid: segments; pkts_acked: RTT, us; cwnd_event: which; others: their answer, when they return */
    u32 value;
    u32 cwnd;
    u32 ssthresh;
    u32 srtt_us;
    u32 used;
    u32 priv[3];
};

struct {
    UINT(type, MAP_RINGBUF);
    UINT(max_entries, 1 << 21);
} steps SEC(".maps");

u32 told = 0;

static ALWAYS_INLINE int tell(u64 *ctx, enum call call, int returned, int answer) {
    struct tcp_sock *tp = (void *)ctx[0];
    const u64 *kept = priv(tp);
    struct step s = {
        .sk = ctx[0],
        .at_ns = bpf_ktime_get_ns(),
        .number = __sync_fetch_and_add(&told, 1),
        .call = call,
        .returned = returned,
        .value = answer,
        .cwnd = tp->snd_cwnd,
        .ssthresh = tp->snd_ssthresh,
        .srtt_us = tp->srtt_us >> 3,
        .used = window_used(tp),
        .priv = {kept[0], kept[0] >> 32, kept[1]},
    };
    if (call == CALL_cong_avoid)
        s.value = (u32)ctx[2];
    else if (call == CALL_pkts_acked)
        s.value = ((const struct ack_sample *)ctx[1])->rtt_us;
    else if (call == CALL_cwnd_event)
        s.value = (u32)ctx[1];
    bpf_ringbuf_output(&steps, &s, sizeof(s), 0);
    return answer;
}

#define PROGRAM(call, name)                                       \
    static ALWAYS_INLINE int name##_does(u64 *ctx);               \
    SEC("struct_ops/" #call)                                      \
    int name(u64 *ctx) {                                          \
        tell(ctx, CALL_##call, 0, 0);                             \
        return tell(ctx, CALL_##call, 1, name##_does(ctx));       \
    }                                                             \
    static ALWAYS_INLINE int name##_does(u64 *ctx)

#endif
