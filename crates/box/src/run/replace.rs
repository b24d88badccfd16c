//! A process takes the place of another, or is replaced: links of both go over, links of the old one alone are let go,
//! new ones are started. All links that go over stop between two packets and are taken together, or all go on.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::link::{Link, of_link};
use super::link_setup::LinkSetup;
use super::{Listeners, Process, listen_for_readers};
use crate::control::{Asked, StatusPublisher};
use crate::handover::{
    self, LinkTerms, Predecessor, ProcessTerms, ReleaseRequest, SharedFds, Successor, Terms, deadline,
};
use crate::link_loop::Order;
use crate::log::Notice;
use crate::service;
use crate::state::{self, Changes, Claim};

/// Time that a link has to stop that is let go.
const LETTING_GO: Duration = Duration::from_secs(5);

/// Takeover of another process.
pub struct Takeover {
    predecessor: Predecessor,
    /// Note of the changes that the other process has made.
    changes: Changes,
    /// Links that are taken over: index among this process's links, and the predecessor's terms.
    taken: Vec<(usize, LinkTerms)>,
}

/// Finds the process whose links these set-ups go on with. A process that stands in the way is stopped.
pub fn find(setups: &[LinkSetup], tell: &mut dyn FnMut(Notice)) -> anyhow::Result<Option<Takeover>> {
    let settings = &setups[0].settings;
    let dir = &settings.state_dir;
    let files = setups.iter().map(LinkSetup::state_file).collect::<anyhow::Result<Vec<_>>>()?;
    loop {
        let living = state::living(dir)?;
        let theirs =
            |t: &Changes| state::path_of(dir, &t.lan, &t.wan).is_ok_and(|path| files.contains(&path));
        // A process with this control socket has these links; another may have one of them.
        let other = living.iter().filter(|t| theirs(t)).min_by_key(|t| t.control == settings.control);
        let Some(changes) = other.cloned() else { return Ok(None) };
        // A file without a [[link]] table tells nothing of other links.
        if matches!(setups, [only] if only.settings.name.is_none()) {
            all_are_meant(dir, changes.pid, &files)?;
        }
        match suitable(setups, &changes, &files) {
            Ok(takeover) => return Ok(Some(takeover)),
            Err(error) => {
                all_are_meant(dir, changes.pid, &files)?;
                tell(Notice::Warning(format!(
                    "process {} cannot be replaced while packets flow: {error:#}; it is stopped, and this one starts \
                     afresh",
                    changes.pid
                )));
                handover::dismiss(&changes, dir)?;
            }
        }
    }
}

fn suitable(setups: &[LinkSetup], changes: &Changes, files: &[PathBuf]) -> anyhow::Result<Takeover> {
    let settings = &setups[0].settings;
    ensure!(changes.control == settings.control, "its control socket is {}", changes.control.display());
    let predecessor = Predecessor::ask(changes)?;
    let (mut taken, mut why) = (Vec::new(), None);
    for link in &predecessor.terms.links {
        let path = state::path_of(&settings.state_dir, &link.lan[0], &link.wan)?;
        let Some(at) = files.iter().position(|file| *file == path) else { continue };
        match setups[at].goes_on_with(&link.lan, &link.terms) {
            Ok(()) => taken.push((at, link.clone())),
            Err(error) => why = Some(error),
        }
    }
    if taken.is_empty() {
        return Err(why.unwrap_or_else(|| anyhow::anyhow!("none of its links is here")));
    }
    taken.sort_by_key(|(at, _)| *at);
    Ok(Takeover { predecessor, changes: changes.clone(), taken })
}

impl Takeover {
    /// Terms of the link at index `at` of this process, if the link is taken over.
    pub fn of(&self, at: usize) -> Option<&LinkTerms> {
        self.taken.iter().find(|(place, _)| *place == at).map(|(_, link)| link)
    }

    /// Asks the other process again, so that its connection has not waited long.
    pub fn again(self) -> anyhow::Result<Self> {
        Ok(Self { predecessor: self.predecessor.again(&self.changes)?, ..self })
    }

