//! A link: its two directions, what stands before it and what is lost on it.

use narrows_qdisc::{Limit, Spec};
use narrows_units::{Duration, Rate};
use toml::Value;

use super::Common;
use crate::quantity;
use crate::read::Reader;
use crate::{Error, Link, LinkDiscipline, Loss, Service, Shaping};

/// Packets of a queue that is there only because every link has one: the way back of acknowledgments.
const PLENTY: usize = 1_000;

/// Settings that may differ between the two directions of a link.
pub(super) struct Direction {
    pub(super) rate: Rate,
    pub(super) service: Service,
    pub(super) shaping: Shaping,
    pub(super) delay: Duration,
    pub(super) discipline: LinkDiscipline,
    pub(super) loss: Loss,
}

impl Direction {
    /// A direction whose rate never changes.
    pub(super) const fn constant(
        rate: Rate,
        delay: Duration,
        discipline: LinkDiscipline,
        loss: Loss,
    ) -> Self {
        Self { rate, service: Service::Constant, shaping: Shaping::None, delay, discipline, loss }
    }
}

/// Place of a link: the link's name and the nodes between which the link lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Builds the two directions of a link.
pub(super) fn pair(
    Place { name, from, to }: Place<'_>,
    forth: &Direction,
    back: &Direction,
    common: &Common<'_, '_>,
) -> (Link, Link) {
    let one = |name: String, from, to, d: &Direction| Link {
        name,
        from,
        to,
        back: None,
        rate: d.rate,
        service: d.service.clone(),
        shaping: d.shaping.clone(),
        delay: d.delay,
        discipline: d.discipline.clone(),
        overhead: common.overhead,
        mpu: common.mpu,
        framing: common.framing,
        loss: d.loss,
        drop: Vec::new(),
        drop_at: Vec::new(),
    };
    (one(name.to_owned(), from, to, forth), one(format!("{name}.back"), to, from, back))
}

/// A discipline by name.
pub(crate) fn discipline(r: &Reader<'_>, key: &'static str) -> Result<Option<LinkDiscipline>, Error> {
    let Some(text) = r.text(key)? else { return Ok(None) };
    text.parse().map(Some).map_err(|e| wrong_discipline(&r.path(key), text, &e))
}

/// A sentence about a discipline that cannot be.
fn wrong_discipline(path: &str, text: &str, e: &narrows_qdisc::SettingError) -> Error {
    let expected = match e.expected() {
        Some(names) if e.key == "discipline" => {
            format!("{names}, kernel:NAME in the lab, or srpt in the simulator")
        }
        Some(value) => format!("{} to be {value}", e.key),
        None => format!("settings without {}: {}", e.key, e.problem),
    };
    Error::value(path, format!("'{text}'"), expected)
}

pub(super) fn need(
    r: &Reader<'_>,
    key: &'static str,
    discipline: Option<LinkDiscipline>,
) -> Result<LinkDiscipline, Error> {
    discipline.ok_or_else(|| {
        r.wrong(key, "what stands before the link, as discipline = \"fifo:30\" or disciplines = [\"fifo:30\", \"taq\"]")
    })
}

/// The queue of a way that needs none.
pub(crate) fn plenty() -> LinkDiscipline {
    LinkDiscipline::Ours(Spec::Fifo(Limit::Packets(PLENTY)))
}

/// `0.01`, or `gilbert:to_bad=0.01,to_good=0.3,bad=1,good=0`.
pub(super) fn loss(r: &Reader<'_>, key: &'static str) -> Result<Option<Loss>, Error> {
    let expected =
        "a probability from 0 up to but not 1, or \"gilbert:to_bad=0.01,to_good=0.3,bad=1,good=0\"";
    let fits = |p: f64| (0.0..1.0).contains(&p);
    match r.value(key) {
        Some(Value::String(text)) => {
            let wrong = || r.wrong(key, expected);
            let mut found = [None, None, Some(1.0), Some(0.0)];
            for part in text.strip_prefix("gilbert:").ok_or_else(wrong)?.split(',') {
                let (name, value) = part.split_once('=').ok_or_else(wrong)?;
                let at = ["to_bad", "to_good", "bad", "good"].iter().position(|n| *n == name.trim());
                let value = quantity::split(value).filter(|(p, unit)| unit.is_empty() && *p <= 1.0);
                found[at.ok_or_else(wrong)?] = Some(value.ok_or_else(wrong)?.0);
            }
            match found {
                [Some(to_bad), Some(to_good), Some(bad), Some(good)] if to_good > 0.0 => {
                    Ok(Some(Loss::GilbertElliott { to_bad, to_good, bad, good }))
                }
                _ => Err(wrong()),
            }
        }
        _ => Ok(r.number(key, expected, fits)?.map(|p| if p == 0.0 { Loss::None } else { Loss::Random(p) })),
    }
}

pub(super) fn drops(r: &Reader<'_>) -> Result<Vec<u64>, Error> {
    let expected = "packet numbers, the first is 1, as [3, 7]";
    let list = r.list("drop", expected)?.unwrap_or_default();
    let numbers = list.iter().map(|v| v.as_integer().filter(|n| *n > 0).map(i64::unsigned_abs));
    let mut drops = numbers.collect::<Option<Vec<u64>>>().ok_or_else(|| r.wrong("drop", expected))?;
    drops.sort_unstable();
    Ok(drops)
}

pub(super) fn drop_times(r: &Reader<'_>) -> Result<Vec<Duration>, Error> {
    let expected = "times in quotes, as [\"1.5s\", \"4s\"]";
    let list = r.list("drop_at", expected)?.unwrap_or_default();
    let times = list.iter().map(|v| quantity::time(v.as_str()?).ok());
    let mut times = times.collect::<Option<Vec<Duration>>>().ok_or_else(|| r.wrong("drop_at", expected))?;
    times.sort_unstable();
    Ok(times)
}

/// A name of letters, digits, `-` and `_`.
pub(crate) fn plain_name(r: &Reader<'_>, key: &'static str) -> Result<Option<String>, Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match r.text(key)? {
        Some(t) if t.is_empty() || !t.chars().all(plain) => {
            Err(r.wrong(key, "letters, digits, '-' and '_', because results are called so"))
        }
        t => Ok(t.map(str::to_owned)),
    }
}
