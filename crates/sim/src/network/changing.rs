//! Links whose rate changes, and the shapers before them.

use narrows_qdisc::follow::{Follow, LinkRate};
use narrows_qdisc::{BoxedDiscipline, Manage as _, Qdisc as _, Shaper, ShaperConfig, Spec};
use narrows_units::Instant;

use super::{Network, ShaperPlan};
use crate::event::Event;
use crate::ids::LinkId;
use crate::packet::Pkt;
use crate::shaped::{Autorate, Rule, Shaped, known_rate, late_rate};

/// Makes a discipline that is dequeued no faster than the discipline's shaper allows.
pub(super) fn behind_a_shaper(
    spec: &Spec,
    shape: &ShaperConfig,
    shaper: ShaperPlan<'_>,
    seed: u64,
) -> BoxedDiscipline<Pkt> {
    match shaper {
        ShaperPlan::None => spec.build(shape, seed),
        ShaperPlan::At(rate) => {
            let config = ShaperConfig { rate, ..*shape };
            Box::new(Shaper::new(config, spec.build::<Pkt>(&config, seed)))
        }
        ShaperPlan::Follow(follow) => {
            let rate = LinkRate::Auto(*follow).at_first();
            let config = ShaperConfig { rate, ..*shape };
            let inner = spec.build::<Pkt>(&config, seed);
            Box::new(Follow::new(*follow, config, spec.clone(), inner, seed))
        }
    }
}

impl Network {
    /// Connects link `id` to link `behind`, whose rate changes: packets that wait before the first wait for the second.
    pub(crate) fn feed(&mut self, id: LinkId, behind: LinkId) {
        self.links[id.index()].feeds = Some(behind);
    }

    /// The rate of a shaper is set by a rule from the beginning on.
    pub(crate) fn set_rule(&mut self, shaped: Shaped) {
        self.shaped.push(shaped);
        let place = u32::try_from(self.shaped.len() - 1).expect("a scenario is checked to have fewer links");
        self.events.push(Instant::ZERO, Event::Shape(place));
    }

    /// A rule looks at the link behind.
    pub(crate) fn shape(&mut self, place: u32) {
        let now = self.now;
        let since = self.events.since();
        let shaped = &mut self.shaped[place as usize];
        let behind = &mut self.links[shaped.behind.index()];
        behind.catch_up(now, since);
        let Some(changing) = &behind.changing else { return };
        let every = shaped.rule.every();
        let rate = match &mut shaped.rule {
            Rule::Known => known_rate(&changing.timetable, now),
            Rule::Late { hundredths } => late_rate(&changing.timetable, now, *hundredths),
            Rule::Autorate(rule) => {
                let free = behind.full_until();
                let arrives = changing.timetable.would_send(free.max(now), Autorate::ping()) + behind.delay;
                rule.look(now, arrives, behind.counters.sent_bytes)
            }
        };
        let id = shaped.link;
        if rate != shaped.config.rate {
            shaped.config.rate = rate;
            if let Some(queue) = self.links[id.index()].discipline_mut() {
                let _ = queue.discipline.reconfigure(now, shaped.spec.settings(), &shaped.config);
            }
            self.schedule(id);
        }
        self.events.push(now + every, Event::Shape(place));
    }

    /// Tells the link behind `id` whether any packet for the link behind waits at `id`.
    pub(super) fn note_waiting(&mut self, id: LinkId) {
        let link = &self.links[id.index()];
        let (Some(behind), Some(queue)) = (link.feeds, link.discipline()) else { return };
        let waits = queue.discipline.backlog().packets > 0;
        let behind = &mut self.links[behind.index()];
        let idle_from = behind.full_until();
        if let Some(changing) = &mut behind.changing {
            changing.usage.waits(self.now, waits, idle_from, &changing.timetable);
        }
    }
}