    /// Has links let go that stand in the way of new ones.
    pub fn make_room(&mut self, setups: &[LinkSetup], tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
        let new: Vec<&LinkSetup> =
            (0..setups.len()).filter(|at| self.of(*at).is_none()).map(|at| &setups[at]).collect();
        let taken = |link: &&LinkTerms| self.taken.iter().any(|(_, taken)| taken.number == link.number);
        let others = self.predecessor.terms.links.iter().filter(|link| !taken(link));
        let in_the_way: Vec<_> = others.filter(|link| new.iter().any(|setup| setup.excludes(link))).collect();
        if in_the_way.is_empty() {
            return Ok(());
        }
        let words: Vec<_> =
            in_the_way.iter().map(|l| format!("{} <-> {}", l.lan.join(", "), l.wan)).collect();
        tell(Notice::Warning(format!(
            "what becomes of {} is another link: it is stopped, and starts afresh; the others go over while packets \
             flow",
            words.join("; ")
        )));
        let numbers: Vec<_> = in_the_way.iter().map(|link| link.number).collect();
        Predecessor::release(&self.changes.control, &numbers)
    }
}

/// Checks that every link of a process that is to go is among those with these state files.
///
/// # Errors
/// Names one that is not, and the remedy.
fn all_are_meant(dir: &Path, pid: u32, files: &[PathBuf]) -> anyhow::Result<()> {
    for theirs in state::living(dir)?.into_iter().filter(|changes| changes.pid == pid) {
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

impl Process<'_> {
    /// Takes over the predecessor's sockets and links for good, and lets the predecessor end.
    pub(super) fn inherit(
        &mut self,
        takeover: Takeover,
        publisher: &Arc<StatusPublisher>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<Listeners> {
        let Takeover { predecessor, changes, taken } = takeover;
        let asked = Instant::now();
        let numbers: Vec<_> = taken.iter().map(|(_, link)| link.number).collect();
        let (received, mut shared) = predecessor.take(&numbers)?;
        let told = asked.elapsed();
        let mut claims = Vec::new();
        for ((at, _), received) in taken.iter().zip(received) {
            claims.push(received.claim);
            self.links[*at].inherit(received.state, received.fds)?;
        }
        for (at, _) in &taken {
            of_link(self.links[*at].name.as_deref(), self.links[*at].has_reached())?;
        }
        let known = asked.elapsed();
        ensure!(predecessor.settle(), "process {} did not let go, and goes on", changes.pid);
        tell(Notice::Detail(format!(
            "taken over: told after {told:.1?}, known after {known:.1?}, its own after {:.1?}",
            asked.elapsed()
        )));
        service::taken_over();
        predecessor.bye();
        taken.iter().for_each(|(at, _)| self.links[*at].go());
        self.claim_taken(&taken, claims, &changes)?;
        let listener = shared.remove(0).into();
        let theirs = shared.pop().map(Into::into);
        let settings = &self.setups[0].settings;
        let page = theirs.filter(|_| settings.page.is_some());
        let page = page.map_or_else(|| listen_for_readers(settings).unwrap_or(None), Some);
        self.shared = Some(SharedFds::of(&listener, page.as_ref())?);
        self.tell_terms(publisher);
        // In a thread: the other may have links to stop.
        let gone = std::thread::Builder::new().name("predecessor".into());
        let _ = gone.spawn(move || predecessor.gone());
        Ok((listener, page))
    }

    /// Writes the state files of the links that went over in this process's name.
    fn claim_taken(
        &mut self,
        taken: &[(usize, LinkTerms)],
        claims: Vec<OwnedFd>,
        changes: &Changes,
    ) -> anyhow::Result<()> {
        let noted = state::living(&self.setups[0].settings.state_dir)?;
        for ((at, _), claim) in taken.iter().zip(claims) {
            let setup = &mut self.setups[*at];
            let path = setup.state_file()?;
            let same = |t: &&Changes| {
                state::path_of(&setup.settings.state_dir, &t.lan, &t.wan).is_ok_and(|p| p == path)
            };
            let old = noted.iter().find(same).unwrap_or(changes).clone();
            let claim = Claim::take_over(claim, path, Changes { pid: std::process::id(), ..old })?;
            setup.claim.insert(claim).write_aside(|| {});
        }
        Ok(())
    }

    /// Terms on which this process can be replaced now.
    fn terms(&self) -> ProcessTerms {
        let both = (0..).zip(self.links.iter().zip(&self.setups));
        let lives = both.filter(|(_, (link, setup))| link.ended.is_none() && setup.claim.is_some());
        let links = lives.map(|(number, (link, setup))| LinkTerms {
            number,
            lan: setup.settings.lan.clone(),
            wan: setup.settings.wan.clone(),
            terms: Terms::new(setup.settings.backend.to_string(), &link.bypass),
        });
        ProcessTerms { links: links.collect(), page: self.shared.as_ref().is_some_and(|h| h.has_page()) }
    }

    /// Publishes the terms on which another process can replace this one.
    pub(super) fn tell_terms(&self, publisher: &StatusPublisher) {
        publisher.may_be_replaced(&self.terms());
    }

    /// Does what another process asks for. Returns that process if it has taken over.
    pub(super) fn yield_to(
        &mut self,
        asked: Asked,
        publisher: &StatusPublisher,
        tell: &mut dyn FnMut(Notice),
    ) -> Option<Successor> {
        match asked {
            Asked::Release(request) => {
                self.let_go(&request, tell);
                self.tell_terms(publisher);
                None
            }
            Asked::Replace(successor, numbers) => match self.hand_over(&successor, &numbers, tell) {
                Ok(()) => Some(successor),
                Err(error) => {
                    successor.refuse();
                    tell(Notice::Warning(format!(
                        "a process that wanted to take over did not, and all links go on: {error:#}"
                    )));
                    None
                }
            },
        }
    }

    /// Lets go of links that are in the way of others.
    fn let_go(&mut self, request: &ReleaseRequest, tell: &mut dyn FnMut(Notice)) {
        let outcome = request.links.iter().map(|number| self.end(*number)).fold(Ok(()), Result::and);
        if let Err(error) = &outcome {
            tell(Notice::Warning(format!("a link was not let go as it should: {error:#}")));
        }
        request.answer(&outcome);
    }

    /// Stops one link as all are stopped: its rules go while packets are handled, then what it holds.
    fn end(&mut self, number: u16) -> anyhow::Result<()> {
        let at = usize::from(number);
        ensure!(at < self.links.len(), "there is no link of that number");
        let watched = self.watchdog.as_ref().map_or(Ok(()), |watchdog| watchdog.let_go(number));
        let rules = self.setups[at].remove_rules();
        let link = &mut self.links[at];
        link.stop();
        let ended = link.wait(Instant::now() + LETTING_GO);
        let told = format!("link {} is let go: its traffic passes unqueued", link.called());
        link.ended.get_or_insert(told);
        // The socket stays: it is the other links', or the successor's.
        let kept = self.setups[at].note(|t| t.control.clear());
        rules.and(ended).and(kept).and(self.setups[at].release()).and(watched)
    }

    /// Stops the links with these numbers, hands all of them over, and stops the other links.
    fn hand_over(
        &mut self,
        successor: &Successor,
        numbers: &[u16],
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let until = deadline();
        let known = |number: &u16| self.links.get(usize::from(*number)).is_some_and(|l| l.ended.is_none());
        ensure!(!numbers.is_empty() && numbers.iter().all(known), "it named links that are not here");
        let shared = self.shared.as_ref().context("this process cannot be replaced yet")?;
        let ask = |number: &u16| {
            let link: &Link = &self.links[usize::from(*number)];
            let (answer, answered) = sync_channel(1);
            let (take, taken) = sync_channel(1);
            link.order(Order::HandOver { answer, taken });
            (link, &self.setups[usize::from(*number)], answered, take)
        };
        // All stop before any is waited for. Where this ends with an error `take` is dropped, and all go on.
        let asked: Vec<_> = numbers.iter().map(ask).collect();
        let (mut parts, mut takes, mut words) = (Vec::new(), Vec::new(), Vec::new());
        for (link, setup, answered, take) in asked {
            let left = until.saturating_duration_since(Instant::now());
            let handed = answered
                .recv_timeout(left)
                .with_context(|| format!("link {} does not answer", link.called()))?;
            words.push(link.label(&handed.words, ": "));
            parts.push((handed, setup.claim.as_ref().map(Claim::file).context("its notes are gone")?));
            takes.push(take);
        }
        let ready = begun.elapsed();
        successor.offer(&parts, &shared.fds())?;
        self.watchdog.as_ref().map_or(Ok(()), |watchdog| watchdog.give_way(successor))?;
        let taken = begun.elapsed();
        for take in takes {
            let _ = take.send(());
        }
        drop(parts);
        self.watchdog = None;
        for number in numbers {
            let at = usize::from(*number);
            self.setups[at].claim.take().into_iter().for_each(Claim::leave);
            let _ = self.links[at].wait(Instant::now() + LETTING_GO);
        }
        // Links that nobody has taken are stopped; the socket is not removed.
        let rest = self.setups.iter_mut().map(|setup| setup.note(|t| t.control.clear()));
        if let Err(error) = rest.fold(Ok(()), Result::and) {
            tell(Notice::Warning(format!("{error:#}")));
        }
        let words = words.join("; ");
        tell(Notice::Detail(format!(
            "handed over: {words}; ready after {ready:.1?}, taken after {taken:.1?}"
        )));
        Ok(())
    }
}
