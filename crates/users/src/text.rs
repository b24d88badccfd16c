//! Text of a file that a spreadsheet, a billing system or a person has written: its encoding, what stands between its
//! cells, and how it writes numbers.
//!
//! Four encodings are told apart. A crate with all of the web's added 157 kB to the program of a router with arm64.

use std::borrow::Cow;

/// Bytes looked at to tell UTF-16 without a mark.
const LOOK: usize = 256;

/// Characters of the bytes 0x80 to 0x9f in Windows-1252 (WHATWG Encoding Standard, index-windows-1252); every other
/// byte is the character of its number.
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', //
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', //
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', //
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// Encoding of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    Windows1252,
}

impl Encoding {
    /// Encoding by the mark at a file's beginning, and the length of the mark.
    fn by_mark(bytes: &[u8]) -> Option<(Self, usize)> {
        match bytes {
            [0xef, 0xbb, 0xbf, ..] => Some((Self::Utf8, 3)),
            [0xff, 0xfe, ..] => Some((Self::Utf16Le, 2)),
            [0xfe, 0xff, ..] => Some((Self::Utf16Be, 2)),
            _ => None,
        }
    }

    /// Encoding without a mark: letters of ASCII have a zero before or after each in UTF-16.
    fn by_look(bytes: &[u8]) -> Self {
        let pairs: Vec<_> = bytes[..bytes.len().min(LOOK)].chunks_exact(2).collect();
        let zeros = |at: usize| pairs.iter().filter(|pair| pair[at] == 0).count() * 2 > pairs.len();
        match (zeros(0), zeros(1)) {
            (true, false) => Self::Utf16Be,
            (false, true) => Self::Utf16Le,
            _ => Self::Utf8,
        }
    }

    /// Name of the encoding (WHATWG Encoding Standard).
    const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Windows1252 => "windows-1252",
        }
    }

    /// Text of bytes, and whether all of them are characters of the encoding; others become U+FFFD.
    fn text(self, bytes: &[u8]) -> (String, bool) {
        let units = |of: fn([u8; 2]) -> u16| {
            let (pairs, rest) = bytes.as_chunks::<2>();
            let mut whole = rest.is_empty();
            let characters = char::decode_utf16(pairs.iter().map(|pair| of(*pair)));
            let mut text: String = characters
                .map(|c| {
                    whole &= c.is_ok();
                    c.unwrap_or(char::REPLACEMENT_CHARACTER)
                })
                .collect();
            // The half of a character and the half of a unit at the end are one mistake.
            let half = pairs.last().is_some_and(|pair| (0xd800..0xdc00).contains(&of(*pair)));
            text.extend((!rest.is_empty() && !half).then_some(char::REPLACEMENT_CHARACTER));
            (text, whole)
        };
        match self {
            Self::Utf8 => {
                let text = String::from_utf8_lossy(bytes);
                let whole = matches!(text, Cow::Borrowed(_));
                (text.into_owned(), whole)
            }
            Self::Utf16Le => units(u16::from_le_bytes),
            Self::Utf16Be => units(u16::from_be_bytes),
            Self::Windows1252 => {
                let character = |byte: &u8| match byte {
                    0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
                    byte => char::from(*byte),
                };
                (bytes.iter().map(character).collect(), true)
            }
        }
    }
}

/// Decodes a file: by its mark, else as UTF-8, else as UTF-16 where every other byte of its beginning is zero, else as
/// Windows-1252, in which every byte is a character. Names the encoding.
pub fn decode(bytes: &[u8]) -> (String, &'static str) {
    if let Some((encoding, mark)) = Encoding::by_mark(bytes) {
        return (encoding.text(&bytes[mark..]).0, encoding.name());
    }
    let encoding = Encoding::by_look(bytes);
    match encoding.text(bytes) {
        (text, true) => (text, encoding.name()),
        _ => (Encoding::Windows1252.text(bytes).0, Encoding::Windows1252.name()),
    }
}

/// Whether the bytes are a workbook: a ZIP archive, or the older compound file.
pub fn is_workbook(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"\xd0\xcf\x11\xe0")
}

