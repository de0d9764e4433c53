//! A job's ledger and manifests in a store.
//!
//! Owns: paths, the reading of what is there, the conditional append, the removal of what nobody needs. All calls block.
//! Does not own: the bytes' form (wire), when to do what (the coordinator machine).
//!
//! Layout under the job's root: `ledger/0000000/0000000001` and on, one object per entry, a thousand to a folder;
//! `manifests/e0000000001-g1`; `state/e…`.
//!
//! Invariants:
//! 1. An entry is created by a conditional write and never changes or goes.
//! 2. A seal is appended only after its manifest is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use staunch_api::{CheckpointStore, Proof, StoreError};
use staunch_format::ledger::{Chain, LedgerEntry};
use staunch_format::manifest::ChainPlan;
use staunch_protocol::ledger::{Answer, Claimant, Entry, Facts, Found, Origin};
use staunch_protocol::{Attempt, CommittableId};
use staunch_types::{Epoch, Error, ErrorKind, Generation, LedgerId, LedgerSeq, Name, Result};

use super::wire::{self, ReadEntry};
use super::{CheckpointRecord, NamedCommittable, SinkNames};
use crate::cluster::Restore;

/// Tries of a probe that another start may disturb.
const PROBES_MAX: u32 = 8;
/// How often a ledger is read again that goes on while it is read.
const LOADS_MAX: u32 = 16;
/// Entries of one folder.
const FOLDER_ENTRIES: u64 = 1000;

/// One job's part of a checkpoint store.
pub struct Catalog {
    store: Arc<dyn CheckpointStore>,
    job: Name,
    is_temporary: bool,
}

/// What was read before a generation begins.
pub struct Loaded {
    /// For the coordinator machine.
    pub facts: Facts,
    /// What to start from.
    pub origin: Origin,
    /// Hash of the newest entry; zeros for an empty ledger.
    pub head_hash: [u8; 32],
    /// What tells this ledger from others; `None` for an empty one.
    pub ledger: Option<LedgerId>,
    /// Who made the newest claim.
    pub claimant: Option<Claimant>,
    /// The checkpoint to start from.
    pub restored: Option<CheckpointRecord>,
    /// Durable checkpoints whose commit is not recorded.
    pub uncommitted: BTreeMap<Epoch, CheckpointRecord>,
    /// All checkpoints whose manifest is still there, oldest first.
    pub retained: Vec<CheckpointRecord>,
    /// All sinks known.
    pub names: SinkNames,
}

/// An entry ready to be appended; a repeated append writes the same bytes.
#[derive(Clone)]
pub struct Draft {
    seq: LedgerSeq,
    bytes: Arc<[u8]>,
    /// Path and bytes of the manifest that must be durable first.
    manifest: Option<(String, Arc<[u8]>)>,
}

impl Draft {
    /// The hash that the next entry carries.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        wire::hash(&self.bytes)
    }
}

impl Catalog {
    /// The catalog of `job`, whose root is the store's.
    #[must_use]
    pub fn new(store: Arc<dyn CheckpointStore>, job: Name) -> Catalog {
        Catalog { store, job, is_temporary: false }
    }

    /// The same for a store that goes with this process.
    #[must_use]
    pub fn temporary(store: Arc<dyn CheckpointStore>, job: Name) -> Catalog {
        Catalog { is_temporary: true, ..Catalog::new(store, job) }
    }

    /// What tells a ledger from others, by the hash of its first entry.
    #[must_use]
    pub fn ledger_id(&self, first_hash: &[u8; 32]) -> LedgerId {
        if self.is_temporary { LedgerId::default() } else { LedgerId::of_first_entry(first_hash) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn CheckpointStore> {
        &self.store
    }

    /// Tries everything that a run will need of the store. `tag` is a number that no other probe has.
    ///
    /// # Errors
    /// `Invalid` with the step that failed.
    pub fn probe(&self, tag: u128) -> Result<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.probe_at(&format!("probe/{tag:032x}-{tries}")) {
                Ok(()) => return Ok(()),
                // Another start may have taken our unfinished object for one that was left behind.
                Err((_, StoreError::Unknown(_))) if tries < PROBES_MAX => {}
                Err((step, error)) => {
                    return Err(Error::new(ErrorKind::Invalid, "C011", format!("the checkpoint store does not let this job {step}"))
                        .cause(error)
                        .at(format!("store={}", self.store.describe()))
                        .data("nothing was started")
                        .remedy("make the directory writable and see that it has room, or choose another with `--checkpoint-dir`"));
                }
            }
        }
    }

