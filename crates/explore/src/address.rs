//! Settings as the fragment of a page's address, which brings a view back.

use serde_json::Value;

use crate::{FIELDS, Settings};

/// Fragment of an address, after the `#`: settings that differ from the defaults, in the order of the fields.
#[must_use]
pub fn fragment(settings: &Settings) -> String {
    let value = |of: &Settings| serde_json::to_value(of).unwrap_or_default();
    let (now, usual) = (value(settings), value(&Settings::default()));
    let differs = FIELDS.iter().filter(|field| now[field.key] != usual[field.key]);
    let all: Vec<String> = differs.map(|field| format!("{}={}", field.key, text(&now[field.key]))).collect();
    all.join("&")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => encoded(text),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(","),
        // A whole number as JavaScript writes it.
        Value::Number(n) => n.as_f64().map_or_else(|| n.to_string(), |v| v.to_string()),
        other => other.to_string(),
    }
}

/// Text without what has a meaning in an address.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b',' => {
                char::from(b).to_string()
            }
            _ => format!("%{b:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_in_the_address() {
        assert_eq!(fragment(&Settings::default()), "");
        let mut settings = Settings { rate_kbps: 256.0, tls: true, ..Settings::default() };
        settings.b = "taq:share=flow".into();
        settings.rates_kbps = vec![100.0, 0.5];
        assert_eq!(fragment(&settings), "rate_kbps=256&rates_kbps=100,0.5&tls=true&b=taq:share%3Dflow");
    }
}
