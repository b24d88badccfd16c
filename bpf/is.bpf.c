/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Initial Spreading: the segments of the first window leave evenly over the first round trip, instead of as a burst.
 *
 * Sallantin, Baudoin, Chaput, Arnal, Dubois, Beylot, LCN 2013 and "A TCP model for short-lived flows to validate
 * Initial Spreading", LCN 2014. With R0 the RTT of the handshake and n the initial window, segment k leaves at (k-1)
 * R0/n. Then TCP is ordinary (RFC 5681), with a window of n and a segment more for each acknowledged meanwhile.
 *
 * The kernel has no pacing for this (it never paces a connection's first ten segments) and no timer a congestion
 * control could set. So the window is the gate: min_tso_segs is asked before every attempt to transmit and opens it by
 * a segment for each slot that is due; and a driver in user space (crates/senders/src/driver.rs) causes an attempt at
 * each slot, after an event from here has told it of a connection whose data wait. The driver writes the time into
 * `heart`; a connection is gated only if that time is recent, so without a driver this is plain TCP with a window of n.
 *
 * If the driver dies in between, the first ACK finds slots that nobody used. They are lost: at most BURST of them open
 * the window at once, and what follows is slow start from one to three segments. Nothing ever waits for the driver
 * alone.
 *
 * No spreading: R0/n below the floor (timers are not that fine); a retransmitted SYN (R0 unknown: a window of 3, RFC
 * 3390); after a loss; after idle; for data that come after R0.
 */
#include "narrows.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";

const volatile struct {
    u32 kind;
    u32 iw;
    u32 floor_us;
} knobs SEC(".rodata") = {KIND_IS, 10, 1000};

/* When the driver was last seen, in ns of the monotonic clock. */
struct {
    UINT(type, MAP_ARRAY);
    TYPE(key, u32);
    TYPE(value, u64);
    UINT(max_entries, 1);
} heart SEC(".maps");

/* Connections that want a driver. */
struct {
    UINT(type, MAP_RINGBUF);
    UINT(max_entries, 1 << 20);
} wanted SEC(".maps");

/* crates/senders/src/driver.rs: Wanted */
struct event {
    u32 tgid; /* process that has just written; then its thread */
    u32 tid;
    u32 fd;    /* the first argument of its system call, most likely the socket */
    u32 netns; /* inode number of the connection's network namespace */
    u64 inode;
    u64 next_ns; /* time of the next slot */
    u64 gap_ns;
    u64 end_ns; /* time from which on there are no slots */
};

enum phase { WAITING, SPREADING, DONE };

struct state {
    u32 kind;
    u32 phase;
    u32 allowed; /* segments allowed so far: those whose slot is past */
    u32 lost;    /* slots that passed unused although data waited */
    u32 acked;   /* segments acknowledged while spreading */
    u32 delivered0;
    u32 segs0;
    u32 asked; /* whether the driver knows of the data that wait */
    u64 gap_ns;
    u64 start_ns;
    u64 slot_ns; /* time of the slot granted last */
};

enum {
    /* Slots that may be made up for at once, after a driver that came late. */
    BURST = 2,
    UNKNOWN_RTT_WINDOW = 3,
};

/* A driver beats at least every 100 ms. */
#define FRESH_NS 300000000ull

static ALWAYS_INLINE int driven(u64 now) {
    u32 zero = 0;
    u64 *beat = bpf_map_lookup_elem(&heart, &zero);
    /* The driver may write a beat after we read the clock and before we read the beat. */
    return beat && (s64)(now - *beat) < (s64)FRESH_NS;
}

SEC("struct_ops/init")
int is_init(u64 *ctx) {
    struct tcp_sock *tp = (void *)ctx[0];
    struct state *s = priv(tp);
    s->kind = KIND_IS;
    s->phase = DONE;
    s->allowed = 0;
    s->lost = 0;
    s->acked = 0;
    s->asked = 0;
    s->gap_ns = 0;
    /* A sender chosen in mid-connection has no first window any more. */
    if (tp->data_segs_out)
        return 0;
    if (tp->total_retrans) {
        tp->snd_cwnd = at_most(knobs.iw, UNKNOWN_RTT_WINDOW);
        return 0;
    }
    tp->snd_cwnd = knobs.iw;
    u64 gap_us = (tp->srtt_us >> 3) / knobs.iw;
    if (knobs.iw > 1 && gap_us && gap_us >= knobs.floor_us) {
        s->gap_ns = gap_us * 1000;
        s->phase = WAITING;
    }
    return 0;
}

/* Ends the spreading: n segments of window, less the slots lost, and slow start for what was acknowledged. */
static ALWAYS_INLINE void finish(struct tcp_sock *tp, struct state *s) {
    u32 lost = at_most(s->lost, knobs.iw - 1);
    tp->snd_cwnd = at_most(knobs.iw - lost + s->acked, tp->snd_cwnd_clamp);
    s->phase = DONE;
}

static ALWAYS_INLINE int data_wait(struct tcp_sock *tp, struct state *s) {
    u32 sent = tp->data_segs_out - s->segs0;
    u32 may = s->allowed > sent ? s->allowed - sent : 0;
    return tp->write_seq - tp->snd_nxt > may * tp->mss_cache;
}

/* Grants the slots that are due. The window is then what is out, and ACKs that arrive meanwhile release nothing. */
static ALWAYS_INLINE void grant(struct tcp_sock *tp, struct state *s, u64 now) {
    if (now > s->slot_ns + s->gap_ns) {
        u32 slots = (now - s->slot_ns) / s->gap_ns;
        if (slots > BURST && data_wait(tp, s)) {
            s->lost += slots - BURST;
            slots = BURST;
        }
        s->allowed = at_most(s->allowed + slots, knobs.iw);
        /* The grid stays where it was, so lateness does not add up. */
        s->slot_ns = now - (now - s->slot_ns) % s->gap_ns;
    }
    if (s->allowed >= knobs.iw || now - s->start_ns >= knobs.iw * s->gap_ns) {
        finish(tp, s);
        return;
    }
    u32 gone = tp->delivered - s->delivered0;
    tp->snd_cwnd = s->allowed > gone ? s->allowed - gone : 1;
}

static ALWAYS_INLINE u32 first_argument(struct task_struct *task) {
    u64 value = ~0ull;
    if (!__builtin_preserve_enum_value(*(enum bpf_func_id *)BPF_FUNC_task_pt_regs, 0))
        return ~0u;
    struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
    bpf_probe_read_kernel(&value, sizeof(value), &regs->di);
#elif defined(__TARGET_ARCH_arm64)
    bpf_probe_read_kernel(&value, sizeof(value), &((struct user_pt_regs *)regs)->regs[0]);
#endif
    return value;
}

/* Tells the driver, if a process is at work here: an ACK's work is done in anybody's name. */
static ALWAYS_INLINE void ask(struct tcp_sock *tp, struct state *s) {
    if (!((struct sock *)tp)->sk_lock.owned)
        return;
    struct task_struct *task = bpf_get_current_task_btf();
    struct event e = {
        .tgid = task->tgid,
        .tid = task->pid,
        .fd = first_argument(task),
        .netns = ((struct sock *)tp)->__sk_common.skc_net.net->ns.inum,
        .next_ns = s->slot_ns + s->gap_ns,
        .gap_ns = s->gap_ns,
        .end_ns = s->start_ns + knobs.iw * s->gap_ns,
    };
    struct socket_alloc *socket = (void *)((struct sock *)tp)->sk_socket;
    bpf_probe_read_kernel(&e.inode, sizeof(e.inode), &socket->vfs_inode.i_ino);
    if (!bpf_ringbuf_output(&wanted, &e, sizeof(e), 0))
        s->asked = 1;
}

PROGRAM(min_tso_segs, is_min_tso_segs) {
    struct tcp_sock *tp = (void *)ctx[0];
    struct state *s = priv(tp);
    if (s->phase == DONE || !s->gap_ns)
        return 2;
    u64 now = bpf_ktime_get_ns();
    if (s->phase == WAITING) {
        if (!driven(now)) {
            s->phase = DONE;
            return 2;
        }
        s->phase = SPREADING;
        s->start_ns = now;
        s->slot_ns = now;
        s->allowed = 1;
        s->delivered0 = tp->delivered;
        s->segs0 = tp->data_segs_out;
    }
    grant(tp, s, now);
    if (s->phase == SPREADING) {
        if (!data_wait(tp, s))
            s->asked = 0;
        else if (!s->asked)
            ask(tp, s);
    }
    return s->phase == SPREADING ? 1 : 2;
}

PROGRAM(cong_avoid, is_cong_avoid) {
    struct tcp_sock *tp = (void *)ctx[0];
    struct state *s = priv(tp);
    if (s->phase != SPREADING || !s->gap_ns) {
        tcp_reno_cong_avoid((void *)tp, (u32)ctx[1], (u32)ctx[2]);
        return 0;
    }
    s->acked += (u32)ctx[2];
    grant(tp, s, bpf_ktime_get_ns());
    return 0;
}

PROGRAM(ssthresh, is_ssthresh) {
    struct state *s = priv((void *)ctx[0]);
    s->phase = DONE;
    return tcp_reno_ssthresh((void *)ctx[0]);
}

/*
 * Pushes every connection of one network namespace whose slot is due, with its lock held: for those that no process
 * holds any more, because it wrote and closed. Gives a byte for each connection whose data still wait.
 */
SEC("iter/tcp")
int kick(struct bpf_iter__tcp *ctx) {
    enum { IPPROTO_TCP = 6, TCP_NODELAY = 1, TCP_NAGLE_OFF = 1 };
    struct sock_common *skc = ctx->sk_common;
    if (!skc)
        return 0;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock(skc);
    if (!tp)
        return 0;
    struct state s;
    bpf_probe_read_kernel(&s, sizeof(s), priv(tp));
    if (s.kind != KIND_IS || s.phase != SPREADING || tp->write_seq == tp->snd_nxt)
        return 0;
    if (bpf_ktime_get_ns() > s.slot_ns + s.gap_ns) {
        int on = 1, off = 0;
        int delays = !(BITFIELD(tp, nonagle) & TCP_NAGLE_OFF);
        bpf_setsockopt(tp, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (delays)
            bpf_setsockopt(tp, IPPROTO_TCP, TCP_NODELAY, &off, sizeof(off));
    }
    u8 one = 1;
    bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
    return 0;
}

SEC("struct_ops/undo_cwnd")
int is_undo_cwnd(u64 *ctx) { return tcp_reno_undo_cwnd((void *)ctx[0]); }

SEC(".struct_ops")
struct tcp_congestion_ops sender = {
    .name = NAME_PLACE,
    .flags = NON_RESTRICTED,
    .init = (void *)is_init,
    .min_tso_segs = (void *)is_min_tso_segs,
    .cong_avoid = (void *)is_cong_avoid,
    .ssthresh = (void *)is_ssthresh,
    .undo_cwnd = (void *)is_undo_cwnd,
};
