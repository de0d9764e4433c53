//! What became of a prepared transaction, and what a new generation does to an id that older ones had.
//!
//! Owns: the verdict, from what the coordinator describes and whether the mark is there. Does not own: asking them, ending the transaction,
//! what is done about a loss.
//!
//! A *mark* is what a transaction leaves outside under a name that only its output has: it is visible when, and only when, a transaction with
//! this output is committed. Asked in this order: first the coordinator, then, if its answer leaves it open, the mark. When the coordinator's
//! answer is no longer about this transaction, or says that it was aborted, this transaction has ended; so a mark looked for after that
//! answer is final.
//!
//! A decision reaches readers by a *marker* in each partition. A coordinator may forget markers: it then calls a transaction committed that a
//! partition has open, for ever. So what is committed is confirmed: its partitions are asked after the coordinator, and what is missing is
//! written in the coordinator's place.
//!
//! Invariants:
//! 1. *Pending* is said only of the very transaction that was prepared: same producer id, epoch and start. An older one of the same producer
//!    has the same id and epoch, and ending "it" would commit the newer one, half written.
//! 2. *Committed* is said only when the coordinator says so of this transaction, or its mark is visible.
//! 3. *Lost* is said only when this transaction has ended and its mark is not there; also the same output, written again in another
//!    transaction, is not visible then.
//! 4. All else is asked again, or is said to be unknowable; nothing is guessed.
//! 5. Markers are called forgotten only if the coordinator, asked first, has no decision of this producer under way, and a partition asked after
//!    that has the transaction open. Once written, they shut the partition to the producer: so they never end another transaction. The
//!    coordinator is left as it is: it may be the only one that knows of the decision.
//! 6. An open transaction that a retained checkpoint names is left alone; every other of the job's ids is taken away from whoever has it.

use staunch_types::Generation;

use super::{Described, Found, Identity, Markers, Producer, TransactionPhase};
use crate::mutation::{Mutation, broken};

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
    /// A decision is under way: ask the coordinator again after a while.
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

/// What is known of the markers of a committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirm {
    /// They are all there: readers get past it.
    Confirmed,
    /// Nobody can tell: a partition may not be asked, or the producer has gone on.
    Unconfirmed,
    /// They may be on their way: ask again after a while.
    AskAgain,
    /// Nobody will write those that are missing: they are to be written as of this producer. Its epoch is the next one, so that a partition that has
    /// such a marker takes nothing more from the producer before; a marker that is written twice, or late, ends nothing.
    Forgotten(Producer),
}

/// What a sweep does to an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Nothing: nobody has it, or a newer generation.
    Nothing,
    /// Leave its open transaction alone: it may still have to be committed.
    Leave,
    /// Take it over, if it still has the producer that was found: that aborts what is open, and fences whoever still has that producer. If it
    /// has another by then, a newer generation was faster.
    Fence(Found),
}

/// Whose a transactional id is, seen from the generation that sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A generation that was swept before: nobody of it has a producer that may go on, except by an id that it took over since.
    Swept,
    /// An older generation, which may still run.
    Older,
    /// This generation or a newer one.
    Newer,
    /// Whoever writes lost output again; all generations use the same id for that.
    Anybody,
}

/// What a description is about, seen from the prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// This transaction.
    This,
    /// This transaction, with its producer's epoch raised by the broker in the course of ending it.
    ThisEnding,
    /// Something else, which can have come only when this one had ended.
    Later,
    /// Something that came before it: the coordinator has lost memory, or two coordinators' clocks differ.
    Earlier,
}

/// The next step for a prepared transaction.
#[must_use]
pub fn resolve(prepared: Identity, described: &Described, mark: &MarkReading) -> Step {
    use TransactionPhase as P;
    let Described::Known(found) = described else {
        return by_mark(About::Later, "the coordinator does not know the transactional id", mark);
    };
    let about = about(prepared, found);
    let seen = format!("the coordinator describes {found}");
    match (about, found.phase) {
        (About::This, P::Ongoing) => Step::Pending,
        (About::This | About::ThisEnding, P::PrepareCommit | P::CompleteCommit) => Step::Committed { proof: seen },
        (About::This | About::ThisEnding, P::PrepareAbort | P::CompleteAbort) => aborted(&seen, mark),
        (About::This | About::ThisEnding, P::PrepareEpochFence) | (About::ThisEnding, P::Ongoing) => Step::AskAgain { why: seen },
        (About::This | About::ThisEnding, P::Empty | P::Dead) | (About::Later | About::Earlier, _) => by_mark(about, &seen, mark),
    }
}

