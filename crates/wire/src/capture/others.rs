//! Reads captures of two other formats, snoop (RFC 1761) and Endace's ERF, and knows some more by name.

use std::io::Read;

use super::{CaptureErrorKind, Frame, MOST_CAPTURED, Source, at_most, half, word};

/// Longest record of ERF that is believed in, bytes: a jumbo frame with its heads, four times over.
const MOST_RECORD: u16 = 40_000;
/// ERF's number in the registry of link layers.
const ERF: u32 = 197;
/// 1990, the seconds before which no card stamped.
const YEAR_1990: u32 = 631_152_000;

/// Reads the head of snoop, if it is one: eight bytes of name, version, link layer. Gives the link layer's number in
/// the registry that captures share.
pub(super) fn snoop_head<R: Read>(
    source: &mut Source<R>,
    magic: [u8; 4],
) -> Result<Option<u32>, CaptureErrorKind> {
    if magic != *b"snoo" {
        return Ok(None);
    }
    let head: [u8; 16] = source.exactly("the file header")?;
    if word(&head, 8, true) != 2 {
        return Err(CaptureErrorKind::Version(half(&head, 10, true)));
    }
    Ok(Some(match word(&head, 12, true) {
        0 | 4 => 1,
        2 => 6,
        8 => 10,
        26 => 242,
        other => 0x1000 + other,
    }))
}

/// Reads a record: original and captured length, length of the record, drops, seconds, microseconds.
pub(super) fn snoop_frame<R: Read>(
    source: &mut Source<R>,
    link: u32,
) -> Result<Option<Frame>, CaptureErrorKind> {
    let Some(head) = source.peek::<24>("a frame's header")? else { return Ok(None) };
    if head.starts_with(b"snoop\0\0\0") {
        return Ok(None);
    }
    source.exactly::<24>("a frame's header")?;
    let [original_len, captured, record, _, seconds, micros] =
        [0, 4, 8, 12, 16, 20].map(|at| word(&head, at, true));
    at_most("the captured length", captured, MOST_CAPTURED)?;
    let filling = record.saturating_sub(24).saturating_sub(captured);
    let place = source.take(captured.saturating_add(filling.min(64)), "a frame's bytes")?;
    let place = place.start..place.start + captured as usize;
    let stamp = i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1000;
    Ok(Some(Frame { place, stamp: Some(stamp), link, interface: 0, original_len }))
}

/// Whether a record of ERF begins here: its file has no head, so all that a record says must make sense.
pub(super) fn is_erf<R: Read>(source: &mut Source<R>) -> Result<bool, CaptureErrorKind> {
    let Ok(Some(head)) = source.peek::<16>("a record") else { return Ok(false) };
    let (seconds, len, wire) = (word(&head, 4, false), half(&head, 10, true), half(&head, 14, true));
    let kind = head[8] & 0x7f;
    let named = format_of([head[0], head[1], head[2], head[3]]).is_some();
    Ok(!named
        && matches!(kind, 1 | 2 | 11 | 16 | 20 | 22 | 23 | 48)
        && seconds > YEAR_1990
        && (16..=MOST_RECORD).contains(&len)
        && (kind == 48 || wire > 0))
}

/// Reads a record: a time in units of 2^-32 s, kind, flags, length of the record, a counter, length on the wire. The
/// whole record is the frame.
pub(super) fn erf_frame<R: Read>(source: &mut Source<R>) -> Result<Option<Frame>, CaptureErrorKind> {
    let Some(head) = source.peek::<16>("a record")? else { return Ok(None) };
    let (len, wire) = (half(&head, 10, true), half(&head, 14, true));
    if len < 16 {
        return Err(CaptureErrorKind::Range {
            of: "a record's length",
            is: len.into(),
            least: 16,
            most: u16::MAX.into(),
        });
    }
    let place = source.take(len.into(), "a record")?;
    let (seconds, fraction) = (word(&head, 4, false), word(&head, 0, false));
    let nanos = (u64::from(fraction) * 1_000_000_000) >> 32;
    let stamp = i64::from(seconds) * 1_000_000_000 + nanos.cast_signed();
    Ok(Some(Frame {
        place,
        stamp: Some(stamp),
        link: ERF,
        interface: (head[9] & 3).into(),
        original_len: u32::from(wire) + 18,
    }))
}

/// Name of what begins so, and what can be done about it.
const fn format_of(magic: [u8; 4]) -> Option<(&'static str, &'static str)> {
    const EDITCAP: &str = "convert it: editcap -F pcap FILE new.pcap";
    Some(match magic {
        [b'G', b'M', b'B', b'U'] | [b'R', b'T', b'S', b'S'] => ("a capture of Network Monitor", EDITCAP),
        [b'X', b'C', b'P', 0] => ("a capture of NetXRay", EDITCAP),
        [b'T', b'R', b'S', b'N'] => ("a capture of Sniffer", EDITCAP),
        [b'i', b'p', b't', b'r'] => ("a trace of AIX", EDITCAP),
        [b'b', b't', b's', b'n'] => ("a capture of Bluetooth", "there is no IP in it"),
        [0x7f, b'v', b'e', b'r'] => ("a capture of OmniPeek", EDITCAP),
        [b'O', b'b', b's', b'e'] => ("a capture of Observer", EDITCAP),
        [5, b'V', b'N', b'F'] => ("a capture of Visual Networks", EDITCAP),
        [1, 0x10, b'L', 0] => ("a capture of LANalyzer", EDITCAP),
        [0xaa, 0xaa, 0xaa, 0xaa] => ("a capture of 5View", EDITCAP),
        [b'T', b'R', 0, b'd'] => ("a trace of HP-UX", EDITCAP),
        [b'+', b'-', b'-', _] => ("a capture as text of K12", EDITCAP),
        [0x1f, 0x8b, ..] => ("in gzip", "expand it: gzip -dc FILE | narrows diagnose -"),
        [0x28, 0xb5, 0x2f, 0xfd] => ("in zstd", "expand it: zstd -dc FILE | narrows diagnose -"),
        [0x04, 0x22, 0x4d, 0x18] => ("in lz4", "expand it: lz4 -dc FILE | narrows diagnose -"),
        [0xfd, b'7', b'z', b'X'] => ("in xz", "expand it: xz -dc FILE | narrows diagnose -"),
        [b'B', b'Z', b'h', b'1'..=b'9'] => ("in bzip2", "expand it: bzip2 -dc FILE | narrows diagnose -"),
        [b'P', b'K', 3, 4] => ("a ZIP archive", "expand it: unzip -p FILE | narrows diagnose -"),
        _ => return None,
    })
}

/// Tells what a file that begins so is, and what can be done about it.
pub(super) fn what_it_is(magic: [u8; 4]) -> String {
    if let Some((name, remedy)) = format_of(magic) {
        return format!("{name}; {remedy}");
    }
    let text = magic.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
    let (name, remedy) = if text {
        ("text", "a capture is what tcpdump -w FILE or Wireshark writes")
    } else {
        ("of an unknown format", "if Wireshark reads it, convert it: editcap -F pcap FILE new.pcap")
    };
    let [first, second, third, fourth] = magic;
    format!("{name} (it begins with {first:02x} {second:02x} {third:02x} {fourth:02x}); {remedy}")
}
