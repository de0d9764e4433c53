//! How what a durable epoch names becomes visible outside: once, and provably.
//!
//! Owns: the phase of every committable of every durable epoch that is not recorded as committed, the order of commits, retries, and
//! what is done about loss. Does not own: transactions themselves, nor the ledger. Permits come from the checkpoint machine; effects go
//! to sinks, and to the ledger as records.
//!
//! Invariants:
//! 1. Nothing is committed without a permit that covers it (E1).
//! 2. What an earlier generation sealed is resolved before anything else is done with it (E2).
//! 3. *Lost* stops the job, or is written again, or is accepted and recorded; never silently (E3).
//! 4. Per sink, epoch n is proven before anything of epoch n + 1 is touched.
//! 5. Writers start after every recovered epoch is proven and every sink is swept (E5).
//! 6. An epoch is recorded when all it names is proven, in rising order.
//!
//! Follows two-phase commit with a resolver; the second phase of epoch n is idempotent and can be done by any generation.

mod item;
mod prepared;
pub mod transaction;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use staunch_types::{Epoch, ErrorKind, Generation, Tick};

use crate::checkpoint::PermitOrigin;
use crate::ledger::Entry;
use crate::mutation::{Mutation, broken};
use crate::{CommitPermit, CommittableId, Count, OpId, SinkId};

use item::{Item, Proof, Verb};
pub use prepared::Prepared;

/// Sinks and the pace of retries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Every sink of the job, and every one that a recovered epoch names.
    pub sinks: BTreeMap<SinkId, LostPolicy>,
    /// Failures of one committable, or of one sweep, that are retried.
    pub retries_max: u32,
    /// Wait before the first retry; doubles with each further one.
    pub backoff_first: Duration,
    /// Longest wait.
    pub backoff_max: Duration,
    /// Operations under way at once, at least 1.
    pub in_flight_max: u32,
}

/// What to do with what is provably lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LostPolicy {
    /// Stop the job and say what is lost.
    #[default]
    Fail,
    /// Write it again from the journal kept with the checkpoint.
    Resend,
    /// Go on without it and record that; only by a person's explicit command.
    Accept,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The generation is claimed and all recovered permits were handed over.
    RecoveryComplete,
    /// An epoch is durable.
    EpochDurable {
        /// The right to commit it.
        permit: CommitPermit,
        /// Who sealed it.
        origin: PermitOrigin,
    },
    /// The outside system answered.
    Answered {
        /// The effect's id.
        op: OpId,
        /// The answer.
        answer: Answer,
    },
    /// The ledger has the record of an epoch.
    Recorded {
        /// The epoch.
        epoch: Epoch,
    },
    /// The deadline has passed.
    TimePassed,
}

/// What the outside system answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// To a commit, a resend or a sweep: done.
    Done,
    /// To a commit, a resend or a sweep: it may or may not have happened.
    Unanswered,
    /// To a resolve.
    Resolved(Verdict),
    /// To anything: it did not work. `Retry`: the same again. `Restart` and `Lost`, to a commit or resend: find out what is true now.
    /// `Fenced`: a newer generation exists. Everything else stops the job.
    Failed {
        /// How to react.
        kind: ErrorKind,
    },
}

