//! Where checkpoints live.
//!
//! Owns: the operations a store must offer and what holds after each; a store in memory. Local directories, buckets of S3 and simulation
//! implement it: it needs no rename and no append to what is visible. Implementors pass `testkit::check_store`.
//!
//! Invariants that implementors give:
//! 1. An object is visible whole or not at all, and never changes.
//! 2. Of several `put` calls for one path at most one succeeds, whoever makes them.
//! 3. After a success the object survives any crash, and every later `read` and `list` sees it.

pub(crate) mod database;
mod memory;

pub use memory::MemoryStore;

use std::fmt;

/// A store of immutable objects under paths such as `ledger/0000000/0000000001`. All calls may block.
pub trait CheckpointStore: Send + Sync {
    /// Creates an object if there is none at its path: the conditional write.
    ///
    /// # Errors
    /// `Exists`; or `Unknown` when it may or may not have happened; or `Failed` when it did not.
    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// Begins an object of unknown length.
    ///
    /// # Errors
    /// `Failed`.
    fn writer(&self, path: &str) -> Result<Box<dyn ObjectWriter>, StoreError>;

    /// Bytes of an object from `offset`, as many as `bytes` and there are; all of them when `bytes` is `None`.
    ///
    /// # Errors
    /// `Absent`; or `Failed`.
    fn read(&self, path: &str, offset: u64, bytes: Option<u64>) -> Result<Vec<u8>, StoreError>;

    /// All objects whose path begins with `prefix`, which ends in `/`, sorted by path; none when there is nothing.
    ///
    /// # Errors
    /// `Failed`.
    fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError>;

    /// Removes an object; no error when there is none.
    ///
    /// # Errors
    /// `Failed`.
    fn remove(&self, path: &str) -> Result<(), StoreError>;

    /// Removes what writers of other processes left unfinished, as far as they began before this one last created an object. A writer that is
    /// still at it may fail; it belongs to an older generation. A writer of a newer one should not, and if it does no harm is done: nothing of
    /// it is visible, and its checkpoint is taken again.
    ///
    /// # Errors
    /// `Failed`.
    fn clear_unfinished(&self) -> Result<(), StoreError>;

    /// The address, for people.
    fn describe(&self) -> String;
}

/// Writes one object. Dropping it unfinished leaves nothing visible.
pub trait ObjectWriter: Send {
    /// Adds bytes.
    ///
    /// # Errors
    /// `Failed`.
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Makes the object visible and durable.
    ///
    /// # Errors
    /// As [`CheckpointStore::put`].
    fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Its path from the store's root.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

/// What a store answers when it does not do as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// There is an object at the path already.
    Exists,
    /// There is no object at the path.
    Absent,
    /// The answer was lost: it may have happened. Read back to know. An implementor that can tell for certain by itself does so, and answers
    /// this only when it cannot; then the caller compares: the ledger its entry, by its bytes, which no two generations share; state and manifests
    /// are given up with their checkpoint.
    Unknown(String),
    /// It did not happen.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Exists => f.write_str("an object exists at the path"),
            StoreError::Absent => f.write_str("no object exists at the path"),
            StoreError::Unknown(why) => write!(f, "it is not known whether it happened: {why}"),
            StoreError::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StoreError {}
