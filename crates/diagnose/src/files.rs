//! Captures as packets: plain, or in gzip, zstd or lz4; one, or several, whose clocks are put side by side. Packets
//! come in the order of their times, each once, and steps of a clock that was set are taken out.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::Context as _;
use narrows_units::{Duration, Instant};
use narrows_wire::capture::{Captured, Reader};
use narrows_wire::{Proto, UnopenedCounts};

use crate::Ordered;
use crate::copies::Copies;
pub use ahead::ReadAhead;
use clock::{Clock, LATE, span};
use offset::{Offset, Stamped, offset};

mod ahead;
mod clock;
mod compressed;
mod offset;

/// How many packets a packet may be too late, unless the beginning of a file shows that they are later.
const TOO_LATE: usize = 64;
/// Packets read at the beginning, to see how late they are and how clocks stand to one another.
const BEGINNING: usize = 1 << 14;
/// Packets that may be held back where a file is written out of order: seconds of a busy link.
const MOST_HELD: usize = 1 << 17;
/// Packets behind a step of the times by which the step is judged.
const BEHIND: usize = 256;
/// Frames with one time from which on a file is reported to have no times.
const AT_ONE_TIME: u64 = 10;

/// A file being read.
struct Input {
    name: String,
    reader: Reader<Box<dyn Read + Send>>,
    /// Packets of the file's beginning, with the packets' times.
    beginning: VecDeque<Captured>,
    /// Whether the beginning is being read.
    begins: bool,
    /// Packets read ahead, whose times are still the times of the file.
    ahead: VecDeque<Captured>,
    clock: Clock,
    /// Stamp that counts as the beginning, and time from the beginning of the earliest file to that.
    origin: i64,
    offset: i64,
    /// Time of the latest packet, for packets without a time.
    now: i64,
    /// Time from the beginning of the first file to the first stamp of the file, nanoseconds.
    since: i64,
    order: Ordered<usize>,
    slots: Vec<Captured>,
    free: usize,
    /// Place of the packet that comes next.
    next: Option<usize>,
    over: bool,
    /// Reason why the rest of the file cannot be read.
    cut: Option<String>,
    /// Offset of the clock from that of the first file.
    differs: Option<Offset>,
    /// Mark that tells places of the file from places of other files.
    mark: u32,
}

/// All files, merged by time.
pub struct Inputs {
    files: Vec<Input>,
    copies: Copies,
    /// Packets that are no TCP, by the protocol of IP.
    others: Box<[u64; 256]>,
    /// Nanoseconds from 1970 to the first frame.
    pub origin: Option<i128>,
}

impl Inputs {
    /// Opens all files, `-` for standard input, and reads the beginning of each.
    ///
    /// # Errors
    /// A file that cannot be read or is no capture, with its name.
    pub fn open(paths: &[PathBuf]) -> anyhow::Result<Self> {
        Self::opened(paths, true)
    }

    /// Opens files as they are on the link: packets of tunnels stay those that carry others, and fragments stay apart.
    ///
    /// # Errors
    /// As of [`Inputs::open`].
    pub fn open_as_on_the_link(paths: &[PathBuf]) -> anyhow::Result<Self> {
        Self::opened(paths, false)
    }

    /// Reads files, compressed or not, by the files' names.
    ///
    /// # Errors
    /// A file that is no capture, with its name.
    pub fn of(sources: Vec<(String, Box<dyn Read + Send>)>) -> anyhow::Result<Self> {
        Self::from(sources.into_iter().map(Ok), true)
    }

    fn opened(paths: &[PathBuf], peels: bool) -> anyhow::Result<Self> {
        let open = |path: &PathBuf| {
            let name = path.display().to_string();
            if name == "-" {
                return Ok((name, Box::new(io::stdin()) as Box<dyn Read + Send>));
            }
            let file = File::open(path)
                .context("cannot be read; expected a capture in pcap or pcapng, or - for standard input")
                .with_context(|| name.clone())?;
            Ok((name, Box::new(file) as Box<dyn Read + Send>))
        };
        Self::from(paths.iter().map(open), peels)
    }

