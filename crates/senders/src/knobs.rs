//! The three senders and the knobs each is loaded with: names, ranges, and the words the kernel program reads.

use std::fmt;

use anyhow::bail;

use crate::objects;

/// A congestion control of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// Burst TCP (Goncalves): a first phase of large, shrinking steps.
    Btcp,
    /// Adaptive AIMD (Shorten and Leith): the back-off that just empties the queue.
    Aaimd,
    /// Initial Spreading (Sallantin and others): the first window evenly over the first round trip.
    Spreading,
}

/// Form and range of a knob's value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// A whole number from the first to the second.
    Whole(u32, u32),
    /// A fraction, kept in 1/65536, from the first to the second.
    Fraction(f64, f64),
    /// One of these words; its place is its value.
    Word(&'static [&'static str]),
}

/// A knob of a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// Name of the knob.
    pub name: &'static str,
    form: Form,
    default: &'static str,
}

const fn knob(name: &'static str, form: Form, default: &'static str) -> Knob {
    Knob { name, form, default }
}

// The order is that of the words in the program's `knobs`, after the kind.
const BTCP: &[Knob] = &[
    knob("f", Form::Whole(1, 64), "8"),
    knob("mice", Form::Whole(2, 1000), "32"),
    knob("after", Form::Word(&["slow-start", "ca"]), "slow-start"),
    knob("iw", Form::Whole(1, 64), "1"),
];
const AAIMD: &[Knob] = &[
    knob("beta_hi", Form::Fraction(0.5, 0.95), "0.8"),
    knob("gamma", Form::Fraction(0.5, 1.0), "0.875"),
    knob("samples", Form::Whole(1, 32), "8"),
];
const SPREADING: &[Knob] =
    &[knob("iw", Form::Whole(1, 64), "10"), knob("floor_us", Form::Whole(0, 100_000), "1000")];

impl Sender {
    /// All senders.
    pub const ALL: [Self; 3] = [Self::Btcp, Self::Aaimd, Self::Spreading];

    /// The name it is loaded under unless told otherwise.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Btcp => "narrows_btcp",
            Self::Aaimd => "narrows_aaimd",
            Self::Spreading => "narrows_is",
        }
    }

    /// Knobs of the sender.
    #[must_use]
    pub const fn knobs(self) -> &'static [Knob] {
        match self {
            Self::Btcp => BTCP,
            Self::Aaimd => AAIMD,
            Self::Spreading => SPREADING,
        }
    }

    /// The first word of its knobs and of its connections' private state: `enum kind` in `bpf/narrows.bpf.h`.
    pub(crate) const fn kind(self) -> u32 {
        match self {
            Self::Btcp => 0x4e52_5701,
            Self::Aaimd => 0x4e52_5702,
            Self::Spreading => 0x4e52_5703,
        }
    }

    pub(crate) fn of_kind(kind: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.kind() == kind)
    }

    /// BPF object of the sender; empty where clang was missing.
    pub(crate) const fn object(self) -> &'static [u8] {
        match self {
            Self::Btcp => objects::BTCP,
            Self::Aaimd => objects::AAIMD,
            Self::Spreading => objects::IS,
        }
    }

    /// Tells whether the sender works only with a [`crate::SpreadingDriver`] beside it.
    #[must_use]
    pub const fn needs_driver(self) -> bool {
        matches!(self, Self::Spreading)
    }

    /// The sender of a name.
    ///
    /// # Errors
    /// If there is none, with those there are.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        match Self::ALL.into_iter().find(|s| s.name() == name) {
            Some(sender) => Ok(sender),
            None => bail!("there is no sender '{name}': expected {}", Self::ALL.map(Self::name).join(", ")),
        }
    }
}

impl Knob {
    /// The word of a text.
    fn parse(&self, text: &str) -> Option<u32> {
        match self.form {
            Form::Whole(lo, hi) => text.parse().ok().filter(|n| (lo..=hi).contains(n)),
            Form::Fraction(lo, hi) => {
                let x: f64 = text.parse().ok().filter(|x| (lo..=hi).contains(x))?;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "between 0 and 65536"
                )]
                Some((x * 65536.0).round() as u32)
            }
            Form::Word(words) => words.iter().position(|w| *w == text).and_then(|n| u32::try_from(n).ok()),
        }
    }

    /// The text of a word.
    #[must_use]
    pub fn show(&self, word: u32) -> String {
        match self.form {
            Form::Whole(..) => word.to_string(),
            // Four decimals tell neighbours of 1/65536 apart well enough, and give back what was typed.
            Form::Fraction(..) => {
                let text = format!("{:.4}", f64::from(word) / 65536.0);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            Form::Word(words) => {
                let known = usize::try_from(word).ok().and_then(|n| words.get(n));
                known.map_or_else(|| word.to_string(), |w| (*w).to_owned())
            }
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(lo, hi) => write!(f, "a whole number from {lo} to {hi}"),
            Self::Fraction(lo, hi) => write!(f, "a number from {lo} to {hi}"),
            Self::Word(words) => write!(f, "{}", words.join(" or ")),
        }
    }
}

/// The knobs of one sender, all set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    sender: Sender,
    words: Vec<u32>,
}

impl Settings {
    /// Every knob at its default.
    #[must_use]
    pub fn new(sender: Sender) -> Self {
        // A default out of range would be 0 here, and a test looks.
        let words = sender.knobs().iter().map(|k| k.parse(k.default).unwrap_or(0)).collect();
        Self { sender, words }
    }

