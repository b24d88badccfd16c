//! Declarations of [`crate::plan`].

use super::arguments::{Arguments, Refused};
use super::operating::{STACK, STACKS};
use super::{Gives, Module, SHARE, WordList, figure, groups, models, number, parameters, to, tuples};
use crate::plan::{DropTailBuffer, Outlook, Plan, SharedLink, Stalls, edges, plan};

parameters! {
    /// Rate of the link.
    RATE_BPS = number("rate_bps", to(1e3, 1e12), 2e6);
    /// Users who share the link.
    USERS = number("users", to(1.0, 1e6).whole(), 60.0);
    /// Round trip without any queue.
    RTT_S = number("rtt_s", to(0.0, 1e3).without_low(), 0.2);
    /// Size of a full packet, headers included.
    PACKET_BYTES = number("packet_bytes", to(64.0, 65_535.0).whole(), 1500.0).or(1500.0);
    /// Buffer of the queue; it goes before `buffer_s`.
    BUFFER_PACKETS = number("buffer_packets", to(1.0, 1e7).whole(), 30.0)
        .or_none("as many as the link sends in buffer_s");
    /// Buffer of the queue as a time of the link, at least 4 packets.
    BUFFER_S = number("buffer_s", to(0.0, 1e9), 0.2).or_none("a round trip");
    /// Connections of each user at a time.
    CONNECTIONS = number("connections", to(1.0, 1e3).whole(), 4.0).or(1.0);
    /// Share of the users that fetch something at a time.
    BUSY = number("busy", SHARE.without_low(), 1.0).or(1.0);
    /// Mean size of a fetch.
    OBJECT_BYTES = number("object_bytes", to(1.0, 1e12).whole(), 7300.0).or(7300.0);
    /// Mean time of a fetch that people accept before they give up.
    PATIENCE_S = number("patience_s", to(0.0, 1e6).without_low(), 60.0).or(60.0);
    /// Length of a stall.
    X_S = number("x_s", to(0.0, f64::INFINITY), 5.0);
    /// Time for which a user is busy.
    DURING_S = number("during_s", to(0.0, 1e9), 600.0);
    /// Share of the users who meet or exceed the result: 0.5 for the median user's longest stall.
    OF = number("of", SHARE, 0.5);
}

groups! {
    /// Thin link and its users.
    LINK = Link link [RATE_BPS, USERS, RTT_S, PACKET_BYTES, BUFFER_PACKETS, BUFFER_S, CONNECTIONS, BUSY, OBJECT_BYTES,
        PATIENCE_S, STACK];
}

const VERDICTS: WordList = WordList {
    name: "VERDICTS",
    words: &["fine", "small packets", "past the tipping point", "too many at once"],
    sentence: "Verdicts from good to bad: more than 4 packets per round trip for each flow; no more; a tenth is lost; \
               a fetch outlasts patience.",
};

tuples! {
    /// Conclusions.
    PLAN = Plan {
        /// Users who fetch something at a time.
        busy_users,
        /// Connections that are open at a time.
        flows,
        /// Packets that the queue holds.
        buffer_packets,
        /// Fair share of a flow.
        share_bps,
        /// Fair share in packets per round trip without any queue.
        share_packets,
        /// Verdict on the link with drop-tail.
        verdict of &VERDICTS,
        /// Loss of the link behind drop-tail.
        loss,
        /// Share of the flows that send nothing in a round trip under drop-tail.
        silent,
        /// Buffer with which drop-tail loses less than a tenth; NaN if it does as it is, or with no buffer.
        larger_buffer_packets,
        /// Wait of a packet in the larger buffer.
        larger_buffer_delay_s,
        /// Time of the smallest fetch through the larger buffer.
        larger_buffer_smallest_fetch_s,
        /// Round of TAQ: a full packet of each flow.
        round_s,
        /// Upper bound of the longest time in which nothing comes to a user under TAQ.
        silence_s,
        /// Mean time of a fetch.
        fetch_s,
        /// Least wait of a full packet of a long transfer under TAQ.
        wait_least_s,
        /// Greatest wait of a full packet of a long transfer under TAQ.
        wait_most_s,
        /// Whether all packets that have to wait fit into TAQ's memory: 1 or 0.
        fits,
        /// Users that TAQ's admission control admits at once.
        admission_users,
        /// Wait of users who are not admitted at once; NaN if everybody is.
        admission_wait_s,
        /// Users that admission control would admit if it kept drop-tail's loss below 0.09.
        loss_admission_users,
        /// Wait of the other users under such admission control.
        loss_admission_wait_s,
        /// Number of better verdicts that the link could have; `exits` has the ways to them.
        exits,
    }
    /// Ways to better verdicts: most users at this rate, least rate for these users; NaN where the verdict is no
    /// better.
    EXITS = Exits {
        /// Most users of a fine link.
        fine_users,
        /// Least rate of a fine link.
        fine_rate_bps,
        /// Most users of a link with small packets.
        small_packets_users,
        /// Least rate of a link with small packets.
        small_packets_rate_bps,
        /// Most users of a link past the tipping point.
        past_tipping_users,
        /// Least rate of a link past the tipping point.
        past_tipping_rate_bps,
    }
    /// Users from which on a verdict is at least so bad; fractions stand for single connections.
    EDGES = Edges {
        /// Users from which on packets are small.
        small_packets_users,
        /// Users from which on the link is past its tipping point.
        past_tipping_users,
        /// Users from which on there are too many at once.
        too_many_users,
    }
}

