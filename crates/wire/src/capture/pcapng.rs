//! Reads pcapng, a file of blocks. Each block has a type, and its length stands before and after its body. We read
//! sections, interfaces and packets and skip all others (draft-ietf-opsawg-pcapng, section 3.1).

use core::ops::Range;
use std::io::Read;

use super::{CaptureErrorKind, Frame, MOST_CAPTURED, Source, at_most, half, word};

/// Section 4.1. The number reads the same in both byte orders.
pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Section 4.2.
const INTERFACE_DESCRIPTION: u32 = 1;
/// The obsolete Packet Block, appendix A.
const PACKET: u32 = 2;
/// Section 4.4.
const SIMPLE_PACKET: u32 = 3;
/// Section 4.3.
const ENHANCED_PACKET: u32 = 6;

/// The longest block that we read, bytes, which is Wireshark's limit too. Blocks that we skip may have any length.
const MOST_BLOCK: u32 = 16 << 20;
/// Most interfaces of a section, more than any capture has; without a limit, a stream of descriptions would fill the
/// memory.
const MOST_INTERFACES: u64 = 65_536;

/// Byte order and interfaces of the current section.
#[derive(Default)]
pub(super) struct Section {
    big: bool,
    interfaces: Vec<Interface>,
}

/// The contents of an Interface Description Block.
struct Interface {
    link: u16,
    snap: u32,
    /// Units of time per second.
    per_second: u128,
    /// Seconds to add.
    offset: i64,
}

impl Section {
    /// Reads on to the next packet; `None` at the end of the file, or where a file of pcap begins.
    pub(super) fn frame<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Frame>, CaptureErrorKind> {
        loop {
            let Some((kind, place)) = self.block(source)? else { return Ok(None) };
            let (from, body) = (place.start, &*source.bytes(place));
            let frame = match kind {
                SECTION_HEADER => {
                    need("a section header", body, 12)?;
                    match half(body, 0, self.big) {
                        1 => {}
                        other => return Err(CaptureErrorKind::Version(other)),
                    }
                    self.interfaces.clear();
                    continue;
                }
                INTERFACE_DESCRIPTION => {
                    self.describe(body)?;
                    continue;
                }
                PACKET | ENHANCED_PACKET => self.packet(kind, body)?,
                SIMPLE_PACKET => self.simple(body)?,
                _ => continue,
            };
            let place = from + frame.place.start..from + frame.place.end;
            return Ok(Some(Frame { place, ..frame }));
        }
    }

    /// Reads one block. Returns its type, and where its body is, which is empty if it is of a type that we do not read.
    /// The body of a section header begins after the byte-order magic.
    fn block<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<(u32, Range<usize>)>, CaptureErrorKind> {
        let Some(head) = source.peek::<8>("a block's header")? else { return Ok(None) };
        // No block has such a type: their highest bit is for private ones.
        if matches!(
            head[..4],
            [0xd4, 0xc3, 0xb2, 0xa1]
                | [0xa1, 0xb2, 0xc3, 0xd4]
                | [0x4d, 0x3c, 0xb2, 0xa1]
                | [0xa1, 0xb2, 0x3c, 0x4d]
        ) && matches!(head[4..], [2, 0, 4, 0] | [0, 2, 0, 4])
        {
            return Ok(None);
        }
        source.exactly::<8>("a block's header")?;
        let mut around = 12;
        if word(&head, 0, false) == SECTION_HEADER {
            let magic: [u8; 4] = source.exactly("a section header")?;
            self.big = match u32::from_be_bytes(magic) {
                0x1a2b_3c4d => true,
                0x4d3c_2b1a => false,
                _ => return Err(CaptureErrorKind::ByteOrder(magic)),
            };
            around = 16;
        }
        let (kind, len) = (word(&head, 0, self.big), word(&head, 4, self.big));
        let known =
            matches!(kind, SECTION_HEADER | INTERFACE_DESCRIPTION | PACKET | SIMPLE_PACKET | ENHANCED_PACKET);
        let most = if known { MOST_BLOCK } else { u32::MAX };
        if !(around..=most).contains(&len) {
            return Err(CaptureErrorKind::Range {
                of: "a block's length",
                is: len.into(),
                least: around.into(),
                most: most.into(),
            });
        }
        // Blocks are padded to words of 32 bits, and some writers do not count the padding; Wireshark rounds up as
        // well.
        let body = (len - around).next_multiple_of(4);
        let whole = if known {
            source.take(body + 4, "a block")?
        } else {
            source.skip(body, "a block")?;
            source.take(4, "a block")?
        };
        let closing = word(source.bytes(whole.clone()), whole.len() - 4, self.big);
        if closing != len {
            return Err(CaptureErrorKind::Range {
                of: "a block's closing length",
                is: closing.into(),
                least: len.into(),
                most: len.into(),
            });
        }
        Ok(Some((kind, whole.start..whole.end - 4)))
    }

