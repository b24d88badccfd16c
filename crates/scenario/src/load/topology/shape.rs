//! `[topology]`: some well-known shapes. All links have one rate and delay; the diamond's lower branch may differ.

use narrows_units::{Duration, Rate};

use super::link::{Direction, Place, discipline, need, plenty};
use super::{Common, Draft, SPREADS, access_rate};
use crate::read::Reader;
use crate::{Delays, Error, LinkDiscipline, Spacing};

/// Most hops of a parking lot.
const MOST_HOPS: u32 = 1_000;

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Dumbbell,
    ParkingLot,
    Diamond,
}

/// Settings of the links and hosts of a shape.
struct Parts<'r, 'c, 'a> {
    r: &'r Reader<'a>,
    common: &'c Common<'c, 'a>,
    rate: Rate,
    delay: Duration,
    discipline: LinkDiscipline,
    back_rate: Rate,
    back_discipline: LinkDiscipline,
    access: Rate,
    /// Propagation of the servers' own links.
    far: Delays,
}

/// The shape that the table tells.
pub(super) fn read<'a>(r: Reader<'a>, common: &Common<'_, 'a>) -> Result<Draft<'a>, Error> {
    let kinds =
        [("dumbbell", Shape::Dumbbell), ("parking_lot", Shape::ParkingLot), ("diamond", Shape::Diamond)];
    let kind = r.must("kind", "one of dumbbell, parking_lot, diamond", |r, k| r.word(k, &kinds))?;
    let rate = r.must("rate", "a rate, as \"1mbit\"", |r, k| r.rate(k))?;
    let delay = r.or("delay", Duration::ZERO, |r, k| r.time(k))?;
    let access = access_rate(common.access, rate)?;
    let spread = r.or("spread", Spacing::Even, |r, k| r.word(k, &SPREADS))?;
    let (low, high) = r.or("access_delay", (Duration::ZERO, Duration::ZERO), |r, k| r.times(k))?;
    let parts = Parts {
        common,
        rate,
        delay,
        discipline: need(common.access, "discipline", common.discipline.clone())?,
        back_rate: r.or("back_rate", rate, |r, k| r.rate(k))?,
        back_discipline: discipline(&r, "back_discipline")?.unwrap_or_else(plenty),
        access,
        far: Delays { low, high, spread },
        r: &r,
    };
    let draft = match kind {
        Shape::Dumbbell => parts.dumbbell(),
        Shape::ParkingLot => parts.parking_lot()?,
        Shape::Diamond => parts.diamond()?,
    };
    r.finish()?;
    Ok(draft)
}

impl<'a> Parts<'_, '_, 'a> {
    fn dumbbell(&self) -> Draft<'a> {
        let mut d = Draft::new(&["left", "right"]);
        self.link(&mut d, Place { name: "thin", from: 0, to: 1 }, self.rate, self.delay);
        self.servers(&mut d, "servers", 0);
        self.clients(&mut d, "clients", 1);
        d
    }

    fn parking_lot(&self) -> Result<Draft<'a>, Error> {
        let hops = self.r.must("hops", "the number of links in a row", |r, k| r.count(k, 1, MOST_HOPS))?;
        let hops = hops as usize;
        let names: Vec<String> = (0..=hops).map(|i| format!("n{i}")).collect();
        let mut d = Draft::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
        self.servers(&mut d, "servers", 0);
        self.clients(&mut d, "clients", hops);
        for i in 1..=hops {
            self.link(&mut d, Place { name: &format!("hop{i}"), from: i - 1, to: i }, self.rate, self.delay);
            self.servers(&mut d, &format!("servers{i}"), i - 1);
            self.clients(&mut d, &format!("clients{i}"), i);
        }
        Ok(d)
    }

    fn diamond(&self) -> Result<Draft<'a>, Error> {
        let upper = (self.rate, self.delay);
        let lower = (
            self.r.or("lower_rate", self.rate, |r, k| r.rate(k))?,
            self.r.or("lower_delay", self.delay, |r, k| r.time(k))?,
        );
        let mut d = Draft::new(&["left", "upper", "lower", "right"]);
        for (name, from, to, (rate, delay)) in [
            ("left-upper", 0, 1, upper),
            ("upper-right", 1, 3, upper),
            ("left-lower", 0, 2, lower),
            ("lower-right", 2, 3, lower),
        ] {
            self.link(&mut d, Place { name, from, to }, rate, delay);
        }
        for (side, at) in [("", 0), ("_upper", 1), ("_lower", 2)] {
            self.servers(&mut d, &format!("servers{side}"), at);
        }
        for (side, at) in [("", 3), ("_upper", 1), ("_lower", 2)] {
            self.clients(&mut d, &format!("clients{side}"), at);
        }
        Ok(d)
    }

    /// Adds a link and the link's way back, both with the same delay.
    fn link(&self, draft: &mut Draft<'a>, place: Place<'_>, rate: Rate, delay: Duration) {
        let loss = self.common.loss;
        let forth = Direction::constant(rate, delay, self.discipline.clone(), loss);
        let back = Direction::constant(self.back_rate, delay, self.back_discipline.clone(), loss);
        draft.pair(place, &forth, &back, self.common);
    }

    fn servers(&self, draft: &mut Draft<'a>, name: &str, at: usize) {
        draft.group(name, at, self.access, self.far);
    }

    fn clients(&self, draft: &mut Draft<'a>, name: &str, at: usize) {
        draft.group(name, at, self.access, Delays::default());
    }
}