    /// Sets a knob from `NAME=VALUE`.
    ///
    /// # Errors
    /// If the sender has no such knob, or the value cannot be; names what was expected.
    pub fn set(&mut self, assignment: &str) -> anyhow::Result<()> {
        let (name, value) = split(assignment)?;
        let knobs = self.sender.knobs();
        let Some(place) = knobs.iter().position(|k| k.name == name) else {
            let have: Vec<_> = knobs.iter().map(|k| k.name).collect();
            bail!("{} has no knob '{name}': it has {}", self.sender.name(), have.join(", "));
        };
        let knob = &knobs[place];
        let Some(word) = knob.parse(value) else {
            bail!("{}: {name} = '{value}': expected {}", self.sender.name(), knob.form);
        };
        self.words[place] = word;
        Ok(())
    }

    /// Sender that these knobs belong to.
    #[must_use]
    pub const fn sender(&self) -> Sender {
        self.sender
    }

    /// Each knob's name and value.
    pub fn shown(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.sender.knobs().iter().zip(&self.words).map(|(k, w)| (k.name, k.show(*w)))
    }

    /// Encodes the knobs as the kernel program reads them: the kind, then a word each.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::iter::once(&self.sender.kind()).chain(&self.words).flat_map(|w| w.to_ne_bytes()).collect()
    }

    /// Decodes the knobs that a kernel program was loaded with.
    pub(crate) fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        let mut words = bytes.chunks_exact(4).map(|c| u32::from_ne_bytes([c[0], c[1], c[2], c[3]]));
        let kind = words.next().unwrap_or(0);
        let Some(sender) = Sender::of_kind(kind) else {
            bail!("knobs of an unknown kind {kind:#x}: loaded by another version of narrows");
        };
        let words: Vec<u32> = words.take(sender.knobs().len()).collect();
        Ok(Self { sender, words })
    }
}

/// `NAME=VALUE` in two.
fn split(assignment: &str) -> anyhow::Result<(&str, &str)> {
    match assignment.split_once('=') {
        Some((name, value)) => Ok((name.trim(), value.trim())),
        None => bail!("'{assignment}': expected KNOB=VALUE, as f=8"),
    }
}

/// Gives each of `senders` its settings. A knob must belong to exactly one of them: `iw` of two senders means two
/// things.
///
/// # Errors
/// If a knob belongs to none or to several, or its value cannot be.
pub fn settings(senders: &[Sender], assignments: &[String]) -> anyhow::Result<Vec<Settings>> {
    let mut all: Vec<Settings> = senders.iter().map(|s| Settings::new(*s)).collect();
    for assignment in assignments {
        let (name, _) = split(assignment)?;
        let mut owners: Vec<_> =
            all.iter_mut().filter(|s| s.sender.knobs().iter().any(|k| k.name == name)).collect();
        match &mut owners[..] {
            [one] => one.set(assignment)?,
            [] => match &mut all[..] {
                [one] => one.set(assignment)?,
                _ => bail!("no sender has a knob '{name}': {}", table(senders)),
            },
            several => bail!(
                "{} each have a knob '{name}': load them one by one, as narrows senders load {} --set {assignment}",
                several.iter().map(|s| s.sender.name()).collect::<Vec<_>>().join(" and "),
                several[0].sender.name(),
            ),
        }
    }
    Ok(all)
}

/// Lists the knobs of each sender, for an error message.
fn table(senders: &[Sender]) -> String {
    let one = |s: &Sender| {
        format!("{} has {}", s.name(), s.knobs().iter().map(|k| k.name).collect::<Vec<_>>().join(", "))
    };
    senders.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range_and_survive_the_kernel() {
        for sender in Sender::ALL {
            let settings = Settings::new(sender);
            let shown: Vec<_> = settings.shown().map(|(_, v)| v).collect();
            let expected: Vec<_> = sender.knobs().iter().map(|k| k.default.to_owned()).collect();
            assert_eq!(shown, expected, "{sender:?}");
            assert_eq!(Settings::from_bytes(&settings.bytes()).unwrap(), settings);
        }
    }

    #[test]
    fn what_cannot_be_is_named_with_what_can() {
        let refused =
            |senders: &[Sender], what: &str| settings(senders, &[what.to_owned()]).unwrap_err().to_string();
        let btcp = &[Sender::Btcp][..];
        assert_eq!(refused(btcp, "g=8"), "narrows_btcp has no knob 'g': it has f, mice, after, iw");
        assert_eq!(refused(btcp, "f=0"), "narrows_btcp: f = '0': expected a whole number from 1 to 64");
        assert_eq!(refused(btcp, "after=x"), "narrows_btcp: after = 'x': expected slow-start or ca");
        assert_eq!(refused(btcp, "f"), "'f': expected KNOB=VALUE, as f=8");
        let says = refused(&[Sender::Aaimd], "beta_hi=1");
        assert_eq!(says, "narrows_aaimd: beta_hi = '1': expected a number from 0.5 to 0.95");
        assert!(refused(&Sender::ALL, "g=1").starts_with("no sender has a knob 'g': narrows_btcp has f"));
        let both = refused(&Sender::ALL, "iw=4");
        assert!(
            both.starts_with("narrows_btcp and narrows_is each have a knob 'iw': load them one by one"),
            "{both}"
        );
    }

    #[test]
    fn a_fraction_is_rounded_to_the_nearest_65536th() {
        // 0.8 x 65536 = 52428.8
        let settings = settings(&Sender::ALL, &["beta_hi=0.8".to_owned()]).unwrap();
        assert_eq!(settings[1].words[0], 52429);
    }
}
