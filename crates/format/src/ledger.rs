//! Ledger entries: who ran, what each epoch read and wrote, what became visible; each carries the hash of the one before.
//!
//! Owns: their stored form, their hash, and the check that entries form one chain ([`Chain`]). Does not own: when an entry may be
//! appended, or what it means for recovery (`staunch-protocol`).
//! Comes from the coordinator, goes to the next coordinator and to auditors.
//!
//! Invariants:
//! 1. The hash of an entry is the SHA-256 of all its bytes; the first entry carries zeros.
//! 2. As for all records: see `record` for what may change without a new version.

mod chain;

use serde::{Deserialize, Serialize};
use staunch_types::{Digest, Epoch, Generation, LedgerSeq, Name, Result};

pub use chain::{Break, Chain};

use crate::facts::{Attempt, CommittableId, Opaque, OperatorCounts, Reason, Sha256, SplitRange};
use crate::frame::FrameKind;
use crate::record;

/// The frame of an entry.
pub const LEDGER_FRAME: FrameKind = FrameKind { magic: *b"STNL", version: 1, version_min: 1, name: "ledger entry" };

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Its position.
    pub seq: LedgerSeq,
    /// Hash of the entry before; zeros for the first.
    pub previous: Sha256,
    /// The job.
    pub job: Name,
    /// The generation that appended it.
    pub generation: Generation,
    /// When, in milliseconds since 1970; for people.
    pub wall_ms: i64,
    /// What it says.
    pub body: Body,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// A new generation begins; all older ones are fenced.
    Claimed(Claimed),
    /// An epoch is durable.
    Sealed(Sealed),
    /// Everything that an epoch names is committed, or accepted as lost.
    Committed(Committed),
    /// The job ended, with everything committed.
    Stopped(Stopped),
}

/// A new generation begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// A number that no other claimant has.
    pub claimant: u128,
    /// What it starts from.
    pub origin: Origin,
    /// Fingerprint of the job's plan.
    pub fingerprint: u64,
    /// Version of the program, as it calls itself.
    pub code_version: String,
    /// Hash of the settings.
    pub config: Sha256,
}

/// What a generation starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Nothing.
    Empty,
    /// A durable epoch of this ledger.
    Epoch(Epoch),
    /// A durable epoch of another job's ledger.
    Fork(Epoch),
}

/// An epoch is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The attempt that succeeded.
    pub attempt: Attempt,
    /// Why it was started.
    pub reason: Reason,
    /// Every epoch up to this one that names something is recorded as committed.
    pub settled: Epoch,
    /// Where the manifest is.
    pub manifest: ManifestName,
    /// What was read.
    pub sources: Vec<SourceReads>,
    /// Records of each operator, over its tasks.
    pub operators: Vec<OperatorTotal>,
    /// What must be committed, in order.
    pub committables: Vec<CommittableTotal>,
}

/// A manifest, pinned by its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestName {
    /// Path of the object in the checkpoint store.
    pub path: String,
    /// Its bytes.
    pub length: u64,
    /// Their hash.
    pub sha256: Sha256,
}

/// What one source read in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReads {
    /// The source's name.
    pub source: Name,
    /// The ranges of its splits.
    pub ranges: Vec<SplitRange>,
}

/// Records of one operator in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorTotal {
    /// The operator's name.
    pub operator: Name,
    /// Over all its tasks.
    pub counts: OperatorCounts,
}

/// A committable: what must become visible, and stays to be proven when its manifest has long been removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittableTotal {
    /// Which.
    pub id: CommittableId,
    /// The sink's kind.
    pub kind: String,
    /// The file or transaction.
    pub description: String,
    /// The records in it.
    pub digest: Digest,
    /// What the sink needs to find it again; empty in entries of versions that kept it in the manifest only.
    #[serde(default)]
    pub body: Opaque,
}

/// Everything that an epoch names is committed, or accepted as lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The epoch.
    pub epoch: Epoch,
    /// What became of each committable.
    pub outcomes: Vec<CommitOutcome>,
}

/// What became of one committable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitOutcome {
    /// Which.
    pub id: CommittableId,
    /// The records in it.
    pub digest: Digest,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a committable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is visible.
    Committed {
        /// What was seen.
        proof: String,
        /// What the sink needs to find the output, where it was written again by an earlier start; else empty.
        #[serde(default)]
        place: Opaque,
    },
    /// It was lost, and its records were written and committed again.
    Resent {
        /// What was seen.
        proof: String,
        /// What the sink needs to find it where it is now; empty where that is the same place.
        #[serde(default)]
        place: Opaque,
    },
    /// It was lost, and a person accepted that.
    AcceptedLost {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
}

/// The job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// Why.
    pub reason: String,
}

impl LedgerEntry {
    /// The entry's bytes. The same entry always has the same bytes.
    ///
    /// # Errors
    /// `Invalid` when it is beyond a limit of the value format.
    pub fn encode(&self) -> Result<Vec<u8>> {
        record::seal(LEDGER_FRAME, self)
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are damaged, `Invalid` when a newer version wrote them.
    pub fn decode(bytes: &[u8]) -> Result<LedgerEntry> {
        record::open(LEDGER_FRAME, bytes)
    }

    /// An entry's bytes as JSON, also with fields that this version does not know.
    ///
    /// # Errors
    /// As [`LedgerEntry::decode`].
    pub fn to_json(bytes: &[u8]) -> Result<serde_json::Value> {
        record::open_json(LEDGER_FRAME, bytes)
    }

    /// The hash of an entry's bytes, which the next entry carries.
    #[must_use]
    pub fn hash(bytes: &[u8]) -> Sha256 {
        Sha256::of(bytes)
    }
}
