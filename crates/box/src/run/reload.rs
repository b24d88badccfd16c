//! Reload: settings are read again for all links, whole or not at all.

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::Process;
use super::link::{Link, of_link};
use crate::link_loop::Order;
use crate::log::Notice;
use crate::settings::Settings;

/// Time that all links together have to get ready: with that of a status, less than a client waits.
const PATIENCE: Duration = Duration::from_secs(1);

impl Process<'_> {
    /// Reads the settings again and changes what can be changed while packets flow.
    pub(super) fn reload(&mut self, tell: &mut dyn FnMut(Notice)) {
        let settings = self.source.again().and_then(|new| self.prepare(&new).map(|()| new));
        self.reload = match settings {
            Err(error) => vec![format!("settings not reloaded, the old ones stay: {error:#}")],
            Ok(new) => self.adopt(new, tell),
        };
        self.reload.iter().for_each(|n| tell(Notice::Warning(n.clone())));
    }

    /// Has every link prepare for new settings; if one link cannot, all stay as they are.
    fn prepare(&self, new: &[Settings]) -> anyhow::Result<()> {
        let names = |all: &mut dyn Iterator<Item = &Settings>| {
            all.map(|s| s.name.clone().unwrap_or_default()).collect::<Vec<_>>().join(", ")
        };
        let old = names(&mut self.setups.iter().map(|setup| &setup.settings));
        let now = names(&mut new.iter());
        let several = !(self.links.len() == 1 && self.links[0].name.is_none());
        ensure!(several || new.len() == 1, "link: there are several now: that takes a restart");
        // A link without a name is the only one, whatever the file calls it now.
        ensure!(
            !several || old == now,
            "link: these run: {old}; and now there are: {now}: that takes a restart"
        );
        let until = Instant::now() + PATIENCE;
        let ask = |http_503: bool, link: &Link| {
            let (answer, answered) = sync_channel(1);
            link.order(Order::Prepare { http_503, answer });
            answered
        };
        let lives: Vec<_> = (0..new.len()).filter(|at| self.links[*at].ended.is_none()).collect();
        let asked: Vec<_> = lives.iter().map(|at| (*at, ask(new[*at].http_503, &self.links[*at]))).collect();
        let mut outcome = Ok(());
        for (at, answered) in asked {
            let left = until.saturating_duration_since(Instant::now());
            let ready = answered.recv_timeout(left).context("it does not answer").and_then(|ready| ready);
            outcome = outcome.and(of_link(self.links[at].name.as_deref(), ready));
        }
        if outcome.is_err() {
            for at in lives {
                // The setting before worked, so it is restored without a look at the answer.
                drop(ask(self.setups[at].settings.http_503, &self.links[at]));
            }
        }
        outcome
    }

    /// Has every link adopt its settings. Returns warnings of what cannot be changed so.
    fn adopt(&mut self, new: Vec<Settings>, tell: &mut dyn FnMut(Notice)) -> Vec<String> {
        let (mut fixed, mut changed) = (Vec::new(), Vec::new());
        for ((link, setup), new) in self.links.iter().zip(&mut self.setups).zip(new) {
            let words = |settings: &Settings| {
                let [down, up] = [0, 1].map(|direction| settings.describe(direction));
                link.label(&format!("down {down}, up {up}"), ": ")
            };
            let before = words(&setup.settings);
            for name in setup.settings.adopt(&new) {
                let why = format!("{name} has changed in the settings: that takes a restart");
                fixed.push(link.name.as_ref().map_or(why.clone(), |link| format!("link {link}: {why}")));
            }
            let now = words(&setup.settings);
            if now != before || link.name.is_none() {
                changed.push(now);
            }
            link.order(Order::Adopt(Box::new(new)));
        }
        let changed = if changed.is_empty() {
            "rates and disciplines as before".to_owned()
        } else {
            changed.join("; ")
        };
        tell(Notice::Message(format!("settings reloaded: {changed}")));
        fixed.extend(self.remarks());
        fixed
    }
}
