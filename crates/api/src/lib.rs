//! What people outside the engine implement: sources, sinks and file systems; and what the engine hands to them.
//!
//! Owns: the contracts and the guarantees each side gives. Does not own: any implementation but that in memory, any thread, any clock.
//! Follows the data: the door to blocking work, files, source, output, sink.
//!
//! Invariants:
//! 1. Nothing that a task calls may block: blocking work goes through [`Io`] and is polled for.
//! 2. A sink's commit demands a [`CommitPermit`], which only the checkpoint machine can make, when an epoch is durable.
//! 3. A reader's position and a writer's prepared output are values: they go into the checkpoint, never into a side file.

mod io;
mod fs;
mod store;
mod journal;
mod lead;
mod metrics;
mod source;
mod output;
mod sink;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use fs::{DirectoryEntry, EntryKind, FileSystem, Metadata, ReadFile, Replace, WriteFile};
pub use io::{Io, IoDoor, Pending};
pub use journal::{Copy, Journal};
pub use lead::{Lead, fenced};
pub use metrics::{Counter, Figure, Gauge, Labels, Metrics, Moment, Sample, SampleValue, TIME_BOUNDS_MS, Times};
pub use output::{Output, Rejected};
pub use sink::{
    Committable, Committer, Kept, Prepared, Proof, Resolution, Sink, SinkContext, SinkWriter, SweepScope, Swept, Term, WriterContext,
    no_copy,
};
pub use source::{
    Assignment, Discovery, Reached, ReaderContext, ReaderPhase, Source, SourceContext, SourceReader, Split, SplitEnumerator, SplitRead,
    SplitSnapshot,
};
pub use staunch_protocol::CommitPermit;
pub use store::database::{
    DatabaseCheckpoint, DatabasePlace, KEY_PREFIX_BYTES, StateBackend, StateBatch, StateDatabase, StoredDatabase, StoredFile, Visit,
    first_key_of, key_of, parts_of,
};
pub use store::{CheckpointStore, MemoryStore, ObjectMeta, ObjectWriter, StoreError};
