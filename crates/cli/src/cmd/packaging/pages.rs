//! Pages of the documentation that a package has, in one folder. A link between two of these pages stays; a link to any
//! other page becomes its words.

use std::path::Path;

use anyhow::Context as _;

/// The pages, below `docs`.
const PAGES: [&str; 12] = [
    "how-to/run.md",
    "how-to/service.md",
    "how-to/watch.md",
    "how-to/circuits.md",
    "how-to/calls.md",
    "how-to/plan.md",
    "how-to/diagnose.md",
    "reference/disciplines.md",
    "reference/box.md",
    "reference/metrics.md",
    "reference/diagnosis.md",
    "glossary.md",
];

/// Writes the pages into `into`.
pub(super) fn write(docs: &Path, into: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(into).with_context(|| format!("cannot write into {}", into.display()))?;
    for page in PAGES {
        let path = docs.join(page);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: run this at the top of the repository", path.display()))?;
        let written = into.join(file(page));
        std::fs::write(&written, relinked(&text, page))
            .with_context(|| format!("cannot write {}", written.display()))?;
    }
    Ok(())
}

/// Name of a page in the folder.
fn file(page: &str) -> &str {
    page.rsplit('/').next().unwrap_or(page)
}

/// The text of `page` with its links as they are in the folder.
fn relinked(text: &str, page: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut left = text;
    // The search for a link `[words](target)` begins at `](`, because the words may hold brackets of their own.
    while let Some(middle) = left.find("](") {
        let (before, target) = (&left[..middle], &left[middle + 2..]);
        let end = target.find(')').unwrap_or(0);
        let place = &target[..end];
        let Some(begin) = before.rfind('[').filter(|_| end > 0 && !place.contains(char::is_whitespace))
        else {
            out.push_str(&left[..middle + 2]);
            left = target;
            continue;
        };
        let words = &before[begin + 1..];
        let before = before[..begin].strip_suffix('!').unwrap_or(&before[..begin]);
        out.push_str(before);
        match target_in_folder(place, page) {
            Some(place) => out.push_str(&format!("[{words}]({place})")),
            None => out.push_str(words),
        }
        left = &target[end + 1..];
    }
    out.push_str(left);
    out
}

/// Target of a link of `page` within the folder; `None` if the link leads out of the folder.
fn target_in_folder(place: &str, page: &str) -> Option<String> {
    if place.starts_with('#') || place.starts_with("https://") || place.starts_with("http://") {
        return Some(place.to_owned());
    }
    let (path, anchor) = place.split_once('#').map_or((place, None), |(path, anchor)| (path, Some(anchor)));
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => {
                parts.pop()?;
            }
            "." | "" => {}
            part => parts.push(part),
        }
    }
    let wanted = parts.join("/");
    let page = PAGES.iter().find(|page| **page == wanted)?;
    Some(anchor.map_or_else(|| file(page).to_owned(), |anchor| format!("{}#{anchor}", file(page))))
}

#[cfg(test)]
mod tests {
    use narrows_testing::Scratch;

    use super::*;

    #[test]
    fn links_lead_within_the_folder_or_are_words() {
        for (text, there) in [
            ("see [disciplines](../reference/disciplines.md).", "see [disciplines](disciplines.md)."),
            ("[a key\nof it](../reference/box.md#down) and more", "[a key\nof it](box.md#down) and more"),
            ("as [the lab](lab.md) does", "as the lab does"),
            ("[code](../../crates/box/src/lib.rs), [up](#top)", "code, [up](#top)"),
            ("![Stalls](../pictures/demo.png)", "Stalls"),
            ("[a] [b](https://example.org/x_(y)", "[a] [b](https://example.org/x_(y)"),
            ("`a[0](b c)` stays, and [no end](", "`a[0](b c)` stays, and [no end]("),
        ] {
            assert_eq!(relinked(text, "how-to/run.md"), there, "{text}");
        }
    }

    #[test]
    fn no_page_has_a_link_that_leads_nowhere() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let folder = Scratch::new("pages");
        write(&docs, &folder).unwrap();
        let (mut links, mut words) = (0, 0);
        for page in PAGES {
            let text = std::fs::read_to_string(folder.join(file(page))).unwrap();
            for place in
                text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(place, _)| place)
            {
                if place.starts_with("http") || place.starts_with('#') || place.contains(char::is_whitespace)
                {
                    continue;
                }
                assert!(folder.join(place.split('#').next().unwrap()).is_file(), "{page}: {place}");
                links += 1;
            }
            words += text.len();
        }
        assert!(links > 5 && words > 50_000, "{links} links, {words} bytes");
    }
}
