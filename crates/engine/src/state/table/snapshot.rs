//! Snapshots of a table: a freeze moves a number, a drain writes piece by piece, changes in between save the old value.
//!
//! Owns: the snapshot in progress, and removals since the last confirmed epoch.
//! Does not own: which slots are rewritten though unchanged (`chain` says so), key groups, stored bytes.
//!
//! Invariants:
//! 1. A frozen entry is written once: by the drain, or into `early` before its first change.
//! 2. A snapshot writes removals before entries, so that a key that was removed and came back is there.
//! 3. What an unconfirmed snapshot wrote is written again by the next one, which therefore needs only confirmed ones before it.

use std::collections::VecDeque;

use staunch_types::{Epoch, Result};

use super::super::codec::{Codec, Key, StateValue};
use super::super::writer::{Progress, SnapshotWriter};
use super::chunk::SlotId;
use super::log::{LogCursor, RecordLog};
use super::marks::{Cut, UNCONFIRMED_MAX};
use super::{Run, StateTable};

/// Slots whose marks can be looked through in the time that writing an entry takes, for the budget of a slice.
const SLOTS_PER_ENTRY: usize = 1024;

/// Slots from `start` to before `end`, both raw; in slot order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotRange {
    start: u32,
    end: u32,
}

/// Some of the slots of a table, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The slots.
    pub range: SlotRange,
    /// The place after them; `None` at the end of the table.
    pub next: Option<SlotId>,
    /// Slots by which the end of the table came too early.
    pub slots_left: usize,
}

/// A snapshot in progress.
pub(super) struct Writing {
    rewrite: SlotRange,
    /// Chunks that existed at the freeze.
    chunks: usize,
    /// Where the drain is: among the removals, then among the entries.
    removal: (usize, LogCursor),
    chunk: usize,
    word: usize,
    /// Entries that changed before the drain reached them, as they were.
    early: RecordLog,
    early_cursor: LogCursor,
}

/// Keys that snapshots hold and the table no longer does.
#[derive(Default)]
pub(super) struct Removed {
    since_freeze: RecordLog,
    unconfirmed: VecDeque<(Epoch, RecordLog)>,
}

impl Removed {
    pub(super) fn dismantle_page(&mut self) -> bool {
        if self.since_freeze.dismantle_page() {
            return true;
        }
        if let Some((_, log)) = self.unconfirmed.back_mut()
            && !log.dismantle_page()
        {
            self.unconfirmed.pop_back();
        }
        !self.unconfirmed.is_empty()
    }

    fn freeze(&mut self, cut: Cut) {
        self.forget(cut.confirmed);
        if !self.since_freeze.is_empty() {
            self.unconfirmed.push_back((cut.epoch, std::mem::take(&mut self.since_freeze)));
        }
        if self.unconfirmed.len() > UNCONFIRMED_MAX
            && let Some((_, mut merged)) = self.unconfirmed.pop_front()
            && let Some((_, next)) = self.unconfirmed.front_mut()
        {
            merged.append(std::mem::take(next));
            *next = merged;
        }
    }

    fn forget(&mut self, confirmed: Epoch) {
        self.unconfirmed.retain(|(epoch, _)| *epoch > confirmed);
    }
}

impl<K: Key, V: StateValue> StateTable<K, V> {
    /// Takes the barrier of an epoch: the snapshot to be drained is of the entries as they are now.
    ///
    /// `confirmed` is the latest epoch known to be durable, or the same as at the freeze before; changes up to it are left out. It
    /// has to be 0 or one of the latest [`UNCONFIRMED_MAX`] epochs that were frozen, as the changes of earlier ones are
    /// no longer told apart. A snapshot still in progress is given up. Unchanged entries in `rewrite` are written too.
    ///
    /// # Panics
    /// When epochs do not grow.
    ///
    /// Cost: independent of the number of entries.
    pub fn freeze(&mut self, epoch: Epoch, confirmed: Epoch, rewrite: SlotRange) {
        assert!(epoch > self.cut.epoch, "epochs grow: epoch={epoch} comes after {}", self.cut.epoch);
        self.cut = Cut { epoch, confirmed };
        self.removed.freeze(self.cut);
        self.changed = 0;
        self.writing = Some(Writing {
            rewrite,
            chunks: self.runs.len(),
            removal: (0, LogCursor::default()),
            chunk: 0,
            word: 0,
            early: RecordLog::default(),
            early_cursor: LogCursor::default(),
        });
    }

