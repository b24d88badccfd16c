//! Ranges of which most flows have none: they have memory of their own while there are any.

use crate::{Range, Ranges};
use narrows_units::SeqNum;

/// What [`Ranges`] hold, in the place of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seldom<T, const N: usize>(Option<Box<Ranges<T, N>>>);

impl<T, const N: usize> Default for Seldom<T, N> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Copy + Default + PartialEq, const N: usize> Seldom<T, N> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<T>> {
        self.0.iter().flat_map(|ranges| ranges.iter())
    }
    pub(crate) fn count(&self) -> usize {
        self.iter().count()
    }
    pub(crate) fn hit(&mut self, start: SeqNum, end: SeqNum) -> Option<&mut Range<T>> {
        self.0.as_mut()?.hit(start, end)
    }
    #[cold]
    pub(crate) fn add(&mut self, start: SeqNum, end: SeqNum, tag: T) {
        self.0.get_or_insert_default().add(start, end, tag);
        self.tidy();
    }
    pub(crate) fn remove(&mut self, start: SeqNum, end: SeqNum) -> bool {
        self.take_out(|ranges| ranges.remove(start, end))
    }
    pub(crate) fn remove_below(&mut self, edge: SeqNum) -> bool {
        self.take_out(|ranges| ranges.remove_below(edge))
    }

    #[inline]
    fn take_out(&mut self, change: impl FnOnce(&mut Ranges<T, N>) -> bool) -> bool {
        // Kept out of line: there mostly are none.
        self.0.is_some() && self.take_out_some(change)
    }

    #[cold]
    fn take_out_some(&mut self, change: impl FnOnce(&mut Ranges<T, N>) -> bool) -> bool {
        let found = self.0.as_mut().is_some_and(|ranges| change(ranges));
        if found {
            self.tidy();
        }
        found
    }

    /// None are none.
    fn tidy(&mut self) {
        if self.0.as_ref().is_some_and(|ranges| ranges.is_empty()) {
            self.0 = None;
        }
    }
}

#[cfg(feature = "serde")]
impl<T: Copy + Default + PartialEq + serde::Serialize, const N: usize> serde::Serialize for Seldom<T, N> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(ranges) => ranges.serialize(to),
            None => Ranges::<T, N>::default().serialize(to),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de, T, const N: usize> serde::Deserialize<'de> for Seldom<T, N>
where
    T: Copy + Default + PartialEq + serde::Deserialize<'de>,
{
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let ranges = Ranges::deserialize(from)?;
        Ok(Self((!ranges.is_empty()).then(|| Box::new(ranges))))
    }
}
