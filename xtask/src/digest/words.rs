//! Old words and new ones. A digest writes every name and every text cell in the new words, so that outputs of a
//! program from before a renaming and of one from after it can be compared. Numbers are never touched.
//!
//! To extend: a pair in [`RENAMED`]. What is listed on the right is left alone wherever it stands, so a pair may have
//! its old word inside its new one.

/// Old word, new word. A word matches where no letter or digit stands beside it; the longest match counts.
const RENAMED: &[(&str, &str)] = &[
    // Keys of disciplines, as they stand in specs.
    ("clamp", "window_clamp"),
    ("clamp_min", "window_clamp_min"),
    ("clamp_max", "window_clamp_max"),
    ("door=", "waiting_syn="),
    ("line_rounds", "wait_rounds"),
    ("front", "retransmissions_first"),
    ("new_first", "new_flows_first"),
    ("new_bytes", "new_quantum"),
    ("swallow", "suppress_duplicates"),
    ("swallow_departed", "suppress_departed"),
    ("taq:paper", "taq:mode=paper"),
    // Figures, tables and their text.
    ("door", "admission"),
    ("swallowed", "suppressed"),
    ("hang", "stall"),
    ("hangs", "stalls"),
    ("silence", "stall"),
    ("silences", "stalls"),
    ("silent", "stalled"),
    ("newcomers", "new_flows"),
];

/// Text in the new words, with settings in one order.
pub fn canonical(text: &str) -> String {
    if text.parse::<f64>().is_ok() {
        return text.to_owned();
    }
    ordered(&renamed(text))
}

/// A specification in the words from before the renaming.
pub fn former(spec: &str) -> String {
    let Some((name, settings)) = spec.split_once(':') else { return spec.to_owned() };
    let old = |setting: &str| -> String {
        if setting == "share=user" {
            return "share=pool".to_owned();
        }
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let pair = RENAMED.iter().find(|(_, new)| new.trim_end_matches('=') == key);
        pair.map_or_else(|| setting.to_owned(), |(old, _)| format!("{}={value}", old.trim_end_matches('=')))
    };
    format!("{name}:{}", settings.split(',').map(old).collect::<Vec<_>>().join(","))
}

fn renamed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let begins = !out.ends_with(|c: char| c.is_ascii_alphanumeric());
        let (taken, put) =
            if begins { longest(rest) } else { None }.unwrap_or((c.len_utf8(), &rest[..c.len_utf8()]));
        out.push_str(put);
        rest = &rest[taken..];
    }
    out
}

/// Longest known word at the beginning of `text`: its length, and its present name.
fn longest(text: &str) -> Option<(usize, &'static str)> {
    let ends = |word: &str| {
        let after = text[word.len()..].chars().next();
        !word.ends_with(|c: char| c.is_ascii_alphanumeric())
            || !after.is_some_and(|c| c.is_ascii_alphanumeric())
    };
    let words = RENAMED.iter().flat_map(|&(old, new)| [(old, new), (new, new)]);
    // Among equal words the old one counts: a renamed word that is also the new name of another keeps its old meaning.
    let found = words.filter(|(word, _)| text.starts_with(word) && ends(word));
    found.max_by_key(|(word, _)| word.len()).map(|(word, new)| (word.len(), new))
}

/// A specification of a discipline with its settings sorted: their order in the text follows the order of the keys in
/// the program, and means nothing.
fn ordered(text: &str) -> String {
    let Some((name, settings)) = text.split_once(':') else { return text.to_owned() };
    let plain = |s: &str, more: &str| s.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c));
    if name.is_empty() || !plain(name, "_") || !settings.contains('=') || !plain(settings, "_=,.{}()*/+-") {
        return text.to_owned();
    }
    let mut settings: Vec<&str> = settings.split(',').collect();
    if name == "taq" && !settings.contains(&"mode=paper") {
        // The setting `packet` never had a meaning in the other mode, where it can no longer be written.
        settings.retain(|s| !s.starts_with("packet="));
    }
    settings.sort_unstable();
    if settings.is_empty() { name.to_owned() } else { format!("{name}:{}", settings.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::{canonical, former};

    #[test]
    fn old_and_new_words_come_out_alike() {
        for (old, new) in [
            ("taq:swallow=off", "taq:suppress_duplicates=off"),
            ("taq:swallow_departed=off,clamp=off", "taq:window_clamp=off,suppress_departed=off"),
            ("taq:door=hold", "taq:waiting_syn=hold"),
            ("door_wait_p50_s", "admission_wait_p50_s"),
            ("user_hang_over_20s", "user_stall_over_20s"),
            ("longest_silence", "longest_stall"),
            ("taq/sec2-hangs", "taq/sec2-stalls"),
            ("taq:paper", "taq:mode=paper"),
        ] {
            assert_eq!(canonical(old), canonical(new), "{old}, {new}");
            assert_eq!(canonical(&canonical(old)), canonical(old), "{old}");
        }
    }

    #[test]
    fn other_words_and_numbers_stay() {
        for text in ["outdoor", "clamped", "frontier", "12.5", "1e300", "", "http://a:b=c", "fifo:30", "Öl"]
        {
            assert_eq!(canonical(text), text);
        }
    }

    #[test]
    fn settings_have_their_former_names() {
        assert_eq!(former("taq:window_clamp=off,memory_packets=60"), "taq:clamp=off,memory_packets=60");
        assert_eq!(former("taq:waiting_syn=drop"), "taq:door=drop");
        assert_eq!(former("fifo:30"), "fifo:30");
        assert_eq!(former("taq"), "taq");
    }

    #[test]
    fn settings_have_one_order() {
        assert_eq!(canonical("red:packet=500,gentle=off"), canonical("red:gentle=off,packet=500"));
        assert_ne!(canonical("red:packet=500"), canonical("red:packet=501"));
        assert_eq!(canonical("taq:admission=off,packet=500"), canonical("taq:admission=off"));
    }
}
