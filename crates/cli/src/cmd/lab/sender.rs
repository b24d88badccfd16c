//! A sender of ours lent to a lab: `congestion_control = "narrows_btcp:f=4"` loads one for as long as the lab lasts.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use narrows_senders::{self as senders, Sender, Settings};

use crate::cmd::senders::start_driver;

/// Sender that is loaded for a lab; a drop of the value unloads the sender.
pub struct Lent {
    bpffs: PathBuf,
    name: String,
}

impl Lent {
    /// Name by which connections choose the sender.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Its driver ends with it.
        if let Err(e) = senders::unload(&self.bpffs, &self.name) {
            eprintln!("narrows: {e:#}");
        }
    }
}

/// Loads what `choice` asks for; nothing if that is the kernel's own, or one of ours that is loaded under this name
/// already.
///
/// # Errors
/// If its knobs are wrong, it cannot be loaded, or what is loaded has lost its driver; with the remedy.
pub fn lend(bpffs: &Path, choice: &str) -> anyhow::Result<Option<Lent>> {
    let Some(settings) = settings(choice).with_context(|| format!("congestion_control = '{choice}'"))? else {
        return Ok(None);
    };
    if Sender::named(choice).is_ok() {
        match senders::loaded(bpffs)?.into_iter().find(|l| l.name == choice) {
            Some(loaded) if loaded.driven == Some(false) => bail!(
                "congestion_control = '{choice}': it is loaded without a driver, and would not be spread: narrows \
                 senders drive {choice}, or narrows senders unload {choice} to have the lab load its own"
            ),
            Some(_) => return Ok(None),
            None => {}
        }
    }
    let lent = Lent { bpffs: bpffs.to_owned(), name: format!("lab{:x}", std::process::id()) };
    senders::load(bpffs, &lent.name, &settings)
        .with_context(|| format!("congestion_control = '{choice}'"))?;
    if settings.sender().needs_driver() {
        start_driver(bpffs, &lent.name)?;
    }
    Ok(Some(lent))
}

/// The sender of ours and its knobs, as `narrows_btcp:f=4,iw=2`; nothing for the name of the kernel's own.
fn settings(choice: &str) -> anyhow::Result<Option<Settings>> {
    let (name, knobs) = choice.split_once(':').unwrap_or((choice, ""));
    match Sender::named(name) {
        Ok(sender) => {
            let sets: Vec<_> = knobs.split(',').filter(|k| !k.is_empty()).map(str::to_owned).collect();
            Ok(senders::settings(&[sender], &sets)?.pop())
        }
        Err(e) if name != choice => Err(e.context("only the senders of Narrows take knobs")),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_sender_and_its_knobs() {
        let shown = |choice| settings(choice).unwrap().unwrap().shown().collect::<Vec<_>>();
        assert!(shown("narrows_btcp:f=4,iw=2").contains(&("f", "4".to_owned())));
        assert!(shown("narrows_btcp:f=4,iw=2").contains(&("iw", "2".to_owned())));
        assert!(shown("narrows_is").contains(&("iw", "10".to_owned())));
        assert!(settings("cubic").unwrap().is_none());
        // Loaded by hand under a name of its own.
        assert!(settings("quick").unwrap().is_none());
        for (wrong, says) in
            [("narrows_btcp:f=0", "f"), ("narrows_is:g=1", "g"), ("cubic:f=4", "narrows_btcp")]
        {
            let e = format!("{:#}", settings(wrong).unwrap_err());
            assert!(e.contains(says), "{wrong}: {e}");
        }
    }
}
