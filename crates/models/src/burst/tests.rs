//! The tables of the notes (sections 3.1 to 3.5), and what holds of every window.

mod properties;
mod tables;

use super::{BurstTcp, Form, Growth};

fn btcp(f: u32, mice: u32, form: Form) -> Growth {
    Growth::Burst(BurstTcp::new(f, mice, form).unwrap())
}

fn whole_windows(growth: Growth, packets: u32) -> Vec<u64> {
    growth.rounds(1, packets).unwrap().windows.into_iter().map(|w| w as u64).collect()
}
