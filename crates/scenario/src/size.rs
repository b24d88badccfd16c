//! Laws of sizes: written as text, drawn the same on every machine.

use core::fmt;
use core::str::FromStr;
use std::sync::{Arc, LazyLock};

use crate::maths::{ln, pow};
use crate::quantity;
use narrows_settings::nearest;

/// No draw is larger, in bytes: a heavy tail has no end, a run has.
pub const LARGEST: f64 = quantity::MOST_BYTES;

/// A law of sizes in bytes (or of counts, where a count is asked for).
#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    /// One size for all, the number given.
    Fixed(u64),
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Pareto: P(X > x) = (scale / x)^shape.
    Pareto {
        /// Least value.
        scale: f64,
        /// Exponent.
        shape: f64,
    },
    /// Pareto cut off at both ends and scaled up to a probability of one.
    BoundedPareto {
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
        /// Exponent.
        shape: f64,
    },
    /// Values, each as likely as any other; a value may occur more than once.
    List(Arc<[u64]>),
    /// Web objects: 50 quantiles of a bounded Pareto law on 2 to 31 kB with a mean of 7.3 kB; see [`web_sizes`].
    Web,
}

impl Size {
    /// A draw, at least 1; `u` gives uniform numbers in [0, 1) and is asked once, or not at all.
    pub fn sample(&self, u: &mut impl FnMut() -> f64) -> u64 {
        let x = match self {
            Self::Fixed(n) => return *n,
            Self::List(sizes) => return pick(sizes, u()),
            Self::Web => return pick(web_sizes(), u()),
            Self::Exponential { mean } => -mean * ln(1.0 - u()),
            Self::Pareto { scale, shape } => scale / pow(1.0 - u(), 1.0 / shape),
            Self::BoundedPareto { low, high, shape } => {
                bounded(*low, *shape, 1.0 - pow(low / high, *shape), u())
            }
        };
        x.round().clamp(1.0, LARGEST) as u64
    }

    /// The mean; infinite for a Pareto law with a shape of at most one.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let of = |sizes: &[u64]| sizes.iter().map(|s| *s as f64).sum::<f64>() / sizes.len() as f64;
        match self {
            Self::Fixed(n) => *n as f64,
            Self::Exponential { mean } => *mean,
            Self::Pareto { shape, .. } if *shape <= 1.0 => f64::INFINITY,
            Self::Pareto { scale, shape } => scale * shape / (shape - 1.0),
            Self::BoundedPareto { low, high, shape: 1.0 } => ln(high / low) * low * high / (high - low),
            Self::BoundedPareto { low, high, shape: a } => {
                let whole = 1.0 - pow(low / high, *a);
                a / (a - 1.0) * (low - high * pow(low / high, *a)) / whole
            }
            Self::List(sizes) => of(sizes),
            Self::Web => of(web_sizes()),
        }
    }
}

fn pick(sizes: &[u64], u: f64) -> u64 {
    let at = (u * sizes.len() as f64) as usize;
    sizes.get(at).or(sizes.last()).copied().unwrap_or(1)
}

/// The quantile of F(x) = (1 - (low/x)^a) / (1 - (low/high)^a); `whole` is the denominator.
fn bounded(low: f64, shape: f64, whole: f64, u: f64) -> f64 {
    low / pow(1.0 - u * whole, 1.0 / shape)
}

/// Smallest, greatest and mean of the web's objects, bytes, and how many there are.
const WEB: (f64, f64, f64, usize) = (2_000.0, 31_000.0, 7_300.0, 50);

static WEB_SIZES: LazyLock<Vec<u64>> = LazyLock::new(|| {
    // The mean falls as the exponent grows; a handful of quantiles has no closed form for it.
    let (mut low, mut high) = (0.01, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if web_quantiles(middle).iter().sum::<f64>() / WEB.3 as f64 > WEB.2 {
            low = middle;
        } else {
            high = middle;
        }
    }
    web_quantiles(low).into_iter().map(|x| x.round() as u64).collect()
});

fn web_quantiles(shape: f64) -> Vec<f64> {
    let whole = 1.0 - pow(WEB.0 / WEB.1, shape);
    (0..WEB.3).map(|i| bounded(WEB.0, shape, whole, (i as f64 + 0.5) / WEB.3 as f64)).collect()
}

