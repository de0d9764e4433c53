//! Between the engine's records and the durable forms of staunch-format.
//!
//! Owns: the mapping, field by field, in both directions. Does not own: the bytes.

use std::collections::BTreeMap;

use staunch_api::{Committable, Proof, SplitRead, StoredDatabase, StoredFile};
use staunch_format::ledger::{
    Body, Claimed, CommitOutcome, CommittableTotal, Committed, LedgerEntry, ManifestName, OperatorTotal, Origin as StoredOrigin, Outcome,
    Sealed, SourceReads, Stopped,
};
use staunch_format::{Opaque, Sha256, SplitRange, manifest as stored};
use staunch_protocol::ledger::{Claimant, Entry, Origin};
use staunch_protocol::{Attempt, CommittableId, Reason};
use staunch_types::{Error, ErrorKind, KeyGroupCount, LedgerSeq, Name, Result};

use super::{CheckpointRecord, DatabasePart, DatabaseState, EntryPayload, NamedCommittable, Segment, SinkNames, SourceRecord};
use crate::cluster::SplitBytes;
use crate::operator::{OperatorCounts, OperatorPart};

/// An entry as it was read.
#[derive(Clone, Debug)]
pub struct ReadEntry {
    /// Its position.
    pub seq: LedgerSeq,
    /// Its own hash.
    pub hash: [u8; 32],
    /// What the protocol needs of it.
    pub entry: Entry,
    /// All of it.
    pub stored: LedgerEntry,
}

/// The hash of an entry's bytes.
pub(super) fn hash(bytes: &[u8]) -> [u8; 32] {
    LedgerEntry::hash(bytes).0
}

/// A manifest's bytes.
pub(super) fn encode_manifest(record: &CheckpointRecord, payload: &EntryPayload<'_>) -> Result<Vec<u8>> {
    let operators = record.operators.iter().map(|(name, tasks)| stored::OperatorPart {
        name: name.clone(),
        kind: payload.kinds.get(name).cloned().unwrap_or_default(),
        tasks: tasks.iter().map(|(task, part)| task_part(*task, part)).collect(),
    });
    let sources = record.sources.iter().map(|(name, source)| stored::SourcePart {
        name: name.clone(),
        state: source.state.clone().map(Opaque),
        unassigned: source.unassigned.iter().map(|s| stored::Split { id: s.id.clone(), bytes: Opaque(s.bytes.clone()) }).collect(),
    });
    stored::Manifest {
        job: record.job.clone(),
        fingerprint: record.fingerprint,
        code_version: payload.code_version.to_owned(),
        attempt: attempt_out(record.attempt),
        reason: reason_out(record.reason),
        wall_ms: record.wall_ms,
        key_groups: record.groups.get(),
        chains: payload.chains.to_vec(),
        operators: operators.collect(),
        sources: sources.collect(),
        committables: record.committables.iter().map(committable_out).collect(),
    }
    .encode()
}

/// A manifest from its bytes.
pub(super) fn decode_manifest(bytes: &[u8], entry: &ReadEntry) -> Result<CheckpointRecord> {
    if let Body::Sealed(sealed) = &entry.stored.body
        && (sealed.manifest.sha256 != Sha256::of(bytes) || sealed.manifest.length != bytes.len() as u64)
    {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "C018",
            format!("the manifest is not the one that ledger entry {} names: its hash differs", entry.seq),
        )
        .data("the checkpoint cannot be restored; nothing was changed")
        .remedy("restore an older checkpoint: `staunch checkpoints` lists them; keep the file as evidence"));
    }
    let manifest = stored::Manifest::decode(bytes)?;
    let groups = KeyGroupCount::new(manifest.key_groups).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, "C019", format!("the manifest has {} key groups, which no job has", manifest.key_groups))
            .data("the checkpoint cannot be restored; nothing was changed")
    })?;
    let mut operators: BTreeMap<Name, BTreeMap<_, _>> = BTreeMap::new();
    for operator in manifest.operators {
        let tasks = operator.tasks.into_iter().map(|t| (t.task, part_in(t))).collect();
        operators.insert(operator.name, tasks);
    }
    let sources = manifest.sources.into_iter().map(|s| {
        let unassigned = s.unassigned.into_iter().map(|split| SplitBytes { id: split.id, bytes: split.bytes.0 }).collect();
        (s.name, SourceRecord { state: s.state.map(|o| o.0), unassigned })
    });
    Ok(CheckpointRecord {
        attempt: attempt_in(manifest.attempt),
        reason: reason_in(manifest.reason),
        job: manifest.job,
        fingerprint: manifest.fingerprint,
        groups,
        operators,
        sources: sources.collect(),
        committables: manifest.committables.into_iter().map(committable_in).collect(),
        wall_ms: manifest.wall_ms,
    })
}

