//! The unit that moves: many records, one channel.

use std::mem::{ManuallyDrop, size_of};
use std::ptr;

use staunch_types::Timestamp;

/// A record with its event time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element<T> {
    /// Event time; [`Timestamp::MIN`] when there is none.
    pub time: Timestamp,
    /// The record.
    pub value: T,
}

/// Bytes of records after which a batch leaves.
const BATCH_BYTES: usize = 32 * 1024;
/// Records of a batch at most.
const BATCH_RECORDS_MAX: usize = 1024;
/// Records of a batch that may be collected however large they are.
const BATCH_RECORDS_MIN: usize = 16;

/// Records that are taken out one by one from the front; the memory can be used again.
pub struct Batch<T> {
    elements: Vec<Element<T>>,
    /// Elements before this index have been moved out.
    taken: usize,
}

impl<T> Batch<T> {
    /// How many records of this type make a full batch.
    pub const RECORDS: usize = {
        let fit = BATCH_BYTES / size_of::<Element<T>>();
        if fit > BATCH_RECORDS_MAX {
            BATCH_RECORDS_MAX
        } else if fit < BATCH_RECORDS_MIN {
            BATCH_RECORDS_MIN
        } else {
            fit
        }
    };

    /// A batch of these records.
    #[must_use]
    pub fn new(elements: Vec<Element<T>>) -> Batch<T> {
        Batch { elements, taken: 0 }
    }

    /// The records not yet taken.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &[Element<T>] {
        &self.elements[self.taken..]
    }

    /// Takes the next record.
    #[inline]
    pub fn take(&mut self) -> Option<Element<T>> {
        if self.taken == self.elements.len() {
            return None;
        }
        // SAFETY: the index is in bounds; counting it as taken first means that the element is never read or dropped again.
        unsafe {
            let element = self.elements.as_ptr().add(self.taken);
            self.taken += 1;
            Some(ptr::read(element))
        }
    }

    /// Whether all records were taken.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken == self.elements.len()
    }

    /// The memory of the batch, empty, for another one. Records not taken are dropped.
    #[must_use]
    pub fn into_empty(self) -> Vec<Element<T>> {
        let mut this = ManuallyDrop::new(self);
        let mut elements = std::mem::take(&mut this.elements);
        forget_taken(&mut elements, this.taken);
        elements
    }
}

/// Empties a vector whose first `taken` elements have been moved out.
fn forget_taken<T>(elements: &mut Vec<Element<T>>, taken: usize) {
    let (start, length) = (elements.as_mut_ptr(), elements.len());
    // SAFETY: with length 0 the vector drops none of its elements; those from `taken` on are still ours and are dropped here, once.
    unsafe {
        elements.set_len(0);
        ptr::drop_in_place(ptr::slice_from_raw_parts_mut(start.add(taken), length - taken));
    }
}

impl<T> Drop for Batch<T> {
    fn drop(&mut self) {
        forget_taken(&mut self.elements, self.taken);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn batch(value: &Rc<()>, length: usize) -> Batch<Rc<()>> {
        Batch::new((0..length).map(|_| Element { time: Timestamp(0), value: Rc::clone(value) }).collect())
    }

    #[test]
    fn each_record_is_dropped_once_whether_taken_or_not() {
        let value = Rc::new(());
        for taken in 0..=3 {
            let mut some = batch(&value, 3);
            (0..taken).for_each(|_| drop(some.take()));
            assert_eq!(Rc::strong_count(&value), 1 + 3 - taken);
            if taken % 2 == 0 {
                drop(some);
            } else {
                assert!(some.into_empty().is_empty());
            }
            assert_eq!(Rc::strong_count(&value), 1);
        }
    }

    #[test]
    fn the_rest_shrinks_from_the_front() {
        let mut some = Batch::new(vec![Element { time: Timestamp(1), value: 1 }, Element { time: Timestamp(2), value: 2 }]);
        assert_eq!(some.take().map(|e| e.value), Some(1));
        assert_eq!(some.rest().len(), 1);
        assert_eq!(some.take().map(|e| e.value), Some(2));
        assert!(some.take().is_none() && some.is_empty());
    }
}
