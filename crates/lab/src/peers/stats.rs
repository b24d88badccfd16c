//! Counters of `tc -s qdisc`, read from its JSON or its text.

use serde::Serialize;
use serde_json::Value;

/// Counters of a kernel discipline since it was installed. Bytes are Ethernet frames, plus the size table if any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PeerCounters {
    /// The discipline, as `cake`.
    pub kind: String,
    /// Packets that came: those sent, dropped and still waiting. The kernel does not count them by themselves.
    pub arrived: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes of the packets sent.
    pub sent_bytes: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked congestion experienced instead.
    pub marked: u64,
    /// Packets waiting.
    pub backlog_packets: u64,
    /// Bytes of the packets that wait.
    pub backlog_bytes: u64,
}

/// Shapers whose counters repeat those of the leaf below them.
const SHAPERS: [&str; 3] = ["htb", "tbf", "hfsc"];

/// Reads `tc -s -j qdisc show dev X` or `tc -s qdisc show dev X`; `None` if there is no queue in it.
///
/// Of a shaper and its leaf, the leaf counts.
#[must_use]
pub fn parse_tc_stats(text: &str) -> Option<PeerCounters> {
    let mut all = from_json(text).or_else(|| Some(from_text(text)))?;
    for counters in &mut all {
        counters.arrived = counters.sent + counters.dropped + counters.backlog_packets;
    }
    let leaf = all.iter().rposition(|c| !SHAPERS.contains(&c.kind.as_str()));
    let at = leaf.or_else(|| all.len().checked_sub(1))?;
    Some(all.swap_remove(at))
}

fn from_json(text: &str) -> Option<Vec<PeerCounters>> {
    let start = text.find('[')?;
    let list: Value = serde_json::Deserializer::from_str(&text[start..]).into_iter().next()?.ok()?;
    Some(list.as_array()?.iter().filter_map(one).collect())
}

fn one(qdisc: &Value) -> Option<PeerCounters> {
    let count = |key: &str| qdisc[key].as_u64().unwrap_or(0);
    // fq_codel, codel, pie and choke name it ecn_mark or marked at the top; cake counts by tin.
    let by_tin =
        qdisc["tins"].as_array().map_or(0, |tins| tins.iter().filter_map(|t| t["ecn_mark"].as_u64()).sum());
    Some(PeerCounters {
        kind: qdisc["kind"].as_str()?.to_owned(),
        sent: qdisc["packets"].as_u64()?,
        sent_bytes: count("bytes"),
        dropped: count("drops"),
        marked: count("ecn_mark") + count("marked") + by_tin,
        backlog_packets: count("qlen"),
        backlog_bytes: count("backlog"),
        arrived: 0,
    })
}

/// `qdisc cake 8001: root ...`, then ` Sent 1 bytes 2 pkt (dropped 3, ...`, then ` backlog 4b 5p requeues 6`.
fn from_text(text: &str) -> Vec<PeerCounters> {
    let mut all: Vec<PeerCounters> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split([' ', '(', ',', ')']).filter(|w| !w.is_empty()).collect();
        let after = |key: &str| {
            let at = words.iter().position(|w| *w == key)?;
            let digits = words.get(at + 1)?.trim_end_matches(|c: char| !c.is_ascii_digit());
            digits.parse::<u64>().ok()
        };
        if let ["qdisc", kind, ..] = words[..] {
            all.push(PeerCounters { kind: kind.to_owned(), ..PeerCounters::default() });
            continue;
        }
        let Some(last) = all.last_mut() else { continue };
        match words.first() {
            Some(&"Sent") => {
                last.sent_bytes = after("Sent").unwrap_or(0);
                last.sent = after("bytes").unwrap_or(0);
                last.dropped = after("dropped").unwrap_or(0);
            }
            Some(&"backlog") => {
                last.backlog_bytes = after("backlog").unwrap_or(0);
                let packets = words.get(2).and_then(|w| w.trim_end_matches('p').parse().ok());
                last.backlog_packets = packets.unwrap_or(0);
            }
            // cake: one column a tin.
            Some(&"marks") => {
                last.marked += words[1..].iter().filter_map(|w| w.parse::<u64>().ok()).sum::<u64>()
            }
            _ => last.marked += after("ecn_mark").or_else(|| after("marked")).unwrap_or(0),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cake_sums_its_tins() {
        let json = r#"console noise [{"kind":"cake","handle":"8001:","root":true,"options":{"overhead":14},"bytes":1200,
            "packets":3,"drops":2,"overlimits":9,"requeues":0,"backlog":1514,"qlen":1,
            "tins":[{"ecn_mark":4,"drops":1},{"ecn_mark":5,"drops":1}]}] more"#;
        let c = parse_tc_stats(json).unwrap();
        assert_eq!((c.sent, c.sent_bytes, c.dropped, c.marked, c.backlog_packets), (3, 1200, 2, 9, 1));
        assert_eq!((c.arrived, c.kind.as_str(), c.backlog_bytes), (6, "cake", 1514));
    }

    #[test]
    fn the_leaf_counts_not_the_shaper() {
        let json = r#"[{"kind":"htb","packets":10,"bytes":100,"drops":7},
            {"kind":"fq_codel","parent":"1:1","packets":9,"bytes":90,"drops":6,"ecn_mark":2}]"#;
        let c = parse_tc_stats(json).unwrap();
        assert_eq!((c.kind.as_str(), c.sent, c.dropped, c.marked, c.arrived), ("fq_codel", 9, 6, 2, 15));
        let alone = parse_tc_stats(r#"[{"kind":"htb","packets":10,"bytes":100,"drops":7}]"#).unwrap();
        assert_eq!((alone.kind.as_str(), alone.arrived), ("htb", 17));
    }

    #[test]
    fn text_says_the_same() {
        let text = "qdisc htb 1: root refcnt 2 r2q 10 default 0x1\n Sent 9 bytes 9 pkt (dropped 9, overlimits 0 \
         requeues 0)\n\
            qdisc fq_codel 10: parent 1:1 limit 10240p ecn drop_batch 64\n\
            \x20Sent 4242 bytes 17 pkt (dropped 3, overlimits 8 requeues 0)\n\
            \x20backlog 3028b 2p requeues 0\n  maxpacket 1514 drop_overlimit 0 new_flow_count 5 ecn_mark 6\n";
        let c = parse_tc_stats(text).unwrap();
        assert_eq!((c.kind.as_str(), c.sent, c.sent_bytes, c.dropped), ("fq_codel", 17, 4242, 3));
        assert_eq!((c.backlog_bytes, c.backlog_packets, c.marked, c.arrived), (3028, 2, 6, 22));
        let cake = "qdisc cake 8001: root\n Sent 1 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)\n  marks  1  2  \
         3\n";
        assert_eq!(parse_tc_stats(cake).unwrap().marked, 6);
    }

    #[test]
    fn nothing_is_none() {
        for text in ["", "[]", "[{}]", "Sent 3 bytes", "[{\"kind\":1}]", "[[", "Error: no such device"] {
            assert_eq!(parse_tc_stats(text), None, "{text}");
        }
    }
}
