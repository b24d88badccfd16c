//! Content of the lab's web server: bodies of any size, and a page for browsers. The path alone determines the content.
//!
//! `/9000` is a body of 9000 bytes. `/page/20000,8000,...` is a document of the first size with links to the others:
//! two style sheets, three scripts, and pictures, as `/css/8000`, `/js/8000` and `/svg/8000`, each valid and padded.

use std::fmt::Write as _;

use bytes::Bytes;

/// Largest body, so that a wrong path does not eat the machine's memory.
const MOST: usize = 100_000_000;
/// Number of objects after the document that are style sheets, and number of scripts after those.
const SHEETS: usize = 2;
const SCRIPTS: usize = 3;

/// Content type and body at a path.
pub(super) fn content(path: &str) -> Option<(&'static str, Bytes)> {
    let path = path.split('?').next()?.strip_prefix('/')?;
    let sized = |size: &str| size.parse().ok().filter(|n| *n <= MOST);
    let (kind, rest) = path.split_once('/').unwrap_or(("", path));
    let (content_type, head, filler, tail) = match kind {
        "" => ("application/octet-stream", String::new(), b'.', ""),
        "css" => ("text/css", "/*".to_owned(), b'.', "*/"),
        "js" => ("text/javascript", "/*".to_owned(), b'.', "*/"),
        "svg" => {
            let head = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"8\" height=\"8\"/>";
            ("image/svg+xml", head.to_owned(), b' ', "")
        }
        "page" => {
            let sizes: Vec<usize> = rest.split(',').map(sized).collect::<Option<_>>()?;
            return Some((
                "text/html",
                padded(&document(&sizes), b'.', "--></body></html>", *sizes.first()?),
            ));
        }
        _ => return None,
    };
    Some((content_type, padded(&head, filler, tail, sized(rest)?)))
}

/// The path of a page.
pub(super) fn page_path(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    format!("/page/{}", sizes.join(","))
}

/// A document that needs all objects before it is loaded; ends within a comment.
fn document(sizes: &[usize]) -> String {
    let mut html = "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>lab</title>".to_owned();
    for (i, size) in sizes.iter().enumerate().skip(1) {
        if i == SHEETS + SCRIPTS + 1 {
            html.push_str("</head><body>");
        }
        // Different addresses, or a browser would fetch two of one size once.
        let _ = if i <= SHEETS {
            write!(html, "<link rel=\"stylesheet\" href=\"/css/{size}?{i}\">")
        } else if i <= SHEETS + SCRIPTS {
            write!(html, "<script src=\"/js/{size}?{i}\"></script>")
        } else {
            write!(html, "<img src=\"/svg/{size}?{i}\" alt=\"\">")
        };
    }
    html.push_str("<!--");
    html
}

/// `head` and `tail` with so much of `filler` between that the whole has `size` bytes; no shorter than the two.
fn padded(head: &str, filler: u8, tail: &str, size: usize) -> Bytes {
    let mut body = head.as_bytes().to_vec();
    body.resize(size.saturating_sub(tail.len()).max(body.len()), filler);
    body.extend_from_slice(tail.as_bytes());
    body.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_size_asked_for() {
        for (path, kind) in [
            ("/9000", "application/octet-stream"),
            ("/css/9000?1", "text/css"),
            ("/js/9000", "text/javascript"),
            ("/svg/9000", "image/svg+xml"),
            ("/page/9000,10,10,10", "text/html"),
        ] {
            let (content_type, body) = content(path).unwrap();
            assert_eq!((content_type, body.len()), (kind, 9_000), "{path}");
        }
        for path in ["", "/", "/x", "/css/x", "/png/9", "/page/", "/page/9,x", "/999999999999"] {
            assert!(content(path).is_none(), "{path}");
        }
    }

    #[test]
    fn a_page_links_all_its_objects() {
        let sizes: Vec<u64> = std::iter::once(5_000).chain([300; 29]).collect();
        let html = content(&page_path(&sizes)).unwrap().1;
        let html = std::str::from_utf8(&html).unwrap();
        let count = |what: &str| html.matches(what).count();
        assert_eq!((count("/css/300?"), count("/js/300?"), count("/svg/300?")), (2, 3, 24));
        assert!(html.ends_with("--></body></html>"));
    }
}
