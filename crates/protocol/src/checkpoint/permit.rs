//! The right to commit.

use std::sync::Arc;

use staunch_types::{Epoch, Generation};

use crate::ledger::DurableEpoch;
use crate::{Attempt, CommittableId};

/// The right to commit what a durable epoch names, and nothing else.
///
/// Only the checkpoint machine makes one, and only when the epoch's seal is in the ledger; so whoever demands a permit cannot be called
/// too early (E1). Copies are the same right: commits can be repeated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitPermit(Arc<Right>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Right {
    generation: Generation,
    sealed: Attempt,
    committables: Vec<CommittableId>,
}

impl CommitPermit {
    pub(super) fn new(generation: Generation, durable: &DurableEpoch) -> CommitPermit {
        CommitPermit(Arc::new(Right { generation, sealed: durable.attempt, committables: durable.committables.clone() }))
    }

    /// A permit for a transcript of the commit machine alone.
    #[cfg(test)]
    pub(crate) fn for_tests(generation: Generation, durable: &DurableEpoch) -> CommitPermit {
        CommitPermit::new(generation, durable)
    }

    /// A permit for the conformance tests of sinks, which have no checkpoint machine. Not part of any program that runs.
    #[cfg(feature = "testkit")]
    #[doc(hidden)]
    #[must_use]
    pub fn for_testkit(epoch: Epoch, generation: Generation) -> CommitPermit {
        CommitPermit(Arc::new(Right { generation, sealed: Attempt { epoch, generation }, committables: Vec::new() }))
    }

    /// The durable epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.sealed.epoch
    }

    /// The attempt that sealed it; its generation may be an earlier one.
    #[must_use]
    pub fn sealed(&self) -> Attempt {
        self.0.sealed
    }

    /// The generation that commits.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.0.generation
    }

    /// What may be committed, in order.
    #[must_use]
    pub fn committables(&self) -> &[CommittableId] {
        &self.0.committables
    }

    /// Whether this committable may be committed.
    #[must_use]
    pub fn covers(&self, committable: CommittableId) -> bool {
        self.0.committables.contains(&committable)
    }
}
