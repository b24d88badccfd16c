//! Links, topologies, workloads and probes in simulated time.
#![forbid(unsafe_code)]
