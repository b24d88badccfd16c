//! JSON written piece by piece, so that memory is that of the open connections.

use std::io::{self, BufWriter, Write};

use anyhow::Context as _;
use narrows_diagnose::{FlowReport, Overall, QuicReport};
use serde_json::{Value, json};

/// Version of the form: it goes up when a name changes its meaning or goes.
const SCHEMA: u32 = 2;

/// Writer of JSON that writes each connection when the connection ends.
pub struct Stream<W: Write> {
    out: BufWriter<W>,
    /// Text before the first connection; empty once the text is written.
    head: String,
    flows: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Stream<W> {
    pub fn new(out: W, captures: &[String], origin: Option<i128>) -> Self {
        let head = json!({
            "schema": SCHEMA,
            "version": env!("CARGO_PKG_VERSION"),
            "captures": captures,
            "origin_s": origin.map(|ns| ns as f64 / 1e9),
        });
        // The object goes on: flows are written as they end.
        let head = format!("{},\n\"flows\": [\n", head.to_string().trim_end_matches('}'));
        Self { out: BufWriter::new(out), head, flows: 0, failed: None }
    }

    fn text(&mut self, text: &str) {
        let head = std::mem::take(&mut self.head);
        self.write(&head);
        self.write(text);
    }

    fn write(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }

    pub fn flow(&mut self, flow: &FlowReport) {
        let flow = serde_json::to_string(flow).unwrap_or_default();
        let comma = if self.flows > 0 { ",\n" } else { "" };
        self.flows += 1;
        self.text(&format!("{comma}{flow}"));
    }

    /// Whoever reads may have had enough (`| head`): that is no error.
    pub fn finish(
        mut self,
        overall: &Overall,
        quic: &[QuicReport],
        remarks: &[String],
        more: &[(&'static str, Value)],
    ) -> anyhow::Result<()> {
        let overall = serde_json::to_value(overall).unwrap_or(Value::Null);
        let (quic, remarks) = (json!(quic), json!(remarks));
        let more: String = more.iter().map(|(name, value)| format!(",\n{name:?}: {value}")).collect();
        self.text(&format!(
            "\n],\n\"quic\": {quic},\n\"overall\": {overall},\n\"remarks\": {remarks}{more}}}\n"
        ));
        let failed = self.failed.or_else(|| self.out.flush().err());
        match failed {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("standard output"),
            _ => Ok(()),
        }
    }
}
