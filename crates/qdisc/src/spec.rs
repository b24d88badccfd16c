//! Disciplines named as text, the same on a command line, in a scenario and in a settings file:
//! `fifo:30`, `fifo:45000b`, `taq`, `taq:mode=paper,p_admit=0.08`.

use core::any::Any;
use core::fmt;
use core::str::FromStr;

use narrows_units::Bytes;

#[cfg(test)]
use crate::drop_front;
use crate::{
    BoxedDiscipline, Fifo, Limit, Packet, SettingError, Settings, ShaperConfig, cake, classes, codel, drr,
    fq_codel, pie, red, rio, sfq, taq,
};

/// The most a discipline may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets that wait at once.
    pub packets: usize,
    /// Flows remembered at once.
    pub flows: usize,
}

/// Settings that make a discipline.
pub trait DisciplineSettings: Settings {
    /// The most that the discipline holds on `link`.
    fn limits(&self, link: &ShaperConfig) -> Limits;

    /// The discipline for a link, empty; `seed` is for hashing, tie-breaks and dice.
    fn build<P: Packet + Send + 'static>(&self, link: &ShaperConfig, seed: u64) -> BoxedDiscipline<P>;
}

/// The disciplines with settings: a row each.
macro_rules! disciplines {
    ($($(#[$only:meta])* $doc:literal $variant:ident($config:ty);)*) => {
        /// A discipline and its settings.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Spec {
            /// Drop-tail.
            Fifo(Limit),
            $($(#[$only])* #[doc = $doc] $variant($config),)*
        }

        impl Spec {
            /// The names of all disciplines.
            pub const NAMES: &'static [&'static str] = &["fifo", $($(#[$only])* <$config as Settings>::NAME),*];

            /// The discipline's name.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    Self::Fifo(_) => "fifo",
                    $($(#[$only])* Self::$variant(_) => <$config as Settings>::NAME,)*
                }
            }

            /// Builds the discipline for a link; `seed` is for hashing, tie-breaks and dice.
            #[must_use]
            pub fn build<P: Packet + Send + 'static>(
                &self,
                link: &ShaperConfig,
                seed: u64,
            ) -> BoxedDiscipline<P> {
                match self {
                    Self::Fifo(limit) => Box::new(Fifo::new(*limit)),
                    $($(#[$only])* Self::$variant(config) => config.build(link, seed),)*
                }
            }

            /// The settings alone, for [`Manage::reconfigure`](crate::Manage::reconfigure).
            #[must_use]
            pub const fn settings(&self) -> &dyn Any {
                match self {
                    Self::Fifo(limit) => limit,
                    $($(#[$only])* Self::$variant(config) => config,)*
                }
            }

            /// The most packets and flows that the discipline holds on `link`.
            #[must_use]
            pub fn limits(&self, link: &ShaperConfig) -> Limits {
                match self {
                    Self::Fifo(Limit::Packets(n)) => Limits { packets: *n, flows: 0 },
                    // No IP packet is shorter than its header of 20 bytes.
                    Self::Fifo(Limit::Bytes(b)) => {
                        Limits { packets: usize::try_from(b.get() / 20).unwrap_or(usize::MAX), flows: 0 }
                    }
                    $($(#[$only])* Self::$variant(config) => config.limits(link),)*
                }
            }

            /// The keys of each discipline that has settings, as a table in Markdown, by name.
            #[must_use]
            pub fn markdown() -> Vec<(&'static str, String)> {
                Vec::from([$($(#[$only])* (<$config as Settings>::NAME, <$config as Settings>::markdown())),*])
            }

            fn text(&self) -> String {
                match self {
                    Self::Fifo(Limit::Packets(n)) => n.to_string(),
                    Self::Fifo(Limit::Bytes(b)) => format!("{}b", b.get()),
                    $($(#[$only])* Self::$variant(config) => config.differences(),)*
                }
            }

            fn read(name: &str, settings: &str) -> Option<Result<Self, SettingError>> {
                match name {
                    "fifo" => Some(fifo_limit(settings.trim()).map(Self::Fifo)),
                    $($(#[$only])* <$config as Settings>::NAME => Some(<$config>::read(settings).map(Self::$variant)),)*
                    _ => None,
                }
            }
        }
    };
}

disciplines! {
    "A CAKE-like discipline." Cake(cake::CakeConfig);
    "Controlled Delay." Codel(codel::CodelConfig);
    #[cfg(test)]
    "Drop from the front." DropFront(drop_front::Config);
    "Deficit Round Robin." Drr(drr::DrrConfig);
    "Flow queues with `CoDel`." FqCodel(fq_codel::FqCodelConfig);
    "Proportional Integral controller Enhanced." Pie(pie::PieConfig);
    "Random Early Detection." Red(red::RedConfig);
    "RED with in and out; RIO-PS." Rio(rio::RioConfig);
    "Stochastic Fairness Queuing." Sfq(sfq::SfqConfig);
    "Class-based isolation of short and long flows." Classes(classes::Config);
    "Timeout Aware Queuing." Taq(taq::Config);
}

impl Spec {
    /// Leading bits of an IPv6 address that are a user's by the discipline's settings; `None` if the settings do not
    /// say.
    #[must_use]
    pub fn user_prefix(&self) -> Option<u8> {
        let setting = match self {
            Self::Drr(config) => config.user_prefix,
            Self::FqCodel(config) => config.user_prefix,
            Self::Taq(config) => config.common.user_prefix,
            _ => 0,
        };
        u8::try_from(setting).ok().filter(|bits| *bits > 0)
    }

    /// Whether the discipline shares the link between users first, and keeps to the rates of circuits.
    #[must_use]
    pub const fn shares_between_users(&self) -> bool {
        match self {
            Self::Drr(config) => matches!(config.share, drr::Queues::User),
            Self::FqCodel(config) => matches!(config.share, fq_codel::FlowsOrUsers::User),
            Self::Taq(config) => config.common.by_user() && config.as_default().is_some(),
            _ => false,
        }
    }
}

impl fmt::Display for Spec {
    /// Writes the text that [`Spec::from_str`] reads; settings that have their default are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text().as_str() {
            "" => f.write_str(self.name()),
            settings => write!(f, "{}:{settings}", self.name()),
        }
    }
}

impl FromStr for Spec {
    type Err = SettingError;
    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        Self::read(name.trim(), settings).unwrap_or_else(|| {
            Err(SettingError::new("discipline", name, format!("one of {}", Self::NAMES.join(", "))))
        })
    }
}

fn fifo_limit(text: &str) -> Result<Limit, SettingError> {
    let wrong =
        || SettingError::new("fifo", text, "a limit above 0 in packets or bytes, as fifo:30 or fifo:45000b");
    let (digits, bytes) = text.strip_suffix('b').map_or((text, false), |d| (d, true));
    match digits.parse::<u32>() {
        Ok(n) if n > 0 && bytes => Ok(Limit::Bytes(Bytes(u64::from(n)))),
        Ok(n) if n > 0 => Ok(Limit::Packets(n as usize)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::{Instant, Rate};

    use super::*;
    use crate::taq::Config;
    use crate::{Record, Verdicts};

    #[test]
    fn a_limit_in_bytes_holds_as_many_packets_as_it_says() {
        // Headers of IPv4 alone: 20 bytes.
        let (spec, link) = ("fifo:4000b".parse::<Spec>().unwrap(), ShaperConfig::new(Rate::from_kbps(600)));
        let (mut q, mut v) = (spec.build::<Record>(&link, 1), Verdicts::new());
        for _ in 0..500 {
            let mut p = Record::default();
            p.header.len = Bytes(20);
            q.enqueue(Instant::ZERO, p, &mut v);
        }
        assert_eq!((q.backlog().packets, spec.limits(&link).packets), (200, 200));
    }

    #[test]
    fn names_and_what_is_wrong_with_them() {
        assert_eq!("fifo:30".parse(), Ok(Spec::Fifo(Limit::Packets(30))));
        assert_eq!("fifo:45000b".parse(), Ok(Spec::Fifo(Limit::Bytes(Bytes(45_000)))));
        assert_eq!("taq".parse(), Ok(Spec::Taq(Config::default())));
        assert_eq!("taq:paper".parse(), Ok(Spec::Taq(Config::paper())));
        assert_eq!("taq: mode=paper ,".parse(), Ok(Spec::Taq(Config::paper())));
        for text in ["fifo:30", "fifo:45000b", "taq", "taq:mode=paper,p_admit=0.08,rtt=50ms"] {
            assert_eq!(text.parse::<Spec>().map(|s| s.to_string()).as_deref(), Ok(text));
        }
        for (wrong, key) in [("taq:papre", "mode"), ("taq:p_admit=0.5", "p_admit"), ("taq:q=1", "q")] {
            assert_eq!(wrong.parse::<Spec>().unwrap_err().key, key);
        }
        for wrong in ["fifo", "fifo:0", "fifo:-1", "fifo:x", "codle"] {
            let e = wrong.parse::<Spec>().unwrap_err();
            assert!(e.to_string().contains("expected"), "{e}");
        }
    }
}
