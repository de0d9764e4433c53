//! Between the engine's records and the durable forms of staunch-format.

use staunch_protocol::ledger::Entry;
use staunch_types::{LedgerSeq, Name, Result};

use super::{CheckpointRecord, EntryPayload, SinkNames};

/// An entry as it was read.
#[derive(Clone, Debug)]
pub struct ReadEntry {
    /// Its position.
    pub seq: LedgerSeq,
    /// The hash it carries of the one before.
    pub previous: [u8; 32],
    /// Its own hash.
    pub hash: [u8; 32],
    /// The job.
    pub job: Name,
    /// What the protocol needs of it.
    pub entry: Entry,
}

pub(super) fn hash(_bytes: &[u8]) -> [u8; 32] { todo!() }
pub(super) fn encode_manifest(_record: &CheckpointRecord) -> Result<Vec<u8>> { todo!() }
pub(super) fn decode_manifest(_bytes: &[u8], _entry: &ReadEntry) -> Result<CheckpointRecord> { todo!() }
pub(super) fn encode_entry(_job: &Name, _seq: LedgerSeq, _previous: [u8; 32], _entry: &Entry, _payload: &EntryPayload<'_>, _manifest: Option<(&str, &[u8])>) -> Result<Vec<u8>> { todo!() }
pub(super) fn decode_entry(_bytes: &[u8], _names: &mut SinkNames) -> Result<ReadEntry> { todo!() }
