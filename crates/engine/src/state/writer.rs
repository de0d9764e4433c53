//! One slice of a snapshot, on its way into a block.
//!
//! Owns: how much one slice may write, and when a block is full.
//! Does not own: what is written, and where blocks go.
//!
//! Invariants:
//! 1. For one key of one namespace, clears come before deletes and deletes before puts; so whoever applies a segment in the
//!    order of its entries gets the state at the barrier. (`BlockWriter` keeps the order within a key group.)

use serde::Serialize;
use staunch_api::{StateBatch, key_of};
use staunch_format::block::BlockWriter;
use staunch_types::{KeyGroup, KeyGroupCount, KeyGroupRange, Result};

use super::codec::{Codec, SharedCodec};
use super::keyed::BlockSink;
use super::table::varying_keys;

/// Bytes after which a block is closed. One slice may overshoot it.
const BLOCK_BYTES: usize = 2 << 20;

/// What one slice may still write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    entries: usize,
    bytes: usize,
}

impl Budget {
    /// At most this many entries and about this many bytes; one entry may overshoot the bytes.
    #[must_use]
    pub fn new(entries: usize, bytes: usize) -> Budget {
        Budget { entries, bytes }
    }

    /// A budget that does not end.
    #[must_use]
    pub fn unlimited() -> Budget {
        Budget::new(usize::MAX, usize::MAX)
    }

    /// Whether another entry may be written.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.entries > 0 && self.bytes > 0
    }

    /// Takes entries, or work that costs as much.
    #[inline]
    pub(super) fn take_entries(&mut self, entries: usize) {
        self.entries = self.entries.saturating_sub(entries);
    }

    #[inline]
    fn take_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
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

/// Writes one slice of a state's snapshot into a block.
pub struct SnapshotWriter<'a> {
    target: Target<'a>,
    groups: KeyGroupCount,
    budget: &'a mut Budget,
}

/// Where the slice goes.
enum Target<'a> {
    /// Into the checkpoint store.
    Block(&'a mut BlockWriter),
    /// Into the database under the state.
    Batch(&'a mut StateBatch),
}

impl Target<'_> {
    #[inline]
    fn bytes(&self) -> usize {
        match self {
            Target::Block(block) => block.bytes(),
            Target::Batch(batch) => batch.bytes(),
        }
    }
}

impl<'a> SnapshotWriter<'a> {
    /// A writer into a block of a job with so many key groups.
    #[must_use]
    pub fn new(block: &'a mut BlockWriter, groups: KeyGroupCount, budget: &'a mut Budget) -> SnapshotWriter<'a> {
        SnapshotWriter { target: Target::Block(block), groups, budget }
    }

    /// A writer into a batch for a database.
    #[must_use]
    pub fn into_batch(batch: &'a mut StateBatch, groups: KeyGroupCount, budget: &'a mut Budget) -> SnapshotWriter<'a> {
        SnapshotWriter { target: Target::Batch(batch), groups, budget }
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.budget.has_room()
    }

    #[inline]
    pub(super) fn take_entries(&mut self, entries: usize) {
        self.budget.take_entries(entries);
    }

    /// # Errors
    /// When the key or the value cannot be serialised.
    #[inline]
    pub(super) fn put<K: Serialize, V: Serialize>(
        &mut self,
        hash: u64,
        namespace: i64,
        (key, value): &(K, V),
        codec: &mut Codec,
    ) -> Result<()> {
        let before = self.target.bytes();
        let (keys, values) = codec.both();
        let group = self.groups.group_of(hash);
        match &mut self.target {
            Target::Block(block) => block.put(group, namespace, |out| keys.encode(key, out), |out| values.encode(value, out))?,
            Target::Batch(batch) => {
                let own = |out: &mut Vec<u8>| {
                    key_of(namespace, u32::from(group.0), out);
                    keys.encode(key, out)
                };
                batch.put(own, |out| values.encode(value, out))?;
                if codec.key_version() > 0 {
                    return Err(varying_keys());
                }
            }
        }
        self.account(before);
        Ok(())
    }

    /// A put of a key and a value that were encoded before.
    pub(super) fn put_bytes(&mut self, hash: u64, namespace: i64, key: &[u8], value: &[u8]) {
        let before = self.target.bytes();
        let group = self.groups.group_of(hash);
        let Ok(()) = match &mut self.target {
            Target::Block(block) => block.put(group, namespace, append(key), append(value)),
            Target::Batch(batch) => {
                let own = |out: &mut Vec<u8>| {
                    key_of(namespace, u32::from(group.0), out);
                    append(key)(out)
                };
                batch.put(own, append(value))
            }
        };
        self.account(before);
    }

    /// A delete of a key that was encoded before.
    pub(super) fn delete_bytes(&mut self, hash: u64, namespace: i64, key: &[u8]) {
        let before = self.target.bytes();
        let group = self.groups.group_of(hash);
        match &mut self.target {
            Target::Block(block) => {
                let Ok(()) = block.delete(group, namespace, append(key));
            }
            Target::Batch(batch) => batch.delete(|out| {
                key_of(namespace, u32::from(group.0), out);
                out.extend_from_slice(key);
            }),
        }
        self.account(before);
    }

    /// Clears a namespace in the groups of a task.
    pub(super) fn clear(&mut self, namespace: i64, range: KeyGroupRange) {
        let before = self.target.bytes();
        match &mut self.target {
            Target::Block(block) => (range.start..range.end).for_each(|group| block.clear(KeyGroup(group as u16), namespace)),
            Target::Batch(batch) => {
                let (mut from, mut until) = (Vec::new(), Vec::new());
                key_of(namespace, range.start, &mut from);
                key_of(namespace, range.end, &mut until);
                batch.clear(from, until);
            }
        }
        self.account(before);
    }

    #[inline]
    fn account(&mut self, bytes_before: usize) {
        self.budget.take_entries(1);
        self.budget.take_bytes(self.target.bytes() - bytes_before);
    }
}

