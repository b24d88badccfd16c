//! The page's files, as they are served. `scripts/explore` copies the same for other web servers.

/// Name of the file that tells the page which engine is behind the page.
pub(crate) const ENGINE: &str = "engine.json";

/// Names and contents.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("index.html", include_str!("../page/index.html")),
    ("explore.css", include_str!("../page/explore.css")),
    ("explore.js", include_str!("../page/explore.js")),
    ("draw.js", include_str!("../page/draw.js")),
    ("engine.js", include_str!("../page/engine.js")),
    ("fields.js", include_str!("../page/fields.js")),
    ("parts.css", include_str!("../../../web/parts.css")),
    ("parts.js", include_str!("../../../web/parts.js")),
    ("worker.js", include_str!("../page/worker.js")),
];

/// Media type of a file.
pub(crate) fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        _ => "application/octet-stream",
    }
}
