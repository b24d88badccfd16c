//! Settings of the page: one row for each, from which the page makes its fields, and by which values are judged.

use narrows_qdisc::Spec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Problem;

/// Most packets that a run may send: some ten seconds of a browser's engine, and 100 MB of what crossed the link.
const MOST_PACKETS: f64 = 1_000_000.0;
/// Seconds of a recorded rate that fit into the address of a page.
const MOST_RATES: usize = 240;

/// Mean size of the simulator's web object, kB.
pub(crate) const WEB_KB: f64 = 7.3;

/// A link, the users who share the link, and the two queues that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Rate towards the users, kbit/s.
    pub rate_kbps: f64,
    /// Rate from the users, kbit/s; 0: as fast as the users' own links.
    pub up_kbps: f64,
    /// Rate in each second, kbit/s, again and again; empty: always `rate_kbps`.
    pub rates_kbps: Vec<f64>,
    /// Round trip without any queue, ms.
    pub rtt_ms: f64,
    /// Packets that the drop-tail queue holds.
    pub buffer: u32,
    /// Packets lost on the wire each way, percent.
    pub loss_percent: f64,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// Users of the web.
    pub users: u32,
    /// `objects` one after another, or `pages`.
    pub load: String,
    /// Mean number of objects of a page.
    pub objects: u32,
    /// Mean size of an object, kB; [`WEB_KB`]: sizes of the web.
    pub object_kb: f64,
    /// Connections of each user at a time.
    pub connections: u32,
    /// Mean pause between two objects or pages, s.
    pub think_s: f64,
    /// Whether objects come over TLS 1.3 where they do not over QUIC.
    pub tls: bool,
    /// Share of the web's users who use QUIC, percent.
    pub quic_percent: f64,
    /// Downloads without end.
    pub downloads: u32,
    /// TCP of all hosts: `linux`, `rfc` or `ns2`.
    pub senders: String,
    /// Calls, each by somebody of its own.
    pub calls: u32,
    /// Shape of a call's packets.
    pub shape: String,
    /// First queue, as scenario files name it; `fifo` alone has the size `buffer`.
    pub a: String,
    /// Second queue.
    pub b: String,
    /// Length of the run, s.
    pub seconds: u32,
    /// Number that decides all that is random.
    pub seed: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate_kbps: 600.0,
            up_kbps: 0.0,
            rates_kbps: Vec::new(),
            rtt_ms: 200.0,
            buffer: 30,
            loss_percent: 0.0,
            mtu: 1500,
            users: 100,
            load: "objects".into(),
            objects: 10,
            object_kb: WEB_KB,
            connections: 1,
            think_s: 0.0,
            tls: false,
            quic_percent: 0.0,
            downloads: 0,
            senders: "linux".into(),
            calls: 0,
            shape: "opus24".into(),
            a: "fifo".into(),
            b: "taq".into(),
            seconds: 60,
            seed: 1,
        }
    }
}

/// Kind of a field, with the values that the field can have.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum FieldKind {
    /// A number within bounds; a slider moves it in steps, or by factors where `log` is set.
    Number {
        /// Least value.
        least: f64,
        /// Largest value.
        most: f64,
        /// Distance of two values.
        step: f64,
        /// Whether equal ways of the slider are equal factors.
        log: bool,
    },
    /// One of some words, each with what people call it.
    Choice {
        /// Words, with what people call them.
        words: &'static [(&'static str, &'static str)],
    },
    /// On or off.
    Flag,
    /// A queue.
    Queue,
    /// Rates of the seconds.
    Rates {
        /// Seconds at most.
        longest: usize,
    },
}

/// A field of the page.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Field {
    /// Name of the field in settings and addresses.
    pub key: &'static str,
    /// Group of fields in which the field stands.
    pub group: &'static str,
    /// Name of the field on the page.
    pub label: &'static str,
    /// Unit of the value; empty if it has none.
    pub unit: &'static str,
    /// Sentence about the field.
    pub about: &'static str,
    /// Values that the field can have.
    #[serde(flatten)]
    pub kind: FieldKind,
}

