//! Reads captures in a thread of their own, while another looks at the packets read so far.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use narrows_wire::capture::Captured;

use super::Inputs;

/// Packets that are handed over together: so many that it is of no weight how long that takes, so few that they are
/// still in a cache when they are looked at.
const TOGETHER: usize = 512;
/// Batches at most: one is being read, one looked at, and others wait where one of both is slower for a while.
const BATCHES: usize = 6;

/// Packets of captures, as [`Inputs`] gives them. Where there is a second processor, it reads them ahead.
pub struct ReadAhead {
    reading: Reading,
}

enum Reading {
    Here(Inputs),
    Ahead(Batches),
}

impl ReadAhead {
    /// Reads ahead, if the program may use more than one processor.
    #[must_use]
    pub fn new(inputs: Inputs) -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        if processors > 1 { Self::in_thread(inputs) } else { Self::in_place(inputs) }
    }

    /// Reads ahead, unless the system grants no thread.
    #[must_use]
    pub fn in_thread(inputs: Inputs) -> Self {
        Self { reading: Batches::of(inputs).map_or_else(Reading::Here, Reading::Ahead) }
    }

    /// Reads each packet when it is asked for.
    #[must_use]
    pub fn in_place(inputs: Inputs) -> Self {
        Self { reading: Reading::Here(inputs) }
    }

    /// The next packet, as [`Inputs::next`] gives it.
    #[expect(clippy::should_implement_trait, reason = "it is read again and again into the same places")]
    #[inline]
    pub fn next(&mut self) -> Option<&Captured> {
        match &mut self.reading {
            Reading::Here(inputs) => inputs.next(),
            Reading::Ahead(batches) => batches.next(),
        }
    }

    /// Stops reading, as soon as the files give what they are being asked for. Gives the files for remarks about them:
    /// about all that was read, which may be more than [`next`](Self::next) has given.
    #[must_use]
    pub fn finish(self) -> Inputs {
        match self.reading {
            Reading::Here(inputs) => inputs,
            Reading::Ahead(batches) => batches.finish(),
        }
    }
}

/// Packets from another thread.
struct Batches {
    full: Receiver<Vec<Captured>>,
    empty: Sender<Vec<Captured>>,
    batch: Vec<Captured>,
    /// Place in the batch of the packet that comes next.
    at: usize,
    reader: JoinHandle<Inputs>,
}

impl Batches {
    /// Begins to read in a thread. Gives the files back where the system grants none.
    fn of(inputs: Inputs) -> Result<Self, Inputs> {
        let (hand, taken) = channel();
        let (to_full, full) = sync_channel(BATCHES);
        let (empty, from_empty) = channel();
        let reads = move || read(taken.recv().expect("files are handed over"), &from_empty, &to_full);
        let Ok(reader) = thread::Builder::new().name("reader".to_owned()).spawn(reads) else {
            return Err(inputs);
        };
        // The receivers live as long as the reader, which waits for the files first.
        let _ = hand.send(inputs);
        for _ in 1..BATCHES {
            let _ = empty.send(Vec::with_capacity(TOGETHER));
        }
        Ok(Self { full, empty, batch: Vec::with_capacity(TOGETHER), at: 0, reader })
    }

    #[inline]
    fn next(&mut self) -> Option<&Captured> {
        if self.at == self.batch.len() && !self.turn() {
            return None;
        }
        self.at += 1;
        self.batch.get(self.at - 1)
    }

    /// Gives the batch back, and takes the next. Says whether there is one.
    #[cold]
    fn turn(&mut self) -> bool {
        let Ok(next) = self.full.recv() else { return false };
        let _ = self.empty.send(core::mem::replace(&mut self.batch, next));
        self.at = 0;
        true
    }

