//! What the coordinator and tasks say to each other.

use std::collections::BTreeMap;

use staunch_protocol::Reason;
use staunch_types::{Epoch, Error, Name, TaskId};

use crate::operator::OperatorPart;

/// A split on its way to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitBytes {
    /// Its id.
    pub id: String,
    /// The split with its position, encoded.
    pub bytes: Vec<u8>,
}

/// To a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskMail {
    /// Begin the barrier of an epoch; to tasks with a source. The reason tells whether to stop reading.
    Trigger(Epoch, Reason),
    /// The epoch is durable.
    Durable(Epoch),
    /// The epoch will never be durable.
    Abandoned(Epoch),
    /// Read these too.
    Splits(Vec<SplitBytes>),
    /// There is nothing to read for now.
    NoSplitsNow,
    /// There will never be more to read than what was given.
    NoMoreSplits,
}

/// From a task.
#[derive(Debug)]
pub enum CoordinatorMail {
    /// All of the task's part of an epoch is safe.
    Acked {
        /// Who.
        task: TaskId,
        /// Which epoch.
        epoch: Epoch,
        /// The part, by operator.
        operators: BTreeMap<Name, OperatorPart>,
    },
    /// The task cannot take part in an epoch; it goes on.
    Declined {
        /// Who.
        task: TaskId,
        /// Which epoch.
        epoch: Epoch,
        /// Why.
        error: Error,
    },
    /// A reader has nothing to read.
    WantsSplits {
        /// Who.
        task: TaskId,
    },
    /// The task's input has ended.
    Ended {
        /// Who.
        task: TaskId,
    },
    /// The task is gone.
    Failed {
        /// Who.
        task: TaskId,
        /// Why.
        error: Error,
    },
    /// Somebody asks the job to end.
    Stop {
        /// How.
        reason: Reason,
    },
}