fn task_part(task: staunch_types::TaskId, part: &OperatorPart) -> stored::TaskPart {
    let states = part.states.iter().map(|(name, segments)| stored::StatePart {
        name: name.clone(),
        schemas: None,
        segments: segments.iter().map(segment_out).collect(),
    });
    stored::TaskPart {
        task,
        inline: part.inline.iter().map(|(kind, bytes)| stored::Inline { kind: kind.clone(), bytes: Opaque(bytes.clone()) }).collect(),
        states: states.collect(),
        database: part.database.as_ref().map(database_out),
        reads: part.reads.iter().map(read_out).collect(),
        counts: counts_out(part.counts),
    }
}

fn part_in(part: stored::TaskPart) -> OperatorPart {
    OperatorPart {
        inline: part.inline.into_iter().map(|i| (i.kind, i.bytes.0)).collect(),
        states: part.states.into_iter().map(|s| (s.name, s.segments.into_iter().map(segment_in).collect())).collect(),
        database: part.database.map(database_in),
        committables: Vec::new(),
        reads: part.reads.into_iter().map(|r| SplitRead { split: r.split, from: r.from, to: r.to, digest: r.digest }).collect(),
        counts: OperatorCounts {
            records_in: part.counts.records_in,
            records_out: part.counts.records_out,
            late: part.counts.late,
            rejected: part.counts.rejected,
        },
    }
}

fn database_out(database: &DatabasePart) -> stored::DatabasePart {
    let states = database.states.iter().map(|state| stored::DatabaseState {
        name: state.name.clone(),
        schemas: stored::StateSchemas { key: state.keys.clone(), value: state.values.clone() },
    });
    let files = database.stored.files.iter().map(|file| stored::DatabaseFile {
        name: file.name.clone(),
        path: file.path.clone(),
        length: file.bytes,
        crc: file.crc,
    });
    stored::DatabasePart { kind: database.kind.clone(), groups: database.stored.groups, states: states.collect(), files: files.collect() }
}

fn database_in(database: stored::DatabasePart) -> DatabasePart {
    let files = database.files.into_iter().map(|f| StoredFile { name: f.name, path: f.path, bytes: f.length, crc: f.crc });
    let states = database.states.into_iter().map(|s| DatabaseState { name: s.name, keys: s.schemas.key, values: s.schemas.value });
    DatabasePart {
        kind: database.kind,
        states: states.collect(),
        stored: StoredDatabase { groups: database.groups, files: files.collect() },
    }
}

fn segment_out(segment: &Segment) -> stored::Segment {
    stored::Segment {
        path: segment.path.clone(),
        offset: segment.offset,
        length: segment.bytes,
        crc: segment.crc,
        groups: segment.groups,
        epoch: segment.epoch,
    }
}

fn segment_in(segment: stored::Segment) -> Segment {
    Segment {
        path: segment.path,
        offset: segment.offset,
        bytes: segment.length,
        crc: segment.crc,
        groups: segment.groups,
        epoch: segment.epoch,
    }
}

fn read_out(read: &SplitRead) -> SplitRange {
    SplitRange { split: read.split.clone(), from: read.from, to: read.to, digest: read.digest }
}

fn counts_out(counts: OperatorCounts) -> staunch_format::OperatorCounts {
    staunch_format::OperatorCounts {
        records_in: counts.records_in,
        records_out: counts.records_out,
        late: counts.late,
        rejected: counts.rejected,
    }
}

