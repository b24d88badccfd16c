//! Runs many simulations: on all cores, interruptible, resumable, into files.
//!
//! A [`Plan`] lists runs; [`execute`] does those of them that the output folder does not hold yet, each on a thread of
//! a pool, and writes what all of them gave as tables. What a run gives depends on its scenario, its seed and the
//! engine alone, so the files are the same bytes whatever the number of threads, and however often the work was
//! interrupted.
//!
//! ```text
//! OUT/summary.csv .parquet     a row a run: coordinates, seed, every figure
//! OUT/flows.csv   .parquet     and so on: a table of all runs, coordinates and seed in front
//! OUT/claims.csv               each claim and what came of it
//! OUT/manifest.json            scenario, seeds, engine, command, the files above with their rows
//! OUT/timing.csv               seconds each run took: the only file that differs from time to time
//! OUT/runs/KEY/                one run: scenario.toml, run.json, summary.csv, its tables, captures and qlog
//! ```
//!
//! A run's folder is made under another name and renamed when it is whole, so a folder with its right name is a
//! finished run; `run.json` lists the files with their sizes in case the machine, and not only the program, went down.

#![forbid(unsafe_code)]

mod caught;
mod csv;
mod digest;
mod error;
mod estimate;
mod execute;
mod folder;
mod interval;
mod join;
pub mod league;
mod manifest;
mod parquet;
mod parts;
mod plan;
mod store;
mod table_file;
pub mod verdicts;

pub use caught::caught;
pub use digest::{Middle, Point, digest};
pub use error::Error;
pub use estimate::Estimate;
pub use execute::{Event, RunOptions, RunReport, Simulate, execute};
pub use interval::students_95;
pub use manifest::{File, Manifest};
pub use parts::{GoOn, SpareCores, simulate};
pub use plan::{Axis, ENGINE, Job, RunPlan, VERSION};
pub use store::table;
pub use table_file::TableFile;

#[cfg(test)]
mod tests;