const LINK: &str = "The link";
const PEOPLE: &str = "The people";
const QUEUES: &str = "Two queues";

const fn number(least: f64, most: f64, step: f64, log: bool) -> FieldKind {
    FieldKind::Number { least, most, step, log }
}

const fn field(
    group: &'static str,
    key: &'static str,
    label: &'static str,
    unit: &'static str,
    kind: FieldKind,
    about: &'static str,
) -> Field {
    Field { key, group, label, unit, about, kind }
}

/// All fields, in the order of the page.
pub const FIELDS: &[Field] = &[
    field(LINK, "rate_kbps", "Rate", "kbit/s", number(20.0, 20_000.0, 1.0, true), "Rate towards the users."),
    field(
        LINK,
        "rtt_ms",
        "Round trip",
        "ms",
        number(1.0, 2000.0, 1.0, true),
        "Round trip without any queue; a satellite has about 600.",
    ),
    field(
        LINK,
        "buffer",
        "Buffer",
        "packets",
        number(1.0, 5000.0, 1.0, true),
        "Packets that drop-tail (fifo) holds; other queues have sizes of their own.",
    ),
    field(
        LINK,
        "up_kbps",
        "Rate upwards",
        "kbit/s",
        number(0.0, 20_000.0, 1.0, false),
        "Rate from the users, with the same queue before it; 0 for more than enough.",
    ),
    field(
        LINK,
        "loss_percent",
        "Loss on the wire",
        "%",
        number(0.0, 20.0, 0.1, false),
        "Packets lost at random each way, whatever the queue does.",
    ),
    field(
        LINK,
        "mtu",
        "Largest packet",
        "bytes",
        number(300.0, 1500.0, 1.0, false),
        "Largest IP packet; the link adds 14 bytes to each.",
    ),
    field(
        LINK,
        "rates_kbps",
        "Rate by the second",
        "kbit/s",
        FieldKind::Rates { longest: MOST_RATES },
        "A recorded rate, one number a second, again and again; empty for a constant rate.",
    ),
    field(
        PEOPLE,
        "users",
        "Users",
        "",
        number(0.0, 1000.0, 1.0, false),
        "People who load something from the web all the time, each from a computer of their own.",
    ),
    field(
        PEOPLE,
        "load",
        "They load",
        "",
        FieldKind::Choice { words: &[("objects", "one object after another"), ("pages", "pages")] },
        "A page has several objects; an object is fetched over a connection of its own.",
    ),
    field(
        PEOPLE,
        "objects",
        "Objects of a page",
        "",
        number(1.0, 100.0, 1.0, false),
        "Mean number of objects; the first comes alone, as it names the others.",
    ),
    field(
        PEOPLE,
        "object_kb",
        "Size of an object",
        "kB",
        number(0.5, 2000.0, 0.1, true),
        "Mean size; 7.3 takes sizes of the web, 2 to 31 kB, any other mean an exponential distribution.",
    ),
    field(
        PEOPLE,
        "connections",
        "Connections each",
        "",
        number(1.0, 16.0, 1.0, false),
        "Objects that a user fetches at a time, at most.",
    ),
    field(
        PEOPLE,
        "think_s",
        "Pause between",
        "s",
        number(0.0, 120.0, 0.1, false),
        "Mean pause of a user before the next object or page.",
    ),
    field(
        PEOPLE,
        "tls",
        "Over TLS",
        "",
        FieldKind::Flag,
        "TLS 1.3 above TCP: a round trip and some packets more for each object.",
    ),
    field(
        PEOPLE,
        "quic_percent",
        "On QUIC",
        "%",
        number(0.0, 100.0, 1.0, false),
        "Share of the users whose pages or objects come over QUIC.",
    ),
    field(
        PEOPLE,
        "downloads",
        "Downloads",
        "",
        number(0.0, 500.0, 1.0, false),
        "Downloads without end, each to a computer of its own.",
    ),
    field(
        PEOPLE,
        "senders",
        "Senders' TCP",
        "",
        FieldKind::Choice {
            words: &[("linux", "Linux"), ("rfc", "the RFCs"), ("ns2", "ns-2, as in the papers")],
        },
        "TCP of the servers and of the users.",
    ),
    field(
        PEOPLE,
        "calls",
        "Calls",
        "",
        number(0.0, 50.0, 1.0, false),
        "Voice calls, each from a computer of its own.",
    ),
    field(
        PEOPLE,
        "shape",
        "Kind of call",
        "",
        FieldKind::Choice {
            words: &[
                ("opus24", "Opus, 40 kbit/s"),
                ("g711", "G.711, 80 kbit/s"),
                ("opus32-40ms", "Opus, 29 kbit/s"),
                ("opus-dtx", "Opus with pauses"),
                ("game", "a game"),
            ],
        },
        "Shape of the packets both ways.",
    ),
    field(
        QUEUES,
        "a",
        "First queue",
        "",
        FieldKind::Queue,
        "Queue before the link in the drawings on the left.",
    ),
    field(
        QUEUES,
        "b",
        "Second queue",
        "",
        FieldKind::Queue,
        "Queue before the link in the drawings on the right, for the same people under the same seed.",
    ),
    field(QUEUES, "seconds", "Length", "s", number(5.0, 1200.0, 1.0, false), "Time that is simulated."),
    field(
        QUEUES,
        "seed",
        "Seed",
        "",
        number(1.0, 1e6, 1.0, false),
        "Number that decides all that is random: the same seed gives the same bytes.",
    ),
];

