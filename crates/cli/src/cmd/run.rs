//! `narrows run`: shape and queue a live link.

use std::path::PathBuf;
use std::process::ExitCode;

use narrows_datapath::live::{self, LaneSettings, Settings};
use narrows_qdisc::{Framing, ShaperConfig, Spec};
use narrows_units::Rate;

/// Arguments of `narrows run`.
#[derive(clap::Args)]
pub struct Args {
    /// Interface of the users
    #[arg(long, value_name = "IF")]
    lan: String,
    /// Interface of the wide network
    #[arg(long, value_name = "IF")]
    wan: String,
    /// Rate of the link to the users, as 600kbit; without it that direction is not shaped
    #[arg(long, value_name = "RATE")]
    down: Option<Rate>,
    /// Rate of the link from the users
    #[arg(long, value_name = "RATE")]
    up: Option<Rate>,
    /// Discipline of both directions, as taq or fifo:30
    #[arg(long, value_name = "SPEC", default_value = "fifo:100")]
    discipline: Spec,
    /// Discipline of the way down
    #[arg(long, value_name = "SPEC")]
    down_discipline: Option<Spec>,
    /// Discipline of the way up
    #[arg(long, value_name = "SPEC")]
    up_discipline: Option<Spec>,
    /// Bytes the link adds to each packet
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    overhead: u32,
    /// The first of two NFQUEUE numbers; by default two free ones
    #[arg(long, value_name = "N")]
    queue: Option<u16>,
    /// The control socket [default: /run/narrows/LAN-WAN.sock]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let lane = |rate: Option<Rate>, own: &Option<Spec>| LaneSettings {
        link: rate.map(|r| ShaperConfig {
            overhead: args.overhead,
            framing: Framing::None,
            ..ShaperConfig::new(r)
        }),
        discipline: own.as_ref().unwrap_or(&args.discipline).clone(),
        seed: std::process::id().into(),
    };
    let settings = Settings {
        lanes: [lane(args.down, &args.down_discipline), lane(args.up, &args.up_discipline)],
        queue: args.queue,
        control: args.control.clone().unwrap_or_else(|| live::default_path(&args.lan, &args.wan)),
        lan: args.lan,
        wan: args.wan,
    };
    live::run(&settings, |queue| {
        println!("narrows: running {} <-> {} on NFQUEUE {queue}, {}", settings.lan, settings.wan, queue + 1);
    })?;
    Ok(ExitCode::SUCCESS)
}
