//! The coordinator of one generation: ledger, checkpoints and commits composed, so that a driver only does I/O.
//!
//! Owns: which machine hears of what, and in which order. Does not own: the rules themselves, nor the decision to restart, which the
//! failover machine takes over the head of many generations. Events come from the store, tasks and sinks; effects go back there.
//!
//! The life of a generation: claim → settle what earlier ones left durable → sweep → writers run → epochs → the end of the job, a
//! failure or the fence. [`Effect::FailJob`], [`Effect::Fenced`] or [`Effect::JobFinished`] is the last effect; after it every event is ignored; a restart is a
//! new coordinator from the ledger's facts.
//!
//! Invariants:
//! 1. Nothing but the claim and what it needs happens before the generation is claimed (E4).
//! 2. After the fence there is no effect (E4).

use std::collections::{BTreeSet, VecDeque};

use staunch_types::{Epoch, ErrorKind, Generation, LedgerSeq, TaskId, Tick};

use crate::checkpoint::{Checkpoint, EpochFailure};
use crate::commit::{Commit, CommitFailure};
use crate::ledger::{Claimant, Entry, Facts, Ledger, Limits, Origin};
use crate::{Attempt, CommitPermit, CommittableId, OpId, Reason, SinkId, checkpoint, commit, ledger};

/// Everything a coordinator needs to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Pace of the ledger's retries.
    pub ledger: Limits,
    /// Tasks and the pace of epochs.
    pub checkpoint: checkpoint::Config,
    /// Sinks and the pace of commits.
    pub commit: commit::Config,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Begin: claim a generation. Once.
    Started,
    /// The deadline has passed.
    TimePassed,
    /// The checkpoint store answered an [`Effect::Append`], [`Effect::ReadBack`] or [`Effect::Reload`].
    StoreAnswered {
        /// The effect's id.
        op: OpId,
        /// The answer.
        answer: ledger::Answer,
    },
    /// Somebody asks for an epoch: a savepoint, or the end of the job.
    TriggerRequested {
        /// Why.
        reason: Reason,
    },
    /// A task has its snapshot stored and its transactions prepared.
    TaskAcked {
        /// The task.
        task: TaskId,
        /// For which attempt.
        attempt: Attempt,
        /// Everything it prepared and does not know to be durable, from [`commit::Prepared::named_by`].
        committables: Vec<CommittableId>,
    },
    /// A task cannot take part in an attempt.
    TaskDeclined {
        /// The task.
        task: TaskId,
        /// For which attempt.
        attempt: Attempt,
    },
    /// A task reached the end of its input and has emitted everything. It must arrive: a connection that loses it counts as broken, and that
    /// as a failure of the task.
    TaskFinished {
        /// The task.
        task: TaskId,
        /// Its generation.
        generation: Generation,
    },
    /// A sink answered an [`Effect::Resolve`], [`Effect::Commit`], [`Effect::Resend`] or [`Effect::Sweep`].
    SinkAnswered {
        /// The effect's id.
        op: OpId,
        /// The answer.
        answer: commit::Answer,
    },
}

