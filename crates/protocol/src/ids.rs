//! Ids, and what else several machines share.
//!
//! Owns: how an attempt and a committable are told apart from every other; the wait between tries. Does not own: any rule.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use staunch_types::{Epoch, Generation, TaskId};

/// One attempt at an epoch. Two attempts at the same number differ in the generation, and within a generation no number
/// is tried twice, so an attempt is never mistaken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The epoch's number.
    pub epoch: Epoch,
    /// The generation that tries.
    pub generation: Generation,
}

/// Number of a sink in a job. The driver maps it to the sink's name, which is its identity across versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SinkId(pub u32);

/// What a sink prepared in one attempt at an epoch and what can be committed as a whole: a transaction, a set of files. The
/// driver keeps its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommittableId {
    /// The attempt in which it was prepared; it may be named by the manifest of a later epoch of the same generation.
    pub attempt: Attempt,
    /// The sink.
    pub sink: SinkId,
    /// The task that prepared it; any task may commit it.
    pub task: TaskId,
    /// Number among those of the same attempt, sink and task, from 0.
    pub number: u32,
}

/// Ties an effect to its answer. Each machine counts its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

impl OpId {
    pub(crate) fn take(&mut self) -> OpId {
        self.0 += 1;
        *self
    }
}

/// Why an epoch was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The interval has passed.
    Interval,
    /// Somebody asked for a savepoint; the job goes on.
    Savepoint,
    /// Stop with a savepoint: sources stop at the barrier, windows and timers stay as they are.
    Stop,
    /// Stop for good: sources stop, event time runs to its end, everything is emitted.
    Drain,
    /// All tasks reached the end of their input (E8).
    Final,
}

impl Reason {
    /// Whether the job ends once this epoch is committed.
    #[must_use]
    pub fn ends_job(self) -> bool {
        match self {
            Reason::Interval | Reason::Savepoint => false,
            Reason::Stop | Reason::Drain | Reason::Final => true,
        }
    }

    /// Whether event time has run to its end in this epoch: every window has fired, and what comes after it is late.
    #[must_use]
    pub fn ends_time(self) -> bool {
        match self {
            Reason::Interval | Reason::Savepoint | Reason::Stop => false,
            Reason::Drain | Reason::Final => true,
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}@g{}", self.epoch, self.generation)
    }
}

impl fmt::Display for SinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sink{}", self.0)
    }
}

impl fmt::Display for CommittableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}#{}", self.attempt, self.sink, self.task, self.number)
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op{}", self.0)
    }
}

/// How often something was seen, such as a stale event.
///
/// Two machines that differ only in counts behave the same, so all counts are equal to each other and hash alike: a model checker
/// must not take them for different states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count(u64);

impl Count {
    /// The number so far.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn add_one(&mut self) {
        self.0 = self.0.saturating_add(1);
    }
}

impl PartialEq for Count {
    fn eq(&self, _: &Count) -> bool {
        true
    }
}

impl Eq for Count {}

impl Hash for Count {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The wait after the `tries`-th try: `first`, doubled with each further one, at most `longest`.
pub(crate) fn backoff(first: Duration, longest: Duration, tries: u32) -> Duration {
    first.saturating_mul(1u32 << tries.saturating_sub(1).min(31)).min(longest)
}
