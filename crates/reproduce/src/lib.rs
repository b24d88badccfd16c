//! The papers' figures: which scenarios make them ([`Catalogue`]), what is drawn of their results ([`ChartData`]), how
//! their claims fared ([`Judged`]), the pages that show all of it ([`pages`]), and pictures of some ([`gallery`]).
//!
//! Running is the caller's: [`Work::make`] asks it to do one plan after another. A figure's section is kept as JSON
//! beside its data, so pages can be written again, with more figures, without running anything twice.

#![forbid(unsafe_code)]

mod cache;
mod catalogue;
mod chart;
#[cfg(feature = "pages")]
pub mod gallery;
mod interval;
mod judged;
#[cfg(feature = "pages")]
pub mod pages;
mod section;
mod together;
mod work;

pub use cache::Cache;
pub use catalogue::{Catalogue, ChartForm, ChartSpec, Elsewhere, Figure, OpenPoint, Paper, PaperLine};
pub use chart::{ChartData, ChartLine};
pub use judged::{Chance, Judged};
pub use section::{Done, Effort, FilePart, Section};
pub use work::Work;
