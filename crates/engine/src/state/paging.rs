//! What a state needs to know of the database under it.
//!
//! Owns: the numbers of its cuts, which of them the database has, the batch being filled. Does not own: entries (`table`), when a cut is taken
//! or a batch is written (the keeper).
//!
//! A cut is what a barrier is for a state in memory, and is also taken between barriers, when what changed has to make room. Cuts have numbers
//! of their own.

pub mod backend;
#[cfg(test)]
pub(crate) mod testing;

use staunch_api::StateBatch;
use staunch_types::{Epoch, KeyGroupCount, Result};

use super::table::Pager;
use super::writer::{Budget, Progress, SnapshotWriter};

/// Bytes of the allocations of an entry, until some were written.
const HEAP_BYTES_FIRST: usize = 48;

/// The database under one state.
pub(super) struct Paging {
    pager: Pager,
    /// The latest cut.
    cut: Epoch,
    /// The latest cut that the database has.
    written: Epoch,
    /// The cut in progress was given up.
    is_given_up: bool,
    batch: StateBatch,
    /// What a cut that was given up left behind; it goes before all that follows.
    left: Option<StateBatch>,
    /// Entries and bytes handed over.
    entries: u64,
    bytes: u64,
}

impl Paging {
    pub(super) fn new(pager: Pager) -> Paging {
        let batch = pager.batch();
        Paging { pager, cut: Epoch(0), written: Epoch(0), is_given_up: false, batch, left: None, entries: 0, bytes: 0 }
    }

    pub(super) fn pager(&self) -> &Pager {
        &self.pager
    }

    /// Begins the next cut; returns it, and the latest one that the database has.
    pub(super) fn begin(&mut self) -> (Epoch, Epoch) {
        self.cut = Epoch(self.cut.0 + 1);
        self.is_given_up = false;
        if !self.batch.is_empty() {
            self.left = Some(std::mem::replace(&mut self.batch, self.pager.batch()));
        }
        (self.cut, self.written)
    }

    /// The cut in progress will not be written to its end.
    pub(super) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// All of the latest cut is in the database; returns it.
    pub(super) fn settle(&mut self) -> Option<Epoch> {
        if self.is_given_up {
            return None;
        }
        self.written = self.cut;
        Some(self.written)
    }

    /// The latest cut that the database has.
    pub(super) fn written(&self) -> Epoch {
        self.written
    }

    /// Bytes that an entry's own allocations take, about.
    pub(super) fn heap(&self) -> usize {
        let average = self.bytes.checked_div(self.entries).map_or(HEAP_BYTES_FIRST, |bytes| bytes as usize);
        // What is allocated has a length and a capacity of its own, and the allocator rounds up.
        average + average / 4
    }

    /// Writes a slice into the open batch, and hands it over when it is full or the last one.
    pub(super) fn fill(
        &mut self,
        groups: KeyGroupCount,
        budget: &mut Budget,
        take: &mut dyn FnMut(StateBatch),
        write: impl FnOnce(&mut SnapshotWriter<'_>) -> Result<Progress>,
    ) -> Result<Progress> {
        if let Some(left) = self.left.take() {
            take(left);
        }
        let progress = write(&mut SnapshotWriter::into_batch(&mut self.batch, groups, budget))?;
        let is_due = match progress {
            Progress::More => self.batch.bytes() >= self.pager.batch_bytes(),
            Progress::Done => !self.batch.is_empty(),
        };
        if is_due {
            let full = std::mem::replace(&mut self.batch, self.pager.batch());
            self.entries += full.count() as u64;
            self.bytes += full.bytes() as u64;
            take(full);
        }
        Ok(progress)
    }
}
