//! The frames that show a stall: few, and there may be a stall for each second packet, so they are kept in place.

use serde::Serialize;

/// Most frames of a stall: the last progress, six repairs, and the frame that ended the stall.
const MOST: usize = 8;

/// Numbers of at most eight frames, in the order in which they passed. Further ones are left out, and those that are
/// two thousand millions of frames away from the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// The first frame, in halves: so a stall is no larger than it has to be.
    first: [u32; 2],
    /// Differences of the other frames from the first.
    others: [i32; MOST - 1],
    count: u8,
}

impl Frames {
    /// Forgets all frames.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a frame, unless the frame is the one added last.
    pub(crate) fn push(&mut self, frame: u64) {
        if self.count == 0 {
            (self.first, self.count) = ([frame as u32, (frame >> 32) as u32], 1);
        } else if self.last() != Some(frame)
            && let Some(place) = self.others.get_mut(usize::from(self.count) - 1)
            && let Ok(more) = i32::try_from(frame.wrapping_sub(origin(self.first)).cast_signed())
        {
            *place = more;
            self.count += 1;
        }
    }

    /// Number of frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All frames, in the order in which the frames passed.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        (0..self.len()).map(|at| match at.checked_sub(1) {
            Some(other) => origin(self.first).wrapping_add_signed(self.others[other].into()),
            None => origin(self.first),
        })
    }

    /// The first frame, if there is any.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.iter().next()
    }

    /// The last frame, if there is any.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.len().checked_sub(1).and_then(|at| self.iter().nth(at))
    }
}

fn origin([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl FromIterator<u64> for Frames {
    fn from_iter<I: IntoIterator<Item = u64>>(frames: I) -> Self {
        let mut all = Self::default();
        frames.into_iter().for_each(|frame| all.push(frame));
        all
    }
}

impl Serialize for Frames {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_of_them_without_repetitions() {
        // Frames of several files have numbers of their own in each file.
        let first = 3 << 32;
        let frames: Frames = [first, first, first + 2, 3 << 31, first - 5, 0].into_iter().collect();
        let all = format!("[{first},{},{}]", first + 2, first - 5);
        assert_eq!((frames.len(), serde_json::to_string(&frames).unwrap()), (3, all));
        let frames: Frames = (1..20).collect();
        assert_eq!(frames.iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((frames.first(), frames.last()), (Some(1), Some(8)));
        assert_eq!((Frames::default().last(), size_of::<crate::Stall>()), (None, 80));
    }
}
