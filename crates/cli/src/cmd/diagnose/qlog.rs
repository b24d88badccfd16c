//! Senders' own logs beside a capture: `--qlog`.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use narrows_diagnose::{QlogFile, QuicAnalyzer, QuicReport, SenderLog};

/// Logs that were read, and remarks about their files.
#[derive(Default)]
pub struct Logs {
    logs: Vec<SenderLog>,
    remarks: Vec<String>,
}

impl Logs {
    /// Reads the logs of `files`.
    ///
    /// # Errors
    /// Names a file that cannot be read, or that has no event of qlog in it.
    pub fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for file in files {
            let name = file.display();
            let opened =
                File::open(file).with_context(|| format!("{name}: cannot be read; expected a qlog"))?;
            let QlogFile { logs, events, unread, first_unread, left_out } =
                QlogFile::read(BufReader::new(opened));
            let first = first_unread.unwrap_or_default();
            if events == 0 {
                bail!(
                    "{name}: no event of qlog in it ({first}); expected JSON or JSON-SEQ, as .qlog or .sqlog"
                );
            }
            if unread > 0 {
                let what = if unread == 1 { "line or event" } else { "lines or events" };
                all.remarks.push(format!("{name}: {unread} {what} could not be read; the first: {first}"));
            }
            if left_out > 0 {
                all.remarks.push(format!("{name}: {left_out} events were too many and were left out"));
            }
            if logs.is_empty() {
                all.remarks.push(format!("{name}: {events} events, none of an end's packets or timers"));
            }
            all.logs.extend(logs);
        }
        Ok(all)
    }

    /// Judges all QUIC connections with what the logs say; gives what is to be said of files and logs. `origin` is the
    /// time at which the capture begins, in nanoseconds since 1970, where its packets have one.
    #[must_use]
    pub fn judge(self, quic: QuicAnalyzer, origin: Option<i128>) -> (Vec<QuicReport>, Vec<String>) {
        let Self { logs, mut remarks } = self;
        let (reports, without) = quic.finish_with(&logs, origin);
        if let Some(first) = without.first() {
            remarks.push(format!(
                "{} of {} logs in qlog have no QUIC connection in the capture; the first: {first}",
                without.len(),
                logs.len()
            ));
        }
        (reports, remarks)
    }
}
