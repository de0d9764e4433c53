//! The figures of a job as a whole and of its sinks.
//!
//! They outlive generations: what is in doubt is in doubt also while the job stands still.
//!
//! Invariant: an output is in doubt from the moment its writer says that it is prepared, or a start finds it in the ledger, until its commit is
//! proven, its loss is accepted, or a start finds that no durable epoch names it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use staunch_api::{Committable, Counter, Gauge, Metrics, Moment, Term, Times};
use staunch_protocol::Attempt;
use staunch_types::{Epoch, Generation, Name, TaskId, Tick};

use super::figures;
use crate::checkpoint::{CheckpointRecord, Loaded, NamedCommittable};
use crate::operator::OperatorCounts;

/// The figures of a job; clones tell the same.
#[derive(Clone)]
pub(crate) struct JobFigures(Arc<Mutex<Told>>);

/// Until when the outside keeps an output of a sink.
pub(crate) type TermOf = fn(&Committable) -> Option<Term>;

/// What was done with an output, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It is committed, or was found committed.
    Committed,
    /// It was lost, is written again and committed.
    Resent,
    /// It is provably lost.
    Lost,
    /// It was not found out.
    Failed,
}

struct Told {
    metrics: Metrics,
    generation: Gauge,
    tasks: Gauge,
    restarts: Counter,
    epoch_durable: Gauge,
    epoch_committed: Gauge,
    checkpoints: Counter,
    checkpoints_failed: Counter,
    checkpoint_took: Times,
    checkpoint_age: Moment,
    records: BTreeMap<Name, Records>,
    sinks: BTreeMap<Name, SinkFigures>,
}

struct Records {
    taken_in: Counter,
    given_out: Counter,
    late: Counter,
    rejected: Counter,
}

struct SinkFigures {
    in_doubt: Gauge,
    age: Moment,
    left: Moment,
    commits: Counter,
    latency: Times,
    failures: Counter,
    resends: Counter,
    lost: Counter,
    accepted: Counter,
    /// Until when the outside keeps an output.
    term: TermOf,
    outputs: BTreeMap<OutputId, InDoubt>,
    /// Proven, and not known to be recorded: a start finds these once more.
    proven: BTreeSet<OutputId>,
    /// Found to be lost, and not known to be recorded.
    found_lost: BTreeSet<OutputId>,
}

/// Tells an output of a sink from every other, in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OutputId {
    attempt: Attempt,
    task: TaskId,
    number: u32,
}

impl OutputId {
    fn of(named: &NamedCommittable) -> OutputId {
        let Committable { epoch, generation, .. } = named.committable;
        OutputId { attempt: Attempt { epoch, generation }, task: named.task, number: named.number }
    }
}

#[derive(Clone, Copy, Debug)]
struct InDoubt {
    term: Option<Term>,
    sealed: Option<Sealed>,
}

/// When the epoch was sealed that names an output.
#[derive(Clone, Copy, Debug)]
struct Sealed {
    at: Tick,
    /// How long before that, when another process did.
    before: Duration,
}

impl JobFigures {
    /// The figures of a job; all that can be counted counts from 0.
    pub(crate) fn new(metrics: &Metrics, job: &Name, sinks: impl Iterator<Item = (Name, TermOf)>) -> JobFigures {
        let metrics = metrics.with("job", job.to_string());
        let sinks = sinks.map(|(name, term)| (name.clone(), SinkFigures::new(&metrics, &name, term)));
        let figures = Told {
            generation: metrics.gauge(figures::GENERATION),
            tasks: metrics.gauge(figures::TASKS),
            restarts: metrics.counter(figures::RESTARTS),
            epoch_durable: metrics.gauge(figures::EPOCH_DURABLE),
            epoch_committed: metrics.gauge(figures::EPOCH_COMMITTED),
            checkpoints: metrics.counter(figures::CHECKPOINTS),
            checkpoints_failed: metrics.counter(figures::CHECKPOINTS_FAILED),
            checkpoint_took: metrics.times(figures::CHECKPOINT_TOOK),
            checkpoint_age: metrics.seconds_since(figures::CHECKPOINT_AGE),
            records: BTreeMap::new(),
            sinks: sinks.collect(),
            metrics,
        };
        figures.tasks.set(Some(0));
        JobFigures(Arc::new(Mutex::new(figures)))
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger was read: this is in doubt, and nothing else.
    pub(crate) fn found(&self, loaded: &Loaded, now: Tick, wall_ms: i64) {
        let mut told = self.told();
        let durable = loaded.facts.epoch_max;
        told.epoch_durable.set((durable > Epoch(0)).then_some(durable.0 as i64));
        let committed = loaded.uncommitted.keys().next().map_or(durable, |first| Epoch(first.0.saturating_sub(1)));
        told.committed_up_to(committed);
        told.checkpoint_age.set(loaded.restored.as_ref().map(|record| record.wall_ms));
        told.sinks.values_mut().for_each(|sink| sink.outputs.clear());
        for record in loaded.uncommitted.values() {
            let before = Duration::from_millis(u64::try_from(wall_ms.saturating_sub(record.wall_ms)).unwrap_or(0));
            for named in &record.committables {
                told.take(named, Some(Sealed { at: now, before }));
            }
        }
        told.sinks.values().for_each(SinkFigures::show);
    }

    /// A generation was claimed.
    pub(crate) fn claimed(&self, generation: Generation) {
        self.told().generation.set(i64::try_from(generation.0).ok());
    }

    /// So many tasks run.
    pub(crate) fn running(&self, tasks: usize) {
        self.told().tasks.set(i64::try_from(tasks).ok());
    }

    /// No task runs; the job starts again after a while.
    pub(crate) fn restarting(&self) {
        self.told().restarts.add(1);
    }

    /// A writer has prepared outputs.
    pub(crate) fn prepared<'a>(&self, named: impl Iterator<Item = &'a NamedCommittable>) {
        let mut told = self.told();
        for named in named {
            told.take(named, None);
            told.show(&named.sink);
        }
    }

