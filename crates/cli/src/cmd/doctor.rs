//! `narrows doctor`: what this machine can do.

use std::path::PathBuf;

use narrows_box::{self as live, Finding, Need};

use crate::{FAILURE, SUCCESS};

/// Arguments of `narrows doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Remove rules and devices left by killed boxes in this network namespace, and by killed labs anywhere
    #[arg(long)]
    clean: bool,
    /// Directory in which boxes note what they changed on this machine
    #[arg(long, value_name = "DIR", default_value = live::RUN_DIR)]
    state_dir: PathBuf,
}

/// Runs the command: success if a box can run here.
pub fn main(args: Args) -> anyhow::Result<u8> {
    if args.clean {
        // Without a packet filter there are no rules to be left, but there may be namespaces.
        #[cfg_attr(not(feature = "lab"), expect(unused_mut, reason = "the lab adds to it"))]
        let live::Cleaned { mut removed, refused } = live::clean(&args.state_dir)?;
        #[cfg(feature = "lab")]
        removed.extend(narrows_lab::sweep());
        for what in &removed {
            println!("removed {what}");
        }
        refused.iter().for_each(|what| eprintln!("narrows: {what}"));
        if removed.is_empty() && refused.is_empty() {
            println!("nothing was left by a killed box or lab");
        }
        return Ok(if refused.is_empty() { SUCCESS } else { FAILURE });
    }
    let findings = live::examine(&args.state_dir);
    for (need, title) in [
        (Need::Run, "To run a box (narrows run)"),
        (Need::Feature, "More of it"),
        (Need::Packet, "To run a box at layer 2 (narrows run --backend packet)"),
    ] {
        println!("{title}");
        findings.iter().filter(|f| f.need == need).for_each(show);
        println!();
    }
    #[cfg(feature = "lab")]
    experiments();
    if live::can_run(&findings) {
        println!("A box can run here.");
        return Ok(SUCCESS);
    }
    println!("A box cannot run here: see each no above.");
    Ok(FAILURE)
}

fn show(finding: &Finding) {
    let (word, text) = match &finding.answer {
        Ok(text) => ("yes", text),
        Err(text) => ("NO ", text),
    };
    println!("  {word}  {:<44}  {}", finding.what, text.replace('\n', "\n        "));
}

/// Prints whether the lab and the senders have what they need on this machine.
#[cfg(feature = "lab")]
fn experiments() {
    println!("For experiments (narrows lab, narrows demo)");
    for (what, answer) in narrows_lab::examine() {
        show(&Finding { what, need: Need::Feature, answer });
    }
    println!();
    println!("For congestion controls of ours in the kernel (narrows senders)");
    let answer = narrows_senders::possible().map_err(|e| format!("{e:#}"));
    show(&Finding { what: "senders can be loaded", need: Need::Feature, answer });
    println!();
}
