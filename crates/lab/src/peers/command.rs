//! From a discipline's name to the `tc` commands that install it at a rate.
//!
//! All count a packet as its IP length plus `overhead` bytes. The kernel's own measure is the Ethernet frame (IP + 14),
//! so cake is told `overhead N` (it counts from the IP header, tc-cake(8)) and the others get a size table
//! (`stab overhead N-14`, tc-stab(8)) where N is not 14.
//!
//! A discipline without a shaper of its own becomes the only leaf of an HTB class. HTB and not TBF: TBF pulls the next
//! packet out of its leaf before it may leave, which hides one packet of delay from CoDel and PIE.

use narrows_units::Rate;

/// The Ethernet header: with it all Linux disciplines count what they count by default.
pub const DEFAULT_OVERHEAD: u32 = 14;

/// The largest frame of a 1500-byte link, in bytes.
const FRAME: u64 = 1514;

/// Disciplines that may be the leaf, and the arguments they cannot do without.
const LEAVES: [&str; 12] =
    ["fq_codel", "codel", "fq", "sfq", "pie", "red", "choke", "hhf", "sfb", "netem", "pfifo", "bfifo"];

/// The discipline's name in `cake:besteffort`, `pfifo 30` or `fq_codel limit=100`.
#[must_use]
pub fn kind_of(name_and_args: &str) -> &str {
    name_and_args.trim().split(|c: char| c == ':' || c.is_whitespace()).next().unwrap_or_default()
}

/// The `tc` commands that put discipline `name_and_args` on `{lan}` at `rate`, each packet counted as its IP length
/// plus `overhead` bytes.
///
/// Arguments are `tc`'s own, after a colon or blank, with blanks, commas or equal signs between: `cake`,
/// `cake:besteffort`, `fq_codel target 20ms limit 100`, `sfq:limit=30`, `pfifo 30`, `bfifo:45000`. `red` and `choke`
/// without arguments are sized for 200 ms of queue at the rate.
///
/// # Errors
/// An unknown discipline, or characters that no `tc` argument has.
pub fn kernel_discipline(name_and_args: &str, rate: Rate, overhead: u32) -> Result<Vec<String>, String> {
    let kind = kind_of(name_and_args);
    let rest = &name_and_args.trim()[kind.len()..];
    if let Some(odd) = rest.chars().find(|c| !(c.is_ascii_alphanumeric() || " :,=._%-+/\t".contains(*c))) {
        return Err(format!("kernel:{name_and_args}: '{odd}' belongs in no tc argument"));
    }
    let words: Vec<&str> =
        rest.split(|c: char| ":,=".contains(c) || c.is_whitespace()).filter(|w| !w.is_empty()).collect();
    let bps = rate.as_bps();
    if kind == "cake" {
        let extra = words.join(" ");
        let line =
            format!("tc qdisc replace dev {{lan}} root cake bandwidth {bps}bit overhead {overhead} {extra}");
        return Ok(vec![line.trim_end().to_owned()]);
    }
    if !LEAVES.contains(&kind) {
        return Err(format!("kernel:{kind}: expected cake, {}", LEAVES.join(", ")));
    }
    let leaf = leaf_arguments(kind, &words, rate);
    // One frame; above 1.2 Mbit/s 10 ms of the rate (tc-tbf(8): rate / HZ, and a kernel's HZ is at least 100): what a
    // shaper that a busy machine wakes late can catch up on.
    let burst = FRAME.max(bps / 800);
    Ok(vec![
        format!("tc qdisc replace dev {{lan}} root handle 1: {}htb default 1", size_table(overhead)),
        format!(
            "tc class replace dev {{lan}} parent 1: classid 1:1 htb rate {bps}bit ceil {bps}bit burst {burst} cburst \
             {burst} quantum {FRAME}"
        ),
        format!("tc qdisc replace dev {{lan}} parent 1:1 handle 10: {kind} {leaf}").trim_end().to_owned(),
    ])
}

/// `stab` for a link whose packets weigh other than their Ethernet frame.
fn size_table(overhead: u32) -> String {
    let beyond = i64::from(overhead) - i64::from(DEFAULT_OVERHEAD);
    if beyond == 0 { String::new() } else { format!("stab overhead {beyond} linklayer ethernet ") }
}