/// What must be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Create the ledger entry if its slot is free. A repeated append must have exactly the same bytes.
    Append {
        /// Ties to [`Event::StoreAnswered`].
        op: OpId,
        /// The slot.
        seq: LedgerSeq,
        /// The entry.
        entry: Entry,
    },
    /// Read the slot and compare it with the entry being appended.
    ReadBack {
        /// Ties to [`Event::StoreAnswered`].
        op: OpId,
        /// The slot.
        seq: LedgerSeq,
    },
    /// The claim's slot was taken: read the ledger again, choose again what to restore from.
    Reload {
        /// Ties to [`Event::StoreAnswered`].
        op: OpId,
    },
    /// The generation is claimed: tasks can be made ready and load what they restore from. No writer may start yet.
    Claimed {
        /// The generation.
        generation: Generation,
        /// What it starts from.
        origin: Origin,
    },
    /// Find out what is true of a committable.
    Resolve {
        /// Ties to [`Event::SinkAnswered`].
        op: OpId,
        /// Which.
        committable: CommittableId,
    },
    /// Commit.
    Commit {
        /// Ties to [`Event::SinkAnswered`].
        op: OpId,
        /// Which.
        committable: CommittableId,
        /// The right to do so.
        permit: CommitPermit,
    },
    /// Write a lost committable again; see [`commit::Effect::Resend`].
    Resend {
        /// Ties to [`Event::SinkAnswered`].
        op: OpId,
        /// Which.
        committable: CommittableId,
        /// The right to do so.
        permit: CommitPermit,
    },
    /// Abort what older generations left at a sink, except what is to be kept; see [`commit::Effect::Sweep`].
    Sweep {
        /// Ties to [`Event::SinkAnswered`].
        op: OpId,
        /// The sink.
        sink: SinkId,
        /// Generations before this one.
        older_than: Generation,
        /// Not to be aborted.
        keep: BTreeSet<CommittableId>,
    },
    /// Start all tasks.
    WritersMayStart,
    /// Start an epoch at these tasks: sources, and those whose input has ended. Where barriers go on flowing behind the end of input, only sources
    /// need to be told.
    Trigger {
        /// The attempt.
        attempt: Attempt,
        /// Why.
        reason: Reason,
        /// The tasks.
        tasks: BTreeSet<TaskId>,
    },
    /// Tell every task to wait no longer for an attempt. What is prepared stays prepared.
    AbandonEpoch {
        /// The attempt.
        attempt: Attempt,
    },
    /// An epoch failed and the job goes on: report it.
    EpochFailed {
        /// The attempt.
        attempt: Attempt,
        /// Why.
        failure: EpochFailure,
    },
    /// The epoch is durable: tell every task, so that it forgets what it prepared for it.
    EpochDurable {
        /// The attempt.
        attempt: Attempt,
        /// Why it was started.
        reason: Reason,
    },
    /// Everything the epoch names is committed, and recorded.
    EpochCommitted {
        /// The epoch.
        epoch: Epoch,
    },
    /// Stop all tasks and ask the failover machine.
    FailJob {
        /// Why.
        failure: Failure,
    },
    /// A newer generation exists: stop everything, touch nothing.
    Fenced,
    /// The job has ended; everything is committed and recorded.
    JobFinished {
        /// How it ended.
        reason: Reason,
    },
}

/// Why a generation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// Too many epochs failed in a row.
    Epochs(EpochFailure),
    /// A commit failed.
    Commit(CommitFailure),
    /// The store refused an entry for good.
    StoreRefused(ErrorKind),
    /// Whether the store has an entry could not be found out.
    StoreInDoubt,
}

impl Failure {
    /// The reaction it asks for.
    #[must_use]
    pub fn kind(self) -> ErrorKind {
        let by_answer = |kind| if kind == ErrorKind::Retry { ErrorKind::Restart } else { kind };
        match self {
            Failure::Epochs(EpochFailure::TimedOut | EpochFailure::Declined(_)) | Failure::StoreInDoubt => ErrorKind::Restart,
            Failure::Epochs(EpochFailure::StoreRefused(kind)) | Failure::StoreRefused(kind) => by_answer(kind),
            Failure::Commit(CommitFailure::Lost(_)) => ErrorKind::Lost,
            Failure::Commit(CommitFailure::GaveUp(_)) => ErrorKind::Restart,
            Failure::Commit(CommitFailure::Failed(_, kind) | CommitFailure::SweepFailed(_, kind)) => by_answer(kind),
        }
    }
}

/// The coordinator of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    ledger: Ledger,
    /// What the other machines need; taken when the generation is claimed.
    config: Option<Config>,
    claimed: Option<Claimed>,
    /// What was asked for before the claim.
    requested: Option<Reason>,
    closed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Claimed {
    checkpoint: Checkpoint,
    commit: Commit,
}

/// What one machine has to say to another.
enum Inner {
    Ledger(ledger::Event),
    Checkpoint(checkpoint::Event),
    Commit(commit::Event),
}

