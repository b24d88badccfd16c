//! Records of the users. Times are seconds since the load began.

use serde::{Deserialize, Serialize};

/// One object, fetched or not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// Number of the user's address.
    pub user: u32,
    /// Number of the person: a permanent user has the number of the address, arriving ones are numbered after all of
    /// these.
    #[serde(default)]
    pub visitor: u32,
    /// Number among the user's connections.
    pub connection: u32,
    /// Body of the object in bytes.
    pub size: u32,
    /// Payload that came, the reply's header included.
    #[serde(default)]
    pub got: u32,
    /// Time at which the user began to connect.
    pub start: f64,
    /// Time at which the connection was established, of the attempt that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<f64>,
    /// Time at which the first byte came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<f64>,
    /// When the last byte came; `None` if it was cut off by the end of the run or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
    /// The longest time without payload, from `start` on; for a cut-off object up to the end of the run.
    pub stall: f64,
    /// The longest time without payload, from `connected` on.
    pub stall_connected: f64,
    /// Time at which the fetch ended, whole or not.
    pub end: f64,
    /// Connection attempts that failed.
    #[serde(default)]
    pub refused: u32,
    /// Times the box answered 503 in the server's stead.
    #[serde(default)]
    pub turned_away: u32,
    /// Whether the connection broke before the object was whole.
    #[serde(default)]
    pub broken: bool,
}

/// One connection that sends for the whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LongRecord {
    /// Number of the user's address.
    pub user: u32,
    /// Time at which the user began to connect.
    pub start: f64,
    /// Time at which the connection was established.
    #[serde(default)]
    pub connected: Option<f64>,
    /// The longest time without payload after the warm-up, up to the end of the run.
    pub stall: f64,
    /// Connection attempts that failed, and connections that broke.
    pub failures: u32,
}

/// One page, loaded or not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PageRecord {
    /// Number of the user's address.
    pub user: u32,
    /// Number of the person, as in [`ObjectRecord::visitor`].
    pub visitor: u32,
    /// Time at which the user began to connect.
    pub start: f64,
    /// Time at which the first byte of the document came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<f64>,
    /// When the last object was whole; `None` if the page was cut off by the end of the run or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
    /// Time at which the load of the page ended, whole or not.
    pub end: f64,
    /// Protocol that loaded the page, as reported by the browser (RFC 7301).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Whether a browser had set out.
    #[serde(skip)]
    pub begun: bool,
    /// Whether a connection broke before the page was whole.
    #[serde(default)]
    pub broken: bool,
    /// Objects of the page, the document first.
    pub parts: Vec<PartRecord>,
    /// Connections of the page.
    pub connects: Vec<ConnectRecord>,
}

impl PageRecord {
    /// Bytes of all objects.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.parts.iter().map(|p| u64::from(p.size)).sum()
    }
}

/// An object of a page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PartRecord {
    /// Body of the object in bytes.
    pub size: u32,
    /// Time at which the object was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
    /// Time at which the object was whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<f64>,
    /// The longest time without a byte of the object since it was asked for; of the document since the page began.
    /// `None` of an object that nobody has asked for, and in a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<f64>,
    /// Time since which the next byte of the object is waited for.
    #[serde(skip)]
    pub waits: Option<f64>,
}

impl PartRecord {
    /// Notes that bytes of the object came, or that nobody waits for them any longer.
    pub fn hear(&mut self, now: f64) {
        let Some(since) = self.waits else { return };
        self.stall = Some(self.stall.unwrap_or(0.0).max(now - since));
        self.waits = Some(now);
    }
}

/// A connection of a page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConnectRecord {
    /// Time at which the user began to connect.
    pub start: f64,
    /// Time at which the connection was established, handshakes included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<f64>,
    /// Payload received over the connection, in bytes.
    pub got: u64,
}

/// One user who came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VisitRecord {
    /// Number of the user's address.
    pub user: u32,
    /// Number of the person, counted on from the permanent users.
    pub visitor: u32,
    /// Time at which the user came.
    pub start: f64,
    /// Time at which the user went; `None` for users present at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<f64>,
}

/// Packets an end of a call sent and got. Times are of the machine's clock, nanoseconds since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallEnd {
    /// Times at which packets were sent.
    pub sent: Vec<u64>,
    /// Send time of each packet that came, and its time on the way in nanoseconds.
    pub came: Vec<(u64, u64)>,
}

/// Packets of all calls at one side.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallEnds {
    /// Time at which the load began; zero at the server, which does not know the time.
    pub began: u64,
    /// Counts of each call, by call number.
    pub ends: Vec<CallEnd>,
}

/// Records of all users.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClientResult {
    /// Every object that was begun.
    pub objects: Vec<ObjectRecord>,
    /// Every long flow.
    pub long: Vec<LongRecord>,
    /// Every page that was begun.
    #[serde(default)]
    pub pages: Vec<PageRecord>,
    /// Visits, one for each user who came.
    #[serde(default)]
    pub visits: Vec<VisitRecord>,
    /// Payload received in each second, by address.
    pub bins: Vec<Vec<u32>>,
    /// Duration of the load, seconds.
    pub lasted: f64,
    /// Each user's longest time without anything while something was awaited, after the warm-up.
    #[serde(default)]
    pub user_stalls: Vec<f64>,
    /// Number of the address of each user in `user_stalls`; arriving users come after all others.
    #[serde(default)]
    pub addresses: Vec<u32>,
    /// Bytes that crossed the thin link towards each group in each second, IP packets and link layer.
    #[serde(default)]
    pub link: Vec<Vec<u64>>,
    /// UDP payload that reached a QUIC connection which was still there, bytes.
    #[serde(default)]
    pub quic_bytes: u64,
    /// Packets of calls at the users, until [`crate::metrics::records`] joins them with the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallEnds>,
}

/// Rounds to tenths of a millisecond: more would be noise in the result file.
fn round(seconds: &mut f64) {
    *seconds = (*seconds * 1e4).round() / 1e4;
}

impl ClientResult {
    /// Drops the digits that no measurement can have.
    pub fn round(&mut self) {
        for o in &mut self.objects {
            let times = [&mut o.start, &mut o.stall, &mut o.stall_connected, &mut o.end];
            times.into_iter().for_each(round);
            [&mut o.connected, &mut o.first_byte, &mut o.done].into_iter().flatten().for_each(round);
        }
        self.user_stalls.iter_mut().for_each(round);
        for p in &mut self.pages {
            [&mut p.start, &mut p.end]
                .into_iter()
                .chain(&mut p.first_byte)
                .chain(&mut p.done)
                .for_each(round);
            let times = |o: &mut PartRecord| {
                [&mut o.start, &mut o.done, &mut o.stall].into_iter().flatten().for_each(round)
            };
            p.parts.iter_mut().for_each(times);
            for c in &mut p.connects {
                std::iter::once(&mut c.start).chain(&mut c.connected).for_each(round);
            }
        }
        for v in &mut self.visits {
            std::iter::once(&mut v.start).chain(&mut v.end).for_each(round);
        }
        for l in &mut self.long {
            [&mut l.start, &mut l.stall].into_iter().chain(&mut l.connected).for_each(round);
        }
    }
}
