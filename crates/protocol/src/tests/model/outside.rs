//! The outside system: transactions of two sinks that remember what they were committed with, and nothing else.
//!
//! Owns: what is visible. Does not own: any fence: an old generation's writers are never stopped by it, so the protocol has to
//! be right without.

use std::collections::{BTreeMap, BTreeSet};

use staunch_types::{ErrorKind, Generation, TaskId};

use crate::commit::{Answer, Verdict};
use crate::{CommittableId, SinkId};

/// Records, as bits.
pub(super) type Records = u16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Prepared,
    Committed,
    Aborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Transaction {
    pub(super) records: Records,
    pub(super) phase: Phase,
    /// Opened by a generation that had already been replaced.
    pub(super) late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Open {
    pub(super) records: Records,
    pub(super) late: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Outside {
    /// At most one for each writer and sink.
    pub(super) open: BTreeMap<(Generation, TaskId, SinkId), Open>,
    pub(super) transactions: BTreeMap<CommittableId, Transaction>,
}

impl Outside {
    /// Writes a record into the writer's open transaction, opening one if there is none.
    pub(super) fn write(&mut self, generation: Generation, task: TaskId, sink: SinkId, record: Records, late: bool) {
        let open = self.open.entry((generation, task, sink)).or_insert(Open { records: 0, late });
        assert!(open.records & record == 0, "a record was written twice into one transaction");
        open.records |= record;
    }

    /// Whether there is a transaction to prepare.
    pub(super) fn is_open(&self, committable: CommittableId) -> bool {
        self.open.contains_key(&(committable.attempt.generation, committable.task, committable.sink))
    }

    /// Prepares the writer's open transaction.
    pub(super) fn prepare(&mut self, committable: CommittableId) {
        let key = (committable.attempt.generation, committable.task, committable.sink);
        let Some(open) = self.open.remove(&key) else { return };
        let transaction = Transaction { records: open.records, phase: Phase::Prepared, late: open.late };
        let before = self.transactions.insert(committable, transaction);
        assert!(before.is_none(), "committable={committable} was prepared twice");
    }

    pub(super) fn commit(&mut self, committable: CommittableId) -> Answer {
        match self.transactions.get_mut(&committable) {
            Some(transaction) if transaction.phase != Phase::Aborted => {
                transaction.phase = Phase::Committed;
                Answer::Done
            }
            Some(_) | None => Answer::Failed { kind: ErrorKind::Lost },
        }
    }

    pub(super) fn resolve(&self, committable: CommittableId) -> Answer {
        Answer::Resolved(match self.transactions.get(&committable).map(|transaction| transaction.phase) {
            Some(Phase::Committed) => Verdict::Committed,
            Some(Phase::Prepared) => Verdict::Pending,
            Some(Phase::Aborted) | None => Verdict::Lost,
        })
    }

    /// Asks for the token and writes again in one step, as the verb demands.
    pub(super) fn resend(&mut self, committable: CommittableId) -> Answer {
        if let Some(transaction) = self.transactions.get_mut(&committable) {
            transaction.phase = Phase::Committed;
        }
        Answer::Done
    }

    pub(super) fn sweep(&mut self, sink: SinkId, older_than: Generation, keep: &BTreeSet<CommittableId>) -> Answer {
        self.open.retain(|(generation, _, of), _| *of != sink || *generation >= older_than);
        for (committable, transaction) in &mut self.transactions {
            let swept = committable.sink == sink && committable.attempt.generation < older_than && !keep.contains(committable);
            if swept && transaction.phase == Phase::Prepared {
                transaction.phase = Phase::Aborted;
            }
        }
        Answer::Done
    }

    /// The outside system gives up a prepared transaction by itself.
    pub(super) fn expire(&mut self, committable: CommittableId) {
        if let Some(transaction) = self.transactions.get_mut(&committable) {
            transaction.phase = Phase::Aborted;
        }
    }
}
