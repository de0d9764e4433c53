//! A hash table whose entries stay in place and whose snapshots cost what changed.
//!
//! Owns: entries of one state (or of one window of it) of one task; which of them the snapshot in progress still needs.
//! Does not own: the hash of a key (given by the caller, once per record), key groups, the chain of segments.
//! Data comes from operators through the kinds of state, and leaves through a `SnapshotWriter`.
//!
//! Invariants:
//! 1. The index refers to exactly the live slots.
//! 2. Whatever the operations after a freeze, its snapshot holds the entries at the freeze (`snapshot` says how).
//! 3. No operation does work in proportion to the size of the table: chunks are added, never moved.

mod index;
mod chunk;
mod marks;
mod log;
mod snapshot;
mod paged;

use std::borrow::Borrow;

use staunch_types::Error;

use super::codec::{Key, SharedCodec, StateValue};
use chunk::Chunk;
use index::Index;
use marks::{Cut, Marks};
use paged::Paged;
use snapshot::{Removed, Writing};

pub use chunk::SlotId;
pub(super) use marks::UNCONFIRMED_MAX;
pub use paged::Pager;
pub(super) use paged::varying_keys;
pub use snapshot::{SlotRange, Stretch};

/// Bytes that the processor fetches at once.
const CACHE_LINE: usize = 64;
/// Most lines of an entry that are fetched ahead.
const LINES_AHEAD: usize = 4;

/// Entries that stay in place, found by hash and key.
///
/// `hash` is always the hash of the key that it comes with; equal keys come with equal hashes.
pub struct StateTable<K, V> {
    index: Index,
    runs: Vec<Run<K, V>>,
    /// Slots of all runs.
    slots: usize,
    /// Slots of the last run that were never filled begin here.
    unused: usize,
    /// First of the list of slots that were filled and are free again.
    free: Option<SlotId>,
    live: usize,
    /// Entries that changed between the latest freeze and the one before, as far as chunks were brought to it.
    changed: usize,
    cut: Cut,
    writing: Option<Writing>,
    removed: Removed,
    codec: SharedCodec,
    /// The database that has what is not in memory, if there is one.
    paged: Option<Box<Paged>>,
    /// Why an entry could not be written or read when it had to be; every later drain reports it.
    failure: Option<Error>,
}

/// A run of slots with its marks.
struct Run<K, V> {
    chunk: Chunk<K, V>,
    marks: Marks,
}