/// Delimiter of the cells of a line: of a few that which occurs most often outside quotation marks.
pub fn delimiter(line: &str) -> u8 {
    let mut quoted = false;
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    for byte in line.bytes() {
        quoted ^= byte == b'"';
        if !quoted && let Some(found) = counts.iter_mut().find(|one| one.0 == byte) {
            found.1 += 1;
        }
    }
    // The first of equal ones counts.
    counts.iter().rev().max_by_key(|one| one.1).map_or(b',', |one| one.0)
}

/// The mark between the whole part of a file's numbers and the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// No number of the file tells.
    #[default]
    Unknown,
    /// A point, as in `2.5`.
    Point,
    /// A comma, as in `2,5`.
    Comma,
}

impl Mark {
    /// Mark that a number shows: `2,5` has a comma for certain, as thousands come in groups of three digits.
    pub fn shown(number: &str) -> Self {
        let mut marks = number.bytes().filter(|b| matches!(b, b'.' | b','));
        let (Some(mark), None) = (marks.next(), marks.next()) else { return Self::Unknown };
        let (whole, part) = number.split_once(char::from(mark)).unwrap_or_default();
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        match mark {
            _ if digits == 3 && !matches!(whole.trim(), "" | "0") => Self::Unknown,
            b',' => Self::Comma,
            _ => Self::Point,
        }
    }

