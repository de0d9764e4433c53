//! What snapshots need to know about the slots of one chunk.
//!
//! Owns: for each slot, whether it changed since the last barrier (`dirty`), whether the snapshot in progress still has to
//! write it (`frozen`), whether any snapshot holds it (`stored`); and which slots changed in epochs not yet confirmed.
//! Does not own: entries, or when a barrier comes (`Cut` says so).
//!
//! Invariants:
//! 1. While a snapshot is in progress, a chunk is brought to the table's cut before anything in it changes. So a freeze costs
//!    the same however many chunks there are: it only moves the cut.
//! 2. A slot changed in an unconfirmed epoch is frozen by every later cut, until an epoch that held it is confirmed.
//! 3. Frozen slots are live, with the value they had at the barrier.

use std::ops::Range;

use staunch_types::Epoch;

/// Epochs whose changes are kept apart; those of older ones are merged with the next younger, and can no longer be
/// confirmed by themselves.
pub(in super::super) const UNCONFIRMED_MAX: usize = 4;

/// The slot changed since the cut.
const DIRTY: u8 = 1;
/// The slot was read or changed since eviction last looked at it.
const USED: u8 = 2;

/// The latest barrier, as the chunks of a table need to know it.
#[derive(Clone, Copy, Default)]
pub(super) struct Cut {
    /// Epoch of the latest freeze; 0 before the first.
    pub(super) epoch: Epoch,
    /// The latest epoch that was confirmed when it was frozen.
    pub(super) confirmed: Epoch,
}

/// Marks of the slots of a chunk.
pub(super) struct Marks {
    /// [`DIRTY`] for a slot that changed since the cut, [`USED`] for one that was used since eviction last came by. A byte each, so that a
    /// change stores without reading first: reading a word of bits that another change has just stored would hold up the processor.
    dirty: Box<[u8]>,
    frozen: Box<[u64]>,
    stored: Box<[u64]>,
    unconfirmed: Vec<Changes>,
    epoch: Epoch,
    frozen_count: usize,
}

struct Changes {
    epoch: Epoch,
    slots: Box<[u64]>,
}

impl Marks {
    /// Marks of a chunk that comes into being after a cut.
    pub(super) fn new(slots: usize, cut: Cut) -> Marks {
        let bits = || vec![0; slots.div_ceil(64)].into_boxed_slice();
        Marks {
            dirty: vec![0; slots].into_boxed_slice(),
            frozen: bits(),
            stored: bits(),
            unconfirmed: Vec::new(),
            epoch: cut.epoch,
            frozen_count: 0,
        }
    }

    /// Whether the chunk has been brought to the cut.
    #[inline]
    pub(super) fn is_at(&self, cut: Cut) -> bool {
        self.epoch == cut.epoch
    }

    /// Brings the chunk to the cut: freezes what changed since the last confirmed epoch and the slots of `rewrite`. Returns how
    /// many slots changed since the chunk's previous cut.
    #[cold]
    pub(super) fn catch_up(&mut self, cut: Cut, live: &[u64], rewrite: Range<usize>) -> usize {
        self.unconfirmed.retain(|changes| changes.epoch > cut.confirmed);
        let slots: Box<[u64]> = self.dirty.chunks(64).map(bits_of).collect();
        let changed = slots.iter().map(|word| word.count_ones() as usize).sum();
        if changed > 0 {
            self.dirty.iter_mut().for_each(|byte| *byte &= USED);
            // A chunk that missed earlier cuts labels its changes with this one: none of those can be confirmed without it.
            self.unconfirmed.push(Changes { epoch: cut.epoch, slots });
        }
        if self.unconfirmed.len() > UNCONFIRMED_MAX {
            let oldest = self.unconfirmed.remove(0);
            let merged = &mut self.unconfirmed[0].slots;
            merged.iter_mut().zip(&oldest.slots).for_each(|(into, from)| *into |= from);
        }
        self.frozen_count = 0;
        for (number, word) in self.frozen.iter_mut().enumerate() {
            let changed = self.unconfirmed.iter().fold(0, |all, changes| all | changes.slots[number]);
            *word = (changed | ones_in(number, &rewrite)) & live[number];
            self.frozen_count += word.count_ones() as usize;
        }
        self.epoch = cut.epoch;
        changed
    }

    /// Marks a slot as changed.
    #[inline]
    pub(super) fn set_dirty(&mut self, offset: usize) {
        self.dirty[offset] = DIRTY | USED;
    }

    /// Whether the slot still has to be written.
    #[inline]
    pub(super) fn is_frozen(&self, offset: usize) -> bool {
        self.frozen[offset >> 6] >> (offset & 63) & 1 == 1
    }

    /// The first 64 slots at or after a word of which some still have to be written, and which.
    #[inline]
    pub(super) fn next_frozen_word(&self, from: usize) -> Option<(usize, u64)> {
        if self.frozen_count == 0 {
            return None;
        }
        self.frozen.iter().copied().enumerate().skip(from).find(|&(_, word)| word != 0)
    }

    /// Frozen slots of a word have been written to the snapshot in progress.
    #[inline]
    pub(super) fn set_written(&mut self, word: usize, slots: u64) {
        debug_assert!(self.frozen[word] & slots == slots);
        self.stored[word] |= slots;
        self.frozen[word] &= !slots;
        self.frozen_count -= slots.count_ones() as usize;
    }

