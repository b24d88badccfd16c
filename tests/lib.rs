//! Tests that may see every room: `parity/`, `live/`, `claims/`.
