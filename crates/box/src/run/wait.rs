//! A box that is started before its interfaces are there: with the machine, while a modem still dials.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use narrows_netio::links::{Interface, Monitor};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;

use super::link_setup::{bridged, interfaces};
use crate::log::Notice;
use crate::service;
use crate::settings::{Settings, Source};

/// Time for which interfaces that have come must stay as they are: an MTU and a bridge come after an interface.
const SETTLED: Duration = Duration::from_secs(2);
/// Time between two looks where the kernel says nothing; each gives systemd a sign of life.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until the interfaces of all links are there and fit together, and gives the settings, which SIGHUP makes it
/// read again; none if it is told to stop. To systemd a box that waits has started, so that it holds up nothing.
///
/// # Errors
/// If the kernel tells nothing of its interfaces.
pub fn wait(
    source: &Source,
    mut links: Vec<Settings>,
    signals: &SignalFd,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<Option<Vec<Settings>>> {
    let monitor = Monitor::new()?;
    let (mut said, mut alive) = (None, service::Alive::new());
    let mut seen: Option<(Vec<Interface>, Instant)> = None;
    loop {
        match find(&links) {
            Ok(_) if said.is_none() => return Ok(Some(links)),
            Ok(found) => match &seen {
                Some((before, since)) if *before == found => {
                    if since.elapsed() >= SETTLED {
                        service::waited();
                        return Ok(Some(links));
                    }
                }
                _ => seen = Some((found, Instant::now())),
            },
            Err(error) => {
                seen = None;
                let why = format!("waiting for interfaces: {error:#}");
                if said.as_ref() != Some(&why) {
                    service::waiting(&why);
                    tell(Notice::Warning(why.clone()));
                    said = Some(why);
                }
            }
        }
        let mut fds = [monitor.fd(), signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("poll"),
        }
        let _ = monitor.changed();
        alive.tell();
        while let Some(signal) = signals.read_signal().context("signalfd")? {
            if signal.ssi_signo.cast_signed() != Signal::SIGHUP as i32 {
                return Ok(None);
            }
            match source.again() {
                Ok(new) => links = new,
                Err(error) => {
                    tell(Notice::Warning(format!("settings not reloaded, the old ones stay: {error:#}")))
                }
            }
        }
    }
}

/// Finds the interfaces of all links, or tells what is wrong with an interface.
fn find(links: &[Settings]) -> anyhow::Result<Vec<Interface>> {
    let mut found = Vec::new();
    for settings in links {
        let (lan, wan) = interfaces(settings)?;
        bridged(settings, &lan, &wan)?;
        found.extend(lan);
        found.push(wan);
    }
    Ok(found)
}
