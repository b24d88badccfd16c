//! Lines about stalls: who stalls, and why.

use narrows_box::{CauseJson, SightJson, StallJson, TalkerJson, UserJson};

use super::{seconds, size};
use crate::cmd::bits;

/// A line, and whether it tells of something that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub odd: bool,
}

/// Lines about stalls, at most `most` of each kind: causes, users, stalls in progress or, if there are none, the
/// last ones.
pub fn lines(sight: &SightJson, most: usize) -> Vec<Line> {
    let mut lines = vec![connections(sight)];
    lines.retain(|line| !line.text.is_empty());
    if sight.users_stalled_lately > 0 {
        let text = format!(
            "users: {} of {} stall now; {} stalled in 15 min, {} of them for more than 5 s at once",
            sight.users_stalled, sight.users_seen, sight.users_stalled_lately, sight.users_stalled_long
        );
        lines.push(Line { text, odd: true });
    }
    let mut causes: Vec<&CauseJson> = sight.causes.iter().filter(|c| c.now > 0 || c.quarter > 0).collect();
    causes.sort_by(|a, b| b.quarter_share.total_cmp(&a.quarter_share).then(b.now.cmp(&a.now)));
    lines.extend(causes.into_iter().take(most).map(cause));
    lines.extend(sight.users.iter().filter(|u| u.stalled_s > 0.0).take(most).map(|u| user(u, sight)));
    let is_of_the_network = |s: &&StallJson| {
        let cause = sight.causes.iter().find(|c| c.cause == s.cause);
        cause.is_none_or(|c| c.network)
    };
    let stalls = if sight.stalls_now.is_empty() { &sight.stalls_last } else { &sight.stalls_now };
    lines.extend(stalls.iter().filter(is_of_the_network).take(most).map(|s| stall(s, sight)));
    lines.extend(talkers(&sight.talkers, most));
    lines
}

/// Users with most traffic, below a line that says so.
fn talkers(all: &[TalkerJson], most: usize) -> Vec<Line> {
    let plain = |text| Line { text, odd: false };
    let head = (!all.is_empty()).then(|| plain("most traffic in the last hour, down and up:".to_owned()));
    head.into_iter().chain(all.iter().take(most).map(|t| plain(talker(t)))).collect()
}

fn talker(t: &TalkerJson) -> String {
    let [down, up] = t.hour_bytes.map(|bytes| size(bytes as f64));
    let [rate_down, rate_up] = t.rate_bps.map(|bps| bits(bps as f64));
    let [offered, left] = [&t.hour_offered_bytes, &t.hour_bytes].map(|[down, up]| (down + up) as f64);
    let part = 100.0 * (left / offered.max(1.0)).min(1.0);
    let wait = seconds(t.hour_wait_s);
    format!(
        "· {}: {down} and {up}, {part:.0} % of what came; now {rate_down} and {rate_up}; packets wait {wait}",
        who(&t.user, t.name.as_deref())
    )
}

/// All connections by state, which add up; no text if there are none.
fn connections(sight: &SightJson) -> Line {
    let state = |name: &str| sight.states.get(name).copied().unwrap_or(0);
    let all: u32 = sight.states.values().sum();
    let turn = sight.turn_s.into_iter().fold(0.0, f64::max);
    let each = if state("waiting") > 0 && turn > 0.0 {
        format!(" (normal on a full link: {} each)", seconds(turn))
    } else {
        String::new()
    };
    let text = format!(
        "connections: {all}, of these {} moving, {} waiting their turn{each}, {} stalled, {} opening, {} idle",
        state("moving"),
        state("waiting"),
        state("stalled"),
        state("opening"),
        state("idle"),
    );
    Line { text: if all > 0 { text } else { String::new() }, odd: state("stalled") > 0 }
}

fn cause(c: &CauseJson) -> Line {
    let text = if c.network {
        let share = c.quarter_share * 100.0;
        format!("· {}: {} now, {} in 15 min, {share:.0} % of the stalled time", c.words, c.now, c.quarter)
    } else {
        format!("· not the network, {}: {} now, {} in 15 min", c.words, c.now, c.quarter)
    };
    Line { text, odd: c.network }
}

/// User, with the host's name before it if the name is known.
fn who(user: &str, name: Option<&str>) -> String {
    name.map_or_else(|| user.to_owned(), |name| format!("{name} ({user})"))
}

/// A cause in the words of `narrows diagnose`.
fn worded(cause: &str, sight: &SightJson) -> String {
    let known = sight.causes.iter().find(|c| c.cause == cause && !c.words.is_empty());
    known.map_or_else(|| cause.replace('_', " "), |c| c.words.clone())
}

