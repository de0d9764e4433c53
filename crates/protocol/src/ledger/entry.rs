//! What a ledger entry says.

use staunch_types::{Epoch, Generation};

use crate::{Attempt, CommittableId, Reason};

/// A number that no other claimant has: drawn anew from a good random source for each claim. Without it two coordinators that
/// claim the same generation at the same time would both find "their" entry in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claimant(pub u128);

/// What a generation starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Nothing: sources start at their beginning.
    Empty,
    /// A durable epoch of this ledger: the newest, or an older one for a rewind.
    Epoch(Epoch),
    /// A durable epoch of another job's ledger, of this number: a fork. The other job's committables are not ours to commit.
    Fork(Epoch),
}

/// One entry: the facts that the protocol needs. The driver adds the payload (manifest, proofs) and the hash of the entry before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// A new incarnation of the job begins; all older ones are fenced.
    Claimed {
        /// The new generation: one more than the last.
        generation: Generation,
        /// Who claims.
        claimant: Claimant,
        /// What it starts from.
        origin: Origin,
    },
    /// An epoch is durable: from here on what it names will be committed.
    Sealed {
        /// The attempt that succeeded.
        attempt: Attempt,
        /// Why it was started.
        reason: Reason,
        /// What must be committed, in order.
        committables: Vec<CommittableId>,
        /// Every epoch up to this one that names something is recorded as committed. It bounds how much recovery reads.
        settled: Epoch,
    },
    /// Everything an epoch names is proven committed, or accepted as lost by a person. An epoch that names nothing has no such entry.
    Committed {
        /// The epoch.
        epoch: Epoch,
        /// Who proved it.
        generation: Generation,
        /// Lost and accepted.
        lost: Vec<CommittableId>,
        /// Lost and written again.
        resent: Vec<CommittableId>,
    },
    /// The job ended as asked, or at the end of its input, with everything committed.
    Stopped {
        /// Whose end.
        generation: Generation,
    },
}

impl Entry {
    /// The generation that appended it.
    #[must_use]
    pub fn generation(&self) -> Generation {
        match self {
            Entry::Claimed { generation, .. } | Entry::Committed { generation, .. } | Entry::Stopped { generation } => *generation,
            Entry::Sealed { attempt, .. } => attempt.generation,
        }
    }
}
