//! Which checkpoints are kept, and the removal of what none of them needs.
//!
//! Invariants:
//! 1. Nothing that a kept checkpoint names is removed. Kept are the newest ones, every one that is not committed yet, and the one this
//!    generation started from until it has made two of its own.
//! 2. Only objects of epochs before the newest durable one are removed, so a newer generation's are never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use staunch_api::{Io, Pending};
use staunch_protocol::{Attempt, CommittableId};
use staunch_types::{Epoch, Name};

use crate::checkpoint::{Catalog, CheckpointRecord, Loaded, NamedCommittable, SinkNames};
use crate::operator::OperatorCounts;

/// The checkpoints of this job, as this generation knows them.
#[derive(Default)]
pub(super) struct Retention {
    kept: BTreeMap<Epoch, CheckpointRecord>,
    sealing: BTreeMap<Attempt, CheckpointRecord>,
    uncommitted: BTreeSet<Epoch>,
    started_from: Option<Epoch>,
    own: usize,
    forgotten: Vec<CheckpointRecord>,
    collecting: Option<Pending<()>>,
    due: bool,
}

impl Retention {
    /// The generation is claimed.
    pub(super) fn begin(&mut self, loaded: &Loaded, catalog: &Arc<Catalog>, io: &Io) {
        self.kept = loaded.retained.iter().chain(loaded.uncommitted.values()).map(|r| (r.epoch(), r.clone())).collect();
        self.uncommitted = loaded.uncommitted.keys().copied().collect();
        self.started_from = loaded.restored.as_ref().map(CheckpointRecord::epoch);
        let catalog = Arc::clone(catalog);
        self.collecting = Some(io.run(move || catalog.clear_unfinished()));
    }

    /// A record is about to be sealed.
    pub(super) fn sealing(&mut self, record: CheckpointRecord) {
        self.sealing.insert(record.attempt, record);
    }

    /// It is. Its records by operator, and how many committables it names.
    pub(super) fn durable(&mut self, attempt: Attempt) -> (BTreeMap<Name, OperatorCounts>, usize) {
        let mut counts: BTreeMap<Name, OperatorCounts> = BTreeMap::new();
        let Some(record) = self.sealing.remove(&attempt) else { return (counts, 0) };
        self.sealing.retain(|a, _| *a > attempt);
        for (name, parts) in &record.operators {
            parts.values().for_each(|p| counts.entry(name.clone()).or_default().add(p.counts));
        }
        let committables = record.committables.len();
        if committables > 0 {
            self.uncommitted.insert(attempt.epoch);
        }
        self.own += 1;
        self.kept.insert(attempt.epoch, record);
        (counts, committables)
    }

    /// A durable epoch that is kept.
    pub(super) fn record(&self, epoch: Epoch) -> Option<&CheckpointRecord> {
        self.kept.get(&epoch)
    }

    /// The durable epochs behind this one, in order, of which, and of all before, everything is committed and recorded.
    pub(super) fn settled(&self, behind: Option<Epoch>) -> impl Iterator<Item = &CheckpointRecord> {
        let first = self.uncommitted.first().copied();
        let is_settled = move |epoch| Some(epoch) > behind && first.is_none_or(|first| epoch < first);
        self.kept.values().filter(move |record| is_settled(record.epoch()))
    }

    /// What an epoch names.
    pub(super) fn committables(&self, epoch: Epoch) -> Vec<NamedCommittable> {
        self.kept.get(&epoch).map(|r| r.committables.clone()).unwrap_or_default()
    }

    /// An epoch, and every one before it, is committed and recorded.
    pub(super) fn committed(&mut self, epoch: Epoch) {
        self.uncommitted.retain(|e| *e > epoch);
    }

    /// Committables of checkpoints that are no longer kept in mind.
    pub(super) fn forgotten(&mut self, names: &SinkNames) -> BTreeSet<CommittableId> {
        self.forgotten.drain(..).flat_map(|r| names.ids(&r.committables).map(|(id, _)| id).collect::<Vec<_>>()).collect()
    }

    /// Drops what is beyond `keep`, and removes its objects behind the door.
    pub(super) fn collect(&mut self, keep: usize, catalog: &Arc<Catalog>, io: &Io) {
        let surplus: Vec<Epoch> = self.kept.keys().rev().skip(keep.max(1)).copied().collect();
        for epoch in surplus {
            let pinned = self.started_from == Some(epoch) && self.own < 2;
            if !self.uncommitted.contains(&epoch)
                && !pinned
                && let Some(record) = self.kept.remove(&epoch)
            {
                self.forgotten.push(record);
                self.due = true;
            }
        }
        if self.due && self.collecting.is_none() {
            self.due = false;
            let Some(newest) = self.kept.keys().next_back().copied() else { return };
            let needed: BTreeSet<String> = self.kept.values().flat_map(CheckpointRecord::objects).map(str::to_owned).collect();
            let manifests: BTreeSet<Epoch> = self.kept.keys().copied().collect();
            let catalog = Arc::clone(catalog);
            self.collecting = Some(io.run(move || catalog.collect(newest, &needed, &manifests)));
        }
    }

    /// Moves on.
    pub(super) fn poll(&mut self) {
        if self.collecting.as_mut().is_some_and(|c| c.poll().is_some()) {
            self.collecting = None;
        }
    }
}