    fn probe_at(&self, path: &str) -> std::result::Result<(), (&'static str, StoreError)> {
        let bytes = b"staunch probe";
        let conditionally = "create objects conditionally";
        self.store.put(path, bytes).map_err(|e| ("create objects", e))?;
        match self.store.put(path, bytes) {
            Err(StoreError::Exists) => {}
            Ok(()) => return Err((conditionally, StoreError::Failed("a second create of the same path succeeded".into()))),
            Err(error) => return Err((conditionally, error)),
        }
        match self.store.read(path, 0, None) {
            Ok(found) if found == bytes => {}
            Ok(_) => return Err(("read objects", StoreError::Failed("other bytes came back".into()))),
            Err(error) => return Err(("read objects", error)),
        }
        self.store.list("probe/").map_err(|e| ("list objects", e))?;
        self.store.remove(path).map_err(|e| ("remove objects", e))
    }

    /// All entries, oldest first, with the chain of hashes checked.
    ///
    /// # Errors
    /// `Corrupt` when an entry is missing, damaged or does not follow the one before; `Restart` when the store does not answer.
    pub fn entries(&self, names: &mut SinkNames) -> Result<Vec<ReadEntry>> {
        let mut entries: Vec<ReadEntry> = Vec::new();
        let mut chain = Chain::new();
        for object in self.store.list("ledger/").map_err(|e| self.unreadable("ledger/", &e))? {
            let bytes = self.store.read(&object.path, 0, None).map_err(|e| self.unreadable(&object.path, &e))?;
            let place = || format!("object={} store={}", object.path, self.store.describe());
            let stored = chain.push(&bytes).map_err(|broken| Error::from(broken).at(place()))?;
            if object.path != entry_path(stored.seq) {
                return Err(Error::new(ErrorKind::Corrupt, "C012", format!("ledger entry {} lies at the place of another", stored.seq))
                    .at(place())
                    .data("nothing was changed; the entries before this one are intact")
                    .remedy("keep the directory as evidence; `staunch ledger` shows the intact part"));
            }
            let entry = wire::read_entry(stored, &bytes, names);
            if entry.stored.job != self.job {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "C013",
                    format!("the checkpoint directory belongs to the job \"{}\", not to \"{}\"", entry.stored.job, self.job),
                )
                .at(format!("store={}", self.store.describe()))
                .data("nothing was started, nothing was changed")
                .remedy("give this job a directory of its own, or its old name back"));
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// The newest claim in the ledger.
    ///
    /// # Errors
    /// As [`Self::entries`].
    pub fn newest_claim(&self) -> Result<Option<(Generation, Claimant)>> {
        Ok(newest_claim(&self.entries(&mut SinkNames::default())?))
    }

    /// The newest generation that has appended something after an entry. Reads the entries after it.
    ///
    /// # Errors
    /// `Corrupt` when an entry is damaged; `Restart` when the store does not answer.
    pub fn newest_after(&self, entry: LedgerSeq) -> Result<Option<Generation>> {
        let (mut newest, mut seq) = (None, LedgerSeq(entry.0 + 1));
        loop {
            let path = entry_path(seq);
            let bytes = match self.store.read(&path, 0, None) {
                Ok(bytes) => bytes,
                Err(StoreError::Absent) => return Ok(newest),
                Err(error) => return Err(self.unreadable(&path, &error)),
            };
            let stored = LedgerEntry::decode(&bytes).map_err(|error| error.at(format!("object={path} store={}", self.store.describe())))?;
            newest = newest.max(Some(stored.generation));
            seq.0 += 1;
        }
    }

    /// Reads everything that a new generation needs.
    ///
    /// # Errors
    /// As [`Self::entries`]; `Invalid` when the checkpoint asked for does not exist.
    pub fn load(&self, restore: Restore, names: &SinkNames) -> Result<Loaded> {
        let mut tries = 0;
        loop {
            tries += 1;
            let before = self.length()?;
            match self.load_now(restore, names) {
                // While this was read, the process that still runs the job went on, and removed what it needs no more.
                Err(error) if error.kind() == ErrorKind::Corrupt && tries < LOADS_MAX && self.length()? > before => {}
                answer => return answer,
            }
        }
    }

    /// Entries that there are.
    fn length(&self) -> Result<usize> {
        Ok(self.store.list("ledger/").map_err(|e| self.unreadable("ledger/", &e))?.len())
    }

    fn load_now(&self, restore: Restore, names: &SinkNames) -> Result<Loaded> {
        let mut names = names.clone();
        let entries = self.entries(&mut names)?;
        let mut facts = Facts::default();
        for entry in &entries {
            facts.push(entry.seq, &entry.entry).map_err(|e| e.at(format!("store={}", self.store.describe())))?;
        }
        let wanted = match restore {
            // Not simply the newest: a rewound job stays where it was taken to.
            Restore::Latest => match facts.resume {
                Origin::Empty => None,
                Origin::Epoch(epoch) | Origin::Fork(epoch) => Some(epoch),
            },
            Restore::Nothing => None,
            Restore::Epoch(epoch) => Some(epoch),
        };
        let stored: BTreeSet<String> =
            self.store.list("manifests/").map_err(|e| self.unreadable("manifests/", &e))?.into_iter().map(|o| o.path).collect();
        let mut loaded = Loaded {
            origin: wanted.map_or(Origin::Empty, Origin::Epoch),
            head_hash: entries.last().map_or([0; 32], |e| e.hash),
            ledger: if self.is_temporary { Some(LedgerId::default()) } else { entries.first().map(|e| self.ledger_id(&e.hash)) },
            claimant: newest_claim(&entries).map(|(_, claimant)| claimant),
            restored: None,
            uncommitted: BTreeMap::new(),
            retained: Vec::new(),
            facts,
            names,
        };
        for entry in &entries {
            let Entry::Sealed { attempt, .. } = &entry.entry else { continue };
            let path = manifest_path(*attempt);
            let needed = Some(attempt.epoch) == wanted || loaded.facts.uncommitted.contains_key(&attempt.epoch);
            if !needed && !stored.contains(&path) {
                continue;
            }
            match self.manifest(&path, entry) {
                Ok(record) => loaded.take(record, wanted),
                // A damaged one that nobody asked for is evidence, not an obstacle.
                Err(error) if !needed && error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(error),
            }
        }
        if let (Some(epoch), None) = (wanted, &loaded.restored) {
            return Err(Error::new(ErrorKind::Invalid, "C014", format!("there is no checkpoint {epoch} in the ledger"))
                .at(format!("store={}", self.store.describe()))
                .data("nothing was started")
                .remedy("`staunch checkpoints` lists what can be restored"));
        }
        Ok(loaded)
    }

    fn manifest(&self, path: &str, entry: &ReadEntry) -> Result<CheckpointRecord> {
        let bytes = self.store.read(path, 0, None).map_err(|error| match error {
            StoreError::Absent => Error::new(ErrorKind::Corrupt, "C015", "the manifest of a durable checkpoint is missing")
                .at(format!("object={path} store={}", self.store.describe()))
                .data("the checkpoint cannot be restored; nothing was changed")
                .remedy("restore an older checkpoint: `staunch checkpoints` lists them"),
            other => self.unreadable(path, &other),
        })?;
        wire::decode_manifest(&bytes, entry).map_err(|e| e.at(format!("object={path} store={}", self.store.describe())))
    }

    /// Makes an entry's bytes.
    ///
    /// # Errors
    /// `Bug` when something cannot be encoded.
    pub fn draft(&self, seq: LedgerSeq, previous: [u8; 32], entry: &Entry, payload: &EntryPayload<'_>) -> Result<Draft> {
        let manifest = match (entry, payload.record) {
            (Entry::Sealed { attempt, .. }, Some(record)) => {
                Some((manifest_path(*attempt), Arc::from(wire::encode_manifest(record, payload)?)))
            }
            _ => None,
        };
        let bytes = wire::encode_entry(&self.job, seq, previous, entry, payload, manifest.as_ref().map(|(p, b)| (p.as_str(), &**b)))?;
        Ok(Draft { seq, bytes: bytes.into(), manifest })
    }

    /// Appends an entry: its manifest first, then the entry, if its slot is free.
    #[must_use]
    pub fn append(&self, draft: &Draft) -> (Answer, Option<Error>) {
        if let Some((path, bytes)) = &draft.manifest {
            match self.store.put(path, bytes) {
                // The path holds epoch and generation, so what exists is what an earlier try wrote.
                Ok(()) | Err(StoreError::Exists) => {}
                Err(error) => return (Answer::Refused { kind: ErrorKind::Retry }, Some(self.unwritable(path, &error))),
            }
        }
        let path = entry_path(draft.seq);
        match self.store.put(&path, &draft.bytes) {
            Ok(()) => (Answer::Appended, None),
            Err(StoreError::Exists) => (Answer::Conflicted, None),
            Err(error @ StoreError::Unknown(_)) => (Answer::Unanswered, Some(self.unwritable(&path, &error))),
            Err(error) => (Answer::Refused { kind: ErrorKind::Retry }, Some(self.unwritable(&path, &error))),
        }
    }

    /// Reads a slot and compares it with the draft.
    #[must_use]
    pub fn read_back(&self, seq: LedgerSeq, draft: Option<&Draft>) -> (Answer, Option<Error>) {
        match self.store.read(&entry_path(seq), 0, None) {
            Ok(bytes) if draft.is_some_and(|d| *d.bytes == *bytes) => (Answer::Found(Found::Own), None),
            Ok(_) => (Answer::Found(Found::Other), None),
            Err(StoreError::Absent) => (Answer::Found(Found::Absent), None),
            Err(error) => (Answer::ReadFailed, Some(self.unreadable(&entry_path(seq), &error))),
        }
    }

    /// Removes what older processes left half-written. What cannot be removed is tried again by the next generation.
    pub fn clear_unfinished(&self) {
        let _ = self.store.clear_unfinished();
    }

    /// Removes manifests and state of epochs before `newest` that are not needed. What cannot be removed is tried again the next time.
    pub fn collect(&self, newest: Epoch, objects: &BTreeSet<String>, manifests: &BTreeSet<Epoch>) {
        let Ok(stored) = self.store.list("manifests/") else { return };
        for object in stored {
            if epoch_of(&object.path, "manifests/e").is_some_and(|e| e < newest && !manifests.contains(&e)) {
                let _ = self.store.remove(&object.path);
            }
        }
        let Ok(stored) = self.store.list("state/") else { return };
        for object in stored {
            if !objects.contains(&object.path) && epoch_of(&object.path, "state/e").is_some_and(|e| e < newest) {
                let _ = self.store.remove(&object.path);
            }
        }
    }

    fn unreadable(&self, path: &str, error: &StoreError) -> Error {
        Error::new(ErrorKind::Restart, "C016", "the checkpoint store cannot be read")
            .cause(error)
            .at(format!("object={path} store={}", self.store.describe()))
            .data("nothing was changed")
            .remedy("see that the store can be reached and read")
    }

    fn unwritable(&self, path: &str, error: &StoreError) -> Error {
        Error::new(ErrorKind::Retry, "C017", "the checkpoint store cannot be written")
            .cause(error)
            .at(format!("object={path} store={}", self.store.describe()))
            .data("the checkpoint is not durable; nothing of it is visible; the job goes on from the last durable one")
            .remedy("see that the store can be reached and has room")
    }
}

impl Loaded {
    /// Whether a generation that was made ready for `other` can begin from this one too: nothing but claims was added.
    #[must_use]
    pub fn goes_on_from_the_same(&self, other: &Loaded) -> bool {
        self.origin == other.origin && self.facts.newest == other.facts.newest && self.facts.uncommitted == other.facts.uncommitted
    }