/// The sizes of the web's objects in bytes, smallest first: the quantiles (i + 1/2)/50 of a bounded Pareto law on
/// [2, 31] kB whose exponent is the one that gives them a mean of 7.3 kB.
#[must_use]
pub fn web_sizes() -> &'static [u64] {
    &WEB_SIZES
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Exponential { mean } => write!(f, "exp:mean={mean}"),
            Self::Pareto { scale, shape } => write!(f, "pareto:scale={scale},shape={shape}"),
            Self::BoundedPareto { low, high, shape } => {
                write!(f, "bounded_pareto:low={low},high={high},shape={shape}")
            }
            Self::List(sizes) => {
                f.write_str("list:")?;
                for (i, s) in sizes.iter().enumerate() {
                    write!(f, "{}{s}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Web => f.write_str("web"),
        }
    }
}

/// The names of the laws, for errors.
const LAWS: [&str; 6] = ["fixed", "exp", "pareto", "bounded_pareto", "list", "web"];

impl FromStr for Size {
    type Err = String;
    /// Reads a size; an error describes a valid one, as the end of a sentence.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return quantity::bytes(text).map(Self::Fixed);
        }
        let (law, rest) = text.split_once(':').unwrap_or((text, ""));
        let parts: Vec<&str> = rest.trim_matches(['[', ']', ' ']).split(',').map(str::trim).collect();
        match law.trim() {
            "web" if rest.is_empty() => Ok(Self::Web),
            "fixed" => quantity::bytes(rest).map(Self::Fixed),
            "list" => {
                let sizes: Result<Vec<u64>, String> = parts.iter().map(|p| quantity::bytes(p)).collect();
                Ok(Self::List(sizes?.into()))
            }
            "exp" => Ok(Self::Exponential { mean: Settings::read("exp", &parts, &["mean"])?.get("mean")? }),
            "pareto" => {
                let s = Settings::read("pareto", &parts, &["mean", "scale", "shape"])?;
                let shape = s.get("shape")?;
                match (s.get("scale"), s.get("mean")) {
                    (Ok(scale), Err(_)) => Ok(Self::Pareto { scale, shape }),
                    (Err(_), Ok(mean)) if shape > 1.0 => {
                        Ok(Self::Pareto { scale: mean * (shape - 1.0) / shape, shape })
                    }
                    (Err(_), Ok(_)) => {
                        Err("a shape above 1 where a mean is given: below it there is none, say \
                                           scale instead"
                            .to_owned())
                    }
                    _ => Err("either mean or scale, as in pareto:mean=10kB,shape=1.2".to_owned()),
                }
            }
            "bounded_pareto" => {
                let s = Settings::read("bounded_pareto", &parts, &["low", "high", "shape"])?;
                let (low, high, shape) = (s.get("low")?, s.get("high")?, s.get("shape")?);
                if low >= high {
                    return Err("low below high, as in bounded_pareto:low=2kB,high=1MB,shape=1.2".to_owned());
                }
                Ok(Self::BoundedPareto { low, high, shape })
            }
            other => {
                let near = nearest(other, LAWS).map_or(String::new(), |n| format!("; did you mean '{n}'?"));
                Err(format!("a size as 64kB, or a law: one of {}{near}", LAWS.join(", ")))
            }
        }
    }
}

