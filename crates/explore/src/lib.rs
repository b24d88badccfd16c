//! A page on which one sets a thin link and those who share it, and sees at once what two queues make of it.
//!
//! [`answer`] is the whole engine: a question as JSON in, an answer as JSON out, without clock, thread or file. The
//! program puts it behind HTTP (`serve`), a browser runs it as WebAssembly; the page does not know which.

mod address;
mod crossed;
#[cfg(feature = "serve")]
mod files;
mod presets;
mod scenario;
#[cfg(feature = "serve")]
pub mod serve;
mod settings;
mod side;
#[cfg(target_arch = "wasm32")]
mod wasm;
mod words;

use core::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use address::fragment;
pub use presets::{PRESETS, Preset};
pub use scenario::{python, toml};
pub use settings::{FIELDS, Field, FieldKind, Settings, Which};
pub use side::{Bits, QueueResult, UserPackets, side};

/// Time without data for a user from which on the user counts as stalled, s: the shortest of the project's bounds.
pub const STALL_S: f64 = 5.0;

/// Setting that cannot be, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Key of the field; empty if the problem is of no field.
    pub field: String,
    /// Reason why the setting cannot be.
    pub says: String,
}

impl Problem {
    fn of(field: &str, says: &str) -> Self {
        Self { field: field.to_owned(), says: says.to_owned() }
    }
}

/// A question of the page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", tag = "ask")]
enum Question {
    /// Fields, presets, queues.
    About,
    /// Results of one of the queues.
    Side {
        settings: Value,
        side: Which,
        /// User whose packets are wanted one by one; none: the one with the longest stall.
        user: Option<u32>,
    },
    /// Figures of the models, and the same runs as files and commands.
    Words { settings: Value },
}

/// Answers a question of the page. `go_on` hears what share of a run is done, and may stop it.
pub fn answer(question: &str, go_on: &mut dyn FnMut(f64) -> ControlFlow<()>) -> String {
    let found = serde_json::from_str::<Question>(question)
        .map_err(|e| vec![Problem::of("", &format!("expected a question of the page: {e}"))])
        .and_then(|question| told(question, go_on));
    found.unwrap_or_else(|problems| json!({ "problems": problems })).to_string()
}

fn told(question: Question, go_on: &mut dyn FnMut(f64) -> ControlFlow<()>) -> Result<Value, Vec<Problem>> {
    let checked = |value: &Value| {
        let settings = Settings::read(value).map_err(|problem| vec![problem])?;
        let problems = settings.problems();
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    };
    match question {
        Question::About => Ok(about()),
        Question::Side { settings, side, user } => {
            let settings = checked(&settings)?;
            let side = side::side(&settings, side, user, go_on).map_err(|problem| vec![problem])?;
            Ok(serde_json::to_value(side).unwrap_or_default())
        }
        Question::Words { settings } => Ok(words::words(&checked(&settings)?)),
    }
}

fn about() -> Value {
    let queues: Vec<Value> =
        settings::QUEUES_KNOWN.iter().map(|(spec, name)| json!({ "spec": spec, "name": name })).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "stall_s": STALL_S,
        "fields": FIELDS,
        "queues": queues,
        "presets": PRESETS.iter().map(Preset::json).collect::<Vec<_>>(),
        "defaults": Settings::default(),
    })
}
