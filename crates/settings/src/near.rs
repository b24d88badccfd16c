//! Words that were probably meant.

/// `one of a, b, c`, or the one that was probably meant.
#[must_use]
pub fn one_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("'{near}'?"),
        None => format!("one of {}", known.join(", ")),
    }
}

/// The known word nearest to `word`, if it is near: at most a third of its letters changed, moved, missing or too many.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long words are no slips of the hand.
    let allowed = (word.chars().take(64).count() / 3).max(1);
    known
        .into_iter()
        .map(|k| (distance(word, k), k))
        // Words that share nothing are not near, however short.
        .filter(|(d, k)| *d <= allowed && *d < word.len().max(k.len()))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Optimal string alignment: insertions, deletions, substitutions, swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let differ = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + differ);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word() {
        let known = ["users", "flows", "rate", "rtt", "warmup"];
        assert_eq!(nearest("user", known), Some("users"));
        assert_eq!(nearest("warm_up", known), Some("warmup"));
        assert_eq!(nearest("rtae", known), Some("rate"));
        assert_eq!(nearest("zzz", known), None);
    }
}
