//! Copies of prepared output beside the checkpoints, so that output which is lost outside can be written again.
//!
//! Owns: where the copies of a sink lie. Does not own: what is in them (the sink), when they are of no use any more (the engine).
//!
//! A sink that keeps a journal writes a copy before it says that an epoch is prepared, and removes it once the commit is proven and
//! recorded. A copy that a crash left behind is removed by the next sweep.

use std::sync::Arc;

use staunch_types::{Error, ErrorKind, Name, Result};

use crate::{CheckpointStore, ObjectWriter, StoreError};

/// The copies of one sink. All calls may block.
#[derive(Clone)]
pub struct Journal {
    store: Arc<dyn CheckpointStore>,
    folder: String,
}

impl Journal {
    /// The copies of a sink in the store of its job.
    #[must_use]
    pub fn new(store: Arc<dyn CheckpointStore>, sink: &Name) -> Journal {
        Journal { store, folder: format!("journal/{}/", sink.component()) }
    }

    /// Begins a copy; `name` is the sink's own, used once, without slashes.
    ///
    /// # Errors
    /// `Restart` when the store refuses.
    pub fn begin(&self, name: &str) -> Result<Copy> {
        let path = format!("{}{name}", self.folder);
        let writer = self.store.writer(&path).map_err(|error| self.refused(&path, &error))?;
        Ok(Copy { journal: self.clone(), path, writer })
    }

    /// At most `bytes` bytes of a copy from an offset, none at its end; `None` when there is no copy.
    ///
    /// # Errors
    /// `Retry` when the store does not answer.
    pub fn read(&self, name: &str, offset: u64, bytes: u64) -> Result<Option<Vec<u8>>> {
        let path = format!("{}{name}", self.folder);
        match self.store.read(&path, offset, Some(bytes)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(StoreError::Absent) => Ok(None),
            Err(error) => Err(self.silent(&path, &error)),
        }
    }

    /// The names of all copies.
    ///
    /// # Errors
    /// `Retry` when the store does not answer.
    pub fn names(&self) -> Result<Vec<String>> {
        let objects = self.store.list(&self.folder).map_err(|error| self.silent(&self.folder, &error))?;
        Ok(objects.into_iter().filter_map(|object| object.path.strip_prefix(&self.folder).map(str::to_owned)).collect())
    }

    /// Removes a copy; no error when there is none.
    ///
    /// # Errors
    /// `Retry` when the store does not answer.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = format!("{}{name}", self.folder);
        self.store.remove(&path).map_err(|error| self.silent(&path, &error))
    }

    fn place(&self, path: &str) -> String {
        format!("object={path} store={}", self.store.describe())
    }

    fn refused(&self, path: &str, error: &StoreError) -> Error {
        Error::new(ErrorKind::Restart, "C023", "a copy of the output could not be stored in the journal")
            .cause(error)
            .at(self.place(path))
            .data("nothing of this epoch is visible; the job goes on from its last checkpoint")
            .remedy("make the checkpoint store writable and see that it has room")
    }

    fn silent(&self, path: &str, error: &StoreError) -> Error {
        Error::new(ErrorKind::Retry, "C024", "the journal could not be read or cleaned")
            .cause(error)
            .at(self.place(path))
            .data("nothing is lost: it is tried again")
            .remedy("see the cause, and the checkpoint store")
    }
}

/// A copy that is being written. Dropping it unfinished leaves nothing.
pub struct Copy {
    journal: Journal,
    path: String,
    writer: Box<dyn ObjectWriter>,
}

impl Copy {
    /// Adds bytes.
    ///
    /// # Errors
    /// `Restart` when the store refuses.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.append(bytes).map_err(|error| self.journal.refused(&self.path, &error))
    }

    /// Makes the copy durable.
    ///
    /// # Errors
    /// `Restart` when the store refuses.
    pub fn finish(self) -> Result<()> {
        let Copy { journal, path, writer } = self;
        writer.finish().map_err(|error| journal.refused(&path, &error))
    }
}