fn committable_out(named: &NamedCommittable) -> stored::Committable {
    stored::Committable {
        id: id_out(named),
        kind: named.kind.clone(),
        body: Opaque(named.committable.body.clone()),
        description: named.committable.description.clone(),
        digest: named.committable.digest,
    }
}

fn committable_in(committable: stored::Committable) -> NamedCommittable {
    let stored::Committable { id, kind, body, description, digest } = committable;
    let inner = Committable {
        epoch: id.attempt.epoch,
        generation: id.attempt.generation,
        task_index: id.task.index,
        body: body.0,
        description,
        digest,
    };
    NamedCommittable { sink: id.sink, kind, task: id.task, number: id.number, committable: inner }
}

fn id_out(named: &NamedCommittable) -> staunch_format::CommittableId {
    staunch_format::CommittableId {
        sink: named.sink.clone(),
        attempt: staunch_format::Attempt { epoch: named.committable.epoch, generation: named.committable.generation },
        task: named.task,
        number: named.number,
    }
}

fn attempt_out(attempt: Attempt) -> staunch_format::Attempt {
    staunch_format::Attempt { epoch: attempt.epoch, generation: attempt.generation }
}

fn attempt_in(attempt: staunch_format::Attempt) -> Attempt {
    Attempt { epoch: attempt.epoch, generation: attempt.generation }
}

fn reason_out(reason: Reason) -> staunch_format::Reason {
    match reason {
        Reason::Interval => staunch_format::Reason::Interval,
        Reason::Savepoint => staunch_format::Reason::Savepoint,
        Reason::Stop => staunch_format::Reason::Stop,
        Reason::Drain => staunch_format::Reason::Drain,
        Reason::Final => staunch_format::Reason::Final,
    }
}

fn reason_in(reason: staunch_format::Reason) -> Reason {
    match reason {
        staunch_format::Reason::Interval => Reason::Interval,
        staunch_format::Reason::Savepoint => Reason::Savepoint,
        staunch_format::Reason::Stop => Reason::Stop,
        staunch_format::Reason::Drain => Reason::Drain,
        staunch_format::Reason::Final => Reason::Final,
    }
}

/// An entry's bytes; `manifest` is the path and bytes of the one that a seal names.
pub(super) fn encode_entry(
    job: &Name,
    seq: LedgerSeq,
    previous: [u8; 32],
    entry: &Entry,
    payload: &EntryPayload<'_>,
    manifest: Option<(&str, &[u8])>,
) -> Result<Vec<u8>> {
    let body = match entry {
        Entry::Claimed { claimant, origin, .. } => Body::Claimed(Claimed {
            claimant: claimant.0,
            origin: match origin {
                Origin::Empty => StoredOrigin::Empty,
                Origin::Epoch(epoch) => StoredOrigin::Epoch(*epoch),
                Origin::Fork(epoch) => StoredOrigin::Fork(*epoch),
            },
            fingerprint: payload.fingerprint,
            code_version: payload.code_version.to_owned(),
            config: Sha256::of(payload.settings.as_bytes()),
        }),
        Entry::Sealed { attempt, reason, committables: _, settled } => {
            let (Some(record), Some((path, bytes))) = (payload.record, manifest) else {
                return Err(
                    Error::new(ErrorKind::Bug, "B002", "a seal without its checkpoint").at(format!("entry={seq} attempt={attempt}"))
                );
            };
            Body::Sealed(Sealed {
                attempt: attempt_out(*attempt),
                reason: reason_out(*reason),
                settled: *settled,
                manifest: ManifestName { path: path.to_owned(), length: bytes.len() as u64, sha256: Sha256::of(bytes) },
                sources: reads_of(record),
                operators: totals_of(record),
                committables: record.committables.iter().map(total_of).collect(),
            })
        }
        Entry::Committed { epoch, lost, resent, .. } => {
            let outcomes = payload.committed.iter().map(|named| outcome(named, lost, resent, payload)).collect();
            Body::Committed(Committed { epoch: *epoch, outcomes })
        }
        Entry::Stopped { .. } => Body::Stopped(Stopped { reason: "ended as asked, or at the end of its input".into() }),
    };
    LedgerEntry { seq, previous: Sha256(previous), job: job.clone(), generation: entry.generation(), wall_ms: payload.wall_ms, body }
        .encode()
}

