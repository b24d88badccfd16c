//! Text of a file that a spreadsheet, a billing system or a person has written: its encoding, what stands between its
//! cells, and how it writes numbers.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes looked at to tell UTF-16 without a mark.
const LOOK: usize = 256;

/// Decodes a file: by its mark, else as UTF-8, else as UTF-16 where every other byte of its beginning is zero, else as
/// Windows-1252, in which every byte is a character. Names the encoding.
pub fn decode(bytes: &[u8]) -> (String, &'static str) {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return (encoding.decode_without_bom_handling(&bytes[mark..]).0.into_owned(), encoding.name());
    }
    let encoding = utf_16(bytes).unwrap_or(UTF_8);
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes);
    let (text, encoding) = text
        .map_or_else(|| (WINDOWS_1252.decode_without_bom_handling(bytes).0, WINDOWS_1252), |t| (t, encoding));
    (text.into_owned(), encoding.name())
}

/// UTF-16 without a mark: letters of ASCII have a zero before or after each.
fn utf_16(bytes: &[u8]) -> Option<&'static Encoding> {
    let pairs: Vec<_> = bytes[..bytes.len().min(LOOK)].chunks_exact(2).collect();
    let zeros = |at: usize| pairs.iter().filter(|pair| pair[at] == 0).count() * 2 > pairs.len();
    match (zeros(0), zeros(1)) {
        (true, false) => Some(UTF_16BE),
        (false, true) => Some(UTF_16LE),
        _ => None,
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