/// Queues to choose from, with what people call them. Settings may follow a colon.
pub(crate) const QUEUES_KNOWN: &[(&str, &str)] = &[
    ("fifo", "drop-tail"),
    ("taq", "TAQ (Narrows)"),
    ("taq:mode=paper", "TAQ as published"),
    ("cake", "CAKE"),
    ("fq_codel", "FQ-CoDel"),
    ("codel", "CoDel"),
    ("pie", "PIE"),
    ("red", "RED"),
    ("sfq", "SFQ"),
    ("drr", "DRR"),
    ("srpt", "fewest bytes left first (cannot be built)"),
];

/// Choice of one of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// The first queue.
    A,
    /// The second queue.
    B,
}

impl Settings {
    /// Values of a JSON object; what it leaves out is as [`Settings::default`] has it.
    ///
    /// # Errors
    /// A field that is not known or has another kind of value.
    pub fn read(value: &Value) -> Result<Self, Problem> {
        let Some(object) = value.as_object() else {
            return Err(Problem::of("", "expected settings"));
        };
        let read = |value| serde_json::from_value::<Self>(value);
        // Field by field, so that a wrong value is told at its field.
        for (key, value) in object {
            let one = serde_json::json!({ key: value });
            read(one).map_err(|e| Problem::of(key, &format!("{value} is no value here: {e}")))?;
        }
        read(value.clone()).map_err(|e| Problem::of("", &e.to_string()))
    }