fn link(a: &Arguments<'_>) -> Result<SharedLink, Refused> {
    let usual = SharedLink::new(a.rate(RATE_BPS)?, a.count(USERS)?, a.time(RTT_S)?);
    let buffer = match (a.some_count(BUFFER_PACKETS)?, a.some(BUFFER_S)) {
        (Some(packets), _) => DropTailBuffer::Packets(packets),
        (None, Some(_)) => DropTailBuffer::Time(a.time(BUFFER_S)?),
        (None, None) => usual.buffer,
    };
    Ok(SharedLink {
        packet: a.bytes(PACKET_BYTES)?,
        buffer,
        connections: a.count(CONNECTIONS)?,
        busy: a[BUSY],
        object: a.bytes(OBJECT_BYTES)?,
        stack: a.pick(STACK, STACKS),
        patience: a.time(PATIENCE_S)?,
        ..usual
    })
}

fn stalls(a: &Arguments<'_>) -> Result<Stalls, Refused> {
    Ok(plan(&link(a)?)?.stalls)
}

fn place(verdict: Outlook) -> usize {
    Outlook::ALL.iter().position(|v| *v == verdict).unwrap_or_default()
}

fn conclusions(p: &Plan) -> [f64; 22] {
    let none = f64::NAN;
    let buffer = p.larger_buffer.map_or([none; 3], |b| [f64::from(b.packets), b.delay_s, b.smallest_fetch_s]);
    [
        f64::from(p.busy_users),
        f64::from(p.flows),
        f64::from(p.buffer_packets),
        p.share_bps,
        p.share_packets,
        place(p.verdict) as f64,
        p.point.loss,
        p.point.silent,
        buffer[0],
        buffer[1],
        buffer[2],
        p.rounds.round_s,
        p.rounds.silence_s,
        p.rounds.fetch_s,
        p.rounds.wait_s.0,
        p.rounds.wait_s.1,
        f64::from(u8::from(p.rounds.fits)),
        f64::from(p.admission.users),
        p.admission.wait_s.unwrap_or(none),
        f64::from(p.loss_admission.users),
        p.loss_admission.wait_s.unwrap_or(none),
        p.exits.len() as f64,
    ]
}

/// Most users and least rate for each verdict that is better than the link's, from the best on; NaN for the others.
fn exits(p: &Plan) -> [f64; 6] {
    let mut row = [f64::NAN; 6];
    for exit in &p.exits {
        let at = 2 * place(exit.to);
        row[at] = f64::from(exit.users);
        row[at + 1] = exit.rate.map_or(f64::NAN, |r| r.as_bps() as f64);
    }
    row
}

pub(super) const MODULE: Module = Module {
    name: "plan",
    sentence: "Questions of an operator of a thin link: is it thin, what does drop-tail do to its users, what would more
buffer cost, what would TAQ give with admission control and without, and how far is the way out.

The questions and thresholds are those of TAQ (EuroSys 2014, sections 2, 4.3 and 5); the answers are ours: the operating
point for drop-tail, arithmetic for rounds and for the wait queue. docs/how-to/plan.md has the basis of each conclusion
and its error.",
    models: models! {
        /// Conclusions on a link.
        plan(LINK) -> Gives::Tuple(&PLAN), "plan", |a| conclusions(&plan(&link(a)?)?);
        /// Ways to better verdicts: fewer users, or a higher rate (whole kbit/s).
        exits(LINK) -> Gives::Tuple(&EXITS), "Plan::exits", |a| exits(&plan(&link(a)?)?);
        /// Users at which the verdict changes, at each rate: the edges of a map. The link's own users do not matter.
        edges(LINK) -> Gives::Tuple(&EDGES), "edges", |a| {
            let link = link(a)?;
            edges(&link, &[link.rate])?.first().map_or([f64::NAN; 3], |e| e.users)
        };
        /// Stalls longer than a time that begin per second, for a user behind drop-tail.
        stalls_per_s(X_S, LINK)
            -> Gives::One(figure("per_s", "Stalls of all users that begin per second.")), "Stalls::per_s",
            |a| stalls(a)?.per_s(a.inside(X_S)?);
        /// Share of the users who meet at least one stall longer than a time while they are busy.
        stalls_share_over(X_S, DURING_S, LINK)
            -> Gives::One(figure("share", "Share of the users who have such a stall.")),
            "Stalls::share_over", |a| stalls(a)?.share_over(a.inside(X_S)?, a.inside(DURING_S)?);
        /// Stall that a share of the users meet or exceed while they are busy.
        longest_stall_s(OF, DURING_S, LINK)
            -> Gives::One(figure("time_s", "Length of the longest stall.")), "Stalls::longest_s",
            |a| stalls(a)?.longest_s(a.inside(OF)?, a.inside(DURING_S)?);
    },
};
