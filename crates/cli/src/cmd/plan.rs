//! `narrows plan`: what an operator asks of a thin link, on one screen and a map. What is concluded is in
//! `narrows_models::plan`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use narrows_models::operating::Stack;
use narrows_models::plan::{DropTailBuffer, SharedLink, plan};
use narrows_plot::{bands_svg, save, save_as};
use narrows_units::{Bytes, Duration, Rate};

use super::say;
use crate::SUCCESS;

mod lines;
mod map;

/// Longest time that can be given, in seconds.
const MOST_SECONDS: f64 = 1e6;

/// Arguments of `narrows plan`.
#[derive(clap::Args)]
pub struct Args {
    /// Rate of the link, as 2mbit
    #[arg(long, allow_hyphen_values = true)]
    rate: Rate,
    /// Number of users who share the link
    #[arg(long, allow_hyphen_values = true)]
    users: u32,
    /// Connections that each user has open at a time
    #[arg(long, default_value_t = 1, allow_hyphen_values = true)]
    connections: u32,
    /// Round trip without any queue, as 200ms
    #[arg(long, value_parser = time, allow_hyphen_values = true)]
    rtt: Duration,
    /// Size of a full packet in bytes, headers included
    #[arg(long, default_value_t = 1500, allow_hyphen_values = true)]
    packet: u64,
    /// Size of the queue before the link now: packets (50), a time at the link's rate (50ms), or round trips (2x)
    #[arg(long, default_value = "1x", value_parser = queue, allow_hyphen_values = true)]
    buffer: BufferSize,
    /// Share of the users that fetch something at a time, from 0 to 1
    #[arg(long, default_value_t = 1.0, allow_hyphen_values = true)]
    busy: f64,
    /// Bytes that a connection fetches, on average
    #[arg(long, default_value_t = 7300, allow_hyphen_values = true)]
    object: u64,
    /// Mean time of a fetch that people still accept before they give up
    #[arg(long, default_value = "60s", value_parser = time, allow_hyphen_values = true)]
    patience: Duration,
    /// TCP of the servers: linux (with timestamps), or rfc, as the RFCs and ns-2 have it (without)
    #[arg(long, default_value = "linux", value_parser = ["linux", "rfc"])]
    stack: String,
    /// Write JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Draw the map of verdicts, by rate and users, into this file, .svg or .png (out/plan.svg and .png)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Size of a buffer as typed; a size in round trips depends on rate and round-trip time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BufferSize {
    Is(DropTailBuffer),
    RoundTrips(f64),
}

impl Args {
    fn link(&self) -> anyhow::Result<SharedLink> {
        let buffer = match self.buffer {
            BufferSize::Is(buffer) => buffer,
            BufferSize::RoundTrips(n) => DropTailBuffer::Time(from_seconds(n * self.rtt.as_secs_f64())?),
        };
        let stack = if self.stack == "rfc" { Stack::Rfc } else { Stack::Linux };
        Ok(SharedLink {
            packet: Bytes(self.packet),
            buffer,
            connections: self.connections,
            busy: self.busy,
            object: Bytes(self.object),
            stack,
            patience: self.patience,
            ..SharedLink::new(self.rate, self.users, self.rtt)
        })
    }
}

/// Runs the command.
///
/// # Errors
/// A quantity outside its domain; a file of the user's own that cannot be written.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let link = args.link()?;
    let plan = plan(&link)?;
    // The answer is printed first: the map takes longer.
    if !args.json {
        say(&lines::text(&link, &plan))?;
    }
    let svg = bands_svg(&map::page(&link, &plan)?);
    let drawn = match &args.plot {
        Some(file) => {
            save_as(&svg, file).with_context(|| format!("--plot {}", file.display()))?;
            Some(file.clone())
        }
        None => usual(&svg),
    };
    if args.json {
        let json = lines::json(&link, &plan, drawn.as_deref());
        say(&format!("{}\n", serde_json::to_string_pretty(&json)?))?;
    } else if let Some(file) = drawn {
        say(&format!("\nmap: {}\n", file.display()))?;
    }
    Ok(SUCCESS)
}

/// Expectation of a link, in a sentence.
///
/// # Errors
/// A quantity outside its domain.
#[cfg(feature = "diagnose")]
pub(crate) fn sentence(link: &SharedLink) -> anyhow::Result<String> {
    Ok(lines::verdict(link, &plan(link)?))
}

/// Draws where nothing was asked for; a folder that cannot be written costs the map and no answer.
fn usual(svg: &str) -> Option<PathBuf> {
    let out = Path::new("out");
    let (vector, pixels) = (out.join("plan.svg"), out.join("plan.png"));
    let saved = std::fs::create_dir_all(out)
        .context("making the folder out")
        .and_then(|()| save(svg, &vector, &pixels));
    match saved {
        Ok(drawn) => match drawn.png_missing {
            None => Some(pixels),
            Some(why) => {
                eprintln!("no PNG: {why}");
                Some(vector)
            }
        },
        Err(why) => {
            eprintln!("no map: {why:#}; choose a file that can be written with --plot");
            None
        }
    }
}

/// Reads a time above 0 in the form that scenarios use.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number above 0 and a unit, as in 200ms, 1.5s or 2min".to_owned();
    let time = narrows_scenario::time(text).map_err(|_| wrong())?;
    if time > Duration::ZERO {
        from_seconds(time.as_secs_f64()).map_err(|e| e.to_string())
    } else {
        Err(wrong())
    }
}

fn from_seconds(seconds: f64) -> anyhow::Result<Duration> {
    if seconds <= MOST_SECONDS {
        Ok(Duration::from_nanos((seconds * 1e9).round() as u64))
    } else {
        anyhow::bail!("a time of {seconds} s: at most {MOST_SECONDS} s can be planned with")
    }
}

/// `50`, `50ms`, `2x`.
fn queue(text: &str) -> Result<BufferSize, String> {
    let wrong = || "a buffer is packets (50), a time (50ms) or round trips (2x), above 0".to_owned();
    if let Ok(packets) = text.parse::<u32>() {
        return if packets > 0 { Ok(BufferSize::Is(DropTailBuffer::Packets(packets))) } else { Err(wrong()) };
    }
    if let Some(number) = text.strip_suffix('x') {
        let n: f64 = number.parse().map_err(|_| wrong())?;
        return if n > 0.0 && n.is_finite() { Ok(BufferSize::RoundTrips(n)) } else { Err(wrong()) };
    }
    time(text).map(|t| BufferSize::Is(DropTailBuffer::Time(t))).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_buffers_and_what_is_neither() {
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(queue("50"), Ok(BufferSize::Is(DropTailBuffer::Packets(50))));
        assert_eq!(queue("50ms"), Ok(BufferSize::Is(DropTailBuffer::Time(Duration::from_millis(50)))));
        assert_eq!(queue("0.5x"), Ok(BufferSize::RoundTrips(0.5)));
        for wrong in ["", "200", "-5ms", "0s", "ms", "nans", "infs", "1e9h", "5 parsecs", "1e"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "-1", "0x", "nanx", "infx", "50 pkts", "-50ms"] {
            assert!(queue(wrong).is_err(), "{wrong}");
        }
    }
}
