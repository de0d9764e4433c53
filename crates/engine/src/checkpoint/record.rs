//! One checkpoint, as the engine thinks of it.

use std::collections::BTreeMap;

use staunch_api::Committable;
use staunch_protocol::{Attempt, CommittableId, Reason};
use staunch_types::{Epoch, KeyGroupCount, Name, TaskId};

use crate::cluster::SplitBytes;
use crate::operator::OperatorPart;

/// Everything that a checkpoint names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// The attempt that made it.
    pub attempt: Attempt,
    /// Why.
    pub reason: Reason,
    /// The job.
    pub job: Name,
    /// Fingerprint of the plan.
    pub fingerprint: u64,
    /// Key groups of the job.
    pub groups: KeyGroupCount,
    /// What each operator of each task contributed.
    pub operators: BTreeMap<Name, BTreeMap<TaskId, OperatorPart>>,
    /// What each source's enumerator knew.
    pub sources: BTreeMap<Name, SourceRecord>,
    /// What must be committed, in order; all of it in the parts above or left by abandoned epochs.
    pub committables: Vec<NamedCommittable>,
    /// Wall-clock milliseconds when it was put together; for people.
    pub wall_ms: i64,
}

/// A committable with the sink it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCommittable {
    /// The sink's name.
    pub sink: Name,
    /// The sink's kind.
    pub kind: String,
    /// The task that prepared it.
    pub task: TaskId,
    /// Its number among those of the same attempt, sink and task.
    pub number: u32,
    /// The committable.
    pub committable: Committable,
}

/// What an enumerator knew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRecord {
    /// Its state.
    pub state: Option<Vec<u8>>,
    /// Found, and given to no reader.
    pub unassigned: Vec<SplitBytes>,
}

impl NamedCommittable {
    /// The protocol's id, under the number that the sink has in this process.
    #[must_use]
    pub fn id(&self, sink: staunch_protocol::SinkId) -> CommittableId {
        let attempt = Attempt { epoch: self.committable.epoch, generation: self.committable.generation };
        CommittableId { attempt, sink, task: self.task, number: self.number }
    }
}

impl CheckpointRecord {
    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.attempt.epoch
    }

    /// Paths of all state objects that it needs.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        let parts = || self.operators.values().flat_map(BTreeMap::values);
        let files = parts().filter_map(|p| p.database.as_ref()).flat_map(|d| &d.stored.files).map(|f| f.path.as_str());
        parts().flat_map(|p| p.states.values()).flatten().map(|s| s.path.as_str()).chain(files)
    }
}
