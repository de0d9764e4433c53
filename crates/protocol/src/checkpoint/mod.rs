//! When an epoch starts, when it is complete, when it is durable, and when it has failed.
//!
//! Owns: epoch numbers, acknowledgements, the pace and the tolerance of checkpoints, the end of the job, and the right to commit. Does not
//! own: snapshots and committables themselves, nor the ledger's slot. Events come from tasks and from the ledger; effects go to tasks, to the
//! ledger and, as [`CommitPermit`], to the commit machine.
//!
//! Invariants:
//! 1. An epoch is sealed only when every task of the job has acknowledged this very attempt; epochs are sealed in rising order.
//! 2. A permit exists only for an epoch whose seal is in the ledger (E1).
//! 3. An epoch number is used once in a generation, and is greater than any the ledger has seen.
//! 4. What was prepared for an abandoned epoch is named by the next sealed one: an acknowledgement names everything its task prepared and
//!    does not know to be durable ([`crate::commit::Prepared`] keeps the list); what a durable epoch already names is left out.
//! 5. The job finishes only after an epoch that ends it was sealed by all tasks, committed and recorded (E8).

mod epoch;
mod permit;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use staunch_types::{Epoch, ErrorKind, Generation, TaskId, Tick};

use crate::ledger::{DurableEpoch, Entry, Facts};
use crate::mutation::{Mutation, broken};
use crate::{Attempt, CommittableId, Count, Reason};

use epoch::{Progress, Running};
pub use permit::CommitPermit;

/// Uncommitted epochs that a job can be allowed at most: their records all fit into the ledger's queue.
pub const UNCOMMITTED_MAX: u32 = 1_000;

/// How epochs are paced, and whose acknowledgement they need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// All tasks of the job.
    pub tasks: BTreeSet<TaskId>,
    /// Those among them that have no input channel.
    pub sources: BTreeSet<TaskId>,
    /// From one trigger to the next.
    pub interval: Duration,
    /// From the end of one epoch to the next trigger, at least; also from a failed epoch to the next try.
    pub pause_min: Duration,
    /// An epoch that is not sealed by then is abandoned. Once its seal is under way the ledger's own limits hold instead.
    pub timeout: Duration,
    /// Failed epochs in a row that the job survives.
    pub failures_tolerated: u32,
    /// Epochs under way at once, at least 1.
    pub concurrent_max: u32,
    /// Durable epochs whose commit may be outstanding before no new one is started, from 1 to [`UNCOMMITTED_MAX`].
    pub uncommitted_max: u32,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The generation is claimed: give permits for what earlier ones left durable.
    Claimed,
    /// Everything recovered is proven and swept: epochs can be made, or the end that an earlier generation began can be recorded.
    Settled,
    /// The deadline has passed.
    TimePassed,
    /// Somebody, or the end of input, asks for an epoch.
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
        /// Everything it prepared and does not know to be durable.
        committables: Vec<CommittableId>,
    },
    /// A task cannot take part.
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
    /// The ledger has an entry that this machine asked for.
    Appended {
        /// The entry.
        entry: Entry,
    },
    /// The ledger does not have it and will not.
    Refused {
        /// The entry.
        entry: Entry,
        /// Why.
        kind: ErrorKind,
    },
    /// The commit of an epoch is recorded.
    EpochCommitted {
        /// The epoch.
        epoch: Epoch,
    },
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start the epoch at these tasks: sources inject the barrier; tasks at the end of input take their snapshot.
    Trigger {
        /// The attempt.
        attempt: Attempt,
        /// Why; `Stop` and `Drain` tell sources to stop behind the barrier.
        reason: Reason,
        /// The tasks.
        tasks: BTreeSet<TaskId>,
    },
    /// Tell every task to wait no longer for the attempt. What is prepared stays prepared (invariant 4).
    AbandonEpoch {
        /// The attempt.
        attempt: Attempt,
    },
    /// Append this to the ledger.
    Append {
        /// A seal, or the end of the job.
        entry: Entry,
    },
    /// The epoch is durable: commit what the permit names, tell tasks.
    EpochDurable {
        /// The right to commit.
        permit: CommitPermit,
        /// Why the epoch was started.
        reason: Reason,
        /// Whether an earlier generation sealed it, so that what it names may be committed already.
        origin: PermitOrigin,
    },
    /// All permits for what earlier generations left were given.
    Recovered,
    /// An epoch failed; it counts against the tolerance.
    EpochFailed {
        /// The attempt.
        attempt: Attempt,
        /// Why.
        failure: EpochFailure,
    },
    /// Too many failed in a row.
    FailJob {
        /// The last one's reason.
        failure: EpochFailure,
    },
    /// The job has ended and everything is committed and recorded.
    JobFinished {
        /// How it ended.
        reason: Reason,
    },
}

