//! A box that takes the place of another, or goes on with what one has left.

use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use narrows_netio::links::Monitor;
use narrows_units::Instant;
use sd_notify::NotifyState;

use super::{ControlEndpoints, Notice, Resume, Setup, Way};
use crate::bypass::Bypass;
use crate::channel::Channel;
use crate::control::StatusPublisher;
use crate::handover::{self, Estate, Keepsake, Predecessor};
use crate::lane::LaneState;
use crate::looping::{self, Live};
use crate::state::{self, Claim, Traces};

/// What a box has received from the one whose place it takes, before that is for good.
pub struct Inheritance {
    predecessor: Predecessor,
    /// When it was asked to let go.
    asked: std::time::Instant,
    estate: Estate,
    claim: OwnedFd,
    traces: Traces,
}

/// Descriptors that go to a successor beside those of the back end.
pub struct Heirlooms {
    listener: OwnedFd,
    page: Option<OwnedFd>,
}

impl Heirlooms {
    /// Copies of those in use.
    pub fn of(listener: &UnixListener, page: Option<&TcpListener>) -> anyhow::Result<Self> {
        let listener = listener.as_fd().try_clone_to_owned().context("no descriptor is left")?;
        let page =
            page.map(|p| p.as_fd().try_clone_to_owned()).transpose().context("no descriptor is left")?;
        Ok(Self { listener, page })
    }

    /// Whether a page is among them.
    pub const fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// In the order in which a successor takes them.
    pub fn fds<'a>(&'a self, claim: Option<&'a Claim>) -> Vec<BorrowedFd<'a>> {
        let first = claim.map(Claim::file).into_iter().chain([self.listener.as_fd()]);
        first.chain(self.page.as_ref().map(OwnedFd::as_fd)).collect()
    }
}

/// The file in which a box leaves what it knows, and what another has left there.
pub struct Kept {
    file: Keepsake,
    left: [Option<Vec<u8>>; 2],
}

impl Kept {
    /// This file, and what was left there.
    pub const fn new(file: Keepsake, left: [Option<Vec<u8>>; 2]) -> Self {
        Self { file, left }
    }

    /// Lets a box that starts go on with what was left.
    pub fn give<C: Channel>(&mut self, live: &mut Live<C>) -> anyhow::Result<()> {
        if self.left.iter().all(Option::is_none) {
            return Ok(());
        }
        let lane = |knowledge| LaneState {
            knowledge,
            free_at: Instant::ZERO,
            waiting: std::collections::VecDeque::new(),
            held: Vec::new(),
        };
        live.resume(std::mem::take(&mut self.left).map(lane))
    }

    /// Leaves what a box that stops knows.
    pub fn leave<C: Channel>(&mut self, live: &Live<C>) -> anyhow::Result<()> {
        self.file.leave(looping::now(), live.knowledge())
    }
}