    /// Writes the next part of the snapshot in progress.
    ///
    /// # Errors
    /// When an entry cannot be serialised; the snapshot is then incomplete for ever.
    pub fn drain(&mut self, namespace: i64, writer: &mut SnapshotWriter<'_>) -> Result<Progress> {
        let Some(mut writing) = self.writing.take() else { return Ok(Progress::Done) };
        let progress = match self.failure.clone() {
            Some(error) => Err(error),
            None => {
                let codec = self.codec.clone();
                let mut codec = codec.lock();
                self.drain_parts(&mut writing, namespace, writer, &mut codec)
            }
        };
        if !matches!(progress, Ok(Progress::Done)) {
            self.writing = Some(writing);
        }
        progress
    }

    fn drain_parts(
        &mut self,
        writing: &mut Writing,
        namespace: i64,
        writer: &mut SnapshotWriter<'_>,
        codec: &mut Codec,
    ) -> Result<Progress> {
        while let Some((_, log)) = self.removed.unconfirmed.get(writing.removal.0) {
            if !writer.has_room() {
                return Ok(Progress::More);
            }
            match log.next(&mut writing.removal.1) {
                Some(record) => writer.delete_bytes(record.hash, namespace, record.key),
                None => writing.removal = (writing.removal.0 + 1, LogCursor::default()),
            }
        }
        while writer.has_room()
            && let Some(record) = writing.early.next(&mut writing.early_cursor)
        {
            writer.put_bytes(record.hash, namespace, record.key, record.value);
        }
        writing.early.release_before(&mut writing.early_cursor);
        while writing.chunk < writing.chunks {
            if !writer.has_room() {
                return Ok(Progress::More);
            }
            if self.drain_chunk(writing, namespace, writer, codec)? == Progress::Done {
                (writing.chunk, writing.word) = (writing.chunk + 1, 0);
            }
        }
        Ok(if writer.has_room() { Progress::Done } else { Progress::More })
    }