/// Where a permit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PermitOrigin {
    /// This generation sealed the epoch.
    Sealed,
    /// An earlier one did.
    Recovered,
}

/// Why an epoch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EpochFailure {
    /// Not complete in time.
    TimedOut,
    /// A task declined.
    Declined(TaskId),
    /// The store refused the seal.
    StoreRefused(ErrorKind),
}

/// The checkpoints of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    config: Config,
    generation: Generation,
    phase: Phase,
    next_epoch: Epoch,
    durable_max: Epoch,
    running: BTreeMap<Epoch, Running>,
    finished: BTreeSet<TaskId>,
    /// Durable, named something, not recorded as committed.
    uncommitted: BTreeSet<Epoch>,
    requested: Option<Reason>,
    started_last: Tick,
    not_before: Tick,
    failures: u32,
    recovered: Vec<(CommitPermit, Reason)>,
    stale: Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Writers do not run yet. If an end was begun, it is only finished.
    Recovering { end: Option<Reason> },
    /// Epochs are made.
    Running,
    /// The epoch that ends the job is durable.
    Ending { reason: Reason },
    /// The end of the job is on its way to the ledger.
    Stopping { reason: Reason },
    /// Nothing more will happen.
    Closed,
}

impl Checkpoint {
    /// The checkpoints of a generation that was just claimed; `facts` include the claim.
    #[must_use]
    pub fn recover(facts: &Facts, generation: Generation, config: Config) -> Checkpoint {
        let config = Config {
            concurrent_max: config.concurrent_max.max(1),
            uncommitted_max: config.uncommitted_max.clamp(1, UNCOMMITTED_MAX),
            ..config
        };
        let permit = |durable: DurableEpoch| (CommitPermit::new(generation, &durable), durable.reason);
        Checkpoint {
            config,
            generation,
            phase: Phase::Recovering { end: facts.unfinished_end().map(|e| e.reason) },
            next_epoch: facts.epoch_max.next(),
            durable_max: facts.epoch_max,
            running: BTreeMap::new(),
            finished: BTreeSet::new(),
            uncommitted: facts.uncommitted.keys().copied().collect(),
            requested: None,
            started_last: Tick::default(),
            not_before: Tick::default(),
            failures: 0,
            recovered: facts.uncommitted.values().cloned().map(permit).collect(),
            stale: Count::default(),
        }
    }

    /// Takes one event.
    ///
    /// # Panics
    /// On what a task of this generation cannot say: an acknowledgement of an epoch that was never started, a committable of another task.
    pub fn step(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        if self.phase == Phase::Closed {
            return;
        }
        match event {
            Event::Claimed => self.claimed(out),
            Event::Settled => self.settled(now),
            Event::TimePassed => self.expire(now, out),
            Event::TriggerRequested { reason } => self.request(reason),
            Event::TaskAcked { task, attempt, committables } => self.acked(task, attempt, committables, out),
            Event::TaskDeclined { task, attempt } => self.declined(now, task, attempt, out),
            Event::TaskFinished { task, generation } => self.task_finished(task, generation, out),
            Event::Appended { entry } => self.appended(now, entry, out),
            Event::Refused { entry, kind } => self.refused(now, entry, kind, out),
            Event::EpochCommitted { epoch } => self.epoch_committed(epoch),
        }
        self.advance(now, out);
    }

