//! The ledger on the disk: one chain, never changed, each entry by the newest generation (E4).

use std::collections::BTreeMap;

use staunch_format::CommittableId;
use staunch_format::ledger::{Body, Chain, LedgerEntry, Outcome, SourceReads};
use staunch_types::{Epoch, Generation};

use super::Violation;
use crate::kernel::{Change, ChangeKind, Disk};

const CHECK: &str = "ledger (E4)";

/// See the module.
pub struct Ledger {
    folder: String,
    chain: Chain,
    entries: Vec<LedgerEntry>,
    /// The bytes of each entry, by path: they never change.
    stored: BTreeMap<String, Vec<u8>>,
    generation: Generation,
    epoch_max: Epoch,
    sealed: BTreeMap<Epoch, Sealed>,
    named: BTreeMap<String, CommittableId>,
}

/// What the ledger says of a durable epoch.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Who sealed it.
    pub generation: Generation,
    /// Path of its manifest.
    pub manifest: String,
    /// What it names.
    pub committables: Vec<CommittableId>,
    /// What became of these, as far as it is recorded.
    pub outcomes: Vec<Outcome>,
    /// Whether its commit is recorded.
    pub recorded: bool,
}

impl Ledger {
    /// The ledger in a job's folder.
    #[must_use]
    pub fn new(checkpoints: &str) -> Ledger {
        Ledger {
            folder: format!("{checkpoints}/ledger/"),
            chain: Chain::new(),
            entries: Vec::new(),
            stored: BTreeMap::new(),
            generation: Generation(0),
            epoch_max: Epoch(0),
            sealed: BTreeMap::new(),
            named: BTreeMap::new(),
        }
    }

    /// All entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[LedgerEntry] {
        &self.entries
    }

    /// All durable epochs.
    #[must_use]
    pub fn sealed(&self) -> &BTreeMap<Epoch, Sealed> {
        &self.sealed
    }

    /// The newest generation.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The committable that a file belongs to, if a durable epoch names it.
    #[must_use]
    pub fn names(&self, visible: &str) -> Option<&CommittableId> {
        self.named.get(visible)
    }

    /// The committable whose description begins so, if a durable epoch names one.
    #[must_use]
    pub fn names_like(&self, words: &str) -> Option<&CommittableId> {
        self.named.range(words.to_owned()..).next().filter(|(description, _)| description.starts_with(words)).map(|(_, id)| id)
    }

    /// Whether a durable epoch names a transaction with this mark.
    #[must_use]
    pub fn names_mark(&self, mark: &str) -> bool {
        self.named.keys().any(|description| description.rsplit_once("mark=").is_some_and(|(_, key)| key == mark))
    }

    /// One line for each entry, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let body = match &entry.body {
                Body::Claimed(claimed) => format!("claimed, from {:?}", claimed.origin),
                Body::Sealed(sealed) => {
                    let names: Vec<&str> = sealed.committables.iter().map(|total| total.description.as_str()).collect();
                    let reads = |source: &SourceReads| source.ranges.iter().map(|range| range.digest.records).sum::<u64>();
                    let read: u64 = sealed.sources.iter().map(reads).sum();
                    format!("sealed epoch {} {:?}, records read {read}, names {names:?}", sealed.attempt.epoch, sealed.reason)
                }
                Body::Committed(committed) => format!("committed epoch {}", committed.epoch),
                Body::Stopped(_) => "stopped".to_owned(),
            };
            text.push_str(&format!("ledger {}: generation {} {body}\n", entry.seq, entry.generation));
        }
        text
    }

    /// Whether the newest entry but claims is the end of the job.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        let newest = self.entries.iter().rev().find(|entry| !matches!(entry.body, Body::Claimed(_)));
        newest.is_some_and(|entry| matches!(entry.body, Body::Stopped(_)))
    }

    pub(super) fn changed(&mut self, disk: &Disk, change: &Change) -> Result<(), Violation> {
        if !change.path.starts_with(&self.folder) || change.path.ends_with(".unfinished") {
            return Ok(());
        }
        let bytes = disk.bytes(&change.path);
        if let Some(known) = self.stored.get(&change.path) {
            return match bytes {
                Some(bytes) if bytes == known => Ok(()),
                _ => Err(Violation::new(CHECK, format!("an entry was changed or removed: {} {:?}", change.path, change.kind))),
            };
        }
        let Some(bytes) = bytes else { return Ok(()) };
        if change.kind != ChangeKind::Renamed {
            return Err(Violation::new(CHECK, format!("an entry was written in place: {} {:?}", change.path, change.kind)));
        }
        let entry = self.chain.push(bytes).map_err(|broken| Violation::new(CHECK, format!("{}: {broken}", change.path)))?;
        self.stored.insert(change.path.clone(), bytes.to_vec());
        self.take(&entry)?;
        self.entries.push(entry);
        Ok(())
    }

    fn take(&mut self, entry: &LedgerEntry) -> Result<(), Violation> {
        let wrong = |what: String| Err(Violation::new(CHECK, format!("entry {}: {what}", entry.seq)));
        let claims = matches!(entry.body, Body::Claimed(_));
        if claims && entry.generation <= self.generation {
            return wrong(format!("generation {} was claimed after {}", entry.generation, self.generation));
        }
        if !claims && entry.generation != self.generation {
            return wrong(format!("generation {} wrote, the newest is {}", entry.generation, self.generation));
        }
        match &entry.body {
            Body::Claimed(_) => self.generation = entry.generation,
            Body::Sealed(sealed) => {
                if sealed.attempt.epoch <= self.epoch_max || sealed.attempt.generation != entry.generation {
                    return wrong(format!("epoch {} was sealed after {}", sealed.attempt.epoch, self.epoch_max));
                }
                self.epoch_max = sealed.attempt.epoch;
                for total in &sealed.committables {
                    if let Some(other) = self.named.insert(total.description.clone(), total.id.clone()) {
                        return wrong(format!("{} is named twice, before by {other:?}", total.description));
                    }
                }
                let committables = sealed.committables.iter().map(|total| total.id.clone()).collect();
                let manifest = sealed.manifest.path.clone();
                let sealed = Sealed { generation: entry.generation, manifest, committables, outcomes: Vec::new(), recorded: false };
                self.sealed.insert(self.epoch_max, sealed);
            }
            Body::Committed(committed) => {
                let Some(sealed) = self.sealed.get_mut(&committed.epoch) else {
                    return wrong(format!("epoch {} was committed and never sealed", committed.epoch));
                };
                let named: Vec<CommittableId> = committed.outcomes.iter().map(|outcome| outcome.id.clone()).collect();
                if sealed.recorded || named != sealed.committables {
                    return wrong(format!("epoch {} is recorded as committed twice, or not in full: {named:?}", committed.epoch));
                }
                sealed.recorded = true;
                sealed.outcomes = committed.outcomes.iter().map(|outcome| outcome.outcome.clone()).collect();
            }
            Body::Stopped(_) => {}
        }
        Ok(())
    }

    pub(super) fn finished(&self) -> Result<(), Violation> {
        if let Some((epoch, _)) = self.sealed.iter().find(|(_, sealed)| !sealed.recorded && !sealed.committables.is_empty()) {
            return Err(Violation::new("E2", format!("epoch {epoch} is durable, and its commit was never recorded")));
        }
        if self.has_stopped() { Ok(()) } else { Err(Violation::new("E8", "the job has finished, and the ledger does not say so")) }
    }
}
