//! Sources: an enumerator finds splits, readers turn them into records.
//!
//! Owns: the contract of both. Does not own: assignment of splits, watermarks, barriers: the engine does these for every source alike.
//!
//! Invariants that implementors give:
//! 1. A split is a value that holds its own position. A reader made from the split of a snapshot hands over exactly the records that
//!    the first reader handed over after that snapshot, in the same order.
//! 2. `poll` does not block; waiting for the outside goes through [`crate::Io`].
//! 3. Split ids are unique within a source and never given to another piece of input.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use staunch_types::{Digest, Name, Result, Tick};

use crate::{FileSystem, Io, Metrics, Output};

/// A piece of input with the position in it: a file, a byte range of one, a partition.
pub trait Split: Serialize + DeserializeOwned + Clone + Debug + Send + 'static {
    /// Unique within the source, the same at every position.
    fn id(&self) -> String;
}

/// A source. It is a description; readers and the enumerator are made from it, in each generation anew.
pub trait Source: Clone + Send + 'static {
    /// What comes out.
    type Record: Send + 'static;
    /// Its splits.
    type Split: Split;
    /// Its readers.
    type Reader: SourceReader<Record = Self::Record, Split = Self::Split>;
    /// Its enumerator.
    type Enumerator: SplitEnumerator<Split = Self::Split>;

    /// One line for people: kind and address.
    fn describe(&self) -> String;

    /// Whether it would read what a sink writes to an address ([`crate::Sink::writes`]); a job whose output is its input is refused.
    fn reads(&self, address: &str) -> bool {
        let _ = address;
        false
    }

    /// How splits go to readers.
    fn assignment(&self) -> Assignment;

    /// Makes the enumerator; `restored` is the state of its last [`Discovery`] named by the checkpoint. May block.
    ///
    /// # Errors
    /// `Invalid` when the settings cannot work.
    fn enumerator(&self, context: &SourceContext, restored: Option<&[u8]>) -> Result<Self::Enumerator>;

    /// Makes the reader of one task. Does not block.
    ///
    /// # Errors
    /// `Invalid` when the settings cannot work.
    fn reader(&self, context: ReaderContext) -> Result<Self::Reader>;
}

/// How splits go to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// As soon as they are known, in equal shares: for splits that never end.
    AllAtOnce,
    /// One at a time, in the order found, when a reader has none: for splits that end.
    OnRequest,
}

/// What an enumerator works with.
#[derive(Clone)]
pub struct SourceContext {
    /// Name of the source.
    pub name: Name,
    /// Number of reading tasks.
    pub parallelism: u32,
    /// Files.
    pub file_system: Arc<dyn FileSystem>,
    /// Figures, labelled with job and source.
    pub metrics: Metrics,
}

/// What a reader works with.
#[derive(Clone)]
pub struct ReaderContext {
    /// Name of the source.
    pub name: Name,
    /// Number of the task, from 0.
    pub task_index: u32,
    /// Number of reading tasks.
    pub parallelism: u32,
    /// Files; only inside [`Io::run`].
    pub file_system: Arc<dyn FileSystem>,
    /// Figures, labelled with job, source and task.
    pub metrics: Metrics,
    /// The door to blocking work; wakes this task.
    pub io: Io,
}

/// Finds splits. Lives at the coordinator; calls may block.
pub trait SplitEnumerator: Send + 'static {
    /// What it finds.
    type Split: Split;

    /// Looks for splits that it has not handed out before (over all generations: its restored state says which).
    ///
    /// # Errors
    /// `Retry` when the outside cannot be reached now; `Invalid` when it can never work.
    fn discover(&mut self) -> Result<Discovery<Self::Split>>;

    /// Whether it wants to hear what is committed.
    fn hears_commits(&self) -> bool {
        false
    }

    /// An epoch is committed, and every one before it. For those outside who watch how far a job has come; the job itself reads none of it back.
    /// Does not block, and is not called for each epoch.
    fn committed(&mut self, reached: Reached<Self::Split>) {
        let _ = reached;
    }
}

/// How far a source was read in an epoch.
#[derive(Clone, Debug)]
pub struct Reached<S> {
    /// Splits that were not read to their end, at their positions.
    pub unfinished: Vec<S>,
    /// Where reading ended in splits of which something was read, finished ones included, by their ids; in the source's own unit.
    pub read_to: BTreeMap<String, u64>,
}

/// What an enumerator found.
#[derive(Clone, Debug)]
pub struct Discovery<S> {
    /// New splits, in the order in which they should be read.
    pub splits: Vec<S>,
    /// What the enumerator must know after a restore to not hand these out again.
    pub state: Vec<u8>,
    /// When to look again; `None` when there will never be more: the source is bounded.
    pub again_after: Option<Duration>,
}

/// Reads splits in one task.
pub trait SourceReader: Send + 'static {
    /// What comes out.
    type Record;
    /// What it reads.
    type Split: Split;

    /// Takes a split to read from its position. `slot` is the number by which the reader names it to the output; slots are not reused.
    ///
    /// # Errors
    /// As the source meets them; does not block.
    fn add_split(&mut self, slot: u32, split: Self::Split) -> Result<()>;

    /// Hands over at most `budget` records. Looks at `out.room()` between records.
    ///
    /// # Errors
    /// `Restart` when the outside fails; `Invalid` for input that is refused.
    fn poll<O: Output<Self::Record>>(&mut self, now: Tick, budget: usize, out: &mut O) -> Result<ReaderPhase>;

    /// The unfinished splits at their present positions, and what was read since the last call, finished splits included.
    fn snapshot(&mut self) -> SplitSnapshot<Self::Split>;
}

/// What a reader is doing after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderPhase {
    /// It has more at once (or stopped for lack of room).
    Ready,
    /// It waits for [`Io`], which wakes the task.
    WaitingIo,
    /// It has nothing before this time.
    WaitingUntil(Tick),
    /// It has no split left.
    WaitingSplits,
}

/// A reader at a barrier.
#[derive(Clone, Debug)]
pub struct SplitSnapshot<S> {
    /// Unfinished splits with the position to go on from.
    pub splits: Vec<S>,
    /// For the ledger: what was read since the last snapshot.
    pub reads: Vec<SplitRead>,
}

/// What was read of one split between two barriers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct SplitRead {
    /// The split's id.
    pub split: String,
    /// First position read, in the source's own unit (byte, offset, line), inclusive.
    pub from: u64,
    /// Position after the last one read.
    pub to: u64,
    /// Records, with the digest of their bytes as they came. A source without bytes counts records only.
    pub digest: Digest,
}