fn reads_of(record: &CheckpointRecord) -> Vec<SourceReads> {
    let mut sources = Vec::new();
    for (name, tasks) in &record.operators {
        let ranges: Vec<SplitRange> = tasks.values().flat_map(|p| &p.reads).map(read_out).collect();
        if !ranges.is_empty() {
            sources.push(SourceReads { source: name.clone(), ranges });
        }
    }
    sources
}

fn totals_of(record: &CheckpointRecord) -> Vec<OperatorTotal> {
    let totals = record.operators.iter().map(|(name, tasks)| {
        let mut counts = OperatorCounts::default();
        tasks.values().for_each(|p| counts.add(p.counts));
        OperatorTotal { operator: name.clone(), counts: counts_out(counts) }
    });
    totals.collect()
}

fn total_of(named: &NamedCommittable) -> CommittableTotal {
    CommittableTotal {
        id: id_out(named),
        kind: named.kind.clone(),
        description: named.committable.description.clone(),
        digest: named.committable.digest,
        body: Opaque(named.committable.body.clone()),
    }
}

fn outcome(named: &NamedCommittable, lost: &[CommittableId], resent: &[CommittableId], payload: &EntryPayload<'_>) -> CommitOutcome {
    let id = named.id(payload.names.id(&named.sink));
    let proof = || payload.proofs.get(&id).cloned().unwrap_or_default();
    let outcome = if lost.contains(&id) {
        Outcome::AcceptedLost { by: "the person who started the job".into(), reason: format!("--accept-lost {}", named.sink) }
    } else if resent.contains(&id) {
        let Proof { text, place } = proof();
        Outcome::Resent { proof: text, place: Opaque(place) }
    } else {
        let Proof { text, place } = proof();
        Outcome::Committed { proof: text, place: Opaque(place) }
    };
    CommitOutcome { id: id_out(named), digest: named.committable.digest, outcome }
}

/// An entry that was read, in the protocol's words; sinks that are not known get a number.
pub(super) fn read_entry(stored: LedgerEntry, bytes: &[u8], names: &mut SinkNames) -> ReadEntry {
    let generation = stored.generation;
    let entry = match &stored.body {
        Body::Claimed(claimed) => Entry::Claimed {
            generation,
            claimant: Claimant(claimed.claimant),
            origin: match claimed.origin {
                StoredOrigin::Empty => Origin::Empty,
                StoredOrigin::Epoch(epoch) => Origin::Epoch(epoch),
                StoredOrigin::Fork(epoch) => Origin::Fork(epoch),
            },
        },
        Body::Sealed(sealed) => Entry::Sealed {
            attempt: attempt_in(sealed.attempt),
            reason: reason_in(sealed.reason),
            committables: sealed.committables.iter().map(|c| id_in(&c.id, &c.kind, names)).collect(),
            settled: sealed.settled,
        },
        Body::Committed(committed) => {
            let (mut lost, mut resent) = (Vec::new(), Vec::new());
            for outcome in &committed.outcomes {
                match outcome.outcome {
                    Outcome::Committed { .. } => {}
                    Outcome::Resent { .. } => resent.push(id_in(&outcome.id, "", names)),
                    Outcome::AcceptedLost { .. } => lost.push(id_in(&outcome.id, "", names)),
                }
            }
            Entry::Committed { epoch: committed.epoch, generation, lost, resent }
        }
        Body::Stopped(_) => Entry::Stopped { generation },
    };
    ReadEntry { seq: stored.seq, hash: hash(bytes), entry, stored }
}

fn id_in(id: &staunch_format::CommittableId, kind: &str, names: &mut SinkNames) -> CommittableId {
    CommittableId { attempt: attempt_in(id.attempt), sink: names.id_or_add(&id.sink, kind), task: id.task, number: id.number }
}