/// Whether what a producer committed has come through, by what the coordinator described first and the partitions said after that.
#[must_use]
pub fn confirm(producer: Producer, described: &Described, markers: Markers) -> Confirm {
    use TransactionPhase as P;
    match markers {
        Markers::Arrived => return Confirm::Confirmed,
        Markers::NotTold => return Confirm::Unconfirmed,
        Markers::Missing if broken(Mutation::ConfirmTrustsCoordinator) => return Confirm::Confirmed,
        Markers::Missing => {}
    }
    match described {
        Described::Known(found) if found.producer.id == producer.id => match found.phase {
            P::PrepareCommit | P::PrepareAbort | P::PrepareEpochFence => Confirm::AskAgain,
            // Only older versions went on without a look; what ends that transaction ends this one.
            P::Ongoing => Confirm::Unconfirmed,
            // It was aborted, and what is committed is what was written again; or a later one was.
            P::CompleteAbort => Confirm::Unconfirmed,
            P::Empty | P::CompleteCommit | P::Dead => Confirm::Forgotten(writes_markers(producer)),
        },
        Described::Known(_) | Described::Unknown => Confirm::Forgotten(writes_markers(producer)),
    }
}

/// As whose the forgotten markers of a producer are written.
fn writes_markers(producer: Producer) -> Producer {
    if broken(Mutation::RepairsUnfenced) { producer } else { Producer { epoch: producer.epoch.saturating_add(1), ..producer } }
}

impl Owner {
    /// Whose the id is that names this generation, if it names one; `own` sweeps, and `swept` was the first to sweep what was before it.
    #[must_use]
    pub fn of(named: Option<Generation>, own: Generation, swept: Generation) -> Owner {
        match named {
            None => Owner::Anybody,
            Some(named) if named >= own && !broken(Mutation::SweepTakesNewer) => Owner::Newer,
            Some(named) if named < swept => Owner::Swept,
            Some(_) => Owner::Older,
        }
    }

    /// Whether an id is swept at all, whose transaction is open or not.
    #[must_use]
    pub fn is_swept(self, is_open: bool) -> bool {
        match self {
            Owner::Newer => false,
            // Also an id without an open transaction: whoever still has a producer of it must not begin another.
            Owner::Older => true,
            // Not again at each start, or the coordinators would never forget it.
            Owner::Swept | Owner::Anybody => is_open,
        }
    }
}

/// What to do to an id of the job, of which the retained checkpoints name these transactions.
///
/// Whoever is late with it does no harm: a newer generation's ids are left alone, and since this one claimed the ledger no older one can make durable
/// what is not among `kept`.
#[must_use]
pub fn sweep(owner: Owner, described: &Described, kept: &[Identity]) -> Sweep {
    let Described::Known(found) = described else { return Sweep::Nothing };
    let is_open = found.phase.is_open();
    if !owner.is_swept(is_open) {
        return Sweep::Nothing;
    }
    let is_kept = is_open && kept.iter().any(|identity| found.is(*identity));
    if is_kept && !broken(Mutation::SweepTakesAll) { Sweep::Leave } else { Sweep::Fence(*found) }
}

fn about(prepared: Identity, found: &Found) -> About {
    let (ours, theirs) = (prepared.producer, found.producer);
    if theirs.id != ours.id {
        // Each broker gives out ids of its own, so a smaller one may well be the newer.
        return About::Later;
    }
    let same_start = found.start_ms == Some(prepared.start_ms) || broken(Mutation::ResolveForgetsStart);
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

/// The coordinator says that this transaction was aborted. The same output may have been written again since.
fn aborted(seen: &str, mark: &MarkReading) -> Step {
    if broken(Mutation::ResolveTrustsAbort) {
        return Step::Lost { evidence: seen.to_owned() };
    }
    match mark {
        MarkReading::NotAsked => Step::AskMark,
        MarkReading::There => Step::Committed { proof: format!("{seen}, and its mark is visible: it was written again") },
        MarkReading::Absent => Step::Lost { evidence: format!("{seen}, and its mark is not there") },
        MarkReading::PlaceGone { why } => Step::Lost { evidence: format!("{seen}; {why}") },
    }
}

/// This transaction has ended, or the coordinator has forgotten it: the mark decides.
fn by_mark(about: About, seen: &str, mark: &MarkReading) -> Step {
    if broken(Mutation::ResolveLostUnproven) {
        return Step::Lost { evidence: seen.to_owned() };
    }
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

#[cfg(test)]
mod tests;