    fn finish(self) -> Inputs {
        let Self { full, empty, reader, .. } = self;
        // A reader that waits for room, or for an empty batch, waits no longer.
        drop((full, empty));
        reader.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Reads until the files are over, or nobody takes the packets.
fn read(mut inputs: Inputs, empty: &Receiver<Vec<Captured>>, full: &SyncSender<Vec<Captured>>) -> Inputs {
    while let Ok(mut batch) = empty.recv() {
        batch.clear();
        while batch.len() < TOGETHER
            && let Some(packet) = inputs.next()
        {
            batch.push(*packet);
        }
        if batch.is_empty() || full.send(batch).is_err() {
            break;
        }
    }
    inputs
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, Read};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use narrows_units::{Instant, SeqNum};
    use narrows_wire::capture::Writer;
    use narrows_wire::{Flags, FlowKey, Header, Proto, TcpHeader};

    use super::*;

    /// A capture of so many packets.
    fn capture(packets: u32) -> Vec<u8> {
        let key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 4000, Proto::TCP);
        let mut writer = Writer::new(Vec::new()).unwrap();
        for n in 0..packets {
            let tcp =
                TcpHeader { seq: SeqNum(n * 100), flags: Flags::ACK, payload: 100, ..TcpHeader::default() };
            let header = Header { key, tcp: Some(tcp), ..Header::default() };
            writer.write(Instant::from_nanos(u64::from(n) * 1_000_000), &header).unwrap();
        }
        writer.into_inner()
    }

    fn inputs(source: impl Read + Send + 'static) -> Inputs {
        Inputs::of(vec![("file".to_owned(), Box::new(source) as Box<dyn Read + Send>)]).unwrap()
    }

    /// Bytes one behind the other, as from a pipe that has few at a time; then the end, an error, or a panic.
    struct Pipe {
        bytes: Cursor<Vec<u8>>,
        then: fn() -> io::Result<usize>,
    }

    impl Read for Pipe {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let most = to.len().min(1500);
            match self.bytes.read(&mut to[..most])? {
                0 => (self.then)(),
                n => Ok(n),
            }
        }
    }

    /// Packets up to the end of the files, and the remarks about them.
    fn told(mut packets: ReadAhead) -> (Vec<Captured>, Vec<String>, String) {
        let all = core::iter::from_fn(|| packets.next().copied()).collect();
        let inputs = packets.finish();
        (all, inputs.remarks(), inputs.instead())
    }

    #[test]
    fn all_is_as_without_a_thread() {
        let together = TOGETHER as u32;
        // Also more than are read at the beginning.
        for packets in [1, together - 1, together, together + 1, together * 3, 20_000] {
            let whole = capture(packets);
            for bytes in [whole.clone(), whole[..whole.len() - 20].to_vec()] {
                for then in [|| Ok(0), || Err(io::Error::other("the line broke"))] {
                    let pipe = || inputs(Pipe { bytes: Cursor::new(bytes.clone()), then });
                    let (here, ahead) =
                        (told(ReadAhead::in_place(pipe())), told(ReadAhead::in_thread(pipe())));
                    assert!(here == ahead, "{packets}: {:?}, {:?}", here.1, ahead.1);
                    assert!(here.0.len() as u32 + 1 >= packets, "{packets}");
                }
            }
        }
    }

    #[test]
    fn batches_are_small() {
        // All of them fit a cache of the third level, and no input makes them grow.
        assert!(TOGETHER * BATCHES * size_of::<Captured>() < 1 << 20, "{} bytes", size_of::<Captured>());
    }

    #[test]
    fn who_has_seen_enough_stops_the_reader() {
        let all = capture(40_000);
        let mut packets = ReadAhead::in_thread(inputs(Cursor::new(all)));
        assert!(packets.next().is_some());
        // Frames of the beginning, and no more than the batches hold.
        let frames = packets.finish().files[0].reader.frames();
        assert!(frames < 16_384 + 2 * (TOGETHER * BATCHES) as u64, "{frames}");
    }

    #[test]
    fn a_panic_of_the_reader_is_one_of_who_reads() {
        let bytes = Cursor::new(capture(20_000));
        let mut packets = ReadAhead::in_thread(inputs(Pipe { bytes, then: || panic!("a fault of ours") }));
        while packets.next().is_some() {}
        assert!(catch_unwind(AssertUnwindSafe(|| packets.finish())).is_err());
    }
}
