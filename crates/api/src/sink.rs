//! Sinks: writers in tasks prepare, a committer driven by the coordinator commits.
//!
//! Owns: the two-phase-commit contract. Does not own: when to prepare or commit, retries, the ledger.
//!
//! Invariants that implementors give:
//! 1. Nothing written is visible to a reader of the outside system before `commit` (E1).
//! 2. `commit` and `resolve` may be repeated after any crash, by another process, in another task count; `commit` of a committed
//!    committable changes nothing.
//! 3. `resolve` tells the truth or returns an error; it never guesses. `Lost` is said only with proof.
//! 4. `sweep` touches only what belongs to this job and sink, and nothing that it is told to keep.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use staunch_protocol::CommitPermit;
use staunch_types::{Digest, Epoch, Error, ErrorKind, Generation, LedgerId, Name, Result, Tick, Timestamp};

use crate::{FileSystem, Io, Journal, Lead, Metrics};

/// A sink. It is a description; writers and the committer are made from it, in each generation anew.
pub trait Sink: Clone + Send + 'static {
    /// What goes in.
    type Record: Send + 'static;
    /// Its writers.
    type Writer: SinkWriter<Record = Self::Record>;
    /// Its committer.
    type Committer: Committer;

    /// The kind of the sink, stable: `verify` and `txn` find the code that reads its committables by it.
    fn kind(&self) -> &'static str;

    /// One line for people: kind and address.
    fn describe(&self) -> String;

    /// Addresses of what it writes, as a source would come by it: the path of a file, or `kafka://BROKERS/TOPIC`.
    fn writes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it keeps of prepared output until its commit is recorded.
    fn keeps(&self) -> Kept {
        Kept::Nothing
    }

    /// Looks, before the job starts, whether it can work. May block.
    ///
    /// # Errors
    /// `Invalid` with what to do.
    fn check(&self, context: &SinkContext) -> Result<()>;

    /// Makes the writer of one task. `restored` has what the writers of the restored checkpoint carried over, spread over the tasks:
    /// none, one or several per task. Does not block.
    ///
    /// # Errors
    /// `Invalid` when the settings cannot work.
    fn writer(&self, context: WriterContext, restored: Vec<Vec<u8>>) -> Result<Self::Writer>;

    /// Makes the committer. Does not block.
    ///
    /// # Errors
    /// `Invalid` when the settings cannot work.
    fn committer(&self, context: SinkContext) -> Result<Self::Committer>;
}

/// What a sink keeps of prepared output beside the output itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// A mark outside that tells later whether it was committed.
    Mark,
    /// A copy in the journal, perhaps with a mark: lost output is written again by [`Committer::resend`] instead of stopping the job.
    Copy,
}

/// What a committer works with.
#[derive(Clone)]
pub struct SinkContext {
    /// Name of the job.
    pub job: Name,
    /// Name of the sink.
    pub sink: Name,
    /// The present generation; before one is claimed, the newest of the ledger.
    pub generation: Generation,
    /// Files.
    pub file_system: Arc<dyn FileSystem>,
    /// Copies of prepared output, of a sink that keeps them.
    pub journal: Journal,
    /// The job's ledger: what a sink of the same name writes for another one belongs to another job. `None` before the ledger is begun.
    pub ledger: Option<LedgerId>,
    /// Time from one checkpoint to the next.
    pub interval: Duration,
    /// A person has said that no other job with a sink of this name runs: what such a one has open may be aborted.
    pub takes_over: bool,
    /// A person goes on without what is lost; also without that of which nobody can know.
    pub accepts_lost: bool,
}

/// What a writer works with.
#[derive(Clone)]
pub struct WriterContext {
    /// Name of the job.
    pub job: Name,
    /// Name of the sink.
    pub sink: Name,
    /// The present generation.
    pub generation: Generation,
    /// Number of the task, from 0.
    pub task_index: u32,
    /// Number of writing tasks.
    pub parallelism: u32,
    /// Files; only inside [`Io::run`].
    pub file_system: Arc<dyn FileSystem>,
    /// Copies of prepared output, of a sink that keeps them; only inside [`Io::run`].
    pub journal: Journal,
    /// Whether the present generation is still the newest; only inside [`Io::run`] or on a thread that may block.
    pub lead: Lead,
    /// The job's ledger.
    pub ledger: LedgerId,
    /// Figures, labelled with job, sink and task.
    pub metrics: Metrics,
    /// The door to blocking work; wakes this task.
    pub io: Io,
}

/// Writes records in one task.
pub trait SinkWriter: Send + 'static {
    /// What goes in.
    type Record;

    /// Takes one record; it belongs to the epoch that the next `prepare` ends.
    ///
    /// # Errors
    /// `Invalid` for a record that cannot be written, `Restart` when the outside fails.
    fn write(&mut self, record: Self::Record, time: Timestamp) -> Result<()>;

    /// Whether it takes more records now.
    fn room(&self) -> bool;

    /// Called in every slice of the task: moves buffered output on. Returns when it wants to be called again without other cause.
    ///
    /// # Errors
    /// `Restart` when the outside fails.
    fn work(&mut self, now: Tick) -> Result<Option<Tick>>;

    /// Ends an epoch: what was written since the last call belongs to it. Later writes belong to the next one and go on meanwhile.
    ///
    /// # Errors
    /// `Restart` when the outside fails.
    fn prepare(&mut self, epoch: Epoch) -> Result<()>;

    /// The oldest unanswered `prepare`, when it is complete: all its records are safe outside, and can become visible by `commit` alone.
    ///
    /// # Errors
    /// `Restart` when the outside fails.
    fn poll_prepared(&mut self) -> Result<Option<Prepared>>;

    /// The input has ended: the next `prepare` is the last one, and must carry nothing over.
    fn end(&mut self);
}

