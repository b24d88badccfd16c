//! Several links of one process go over to another together: all of them, or none.
//!
//! As one link does, but: the new process names the links it goes on with by their numbers in the [`AllTerms`]; each
//! comes with a word and descriptors of its own, what they share last. Links that cannot be gone on with, or are in the
//! way of new ones, are let go before; those that nobody wants any more are stopped by the old process after it.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use narrows_netio::rights;
use serde::{Deserialize, Serialize};

use super::{Estate, PATIENCE, Predecessor, STOPPING, Successor, Terms, hear};

/// A link of a process that can be replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTerms {
    /// By which the process knows it.
    pub number: u16,
    /// Its users' interfaces.
    pub lan: Vec<String>,
    /// That of the wide network.
    pub wan: String,
    /// How it is done.
    pub terms: Terms,
}

/// What a process with several links tells another that wants to take its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllTerms {
    /// Those of its links that handle packets.
    pub links: Vec<LinkTerms>,
    /// Whether it has a status page.
    pub page: bool,
}

/// What one link hands over.
#[derive(Debug)]
pub struct Handed {
    memory: OwnedFd,
    fds: Vec<OwnedFd>,
    /// For people.
    pub words: String,
}

impl Handed {
    /// An estate, and copies of the back end's descriptors.
    ///
    /// # Errors
    /// If no memory or descriptor is left.
    pub fn new(estate: &Estate, fds: &[BorrowedFd<'_>]) -> anyhow::Result<Self> {
        let fds = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>();
        Ok(Self {
            memory: estate.in_memory()?,
            fds: fds.context("no descriptor is left")?,
            words: estate.to_string(),
        })
    }
}

/// What one link has received.
#[derive(Debug)]
pub struct Received {
    /// What it knows.
    pub estate: Estate,
    /// The back end's descriptors.
    pub fds: Vec<OwnedFd>,
    /// The locked state file.
    pub claim: OwnedFd,
}

impl Successor {
    /// Hands over links, each with its state file, and what they share, and waits for the other to be ready.
    ///
    /// # Errors
    /// If the other does not take it.
    pub fn offer_all(
        &self,
        links: &[(Handed, BorrowedFd<'_>)],
        shared: &[BorrowedFd<'_>],
    ) -> anyhow::Result<()> {
        self.stream.set_write_timeout(Some(PATIENCE))?;
        for (handed, claim) in links {
            let own = handed.fds.iter().map(AsFd::as_fd);
            let fds: Vec<_> = [handed.memory.as_fd(), *claim].into_iter().chain(own).collect();
            rights::send(&self.stream, b"link\n", &fds).context("it does not listen")?;
        }
        rights::send(&self.stream, b"box\n", shared).context("it does not listen")?;
        let word = hear(&self.stream, PATIENCE)?;
        ensure!(word == "ready", "it said '{word}'");
        (&self.stream).write_all(b"yours\n").context("it has gone")
    }

    /// Says that this process goes on.
    pub fn refuse(&self) {
        let _ = (&self.stream).write_all(b"mine\n");
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Predecessor<AllTerms> {
    /// Has it let go of links, and waits until they are free.
    ///
    /// # Errors
    /// If it does not.
    pub fn release(control: &Path, links: &[u16]) -> anyhow::Result<()> {
        let mut stream = UnixStream::connect(control).context("it does not answer")?;
        stream.write_all(line("release", links).as_bytes())?;
        let said = hear(&stream, STOPPING)?;
        ensure!(said == "released", "it does not let go of links: {said}");
        Ok(())
    }

    /// Takes its place as far as that can be taken back: these links in their order, and what they share.
    ///
    /// # Errors
    /// If it does not let go: it goes on.
    pub fn take_all(&self, links: &[u16]) -> anyhow::Result<(Vec<Received>, Vec<OwnedFd>)> {
        (&self.stream).write_all(line("replace", links).as_bytes()).context("it does not listen")?;
        let mut all = Vec::new();
        for _ in links {
            let (word, mut fds) = rights::receive(&self.stream).context("it does not hand over")?;
            ensure!(
                word == b"link\n" && fds.len() > 2,
                "it said '{}'",
                String::from_utf8_lossy(&word).trim()
            );
            let (estate, claim) = (Estate::from_memory(fds.remove(0))?, fds.remove(0));
            all.push(Received { estate, fds, claim });
        }
        let (word, fds) = rights::receive(&self.stream).context("it does not hand over")?;
        ensure!(word == b"box\n" && !fds.is_empty(), "it said '{}'", String::from_utf8_lossy(&word).trim());
        Ok((all, fds))
    }
}

fn line(word: &str, links: &[u16]) -> String {
    links.iter().fold(word.to_owned(), |line, link| format!("{line} {link}")) + "\n"
}

/// The numbers after a word of the control socket; `None` if they are something else.
#[must_use]
pub fn numbers(rest: &str) -> Option<Vec<u16>> {
    rest.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// Who has asked for links to be let go.
#[derive(Debug)]
pub struct Claimant {
    stream: UnixStream,
    /// Those links.
    pub links: Vec<u16>,
}

impl Claimant {
    /// Who has said `release` on the control socket.
    #[must_use]
    pub fn new(stream: UnixStream, links: Vec<u16>) -> Self {
        Self { stream, links }
    }

    /// Tells how it went.
    pub fn answer(&self, outcome: &anyhow::Result<()>) {
        let words = outcome.as_ref().map_or_else(|error| format!("{error:#}"), |()| "released".to_owned());
        let _ = writeln!(&self.stream, "{words}");
    }
}

/// How long a hand-over may take from its beginning.
#[must_use]
pub fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

#[cfg(test)]
mod tests {
    use super::super::MOMENT;
    use super::*;
    use crate::lane::LaneState;

    fn handed(number: u32) -> Handed {
        let lane = || LaneState {
            knowledge: None,
            free_at: narrows_units::Instant::ZERO,
            waiting: std::collections::VecDeque::new(),
            held: Vec::new(),
        };
        let (a, _) = UnixStream::pair().unwrap();
        Handed::new(&Estate::of(&[lane(), lane()], vec![number], false), &[a.as_fd()]).unwrap()
    }

    #[test]
    fn links_come_as_they_were_sent_and_are_settled_together() {
        let (theirs, stream) = UnixStream::pair().unwrap();
        let (file, _other) = UnixStream::pair().unwrap();
        let old = std::thread::spawn(move || {
            assert_eq!(hear(&theirs, MOMENT).unwrap(), "replace 3 1");
            let links = [(handed(30), file.as_fd()), (handed(10), file.as_fd())];
            Successor::new(theirs).offer_all(&links, &[file.as_fd()])
        });
        let new = Predecessor { stream, terms: AllTerms::default() };
        let (links, shared) = new.take_all(&[3, 1]).unwrap();
        let numbers: Vec<_> = links.iter().map(|l| (l.estate.numbers.clone(), l.fds.len())).collect();
        assert_eq!((numbers, shared.len()), (vec![(vec![30], 1), (vec![10], 1)], 1));
        assert!(new.settle());
        old.join().unwrap().unwrap();
    }

    #[test]
    fn links_are_named_by_numbers() {
        assert_eq!(numbers("3 1 65535"), Some(vec![3, 1, 65_535]));
        assert!(["x", "-1", "1 70000"].into_iter().all(|text| numbers(text).is_none()));
    }

    #[test]
    fn one_that_goes_on_hands_over_nothing() {
        let (theirs, stream) = UnixStream::pair().unwrap();
        let new = Predecessor { stream, terms: AllTerms::default() };
        Successor::new(theirs).refuse();
        let why = new.take_all(&[0]).unwrap_err().to_string();
        assert!(why.contains("mine") || why.contains("listen"), "{why}");
        assert!(!new.settle());
    }
}
