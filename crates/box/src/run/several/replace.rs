//! Several links in place of those of another process: what both have goes over, what the other alone has is let go,
//! what is new is started.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use sd_notify::NotifyState;

use super::Several;
use crate::control::{self, StatusPublisher};
use crate::handover::{self, AllTerms, LinkTerms, Predecessor};
use crate::privilege::Identity;
use crate::run::replace::all_are_meant;
use crate::run::{Heirlooms, Notice, Place, listen_for_readers};
use crate::state::{self, Claim, Traces};

/// Another process whose place is taken.
pub struct Succession {
    predecessor: Predecessor<AllTerms>,
    /// One of its notes.
    traces: Traces,
    /// Its links that go over: their place here, and how they are there.
    heirs: Vec<(usize, LinkTerms)>,
}

/// The process whose links these places go on with, if there is one. What stands in the way is stopped.
pub fn find(places: &[Place], tell: &mut dyn FnMut(Notice)) -> anyhow::Result<Option<Succession>> {
    let settings = &places[0].settings;
    let dir = &settings.state_dir;
    let files = places.iter().map(Place::state_file).collect::<anyhow::Result<Vec<_>>>()?;
    loop {
        let living = state::living(dir)?;
        let theirs = |t: &Traces| state::path_of(dir, &t.lan, &t.wan).is_ok_and(|path| files.contains(&path));
        // Who has our socket has our links; another process may have one of them.
        let other = living.iter().filter(|t| theirs(t)).min_by_key(|t| t.control == settings.control);
        let Some(traces) = other.cloned() else { return Ok(None) };
        let found = suitable(places, &traces, &files);
        match found {
            Ok(succession) => return Ok(Some(succession)),
            Err(error) => {
                all_are_meant(dir, traces.pid, &files)?;
                tell(Notice::Warning(format!(
                    "process {} cannot be replaced while packets flow: {error:#}; it is stopped, and this one starts \
                     afresh",
                    traces.pid
                )));
                handover::dismiss(&traces, dir)?;
            }
        }
    }
}

fn suitable(places: &[Place], traces: &Traces, files: &[PathBuf]) -> anyhow::Result<Succession> {
    let settings = &places[0].settings;
    ensure!(traces.control == settings.control, "its control socket is {}", traces.control.display());
    let predecessor = Predecessor::<AllTerms>::ask(traces)?;
    let (mut heirs, mut why) = (Vec::new(), None);
    for link in &predecessor.terms.links {
        let path = state::path_of(&settings.state_dir, &link.lan[0], &link.wan)?;
        let Some(at) = files.iter().position(|file| *file == path) else { continue };
        match places[at].goes_on_with(&link.lan, &link.terms) {
            Ok(()) => heirs.push((at, link.clone())),
            Err(error) => why = Some(error),
        }
    }
    if heirs.is_empty() {
        return Err(why.unwrap_or_else(|| anyhow::anyhow!("none of its links is here")));
    }
    heirs.sort_by_key(|(at, _)| *at);
    Ok(Succession { predecessor, traces: traces.clone(), heirs })
}

impl Succession {
    /// How the link in this place was done before, if it goes over.
    pub fn of(&self, at: usize) -> Option<&LinkTerms> {
        self.heirs.iter().find(|(place, _)| *place == at).map(|(_, link)| link)
    }

    /// The same once more, with a connection that has not waited long.
    pub fn again(self) -> anyhow::Result<Self> {
        Ok(Self { predecessor: self.predecessor.again(&self.traces)?, ..self })
    }

    /// Has links let go that stand in the way of new ones.
    pub fn make_room(&mut self, places: &[Place], tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
        let new: Vec<&Place> =
            (0..places.len()).filter(|at| self.of(*at).is_none()).map(|at| &places[at]).collect();
        let heirs = |link: &&LinkTerms| self.heirs.iter().any(|(_, heir)| heir.number == link.number);
        let others = self.predecessor.terms.links.iter().filter(|link| !heirs(link));
        let in_the_way: Vec<_> = others.filter(|link| new.iter().any(|place| place.excludes(link))).collect();
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
        Predecessor::release(&self.traces.control, &numbers)
    }
}

impl Several<'_> {
    /// Takes over what the other has, for good, and lets it end.
    pub(super) fn inherit(
        &mut self,
        succession: Succession,
        publisher: &std::sync::Arc<StatusPublisher>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<(std::os::unix::net::UnixListener, Option<std::net::TcpListener>)> {
        let Succession { predecessor, traces, heirs } = succession;
        let asked = Instant::now();
        let numbers: Vec<_> = heirs.iter().map(|(_, link)| link.number).collect();
        let (received, mut shared) = predecessor.take_all(&numbers)?;
        let told = asked.elapsed();
        let mut claims = Vec::new();
        for ((at, _), received) in heirs.iter().zip(received) {
            claims.push(received.claim);
            self.links[*at].inherit(received.estate, received.fds)?;
        }
        for (at, _) in &heirs {
            self.links[*at].has_reached().with_context(|| format!("link {}", self.links[*at].name))?;
        }
        let known = asked.elapsed();
        ensure!(predecessor.settle(), "process {} did not let go, and goes on", traces.pid);
        tell(Notice::Detail(format!(
            "taken over: told after {told:.1?}, known after {known:.1?}, its own after {:.1?}",
            asked.elapsed()
        )));
        // To systemd, where it has started us.
        let _ = sd_notify::notify(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
        predecessor.farewell();
        heirs.iter().for_each(|(at, _)| self.links[*at].go());
        self.note_heirs(&heirs, claims, &traces)?;
        let listener = shared.remove(0).into();
        let theirs = shared.pop().map(Into::into);
        let settings = &self.places[0].settings;
        let page = theirs.filter(|_| settings.page.is_some());
        let page = page.map_or_else(|| listen_for_readers(settings).unwrap_or(None), Some);
        self.heirlooms = Some(Heirlooms::of(&listener, page.as_ref())?);
        self.tell_terms(publisher);
        // In a thread: the other may have links to stop.
        let gone = std::thread::Builder::new().name("predecessor".into());
        let _ = gone.spawn(move || predecessor.gone());
        Ok((listener, page))
    }

    /// The links that went over are this process's.
    fn note_heirs(
        &mut self,
        heirs: &[(usize, LinkTerms)],
        claims: Vec<std::os::fd::OwnedFd>,
        traces: &Traces,
    ) -> anyhow::Result<()> {
        let noted = state::living(&self.places[0].settings.state_dir)?;
        for ((at, _), claim) in heirs.iter().zip(claims) {
            let place = &mut self.places[*at];
            let path = place.state_file()?;
            let same = |t: &&Traces| {
                state::path_of(&place.settings.state_dir, &t.lan, &t.wan).is_ok_and(|p| p == path)
            };
            let old = noted.iter().find(same).unwrap_or(traces).clone();
            let claim = Claim::take_over(claim, path, Traces { pid: std::process::id(), ..old })?;
            place.claim.insert(claim).write_aside(|| {});
        }
        Ok(())
    }

    /// The control socket and the page of a process that takes nobody's place.
    pub(super) fn listen(
        &mut self,
        user: Option<Identity>,
    ) -> anyhow::Result<(std::os::unix::net::UnixListener, Option<std::net::TcpListener>)> {
        let settings = &self.places[0].settings;
        let (listener, page) = (control::listen(&settings.control, user)?, listen_for_readers(settings)?);
        self.heirlooms = Some(Heirlooms::of(&listener, page.as_ref())?);
        Ok((listener, page))
    }
}
