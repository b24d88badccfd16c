//! The loop's part in rates that another program tells.

use narrows_qdisc::Direction;
use narrows_units::Rate;

use super::{Live, now};
use crate::channel::Channel;
use crate::rate_from::{RateNews, Rates};
use crate::run::Notice;
use crate::users::Sorted;

impl<C: Channel> Live<C> {
    /// Listens to who tells the rate of the link, if the settings name one.
    ///
    /// # Errors
    /// If its socket cannot be made.
    pub fn listen_for_rates(&mut self) -> anyhow::Result<()> {
        let from = self.settings.rate_from.as_ref();
        self.rates = from.map(|from| Rates::listen(from, self.publisher.clone())).transpose()?;
        Ok(())
    }

    /// Does as was told since.
    pub(super) fn hear_rates(&mut self, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let mut changed = false;
        for heard in rates.heard() {
            match heard {
                RateNews::Warning(text) => tell(Notice::Warning(text)),
                RateNews::Rate(direction, rate) => {
                    changed |= self.told[direction as usize].replace(rate) != Some(rate);
                    tell(Notice::Detail(self.told_in_words(direction, rate)));
                }
            }
        }
        if changed { self.reconfigure() } else { Ok(()) }
    }

    fn told_in_words(&self, direction: Direction, rate: Rate) -> String {
        let unused = self.settings.lanes[direction as usize].link.is_none();
        let rest = if unused { ", which is not shaped: it has no rate in the settings" } else { "" };
        format!("rate_from: {rate} {}{rest}", direction.name())
    }

    /// Changes rates and disciplines to what settings and those who tell rates say.
    pub(super) fn reconfigure(&mut self) -> anyhow::Result<()> {
        let lanes = self.settings.lanes_as_told(&self.told);
        self.room.renew();
        let mut backend =
            Sorted { backend: &mut self.channel, users: &mut self.users, sight: &mut self.sight };
        Ok(self.engine.reconfigure(now(), &lanes, &mut backend)?)
    }
}
