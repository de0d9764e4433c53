//! Memory of a run of slots: entries that never move while they live.
//!
//! Owns: entries and their hashes, which slots are live, and the list of free slots threaded through the dead ones.
//! Does not own: where a key is (`index`), what a snapshot still needs (`marks`).
//!
//! Invariants:
//! 1. The bit of a slot in `live` is set exactly while its entry is initialised. Only this file reads or writes either.

use std::mem::MaybeUninit;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Slots of the first chunk of a table.
const SLOTS_FIRST: usize = 16;
/// Most slots of a chunk: an offset has 16 bits.
const SLOTS_MAX: usize = 1 << 16;
/// Bytes of entries that a chunk aims at when entries are large.
const CHUNK_BYTES: usize = 1 << 20;

/// Place of an entry in its table; does not change while the entry lives. In slot order, earlier chunks come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotId(NonZeroU32);

impl SlotId {
    #[inline]
    pub(super) fn new(chunk: usize, offset: usize) -> SlotId {
        debug_assert!(chunk < (1 << 16) && offset < SLOTS_MAX);
        SlotId(NonZeroU32::MIN.saturating_add((chunk << 16 | offset) as u32))
    }

    /// The slot as a number; never 0.
    #[inline]
    #[must_use]
    pub(super) fn raw(self) -> u32 {
        self.0.get()
    }

    #[inline]
    pub(super) fn from_raw(raw: u32) -> Option<SlotId> {
        NonZeroU32::new(raw).map(SlotId)
    }

    #[inline]
    pub(super) fn chunk(self) -> usize {
        ((self.0.get() - 1) >> 16) as usize
    }

    #[inline]
    pub(super) fn offset(self) -> usize {
        ((self.0.get() - 1) & 0xFFFF) as usize
    }
}

/// A run of slots of a table.
pub(super) struct Chunk<K, V> {
    entries: Box<[MaybeUninit<(K, V)>]>,
    /// Of a live slot its hash; of a free one the raw id of the next free slot or 0.
    hashes: Box<[u64]>,
    live: Box<[u64]>,
}

impl<K, V> Chunk<K, V> {
    /// Slots of the chunk that follows `slots` slots of the same table.
    pub(super) fn slots_after(slots: usize) -> usize {
        let by_bytes = CHUNK_BYTES.checked_div(size_of::<(K, V)>()).unwrap_or(SLOTS_MAX).clamp(SLOTS_FIRST, SLOTS_MAX);
        let slots_max = 1 << by_bytes.ilog2();
        slots.next_power_of_two().clamp(SLOTS_FIRST, slots_max)
    }

    /// A chunk without entries.
    pub(super) fn new(slots: usize) -> Chunk<K, V> {
        Chunk {
            entries: Box::new_uninit_slice(slots),
            hashes: vec![0; slots].into_boxed_slice(),
            live: vec![0; slots.div_ceil(64)].into_boxed_slice(),
        }
    }

    /// Slots, live or not.
    pub(super) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// One bit for each slot: whether it holds an entry.
    pub(super) fn live(&self) -> &[u64] {
        &self.live
    }

    #[inline]
    fn is_live(&self, offset: usize) -> bool {
        self.live[offset >> 6] >> (offset & 63) & 1 == 1
    }

    /// The entry of a live slot.
    #[inline]
    pub(super) fn get(&self, offset: usize) -> Option<&(K, V)> {
        if !self.is_live(offset) {
            return None;
        }
        // SAFETY: invariant 1: a live slot's entry is initialised.
        Some(unsafe { self.entries[offset].assume_init_ref() })
    }

