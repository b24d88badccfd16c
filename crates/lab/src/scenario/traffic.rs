//! Traffic as the lab's workers receive it: groups of users and flows, and their settings.

use std::ops::Range;

use narrows_scenario::{Http, Size, TrafficKind, Transport};
use serde::{Deserialize, Serialize};

use super::{Span, text};

/// Serde by the word scenario files use.
mod transport {
    use narrows_scenario::Transport;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(value: &Transport, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(value.word())
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Transport, D::Error> {
        let word = String::deserialize(d)?;
        Transport::ALL.into_iter().find(|t| t.word() == word).ok_or_else(|| D::Error::custom(word))
    }
}

/// Serde by the word that scenario files use for a version of HTTP.
mod http {
    use narrows_scenario::Http;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(value: &Http, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(value.word())
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Http, D::Error> {
        let word = String::deserialize(d)?;
        Http::ALL.into_iter().find(|h| h.word() == word).ok_or_else(|| D::Error::custom(word))
    }
}

/// Most objects of a page.
const MOST_OBJECTS: u64 = 1_000;
/// A group of users that do the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Traffic {
    /// Closed-loop users: each connection fetches one object after another, a new connection each time.
    Objects {
        /// Number of users, each with an address of its own.
        users: u32,
        /// Parallel connections per user.
        connections: u32,
        /// Pause between objects: the mean of an exponential draw.
        #[serde(with = "text")]
        think: Span,
        /// Bytes of an object.
        #[serde(with = "text")]
        size: Size,
        /// Transport of the objects.
        #[serde(with = "transport")]
        transport: Transport,
        /// Users who come and go; `None` for a closed loop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        visits: Option<Visits>,
    },
    /// Users who load pages over HTTP, one after another.
    Pages {
        /// Number of users, each with an address of its own.
        users: u32,
        /// Parallel connections of HTTP/1.1.
        connections: u32,
        /// Law of a page's objects.
        page: PageLaw,
        /// Pause between pages: the mean of an exponential draw.
        #[serde(with = "text")]
        think: Span,
        /// The version of HTTP.
        #[serde(with = "http")]
        http: Http,
        /// Users who come and go; `None` for a closed loop.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        visits: Option<Visits>,
    },
    /// Real browsers that load a page again and again.
    Browser {
        /// Number of browsers, each with an address of its own.
        users: u32,
        /// Bytes of the page's objects, the document first.
        page: Vec<u64>,
        /// Pause between pages: the mean of an exponential draw.
        #[serde(with = "text")]
        think: Span,
        /// The version of HTTP.
        #[serde(with = "http")]
        http: Http,
    },
    /// Connections that send for the whole run, one to each user.
    Long {
        /// Number of flows.
        flows: u32,
        /// Transport of the flows.
        #[serde(with = "transport")]
        transport: Transport,
        /// Whether users send, and the server counts what comes.
        #[serde(default)]
        up: bool,
    },
}

/// Law of a page's objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageLaw {
    /// Fixed sizes of the objects in bytes, the document first.
    Parts(Vec<u64>),
    /// Random numbers of objects of random sizes.
    Drawn {
        /// Number of objects.
        #[serde(with = "text")]
        objects: Size,
        /// Bytes of each object.
        #[serde(with = "text")]
        size: Size,
    },
}

impl PageLaw {
    /// The sizes of a page; `u` gives uniform numbers in [0, 1).
    pub fn draw(&self, u: &mut impl FnMut() -> f64) -> Vec<u32> {
        // A larger one would not come to its end either.
        let whole = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        match self {
            Self::Parts(sizes) => sizes.iter().map(|n| whole(*n)).collect(),
            Self::Drawn { objects, size } => {
                let n = objects.sample(u).min(MOST_OBJECTS);
                (0..n).map(|_| whole(size.sample(u))).collect()
            }
        }
    }

    /// Mean size of an object.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Parts(sizes) => sizes.iter().sum::<u64>() as f64 / sizes.len() as f64,
            Self::Drawn { size, .. } => size.mean(),
        }
    }
}