/// The blocks of one state.
pub(super) struct Outlet {
    name: String,
    block: BlockWriter,
    codec: SharedCodec,
    /// Entries and bytes handed over since the snapshot began.
    entries: u64,
    bytes: usize,
    entry_bytes: usize,
}

impl Outlet {
    /// An outlet for the state of a name whose tables share a codec.
    pub(super) fn new(name: &str, range: KeyGroupRange, codec: SharedCodec) -> Outlet {
        Outlet { name: name.into(), block: BlockWriter::new(name, range), codec, entries: 0, bytes: 0, entry_bytes: 0 }
    }

    /// The encoders of the state.
    pub(super) fn codec(&self) -> &SharedCodec {
        &self.codec
    }

    /// The name of the state.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Begins a snapshot; what is left of one that was given up is dropped.
    pub(super) fn begin(&mut self) {
        if self.block.entries() > 0 {
            drop(self.close());
        }
        self.entries = 0;
        self.bytes = 0;
    }

    /// Writes a slice into the open block.
    pub(super) fn writer<'a>(&'a mut self, groups: KeyGroupCount, budget: &'a mut Budget) -> SnapshotWriter<'a> {
        SnapshotWriter::new(&mut self.block, groups, budget)
    }

    /// Hands over the block if it is full or the last one.
    pub(super) fn hand_over(&mut self, progress: Progress, sink: &mut dyn BlockSink) {
        let is_due = match progress {
            Progress::More => self.block.bytes() >= BLOCK_BYTES,
            Progress::Done => self.block.entries() > 0,
        };
        if is_due {
            self.entries += self.block.entries();
            let block = self.close();
            self.bytes += block.len();
            self.entry_bytes = self.bytes / self.entries as usize;
            sink.block(&self.name, block);
        }
    }

    /// Whether the snapshot has handed over a block.
    pub(super) fn has_written(&self) -> bool {
        self.entries > 0
    }

    /// Bytes of an entry of the latest snapshot, on average; 0 if there was none.
    pub(super) fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    fn close(&mut self) -> Vec<u8> {
        let (keys, values) = self.codec.lock().schemas();
        self.block.finish(&keys, &values)
    }
}

#[inline]
fn append(bytes: &[u8]) -> impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), std::convert::Infallible> {
    move |out| {
        out.extend_from_slice(bytes);
        Ok(())
    }
}
