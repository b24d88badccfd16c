//! What a loop is told beside packets: by signals where the box has one link, else by who looks after all links.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::{Receiver, SyncSender};

use anyhow::Context;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;

use crate::handover::Handed;
use crate::run::Source;
use crate::settings::Settings;

/// What a loop is to do.
pub enum Order {
    /// Come to its end.
    Stop,
    /// Do as these settings say, which were read again, or tell why they could not be read.
    Reload(anyhow::Result<Box<Settings>>),
    /// Get ready for settings with this `http_503`, and tell whether that can be.
    Prepare {
        /// Whether connections are to be answered.
        http_503: bool,
        /// Where the answer goes.
        answer: SyncSender<anyhow::Result<()>>,
    },
    /// Do as these settings say, for which all links are ready.
    Adopt(Box<Settings>),
    /// Stop between two packets and tell all that is known, with other links; go on unless it is taken.
    HandOver {
        /// Where it goes.
        answer: SyncSender<Handed>,
        /// Whether it was taken. Who gave the order alone may say so: without a word it was not.
        taken: Receiver<()>,
    },
}

/// Who gives orders.
pub trait Orders {
    /// Readable when there is one.
    fn fd(&self) -> BorrowedFd<'_>;

    /// The next one, without waiting.
    ///
    /// # Errors
    /// If they can no longer be heard.
    fn next(&mut self) -> anyhow::Result<Option<Order>>;
}

/// Orders of an operator.
#[derive(Debug)]
pub struct Signals<'a> {
    /// SIGHUP, and all that end it.
    pub signals: &'a SignalFd,
    /// What is read again.
    pub source: &'a Source,
}

impl Orders for Signals<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    fn next(&mut self) -> anyhow::Result<Option<Order>> {
        let Some(signal) = self.signals.read_signal().context("signalfd")? else { return Ok(None) };
        if signal.ssi_signo.cast_signed() != Signal::SIGHUP as i32 {
            return Ok(Some(Order::Stop));
        }
        let settings = self.source.again().and_then(|links| {
            let [link] = <[Settings; 1]>::try_from(links)
                .map_err(|_| anyhow::anyhow!("link: there are several now: that takes a restart"))?;
            Ok(Box::new(link))
        });
        Ok(Some(Order::Reload(settings)))
    }
}