impl<K: Key, V: StateValue> Default for StateTable<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V: StateValue> StateTable<K, V> {
    /// An empty table with encoders of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::with_codec(SharedCodec::default())
    }

    /// An empty table of a state that has several.
    #[must_use]
    pub fn with_codec(codec: SharedCodec) -> Self {
        StateTable {
            index: Index::new(),
            runs: Vec::new(),
            slots: 0,
            unused: 0,
            free: None,
            live: 0,
            changed: 0,
            cut: Cut::default(),
            writing: None,
            removed: Removed::default(),
            codec,
            paged: None,
            failure: None,
        }
    }

    /// Entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The value of a key.
    #[inline]
    pub fn get<Q>(&mut self, hash: u64, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let slot = self.fetch(hash, key)?;
        if self.paged.is_some() {
            self.runs[slot.chunk()].marks.set_used(slot.offset());
        }
        // SAFETY: invariant 1: the slot comes from the index, so it is live.
        Some(&unsafe { self.live_entry(slot) }.1)
    }

    /// The value of a key that is in memory.
    #[inline]
    pub fn peek<Q>(&self, hash: u64, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let slot = self.find(hash, key)?;
        // SAFETY: invariant 1: the slot comes from the index, so it is live.
        Some(&unsafe { self.live_entry(slot) }.1)
    }

    /// Changes the value of a key, which is made first if there is none.
    #[inline]
    pub fn update<Q, R>(&mut self, hash: u64, key: &Q, init: impl FnOnce() -> V, change: impl FnOnce(&mut V) -> R) -> R
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let slot = match self.fetch(hash, key) {
            Some(slot) => {
                self.touch(slot);
                slot
            }
            None => self.add(hash, key.to_owned(), init()),
        };
        // SAFETY: invariant 1: the slot comes from the index or was just filled, so it is live.
        change(&mut unsafe { self.live_entry_mut(slot) }.1)
    }

    /// [`Self::update`] with a guess of the slot from [`Self::prefetch_entry`], which spares the index when it is right.
    #[inline]
    pub fn update_guessed<Q, R>(
        &mut self,
        guess: Option<SlotId>,
        hash: u64,
        key: &Q,
        init: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> R
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        match guess {
            Some(slot) if self.entry(slot).is_some_and(|(found, _)| found.borrow() == key) => {
                self.touch(slot);
                // SAFETY: `entry` found the slot live.
                change(&mut unsafe { self.live_entry_mut(slot) }.1)
            }
            Some(_) | None => self.update(hash, key, init, change),
        }
    }

    /// Changes the value of a key if there is one.
    #[inline]
    pub fn update_existing<Q, R>(&mut self, hash: u64, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let slot = self.fetch(hash, key)?;
        self.touch(slot);
        // SAFETY: invariant 1: the slot comes from the index, so it is live.
        Some(change(&mut unsafe { self.live_entry_mut(slot) }.1))
    }

    /// Gives a key a value; returns the one before.
    pub fn set<Q>(&mut self, hash: u64, key: &Q, value: V) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.fetch(hash, key) {
            Some(slot) => self.update_slot(slot, |found| std::mem::replace(found, value)),
            None => {
                self.add(hash, key.to_owned(), value);
                None
            }
        }
    }

    /// Removes a key; returns its value.
    pub fn remove<Q>(&mut self, hash: u64, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let slot = self.fetch(hash, key)?;
        self.remove_slot(slot).map(|(_, value)| value)
    }

    /// The slot of a key, which is brought into memory if only the database has it.
    #[inline]
    pub fn fetch<Q>(&mut self, hash: u64, key: &Q) -> Option<SlotId>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.find(hash, key) {
            None if self.is_partial() => self.load(hash, key.to_owned()),
            found => found,
        }
    }

    /// The slot of a key that is in memory.
    #[inline]
    pub fn find<Q>(&self, hash: u64, key: &Q) -> Option<SlotId>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // SAFETY: invariant 1: the slot comes from the index, so it exists and is live.
        self.index.find(hash, |slot| unsafe { self.live_entry(slot) }.0.borrow() == key)
    }

    /// The slot with a hash and a key for which `is_match` holds; for keys in parts, none of which need be cloned for this.
    #[inline]
    pub(super) fn find_with(&self, hash: u64, is_match: impl Fn(&K) -> bool) -> Option<SlotId> {
        // SAFETY: invariant 1: the slot comes from the index, so it exists and is live.
        self.index.find(hash, |slot| is_match(unsafe { &self.live_entry(slot).0 }))
    }

    /// [`Self::find_with`], for a key that is brought into memory if only the database has it; `key` makes it then.
    #[inline]
    pub(super) fn fetch_with(&mut self, hash: u64, is_match: impl Fn(&K) -> bool, key: impl FnOnce() -> K) -> Option<SlotId> {
        match self.find_with(hash, is_match) {
            Some(slot) => {
                if self.paged.is_some() {
                    self.runs[slot.chunk()].marks.set_used(slot.offset());
                }
                Some(slot)
            }
            None if self.is_partial() => self.load(hash, key()),
            None => None,
        }
    }

    /// Changes the value in a slot, if it is live.
    #[inline]
    pub(super) fn update_slot<R>(&mut self, slot: SlotId, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.entry(slot)?;
        self.touch(slot);
        Some(change(self.value_mut(slot)))
    }

    /// Adds a key that is not in the table.
    pub(super) fn insert_new(&mut self, hash: u64, key: K, value: V) -> SlotId {
        self.add(hash, key, value)
    }

    /// The entry in a slot, if it is live.
    #[inline]
    pub fn entry(&self, slot: SlotId) -> Option<(&K, &V)> {
        self.runs.get(slot.chunk())?.chunk.get(slot.offset()).map(|(key, value)| (key, value))
    }

    /// The hash of the entry in a slot, if it is live.
    #[must_use]
    pub fn hash_of(&self, slot: SlotId) -> Option<u64> {
        let chunk = &self.runs.get(slot.chunk())?.chunk;
        chunk.get(slot.offset()).map(|_| chunk.hash(slot.offset()))
    }

    /// Removes the entry in a slot, if it is live.
    pub fn remove_slot(&mut self, slot: SlotId) -> Option<(K, V)> {
        let hash = self.hash_of(slot)?;
        self.release_from_snapshot(slot);
        self.index.remove(hash, slot);
        let free = self.free.replace(slot);
        let run = &mut self.runs[slot.chunk()];
        let was_stored = run.marks.clear(slot.offset());
        let (key, value) = run.chunk.take(slot.offset(), free);
        self.live -= 1;
        if was_stored {
            self.record_removal(hash, &key);
        }
        Some((key, value))
    }

    /// All entries that are in memory, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (SlotId, &K, &V)> {
        self.iter_after(None)
    }

    /// The entries after a slot in slot order, so that a long walk can be taken in pieces.
    pub fn iter_after(&self, after: Option<SlotId>) -> impl Iterator<Item = (SlotId, &K, &V)> {
        let (mut number, mut from) = after.map_or((0, 0), |slot| (slot.chunk(), slot.offset() + 1));
        std::iter::from_fn(move || {
            loop {
                let chunk = &self.runs.get(number)?.chunk;
                match chunk.next_live(from) {
                    Some(offset) => {
                        from = offset + 1;
                        let (key, value) = chunk.get(offset)?;
                        return Some((SlotId::new(number, offset), key, value));
                    }
                    None => (number, from) = (number + 1, 0),
                }
            }
        })
    }

    /// Asks the processor for the part of the index that a later lookup of the hash reads.
    #[inline]
    pub fn prefetch_index(&self, hash: u64) {
        prefetch(self.index.address(hash));
    }

    /// Asks the processor for the entry that a later lookup of the hash reads; best some records after `prefetch_index`. Where it
    /// probably is, for [`Self::update_guessed`].
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) -> Option<SlotId> {
        let slot = self.index.guess(hash)?;
        let run = self.runs.get(slot.chunk())?;
        let address = run.chunk.address(slot.offset());
        prefetch(address);
        for line in (CACHE_LINE..size_of::<(K, V)>().min(LINES_AHEAD * CACHE_LINE)).step_by(CACHE_LINE) {
            prefetch(address.wrapping_add(line));
        }
        prefetch(run.marks.address(slot.offset()));
        if self.writing.is_some() {
            prefetch(run.chunk.hash_address(slot.offset()));
        }
        Some(slot)
    }

    /// Frees up to about `entries` entries of a table that is no longer used; whether any is left to free.
    pub(super) fn dismantle(&mut self, entries: usize) -> bool {
        if self.index.dismantle_part() || self.removed.dismantle_page() {
            return true;
        }
        if let Some(run) = self.runs.last_mut() {
            if run.chunk.drop_some(entries) {
                return true;
            }
            self.runs.pop();
        }
        !self.runs.is_empty()
    }

    /// # Safety
    /// The slot is live.
    #[inline]
    unsafe fn live_entry(&self, slot: SlotId) -> &(K, V) {
        // SAFETY: the caller's promise: a live slot lies in an existing run.
        unsafe { self.runs.get_unchecked(slot.chunk()).chunk.get_live(slot.offset()) }
    }

    /// # Safety
    /// The slot is live.
    #[inline]
    unsafe fn live_entry_mut(&mut self, slot: SlotId) -> &mut (K, V) {
        // SAFETY: the caller's promise: a live slot lies in an existing run.
        unsafe { self.runs.get_unchecked_mut(slot.chunk()).chunk.get_live_mut(slot.offset()) }
    }

    fn value_mut(&mut self, slot: SlotId) -> &mut V {
        let entry = self.runs[slot.chunk()].chunk.get_mut(slot.offset());
        &mut entry.expect("invariant 1: the slot comes from the index").1
    }

    /// Fills a free slot with an entry whose key is not in the table.
    fn add(&mut self, hash: u64, key: K, value: V) -> SlotId {
        let slot = self.fill(hash, key, value);
        self.runs[slot.chunk()].marks.set_dirty(slot.offset());
        slot
    }

    fn fill(&mut self, hash: u64, key: K, value: V) -> SlotId {
        let slot = match self.free {
            Some(slot) => slot,
            None => self.unused_slot(),
        };
        self.bring_to_cut(slot.chunk());
        let next_free = self.runs[slot.chunk()].chunk.fill(slot.offset(), hash, key, value);
        if self.free.is_some() {
            self.free = next_free;
        }
        self.index.insert(hash, slot);
        self.live += 1;
        slot
    }

    fn unused_slot(&mut self) -> SlotId {
        if self.runs.last().is_none_or(|run| run.chunk.slots() == self.unused) {
            let slots = Chunk::<K, V>::slots_after(self.slots);
            self.runs.push(Run { chunk: Chunk::new(slots), marks: Marks::new(slots, self.cut) });
            self.slots += slots;
            self.unused = 0;
        }
        let slot = SlotId::new(self.runs.len() - 1, self.unused);
        self.unused += 1;
        slot
    }
}

#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it reads nothing and faults for no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests;
