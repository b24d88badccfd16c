//! Links that people have, to begin from.

use serde_json::{Value, json};

/// A link to begin from.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name of the preset in the page's list.
    pub key: &'static str,
    /// Name of the preset for people.
    pub name: &'static str,
    /// Sentence about the link and the link's users.
    pub about: &'static str,
    /// Settings that differ from the defaults, as JSON.
    pub settings: &'static str,
}

impl Preset {
    /// The settings, which a test reads.
    #[must_use]
    pub fn values(&self) -> Value {
        serde_json::from_str(self.settings).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "key": self.key, "name": self.name, "about": self.about, "settings": self.values() })
    }
}

/// All presets; the first is what the page begins with.
pub const PRESETS: &[Preset] = &[
    Preset {
        key: "village",
        name: "A village on a satellite dish",
        about: "100 people load one thing after another over 600 kbit/s.",
        settings: "{}",
    },
    Preset {
        key: "school",
        name: "A school's DSL",
        about: "40 pupils load pages over a line of 2 Mbit/s to them and 256 kbit/s from them.",
        settings: r#"{
            "rate_kbps": 2000, "up_kbps": 256, "rtt_ms": 50, "buffer": 64, "users": 40, "load": "pages",
            "connections": 6, "think_s": 10, "quic_percent": 30
        }"#,
    },
    Preset {
        key: "ship",
        name: "A ship's VSAT",
        about: "60 of the crew share 1 Mbit/s by a satellite 36 000 km away, and one calls home.",
        settings: r#"{
            "rate_kbps": 1000, "up_kbps": 256, "rtt_ms": 600, "buffer": 100, "loss_percent": 0.1, "users": 60,
            "quic_percent": 40, "calls": 1
        }"#,
    },
    Preset {
        key: "lte",
        name: "A village's LTE",
        about: "50 people behind a mast whose rate swings; the rates are invented, a file can bring measured ones.",
        settings: r#"{
            "rates_kbps": [2600, 2700, 2000, 1400, 1900, 2400, 2900, 2500, 1600, 900, 400, 200, 300, 700, 1300,
            2100, 2900, 3600, 3000, 1700, 800, 300, 100, 0, 0, 100, 500, 1200, 1900, 2300, 2700, 3100, 2800, 2200,
            1500, 1100, 700, 500, 900, 1600], "up_kbps": 800, "rtt_ms": 70, "buffer": 150, "users": 50,
            "load": "pages", "connections": 4, "objects": 8, "think_s": 5, "quic_percent": 50
        }"#,
    },
    Preset {
        key: "bus",
        name: "A bus",
        about: "25 passengers on one modem of 1.5 Mbit/s, two of them with downloads that never end.",
        settings: r#"{
            "rate_kbps": 1500, "up_kbps": 500, "rtt_ms": 90, "buffer": 80, "loss_percent": 0.3, "users": 25,
            "quic_percent": 50, "downloads": 2, "think_s": 2
        }"#,
    },
    Preset {
        key: "clinic",
        name: "A clinic",
        about: "12 people and a doctor's call on 512 kbit/s, while two computers fetch updates.",
        settings: r#"{
            "rate_kbps": 512, "up_kbps": 128, "rtt_ms": 120, "buffer": 50, "users": 12, "think_s": 2,
            "downloads": 2, "calls": 1
        }"#,
    },
    Preset {
        key: "office",
        name: "An office of 50",
        about: "50 people load pages over 10 Mbit/s, with four calls: a link with room for everyone.",
        settings: r#"{
            "rate_kbps": 10000, "up_kbps": 2000, "rtt_ms": 30, "buffer": 200, "users": 50, "load": "pages",
            "connections": 6, "objects": 12, "think_s": 8, "quic_percent": 40, "calls": 4, "b": "cake"
        }"#,
    },
    Preset {
        key: "demo",
        name: "The demo",
        about: "Load of `make demo`, which has real stacks: 100 users on 600 kbit/s, half over QUIC, half over TLS.",
        settings: r#"{"rtt_ms": 100, "tls": true, "quic_percent": 50, "think_s": 0.05, "seconds": 80}"#,
    },
    Preset {
        key: "figure",
        name: "A paper's figure",
        about: "TAQ, figure 8: 120 endless flows of 5 kbit/s each, packets of 500 bytes, a buffer of one round trip.",
        settings: r#"{
            "mtu": 500, "rtt_ms": 200, "users": 0, "downloads": 120, "senders": "ns2", "seconds": 120,
            "b": "taq:mode=paper,admission=off,packet=500"
        }"#,
    },
];
