//! Columns of the table: the discipline in the box, and the rate to which the box holds the way to the users, where the
//! file gives a shaper: `taq`, `taq at auto:where=before`, `kernel:cake at mean`.

use narrows_qdisc::follow::LinkRate;
use narrows_scenario::Shaping;
use narrows_units::Rate;

use super::scenario::Scenario;

/// A column's discipline and shaper, read from its name.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxColumn<'a> {
    /// Discipline, as `taq` or `kernel:cake`.
    pub discipline: &'a str,
    shaping: Shaping,
}

impl<'a> BoxColumn<'a> {
    /// Reads the name of a column.
    ///
    /// # Errors
    /// If its shaper is none.
    pub fn read(name: &'a str) -> Result<Self, String> {
        let (discipline, shaper) = name.split_once(" at ").unwrap_or((name, "none"));
        let shaping = shaper.trim().parse().map_err(|e| format!("shaper '{shaper}': expected {e}"))?;
        Ok(Self { discipline: discipline.trim(), shaping })
    }

    /// The kernel's discipline, as `cake` of `kernel:cake`; `None` for one of ours.
    #[must_use]
    pub fn kernel(&self) -> Option<&'a str> {
        self.discipline.strip_prefix("kernel:")
    }

    /// Rate of the way to the users.
    ///
    /// # Errors
    /// If only the simulator has the shaper, or the shaper is about a link before the box and there is none.
    pub fn rate(&self, scenario: &Scenario) -> Result<LinkRate, String> {
        let before = |what: &str| {
            let mean = scenario.before.as_ref().map(|link| link.down.mean());
            mean.ok_or_else(|| {
                format!("shaper '{what}' is about a link before the box, and the file has none")
            })
        };
        match &self.shaping {
            Shaping::None => Ok(LinkRate::Fixed(scenario.rate)),
            Shaping::Static(rate) => Ok(LinkRate::Fixed(*rate)),
            Shaping::Mean(hundredths) => {
                let mean = before("mean")?.as_bps();
                Ok(LinkRate::Fixed(Rate::from_bps(mean * u64::from(*hundredths) / 100)))
            }
            Shaping::Auto(config) => before("auto").map(|_| LinkRate::Auto(**config)),
            Shaping::Known | Shaping::Late(_) | Shaping::Autorate => {
                Err(format!("only the simulator has the shaper '{}'", self.shaping))
            }
        }
    }

    /// Rate of the way to the users for a kernel's discipline, which follows no link by itself.
    ///
    /// # Errors
    /// As [`BoxColumn::rate`], or if the shaper is auto.
    pub fn kernel_rate(&self, scenario: &Scenario) -> Result<Rate, String> {
        match self.rate(scenario)? {
            LinkRate::Fixed(rate) => Ok(rate),
            LinkRate::Auto(_) => Err(format!(
                "shaper 'auto' is ours: expected a rate, mean or none; the kernel's CAKE has autorate-ingress: \
                 '{} autorate-ingress'",
                self.discipline
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISH: &str = "name = 't'\ndiscipline = 'taq'\n[[link]]\nfrom = 'a'\nto = 'b'\nrate = '1500kbit'\n\
                        discipline = 'fifo:9'\n[[link]]\nfrom = 'b'\nto = 'c'\nrate = '9mbit'\n\
                        [[hosts]]\nname = 's'\nat = 'a'\n[[hosts]]\nname = 'u'\nat = 'c'\n\
                        [[traffic]]\nkind = 'long'\nflows = 1\nfrom = 's'\nto = 'u'\n";
    const THIN: &str =
        "name = 't'\nrate = '9mbit'\ndiscipline = 'taq'\ntraffic = [{ kind = 'long', flows = 1 }]\n";

    #[test]
    fn a_column_is_a_discipline_and_a_shaper() {
        let kbps = |file: &str, column: &str| match BoxColumn::read(column)
            .unwrap()
            .rate(&Scenario::parse(file, &[]).unwrap())
        {
            Ok(LinkRate::Fixed(rate)) => Ok(rate.as_bps() / 1000),
            Ok(LinkRate::Auto(config)) => Err(LinkRate::Auto(config).to_string()),
            Err(why) => Err(why),
        };
        for (column, rate) in
            [("taq", 9000), ("taq at 500kbit", 500), ("kernel:cake at mean", 1500), ("x at mean/2", 750)]
        {
            assert_eq!(kbps(DISH, column), Ok(rate), "{column}");
        }
        assert_eq!(kbps(DISH, "taq at auto:where=before"), Err("auto:where=before".to_owned()));
        assert_eq!(kbps(THIN, "taq at 500kbit"), Ok(500));
        for (file, column, says) in [
            (DISH, "taq at late:60", "only the simulator has the shaper 'late:60'"),
            (DISH, "taq at cake-autorate", "only the simulator"),
            (THIN, "taq at mean", "the file has none"),
            (THIN, "taq at auto", "the file has none"),
        ] {
            let why = kbps(file, column).unwrap_err();
            assert!(why.contains(says), "{column}: {why}");
        }
        let why = BoxColumn::read("taq at nonsense").unwrap_err();
        assert!(why.contains("shaper 'nonsense': expected none, a rate"), "{why}");
        let cake = BoxColumn::read("kernel:cake ingress at auto").unwrap();
        assert_eq!(cake.kernel(), Some("cake ingress"));
        let why = cake.kernel_rate(&Scenario::parse(DISH, &[]).unwrap()).unwrap_err();
        assert!(why.contains("autorate-ingress"), "{why}");
    }
}
