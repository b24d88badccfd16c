//! `narrows._native`: what Python sees of the workspace.
//!
//! Here values change their form and nothing else: a scenario is text on its way in, results are Arrow tables on their
//! way out, and long work goes on without the interpreter's lock. What people see of it, with words and types of
//! Python's own, is `python/narrows`; `docs/how-to/python.md` tells how it is used.

mod bottleneck;
mod catalogue;
mod commands;
mod diagnose;
mod error;
mod figures;
mod models;
mod own;
mod run;
mod scenario;
mod table;
mod toml;

use pyo3::prelude::*;

/// Native part of the package `narrows`; not for direct use.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("VERSION", narrows_runner::VERSION)?;
    m.add("ENGINE", narrows_runner::ENGINE)?;
    m.add("ScenarioError", m.py().get_type::<error::ScenarioError>())?;
    m.add_class::<run::Stop>()?;
    m.add_class::<own::Window>()?;
    m.add_class::<own::Ack>()?;
    m.add_class::<own::Loss>()?;
    m.add_class::<own::Delivery>()?;
    m.add_class::<own::Packet>()?;
    m.add_class::<table::Table>()?;
    m.add_class::<table::Column>()?;
    m.add_function(wrap_pyfunction!(error::refusal, m)?)?;
    m.add_function(wrap_pyfunction!(toml::from_toml, m)?)?;
    m.add_function(wrap_pyfunction!(toml::to_toml, m)?)?;
    m.add_function(wrap_pyfunction!(toml::toml_value, m)?)?;
    m.add_function(wrap_pyfunction!(scenario::expand, m)?)?;
    m.add_function(wrap_pyfunction!(bottleneck::bottleneck, m)?)?;
    m.add_function(wrap_pyfunction!(catalogue::discipline_names, m)?)?;
    m.add_function(wrap_pyfunction!(catalogue::figure_names, m)?)?;
    m.add_function(wrap_pyfunction!(catalogue::pages, m)?)?;
    m.add_function(wrap_pyfunction!(catalogue::students_95, m)?)?;
    m.add_function(wrap_pyfunction!(commands::command, m)?)?;
    m.add_function(wrap_pyfunction!(figures::experiments, m)?)?;
    m.add_function(wrap_pyfunction!(figures::reproduce, m)?)?;
    m.add_function(wrap_pyfunction!(models::list, m)?)?;
    m.add_function(wrap_pyfunction!(models::evaluate, m)?)?;
    m.add_function(wrap_pyfunction!(scenario::tcp_keys, m)?)?;
    m.add_function(wrap_pyfunction!(run::run, m)?)?;
    m.add_function(wrap_pyfunction!(diagnose::diagnose, m)?)?;
    m.add_function(wrap_pyfunction!(diagnose::what_if, m)?)?;
    Ok(())
}
