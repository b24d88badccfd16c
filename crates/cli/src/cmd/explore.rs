//! `narrows explore`: a page on which one sets a thin link and sees at once what two queues make of it.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use narrows_explore::serve::{listen, serve as answer};
use narrows_explore::{Settings, fragment};

use crate::SUCCESS;

/// Simulations at a time at least: the page asks for two queues at once.
const LEAST_JOBS: usize = 2;

/// Port for any that is free.
const ANY_PORT: u16 = 0;

/// Arguments of `narrows explore`.
#[derive(clap::Args)]
pub struct Args {
    /// Port of this machine's own address, 127.0.0.1, that the page is served at; 0 for any that is free
    #[arg(long, default_value_t = 8600)]
    port: u16,
    /// Settings to begin with, as they follow the # of the page's address: users=15&buffer=100
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    view: String,
    /// Only print the page's address, and open no browser
    #[arg(long)]
    no_browser: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<u8> {
    serve(args.port, &args.view, !args.no_browser)
}

/// Serves the page until the program is ended, and shows it with `settings`.
pub(super) fn open(settings: &Settings) -> anyhow::Result<u8> {
    serve(ANY_PORT, &fragment(settings), true)
}

fn serve(port: u16, view: &str, browser: bool) -> anyhow::Result<u8> {
    let listener = listen(port)?;
    let address = address(&listener, view)?;
    crate::say(&format!("{address}\nCtrl-C ends it. Nothing leaves this machine.\n"))?;
    if browser {
        show(&address);
    }
    answer(listener, super::sim::cores().max(LEAST_JOBS))?;
    Ok(SUCCESS)
}

fn address(listener: &TcpListener, view: &str) -> anyhow::Result<String> {
    let at = listener.local_addr().context("the page's address")?;
    Ok(if view.is_empty() { format!("http://{at}/") } else { format!("http://{at}/#{view}") })
}

/// Asks the desktop for its browser, where there is a desktop. Who has none has the address.
fn show(address: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if desktop {
        let quiet = || Stdio::null();
        let _ = Command::new("xdg-open").arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    }
}
