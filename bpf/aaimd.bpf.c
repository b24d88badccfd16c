/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Adaptive AIMD: backs off by just what empties the queue, and increases in proportion.
 *
 * Shorten and Leith, "On Queue Provisioning, Network Efficiency and the Transmission Control Protocol", IEEE/ACM ToN:
 *   beta = RTTmin/RTTmax, between 1/2 and beta_hi   (4)      alpha = 2 (1 - beta)   (5)
 *   RTTmax <- RTTmin + gamma (RTTmax - RTTmin) after each back-off   (9)
 * RTTmin is of single samples, RTTmax of the kernel's smoothed RTT, which filters delayed ACKs and spikes.
 *
 * Where we differ: until `samples` RTTs are seen, at the first back-off, which ends slow start, and after a timeout the
 * factor is 1/2 as in RFC 5681, and a timeout tells nothing of the queue; the increase counts acknowledged segments, so
 * that delayed ACKs do not halve alpha; a mark (ECN) is a loss.
 *
 * Fractions are in 1/65536: beta is exact to 2^-16, so a window of w segments after a back-off to w/65536 segments, and
 * the whole number nearest to it is taken. The part of a segment that the increase has earned is kept, so nothing is
 * lost there but the rounding of alpha.
 */
#include "narrows.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Knobs, written before loading. */
const volatile struct {
    u32 kind;
    u32 beta_hi_q16;
    u32 gamma_q16;
    u32 samples;
} knobs SEC(".rodata") = {KIND_AAIMD, 52429, 57344, 8};

struct state {
    u32 kind;
    u32 beta_q16;
    u32 rttmin_us;
    u32 rttmax_us;
    u32 samples;
    u32 backed_off;
    u64 earned_q16; /* towards the next segment of window, times cwnd */
    u32 beta_before_q16; /* beta before the last back-off, should that be a timeout */
    u32 rttmax_before_us;
};

enum { ONE = 65536, HALF = 32768 };

SEC("struct_ops/init")
int aaimd_init(u64 *ctx) {
    struct state *s = priv((void *)ctx[0]);
    s->kind = KIND_AAIMD;
    s->beta_q16 = HALF;
    s->rttmin_us = 0;
    s->rttmax_us = 0;
    s->samples = 0;
    s->backed_off = 0;
    s->earned_q16 = 0;
    return 0;
}

PROGRAM(pkts_acked, aaimd_pkts_acked) {
    struct tcp_sock *tp = (void *)ctx[0];
    const struct ack_sample *sample = (void *)ctx[1];
    struct state *s = priv(tp);
    s32 rtt = sample->rtt_us;
    if (rtt <= 0)
        return 0;
    if (!s->rttmin_us || (u32)rtt < s->rttmin_us)
        s->rttmin_us = rtt;
    s->rttmax_us = at_least(s->rttmax_us, tp->srtt_us >> 3);
    s->samples = at_most(s->samples + 1, knobs.samples);
    return 0;
}

PROGRAM(ssthresh, aaimd_ssthresh) {
    struct tcp_sock *tp = (void *)ctx[0];
    struct state *s = priv(tp);
    u32 beta = HALF;
    s->beta_before_q16 = s->beta_q16;
    s->rttmax_before_us = s->rttmax_us;
    if (s->backed_off && s->samples >= knobs.samples && s->rttmax_us) {
        beta = (((u64)s->rttmin_us << 16) + s->rttmax_us / 2) / s->rttmax_us; /* (4) */
        beta = at_most(at_least(beta, HALF), knobs.beta_hi_q16);
    }
    s->backed_off = 1;
    if (s->rttmax_us > s->rttmin_us) /* (9), after beta was computed */
        s->rttmax_us = s->rttmin_us + (((u64)(s->rttmax_us - s->rttmin_us) * knobs.gamma_q16) >> 16);
    s->beta_q16 = beta;
    s->earned_q16 = 0;
    return at_least(((u64)tp->snd_cwnd * beta + HALF) >> 16, 2);
}

/* Replaces the threshold that beta has just given by RFC 5681's, after a timeout. What was learnt stays. */
PROGRAM(cwnd_event, aaimd_cwnd_event) {
    struct tcp_sock *tp = (void *)ctx[0];
    struct state *s = priv(tp);
    if ((int)ctx[1] != __builtin_preserve_enum_value(*(enum tcp_ca_event *)CA_EVENT_LOSS, 1))
        return 0;
    tp->snd_ssthresh = at_least(tp->snd_cwnd / 2, 2);
    s->beta_q16 = s->beta_before_q16;
    s->rttmax_us = s->rttmax_before_us;
    return 0;
}

PROGRAM(cong_avoid, aaimd_cong_avoid) {
    struct tcp_sock *tp = (void *)ctx[0];
    u32 acked = (u32)ctx[2];
    struct state *s = priv(tp);
    if (!window_used(tp))
        return 0;
    if (tp->snd_cwnd < tp->snd_ssthresh) {
        acked = tcp_slow_start(tp, acked);
        if (!acked)
            return 0;
    }
    u32 cwnd = at_least(tp->snd_cwnd, 1);
    s->earned_q16 += (u64)(2 * (ONE - s->beta_q16)) * acked; /* (5): alpha/cwnd for each segment */
    u64 segment = (u64)cwnd << 16;
    if (s->earned_q16 >= segment) {
        u32 grown = s->earned_q16 / segment;
        s->earned_q16 -= grown * segment;
        tp->snd_cwnd = at_most(cwnd + grown, tp->snd_cwnd_clamp);
    }
    return 0;
}

SEC("struct_ops/undo_cwnd")
int aaimd_undo_cwnd(u64 *ctx) { return tcp_reno_undo_cwnd((void *)ctx[0]); }

SEC(".struct_ops")
struct tcp_congestion_ops sender = {
    .name = NAME_PLACE,
    .flags = NON_RESTRICTED,
    .init = (void *)aaimd_init,
    .pkts_acked = (void *)aaimd_pkts_acked,
    .ssthresh = (void *)aaimd_ssthresh,
    .cwnd_event = (void *)aaimd_cwnd_event,
    .cong_avoid = (void *)aaimd_cong_avoid,
    .undo_cwnd = (void *)aaimd_undo_cwnd,
};
