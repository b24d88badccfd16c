//! Scenario files: one schema for simulator and lab.
#![forbid(unsafe_code)]
