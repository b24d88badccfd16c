//! The part of a process with several links in being replaced: all links stop between two packets and are taken
//! together, or all go on.

use std::sync::mpsc::sync_channel;
use std::time::Instant;

use anyhow::{Context, ensure};

use super::Several;
use super::link::Link;
use crate::control::{Asked, StatusPublisher};
use crate::handover::{AllTerms, Claimant, LinkTerms, Successor, Terms, deadline};
use crate::looping::Order;
use crate::run::Notice;
use crate::state::Claim;

/// How long a link has to stop that is let go.
const LETTING_GO: std::time::Duration = std::time::Duration::from_secs(5);

impl Several<'_> {
    /// How this process can be replaced now.
    fn terms(&self) -> AllTerms {
        let both = (0..).zip(self.links.iter().zip(&self.places));
        let lives = both.filter(|(_, (link, place))| link.ended.is_none() && place.claim.is_some());
        let links = lives.map(|(number, (link, place))| LinkTerms {
            number,
            lan: place.settings.lan.clone(),
            wan: place.settings.wan.clone(),
            terms: Terms::new(place.settings.backend.to_string(), &link.bypass),
        });
        AllTerms { links: links.collect(), page: self.heirlooms.as_ref().is_some_and(|h| h.has_page()) }
    }

    /// Says from now on how this process can be replaced.
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
            Asked::Release(claimant) => {
                self.let_go(&claimant, tell);
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
    fn let_go(&mut self, claimant: &Claimant, tell: &mut dyn FnMut(Notice)) {
        let outcome = claimant.links.iter().map(|number| self.end(*number)).fold(Ok(()), Result::and);
        if let Err(error) = &outcome {
            tell(Notice::Warning(format!("a link was not let go as it should: {error:#}")));
        }
        claimant.answer(&outcome);
    }

    /// Stops one link as all are stopped: its rules go while packets are handled, then what it holds.
    fn end(&mut self, number: u16) -> anyhow::Result<()> {
        let at = usize::from(number);
        ensure!(at < self.links.len(), "there is no link of that number");
        let watched = self.watchdog.as_ref().map_or(Ok(()), |watchdog| watchdog.let_go(number));
        let rules = self.places[at].remove_rules();
        let link = &mut self.links[at];
        link.stop();
        let ended = link.wait(Instant::now() + LETTING_GO);
        link.ended
            .get_or_insert_with(|| format!("link {} is let go: its traffic passes unqueued", link.name));
        // The socket stays: it is the other links', or the successor's.
        let kept = self.places[at].note(|t| t.control.clear());
        rules.and(ended).and(kept).and(self.places[at].release()).and(watched)
    }

    /// Has these links stop, gives all of them away, and stops the others.
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
        let heirlooms = self.heirlooms.as_ref().context("this process cannot be replaced yet")?;
        let ask = |number: &u16| {
            let link: &Link = &self.links[usize::from(*number)];
            let (answer, answered) = sync_channel(1);
            let (take, taken) = sync_channel(1);
            link.order(Order::HandOver { answer, taken });
            (link, &self.places[usize::from(*number)], answered, take)
        };
        // All stop before any is waited for. Where this ends with an error `take` is dropped, and all go on.
        let asked: Vec<_> = numbers.iter().map(ask).collect();
        let (mut parts, mut takes, mut words) = (Vec::new(), Vec::new(), Vec::new());
        for (link, place, answered, take) in asked {
            let left = until.saturating_duration_since(Instant::now());
            let handed =
                answered.recv_timeout(left).with_context(|| format!("link {} does not answer", link.name))?;
            words.push(format!("{}: {}", link.name, handed.words));
            parts.push((handed, place.claim.as_ref().map(Claim::file).context("its notes are gone")?));
            takes.push(take);
        }
        let ready = begun.elapsed();
        successor.offer_all(&parts, &heirlooms.fds(None))?;
        self.watchdog.as_ref().map_or(Ok(()), |watchdog| watchdog.give_way(successor))?;
        let taken = begun.elapsed();
        for take in takes {
            let _ = take.send(());
        }
        drop(parts);
        self.watchdog = None;
        for number in numbers {
            let at = usize::from(*number);
            self.places[at].claim.take().into_iter().for_each(Claim::leave);
            let _ = self.links[at].wait(Instant::now() + LETTING_GO);
        }
        // What nobody has taken is stopped, but for the socket.
        let rest = self.places.iter_mut().map(|place| place.note(|t| t.control.clear()));
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