    /// Some snapshot holds the slot's key, so that its removal has to be written too.
    #[inline]
    pub(super) fn set_stored(&mut self, offset: usize) {
        self.stored[offset >> 6] |= 1 << (offset & 63);
    }

    /// Marks a slot as used.
    #[inline]
    pub(super) fn set_used(&mut self, offset: usize) {
        self.dirty[offset] |= USED;
    }

    /// Of 64 live slots those that snapshots hold as they are, and that were not used since the last call. `confirmed` is the latest cut of
    /// which everything is stored.
    pub(super) fn idle(&mut self, word: usize, live: u64, confirmed: Epoch) -> u64 {
        let end = self.dirty.len().min((word + 1) << 6);
        let marks = &mut self.dirty[word << 6..end];
        let (mut dirty, mut used) = (0, 0);
        for (position, byte) in marks.iter_mut().enumerate() {
            dirty |= u64::from(*byte & DIRTY) << position;
            used |= u64::from((*byte & USED) >> 1) << position;
            *byte &= !USED;
        }
        let later = self.unconfirmed.iter().filter(|changes| changes.epoch > confirmed);
        let unwritten = later.fold(self.frozen[word] | dirty, |all, changes| all | changes.slots[word]);
        live & self.stored[word] & !unwritten & !used
    }

    /// Clears the marks of a slot whose entry is removed; whether any snapshot holds it.
    pub(super) fn clear(&mut self, offset: usize) -> bool {
        let bit = 1 << (offset & 63);
        let was_stored = self.stored[offset >> 6] & bit != 0;
        self.stored[offset >> 6] &= !bit;
        self.dirty[offset] = 0;
        was_stored
    }

    /// The address of a slot's marks, for a prefetch.
    #[inline]
    pub(super) fn address(&self, offset: usize) -> *const u8 {
        &raw const self.dirty[offset]
    }
}

/// One bit for each of up to 64 bytes: its lowest one.
fn bits_of(bytes: &[u8]) -> u64 {
    bytes.chunks(8).enumerate().fold(0, |bits, (position, eight)| {
        let mut word = [0; 8];
        word[..eight.len()].copy_from_slice(eight);
        // With the lowest bits alone, the multiplication gathers that of each in the highest byte.
        let gathered = (u64::from_le_bytes(word) & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits | gathered << (position * 8)
    })
}

/// The bits of word `number` that lie in a range of slots.
fn ones_in(number: usize, range: &Range<usize>) -> u64 {
    let first = number << 6;
    let below = |end: usize| match end.saturating_sub(first) {
        bits @ 0..64 => (1u64 << bits) - 1,
        _ => u64::MAX,
    };
    below(range.end) & !below(range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(epoch: u64, confirmed: u64) -> Cut {
        Cut { epoch: Epoch(epoch), confirmed: Epoch(confirmed) }
    }

    fn frozen(marks: &Marks) -> Vec<usize> {
        let all: Vec<usize> = (0..marks.dirty.len()).filter(|&offset| marks.is_frozen(offset)).collect();
        assert_eq!(all.len(), marks.frozen_count);
        all
    }

    #[test]
    fn changes_of_unconfirmed_epochs_are_frozen_again_and_confirmed_ones_are_not() {
        let live = [u64::MAX; 4];
        let mut marks = Marks::new(256, cut(0, 0));
        marks.set_dirty(3);
        marks.catch_up(cut(1, 0), &live, 0..0);
        assert_eq!(frozen(&marks), [3]);
        marks.set_dirty(200);
        marks.catch_up(cut(2, 0), &live, 0..0);
        assert_eq!(frozen(&marks), [3, 200]);
        marks.catch_up(cut(3, 1), &live, 0..0);
        assert_eq!(frozen(&marks), [200]);
        marks.catch_up(cut(4, 3), &live, 0..0);
        assert!(frozen(&marks).is_empty());
    }

    #[test]
    fn more_unconfirmed_epochs_than_are_kept_apart_lose_nothing() {
        let live = [u64::MAX; 1];
        let mut marks = Marks::new(64, cut(0, 0));
        for epoch in 1..20 {
            marks.set_dirty(epoch as usize);
            marks.catch_up(cut(epoch, 0), &live, 0..0);
            assert_eq!(frozen(&marks), (1..=epoch as usize).collect::<Vec<_>>());
            assert!(marks.unconfirmed.len() <= UNCONFIRMED_MAX);
        }
    }

    #[test]
    fn bytes_become_the_bits_at_their_places() {
        for set in 0..64 {
            let mut bytes = [0; 64];
            bytes[set] = 1;
            bytes[7] = 1;
            assert_eq!(bits_of(&bytes), 1 << set | 1 << 7);
        }
        assert_eq!(bits_of(&[1; 64]), u64::MAX);
        assert_eq!(bits_of(&[1; 16]), 0xFFFF);
    }

    #[test]
    fn only_live_slots_are_frozen_and_a_rewrite_freezes_clean_ones() {
        let mut marks = Marks::new(128, cut(0, 0));
        marks.set_dirty(1);
        marks.set_dirty(2);
        marks.catch_up(cut(1, 0), &[!0b10, 1], 60..128);
        assert_eq!(frozen(&marks), [2, 60, 61, 62, 63, 64]);
    }
}
