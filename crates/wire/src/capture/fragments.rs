//! Puts fragments together (RFC 791, section 3.2; RFC 8200, section 4.5): as far as headers go. Only the beginning of a
//! packet's data is kept, and of the rest that it came. All is bounded.

use narrows_units::{Duration, Instant};

use crate::parse::be16;
use crate::upper::{Extensions, FRAGMENT};
use crate::{FlowKey, Header};

/// Packets that may wait for fragments; beyond, the one that has waited longest goes.
const MOST: usize = 256;
/// Bytes of a packet's data that are kept: the headers of eight tunnels and of what they carry.
const KEPT: usize = 512;
/// Pieces of a packet that do not touch; a packet in more is given up.
const PIECES: usize = 64;
/// Time that fragments wait (RFC 8200, section 4.5: 60 s; RFC 791: 15 s and more).
const WAIT: Duration = Duration::from_secs(60);

/// A fragment's place in its packet.
pub(super) struct Fragment<'a> {
    /// Header that each fragment repeats, and where the number of the next header is in it.
    head: &'a [u8],
    next_at: usize,
    next: u8,
    ident: u32,
    data: &'a [u8],
    from: usize,
    to: usize,
    last: bool,
}

impl<'a> Fragment<'a> {
    /// Reads a fragment's place; none if its headers are cut. `wire` is how many bytes its frame had.
    pub(super) fn of(p: &'a [u8], wire: usize) -> Option<Self> {
        if p.first()? >> 4 == 4 {
            let header = usize::from(p[0] & 15) * 4;
            let (total, place) = (usize::from(be16(p, 2)?), be16(p, 6)?);
            let len = if total == 0 { wire } else { total }.checked_sub(header)?;
            let from = usize::from(place & 0x1fff) * 8;
            return Some(Self {
                head: p.get(..header)?,
                next_at: 9,
                next: p[9],
                ident: be16(p, 4)?.into(),
                data: &p[header..(header + len).min(p.len())],
                from,
                to: from + len,
                last: place & 0x2000 == 0,
            });
        }
        let mut headers = Extensions::of(p)?;
        while headers.next != FRAGMENT {
            headers.step()?;
        }
        let (next_at, at) = (headers.named_at, headers.at);
        let total = 40 + usize::from(be16(p, 4)?);
        let len = total.checked_sub(at + 8)?;
        let from = usize::from(be16(p, at + 2)? & 0xfff8);
        Some(Self {
            head: p.get(..at)?,
            next_at,
            next: *p.get(at)?,
            ident: u32::from(be16(p, at + 4)?) << 16 | u32::from(be16(p, at + 6)?),
            data: p.get(at + 8..total.min(p.len()))?,
            from,
            to: from + len,
            last: be16(p, at + 2)? & 1 == 0,
        })
    }
}

/// A packet that was put together: its header, and what was kept of its data.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bytes: Vec<u8>,
    /// Length of all of it.
    pub(super) len: usize,
}

/// A packet that waits for fragments.
#[derive(Clone, Debug)]
struct Waiting {
    key: FlowKey,
    ident: u32,
    since: Instant,
    frames: u64,
    /// Header of the first fragment, or of the first that came.
    head: Vec<u8>,
    data: Vec<u8>,
    /// Pieces that came, and the captured part of them, from byte to byte, in order.
    came: Vec<(usize, usize)>,
    captured: Vec<(usize, usize)>,
    end: Option<usize>,
}

/// Packets that wait for fragments.
#[derive(Clone, Debug, Default)]
pub(super) struct Fragments {
    waiting: Vec<Waiting>,
    free: Vec<u8>,
    /// Fragments of packets that did not come whole, and packets that did.
    lost: u64,
    whole: u64,
}

impl Fragments {
    /// Fragments that no packet came of, those that still wait included.
    pub(super) fn lost(&self) -> u64 {
        self.lost + self.waiting.iter().map(|w| w.frames).sum::<u64>()
    }

