//! Causes of stalls, by the names of `narrows diagnose`, and two that only the box itself knows.

use narrows_diagnose::Cause as Told;

/// Cause of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Cause that a capture tells too.
    Told(Told),
    /// Admission control kept the connection back.
    HeldAtAdmission,
    /// A QUIC connection asked more than once and got no answer. The end's packets do not show why.
    Starved,
}

impl Cause {
    /// Number of causes. `client_idle` is no stall here: nothing is ever counted there.
    pub const COUNT: usize = Told::ALL.len() + 2;

    /// All causes of stalls.
    pub fn all() -> impl Iterator<Item = Self> {
        Told::ALL.into_iter().map(Self::Told).chain([Self::HeldAtAdmission, Self::Starved])
    }

    /// Place of the cause in tables.
    pub const fn index(self) -> usize {
        match self {
            Self::Told(told) => told as usize,
            Self::HeldAtAdmission => Told::ALL.len(),
            Self::Starved => Told::ALL.len() + 1,
        }
    }

    /// The name in JSON and in labels.
    pub fn name(self) -> String {
        match self {
            // The names of the diagnosis are those it writes.
            Self::Told(told) => plain(&told),
            Self::HeldAtAdmission => "held_at_admission".to_owned(),
            Self::Starved => "starved".to_owned(),
        }
    }

    /// Name of the cause in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Told(told) => told.words(),
            Self::HeldAtAdmission => "held at admission",
            Self::Starved => "no answer (QUIC)",
        }
    }

    /// Whether packets were lost.
    pub const fn is_loss(self) -> bool {
        matches!(self, Self::Told(told) if told.is_loss())
    }

    /// Whether it is the network, and not an application, that let somebody wait.
    pub const fn is_of_the_network(self) -> bool {
        !matches!(self, Self::Told(Told::DataUnavailable | Told::ClientIdle))
    }
}

/// Name of a unit variant, as JSON has the name.
pub fn plain(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Places where packets were lost, seen from the box: any of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost(u8);

impl Lost {
    /// No loss, or an unknown place.
    pub const UNKNOWN: Self = Self(0);
    /// Packets were lost between the sender and the box, and so never seen.
    pub const BEFORE: Self = Self(1);
    /// Dropped by the box.
    pub const HERE: Self = Self(2);
    /// Packets were lost between the box and the receiver.
    pub const BEHIND: Self = Self(4);
    /// Number of names.
    pub const COUNT: usize = 5;
    /// The names, by [`Lost::index`].
    pub const NAMES: [&'static str; Self::COUNT] = ["unknown", "before", "here", "behind", "both"];

    /// Joins the places of two losses.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Place of the loss in tables: more than one place is `both`.
    pub const fn index(self) -> usize {
        match self.0 {
            0 => 0,
            1 => 1,
            2 => 2,
            4 => 3,
            _ => 4,
        }
    }

    /// The name in JSON and in labels.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// Words for the blame of a stall, in the middle of a sentence: the place, if packets were lost, else the cause.
pub const fn blame(cause: Cause, lost: usize) -> &'static str {
    if cause.is_loss() {
        return [
            "losses",
            "losses before the box",
            "drops by the box",
            "losses behind the box",
            "losses in several places",
        ][lost];
    }
    match cause {
        Cause::Told(Told::ZeroWindow) => "receivers that closed their windows",
        Cause::Told(Told::AckDelayedOrLost) => "acknowledgments that were late or lost",
        Cause::Told(Told::DataUnavailable | Told::ClientIdle) => "applications that were not ready",
        Cause::HeldAtAdmission => "admission control",
        Cause::Starved => "QUIC connections that got no answer",
        Cause::Told(_) => "packets that were long on their way",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_diagnosis_and_each_has_its_place() {
        let names: Vec<String> = Cause::all().map(Cause::name).collect();
        assert_eq!(names.len(), Cause::COUNT);
        assert_eq!((names[0].as_str(), names[Cause::COUNT - 1].as_str()), ("data_unavailable", "starved"));
        assert!(Cause::all().enumerate().all(|(i, cause)| cause.index() == i));
    }

    #[test]
    fn two_places_are_both() {
        assert_eq!(Lost::BEFORE.and(Lost::BEHIND).name(), "both");
        assert_eq!(Lost::HERE.and(Lost::UNKNOWN).name(), "here");
        let loss = Cause::Told(Told::TailLoss);
        assert_eq!(blame(loss, Lost::BEHIND.index()), "losses behind the box");
        assert_eq!(blame(Cause::Starved, 0), "QUIC connections that got no answer");
    }
}
