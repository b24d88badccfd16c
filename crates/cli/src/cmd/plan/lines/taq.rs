//! Forecast for TAQ: its rounds and their price, and admission control by rounds and by the loss.

use narrows_models::plan::evidence;
use narrows_models::plan::{P_ADMIT, Plan, SharedLink, TaqLimits};
use serde_json::json;

use super::{FetchLoop, count, memory, seconds};

pub(super) fn lines(link: &SharedLink, plan: &Plan) -> Vec<FetchLoop> {
    let t = &plan.rounds;
    let more = memory(plan)
        .map_or_else(String::new, |n| format!("; with less than memory_packets={n} it loses some"));
    let rounds = FetchLoop {
        key: "taq",
        what: "taq without admission control".to_owned(),
        answer: format!(
            "a turn for each flow every {}, Jain index about 1; no user waits more than {} for something to come{more}",
            seconds(t.round_s),
            seconds(t.silence_s)
        ),
        evidence: evidence::ROUNDS,
        figures: json!({ "round_s": t.round_s, "longest_stall_s": t.silence_s, "memory_packets": memory(plan) }),
    };
    let wait = FetchLoop {
        key: "bulk_wait",
        what: "taq: price".to_owned(),
        answer: format!(
            "a packet of a long transfer waits {} to {}",
            seconds(t.wait_s.0),
            seconds(t.wait_s.1)
        ),
        evidence: evidence::WAIT,
        figures: json!({ "least_s": t.wait_s.0, "most_s": t.wait_s.1 }),
    };
    let fetch = FetchLoop {
        key: "fetch",
        what: "fetch".to_owned(),
        answer: format!("{} B take {} on average, whatever the queue", link.object.0, seconds(t.fetch_s)),
        evidence: evidence::FETCH,
        figures: json!({ "mean_s": t.fetch_s }),
    };
    vec![rounds, wait, fetch, admission(plan), loss_admission(plan)]
}

fn admission(plan: &Plan) -> FetchLoop {
    let d = plan.admission;
    let limit = format!("a round of {} users takes {}", d.users, seconds(TaqLimits::default().round_limit_s));
    let answer = match d.wait_s {
        None => format!("{limit}: all {} are in, nobody waits", plan.busy_users),
        Some(wait) => format!("{limit}: beyond that users wait, about {} for a connection", seconds(wait)),
    };
    FetchLoop {
        key: "admission",
        what: "taq with admission control".to_owned(),
        answer,
        evidence: evidence::ADMISSION,
        figures: json!({ "users": d.users, "wait_s": d.wait_s }),
    }
}

fn loss_admission(plan: &Plan) -> FetchLoop {
    let d = plan.loss_admission;
    let percent = P_ADMIT * 100.0;
    let answer = match d.wait_s {
        None => format!("loss stays below {percent:.0} %: all {} are in", plan.busy_users),
        Some(wait) => format!(
            "{} at once would keep the loss below {percent:.0} %, and the others wait {}; simulated loss is 9 to 42 %, \
             and with t_wait=3s as much as drop-tail's",
            count(d.users, "user"),
            seconds(wait)
        ),
    };
    FetchLoop {
        key: "loss_admission",
        what: "taq:mode=paper's admission control".to_owned(),
        answer,
        evidence: evidence::LOSS_ADMISSION,
        figures: json!({ "users": d.users, "wait_s": d.wait_s }),
    }
}