fn user(u: &UserJson, sight: &SightJson) -> Line {
    let now = match u.stalled_now {
        0 => String::new(),
        1 => ", 1 connection now".to_owned(),
        n => format!(", {n} connections now"),
    };
    let cause = u.cause.as_ref().map_or(String::new(), |c| format!(", mostly {}", worded(c, sight)));
    let (stalled, longest) = (seconds(u.stalled_s), seconds(u.longest_s));
    Line {
        text: format!(
            "· {}: stalled for {stalled} in 15 min, longest {longest}{cause}{now}",
            who(&u.user, u.name.as_deref())
        ),
        odd: true,
    }
}

/// Line about a stall and the evidence for its cause.
fn stall(s: &StallJson, sight: &SightJson) -> Line {
    let arrow = if s.direction == "down" { "<-" } else { "->" };
    let flow = s.flow.replacen(' ', &format!(" {arrow} "), 1);
    let so_far = if s.number == 0 { " so far" } else { "" };
    let mut text =
        format!("· {flow}: stalled for {}{so_far}, {}", seconds(s.length_s), worded(&s.cause, sight));
    match s.lost.as_str() {
        "unknown" => {}
        "here" => text += ", dropped by the box",
        "both" => text += ", lost in several places",
        place => text += &format!(", lost {place} the box"),
    }
    if s.timeouts > 0 {
        let plural = if s.timeouts > 1 { "s" } else { "" };
        text += &format!(", {} timeout{plural} (back-off {})", s.timeouts, s.backoff);
    } else if let Some(repair) = &s.repair {
        text += &format!(", {}", repair.replace('_', " "));
    }
    Line { text, odd: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_come_by_time_and_a_stall_with_its_evidence() {
        assert!(lines(&SightJson::default(), 5).is_empty());
        let cause = |words: &str, quarter, quarter_share, network| CauseJson {
            cause: if words == "last data of a transfer lost" {
                "tail_loss".to_owned()
            } else {
                words.to_owned()
            },
            words: words.to_owned(),
            quarter,
            quarter_share,
            network,
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
            causes: vec![
                cause("handshake lost", 1, 0.25, true),
                cause("last data of a transfer lost", 4, 0.75, true),
                cause("nothing to send", 2, 0.0, false),
            ],
            states: [("moving".to_owned(), 3), ("waiting".to_owned(), 5), ("idle".to_owned(), 2)].into(),
            turn_s: [0.8, 0.1],
            users_seen: 20,
            users_stalled_lately: 2,
            stalls_now: vec![stall],
            ..SightJson::default()
        };
        let lines = lines(&sight, 5);
        let said: Vec<(&str, bool)> = lines.iter().map(|l| (l.text.as_str(), l.odd)).collect();
        assert_eq!(
            said,
            [
                (
                    "connections: 10, of these 3 moving, 5 waiting their turn (normal on a full link: 0.8 s each), \
                     0 stalled, 0 opening, 2 idle",
                    false
                ),
                ("users: 0 of 20 stall now; 2 stalled in 15 min, 0 of them for more than 5 s at once", true),
                ("· last data of a transfer lost: 0 now, 4 in 15 min, 75 % of the stalled time", true),
                ("· handshake lost: 0 now, 1 in 15 min, 25 % of the stalled time", true),
                ("· not the network, nothing to send: 0 now, 2 in 15 min", false),
                (
                    "· 10.0.0.7:50000 <- 192.0.2.1:443 tcp: stalled for 6.5 s so far, last data of a transfer lost, \
                     lost behind the box, 2 timeouts (back-off 4)",
                    true
                ),
            ]
        );
    }

    /// 20 MB of 25 MB that came are 80 %.
    #[test]
    fn users_with_most_traffic_are_named() {
        let talker = TalkerJson {
            user: "10.0.0.7".into(),
            name: Some("laptop".into()),
            rate_bps: [512_000, 8_000],
            hour_offered_bytes: [24_000_000, 1_000_000],
            hour_bytes: [19_000_000, 1_000_000],
            hour_wait_s: 0.42,
            week_bytes: [19_000_000, 1_000_000],
        };
        let lines = lines(&SightJson { talkers: vec![talker], ..SightJson::default() }, 5);
        let said: Vec<&str> = lines.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(
            said,
            [
                "most traffic in the last hour, down and up:",
                "· laptop (10.0.0.7): 19.0 MB and 1.0 MB, 80 % of what came; now 512.0 kbit/s and 8.0 kbit/s; \
                 packets wait 0.4 s",
            ]
        );
    }
}