    pub(super) const fn whole(&self) -> u64 {
        self.whole
    }

    /// Takes a fragment; gives the packet if it is whole now.
    pub(super) fn add(&mut self, header: &Header, f: &Fragment<'_>, now: Instant) -> Option<Whole> {
        let same = |w: &Waiting| w.key == header.key && w.ident == f.ident && now.since(w.since) < WAIT;
        let place = match self.waiting.iter().position(same) {
            Some(place) => place,
            None => {
                self.make_room(now);
                self.waiting.push(Waiting {
                    key: header.key,
                    ident: f.ident,
                    since: now,
                    frames: 0,
                    head: f.head.to_vec(),
                    data: Vec::new(),
                    came: Vec::new(),
                    captured: Vec::new(),
                    end: None,
                });
                self.waiting.len() - 1
            }
        };
        let w = &mut self.waiting[place];
        w.frames += 1;
        let to = f.to.min(usize::from(u16::MAX));
        if f.last {
            w.end = Some(to);
        }
        if f.from == 0 {
            w.head.clear();
            w.head.extend_from_slice(f.head);
            w.head[f.next_at] = f.next;
        }
        let kept = f.data.len().min(KEPT.saturating_sub(f.from));
        if kept > 0 {
            let end = f.from + kept;
            w.data.resize(w.data.len().max(end), 0);
            w.data[f.from..end].copy_from_slice(&f.data[..kept]);
            join(&mut w.captured, (f.from, end));
        }
        join(&mut w.came, (f.from, to));
        if w.came.len() > PIECES || w.captured.len() > PIECES {
            self.lost += self.waiting.swap_remove(place).frames;
            return None;
        }
        if !matches!((w.came[..].first(), w.end), (Some((0, to)), Some(end)) if *to >= end) {
            return None;
        }
        let w = self.waiting.swap_remove(place);
        self.whole += 1;
        Some(self.put_together(&w))
    }

    fn put_together(&mut self, w: &Waiting) -> Whole {
        let mut bytes = core::mem::take(&mut self.free);
        bytes.clear();
        bytes.extend_from_slice(&w.head);
        let end = w.end.unwrap_or(0);
        // Behind a piece that the capture cut, nothing is known.
        let known = w.captured.first().filter(|(from, _)| *from == 0).map_or(0, |(_, to)| *to);
        bytes.extend_from_slice(&w.data[..known.min(w.data.len())]);
        let len = w.head.len() + end;
        if bytes[0] >> 4 == 4 {
            bytes[2..4].copy_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
            bytes[6] &= 0x40;
            bytes[7] = 0;
        } else {
            bytes[4..6].copy_from_slice(&u16::try_from(len - 40).unwrap_or(u16::MAX).to_be_bytes());
        }
        Whole { bytes, len }
    }

    /// Takes back the bytes of a packet that has been read.
    pub(super) fn give_back(&mut self, whole: Whole) {
        self.free = whole.bytes;
    }

    /// Room for one more.
    fn make_room(&mut self, now: Instant) {
        let lost = &mut self.lost;
        self.waiting.retain(|w| {
            let waits = now.since(w.since) < WAIT;
            *lost += if waits { 0 } else { w.frames };
            waits
        });
        if self.waiting.len() >= MOST {
            let oldest = (0..self.waiting.len()).min_by_key(|n| self.waiting[*n].since).unwrap_or(0);
            self.lost += self.waiting.swap_remove(oldest).frames;
        }
    }
}

/// Adds a piece to pieces that are in order and do not touch.
fn join(pieces: &mut Vec<(usize, usize)>, (mut from, mut to): (usize, usize)) {
    if from >= to {
        return;
    }
    pieces.retain(|(start, end)| {
        let touches = *start <= to && from <= *end;
        if touches {
            (from, to) = (from.min(*start), to.max(*end));
        }
        !touches
    });
    let at = pieces.partition_point(|(start, _)| *start < from);
    pieces.insert(at, (from, to));
}
