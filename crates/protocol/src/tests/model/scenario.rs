//! What is explored: the shape of the job and which faults may happen how often.
//!
//! Owns: the configuration of the machines in the model. Does not own: what faults do.

use std::collections::BTreeSet;
use std::time::Duration;

use staunch_types::TaskId;

use crate::commit::LostPolicy;
use crate::coordinator::Config;
use crate::ledger::Limits;
use crate::{SinkId, checkpoint, commit};

/// Ends no wait by itself: epochs are asked for, one by one.
pub(super) const NEVER: Duration = Duration::from_secs(1 << 30);
/// Of an epoch.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How often each thing may happen in one history; a fault that happened is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Epochs before the final one.
    pub(super) epochs: u8,
    /// Crashes of the coordinator; its tasks may go on or not.
    pub(super) crashes: u8,
    /// A second coordinator starts while the first goes on, and so do its tasks.
    pub(super) takeovers: u8,
    /// Answers of the store or of a sink that get lost, after the deed or before it.
    pub(super) lost_answers: u8,
    /// Messages between coordinator and tasks that get lost.
    pub(super) lost_messages: u8,
    /// News (an epoch is durable, or abandoned) that arrives any time later instead of at once.
    pub(super) late_news: u8,
    /// Messages that arrive twice.
    pub(super) repeats: u8,
    /// Snapshots that cannot be stored: the task has prepared, and declines.
    pub(super) failed_uploads: u8,
    /// Appends that the store refuses.
    pub(super) refusals: u8,
    /// Prepared transactions that the outside system gives up by itself.
    pub(super) expiries: u8,
    /// Stops with a savepoint.
    pub(super) stops: u8,
    /// Restarts from an older epoch or from nothing.
    pub(super) rewinds: u8,
}

/// What the tasks of a coordinator that crashed do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orphans {
    /// They stop with it, and what they had reported is not heard.
    Stop,
    /// They go on until the next generation's writers start; what they report can reach later coordinators at any time.
    GoOn,
}

/// What the end of a source's input is to the channels behind it. Both are right; alignment must cope with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// The channel's end: no barrier follows, and tasks without open channels are triggered by the coordinator.
    CloseChannels,
    /// A word within the channel: barriers go on flowing.
    KeepChannels,
}

/// A job and its faults.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) sources: u32,
    /// Tasks behind the sources, each with a channel from each source; 0 if the sources write themselves.
    pub(super) writers: u32,
    /// Records of each source; there can be fewer sources.
    pub(super) records: [u8; 2],
    /// A source that writes itself has a sink of its own; a writer behind channels writes each record to all.
    pub(super) sinks: u32,
    pub(super) policy: LostPolicy,
    pub(super) concurrent_max: u32,
    pub(super) orphans: Orphans,
    pub(super) ends: Ends,
    pub(super) budget: Budget,
}

impl Scenario {
    /// Two tasks that read one record each and write it each to a sink of its own.
    pub(super) fn fused(name: &'static str, budget: Budget) -> Scenario {
        let (policy, orphans) = (LostPolicy::Fail, Orphans::Stop);
        Scenario {
            name,
            sources: 2,
            writers: 0,
            records: [1, 1],
            sinks: 2,
            policy,
            concurrent_max: 1,
            orphans,
            ends: Ends::CloseChannels,
            budget,
        }
    }

    /// Two sources with a channel each to one writer of two sinks.
    pub(super) fn joined(name: &'static str, budget: Budget) -> Scenario {
        Scenario { writers: 1, ..Scenario::fused(name, budget) }
    }

    pub(super) fn with_records(self, records: [u8; 2]) -> Scenario {
        Scenario { records, ..self }
    }

    pub(super) fn source_tasks(&self) -> BTreeSet<TaskId> {
        (0..self.sources).map(|index| TaskId { chain: 0, index }).collect()
    }

    pub(super) fn writer_tasks(&self) -> BTreeSet<TaskId> {
        (0..self.writers).map(|index| TaskId { chain: 1, index }).collect()
    }

    pub(super) fn sink_ids(&self) -> impl Iterator<Item = SinkId> {
        (0..self.sinks).map(SinkId)
    }

    /// The sinks that a task writes to.
    pub(super) fn sinks_of(&self, task: TaskId) -> Vec<SinkId> {
        match (self.writers, task.chain) {
            (0, _) => vec![SinkId(task.index % self.sinks)],
            (_, 0) => Vec::new(),
            _ => self.sink_ids().collect(),
        }
    }

    /// The records that belong into a sink.
    pub(super) fn records_of(&self, sink: SinkId) -> u16 {
        let sources = self.source_tasks().into_iter().filter(|source| self.writers > 0 || self.sinks_of(*source).contains(&sink));
        sources.flat_map(|source| (0..self.records[source.index as usize]).map(move |at| self.record(source, at))).sum()
    }

    /// The bit of a source's record.
    pub(super) fn record(&self, source: TaskId, position: u8) -> u16 {
        let before: u8 = self.records[..source.index as usize].iter().sum();
        1 << (before + position)
    }

    /// The records before some positions.
    pub(super) fn records_before(&self, positions: &[u8]) -> u16 {
        let of = |(task, end): (TaskId, &u8)| (0..*end).map(|at| self.record(task, at)).sum::<u16>();
        self.source_tasks().into_iter().zip(positions).map(of).sum()
    }

    pub(super) fn config(&self) -> Config {
        let sources = self.source_tasks();
        let tasks = sources.union(&self.writer_tasks()).copied().collect();
        Config {
            ledger: Limits { attempts_max: 10, claims_max: 10, backoff_first: Duration::ZERO, backoff_max: Duration::ZERO },
            checkpoint: checkpoint::Config {
                tasks,
                sources,
                interval: NEVER,
                pause_min: Duration::ZERO,
                timeout: TIMEOUT,
                failures_tolerated: 10,
                concurrent_max: self.concurrent_max,
                uncommitted_max: 4,
            },
            commit: commit::Config {
                sinks: self.sink_ids().map(|sink| (sink, self.policy)).collect(),
                retries_max: 10,
                backoff_first: Duration::ZERO,
                backoff_max: Duration::ZERO,
                in_flight_max: 8,
            },
        }
    }
}
