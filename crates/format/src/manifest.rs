//! The manifest: everything one checkpoint consists of.
//!
//! Owns: its stored form. Does not own: what the inline bytes, splits and committables mean (their operators, sources and sinks
//! do), nor whether it is durable (it is when the ledger names it).
//! Comes from the coordinator at a seal, goes to whoever restores, inspects or verifies.
//!
//! Invariants:
//! 1. Segments of a state are in the order in which they must be applied.
//! 2. As for all records: see `record` for what may change without a new version.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};
use staunch_types::{Digest, Epoch, KeyGroupRange, Name, Result, TaskId};

use crate::facts::{Attempt, CommittableId, Opaque, OperatorCounts, Reason, SplitRange};
use crate::frame::FrameKind;
use crate::record;
use crate::value::Schema;

/// The frame of a manifest. Since version 2 a task may keep its keyed state in a database, which a reader must not pass over.
pub const MANIFEST_FRAME: FrameKind = FrameKind { magic: *b"STNM", version: 2, version_min: 1, name: "manifest" };

/// One checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The job.
    pub job: Name,
    /// Fingerprint of the job's plan.
    pub fingerprint: u64,
    /// Version of the program, as it calls itself.
    pub code_version: String,
    /// The attempt that made it.
    pub attempt: Attempt,
    /// Why it was made.
    pub reason: Reason,
    /// When it was put together, in milliseconds since 1970; for people.
    pub wall_ms: i64,
    /// Key groups of the job.
    pub key_groups: u32,
    /// The chains, by their position in the plan.
    pub chains: Vec<ChainPlan>,
    /// The operators that have something to keep, with what their tasks contributed.
    pub operators: Vec<OperatorPart>,
    /// What each source's enumerator knew.
    pub sources: Vec<SourcePart>,
    /// What must be committed, in order.
    pub committables: Vec<Committable>,
}

/// A chain of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainPlan {
    /// The names of its operators, in the data's order; operators without a name are left out.
    pub operators: Vec<Name>,
    /// Its tasks.
    pub parallelism: u32,
}

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorPart {
    /// Its name.
    pub name: Name,
    /// What it is, such as `source`, `window`, `sink`.
    pub kind: String,
    /// What each of its tasks contributed.
    pub tasks: Vec<TaskPart>,
}

/// What one task contributed for one operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPart {
    /// The task.
    pub task: TaskId,
    /// Small values: positions, watermarks, what a writer carries over.
    pub inline: Vec<Inline>,
    /// Its keyed states, as far as they are stored in blocks.
    pub states: Vec<StatePart>,
    /// The database with its keyed states, if there is one.
    #[serde(default)]
    pub database: Option<DatabasePart>,
    /// Of a source: what was read in this epoch.
    pub reads: Vec<SplitRange>,
    /// Records of this epoch.
    pub counts: OperatorCounts,
}

/// A small value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inline {
    /// What it is.
    pub kind: String,
    /// The value, in its operator's own form.
    pub bytes: Opaque,
}

/// A keyed state of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePart {
    /// Its name.
    pub name: String,
    /// How its keys and values are written, as far as is known without reading a block.
    pub schemas: Option<StateSchemas>,
    /// Where it is stored, in the order in which it must be applied.
    pub segments: Vec<Segment>,
}

/// The database of one operator of one task: all of its keyed state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabasePart {
    /// The kind of the backend that made it, such as `rocksdb`.
    pub kind: String,
    /// Key groups that may occur in it.
    pub groups: KeyGroupRange,
    /// Its states, in the order of their numbers in the database.
    pub states: Vec<DatabaseState>,
    /// Its files.
    pub files: Vec<DatabaseFile>,
}

/// A keyed state in a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseState {
    /// Its name.
    pub name: String,
    /// How its keys and values are written.
    pub schemas: StateSchemas,
}

/// A file of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseFile {
    /// Its name in the database.
    pub name: String,
    /// Path of the object in the checkpoint store.
    pub path: String,
    /// Bytes.
    pub length: u64,
    /// CRC32C of the bytes.
    pub crc: u32,
}

/// How the keys and values of a state are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSchemas {
    /// Keys.
    #[serde(with = "stored_schema")]
    pub key: Schema,
    /// Values.
    #[serde(with = "stored_schema")]
    pub value: Schema,
}

/// A stretch of an object that holds state blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Path of the object in the checkpoint store.
    pub path: String,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// CRC32C of these bytes, so that a block in the wrong place is noticed as well as a damaged one.
    pub crc: u32,
    /// Key groups that may occur in it.
    pub groups: KeyGroupRange,
    /// The epoch that wrote it.
    pub epoch: Epoch,
}

/// What a source's enumerator knew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePart {
    /// The source's name.
    pub name: Name,
    /// The enumerator's state, in its own form.
    pub state: Option<Opaque>,
    /// Splits that were found and given to no reader.
    pub unassigned: Vec<Split>,
}

/// A split with its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Its id.
    pub id: String,
    /// The split, in its source's own form.
    pub bytes: Opaque,
}

/// A committable with everything needed to commit, resolve and verify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committable {
    /// Which.
    pub id: CommittableId,
    /// The sink's kind.
    pub kind: String,
    /// All that the sink needs, in its own form.
    pub body: Opaque,
    /// For people: the file or transaction.
    pub description: String,
    /// The records in it.
    pub digest: Digest,
}

impl Manifest {
    /// The manifest's bytes.
    ///
    /// # Errors
    /// `Invalid` when it is beyond a limit of the value format.
    pub fn encode(&self) -> Result<Vec<u8>> {
        record::seal(MANIFEST_FRAME, self)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are damaged, `Invalid` when a newer version wrote them.
    pub fn decode(bytes: &[u8]) -> Result<Manifest> {
        record::open(MANIFEST_FRAME, bytes)
    }

    /// A manifest's bytes as JSON, also with fields that this version does not know.
    ///
    /// # Errors
    /// As [`Manifest::decode`].
    pub fn to_json(bytes: &[u8]) -> Result<serde_json::Value> {
        record::open_json(MANIFEST_FRAME, bytes)
    }

    /// All segments of all states.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        let tasks = self.operators.iter().flat_map(|operator| &operator.tasks);
        tasks.flat_map(|task| &task.states).flat_map(|state| &state.segments)
    }

    /// All files of all databases.
    pub fn database_files(&self) -> impl Iterator<Item = &DatabaseFile> {
        let tasks = self.operators.iter().flat_map(|operator| &operator.tasks);
        tasks.filter_map(|task| task.database.as_ref()).flat_map(|database| &database.files)
    }
}

impl DatabaseFile {
    /// The checksum of a file's bytes, piece by piece: 0 before the first.
    #[must_use]
    pub fn crc_of(before: u32, piece: &[u8]) -> u32 {
        crc32c::crc32c_append(before, piece)
    }
}

impl Segment {
    /// Whether `bytes` are those that the segment names.
    #[must_use]
    pub fn matches(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.length && Segment::crc_of(bytes) == self.crc
    }

    /// The checksum of a segment's bytes.
    #[must_use]
    pub fn crc_of(bytes: &[u8]) -> u32 {
        crc32c::crc32c(bytes)
    }
}

/// A schema as the bytes of [`Schema::to_bytes`].
mod stored_schema {
    use super::*;

    pub(super) fn serialize<S: Serializer>(schema: &Schema, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&schema.to_bytes())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Schema, D::Error> {
        let bytes = Opaque::deserialize(deserializer)?;
        Schema::from_bytes(&bytes.0).map_err(de::Error::custom)
    }
}