/// `mean=10kB,shape=1.2`; a single bare value is the first key's.
struct Settings(Vec<(&'static str, f64)>, &'static str);

impl Settings {
    fn read(law: &'static str, parts: &[&str], keys: &[&'static str]) -> Result<Self, String> {
        let mut found = Vec::new();
        for part in parts.iter().filter(|p| !p.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((keys[0], part));
            let known = keys.iter().find(|k| **k == key.trim());
            let key = *known.ok_or_else(|| format!("of {law} only {}", keys.join(", ")))?;
            let value = match key {
                "shape" => quantity::split(value).filter(|(x, unit)| {
                    // Outside this the quantiles are all one number or beyond any size.
                    unit.is_empty() && (0.01..=100.0).contains(x)
                }),
                _ => quantity::bytes(value).ok().map(|b| (b as f64, "")),
            };
            let wrong = || match key {
                "shape" => "a shape of 0.01 to 100, as in pareto:mean=10kB,shape=1.2".to_owned(),
                _ => format!("a size above 0 for {key} of {law}, as in {key}=10kB"),
            };
            found.push((key, value.ok_or_else(wrong)?.0));
        }
        Ok(Self(found, law))
    }

    fn get(&self, key: &str) -> Result<f64, String> {
        let found = self.0.iter().find(|(k, _)| *k == key);
        found.map(|(_, v)| *v).ok_or_else(|| format!("a {key} for {}, as in {key}=...", self.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uniform numbers of a small generator (xorshift64*), for tests.
    fn uniform(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    fn size(text: &str) -> Size {
        text.parse().unwrap()
    }

    #[test]
    fn the_web_s_bounds_mean_and_shape() {
        let s = web_sizes();
        assert!((size("web").mean() - 7_300.0).abs() < 1.0);
        assert!(s[0] >= 2_000 && s[49] <= 31_000 && s.is_sorted() && s.len() == 50, "{s:?}");
        // The quantiles worked out apart, with another library's power.
        assert_eq!((s[0], s[10], s[25], s[49]), (2_027, 2_707, 4_759, 28_875));
    }

    #[test]
    fn laws_as_text_and_back() {
        assert_eq!(size("64kB"), Size::Fixed(64_000));
        assert_eq!(size("fixed:1500"), Size::Fixed(1500));
        assert_eq!(size("exp:7300"), Size::Exponential { mean: 7300.0 });
        // scale = mean (a - 1) / a.
        assert_eq!(size("pareto:mean=10kB,shape=1.25"), Size::Pareto { scale: 2000.0, shape: 1.25 });
        assert_eq!(size("list:[500, 1000,2kB]"), Size::List([500, 1000, 2000].into()));
        for text in ["web", "exp:mean=9", "bounded_pareto:low=2,high=9,shape=1.5", "list:1,2", "7"] {
            assert_eq!(size(text).to_string(), text);
            assert_eq!(size(&size(text).to_string()), size(text));
        }
    }

    #[test]
    fn wrong_laws_say_what_is_expected() {
        for (text, says) in [
            ("", "a size as 64kB"),
            ("paretto:mean=1,shape=2", "did you mean 'pareto'"),
            ("pareto:mean=10kB,shape=0.9", "above 1"),
            ("pareto:shape=1.2", "either mean or scale"),
            ("pareto:mean=10kB", "a shape for pareto"),
            ("pareto:mean=10kB,shape=nan", "0.01 to 100"),
            ("bounded_pareto:low=9,high=2,shape=1", "low below high"),
            ("exp:-5", "above 0"),
            ("exp:median=5", "only mean"),
            ("list:", "number of bytes"),
            ("0", "above 0"),
            ("-5", "a size"),
        ] {
            let e = text.parse::<Size>().unwrap_err();
            assert!(e.contains(says), "{text}: {e}");
        }
    }

    #[test]
    fn draws_have_the_mean_of_the_law() {
        // 2e5 draws; the tolerance is some five standard errors (the bounded law's sd is about twice its mean).
        for text in
            ["exp:7300", "bounded_pareto:low=2kB,high=200kB,shape=1.2", "web", "pareto:mean=9kB,shape=3"]
        {
            let (law, mut u) = (size(text), uniform(7));
            let mean = (0..200_000).map(|_| law.sample(&mut u) as f64).sum::<f64>() / 2e5;
            assert!((mean / law.mean() - 1.0).abs() < 0.025, "{text}: {mean} {}", law.mean());
        }
        // E = ln(H/L) L H / (H - L) at a shape of one: 2 ln 2 for [1, 2].
        assert!((size("bounded_pareto:low=1,high=2,shape=1").mean() - 2.0 * ln(2.0)).abs() < 1e-12);
    }

    #[test]
    fn draws_stay_inside() {
        let mut ends = [0.0, 1.0 - f64::EPSILON / 2.0].into_iter().cycle();
        let mut u = || ends.next().unwrap();
        let law = size("bounded_pareto:low=2kB,high=31kB,shape=0.5");
        assert_eq!((law.sample(&mut u), law.sample(&mut u)), (2_000, 31_000));
        assert_eq!((size("exp:5").sample(&mut u), size("list:3,4").sample(&mut u)), (1, 4));
        let heavy = size("pareto:scale=1GB,shape=0.01");
        assert_eq!((heavy.sample(&mut u), heavy.sample(&mut u)), (1_000_000_000, LARGEST as u64));
    }
}