    /// A number without a unit, in a file with this mark; `None` if it is no number, or may be one of two.
    pub fn number(self, text: &str) -> Option<f64> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace() && *c != '\'').collect();
        let (points, commas) = (plain.matches('.').count(), plain.matches(',').count());
        let in_threes = |mark: char| {
            let mut groups = plain.split(['.', ',']).zip(plain.match_indices(['.', ',']).map(|m| m.1));
            let before = groups.clone().take_while(|g| g.1.starts_with(mark)).count();
            let rest: Vec<_> = plain.split(['.', ',']).collect();
            groups.next().is_some_and(|first| (1..=3).contains(&first.0.len()))
                && rest[1..=before].iter().all(|group| group.len() == 3)
        };
        let decimal = match (points, commas) {
            (0, 0) => None,
            // The last of two kinds is the decimal mark, the other one stands between thousands.
            (1, 1..) if plain.rfind('.') > plain.rfind(',') => in_threes(',').then_some(Some('.'))?,
            (1.., 1) if plain.rfind(',') > plain.rfind('.') => in_threes('.').then_some(Some(','))?,
            (1.., 1..) => return None,
            (2.., 0) => in_threes('.').then_some(None)?,
            (0, 2..) => in_threes(',').then_some(None)?,
            (1, 0) | (0, 1) => {
                let mark = if points == 1 { '.' } else { ',' };
                match (Self::shown(&plain), self, mark) {
                    (Self::Unknown, Self::Comma, '.') | (Self::Unknown, Self::Point, ',') => None,
                    (Self::Unknown, Self::Unknown, ',') => return None,
                    _ => Some(mark),
                }
            }
        };
        let digits: String = plain
            .chars()
            .filter_map(|c| match c {
                _ if Some(c) == decimal => Some('.'),
                '.' | ',' => None,
                _ => Some(c),
            })
            .collect();
        let is_number = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        digits.parse().ok().filter(|_| is_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encodings_of_spreadsheets() {
        let utf_16 = |text: &str, little: bool| {
            let of = |unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
            text.encode_utf16().flat_map(of).collect::<Vec<u8>>()
        };
        for (bytes, name) in [
            ("Zoë, 1".as_bytes().to_vec(), "UTF-8"),
            ("\u{feff}Zoë, 1".as_bytes().to_vec(), "UTF-8"),
            (utf_16("\u{feff}Zoë, 1", true), "UTF-16LE"),
            (utf_16("\u{feff}Zoë, 1", false), "UTF-16BE"),
            (utf_16("Zoë, 1", true), "UTF-16LE"),
            (utf_16("Zoë, 1", false), "UTF-16BE"),
            (b"Zo\xeb, 1".to_vec(), "windows-1252"),
        ] {
            assert_eq!(decode(&bytes), ("Zoë, 1".to_owned(), name));
        }
        assert_eq!(decode(b"").0, "");
        assert!(is_workbook(b"PK\x03\x04 and so on") && !is_workbook(b"PK,1"));
    }

    #[test]
    fn every_encoding_is_as_encoding_rs_has_it() {
        let theirs = [
            (Encoding::Utf8, encoding_rs::UTF_8),
            (Encoding::Utf16Le, encoding_rs::UTF_16LE),
            (Encoding::Utf16Be, encoding_rs::UTF_16BE),
            (Encoding::Windows1252, encoding_rs::WINDOWS_1252),
        ];
        let mut inputs: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        // Pieces of characters, whole ones, surrogates of both orders, and what belongs to none.
        let pieces: [&[u8]; 12] = [
            b"a",
            "Zo\u{eb}".as_bytes(),
            "\u{20ac}".as_bytes(),
            "\u{1f600}".as_bytes(),
            b"\xe2\x82",
            b"\xf0\x9f",
            b"\xed\xa0\x80",
            b"\xd8\x3d",
            b"\x3d\xd8",
            b"\xde\x00",
            b"\x00\xde",
            b"\xff\x00",
        ];
        for first in pieces {
            for second in pieces {
                inputs.extend(pieces.map(|third| [first, second, third].concat()));
            }
        }
        for (ours, theirs) in theirs {
            assert_eq!(ours.name(), theirs.name());
            for bytes in &inputs {
                let (text, failed) = theirs.decode_without_bom_handling(bytes);
                assert_eq!(ours.text(bytes), (text.into_owned(), !failed), "{ours:?} {bytes:02x?}");
            }
        }
        for bytes in inputs {
            let theirs = encoding_rs::Encoding::for_bom(&bytes).map(|(e, length)| (e.name(), length));
            assert_eq!(Encoding::by_mark(&bytes).map(|(e, length)| (e.name(), length)), theirs);
        }
    }

    #[test]
    fn what_stands_between_cells() {
        assert_eq!(delimiter("a;b;c"), b';');
        assert_eq!(delimiter("a\tb,c\td"), b'\t');
        assert_eq!(delimiter("\"a;b;c\",d"), b',');
        assert_eq!(delimiter("one column"), b',');
    }

    #[test]
    fn numbers_of_either_mark_and_those_of_two_meanings() {
        let all = [Mark::Unknown, Mark::Point, Mark::Comma];
        for (text, unknown, point, comma) in [
            ("25", Some(25.0), Some(25.0), Some(25.0)),
            ("2.5", Some(2.5), Some(2.5), Some(2.5)),
            ("2,5", Some(2.5), Some(2.5), Some(2.5)),
            ("0,256", Some(0.256), Some(0.256), Some(0.256)),
            ("1.250", Some(1.25), Some(1.25), Some(1250.0)),
            ("1,250", None, Some(1250.0), Some(1.25)),
            ("1.250,5", Some(1250.5), Some(1250.5), Some(1250.5)),
            ("1,250.5", Some(1250.5), Some(1250.5), Some(1250.5)),
            ("1 250", Some(1250.0), Some(1250.0), Some(1250.0)),
            ("1'000.5", Some(1000.5), Some(1000.5), Some(1000.5)),
            ("1,000,000", Some(1e6), Some(1e6), Some(1e6)),
            ("1,0,0", None, None, None),
            ("1.2.3,4", None, None, None),
            ("-1", None, None, None),
            ("1e3", None, None, None),
            ("", None, None, None),
            (".", None, None, None),
        ] {
            assert_eq!(all.map(|mark| mark.number(text)), [unknown, point, comma], "{text}");
        }
        assert_eq!(
            ["2,5", "2.5", "25", "1.000", "0.125"].map(Mark::shown),
            [Mark::Comma, Mark::Point, Mark::Unknown, Mark::Unknown, Mark::Point]
        );
    }
}
