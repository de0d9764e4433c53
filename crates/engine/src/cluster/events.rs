//! What a running job tells about itself.

use std::collections::BTreeMap;
use std::time::Duration;

use staunch_protocol::Reason;
use staunch_types::{Epoch, Error, Generation, Name};

use crate::operator::OperatorCounts;

/// Something happened to the job as a whole. For people and tests; nothing depends on it.
#[derive(Clone, Debug)]
pub enum JobEvent {
    /// A generation was claimed.
    Claimed {
        /// Its number.
        generation: Generation,
        /// The epoch it starts from; `None` for the beginning of the input.
        restored: Option<Epoch>,
        /// Why that epoch was sealed.
        reason: Option<Reason>,
    },
    /// What older generations left was aborted and cleaned away.
    Swept {
        /// What, for people.
        removed: Vec<String>,
    },
    /// Tasks run.
    Running {
        /// How many.
        tasks: usize,
    },
    /// An epoch is durable.
    EpochDurable {
        /// Its number.
        epoch: Epoch,
        /// From trigger to durable.
        took: Duration,
        /// Records by operator since the epoch before.
        counts: BTreeMap<Name, OperatorCounts>,
        /// Outside transactions or files that it names.
        committables: usize,
    },
    /// Everything that an epoch names is committed and recorded.
    EpochCommitted {
        /// Its number.
        epoch: Epoch,
    },
    /// An epoch failed; the job goes on.
    EpochFailed {
        /// Its number.
        epoch: Epoch,
        /// Why.
        error: Error,
    },
    /// The generation failed; the job starts again after a while.
    Restarting {
        /// Why.
        error: Error,
        /// How long it waits.
        wait: Duration,
    },
    /// The job has ended, everything is committed.
    Finished {
        /// How.
        reason: Reason,
    },
}
