//! Experiments with real kernel TCP in namespaces this program makes.