/// What is true of a committable outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Visible, by proof: its token is there.
    Committed,
    /// Not visible, can still be committed.
    Pending,
    /// Not visible, and can never be, by proof: no token, and the transaction is finished or forgotten.
    Lost,
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Find out what is true of a committable.
    Resolve {
        /// Ties to the answer.
        op: OpId,
        /// Which.
        committable: CommittableId,
    },
    /// Commit. Repeating it must be harmless, also by a generation that does not know it has been replaced.
    Commit {
        /// Ties to the answer.
        op: OpId,
        /// Which.
        committable: CommittableId,
        /// The right to do so.
        permit: CommitPermit,
    },
    /// Write a lost committable again with the same token and commit it. The sink must first take over the one outside identity reserved for
    /// this committable, then ask for the token again, and write only if it is absent: so that of two that resend, one does.
    Resend {
        /// Ties to the answer.
        op: OpId,
        /// Which.
        committable: CommittableId,
        /// The right to do so.
        permit: CommitPermit,
    },
    /// Find by listing, and abort, all transactions of this job at a sink that older generations left, except those to keep.
    Sweep {
        /// Ties to the answer.
        op: OpId,
        /// The sink.
        sink: SinkId,
        /// Generations before this one.
        older_than: Generation,
        /// Named by durable epochs and not proven yet.
        keep: BTreeSet<CommittableId>,
    },
    /// Everything recovered is settled and every sink swept: writers may start.
    WritersMayStart,
    /// Append the record of a proven epoch to the ledger.
    Append {
        /// The record.
        entry: Entry,
    },
    /// The epoch is committed and recorded.
    EpochCommitted {
        /// The epoch.
        epoch: Epoch,
    },
    /// Stop the job.
    FailJob {
        /// Why.
        failure: CommitFailure,
    },
    /// The outside system knows a newer generation: stop, touch nothing.
    Fenced,
}

/// Why commits stop a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitFailure {
    /// Lost, and the policy is to stop.
    Lost(CommittableId),
    /// Retries are used up.
    GaveUp(CommittableId),
    /// The sink answered with an error that is not retried.
    Failed(CommittableId, ErrorKind),
    /// The sweep of a sink cannot be done.
    SweepFailed(SinkId, ErrorKind),
}

/// The commits of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Commit {
    config: Config,
    generation: Generation,
    phase: Phase,
    epochs: BTreeMap<Epoch, Pending>,
    sweeps: BTreeMap<SinkId, Sweep>,
    operations: BTreeMap<OpId, Target>,
    last_op: OpId,
    stale: Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Waiting for the claim.
    Unclaimed,
    /// Settling what earlier generations left.
    Recovering,
    /// Writers run.
    Running,
    /// The job has failed or is fenced.
    Closed,
}

/// A durable epoch on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pending {
    permit: CommitPermit,
    items: BTreeMap<CommittableId, Item>,
    record_sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sweep {
    Waiting { not_before: Tick, failures: u32 },
    Running { failures: u32 },
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    Item(Epoch, CommittableId, Verb),
    Sweep(SinkId),
}

impl Commit {
    /// The commits of a generation that was just claimed. What is durable and unrecorded comes as permits from the checkpoint machine.
    #[must_use]
    pub fn recover(generation: Generation, config: Config) -> Commit {
        let config = Config { in_flight_max: config.in_flight_max.max(1), ..config };
        let unswept = Sweep::Waiting { not_before: Tick::default(), failures: 0 };
        Commit {
            sweeps: config.sinks.keys().map(|sink| (*sink, unswept)).collect(),
            config,
            generation,
            phase: Phase::Unclaimed,
            epochs: BTreeMap::new(),
            operations: BTreeMap::new(),
            last_op: OpId::default(),
            stale: Count::default(),
        }
    }

    /// Takes one event.
    ///
    /// # Panics
    /// On a permit of another generation, a sink that is not configured, an answer that does not fit its effect.
    pub fn step(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        if self.phase == Phase::Closed {
            return;
        }
        match event {
            Event::RecoveryComplete => self.phase = Phase::Recovering,
            Event::EpochDurable { permit, origin } => self.epoch_durable(permit, origin),
            Event::Answered { op, answer } => self.answered(now, op, answer, out),
            Event::Recorded { epoch } => self.recorded(epoch, out),
            Event::TimePassed => {}
        }
        self.advance(now, out);
    }