impl Setup<'_> {
    /// Takes the place of a box that runs on these interfaces, and is done when that ends. `false` if none runs, or it
    /// cannot be replaced and has been stopped.
    ///
    /// # Errors
    /// Those of a box; or the other one has not let go, and goes on.
    pub(super) fn replace(&mut self, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<bool> {
        let (own, dir) = (self.place.state_file()?, self.place.settings.state_dir.clone());
        let same = |t: &Traces| state::path_of(&dir, &t.lan, &t.wan).is_ok_and(|path| path == own);
        let Some(traces) = state::living(&dir)?.into_iter().find(same) else { return Ok(false) };
        let pid = traces.pid;
        all_are_meant(&dir, pid, &[own])?;
        match self.suitable(&traces) {
            Ok(predecessor) => {
                self.take_over(predecessor, traces, tell)
                    .with_context(|| format!("in the place of process {pid}"))?;
                Ok(true)
            }
            Err(error) => {
                tell(Notice::Warning(format!(
                    "process {pid} cannot be replaced while packets flow: {error:#}; it is stopped, and this one \
                     starts afresh"
                )));
                handover::dismiss(&traces, &dir)?;
                Ok(false)
            }
        }
    }

    /// The running box, if this one can go on where it stops.
    fn suitable(&self, traces: &Traces) -> anyhow::Result<Predecessor> {
        let predecessor = Predecessor::ask(traces)?;
        let settings = &self.place.settings;
        if traces.control != settings.control {
            bail!("its control socket is {}", traces.control.display());
        }
        let lans: Vec<_> = traces.lans().cloned().collect();
        self.place.goes_on_with(&lans, &predecessor.terms)?;
        Ok(predecessor)
    }

    fn take_over(
        &mut self,
        predecessor: Predecessor,
        traces: Traces,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<()> {
        let bypass = predecessor.terms.bypass.clone();
        let endpoints = ControlEndpoints {
            publisher: StatusPublisher::new()?,
            listener: None,
            page: None,
            monitor: Monitor::new()?,
        };
        let settings = &self.place.settings;
        let page = settings.page.is_some();
        let inherit = |endpoints: &mut ControlEndpoints| {
            let asked = std::time::Instant::now();
            let (estate, mut fds) = predecessor.take()?;
            if fds.len() < 2 {
                bail!("it has handed over {} descriptors", fds.len());
            }
            let claim = fds.remove(0);
            endpoints.listener = Some(fds.remove(0).into());
            if estate.page && !fds.is_empty() {
                let theirs = fds.remove(0);
                endpoints.page = page.then(|| theirs.into());
            }
            Ok((fds, Inheritance { predecessor, asked, estate, claim, traces }))
        };
        match &bypass {
            Bypass::Rules { .. } => {
                let Way { channel, words, .. } = self.place.queues_of(&bypass);
                self.start(endpoints, |e| resumed(channel, inherit(e)?), (&words, &bypass), tell)
            }
            Bypass::Bridge { .. } => {
                let Way { channel, words, .. } = self.place.pair_of(&bypass);
                self.start(endpoints, |e| resumed(channel, inherit(e)?), (&words, &bypass), tell)
            }
            Bypass::Program => bail!("a box by AF_XDP starts afresh"),
        }
    }

    /// Goes on where the other stopped, for good.
    pub(super) fn inherit<C: Channel>(
        &mut self,
        live: &mut Live<C>,
        left: Inheritance,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<()> {
        let Inheritance { predecessor, asked, estate, claim, traces } = left;
        let told = asked.elapsed();
        live.resume(estate.state())?;
        let resumed = asked.elapsed();
        if !predecessor.settle() {
            bail!("it did not let go, and goes on");
        }
        tell(Notice::Detail(format!(
            "taken over: told after {told:.1?}, known after {resumed:.1?}, its own after {:.1?}",
            asked.elapsed()
        )));
        // To systemd, where it has started us.
        let _ = sd_notify::notify(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
        predecessor.farewell();
        let path = state::path_of(&self.place.settings.state_dir, &traces.lan, &traces.wan)?;
        let claim = Claim::take_over(claim, path, Traces { pid: std::process::id(), ..traces })?;
        // The other may still have something to write.
        self.place.claim.insert(claim).write_aside(|| predecessor.gone());
        Ok(())
    }
}

/// A way for packets by what another box has left.
fn resumed<C>(
    resume: Resume<C>,
    (fds, left): (Vec<OwnedFd>, Inheritance),
) -> anyhow::Result<(C, Option<Inheritance>)> {
    Ok((resume(fds, &left.estate.numbers)?, Some(left)))
}

/// Checks that every link of a process that is to go is among those with these state files.
///
/// # Errors
/// Names one that is not, and the remedy.
pub fn all_are_meant(dir: &Path, pid: u32, files: &[PathBuf]) -> anyhow::Result<()> {
    for theirs in state::living(dir)?.into_iter().filter(|traces| traces.pid == pid) {
        if !files.contains(&state::path_of(dir, &theirs.lan, &theirs.wan)?) {
            bail!(
                "replace: process {pid} also has the link between {} and {}: name all its links, or stop it first \
                 (kill {pid})",
                theirs.lan,
                theirs.wan
            );
        }
    }
    Ok(())
}
