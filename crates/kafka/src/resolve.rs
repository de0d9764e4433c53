//! What became of a prepared transaction: rules without I/O.
//!
//! Owns: the verdict from what the coordinator describes and whether the mark is there. Does not own: asking them, ending the transaction,
//! what is done about a loss.
//!
//! Asked in this order: first the coordinator, then, if its answer leaves it open, the mark. When the coordinator's answer is no longer
//! about this transaction, this transaction has ended, so a mark looked for after that answer is final.
//!
//! Invariants:
//! 1. *Pending* is said only of the very transaction that was prepared: same producer id, epoch and start. An older one of the same handle
//!    has the same id and epoch, and ending "it" would commit the newer one, half written.
//! 2. *Committed* is said only when the coordinator says so of this transaction, or its mark is visible.
//! 3. *Lost* is said only when the coordinator says that this transaction was aborted, or that it has ended and its place has no mark.
//! 4. All else is asked again, or is said to be unknowable; nothing is guessed.

use std::fmt;

use crate::control::{Described, Producer, Transaction, TransactionPhase};

/// The transaction of a committable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// Who wrote it.
    pub producer: Producer,
    /// When it began, as the coordinator described it when it was prepared.
    pub start_ms: i64,
}

/// What is known of the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkReading {
    /// It was not looked for yet.
    NotAsked,
    /// It was looked for after the coordinator had answered, and is there.
    There,
    /// It was looked for after the coordinator had answered; its place is readable, all transactions there have ended, and it is not there.
    Absent,
    /// Its place is gone.
    PlaceGone {
        /// What was seen.
        why: String,
    },
}

/// What to do next, or what is certain. The texts are for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is decided that all is visible.
    Committed {
        /// What was seen.
        proof: String,
    },
    /// It is open, complete, and can be committed.
    Pending,
    /// It was not committed and never will be.
    Lost {
        /// What was seen.
        evidence: String,
    },
    /// The mark decides.
    AskMark,
    /// A decision is under way: ask the coordinator again after a while. When a newer transaction of the same id is open and no checkpoint
    /// names it, it has to be aborted first.
    AskAgain {
        /// What is waited for.
        why: String,
    },
    /// The brokers do not know any more; a person has to look.
    Unknowable {
        /// What was seen.
        why: String,
    },
}

/// What a description is about, seen from the prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// This transaction.
    This,
    /// This transaction, with its producer's epoch raised by the broker in the course of ending it.
    ThisEnding,
    /// Something that came after it: it has ended.
    Later,
    /// Something that came before it: the coordinator has lost memory, or two coordinators' clocks differ.
    Earlier,
}

/// The next step for a prepared transaction.
#[must_use]
pub fn resolve(prepared: &PreparedTransaction, described: &Described, mark: &MarkReading) -> Step {
    use TransactionPhase as P;
    let Described::Known(found) = described else {
        return by_mark(About::Later, "the coordinator does not know the transactional id", mark);
    };
    let about = about(prepared, found);
    let seen = format!("the coordinator describes {}", Seen(found));
    match (about, found.phase) {
        (About::This, P::Ongoing) => Step::Pending,
        (About::This | About::ThisEnding, P::PrepareCommit | P::CompleteCommit) => Step::Committed { proof: seen },
        (About::This | About::ThisEnding, P::PrepareAbort | P::CompleteAbort) => Step::Lost { evidence: seen },
        (About::This | About::ThisEnding, P::PrepareEpochFence) | (About::ThisEnding, P::Ongoing) => Step::AskAgain { why: seen },
        (About::This | About::ThisEnding, P::Empty | P::Dead) | (About::Later | About::Earlier, _) => by_mark(about, &seen, mark),
    }
}

fn about(prepared: &PreparedTransaction, found: &Transaction) -> About {
    let (ours, theirs) = (prepared.producer, found.producer);
    if theirs.id != ours.id {
        return if theirs.id > ours.id { About::Later } else { About::Earlier };
    }
    let same_start = found.start_ms == Some(prepared.start_ms);
    if same_start && theirs.epoch == ours.epoch {
        About::This
    } else if same_start && Some(theirs.epoch) == ours.epoch.checked_add(1) {
        About::ThisEnding
    } else if theirs.epoch > ours.epoch || theirs.epoch == ours.epoch && found.start_ms.is_some_and(|start| start > prepared.start_ms) {
        About::Later
    } else {
        About::Earlier
    }
}

/// This transaction has ended, or the coordinator has forgotten it: the mark decides.
fn by_mark(about: About, seen: &str, mark: &MarkReading) -> Step {
    match (mark, about) {
        (MarkReading::NotAsked, _) => Step::AskMark,
        (MarkReading::There, _) => Step::Committed { proof: "its mark is visible".into() },
        (MarkReading::Absent, About::This | About::ThisEnding | About::Later) => {
            Step::Lost { evidence: format!("{seen}, and its mark is not there") }
        }
        (MarkReading::Absent, About::Earlier) => {
            Step::Unknowable { why: format!("{seen}, which is older than the transaction prepared, and its mark is not there") }
        }
        (MarkReading::PlaceGone { why }, _) => Step::Unknowable { why: format!("{seen}, and {why}") },
    }
}

/// A description in one line.
struct Seen<'a>(&'a Transaction);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "phase={} {} ", self.0.phase, self.0.producer)?;
        match self.0.start_ms {
            Some(start) => write!(f, "start_ms={start}"),
            None => f.write_str("start_ms=none"),
        }
    }
}

#[cfg(test)]
mod tests;
