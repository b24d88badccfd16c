//! Tests of narrows-cli from outside, a module for each subject: one program is linked once.

#[cfg(all(feature = "diagnose", feature = "research"))]
mod diagnose;
#[cfg(feature = "diagnose")]
mod diagnose_live;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "research")]
mod league;
#[cfg(feature = "terminal")]
mod live;
#[cfg(feature = "research")]
mod model;
mod packages;
#[cfg(feature = "research")]
mod plan;
#[cfg(feature = "research")]
mod replay;
#[cfg(feature = "research")]
mod reproduce;
#[cfg(feature = "research")]
mod sim;
mod tutorials;