/// The answer to a `prepare`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The epoch.
    pub epoch: Epoch,
    /// What must be committed when the epoch is durable; none when nothing was written.
    pub committables: Vec<Committable>,
    /// What a writer must know after a restore; empty when nothing.
    pub carried: Vec<u8>,
}

/// An outside transaction, or file, or row, that can become visible. It belongs to the checkpoint, not to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committable {
    /// The epoch whose records it holds.
    pub epoch: Epoch,
    /// The generation that wrote it.
    pub generation: Generation,
    /// The task that wrote it.
    pub task_index: u32,
    /// All that the sink needs to commit, resolve and verify it, in the sink's own versioned form.
    pub body: Vec<u8>,
    /// For people: the file or transaction.
    pub description: String,
    /// The records in it, by the bytes that a reader of the outside system sees.
    pub digest: Digest,
}

/// Commits in the name of the coordinator. All calls may block.
pub trait Committer: Send + 'static {
    /// Makes a committable visible. Repeating it is harmless.
    ///
    /// # Errors
    /// `Retry` when it is not known whether it happened, or it can be tried again; `Lost` when `resolve` would say so.
    fn commit(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof>;

    /// What became of a committable.
    ///
    /// # Errors
    /// `Retry` when the outside does not answer.
    fn resolve(&mut self, committable: &Committable) -> Result<Resolution>;

    /// Writes a committable that `resolve` called lost again, from the journal and with the same token, and commits it. It first takes over
    /// the outside identity that only this committable has, and then looks whether the token is there after all: so that of two that resend,
    /// one does. Repeating it is harmless.
    ///
    /// # Errors
    /// `Invalid` when there is no copy to write it from; otherwise as [`Self::commit`].
    fn resend(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        let _ = permit;
        Err(no_copy(committable))
    }

    /// The commit of a committable is proven and recorded: what is kept only to find out about it may go, as its copy in the journal.
    /// Called if it [`Sink::keeps`] anything; not for each committable when the process dies.
    ///
    /// # Errors
    /// `Retry` when the store or the outside does not answer; it is not tried again.
    fn forget(&mut self, committable: &Committable) -> Result<()> {
        let _ = committable;
        Ok(())
    }

    /// Until when the outside keeps a prepared committable that nobody commits; none if for ever. It looks at its bytes only.
    #[must_use]
    fn term(committable: &Committable) -> Option<Term>
    where
        Self: Sized,
    {
        let _ = committable;
        None
    }

    /// Aborts, and cleans away, everything of this job and sink that older generations left and `scope` does not keep. This process may have
    /// been halted for long: what newer generations have written since must not be touched ([`SinkContext::lead`]).
    ///
    /// # Errors
    /// `Retry` when the outside does not answer; `Fenced` when there is a newer generation.
    fn sweep(&mut self, scope: &SweepScope) -> Result<Swept>;
}

/// The error for lost output of which there is no copy.
#[must_use]
pub fn no_copy(committable: &Committable) -> Error {
    Error::new(ErrorKind::Invalid, "C025", "lost output is to be written again, and there is no copy of it in the journal")
        .at(format!(
            "epoch={} generation={} task={} output={} records={}",
            committable.epoch, committable.generation, committable.task_index, committable.description, committable.digest.records
        ))
        .data("the checkpoint counts these records as written, but they are not and cannot become visible; everything else is intact")
        .remedy("a journal helps only against what is lost after it was turned on; start with `--accept-lost SINK` to go on without these records")
}

/// Proof of a commit, for the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// What was seen, for people.
    pub text: String,
    /// Where the output is now, in the sink's own versioned form, if it was written again to another place than the committable says; else empty.
    pub place: Vec<u8>,
}

impl Proof {
    /// A proof for output that is where its committable says.
    #[must_use]
    pub fn seen(text: String) -> Proof {
        Proof { text, place: Vec::new() }
    }
}

/// How long the outside keeps prepared output; by its own clock, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// When it was begun.
    pub began_ms: i64,
    /// From when on the outside may give it up by itself.
    pub ends_ms: i64,
}

/// What became of a committable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It is visible, or was.
    Committed(Proof),
    /// It can still be committed.
    Pending,
    /// It can never be committed, and was not.
    Lost {
        /// The proof, for people.
        evidence: String,
    },
}

/// What a sweep must leave alone.
#[derive(Clone, Debug, Default)]
pub struct SweepScope {
    /// The generation that sweeps; what it wrote itself stays.
    pub generation: Generation,
    /// The generation that wrote the checkpoint from which the job goes on, 0 for none. Before that it has swept what older ones had left.
    pub swept: Generation,
    /// The newest durable epoch of the job, 0 for none: what is visible of a later one was written in another life of the job.
    pub durable: Epoch,
    /// Committables that retained checkpoints name.
    pub committables: Vec<Committable>,
    /// What the writers of retained checkpoints carried over.
    pub carried: Vec<Vec<u8>>,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// What was aborted or removed, for people.
    pub removed: Vec<String>,
}
