//! One epoch from its trigger to the ledger: acknowledgements, completeness, the seal.

use std::collections::BTreeSet;

use staunch_types::{Epoch, ErrorKind, Generation, TaskId, Tick};

use super::{Checkpoint, CommitPermit, Effect, EpochFailure, PermitOrigin, Phase};
use crate::ledger::{DurableEpoch, Entry};
use crate::mutation::{Mutation, broken};
use crate::{Attempt, CommittableId, Reason};

/// An epoch under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Running {
    pub(super) reason: Reason,
    pub(super) started: Tick,
    pub(super) progress: Progress,
    acked: BTreeSet<TaskId>,
    committables: BTreeSet<CommittableId>,
}

/// How far an epoch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    /// Acknowledgements are missing.
    Gathering,
    /// All tasks have acknowledged.
    Complete,
    /// The seal is on its way to the ledger.
    Sealing,
}

impl Running {
    pub(super) fn new(reason: Reason, started: Tick) -> Running {
        Running { reason, started, progress: Progress::Gathering, acked: BTreeSet::new(), committables: BTreeSet::new() }
    }
}

impl Checkpoint {
    pub(super) fn acked(&mut self, task: TaskId, attempt: Attempt, committables: Vec<CommittableId>, out: &mut Vec<Effect>) {
        if !self.is_ours(attempt.generation) {
            return;
        }
        assert!(attempt.epoch < self.next_epoch, "task={task} acknowledged attempt={attempt} that was never started");
        assert!(self.config.tasks.contains(&task), "task={task} is not one of this job's");
        assert!(committables.iter().all(|c| c.task == task), "task={task} acknowledged a committable of another task");
        let epoch = match self.running.keys().next() {
            Some(running) if broken(Mutation::AcceptLateAck) && attempt.epoch < *running => *running,
            _ => attempt.epoch,
        };
        let Some(running) = self.running.get_mut(&epoch) else {
            self.stale.add_one();
            return;
        };
        if !running.acked.insert(task) {
            self.stale.add_one();
            return;
        }
        running.committables.extend(committables);
        let missing = self.config.tasks.difference(&running.acked).count();
        let needless =
            usize::from(broken(Mutation::SealWithoutLastAck) || (running.reason == Reason::Final && broken(Mutation::FinalByOneTask)));
        if missing <= needless && running.progress == Progress::Gathering {
            running.progress = Progress::Complete;
            if broken(Mutation::PermitBeforeDurable) {
                self.permit_too_early(epoch, out);
            }
        }
    }

    fn permit_too_early(&self, epoch: Epoch, out: &mut Vec<Effect>) {
        if let Some(running) = self.running.get(&epoch) {
            let committables = running.committables.iter().copied().collect();
            let durable = DurableEpoch { attempt: self.attempt(epoch), reason: running.reason, committables };
            let permit = CommitPermit::new(self.generation, &durable);
            out.push(Effect::EpochDurable { permit, reason: running.reason, origin: PermitOrigin::Sealed });
        }
    }

    pub(super) fn declined(&mut self, now: Tick, task: TaskId, attempt: Attempt, out: &mut Vec<Effect>) {
        if !self.is_ours(attempt.generation) {
            return;
        }
        match self.running.get(&attempt.epoch) {
            Some(running) if running.progress == Progress::Gathering => self.fail(now, attempt.epoch, EpochFailure::Declined(task), out),
            Some(_) | None => self.stale.add_one(),
        }
    }

    pub(super) fn task_finished(&mut self, task: TaskId, generation: Generation, out: &mut Vec<Effect>) {
        if !self.is_ours(generation) {
            return;
        }
        if !self.finished.insert(task) {
            self.stale.add_one();
            return;
        }
        // No barrier will reach the task any more; it may have ended before one of these came.
        for (epoch, running) in &self.running {
            if running.progress == Progress::Gathering && !running.acked.contains(&task) {
                let attempt = self.attempt(*epoch);
                out.push(Effect::Trigger { attempt, reason: running.reason, tasks: BTreeSet::from([task]) });
            }
        }
    }

    /// Sends the oldest complete epoch to the ledger, one at a time: what the next one names depends on whether this one gets there.
    pub(super) fn seal(&mut self, out: &mut Vec<Effect>) {
        if self.running.values().any(|r| r.progress == Progress::Sealing) {
            return;
        }
        let Some(epoch) = self.running.iter().find(|(_, r)| r.progress == Progress::Complete).map(|(e, _)| *e) else { return };
        while let Some((&older, _)) = self.running.first_key_value()
            && older < epoch
        {
            self.running.remove(&older);
            out.push(Effect::AbandonEpoch { attempt: self.attempt(older) });
        }
        let settled = self.uncommitted.first().map_or(self.durable_max, |first| Epoch(first.0 - 1));
        let attempt = self.attempt(epoch);
        let durable_max = self.durable_max;
        if let Some(running) = self.running.get_mut(&epoch) {
            running.progress = Progress::Sealing;
            let named = |c: &CommittableId| c.attempt.epoch > durable_max;
            let own = |c: &CommittableId| c.attempt.epoch == epoch || !broken(Mutation::ForgetCarried);
            let committables = running.committables.iter().copied().filter(named).filter(own).collect();
            out.push(Effect::Append { entry: Entry::Sealed { attempt, reason: running.reason, committables, settled } });
        }
    }

    pub(super) fn appended(&mut self, now: Tick, entry: Entry, out: &mut Vec<Effect>) {
        match entry {
            Entry::Sealed { attempt, reason, committables, .. } => {
                let was = self.running.remove(&attempt.epoch).map(|r| r.progress);
                assert!(was == Some(Progress::Sealing), "the ledger has attempt={attempt} that was not being sealed");
                self.became_durable(now, DurableEpoch { attempt, reason, committables }, out);
            }
            Entry::Stopped { .. } => {
                if let Phase::Stopping { reason } = self.phase {
                    self.phase = Phase::Closed;
                    out.push(Effect::JobFinished { reason });
                }
            }
            Entry::Claimed { .. } | Entry::Committed { .. } => panic!("this machine never asked for entry={entry:?}"),
        }
    }

    fn became_durable(&mut self, now: Tick, durable: DurableEpoch, out: &mut Vec<Effect>) {
        let epoch = durable.attempt.epoch;
        let reason = durable.reason;
        self.durable_max = epoch;
        self.failures = 0;
        self.not_before = now + self.config.pause_min;
        if self.requested == Some(reason) {
            self.requested = None;
        }
        if !durable.committables.is_empty() {
            self.uncommitted.insert(epoch);
        }
        if !broken(Mutation::PermitBeforeDurable) {
            let permit = CommitPermit::new(self.generation, &durable);
            out.push(Effect::EpochDurable { permit, reason, origin: PermitOrigin::Sealed });
        }
        if reason.ends_job() {
            self.phase = Phase::Ending { reason };
        }
    }

    pub(super) fn refused(&mut self, now: Tick, entry: Entry, kind: ErrorKind, out: &mut Vec<Effect>) {
        match entry {
            Entry::Sealed { attempt, .. } => self.fail(now, attempt.epoch, EpochFailure::StoreRefused(kind), out),
            // The end is asked for again by the next generation; until then everything is committed and nothing runs.
            Entry::Stopped { .. } => {
                self.phase = Phase::Closed;
                out.push(Effect::FailJob { failure: EpochFailure::StoreRefused(kind) });
            }
            Entry::Claimed { .. } | Entry::Committed { .. } => panic!("this machine never asked for entry={entry:?}"),
        }
    }
}
