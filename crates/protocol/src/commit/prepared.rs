//! What one task's writers prepared and must not lose sight of.

use std::collections::BTreeSet;

use crate::{Attempt, CommittableId};

/// The committables of one task that are prepared and not known to be durable.
///
/// Every acknowledgement names all of them, so whichever epoch becomes durable first names what abandoned ones left behind. A task
/// never aborts what it prepared: not when an epoch is abandoned, not when it is cancelled. Only the sweep of a later generation does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prepared(BTreeSet<CommittableId>);

impl Prepared {
    /// Adds what was prepared just now.
    pub fn add(&mut self, committable: CommittableId) {
        self.0.insert(committable);
    }

    /// What the acknowledgement of an attempt must name: everything prepared for it or for an earlier one.
    #[must_use]
    pub fn named_by(&self, attempt: Attempt) -> Vec<CommittableId> {
        self.0.iter().copied().filter(|c| c.attempt <= attempt).collect()
    }

    /// An attempt that this task acknowledged is durable: all it named is on its way to be committed.
    pub fn durable(&mut self, attempt: Attempt) {
        self.0.retain(|c| c.attempt > attempt);
    }

    /// How many there are; it stays small while epochs succeed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