    /// Reads the description of an interface: link type, snap length, options.
    fn describe(&mut self, body: &[u8]) -> Result<(), CaptureErrorKind> {
        need("an interface description", body, 8)?;
        let count = self.interfaces.len() as u64 + 1;
        if count > MOST_INTERFACES {
            return Err(CaptureErrorKind::Range {
                of: "the number of interfaces",
                is: count,
                least: 0,
                most: MOST_INTERFACES,
            });
        }
        let mut interface = Interface {
            link: half(body, 0, self.big),
            snap: word(body, 4, self.big),
            per_second: 1_000_000,
            offset: 0,
        };
        let mut options = &body[8..];
        while options.len() >= 4 {
            let (code, len) = (half(options, 0, self.big), usize::from(half(options, 2, self.big)));
            let Some(value) = options.get(4..4 + len) else { break };
            match (code, value) {
                (0, _) => break,
                (9, [resolution, ..]) => interface.per_second = per_second(*resolution)?,
                (14, &[a, b, c, d, e, f, g, h]) => {
                    let b = [a, b, c, d, e, f, g, h];
                    interface.offset = if self.big { i64::from_be_bytes(b) } else { i64::from_le_bytes(b) };
                }
                _ => {}
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or(&[]);
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn interface(&self, number: u32) -> Result<&Interface, CaptureErrorKind> {
        self.interfaces.get(number as usize).ok_or(CaptureErrorKind::Interface(number))
    }

    /// Reads an Enhanced Packet Block or an obsolete Packet Block, whose interface number is shorter.
    fn packet(&self, kind: u32, body: &[u8]) -> Result<Frame, CaptureErrorKind> {
        need("a packet block", body, 20)?;
        let number =
            if kind == PACKET { u32::from(half(body, 0, self.big)) } else { word(body, 0, self.big) };
        let interface = self.interface(number)?;
        let [high, low, captured, original_len] = [4, 8, 12, 16].map(|at| word(body, at, self.big));
        at_most("the captured length", captured, MOST_CAPTURED.min(body.len() as u32 - 20))?;
        let units = u128::from(u64::from(high) << 32 | u64::from(low));
        // The products `units * 10^9` and `offset * 10^9` are below 2^64 * 10^9, so 128 bits hold the sum.
        let since = (units * 1_000_000_000 / interface.per_second).cast_signed();
        let stamp = since + i128::from(interface.offset) * 1_000_000_000;
        // Beyond the year 2116 no clock is right, and with half the range sums of times need no thought.
        let stamp = i64::try_from(stamp.clamp(0, (i64::MAX / 2).into())).ok();
        let link = interface.link.into();
        Ok(Frame { place: 20..20 + captured as usize, stamp, link, interface: number, original_len })
    }

    /// Reads a Simple Packet Block: it belongs to interface 0, has no timestamp, and is as long as the block or the
    /// snap length says.
    fn simple(&self, body: &[u8]) -> Result<Frame, CaptureErrorKind> {
        need("a simple packet block", body, 4)?;
        let interface = self.interface(0)?;
        let original_len = word(body, 0, self.big);
        let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
        let captured = original_len.min(snap) as usize;
        let to = 4 + captured.min(body.len() - 4).min(MOST_CAPTURED as usize);
        Ok(Frame { place: 4..to, stamp: None, link: interface.link.into(), interface: 0, original_len })
    }
}

/// `if_tsresol`: a negative power of ten, or of two if the highest bit is set (section 4.2).
fn per_second(resolution: u8) -> Result<u128, CaptureErrorKind> {
    match resolution {
        0..=38 => Ok(10_u128.pow(resolution.into())),
        0x80.. => Ok(1 << (resolution & 0x7f)),
        _ => Err(CaptureErrorKind::Resolution(resolution)),
    }
}

fn need(of: &'static str, body: &[u8], least: usize) -> Result<(), CaptureErrorKind> {
    if body.len() < least {
        let (is, least) = (body.len() as u64, least as u64);
        return Err(CaptureErrorKind::Range { of, is, least, most: MOST_BLOCK.into() });
    }
    Ok(())
}