    fn from(
        sources: impl Iterator<Item = anyhow::Result<(String, Box<dyn Read + Send>)>>,
        peels: bool,
    ) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for (number, source) in (0..).zip(sources) {
            let (name, source) = source?;
            files.push(Input::open(source, &name, peels, number).with_context(|| name)?);
        }
        if let Some((first, others)) = files.split_first_mut() {
            others.iter_mut().for_each(|other| other.differs = offset(other.stamped(), first.stamped()));
        }
        let begins =
            |f: &Input| f.reader.origin().map(|_| f.origin.saturating_add(f.differs.map_or(0, |d| -d.by)));
        let origin = files.iter().filter_map(begins).min();
        for file in &mut files {
            file.offset = begins(file).zip(origin).map_or(0, |(own, first)| own.saturating_sub(first));
            file.since += file.offset;
            file.advance();
        }
        Ok(Self {
            files,
            copies: Copies::default(),
            others: Box::new([0; 256]),
            origin: origin.map(i128::from),
        })
    }

    /// Remarks about each file: what was left out, cut, put together, reordered, or by another clock.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.files.iter().flat_map(Input::remarks).collect();
        match self.copies.left_out() {
            0 => {}
            n => lines.push(format!(
                "{n} copies of packets were left out: the capture has packets where they came and where they went"
            )),
        }
        lines
    }

    /// Sentence about frames and packets that are no TCP, with counts by kind.
    #[must_use]
    pub fn instead(&self) -> String {
        let mut kinds: Vec<String> = Vec::new();
        let frames: u64 = self.files.iter().map(|f| f.reader.frames()).sum();
        let mut unopened = UnopenedCounts::default();
        for file in &self.files {
            unopened.merge(&file.reader.decoder().left_out());
            unopened.merge(file.reader.decoder().closed());
        }
        let mut others: Vec<(u64, usize)> =
            (0..256).map(|p| (self.others[p], p)).filter(|o| o.0 > 0).collect();
        others.sort_by_key(|(n, p)| (core::cmp::Reverse(*n), *p));
        kinds.extend(unopened.sorted().iter().map(|(what, n)| format!("{n} {what}")));
        kinds.extend(others.iter().map(|(n, p)| format!("{n} packets of {}", protocol(*p as u8))));
        match (frames, kinds.is_empty()) {
            (0, _) => "there are no frames".to_owned(),
            (_, true) => format!("{frames} frames"),
            _ => format!("of {frames} frames {}", kinds.join(", ")),
        }
    }

    /// The next packet: of the file that has the earliest, put in order, without copies.
    #[expect(clippy::should_implement_trait, reason = "it is read again and again into the same places")]
    #[inline]
    pub fn next(&mut self) -> Option<&Captured> {
        loop {
            let (number, place) = match self.files.len() {
                1 => (0, self.files[0].take()?),
                _ => earliest(&mut self.files)?,
            };
            let packet = &self.files[number].slots[place];
            if packet.header.tcp.is_some() {
                if self.copies.is_copy_sampled(packet) {
                    continue;
                }
            } else {
                self.others[usize::from(packet.header.key.proto.0)] += 1;
            }
            // Not `packet`: the borrow checker would have it live in all rounds of the loop.
            return Some(&self.files[number].slots[place]);
        }
    }
}

/// Name of a protocol of IP.
fn protocol(number: u8) -> String {
    match Proto(number) {
        Proto::TCP => "TCP, cut before its numbers".to_owned(),
        Proto::UDP => "UDP".to_owned(),
        Proto::ICMP | Proto::ICMPV6 => "ICMP".to_owned(),
        _ => match number {
            2 => "IGMP".to_owned(),
            47 => "GRE".to_owned(),
            50 => "ESP".to_owned(),
            89 => "OSPF".to_owned(),
            103 => "PIM".to_owned(),
            112 => "VRRP".to_owned(),
            132 => "SCTP".to_owned(),
            n => format!("IP protocol {n}"),
        },
    }
}

/// Takes the earliest packet of several files: number of the file, and the packet's place in it.
fn earliest(files: &mut [Input]) -> Option<(usize, usize)> {
    files.iter_mut().for_each(Input::advance);
    let at = |f: &Input| f.next.map(|place| f.slots[place].at);
    let waiting = files.iter().enumerate().filter_map(|(number, f)| Some((at(f)?, number)));
    let (_, number) = waiting.min()?;
    Some((number, files[number].take()?))
}

