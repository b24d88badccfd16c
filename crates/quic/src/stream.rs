//! The stream's two halves: what is to be sent, and what came.

use crate::packet::{Frame, stream_head};
use crate::ranges::RangeSet;

/// Stream data that the end sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendStream {
    /// Bytes the application has written; `u64::MAX` without end.
    written: u64,
    unsent: u64,
    again: RangeSet,
    acked: RangeSet,
    finished: bool,
    /// Whether the FIN has to be sent.
    fin_due: bool,
}

/// A STREAM frame for new or old data is written only where this much room is, as quinn does.
const LEAST_ROOM: u32 = 25;
/// Room kept for the length of a frame that does not fill the packet.
const LENGTH_ROOM: u64 = 8;

impl SendStream {
    pub(crate) fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }
    /// The application writes no more.
    pub(crate) const fn finish(&mut self) {
        self.fin_due |= !self.finished && self.written != u64::MAX;
        self.finished = true;
    }
    /// Whether there is data, or a FIN, to send.
    pub(crate) const fn is_pending(&self) -> bool {
        !self.again.is_empty() || self.unsent < self.written || self.fin_due
    }

    /// The next frame for `room` bytes, how many it takes, and whether its data was sent before. Lost data goes before
    /// new data.
    pub(crate) fn next(&mut self, room: u32) -> Option<(Frame, u32, bool)> {
        if room <= LEAST_ROOM || !self.is_pending() {
            return None;
        }
        let lost = self.again.pop_first();
        let (start, end) = lost.unwrap_or((self.unsent, self.written));
        let mut most = u64::from(room - stream_head(start, None));
        // A frame that reaches the end of the packet needs no length.
        let with_length = end - start < most;
        if with_length {
            most -= LENGTH_ROOM;
        }
        let stop = end.min(start.saturating_add(most));
        if lost.is_none() {
            self.unsent = stop;
        } else {
            self.again.insert(stop, end);
        }
        let fin = self.finished && stop == self.written;
        self.fin_due &= !fin;
        let len = stop - start;
        let head = stream_head(start, with_length.then_some(len));
        Some((Frame::Stream { offset: start, len, fin }, head + len as u32, lost.is_some()))
    }

    /// A frame was acknowledged; how many bytes are so for the first time.
    pub(crate) fn acked(&mut self, offset: u64, len: u64) -> u64 {
        self.again.remove(offset, offset + len);
        self.acked.insert(offset, offset + len)
    }

    /// Whether all of a frame was acknowledged, in whichever packet.
    pub(crate) fn is_acked(&self, offset: u64, len: u64) -> bool {
        self.acked.covers(offset, offset + len)
    }

    /// A frame was lost, or is sent again as a probe.
    pub(crate) fn again(&mut self, offset: u64, len: u64, fin: bool) {
        self.again.insert(offset, offset + len);
        for (start, end) in self.acked.as_slice() {
            if *start < offset + len && *end > offset {
                self.again.remove(*start, *end);
            }
        }
        // A FIN that was alone: where it has data it goes with that.
        self.fin_due |= fin && len == 0;
    }

    /// Whether everything written has been acknowledged.
    pub(crate) fn all_acked(&self) -> bool {
        self.acked.from_zero() >= self.written
    }
}

/// Data that the peer sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveStream {
    came: RangeSet,
}

impl ReceiveStream {
    /// A frame came; how many bytes are new.
    pub(crate) fn take(&mut self, offset: u64, len: u64) -> u64 {
        self.came.insert(offset, offset + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_data_first_then_new() {
        let mut s = SendStream::default();
        s.write(3000);
        s.finish();
        // Room for 1000: type and id, no offset: 998 bytes fill it. Then 2 bytes of offset: 996.
        let frame = |offset, len, fin| Frame::Stream { offset, len, fin };
        assert_eq!(s.next(1000), Some((frame(0, 998, false), 1000, false)));
        assert_eq!(s.next(1000), Some((frame(998, 996, false), 1000, false)));
        s.again(0, 998, false);
        assert_eq!(s.next(1000), Some((frame(0, 998, false), 1000, true)));
        // 1006 are left, and 1006 < 1196, so it has a length of two bytes.
        assert_eq!(s.next(1200), Some((frame(1994, 1006, true), 1012, false)));
        assert!(!s.is_pending());
        assert_eq!((s.acked(0, 1000), s.acked(0, 3000), s.all_acked()), (1000, 2000, true));
        // Data known to have arrived is not sent again.
        s.again(998, 996, false);
        assert_eq!(s.next(1000), None);
    }
}