impl Coordinator {
    /// A coordinator that has read the ledger, and will claim the next generation of it when [`Event::Started`].
    #[must_use]
    pub fn recover(facts: Facts, origin: Origin, claimant: Claimant, config: Config) -> Coordinator {
        let ledger = Ledger::recover(facts, origin, claimant, config.ledger);
        Coordinator { ledger, config: Some(config), claimed: None, requested: None, closed: false }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        if self.closed {
            return;
        }
        let mut inbox = VecDeque::new();
        match event {
            Event::Started => inbox.push_back(Inner::Ledger(ledger::Event::ClaimRequested)),
            Event::TimePassed => inbox.extend([
                Inner::Ledger(ledger::Event::TimePassed),
                Inner::Checkpoint(checkpoint::Event::TimePassed),
                Inner::Commit(commit::Event::TimePassed),
            ]),
            Event::StoreAnswered { op, answer } => inbox.push_back(Inner::Ledger(ledger::Event::Answered { op, answer })),
            Event::TriggerRequested { reason } if self.claimed.is_none() => self.requested = Some(reason),
            Event::TriggerRequested { reason } => {
                inbox.push_back(Inner::Checkpoint(checkpoint::Event::TriggerRequested { reason }));
            }
            Event::TaskAcked { task, attempt, committables } => {
                inbox.push_back(Inner::Checkpoint(checkpoint::Event::TaskAcked { task, attempt, committables }));
            }
            Event::TaskDeclined { task, attempt } => {
                inbox.push_back(Inner::Checkpoint(checkpoint::Event::TaskDeclined { task, attempt }));
            }
            Event::TaskFinished { task, generation } => {
                inbox.push_back(Inner::Checkpoint(checkpoint::Event::TaskFinished { task, generation }));
            }
            Event::SinkAnswered { op, answer } => inbox.push_back(Inner::Commit(commit::Event::Answered { op, answer })),
        }
        self.drain(now, inbox, out);
    }

