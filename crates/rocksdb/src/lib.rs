//! RocksDB under keyed state.
//!
//! Owns: the databases of one process, their place on the local disk, how entries get into files and files into checkpoints and back.
//! Does not own: which entries are in memory and when they are written (the engine), the meaning of keys and values (staunch-format).
//!
//! Follows the data: a backend opens a database, entries are written to it, it is checkpointed, and restored.
//!
//! Invariants:
//! 1. There is no log: whatever is not in a checkpoint is made again from the input.
//! 2. What a batch writes goes into files of its own, sorted, beside the write buffer, unless it is small.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a leaf reaches its own outside system: the local disk")]

mod backend;
mod place;
mod database;
mod checkpoint;
mod restore;
mod codes;

pub use backend::RocksDb;