    /// Names each value that is not allowed, with the field of the value.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut all = Vec::new();
        let values = serde_json::to_value(self).unwrap_or_default();
        for field in FIELDS {
            let value = &values[field.key];
            match field.kind {
                FieldKind::Number { least, most, .. } => {
                    if !value.as_f64().is_some_and(|v| (least..=most).contains(&v)) {
                        let unit =
                            if field.unit.is_empty() { String::new() } else { format!(" {}", field.unit) };
                        all.push(Problem::of(field.key, &format!("expected {least} to {most}{unit}")));
                    }
                }
                FieldKind::Choice { words } => {
                    if !words.iter().any(|(word, _)| value.as_str() == Some(*word)) {
                        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                        all.push(Problem::of(field.key, &format!("expected {}", known.join(", "))));
                    }
                }
                FieldKind::Queue => {
                    let text = value.as_str().unwrap_or_default();
                    if let Err(why) = self.spec(text) {
                        all.push(Problem::of(field.key, &why));
                    }
                }
                FieldKind::Rates { longest } => {
                    let [least, most] = [0.0, 20_000.0];
                    if self.rates_kbps.len() > longest {
                        all.push(Problem::of(field.key, &format!("expected at most {longest} seconds")));
                    } else if self.rates_kbps.iter().any(|r| !(least..=most).contains(r)) {
                        all.push(Problem::of(field.key, &format!("expected {least} to {most} kbit/s each")));
                    } else if !self.rates_kbps.is_empty() && self.rates_kbps.iter().all(|r| *r < 1.0) {
                        all.push(Problem::of(field.key, "expected a rate above 0 in some second"));
                    }
                }
                FieldKind::Flag => {}
            }
        }
        if all.is_empty() {
            all.extend(self.together());
        }
        all
    }

    /// Names values that cannot be together.
    fn together(&self) -> Vec<Problem> {
        let mut all = Vec::new();
        if self.users + self.downloads + self.calls == 0 {
            all.push(Problem::of("users", "expected at least one user, download or call"));
        }
        if self.tls && self.load == "pages" && self.quic_percent < 100.0 {
            let why = "the simulator has TLS for single objects only: leave it out, or take objects one after another";
            all.push(Problem::of("tls", why));
        }
        if self.tls && self.senders == "ns2" {
            let why = "a sender of ns-2 opens its connections itself, and TLS begins with the user: take another TCP";
            all.push(Problem::of("tls", why));
        }
        if self.quic_users() > 0 && self.mtu < 1228 {
            all.push(Problem::of(
                "mtu",
                "QUIC needs packets of 1228 bytes or more: take nobody on QUIC, or larger ones",
            ));
        }
        let packets = self.mean_kbps() * 1e3 / 8.0 / f64::from(self.mtu) * f64::from(self.seconds);
        if packets > MOST_PACKETS {
            let most = f64::from(self.seconds) * MOST_PACKETS / packets;
            let why =
                format!("{packets:.0} packets are too many for a page: at most {most:.0} s at this rate");
            all.push(Problem::of("seconds", &why));
        }
        all
    }

    /// Users of the web over QUIC.
    #[must_use]
    pub fn quic_users(&self) -> u32 {
        (f64::from(self.users) * self.quic_percent / 100.0).round() as u32
    }

    /// Rate towards the users in a second of the run, kbit/s.
    pub(crate) fn rate_in(&self, second: u32) -> f64 {
        match self.rates_kbps.len() {
            0 => self.rate_kbps,
            n => self.rates_kbps[second as usize % n],
        }
    }

    /// Mean rate towards the users over the run, kbit/s.
    #[must_use]
    pub fn mean_kbps(&self) -> f64 {
        if self.rates_kbps.is_empty() {
            return self.rate_kbps;
        }
        (0..self.seconds).map(|second| self.rate_in(second)).sum::<f64>() / f64::from(self.seconds.max(1))
    }

    /// A queue as scenario files name it.
    ///
    /// # Errors
    /// What is wrong with its name or its settings.
    pub fn spec(&self, text: &str) -> Result<String, String> {
        let text = match text.trim() {
            "fifo" => format!("fifo:{}", self.buffer),
            other => other.to_owned(),
        };
        if text.starts_with("kernel:") {
            return Err("only the lab has queues of the kernel".to_owned());
        }
        if text != "srpt" {
            text.parse::<Spec>().map_err(|e| e.to_string())?;
        }
        Ok(text)
    }

    /// One of the two queues, as scenario files name the queue.
    pub(crate) fn queue(&self, which: Which) -> String {
        let text = if which == Which::A { &self.a } else { &self.b };
        self.spec(text).unwrap_or_else(|_| text.clone())
    }
}
