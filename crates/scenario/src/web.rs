//! Web settings of traffic: HTTP and pages of known parts, for the lab only; and visits of users who come and go, for
//! simulator and lab.

use std::sync::Arc;

use crate::Transport;

/// Web settings of an entry of traffic, and the visits of the entry's users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Web {
    /// Users who come, fetch, and go; `None` for a closed loop.
    pub visits: Option<Visits>,
    /// The version of HTTP that pages are loaded with.
    pub http: Option<Http>,
    /// Bytes of each object of a page, the document first; `None` where a law draws them.
    pub page: Option<Arc<[u64]>>,
    /// Whether a browser loads the pages.
    pub browser: bool,
}

impl Web {
    /// A key of which only the lab can make anything, and what is expected elsewhere.
    pub(crate) const fn of_lab_only(&self) -> Option<(&'static str, &'static str)> {
        if self.browser {
            Some(("kind", "only the lab has a browser: expected another kind"))
        } else if self.http.is_some() {
            Some(("http", "only the lab speaks HTTP: expected no such key"))
        } else if self.page.is_some() {
            Some(("page", "only the lab loads a page of given parts: expected objects and size"))
        } else {
            None
        }
    }
}

/// An open loop: users come, whatever became of the users before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visits {
    /// Users per second, a Poisson process.
    pub arrivals: f64,
    /// Objects or pages each fetches before going.
    pub fetches: u32,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Http {
    /// HTTP/1.1 (RFC 9112), over TLS.
    One,
    /// HTTP/2 (RFC 9113), over TLS.
    Two,
    /// HTTP/3 (RFC 9114), over QUIC.
    Three,
}

impl Http {
    /// Versions in the order of tables.
    pub const ALL: [Self; 3] = [Self::One, Self::Two, Self::Three];

    /// Word for the version in scenario files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::One => "1.1",
            Self::Two => "2",
            Self::Three => "3",
        }
    }

    /// Transport that carries the version.
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self {
            Self::One | Self::Two => Transport::Tls,
            Self::Three => Transport::Quic,
        }
    }
}

/// The page a browser loads if the file names no other: a document, 2 style sheets, 3 scripts, 24 pictures, 350 kB.
pub(crate) const PAGE: [u64; 30] = [
    20_000, 20_000, 10_000, 45_000, 30_000, 15_000, 2_000, 2_500, 3_000, 3_500, 4_000, 4_500, 5_000, 5_500,
    6_000, 6_500, 7_000, 7_500, 8_000, 8_500, 9_000, 9_500, 10_000, 10_500, 11_000, 12_000, 14_000, 16_000,
    19_000, 25_500,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_size() {
        assert_eq!(PAGE.iter().sum::<u64>(), 350_000);
    }
}
