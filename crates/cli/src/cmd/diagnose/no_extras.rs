//! A program without the simulator draws no pictures and writes no Parquet.

use narrows_diagnose::{FlowReport, Overall};
use narrows_units::Instant;
use narrows_wire::Header;
use serde_json::Value;

use super::decisions::Decisions;

/// No options.
#[derive(clap::Args)]
#[group(id = "diagnosis_extras")]
pub struct Args {}

impl Args {
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as where there is something to draw")]
    pub fn draw(&self, _: &str, _: &Decisions) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Nothing.
#[derive(Default)]
pub struct Said {
    pub remarks: Vec<String>,
    pub text: String,
    pub json: Vec<(&'static str, Value)>,
    pub last: Option<Box<dyn FnOnce() -> anyhow::Result<()>>>,
}

/// Nothing.
pub struct Extras;

impl Extras {
    #[expect(clippy::unnecessary_wraps, reason = "as where there is something to refuse")]
    pub fn new(_: &Args, _: Option<u64>) -> anyhow::Result<Self> {
        Ok(Self)
    }
    pub fn packet(&mut self, _: Option<u64>, _: Instant, _: u64, _: &Header) {}
    pub fn flow(&mut self, _: &FlowReport) {}
    #[expect(clippy::unnecessary_wraps, reason = "as where there is something to refuse")]
    pub fn finish(self, _: &str, _: &Overall, _: Option<&FlowReport>) -> anyhow::Result<Said> {
        Ok(Said::default())
    }
}
