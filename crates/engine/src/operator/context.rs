//! What a task's nodes share while they work on a control or a slice.

use std::collections::BTreeMap;

use staunch_api::{Committable, SplitRead};
use staunch_types::{Epoch, Error, KeyGroupCount, KeyGroupRange, Name, TaskId, Tick};

use crate::checkpoint::{DatabasePart, Segment, Upload};

/// Handed to `control` and `work`.
pub struct TaskContext {
    /// The task.
    pub task: TaskId,
    /// Time at the start of the slice.
    pub now: Tick,
    /// Wall-clock milliseconds at the start of the slice.
    pub wall_ms: i64,
    /// Key groups of the job.
    pub groups: KeyGroupCount,
    /// Key groups of this task.
    pub range: KeyGroupRange,
    /// The snapshot under way.
    pub snapshot: Option<SnapshotPart>,
}

/// What one task contributes to a checkpoint, while it is being put together.
pub struct SnapshotPart {
    /// The epoch.
    pub epoch: Epoch,
    /// By operator.
    pub operators: BTreeMap<Name, OperatorPart>,
    /// Nodes that still write.
    pub unfinished: usize,
    /// Where state blocks go.
    pub upload: Upload,
    /// Why the epoch cannot be completed by this task.
    pub refused: Option<Error>,
}

/// What one operator of one task contributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorPart {
    /// Small values, by what they are: positions, watermarks, what a writer carries.
    pub inline: BTreeMap<String, Vec<u8>>,
    /// Keyed state, by name of the state: all segments from which it can be restored.
    pub states: BTreeMap<String, Vec<Segment>>,
    /// The database with its keyed state, if there is one.
    pub database: Option<DatabasePart>,
    /// Prepared output.
    pub committables: Vec<Committable>,
    /// What was read.
    pub reads: Vec<SplitRead>,
    /// Records since the last snapshot.
    pub counts: OperatorCounts,
}

/// Records of one operator between two barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OperatorCounts {
    /// Taken in.
    pub records_in: u64,
    /// Given out.
    pub records_out: u64,
    /// Too late for their window.
    pub late: u64,
    /// Could not become a record.
    pub rejected: u64,
}

impl OperatorCounts {
    /// Adds the records of another stretch or task.
    pub fn add(&mut self, other: OperatorCounts) {
        self.records_in += other.records_in;
        self.records_out += other.records_out;
        self.late += other.late;
        self.rejected += other.rejected;
    }
}

/// What an operator of a new task gets from the tasks before: everything that overlaps with its key groups.
#[derive(Clone, Debug, Default)]
pub struct OperatorRestore {
    /// Small values of each old task, by what they are.
    pub inline: Vec<BTreeMap<String, Vec<u8>>>,
    /// Segments, by name of the state.
    pub states: BTreeMap<String, Vec<Segment>>,
    /// Databases.
    pub databases: Vec<DatabasePart>,
}

impl TaskContext {
    /// The operator's part of the snapshot under way; `None` when none is.
    pub fn part(&mut self, operator: &Name) -> Option<&mut OperatorPart> {
        self.snapshot.as_mut().map(|s| s.operators.entry(operator.clone()).or_default())
    }

    /// One more node will write after the barrier.
    pub fn expect_more(&mut self) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.unfinished += 1;
        }
    }

    /// A node has written everything.
    pub fn part_finished(&mut self, epoch: Epoch) {
        if let Some(snapshot) = &mut self.snapshot
            && snapshot.epoch == epoch
        {
            assert!(snapshot.unfinished > 0, "a node finished a snapshot part that nobody expects");
            snapshot.unfinished -= 1;
        }
    }
}
