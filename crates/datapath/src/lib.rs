//! Linux: the live box ([`live`]) and the laboratory in namespaces ([`lab`]).

pub mod lab;
pub mod live;
