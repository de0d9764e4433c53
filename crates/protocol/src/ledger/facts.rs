//! What recovery needs to know of a ledger.

use std::collections::BTreeMap;

use staunch_types::{Epoch, Error, ErrorKind, Generation, LedgerSeq, Result};

use super::{Entry, Origin};
use crate::{Attempt, CommittableId, Reason};

/// An epoch that is durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DurableEpoch {
    /// The attempt that sealed it.
    pub attempt: Attempt,
    /// Why it was started.
    pub reason: Reason,
    /// What it names.
    pub committables: Vec<CommittableId>,
}

/// The facts of a ledger, from its entries in order.
///
/// All entries from the first give the facts; so does every suffix for which [`holds_all_facts`] is true.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The newest entry; 0 for an empty ledger.
    pub head: LedgerSeq,
    /// The newest generation; 0 for an empty ledger.
    pub generation: Generation,
    /// What a restart goes on from: the newest seal, or, if the newest claim has none after it, what that claim started from. So a restart
    /// after a rewind stays on the rewound timeline.
    pub resume: Origin,
    /// The greatest epoch number seen.
    pub epoch_max: Epoch,
    /// The newest durable epoch.
    pub newest: Option<DurableEpoch>,
    /// Durable epochs that name something and whose commit is not recorded, in order.
    pub uncommitted: BTreeMap<Epoch, DurableEpoch>,
    /// Whether the job ended and nothing followed but claims.
    pub stopped: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Facts {
            head: LedgerSeq(0),
            generation: Generation(0),
            resume: Origin::Empty,
            epoch_max: Epoch(0),
            newest: None,
            uncommitted: BTreeMap::new(),
            stopped: false,
        }
    }
}

impl Facts {
    /// The facts of entries in order.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn of<'a>(entries: impl IntoIterator<Item = (LedgerSeq, &'a Entry)>) -> Result<Facts> {
        let mut facts = Facts::default();
        for (seq, entry) in entries {
            facts.push(seq, entry)?;
        }
        Ok(facts)
    }

    /// Adds the next entry.
    ///
    /// # Errors
    /// `Corrupt` when it cannot follow what was read before: a gap, a generation or an epoch that goes back.
    pub fn push(&mut self, seq: LedgerSeq, entry: &Entry) -> Result<()> {
        if self.head != LedgerSeq(0) && seq != self.head.next() {
            return Err(damaged(seq, "C201", format!("expected the entry after {}", self.head)));
        }
        let generation = entry.generation();
        let next = match entry {
            Entry::Claimed { .. } => generation > self.generation,
            Entry::Sealed { .. } | Entry::Committed { .. } | Entry::Stopped { .. } => {
                generation == self.generation || (self.generation == Generation(0) && seq > LedgerSeq(1))
            }
        };
        if !next {
            return Err(damaged(seq, "C202", format!("generation {generation} cannot follow generation {}", self.generation)));
        }
        match entry {
            Entry::Claimed { origin, .. } => {
                self.claim(seq, generation, *origin);
                return Ok(());
            }
            Entry::Sealed { attempt, reason, committables, .. } => self.sealed(seq, *attempt, *reason, committables)?,
            Entry::Committed { epoch, .. } => {
                self.epoch_max = self.epoch_max.max(*epoch);
                self.uncommitted.retain(|e, _| e > epoch);
            }
            Entry::Stopped { .. } => self.stopped = true,
        }
        self.head = seq;
        self.generation = generation;
        Ok(())
    }

    pub(super) fn claim(&mut self, seq: LedgerSeq, generation: Generation, origin: Origin) {
        self.head = seq;
        self.generation = generation;
        self.resume = origin;
        if let Origin::Fork(epoch) | Origin::Epoch(epoch) = origin {
            self.epoch_max = self.epoch_max.max(epoch);
        }
    }

    fn sealed(&mut self, seq: LedgerSeq, attempt: Attempt, reason: Reason, committables: &[CommittableId]) -> Result<()> {
        if attempt.epoch <= self.epoch_max {
            return Err(damaged(seq, "C203", format!("epoch {} cannot follow epoch {}", attempt.epoch, self.epoch_max)));
        }
        let sealed = DurableEpoch { attempt, reason, committables: committables.to_vec() };
        if !sealed.committables.is_empty() {
            self.uncommitted.insert(attempt.epoch, sealed.clone());
        }
        self.epoch_max = attempt.epoch;
        self.newest = Some(sealed);
        self.resume = Origin::Epoch(attempt.epoch);
        self.stopped = false;
        Ok(())
    }

    /// The epoch that ends the job, if its end is not recorded and the job goes on from it: it must be ended, not run on.
    #[must_use]
    pub fn unfinished_end(&self) -> Option<&DurableEpoch> {
        let newest = self.newest.as_ref()?;
        (newest.reason.ends_job() && !self.stopped && self.resume == Origin::Epoch(newest.attempt.epoch)).then_some(newest)
    }
}

/// Whether the entries from some point to the head say as much as the whole ledger, so that recovery need not read further back.
///
/// Epochs are sealed in rising order, and every entry names its generation; so it is enough that the first seal among them is at or
/// before the first epoch that may be unrecorded.
#[must_use]
pub fn holds_all_facts(suffix: &[Entry]) -> bool {
    let settled = suffix.iter().filter_map(|entry| match entry {
        Entry::Sealed { settled, .. } => Some(*settled),
        Entry::Committed { epoch, .. } => Some(*epoch),
        Entry::Claimed { .. } | Entry::Stopped { .. } => None,
    });
    let first = suffix.iter().find_map(|entry| match entry {
        Entry::Sealed { attempt, .. } => Some(attempt.epoch),
        Entry::Claimed { .. } | Entry::Committed { .. } | Entry::Stopped { .. } => None,
    });
    first.is_some_and(|first| settled.max().is_some_and(|settled| first <= settled.next()))
}

fn damaged(seq: LedgerSeq, code: &str, what: String) -> Error {
    Error::new(ErrorKind::Corrupt, code, what)
        .at(format!("ledger entry={seq}"))
        .data("nothing was changed; what the entries before this one name is still readable")
        .remedy("keep the ledger as evidence; restore from an older checkpoint in a new directory")
}
