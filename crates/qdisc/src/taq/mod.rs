//! Timeout Aware Queuing: a queue that knows what a loss does to the TCP flow that suffers it.
//!
//! Jay Chen, Janardhan Iyengar, Lakshminarayanan Subramanian, Bryan Ford, "TAQ: Enhancing Fairness and Performance
//! Predictability in Small Packet Regimes", EuroSys 2014.

mod config;
pub mod door;
mod keys;
mod loss;
mod pools;

pub use config::{Buffer, Config, DoorPolicy, FairShare, Mode, Ppm, Share, Sizes};
pub use keys::Key;
pub use loss::LossWindow;
pub use pools::PoolId;