    /// When the next epoch is due or one under way expires.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        let due = self.next_reason().map(|reason| self.due(reason));
        self.expiries().chain(due).min()
    }

    /// The generation.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The newest durable epoch of this ledger, or the one the job was forked from.
    #[must_use]
    pub fn durable(&self) -> Epoch {
        self.durable_max
    }

    /// Whether the generation only finishes an end that an earlier one began; then writers do not start.
    #[must_use]
    pub fn only_ends(&self) -> bool {
        match self.phase {
            Phase::Recovering { end } => end.is_some(),
            Phase::Running | Phase::Ending { .. } | Phase::Stopping { .. } | Phase::Closed => false,
        }
    }

    /// Late, repeated and foreign messages that were ignored.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.stale.get()
    }

    fn claimed(&mut self, out: &mut Vec<Effect>) {
        for (permit, reason) in std::mem::take(&mut self.recovered) {
            out.push(Effect::EpochDurable { permit, reason, origin: PermitOrigin::Recovered });
        }
        out.push(Effect::Recovered);
    }

    fn settled(&mut self, now: Tick) {
        let Phase::Recovering { end } = self.phase else { panic!("recovery is settled once") };
        self.started_last = now;
        self.phase = match end {
            Some(reason) => Phase::Ending { reason },
            None => Phase::Running,
        };
    }

    fn request(&mut self, reason: Reason) {
        // An end that was asked for is not weakened by a later request.
        if self.requested.is_none_or(|asked| !asked.ends_job()) {
            self.requested = Some(reason);
        }
    }

    fn epoch_committed(&mut self, epoch: Epoch) {
        self.uncommitted.remove(&epoch);
    }

    /// Whatever can happen now without waiting for another event.
    fn advance(&mut self, now: Tick, out: &mut Vec<Effect>) {
        self.seal(out);
        self.end(out);
        if let Some(reason) = self.next_reason()
            && self.due(reason) <= now
        {
            self.trigger(now, reason, out);
        }
    }

    fn end(&mut self, out: &mut Vec<Effect>) {
        if let Phase::Ending { reason } = self.phase
            && self.uncommitted.is_empty()
        {
            self.phase = Phase::Stopping { reason };
            out.push(Effect::Append { entry: Entry::Stopped { generation: self.generation } });
        }
    }

    /// The reason for which an epoch could be started now, but for the time.
    fn next_reason(&self) -> Option<Reason> {
        let may_start = self.phase == Phase::Running && self.uncommitted.len() < self.config.uncommitted_max as usize;
        let room = self.running.len() < self.config.concurrent_max as usize;
        // A savepoint under way answers the request for one.
        let requested = self.requested.filter(|asked| self.running.values().all(|r| r.reason != *asked));
        let end = match requested {
            _ if self.all_finished() => Some(Reason::Final),
            Some(reason) if reason.ends_job() => Some(reason),
            Some(_) | None => None,
        };
        match end {
            _ if !may_start => None,
            Some(reason) => self.running.is_empty().then_some(reason),
            None if room => Some(requested.unwrap_or(Reason::Interval)),
            None => None,
        }
    }

    fn due(&self, reason: Reason) -> Tick {
        match reason {
            Reason::Interval => self.not_before.max(self.started_last + self.config.interval),
            // Whoever waits for an epoch waits only if the last one failed.
            Reason::Savepoint | Reason::Stop | Reason::Drain | Reason::Final if self.failures == 0 => Tick::default(),
            Reason::Savepoint | Reason::Stop | Reason::Drain | Reason::Final => self.not_before,
        }
    }

    fn all_finished(&self) -> bool {
        let missing = self.config.tasks.difference(&self.finished).count();
        missing == 0 || (broken(Mutation::FinalByOneTask) && !self.finished.is_empty())
    }

    fn trigger(&mut self, now: Tick, reason: Reason, out: &mut Vec<Effect>) {
        let attempt = Attempt { epoch: self.next_epoch, generation: self.generation };
        self.next_epoch = self.next_epoch.next();
        self.started_last = now;
        self.running.insert(attempt.epoch, Running::new(reason, now));
        let tasks = self.config.sources.union(&self.finished).copied().collect();
        out.push(Effect::Trigger { attempt, reason, tasks });
    }

    fn expiries(&self) -> impl Iterator<Item = Tick> {
        let waiting = |r: &&Running| r.progress != Progress::Sealing;
        self.running.values().filter(waiting).map(|r| r.started + self.config.timeout)
    }

    fn expire(&mut self, now: Tick, out: &mut Vec<Effect>) {
        let expired = |r: &Running| r.progress != Progress::Sealing && r.started + self.config.timeout <= now;
        let expired: Vec<Epoch> = self.running.iter().filter(|(_, r)| expired(r)).map(|(e, _)| *e).collect();
        for epoch in expired {
            self.fail(now, epoch, EpochFailure::TimedOut, out);
        }
    }

    fn fail(&mut self, now: Tick, epoch: Epoch, failure: EpochFailure, out: &mut Vec<Effect>) {
        let attempt = self.attempt(epoch);
        self.running.remove(&epoch);
        self.not_before = now + self.config.pause_min;
        self.failures += 1;
        if broken(Mutation::ReuseEpoch) {
            self.next_epoch = epoch;
        }
        out.push(Effect::AbandonEpoch { attempt });
        out.push(Effect::EpochFailed { attempt, failure });
        if self.failures > self.config.failures_tolerated {
            self.phase = Phase::Closed;
            out.push(Effect::FailJob { failure });
        }
    }

    fn attempt(&self, epoch: Epoch) -> Attempt {
        Attempt { epoch, generation: self.generation }
    }

    fn is_ours(&mut self, generation: Generation) -> bool {
        let ours = generation == self.generation || broken(Mutation::AcceptStaleGeneration);
        if !ours {
            self.stale.add_one();
        }
        ours
    }
}
