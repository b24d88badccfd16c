//! One file a command. Without features this is the box alone, for a router; `terminal` adds `setup` and `top`, `lab`
//! experiments with real stacks, and `diagnose` and `research` the commands of `narrows-commands` and `replay`.

#[cfg(feature = "lab")]
pub mod demo;
pub mod doctor;
#[cfg(feature = "lab")]
pub mod lab;
pub mod packaging;
#[cfg(feature = "research")]
pub mod replay;
pub mod run;
#[cfg(feature = "lab")]
pub mod senders;
#[cfg(feature = "terminal")]
pub mod setup;
pub mod status;
#[cfg(feature = "terminal")]
pub mod top;