impl Input {
    fn open(source: Box<dyn Read + Send>, name: &str, peels: bool, number: u32) -> anyhow::Result<Self> {
        let reader = Reader::new(compressed::expanded(source)?)?;
        let reader = if peels { reader.through_tunnels() } else { reader };
        let mut input = Self {
            name: name.to_owned(),
            reader,
            beginning: VecDeque::new(),
            begins: true,
            ahead: VecDeque::new(),
            clock: Clock::default(),
            origin: 0,
            offset: 0,
            now: 0,
            since: 0,
            order: Ordered::new(TOO_LATE),
            slots: Vec::new(),
            free: 0,
            next: None,
            over: false,
            cut: None,
            differs: None,
            mark: number.wrapping_mul(0x9e37_79b9),
        };
        input.begin();
        Ok(input)
    }

    /// Reads the beginning: how late frames are there, and which is the earliest.
    fn begin(&mut self) {
        let mut times = Vec::new();
        self.slots.push(Captured::default());
        while times.len() < BEGINNING && self.timed(0) {
            times.push(self.now);
            self.beginning.push_back(self.slots[0]);
        }
        self.begins = false;
        let first = self.reader.origin().unwrap_or(0);
        let earliest = times.iter().copied().min().unwrap_or(0);
        self.origin = first.saturating_add(earliest);
        self.since = -earliest;
        // Times from the earliest on.
        for (packet, time) in self.beginning.iter_mut().zip(&times) {
            packet.at = Instant::from_nanos((time - earliest).max(0).cast_unsigned());
        }
        // The highest time so far never falls, so the place that a late one should have is found by halves.
        let (mut highest, mut most) = (Vec::with_capacity(times.len()), 0);
        for time in &times {
            let place = highest.partition_point(|high| high <= time);
            most = most.max(highest.len() - place);
            highest.push(highest.last().map_or(*time, |last: &i64| *last.max(time)));
        }
        // Twice as much: the rest of the file may be later.
        self.order.hold((most * 2).min(MOST_HELD));
    }

    /// Reads a packet into a slot, with the time that the file gives the packet.
    #[inline]
    fn raw(&mut self, place: usize) -> bool {
        let slot = &mut self.slots[place];
        if !self.ahead.is_empty()
            && let Some(packet) = self.ahead.pop_front()
        {
            *slot = packet;
            return true;
        }
        match self.reader.next_into(slot) {
            Some(Ok(())) => true,
            Some(Err(why)) => {
                self.cut = Some(why.to_string());
                false
            }
            None => false,
        }
    }

    /// Reads a packet into a slot, and has its time in `now`: since the first of the file, without steps of the clock.
    #[inline]
    fn timed(&mut self, place: usize) -> bool {
        if !self.raw(place) {
            return false;
        }
        if let Some(stamp) = self.slots[place].stamp {
            if let Some(by) = self.clock.step(stamp) {
                self.judge(by, place);
            }
            self.now = self.clock.read(stamp, self.reader.origin().unwrap_or(stamp));
        }
        true
    }

    /// Judges a step of the times by so many nanoseconds from the latest packet to this one, by those about it.
    #[cold]
    fn judge(&mut self, by: i64, place: usize) {
        while self.ahead.len() < BEHIND && self.cut.is_none() {
            let mut more = Captured::default();
            match self.reader.next_into(&mut more) {
                Some(Ok(())) => self.ahead.push_back(more),
                Some(Err(why)) => self.cut = Some(why.to_string()),
                None => break,
            }
        }
        let (packet, behind) = (&self.slots[place], self.ahead.iter().take(BEHIND));
        if self.begins {
            self.clock.judge(by, packet, self.beginning.iter().rev().take(TOO_LATE * 2), behind);
        } else {
            self.clock.judge(by, packet, self.order.held().map(|place| &self.slots[*place]), behind);
        }
    }