    /// When a retry is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        let items = self.epochs.values().flat_map(|pending| pending.items.values()).filter_map(Item::retry_at);
        let sweeps = self.sweeps.values().filter_map(|sweep| match sweep {
            Sweep::Waiting { not_before, failures } => (*failures > 0).then_some(*not_before),
            Sweep::Running { .. } | Sweep::Done => None,
        });
        if self.phase == Phase::Closed { None } else { items.chain(sweeps).min() }
    }

    /// Epochs that are durable and not recorded as committed.
    #[must_use]
    pub fn uncommitted(&self) -> usize {
        self.epochs.len()
    }

    /// Answers that belonged to no open effect.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.stale.get()
    }

    fn epoch_durable(&mut self, permit: CommitPermit, origin: PermitOrigin) {
        assert!(
            permit.generation() == self.generation,
            "a permit of generation={} for generation={}",
            permit.generation(),
            self.generation
        );
        if permit.committables().is_empty() {
            return;
        }
        let items = permit.committables().iter().map(|committable| {
            assert!(self.config.sinks.contains_key(&committable.sink), "committable={committable} of a sink that is not configured");
            (*committable, Item::new(origin))
        });
        let pending = Pending { items: items.collect(), permit, record_sent: false };
        self.epochs.insert(pending.permit.epoch(), pending);
    }

    fn recorded(&mut self, epoch: Epoch, out: &mut Vec<Effect>) {
        if self.epochs.remove(&epoch).is_some() {
            out.push(Effect::EpochCommitted { epoch });
        } else {
            self.stale.add_one();
        }
    }

    fn answered(&mut self, now: Tick, op: OpId, answer: Answer, out: &mut Vec<Effect>) {
        match self.operations.remove(&op) {
            Some(_) if answer == (Answer::Failed { kind: ErrorKind::Fenced }) => {
                self.close();
                out.push(Effect::Fenced);
            }
            Some(Target::Item(epoch, committable, verb)) => self.item_answered(now, epoch, committable, verb, answer, out),
            Some(Target::Sweep(sink)) => self.sweep_answered(now, sink, answer, out),
            None => self.stale.add_one(),
        }
    }

    fn item_answered(&mut self, now: Tick, epoch: Epoch, committable: CommittableId, verb: Verb, answer: Answer, out: &mut Vec<Effect>) {
        let policy = self.config.sinks[&committable.sink];
        let unswept = self.phase == Phase::Recovering && self.sweeps[&committable.sink] != Sweep::Done;
        let Some(item) = self.epochs.get_mut(&epoch).and_then(|pending| pending.items.get_mut(&committable)) else { return };
        match item.answered(now, verb, answer, policy, unswept, &self.config) {
            Ok(()) => {}
            Err(kind) => {
                let failure = match kind {
                    ErrorKind::Lost => CommitFailure::Lost(committable),
                    ErrorKind::Retry => CommitFailure::GaveUp(committable),
                    ErrorKind::Restart | ErrorKind::Fenced | ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Bug => {
                        CommitFailure::Failed(committable, kind)
                    }
                };
                self.fail(failure, out);
            }
        }
    }

    fn sweep_answered(&mut self, now: Tick, sink: SinkId, answer: Answer, out: &mut Vec<Effect>) {
        let failures = match self.sweeps.get(&sink) {
            Some(Sweep::Running { failures }) => failures + 1,
            Some(Sweep::Waiting { .. } | Sweep::Done) | None => panic!("sink={sink} was not being swept"),
        };
        let (again, kind) = match answer {
            Answer::Done => {
                self.sweeps.insert(sink, Sweep::Done);
                return;
            }
            Answer::Unanswered => (true, ErrorKind::Retry),
            Answer::Failed { kind } => (kind == ErrorKind::Retry, kind),
            Answer::Resolved(_) => panic!("answer={answer:?} does not fit a sweep"),
        };
        if again && failures <= self.config.retries_max {
            let not_before = now + crate::ids::backoff(self.config.backoff_first, self.config.backoff_max, failures);
            self.sweeps.insert(sink, Sweep::Waiting { not_before, failures });
        } else {
            self.fail(CommitFailure::SweepFailed(sink, kind), out);
        }
    }

    fn fail(&mut self, failure: CommitFailure, out: &mut Vec<Effect>) {
        self.close();
        out.push(Effect::FailJob { failure });
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
    }

    /// Whatever can happen now without waiting for another event.
    fn advance(&mut self, now: Tick, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Unclaimed | Phase::Closed) {
            return;
        }
        let sinks: Vec<SinkId> = self.config.sinks.keys().copied().collect();
        for sink in sinks {
            self.advance_items(now, sink, out);
            self.advance_sweep(now, sink, out);
        }
        self.record(out);
        let proven = self.epochs.values().all(Pending::is_proven);
        if self.phase == Phase::Recovering && proven && self.sweeps.values().all(|sweep| *sweep == Sweep::Done) {
            self.phase = Phase::Running;
            out.push(Effect::WritersMayStart);
        }
    }

    /// Works on the oldest epoch of a sink that is not proven.
    fn advance_items(&mut self, now: Tick, sink: SinkId, out: &mut Vec<Effect>) {
        let swept = self.sweeps[&sink] == Sweep::Done;
        let unproven = |pending: &&mut Pending| pending.items.iter().any(|(c, item)| c.sink == sink && !item.is_proven());
        let Some(pending) = self.epochs.values_mut().find(unproven) else { return };
        let epoch = pending.permit.epoch();
        for (&committable, item) in pending.items.iter_mut().filter(|(c, _)| c.sink == sink) {
            if self.operations.len() >= self.config.in_flight_max as usize {
                return;
            }
            let Some(verb) = item.due(now, swept) else { continue };
            let op = self.last_op.take();
            self.operations.insert(op, Target::Item(epoch, committable, verb));
            let permit = pending.permit.clone();
            out.push(match verb {
                Verb::Resolve => Effect::Resolve { op, committable },
                Verb::Commit => Effect::Commit { op, committable, permit },
                Verb::Resend => Effect::Resend { op, committable, permit },
            });
        }
    }

    /// Sweeps a sink once all that was recovered for it is proven, or as soon as something can only be written again after the sweep.
    fn advance_sweep(&mut self, now: Tick, sink: SinkId, out: &mut Vec<Effect>) {
        let failures = match self.sweeps[&sink] {
            Sweep::Waiting { not_before, failures } if not_before <= now => failures,
            Sweep::Waiting { .. } | Sweep::Running { .. } | Sweep::Done => return,
        };
        if broken(Mutation::SkipSweep) {
            self.sweeps.insert(sink, Sweep::Done);
            return;
        }
        let of_sink = || self.epochs.values().flat_map(|pending| &pending.items).filter(|(c, _)| c.sink == sink);
        let keep: BTreeSet<CommittableId> = of_sink().filter(|(_, item)| !item.is_proven()).map(|(c, _)| *c).collect();
        if !keep.is_empty() && !of_sink().any(|(_, item)| item.awaits_sweep()) {
            return;
        }
        let op = self.last_op.take();
        self.operations.insert(op, Target::Sweep(sink));
        self.sweeps.insert(sink, Sweep::Running { failures });
        out.push(Effect::Sweep { op, sink, older_than: self.generation, keep });
    }

    fn record(&mut self, out: &mut Vec<Effect>) {
        for (epoch, pending) in &mut self.epochs {
            if !pending.may_be_recorded() {
                return;
            }
            if !pending.record_sent {
                pending.record_sent = true;
                let with = |proof| pending.items.iter().filter(|(_, item)| item.proof() == Some(proof)).map(|(c, _)| *c).collect();
                let entry =
                    Entry::Committed { epoch: *epoch, generation: self.generation, lost: with(Proof::Lost), resent: with(Proof::Resent) };
                out.push(Effect::Append { entry });
            }
        }
    }
}

impl Pending {
    fn is_proven(&self) -> bool {
        self.items.values().all(Item::is_proven)
    }

    fn may_be_recorded(&self) -> bool {
        self.is_proven() || (broken(Mutation::RecordBeforeProven) && self.items.values().any(Item::is_proven))
    }
}