fn leaf_arguments(kind: &str, words: &[&str], rate: Rate) -> String {
    let bare_number = words.len() == 1 && words[0].starts_with(|c: char| c.is_ascii_digit());
    match kind {
        _ if bare_number && !matches!(kind, "netem" | "red") => format!("limit {}", words[0]),
        "red" if words.is_empty() => {
            // tc-red(8): limit well above max, max at least twice min, burst = (2 min + max) / (3 avpkt).
            let (min, max, limit, burst) = red_sizes(rate);
            let bps = rate.as_bps();
            format!(
                "limit {limit} min {min} max {max} avpkt 1000 burst {burst} bandwidth {bps}bit probability 0.1"
            )
        }
        "choke" if words.is_empty() => {
            let (min, max, limit, burst) = red_sizes(rate);
            let packets = |bytes: u64| (bytes / 1000).max(1);
            format!(
                "limit {} bandwidth {}bit min {} max {} burst {burst}",
                packets(limit),
                rate.as_bps(),
                packets(min),
                packets(max)
            )
        }
        "netem" if words.is_empty() => "delay 0ms".into(),
        _ => words.join(" "),
    }
}

/// RED's thresholds in bytes and burst in packets of 1000 B: `max` is 200 ms of the rate, but never below ten frames.
fn red_sizes(rate: Rate) -> (u64, u64, u64, u64) {
    let max = (rate.as_bps() / 40).max(10 * FRAME);
    let min = max / 3;
    (min, max, max * 4, (2 * min + max).div_ceil(3 * 1000))
}

/// Puts the devices' names into a command.
pub(super) fn fill(line: &str, lan: &str, wan: &str) -> String {
    line.replace("{lan}", lan).replace("{wan}", wan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_600(text: &str, overhead: u32) -> Vec<String> {
        kernel_discipline(text, Rate::from_kbps(600), overhead).unwrap()
    }

    #[test]
    fn cake_shapes_itself() {
        assert_eq!(
            at_600("cake", 14),
            ["tc qdisc replace dev {lan} root cake bandwidth 600000bit overhead 14"]
        );
        assert!(at_600("cake:besteffort,rtt=300ms", 22)[0].ends_with("overhead 22 besteffort rtt 300ms"));
    }

    #[test]
    fn others_are_leaves_of_htb() {
        let fq = at_600("fq_codel", 14);
        assert_eq!(fq.len(), 3);
        assert_eq!(fq[0], "tc qdisc replace dev {lan} root handle 1: htb default 1");
        assert!(fq[1].contains("rate 600000bit ceil 600000bit burst 1514 cburst 1514"), "{}", fq[1]);
        assert_eq!(fq[2], "tc qdisc replace dev {lan} parent 1:1 handle 10: fq_codel");
        // IP length + 4 is ten bytes less than the Ethernet frame.
        assert!(at_600("sfq", 4)[0].contains("stab overhead -10 linklayer ethernet htb"));
        for text in ["pfifo 30", "pfifo:30", "pfifo limit=30"] {
            assert!(at_600(text, 14)[2].ends_with("pfifo limit 30"), "{text}");
        }
    }

    #[test]
    fn red_by_hand() {
        // 200 ms of 600 kbit/s is 15 000 B, just under ten frames of 1514 B.
        assert_eq!(red_sizes(Rate::from_kbps(600)), (5046, 15_140, 60_560, 9));
        // 200 ms of 10 Mbit/s: 250 000 B; burst (2 * 83 333 + 250 000) / 3000 = 138.9.
        assert_eq!(red_sizes(Rate::from_kbps(10_000)), (83_333, 250_000, 1_000_000, 139));
        assert!(at_600("red", 14)[2].contains("min 5046 max 15140 avpkt 1000 burst 9"));
        assert!(at_600("red limit 9000 avpkt 500", 14)[2].ends_with("red limit 9000 avpkt 500"));
    }

    #[test]
    fn nonsense_is_refused_with_a_remedy() {
        let rate = Rate::from_kbps(600);
        assert!(kernel_discipline("fq_codell", rate, 14).unwrap_err().contains("expected cake, fq_codel"));
        assert!(kernel_discipline("cake; rm -rf", rate, 14).is_err());
        assert!(kernel_discipline("cake $(id)", rate, 14).is_err());
        assert!(kernel_discipline("", rate, 14).is_err());
    }

    #[test]
    fn placeholders() {
        assert_eq!(fill("a {lan} b {wan} {lan}", "x", "y"), "a x b y x");
    }
}