    /// The entry of a live slot, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, offset: usize) -> Option<&mut (K, V)> {
        if !self.is_live(offset) {
            return None;
        }
        // SAFETY: invariant 1: a live slot's entry is initialised.
        Some(unsafe { self.entries[offset].assume_init_mut() })
    }

    /// The entry of a slot that is known to be live.
    ///
    /// # Safety
    /// The slot is below `slots()` and live.
    #[inline]
    pub(super) unsafe fn get_live(&self, offset: usize) -> &(K, V) {
        debug_assert!(self.is_live(offset));
        // SAFETY: the caller's promise, and invariant 1.
        unsafe { self.entries.get_unchecked(offset).assume_init_ref() }
    }

    /// The entry of a slot that is known to be live, to be changed.
    ///
    /// # Safety
    /// The slot is below `slots()` and live.
    #[inline]
    pub(super) unsafe fn get_live_mut(&mut self, offset: usize) -> &mut (K, V) {
        debug_assert!(self.is_live(offset));
        // SAFETY: the caller's promise, and invariant 1.
        unsafe { self.entries.get_unchecked_mut(offset).assume_init_mut() }
    }

    /// The hash of a live slot.
    #[inline]
    pub(super) fn hash(&self, offset: usize) -> u64 {
        self.hashes[offset]
    }

    /// The address of a slot, for a prefetch.
    #[inline]
    pub(super) fn address(&self, offset: usize) -> *const u8 {
        (&raw const self.entries[offset]).cast()
    }

    /// The address of a slot's hash, for a prefetch.
    #[inline]
    pub(super) fn hash_address(&self, offset: usize) -> *const u8 {
        (&raw const self.hashes[offset]).cast()
    }

    /// Fills a free slot; returns the next free one.
    pub(super) fn fill(&mut self, offset: usize, hash: u64, key: K, value: V) -> Option<SlotId> {
        assert!(!self.is_live(offset), "invariant 1: a slot is filled only while it is free");
        let next_free = SlotId::from_raw(self.hashes[offset] as u32);
        self.entries[offset].write((key, value));
        self.live[offset >> 6] |= 1 << (offset & 63);
        self.hashes[offset] = hash;
        next_free
    }

    /// Empties a live slot and puts it before `next_free` in the list of free slots.
    pub(super) fn take(&mut self, offset: usize, next_free: Option<SlotId>) -> (K, V) {
        assert!(self.is_live(offset), "invariant 1: a slot is emptied only while it is live");
        self.live[offset >> 6] &= !(1 << (offset & 63));
        self.hashes[offset] = next_free.map_or(0, |slot| u64::from(slot.raw()));
        // SAFETY: invariant 1: the slot was live, so its entry is initialised; its bit is now clear, so it is read only once.
        unsafe { self.entries[offset].assume_init_read() }
    }

    /// The first live slot at or after an offset.
    #[inline]
    pub(super) fn next_live(&self, from: usize) -> Option<usize> {
        let mut number = from >> 6;
        let mut word = self.live.get(number)? & (u64::MAX << (from & 63));
        while word == 0 {
            number += 1;
            word = *self.live.get(number)?;
        }
        Some(number << 6 | word.trailing_zeros() as usize)
    }

    /// Drops up to `entries` entries of a chunk that is no longer used; whether any is left that needs it.
    pub(super) fn drop_some(&mut self, entries: usize) -> bool {
        if !std::mem::needs_drop::<(K, V)>() {
            return false;
        }
        let mut from = 0;
        for _ in 0..entries {
            let Some(offset) = self.next_live(from) else { return false };
            // Cleared before the drop, so that a panic in it cannot drop the entry twice.
            self.live[offset >> 6] &= !(1 << (offset & 63));
            // SAFETY: invariant 1: the slot was live, so its entry is initialised.
            unsafe { self.entries[offset].assume_init_drop() };
            from = offset + 1;
        }
        true
    }
}

impl<K, V> Drop for Chunk<K, V> {
    fn drop(&mut self) {
        self.drop_some(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_slot_id_gives_back_chunk_and_offset_and_sorts_by_them() {
        let ids = [(0, 0), (0, 15), (1, 0), (7, 65_535), (65_535, 65_534)];
        for (chunk, offset) in ids {
            let id = SlotId::new(chunk, offset);
            assert_eq!((id.chunk(), id.offset()), (chunk, offset));
            assert_eq!(SlotId::from_raw(id.raw()), Some(id));
        }
        assert!(ids.windows(2).all(|pair| SlotId::new(pair[0].0, pair[0].1) < SlotId::new(pair[1].0, pair[1].1)));
        assert_eq!(size_of::<Option<SlotId>>(), 4);
    }

    #[test]
    fn every_entry_is_dropped_once() {
        let witness = Rc::new(());
        let mut chunk: Chunk<u8, Rc<()>> = Chunk::new(100);
        for offset in 0..100 {
            chunk.fill(offset, 7, 1, Rc::clone(&witness));
        }
        let taken = chunk.take(50, None);
        assert!(chunk.get(50).is_none());
        assert_eq!(Rc::strong_count(&witness), 101);
        drop(chunk);
        assert_eq!(Rc::strong_count(&witness), 2);
        drop(taken);
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn chunks_grow_from_16_slots_to_a_bounded_size() {
        assert_eq!(Chunk::<u64, u64>::slots_after(0), 16);
        assert_eq!(Chunk::<u64, u64>::slots_after(16), 16);
        assert_eq!(Chunk::<u64, u64>::slots_after(48), 64);
        assert_eq!(Chunk::<u64, u64>::slots_after(1 << 30), SLOTS_MAX);
        assert_eq!(Chunk::<u64, [u64; 127]>::slots_after(1 << 30), 1024);
        assert_eq!(Chunk::<u64, [u64; 1 << 20]>::slots_after(1 << 30), SLOTS_FIRST);
        assert_eq!(Chunk::<(), ()>::slots_after(1 << 30), SLOTS_MAX);
    }
}