/// An open loop: users come, fetch, and go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visits {
    /// Users per second, a Poisson process.
    pub arrivals: f64,
    /// Objects or pages that each connection of a user fetches before the user leaves.
    pub fetches: u32,
    /// Largest number of users who come; `None` for no bound.
    pub most: Option<u32>,
}

impl Visits {
    fn of(traffic: &narrows_scenario::Traffic) -> Option<Self> {
        let visits = traffic.web.visits?;
        Some(Self { arrivals: visits.arrivals, fetches: visits.fetches, most: None })
    }
}

impl Traffic {
    /// Each group with the numbers of its users, which follow those of the group before.
    pub fn groups(all: &[Self]) -> impl Iterator<Item = (Range<u32>, &Self)> {
        all.iter().scan(0_u32, |first, group| {
            let users = *first..first.saturating_add(group.users());
            *first = users.end;
            Some((users, group))
        })
    }

    /// Number of users' addresses that the group takes.
    #[must_use]
    pub const fn users(&self) -> u32 {
        match self {
            Self::Objects { users, .. } | Self::Pages { users, .. } | Self::Browser { users, .. } => *users,
            Self::Long { flows, .. } => *flows,
        }
    }

    /// Whether the users send and do not receive.
    #[must_use]
    pub const fn sends(&self) -> bool {
        matches!(self, Self::Long { up: true, .. })
    }

    /// Transport of the group's data.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Objects { transport, .. } | Self::Long { transport, .. } => *transport,
            Self::Pages { http, .. } | Self::Browser { http, .. } => http.transport(),
        }
    }

    /// Version of HTTP that the group speaks; `None` if the group does not speak HTTP.
    #[must_use]
    pub const fn http(&self) -> Option<Http> {
        match self {
            Self::Pages { http, .. } | Self::Browser { http, .. } => Some(*http),
            Self::Objects { .. } | Self::Long { .. } => None,
        }
    }

    /// Visits of users who come and go; `None` if users stay.
    #[must_use]
    pub const fn visits(&self) -> Option<Visits> {
        match self {
            Self::Objects { visits, .. } | Self::Pages { visits, .. } => *visits,
            Self::Long { .. } | Self::Browser { .. } => None,
        }
    }

    /// Converts an entry of the scenario; `None` if the lab's users cannot do it, which the check of the file has
    /// refused.
    pub(super) fn of(traffic: &narrows_scenario::Traffic, servers: usize) -> Option<Self> {
        let transport = traffic.transport;
        match &traffic.kind {
            TrafficKind::Objects { users, connections, think, size } => Some(Self::Objects {
                users: *users,
                connections: *connections,
                think: (*think).into(),
                size: size.clone(),
                transport,
                visits: Visits::of(traffic),
            }),
            TrafficKind::Pages { users, think, .. } if traffic.web.browser => Some(Self::Browser {
                users: *users,
                page: traffic.web.page.as_deref()?.to_vec(),
                think: (*think).into(),
                http: traffic.web.http?,
            }),
            TrafficKind::Pages { users, connections, objects, size, think } => Some(Self::Pages {
                users: *users,
                connections: *connections,
                page: match &traffic.web.page {
                    Some(parts) => PageLaw::Parts(parts.to_vec()),
                    None => PageLaw::Drawn { objects: objects.clone(), size: size.clone() },
                },
                think: (*think).into(),
                http: traffic.web.http.unwrap_or(if transport == Transport::Quic {
                    Http::Three
                } else {
                    // Parallel connections, as a simulated page has.
                    Http::One
                }),
                visits: Visits::of(traffic),
            }),
            // Each file is a user's who comes for it alone.
            TrafficKind::Files { flows, arrivals: Some(arrivals), users, size } => Some(Self::Objects {
                users: *users,
                connections: 1,
                think: Span::default(),
                size: size.clone(),
                transport,
                visits: Some(Visits { arrivals: *arrivals, fetches: 1, most: *flows }),
            }),
            TrafficKind::Long { flows } => {
                Some(Self::Long { flows: *flows, transport, up: traffic.from != servers })
            }
            _ => None,
        }
    }
}