    /// TCP packets of the beginning.
    fn stamped(&self) -> impl Iterator<Item = Stamped<'_>> + Clone {
        self.beginning.iter().filter_map(|Captured { stamp, at, header, .. }| {
            stamp.as_ref()?;
            let at = self.origin.saturating_add(at.as_nanos().cast_signed());
            Some(Stamped { header, tcp: header.tcp.as_ref()?, at })
        })
    }

    /// Reads on until there is a packet to give, or the file is over.
    fn advance(&mut self) {
        if self.next.is_none() && !self.over {
            self.next = self.take_in_order();
            self.over = self.next.is_none();
        }
    }

    /// Takes the next packet: its place, which holds it until another is asked for.
    #[inline]
    fn take(&mut self) -> Option<usize> {
        self.next.take().or_else(|| self.take_in_order())
    }

    #[inline]
    fn take_in_order(&mut self) -> Option<usize> {
        loop {
            if self.free == self.slots.len() {
                self.slots.push(Captured::default());
            }
            let place = self.free;
            let (at, earliest) = if self.fill(place) {
                let Some(first) = self.order.push(self.slots[place].at, place) else {
                    self.free += 1;
                    continue;
                };
                self.free = first.1;
                first
            } else {
                self.order.pop()?
            };
            self.slots[earliest].at = at;
            return Some(earliest);
        }
    }

    /// Reads a packet into a slot, with the time since the first of all files; says whether there is one.
    #[inline]
    fn fill(&mut self, place: usize) -> bool {
        if self.beginning.is_empty() {
            if !self.timed(place) {
                return false;
            }
            let at = self.now.wrapping_add(self.since).max(0);
            let slot = &mut self.slots[place];
            slot.at = Instant::from_nanos(at.cast_unsigned());
            slot.place ^= self.mark;
            return true;
        }
        let Some(packet) = self.beginning.pop_front() else { return false };
        let slot = &mut self.slots[place];
        *slot = packet;
        slot.at += Duration::from_nanos(self.offset.max(0).cast_unsigned());
        slot.place ^= self.mark;
        true
    }

    fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut say = |text: String| lines.push(format!("{}: {text}", self.name));
        let decoder = self.reader.decoder();
        for (what, n) in decoder.left_out().sorted() {
            say(format!("{n} {what} were left out"));
        }
        for (what, n) in decoder.closed().sorted() {
            say(format!("{n} {what} were not opened"));
        }
        if decoder.peeled() > 0 {
            say(format!("{} packets came through tunnels", decoder.peeled()));
        }
        if decoder.put_together() > 0 {
            say(format!("{} packets were put together from fragments", decoder.put_together()));
        }
        let cut = decoder.cut();
        if cut.headers > 0 {
            say(format!("{} TCP packets are cut before their numbers: snap at least 128 bytes", cut.headers));
        }
        if cut.segments > 0 {
            let mut what = Vec::new();
            if cut.sacks > 0 {
                what.push(format!("SACK blocks of {} ACKs", cut.sacks));
            }
            if cut.handshakes > 0 {
                what.push(format!("window scales of {} SYNs", cut.handshakes));
            }
            let what = if what.is_empty() { "timestamps".to_owned() } else { what.join(" and ") };
            say(format!(
                "TCP options of {} segments are cut, {what} among them: snap at least {} bytes",
                cut.segments,
                cut.needed.next_multiple_of(32).max(128)
            ));
        }
        if self.reader.untimed() > 0 {
            say(format!(
                "{} frames have no time: their order is known, and no stall can be told between them",
                self.reader.untimed()
            ));
        } else if self.reader.frames() >= AT_ONE_TIME
            && self.clock.latest() == self.reader.origin()
            && self.now == 0
        {
            say("all frames have the same time: their order is known, and no stall can be told".to_owned());
        }
        self.clock.remarks().into_iter().for_each(&mut say);
        if let Some(Offset { by, packets }) =
            self.differs.filter(|clock| clock.by.unsigned_abs() > LATE.unsigned_abs())
        {
            let way = if by < 0 { "behind" } else { "ahead of" };
            say(format!(
                "its clock is {} {way} that of the first file, by {packets} packets that both know: it was put right",
                span(by.unsigned_abs())
            ));
        }
        if let Some(why) = &self.cut {
            say(format!("{why}; what came before was read"));
        }
        if self.order.moved() > 0 {
            let moved = self.order.moved();
            say(format!("{moved} {} reordered by time", if moved == 1 { "packet" } else { "packets" }));
        }
        if self.order.too_late() > 0 {
            say(format!("{} packets came too late to be put in order", self.order.too_late()));
        }
        lines
    }
}
