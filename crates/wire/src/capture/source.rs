//! The bytes of a capture, as far as they have been read: frames are looked at where they are.

use core::ops::Range;
use std::io::{self, Read};

use super::CaptureErrorKind;

/// Bytes read of a file at once: enough that few calls are needed, few enough to be in a near cache when they are
/// parsed.
const AT_ONCE: usize = 128 << 10;

/// Reader of a capture that hands out frames where they lie in its buffer, without a copy.
pub(super) struct Source<R> {
    source: R,
    held: Vec<u8>,
    /// Bytes that were read and are not used yet: `held[at..to]`.
    at: usize,
    to: usize,
}

impl<R: Read> Source<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, held: vec![0; AT_ONCE], at: 0, to: 0 }
    }

    /// How many of the next `len` bytes there are: fewer only if the source ends before. They are at hand then.
    #[inline]
    fn ahead(&mut self, len: usize) -> Result<usize, CaptureErrorKind> {
        if self.to - self.at >= len { Ok(len) } else { self.read_ahead(len) }
    }

    #[cold]
    fn read_ahead(&mut self, len: usize) -> Result<usize, CaptureErrorKind> {
        self.held.copy_within(self.at..self.to, 0);
        (self.at, self.to) = (0, self.to - self.at);
        while self.to < len {
            if self.to == self.held.len() {
                // The buffer grows with the bytes that are there, not with what a length field claims.
                self.held.resize(self.to * 2, 0);
            }
            match self.source.read(&mut self.held[self.to..]) {
                Ok(0) => return Ok(self.to),
                Ok(n) => self.to += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(CaptureErrorKind::Read(e)),
            }
        }
        Ok(len)
    }

    /// Bytes that were read and are not used yet. Nothing is waited for, so a pipe may have none.
    pub(super) fn at_hand(&self) -> &[u8] {
        &self.held[self.at..self.to]
    }

    /// The next `N` bytes, which are not used up; `None` if the file ends before the first of them. `what` names what
    /// they belong to, for the error.
    #[inline]
    pub(super) fn peek<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<[u8; N]>, CaptureErrorKind> {
        match self.ahead(N)? {
            0 => Ok(None),
            n if n < N => Err(CaptureErrorKind::EndsInside(what)),
            _ => Ok(self.held[self.at..].first_chunk().copied()),
        }
    }

    /// Uses up exactly `N` bytes.
    #[inline]
    pub(super) fn exactly<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], CaptureErrorKind> {
        self.exactly_or_end(what)?.ok_or(CaptureErrorKind::EndsInside(what))
    }

    /// Takes the next `N` bytes; `None` if the file ends before the first of them.
    #[inline]
    pub(super) fn exactly_or_end<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<[u8; N]>, CaptureErrorKind> {
        let bytes = self.peek(what)?;
        self.at += if bytes.is_some() { N } else { 0 };
        Ok(bytes)
    }

    /// Uses up `len` bytes, and tells where they are for [`Source::bytes`], until more is read.
    #[inline]
    pub(super) fn take(&mut self, len: u32, what: &'static str) -> Result<Range<usize>, CaptureErrorKind> {
        let len = len as usize;
        if self.ahead(len)? < len {
            return Err(CaptureErrorKind::EndsInside(what));
        }
        let at = self.at;
        self.at += len;
        Ok(at..self.at)
    }

    /// The bytes at a place that was just taken.
    #[inline]
    pub(super) fn bytes(&mut self, place: Range<usize>) -> &mut [u8] {
        &mut self.held[place]
    }

    /// Skips `len` bytes.
    pub(super) fn skip(&mut self, len: u32, what: &'static str) -> Result<(), CaptureErrorKind> {
        let mut left = len as usize;
        while left > 0 {
            let n = self.ahead(left.min(AT_ONCE))?;
            if n == 0 {
                return Err(CaptureErrorKind::EndsInside(what));
            }
            self.at += n;
            left -= n;
        }
        Ok(())
    }
}
