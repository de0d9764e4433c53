//! What snapshots need to know about the slots of one chunk.
//!
//! Owns: for each slot, whether it changed since the last barrier (`dirty`), whether the snapshot in progress still has to
//! write it (`frozen`), whether any snapshot holds it (`stored`); and which slots changed in epochs not yet confirmed.
//! Does not own: entries, or when a barrier comes (`Cut` says so).
//!
//! Invariants:
//! 1. A chunk is brought to the table's cut before anything in it changes. So a freeze costs the same however many chunks
//!    there are: it only moves the cut.
//! 2. A slot changed in an unconfirmed epoch is frozen by every later cut, until an epoch that held it is confirmed.
//! 3. Frozen slots are live, with the value they had at the barrier.

use staunch_types::Epoch;

/// Unconfirmed epochs whose changes are kept apart; more are merged with the next younger.
pub(super) const UNCONFIRMED_MAX: usize = 4;

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
    words: Box<[Word]>,
    stored: Box<[u64]>,
    unconfirmed: Vec<Changes>,
    epoch: Epoch,
    frozen: usize,
}

/// Marks of 64 slots; together, because an update needs both.
#[derive(Clone, Copy, Default)]
struct Word {
    dirty: u64,
    frozen: u64,
}

struct Changes {
    epoch: Epoch,
    slots: Box<[u64]>,
}

impl Marks {
    /// Marks of a chunk that comes into being after a cut.
    pub(super) fn new(slots: usize, cut: Cut) -> Marks {
        let words = slots.div_ceil(64);
        Marks {
            words: vec![Word::default(); words].into_boxed_slice(),
            stored: vec![0; words].into_boxed_slice(),
            unconfirmed: Vec::new(),
            epoch: cut.epoch,
            frozen: 0,
        }
    }

    /// Whether the chunk has been brought to the cut.
    #[inline]
    pub(super) fn is_at(&self, cut: Cut) -> bool {
        self.epoch == cut.epoch
    }

    /// Brings the chunk to the cut: freezes what changed since the last confirmed epoch and the slots of `rewrite`.
    #[cold]
    pub(super) fn catch_up(&mut self, cut: Cut, live: &[u64], rewrite: std::ops::Range<usize>) {
        self.unconfirmed.retain(|changes| changes.epoch > cut.confirmed);
        if self.words.iter().any(|word| word.dirty != 0) {
            // A chunk that missed earlier cuts labels its changes with this one: none of those can be confirmed without it.
            let slots = self.words.iter().map(|word| word.dirty).collect();
            self.unconfirmed.push(Changes { epoch: cut.epoch, slots });
        }
        if self.unconfirmed.len() > UNCONFIRMED_MAX {
            let oldest = self.unconfirmed.remove(0);
            let merged = &mut self.unconfirmed[0].slots;
            merged.iter_mut().zip(&oldest.slots).for_each(|(into, from)| *into |= from);
        }
        self.frozen = 0;
        for (number, word) in self.words.iter_mut().enumerate() {
            let changed = self.unconfirmed.iter().fold(0, |all, changes| all | changes.slots[number]);
            let frozen = (changed | ones_in(number, &rewrite)) & live[number];
            self.frozen += frozen.count_ones() as usize;
            *word = Word { dirty: 0, frozen };
        }
        self.epoch = cut.epoch;
    }

    /// Marks a slot as changed; whether it was unchanged since the barrier.
    #[inline]
    pub(super) fn set_dirty(&mut self, offset: usize) -> bool {
        let word = &mut self.words[offset >> 6].dirty;
        let bit = 1 << (offset & 63);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether the slot still has to be written.
    #[inline]
    pub(super) fn is_frozen(&self, offset: usize) -> bool {
        self.words[offset >> 6].frozen >> (offset & 63) & 1 == 1
    }

    /// Whether any slot still has to be written.
    #[inline]
    pub(super) fn has_frozen(&self) -> bool {
        self.frozen > 0
    }

    /// The first slot at or after an offset that still has to be written.
    #[inline]
    pub(super) fn next_frozen(&self, from: usize) -> Option<usize> {
        let mut number = from >> 6;
        let mut word = self.words.get(number)?.frozen & (u64::MAX << (from & 63));
        while word == 0 {
            number += 1;
            word = self.words.get(number)?.frozen;
        }
        Some(number << 6 | word.trailing_zeros() as usize)
    }

    /// The slot has been written to the snapshot in progress.
    #[inline]
    pub(super) fn set_written(&mut self, offset: usize) {
        self.set_thawed(offset);
        self.set_stored(offset);
    }

    /// The slot no longer has to be written: its snapshot was abandoned.
    #[inline]
    pub(super) fn set_thawed(&mut self, offset: usize) {
        debug_assert!(self.is_frozen(offset));
        self.words[offset >> 6].frozen &= !(1 << (offset & 63));
        self.frozen -= 1;
    }

    /// Some snapshot holds the slot's key, so that its removal has to be written too.
    #[inline]
    pub(super) fn set_stored(&mut self, offset: usize) {
        self.stored[offset >> 6] |= 1 << (offset & 63);
    }

    /// Clears all marks of a slot whose entry is removed; whether any snapshot holds it.
    pub(super) fn clear(&mut self, offset: usize) -> bool {
        debug_assert!(!self.is_frozen(offset));
        let bit = 1 << (offset & 63);
        let was_stored = self.stored[offset >> 6] & bit != 0;
        self.stored[offset >> 6] &= !bit;
        self.words[offset >> 6].dirty &= !bit;
        was_stored
    }

    /// The address of a slot's marks, for a prefetch.
    #[inline]
    pub(super) fn address(&self, offset: usize) -> *const u8 {
        (&raw const self.words[offset >> 6]).cast()
    }
}

/// The bits of word `number` that lie in a range of slots.
fn ones_in(number: usize, range: &std::ops::Range<usize>) -> u64 {
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
        let mut all = Vec::new();
        while let Some(offset) = marks.next_frozen(all.last().map_or(0, |last| last + 1)) {
            all.push(offset);
        }
        assert_eq!(all.len(), marks.frozen);
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
        assert_eq!(frozen(&marks), []);
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
    fn only_live_slots_are_frozen_and_a_rewrite_freezes_clean_ones() {
        let mut marks = Marks::new(128, cut(0, 0));
        marks.set_dirty(1);
        marks.set_dirty(2);
        marks.catch_up(cut(1, 0), &[!0b10, 1], 60..128);
        assert_eq!(frozen(&marks), [2, 60, 61, 62, 63, 64]);
    }
}
