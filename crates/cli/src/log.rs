//! Log of a running box in the format that was asked for: lines of text, JSON, or the journal.
//!
//! The box hands over [`Notice`]s in a thread that may wait; from there they are events of `tracing`, so that levels,
//! filters and formats are those that people know.

use std::fmt;
use std::io::Write as _;

use anyhow::{Context, bail};
use clap::ValueEnum;
use narrows_box::Notice;
use tracing::{Dispatch, Event, Level, Subscriber, dispatcher};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// Environment variable with the filter that holds where no flag names one.
const VARIABLE: &str = "RUST_LOG";

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line for each message on standard error; the line that says that the box runs, on standard output
    Text,
    /// One JSON object for each message on standard error
    Json,
    /// Messages to systemd's journal, with their levels
    Journald,
}

/// Flags of the log.
#[derive(Clone, Debug, clap::Args)]
pub struct LogFlags {
    /// Format and destination of the log
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: Format,
    /// Log level: error, warn, info or debug; without it the filter in RUST_LOG [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

/// A log that has been opened.
#[derive(Clone)]
pub struct Log {
    format: Format,
    dispatch: Dispatch,
}

impl LogFlags {
    /// Opens the log.
    ///
    /// # Errors
    /// If the level is none.
    pub fn open(&self) -> anyhow::Result<Log> {
        let filter = self.filter()?;
        let (format, missing) = match self.format() {
            Ok(layer) => (layer, None),
            Err(error) => (text(), Some(error)),
        };
        let log = Log {
            format: if missing.is_some() { Format::Text } else { self.log },
            dispatch: Dispatch::new(Registry::default().with(format.with_filter(filter))),
        };
        if let Some(error) = missing {
            log.write(Notice::Warning(format!(
                "no journal can be reached ({error}): written to standard error instead"
            )));
        }
        Ok(log)
    }

    fn format(&self) -> std::io::Result<Box<dyn Layer<Registry> + Send + Sync>> {
        Ok(match self.log {
            Format::Text => text(),
            Format::Json => Box::new(
                tracing_subscriber::fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_current_span(false)
                    .with_span_list(false)
                    .with_target(false)
                    .with_writer(std::io::stderr),
            ),
            Format::Journald => {
                Box::new(tracing_journald::layer()?.with_syslog_identifier("narrows".to_owned()))
            }
        })
    }

    fn filter(&self) -> anyhow::Result<Targets> {
        let (text, named) = match (&self.log_level, std::env::var(VARIABLE)) {
            (Some(level), _) => (level.clone(), "--log-level"),
            (None, Ok(filter)) if !filter.is_empty() => (filter, VARIABLE),
            _ => ("info".to_owned(), VARIABLE),
        };
        match text.parse::<Targets>() {
            // A word that is no level would be taken for the name of a module.
            Ok(_) if !text.contains('=') && text.parse::<Level>().is_err() && text != "off" => {
                bail!("{named}: '{text}' is no level: expected error, warn, info, debug or off")
            }
            other => other.with_context(|| format!("{named}: expected a level, as info")),
        }
    }
}

fn text() -> Box<dyn Layer<Registry> + Send + Sync> {
    Box::new(
        tracing_subscriber::fmt::layer().event_format(Plain).with_ansi(false).with_writer(std::io::stderr),
    )
}

impl Log {
    /// Writes one notice, and waits as long as that takes.
    pub fn write(&self, news: Notice) {
        dispatcher::with_default(&self.dispatch, || match news {
            Notice::Running(how) if self.format == Format::Text => {
                if tracing::enabled!(Level::INFO) {
                    // Whoever started us may wait for this, or may have gone: a closed output is no reason to stop.
                    let mut out = std::io::stdout().lock();
                    let _ = writeln!(out, "narrows: running {how}").and_then(|()| out.flush());
                }
            }
            Notice::Running(how) => tracing::info!("running {how}"),
            Notice::Warning(text) => tracing::warn!("{text}"),
            Notice::Message(text) => tracing::info!("{text}"),
            Notice::Detail(text) => tracing::debug!("{text}"),
        });
    }

    /// Writes why the box has ended.
    pub fn error(&self, error: &anyhow::Error) {
        dispatcher::with_default(&self.dispatch, || tracing::error!("{error:#}"));
    }
}

/// Format that writes `narrows: ` and the message.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("narrows: ")?;
        if *event.metadata().level() > Level::INFO {
            writer.write_str("debug: ")?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