    /// An epoch was given up.
    pub(crate) fn epoch_failed(&self) {
        self.told().checkpoints_failed.add(1);
    }

    /// An epoch is durable.
    pub(crate) fn durable(&self, record: &CheckpointRecord, took: Duration, counts: &BTreeMap<Name, OperatorCounts>, now: Tick) {
        let mut told = self.told();
        told.checkpoints.add(1);
        told.checkpoint_took.add(took);
        told.epoch_durable.set(i64::try_from(record.epoch().0).ok());
        told.checkpoint_age.set(Some(record.wall_ms));
        for (name, counts) in counts {
            told.count(name, *counts);
        }
        for named in &record.committables {
            told.take(named, Some(Sealed { at: now, before: Duration::ZERO }));
            told.show(&named.sink);
        }
    }

    /// Something was done with an output.
    pub(crate) fn done(&self, named: &NamedCommittable, deed: Deed, now: Tick) {
        let mut told = self.told();
        let Some(sink) = told.sinks.get_mut(&named.sink) else { return };
        let id = OutputId::of(named);
        match deed {
            Deed::Committed | Deed::Resent => sink.proven(id, deed, now),
            Deed::Lost => {
                if sink.found_lost.insert(id) {
                    sink.lost.add(1);
                }
            }
            Deed::Failed => sink.failures.add(1),
        }
        sink.show();
    }

    /// All that an epoch and those before it name is committed, or accepted as lost, and recorded.
    pub(crate) fn committed(&self, epoch: Epoch) {
        let mut told = self.told();
        told.committed_up_to(epoch);
        told.sinks.values_mut().for_each(|sink| sink.recorded(epoch));
    }
}

impl Told {
    fn committed_up_to(&self, epoch: Epoch) {
        self.epoch_committed.set((epoch > Epoch(0)).then_some(epoch.0 as i64));
    }

    fn take(&mut self, named: &NamedCommittable, sealed: Option<Sealed>) {
        let Some(sink) = self.sinks.get_mut(&named.sink) else { return };
        let id = OutputId::of(named);
        if sink.proven.contains(&id) {
            return;
        }
        let term = (sink.term)(&named.committable);
        let output = sink.outputs.entry(id).or_insert(InDoubt { term, sealed: None });
        output.sealed = output.sealed.or(sealed);
    }

    fn show(&self, sink: &Name) {
        if let Some(sink) = self.sinks.get(sink) {
            sink.show();
        }
    }

    fn count(&mut self, operator: &Name, counts: OperatorCounts) {
        let records = self.records.entry(operator.clone()).or_insert_with(|| {
            let metrics = self.metrics.with("operator", operator.to_string());
            Records {
                taken_in: metrics.counter(figures::RECORDS_IN),
                given_out: metrics.counter(figures::RECORDS_OUT),
                late: metrics.counter(figures::RECORDS_LATE),
                rejected: metrics.counter(figures::RECORDS_REJECTED),
            }
        });
        records.taken_in.add(counts.records_in);
        records.given_out.add(counts.records_out);
        records.late.add(counts.late);
        records.rejected.add(counts.rejected);
    }
}

impl SinkFigures {
    fn new(metrics: &Metrics, name: &Name, term: TermOf) -> SinkFigures {
        let metrics = metrics.with("sink", name.to_string());
        let sink = SinkFigures {
            in_doubt: metrics.gauge(figures::IN_DOUBT),
            age: metrics.seconds_since(figures::IN_DOUBT_AGE),
            left: metrics.seconds_until(figures::IN_DOUBT_LEFT),
            commits: metrics.counter(figures::COMMITS),
            latency: metrics.times(figures::COMMIT_LATENCY),
            failures: metrics.counter(figures::COMMIT_FAILURES),
            resends: metrics.counter(figures::RESENDS),
            lost: metrics.counter(figures::LOST),
            accepted: metrics.counter(figures::ACCEPTED),
            term,
            outputs: BTreeMap::new(),
            proven: BTreeSet::new(),
            found_lost: BTreeSet::new(),
        };
        sink.show();
        sink
    }

    fn proven(&mut self, id: OutputId, deed: Deed, now: Tick) {
        let Some(output) = self.outputs.remove(&id) else { return };
        self.proven.insert(id);
        self.commits.add(1);
        if deed == Deed::Resent {
            self.resends.add(1);
        }
        if let Some(Sealed { at, before }) = output.sealed {
            self.latency.add(before + now.since(at));
        }
    }

    /// What is left of the epoch was lost, and is accepted.
    fn recorded(&mut self, epoch: Epoch) {
        let is_of = |id: &OutputId| id.attempt.epoch <= epoch;
        let accepted = self.found_lost.iter().filter(|id| is_of(id) && !self.proven.contains(id)).count();
        self.accepted.add(accepted as u64);
        self.outputs.retain(|id, _| !is_of(id));
        self.proven.retain(|id| !is_of(id));
        self.found_lost.retain(|id| !is_of(id));
        self.show();
    }

    fn show(&self) {
        self.in_doubt.set(i64::try_from(self.outputs.len()).ok());
        let terms = || self.outputs.values().filter_map(|output| output.term);
        self.age.set(terms().map(|term| term.began_ms).min());
        self.left.set(terms().map(|term| term.ends_ms).min());
    }
}

#[cfg(test)]
mod tests;