    /// When to call [`Self::step`] with [`Event::TimePassed`].
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        if self.closed {
            return None;
        }
        let claimed = self.claimed.as_ref();
        let checkpoint = claimed.and_then(|c| c.checkpoint.deadline());
        let commit = claimed.and_then(|c| c.commit.deadline());
        [self.ledger.deadline(), checkpoint, commit].into_iter().flatten().min()
    }

    /// The generation, once claimed.
    #[must_use]
    pub fn generation(&self) -> Option<Generation> {
        self.claimed.as_ref().map(|c| c.checkpoint.generation())
    }

    /// Whether the coordinator has ended: failed, fenced or finished.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Late, repeated and foreign events that were ignored.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        let claimed = self.claimed.as_ref().map_or(0, |c| c.checkpoint.stale_events() + c.commit.stale_events());
        self.ledger.stale_events() + claimed
    }

    fn drain(&mut self, now: Tick, mut inbox: VecDeque<Inner>, out: &mut Vec<Effect>) {
        while let Some(inner) = inbox.pop_front() {
            match inner {
                Inner::Ledger(event) => {
                    let mut effects = Vec::new();
                    self.ledger.step(now, event, &mut effects);
                    for effect in effects {
                        self.route_ledger(effect, &mut inbox, out);
                    }
                }
                // Before the claim there is no epoch, no task and no writer that could have anything to say.
                Inner::Checkpoint(event) => {
                    let Some(claimed) = &mut self.claimed else { continue };
                    let mut effects = Vec::new();
                    claimed.checkpoint.step(now, event, &mut effects);
                    for effect in effects {
                        self.route_checkpoint(effect, &mut inbox, out);
                    }
                }
                Inner::Commit(event) => {
                    let Some(claimed) = &mut self.claimed else { continue };
                    let mut effects = Vec::new();
                    claimed.commit.step(now, event, &mut effects);
                    for effect in effects {
                        self.route_commit(effect, &mut inbox, out);
                    }
                }
            }
            if self.closed {
                return;
            }
        }
    }

    fn route_ledger(&mut self, effect: ledger::Effect, inbox: &mut VecDeque<Inner>, out: &mut Vec<Effect>) {
        if self.closed {
            return;
        }
        match effect {
            ledger::Effect::Append { op, seq, entry } => out.push(Effect::Append { op, seq, entry }),
            ledger::Effect::ReadBack { op, seq } => out.push(Effect::ReadBack { op, seq }),
            ledger::Effect::Reload { op } => out.push(Effect::Reload { op }),
            ledger::Effect::Claimed { facts } => self.begin(&facts, inbox, out),
            ledger::Effect::Appended { entry } => match entry {
                Entry::Committed { epoch, .. } => inbox.push_back(Inner::Commit(commit::Event::Recorded { epoch })),
                Entry::Sealed { .. } | Entry::Stopped { .. } => {
                    inbox.push_back(Inner::Checkpoint(checkpoint::Event::Appended { entry }));
                }
                Entry::Claimed { .. } => panic!("the claim is not reported as an append"),
            },
            ledger::Effect::Refused { entry, kind } => match entry {
                Entry::Sealed { .. } | Entry::Stopped { .. } => {
                    inbox.push_back(Inner::Checkpoint(checkpoint::Event::Refused { entry, kind }));
                }
                Entry::Claimed { .. } | Entry::Committed { .. } => self.fail(Failure::StoreRefused(kind), out),
            },
            ledger::Effect::Unknown { .. } => self.fail(Failure::StoreInDoubt, out),
            ledger::Effect::Fenced => self.fenced(out),
        }
    }

    fn begin(&mut self, facts: &Facts, inbox: &mut VecDeque<Inner>, out: &mut Vec<Effect>) {
        let Some(config) = self.config.take() else { panic!("a generation is claimed once") };
        let generation = facts.generation;
        self.claimed = Some(Claimed {
            checkpoint: Checkpoint::recover(facts, generation, config.checkpoint),
            commit: Commit::recover(generation, config.commit),
        });
        out.push(Effect::Claimed { generation, origin: facts.resume });
        inbox.push_back(Inner::Checkpoint(checkpoint::Event::Claimed));
        if let Some(reason) = self.requested.take() {
            inbox.push_back(Inner::Checkpoint(checkpoint::Event::TriggerRequested { reason }));
        }
    }

    fn route_checkpoint(&mut self, effect: checkpoint::Effect, inbox: &mut VecDeque<Inner>, out: &mut Vec<Effect>) {
        if self.closed {
            return;
        }
        match effect {
            checkpoint::Effect::Trigger { attempt, reason, tasks } => out.push(Effect::Trigger { attempt, reason, tasks }),
            checkpoint::Effect::AbandonEpoch { attempt } => out.push(Effect::AbandonEpoch { attempt }),
            checkpoint::Effect::Append { entry } => inbox.push_back(Inner::Ledger(ledger::Event::AppendRequested(entry))),
            checkpoint::Effect::EpochDurable { permit, reason, origin } => {
                if origin == checkpoint::PermitOrigin::Sealed {
                    out.push(Effect::EpochDurable { attempt: permit.sealed(), reason });
                }
                inbox.push_back(Inner::Commit(commit::Event::EpochDurable { permit, origin }));
            }
            checkpoint::Effect::Recovered => inbox.push_back(Inner::Commit(commit::Event::RecoveryComplete)),
            checkpoint::Effect::EpochFailed { attempt, failure } => out.push(Effect::EpochFailed { attempt, failure }),
            checkpoint::Effect::FailJob { failure } => self.fail(Failure::Epochs(failure), out),
            checkpoint::Effect::JobFinished { reason } => {
                self.closed = true;
                out.push(Effect::JobFinished { reason });
            }
        }
    }

    fn route_commit(&mut self, effect: commit::Effect, inbox: &mut VecDeque<Inner>, out: &mut Vec<Effect>) {
        if self.closed {
            return;
        }
        match effect {
            commit::Effect::Resolve { op, committable } => out.push(Effect::Resolve { op, committable }),
            commit::Effect::Commit { op, committable, permit } => out.push(Effect::Commit { op, committable, permit }),
            commit::Effect::Resend { op, committable, permit } => out.push(Effect::Resend { op, committable, permit }),
            commit::Effect::Sweep { op, sink, older_than, keep } => out.push(Effect::Sweep { op, sink, older_than, keep }),
            commit::Effect::WritersMayStart => {
                if self.claimed.as_ref().is_some_and(|c| !c.checkpoint.only_ends()) {
                    out.push(Effect::WritersMayStart);
                }
                inbox.push_back(Inner::Checkpoint(checkpoint::Event::Settled));
            }
            commit::Effect::Append { entry } => inbox.push_back(Inner::Ledger(ledger::Event::AppendRequested(entry))),
            commit::Effect::EpochCommitted { epoch } => {
                out.push(Effect::EpochCommitted { epoch });
                inbox.push_back(Inner::Checkpoint(checkpoint::Event::EpochCommitted { epoch }));
            }
            commit::Effect::FailJob { failure } => self.fail(Failure::Commit(failure), out),
            commit::Effect::Fenced => self.fenced(out),
        }
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<Effect>) {
        self.closed = true;
        out.push(Effect::FailJob { failure });
    }

    fn fenced(&mut self, out: &mut Vec<Effect>) {
        self.closed = true;
        out.push(Effect::Fenced);
    }
}