    fn drain_chunk(
        &mut self,
        writing: &mut Writing,
        namespace: i64,
        writer: &mut SnapshotWriter<'_>,
        codec: &mut Codec,
    ) -> Result<Progress> {
        let run = &mut self.runs[writing.chunk];
        if !run.marks.is_at(self.cut) {
            self.changed += run.bring_to(self.cut, writing.chunk, writing.rewrite);
            writer.take_entries(run.chunk.slots() / SLOTS_PER_ENTRY);
        }
        while let Some((word, mut left)) = run.marks.next_frozen_word(writing.word) {
            writing.word = word;
            let mut written = 0;
            while left != 0 && writer.has_room() {
                let offset = word << 6 | left.trailing_zeros() as usize;
                let entry = run.chunk.get(offset).expect("marks, invariant 3: frozen slots are live");
                writer.put(run.chunk.hash(offset), namespace, entry, codec)?;
                written |= left & left.wrapping_neg();
                left &= left - 1;
            }
            run.marks.set_written(word, written);
            if left != 0 {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }

    /// Gives up the snapshot in progress, if there is one; the next one writes all that this one should have.
    pub fn abandon(&mut self) {
        self.writing = None;
    }

    /// Whether a snapshot is in progress.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.writing.is_some()
    }

    /// Entries that changed between the latest freeze and the one before, as far as they have been counted; all of them once
    /// the snapshot is written. Removals do not count.
    #[must_use]
    pub fn changed(&self) -> usize {
        self.changed
    }

    /// The stretch of up to `slots` slots from a place on; `None` as a place is the beginning.
    #[must_use]
    pub fn stretch_from(&self, start: Option<SlotId>, slots: usize) -> Stretch {
        let from = start.unwrap_or(SlotId::new(0, 0));
        let (mut chunk, mut offset, mut slots_left) = (from.chunk(), from.offset(), slots);
        while let Some(run) = self.runs.get(chunk) {
            let rest = run.chunk.slots().saturating_sub(offset);
            if slots_left < rest {
                let end = SlotId::new(chunk, offset + slots_left);
                return Stretch { range: SlotRange { start: from.raw(), end: end.raw() }, next: Some(end), slots_left: 0 };
            }
            slots_left -= rest;
            (chunk, offset) = (chunk + 1, 0);
        }
        Stretch { range: SlotRange { start: from.raw(), end: u32::MAX }, next: None, slots_left }
    }

    /// Puts an entry from a snapshot; it counts as unchanged.
    pub fn restore_put(&mut self, hash: u64, key: K, value: V) {
        let slot = match self.find(hash, &key) {
            Some(slot) => {
                *self.value_mut(slot) = value;
                slot
            }
            None => self.fill(hash, key, value),
        };
        let marks = &mut self.runs[slot.chunk()].marks;
        if self.paged.is_some() {
            // The database does not have it yet.
            marks.set_dirty(slot.offset());
        } else {
            marks.set_stored(slot.offset());
        }
    }

    /// Removes an entry as a snapshot says; it counts as unchanged.
    pub fn restore_delete(&mut self, hash: u64, key: &K) {
        if self.paged.is_some() {
            self.remove(hash, key);
        } else if let Some(slot) = self.find(hash, key) {
            self.restore_delete_slot(slot);
        }
    }

    /// Removes all entries whose hash is one of those that a snapshot says to remove.
    pub(in super::super) fn restore_delete_where(&mut self, is_removed: impl Fn(u64) -> bool) {
        let slots: Vec<SlotId> = self.iter().map(|(slot, ..)| slot).collect();
        for slot in slots {
            if self.hash_of(slot).is_some_and(&is_removed) {
                self.restore_delete_slot(slot);
            }
        }
    }

    fn restore_delete_slot(&mut self, slot: SlotId) {
        if self.paged.is_some() {
            self.remove_slot(slot);
            return;
        }
        // Without its mark the removal is not recorded: the snapshot holds it already.
        self.runs[slot.chunk()].marks.clear(slot.offset());
        self.remove_slot(slot);
    }

    /// Prepares a live slot for a change of its value.
    #[inline]
    pub(super) fn touch(&mut self, slot: SlotId) {
        if self.writing.is_none() {
            // A chunk that missed a snapshot that was given up needs no care: the next one takes all its changes.
            self.runs[slot.chunk()].marks.set_dirty(slot.offset());
        } else {
            self.touch_with_care(slot);
        }
    }

    #[inline(never)]
    fn touch_with_care(&mut self, slot: SlotId) {
        self.release_from_snapshot(slot);
        self.runs[slot.chunk()].marks.set_dirty(slot.offset());
    }

    /// Makes a live slot free to change: the snapshot in progress has its entry.
    pub(super) fn release_from_snapshot(&mut self, slot: SlotId) {
        self.bring_to_cut(slot.chunk());
        if self.writing.is_some() && self.runs[slot.chunk()].marks.is_frozen(slot.offset()) {
            self.save_early(slot);
        }
    }

    /// Makes a chunk free to change: the snapshot in progress knows what was in it.
    #[inline]
    pub(super) fn bring_to_cut(&mut self, chunk: usize) {
        if let Some(writing) = &self.writing
            && !self.runs[chunk].marks.is_at(self.cut)
        {
            self.changed += self.runs[chunk].bring_to(self.cut, chunk, writing.rewrite);
        }
    }

    #[cold]
    fn save_early(&mut self, slot: SlotId) {
        let Run { chunk, marks } = &mut self.runs[slot.chunk()];
        let Some(writing) = &mut self.writing else { return };
        let (key, value) = chunk.get(slot.offset()).expect("marks, invariant 3: frozen slots are live");
        let mut codec = self.codec.lock();
        let saved = writing.early.push(chunk.hash(slot.offset()), |out| {
            codec.key(key, out)?;
            let key_end = out.len();
            codec.value(value, out).map(|()| key_end)
        });
        if let Err(error) = saved {
            self.failure.get_or_insert(error.into());
        }
        marks.set_written(slot.offset() >> 6, 1 << (slot.offset() & 63));
    }

    pub(super) fn record_removal(&mut self, hash: u64, key: &K) {
        self.note_gone(hash, key);
        if let Err(error) = self.removed.since_freeze.push(hash, |out| self.codec.lock().key(key, out).map(|()| out.len())) {
            self.failure.get_or_insert(error.into());
        }
    }
}

impl<K, V> Run<K, V> {
    /// Returns how many slots changed since the previous cut.
    fn bring_to(&mut self, cut: Cut, number: usize, rewrite: SlotRange) -> usize {
        if self.marks.is_at(cut) {
            return 0;
        }
        let first = SlotId::new(number, 0).raw();
        let slots = self.chunk.slots();
        let clip = |raw: u32| (raw.saturating_sub(first) as usize).min(slots);
        self.marks.catch_up(cut, self.chunk.live(), clip(rewrite.start)..clip(rewrite.end))
    }
}