    fn take(&mut self, record: CheckpointRecord, wanted: Option<Epoch>) {
        for committable in &record.committables {
            self.names.id_or_add(&committable.sink, &committable.kind);
        }
        if self.facts.uncommitted.contains_key(&record.epoch()) {
            self.uncommitted.insert(record.epoch(), record.clone());
        }
        if Some(record.epoch()) == wanted {
            self.restored = Some(record.clone());
        }
        self.retained.push(record);
    }
}

/// What an entry says beyond what the protocol needs.
pub struct EntryPayload<'a> {
    /// Of a seal: the checkpoint.
    pub record: Option<&'a CheckpointRecord>,
    /// Sinks by number.
    pub names: &'a SinkNames,
    /// Of a record of commits: what was committed.
    pub committed: &'a [NamedCommittable],
    /// Proofs of commits.
    pub proofs: &'a BTreeMap<CommittableId, Proof>,
    /// Wall-clock milliseconds.
    pub wall_ms: i64,
    /// Fingerprint of the plan.
    pub fingerprint: u64,
    /// The kind of each operator, and the chains, for people who look into a manifest.
    pub kinds: &'a BTreeMap<Name, String>,
    /// See `kinds`.
    pub chains: &'a [ChainPlan],
    /// Version of the program.
    pub code_version: &'a str,
    /// The settings, as text; the ledger keeps their hash.
    pub settings: &'a str,
}

fn newest_claim(entries: &[ReadEntry]) -> Option<(Generation, Claimant)> {
    entries.iter().rev().find_map(|e| match e.entry {
        Entry::Claimed { generation, claimant, .. } => Some((generation, claimant)),
        Entry::Sealed { .. } | Entry::Committed { .. } | Entry::Stopped { .. } => None,
    })
}

fn entry_path(seq: LedgerSeq) -> String {
    format!("ledger/{:07}/{:010}", seq.0 / FOLDER_ENTRIES, seq.0)
}

fn manifest_path(attempt: Attempt) -> String {
    format!("manifests/e{:010}-g{}", attempt.epoch.0, attempt.generation)
}

fn epoch_of(path: &str, prefix: &str) -> Option<Epoch> {
    path.strip_prefix(prefix)?.get(..10)?.parse().ok().map(Epoch)
}
