//! Who stalls and why, in lines of text.

use narrows_box::{CauseJson, SightJson, StallJson};

use super::seconds;

/// At most so many lines of each kind: causes, users, stalls that go on or, if there are none, that were the last.
pub fn lines(sight: &SightJson, most: usize) -> Vec<String> {
    let mut causes: Vec<&CauseJson> = sight.causes.iter().filter(|c| c.now > 0 || c.quarter > 0).collect();
    if causes.is_empty() {
        return Vec::new();
    }
    let state = |name: &str| sight.states.get(name).copied().unwrap_or(0);
    let mut lines = vec![format!(
        "connections: {} moving, {} stalled, {} opening, {} idle · {} of {} users stall now",
        state("moving"),
        state("stalled"),
        state("opening"),
        state("idle"),
        sight.users_stalled,
        sight.users_seen
    )];
    causes.sort_by(|a, b| b.quarter_s.total_cmp(&a.quarter_s).then(b.now.cmp(&a.now)));
    lines.extend(
        causes.into_iter().take(most).map(|c| {
            format!("· {}: {} now, {} in 15 min, {}", c.words, c.now, c.quarter, seconds(c.quarter_s))
        }),
    );
    lines.extend(sight.users.iter().take(most).map(|u| {
        let now = if u.stalled_now > 0 { format!(", {} now", u.stalled_now) } else { String::new() };
        let cause = u.cause.as_ref().map_or(String::new(), |c| format!(", mostly {}", c.replace('_', " ")));
        format!(
            "· {}: {} in 15 min, longest {}{cause}{now}",
            u.user,
            seconds(u.quarter_s),
            seconds(u.longest_s)
        )
    }));
    let stalls = if sight.stalls_now.is_empty() { &sight.stalls_last } else { &sight.stalls_now };
    lines.extend(stalls.iter().take(most).map(stall));
    lines
}

/// One stall with its evidence.
fn stall(s: &StallJson) -> String {
    let arrow = if s.direction == "down" { "<-" } else { "->" };
    let flow = s.flow.replacen(' ', &format!(" {arrow} "), 1);
    let mut line = format!("· {flow}: {} {}", seconds(s.length_s), s.cause.replace('_', " "));
    if s.lost != "unknown" {
        line += &format!(", lost {}", s.lost);
    }
    if s.timeouts > 0 {
        let plural = if s.timeouts > 1 { "s" } else { "" };
        line += &format!(", {} timeout{plural} (back-off {})", s.timeouts, s.backoff);
    } else if let Some(repair) = &s.repair {
        line += &format!(", {}", repair.replace('_', " "));
    }
    if s.waited_here_s >= 0.1 {
        line += &format!(", waited here {}", seconds(s.waited_here_s));
    }
    line + if s.number == 0 { ", goes on" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_come_by_time_and_a_stall_with_its_evidence() {
        assert!(lines(&SightJson::default(), 5).is_empty());
        let cause = |words: &str, quarter, quarter_s| CauseJson {
            words: words.to_owned(),
            quarter,
            quarter_s,
            ..CauseJson::default()
        };
        let stall = StallJson {
            flow: "10.0.0.7:50000 192.0.2.1:443 tcp".into(),
            direction: "down".into(),
            length_s: 6.5,
            cause: "tail_loss".into(),
            lost: "behind".into(),
            timeouts: 2,
            backoff: 4,
            ..StallJson::default()
        };
        let sight = SightJson {
            causes: vec![cause("handshake lost", 1, 3.0), cause("end of the data lost", 4, 20.0)],
            stalls_now: vec![stall],
            ..SightJson::default()
        };
        let lines = lines(&sight, 5);
        assert_eq!(lines[1], "· end of the data lost: 0 now, 4 in 15 min, 20 s");
        assert_eq!(
            lines[3],
            "· 10.0.0.7:50000 <- 192.0.2.1:443 tcp: 6.5 s tail loss, lost behind, 2 timeouts (back-off 4), goes on"
        );
    }
}
