//! Where a snapshot goes, and how much of it one slice may write.
//!
//! Owns: the contract between state and whoever stores its snapshots.
//! Does not own: the form of stored bytes, files, epochs.
//!
//! Invariants:
//! 1. For one key of one namespace, clears come before deletes and deletes before puts; so whoever applies a segment in the
//!    order of the calls gets the state at the barrier.

use serde::Serialize;
use staunch_types::Result;

use super::codec::Codec;

/// Takes the records of one snapshot. `hash` is the key's stable hash as far as its key group is concerned.
pub trait SnapshotSink {
    /// The key has this value at the barrier.
    ///
    /// # Errors
    /// When the record cannot be stored; the snapshot has then failed.
    fn put(&mut self, hash: u64, namespace: i64, key: &[u8], value: &[u8]) -> Result<()>;

    /// The key has no value at the barrier, unless a later `put` gives it one.
    ///
    /// # Errors
    /// When the record cannot be stored; the snapshot has then failed.
    fn delete(&mut self, hash: u64, namespace: i64, key: &[u8]) -> Result<()>;

    /// No key of the namespace has a value at the barrier, unless a later `put` gives it one.
    ///
    /// # Errors
    /// When the record cannot be stored; the snapshot has then failed.
    fn clear(&mut self, namespace: i64) -> Result<()>;
}

/// Writes one slice of a snapshot to a sink.
pub struct SnapshotWriter<'a> {
    sink: &'a mut dyn SnapshotSink,
    entries_left: usize,
    bytes_left: usize,
    scratch: Vec<u8>,
}

impl<'a> SnapshotWriter<'a> {
    /// A writer of at most this many entries and about this many bytes; one entry may overshoot the bytes.
    #[must_use]
    pub fn new(sink: &'a mut dyn SnapshotSink, entries_max: usize, bytes_max: usize) -> SnapshotWriter<'a> {
        SnapshotWriter { sink, entries_left: entries_max, bytes_left: bytes_max, scratch: Vec::new() }
    }

    /// Whether another entry may be written.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.entries_left > 0 && self.bytes_left > 0
    }

    #[inline]
    pub(super) fn put<K: Serialize, V: Serialize>(
        &mut self,
        hash: u64,
        namespace: i64,
        (key, value): (&K, &V),
        codec: &mut Codec,
    ) -> Result<()> {
        self.scratch.clear();
        codec.key(key, &mut self.scratch)?;
        let key_end = self.scratch.len();
        codec.value(value, &mut self.scratch)?;
        self.take(self.scratch.len());
        let (key, value) = self.scratch.split_at(key_end);
        self.sink.put(hash, namespace, key, value)
    }

    #[inline]
    pub(super) fn put_bytes(&mut self, hash: u64, namespace: i64, key: &[u8], value: &[u8]) -> Result<()> {
        self.take(key.len() + value.len());
        self.sink.put(hash, namespace, key, value)
    }

    pub(super) fn delete(&mut self, hash: u64, namespace: i64, key: &[u8]) -> Result<()> {
        self.take(key.len());
        self.sink.delete(hash, namespace, key)
    }

    pub(super) fn clear(&mut self, namespace: i64) -> Result<()> {
        self.take(0);
        self.sink.clear(namespace)
    }

    /// Takes work that writes nothing but costs as much as some entries.
    pub(super) fn take_entries(&mut self, entries: usize) {
        self.entries_left = self.entries_left.saturating_sub(entries);
    }

    #[inline]
    fn take(&mut self, bytes: usize) {
        self.take_entries(1);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }
}

/// How far a piece of work is that goes on over several slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The budget is used up; call again.
    More,
    /// Nothing is left to do.
    Done,
}
