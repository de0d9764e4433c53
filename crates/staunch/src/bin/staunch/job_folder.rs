//! The folder of one job in a checkpoint directory, read without the job.
//!
//! Owns: the finding of the folder, the reading of ledger and manifests with every check that the bytes allow.
//! Does not own: the form of the bytes (staunch-format), what a run makes of them (staunch-engine).
//!
//! Invariant: nothing is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use staunch_api::{CheckpointStore, StoreError};
use staunch_engine::checkpoint::LocalStore;
use staunch_engine::runtime::SystemFiles;
use staunch_format::Sha256;
use staunch_format::ledger::{Body, Chain, LedgerEntry, Sealed};
use staunch_format::manifest::Manifest;
#[cfg(feature = "kafka")]
use staunch_types::LedgerId;
use staunch_types::{Epoch, Error, ErrorKind, Name, Result};

/// One job's folder.
pub(crate) struct JobFolder {
    root: PathBuf,
    store: LocalStore,
}

/// A ledger, as far as it is one chain.
pub(crate) struct Ledger {
    /// Its entries, oldest first.
    pub(crate) entries: Vec<Entry>,
    /// Why it ends where it does, if something follows that does not belong to the chain.
    pub(crate) broken: Option<Error>,
}

/// An entry.
pub(crate) struct Entry {
    /// The object that holds it.
    pub(crate) object: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// What it says.
    pub(crate) stored: LedgerEntry,
}

/// A manifest that the ledger names.
pub(crate) enum Stored {
    /// It is there, and is the one that the ledger names.
    Intact(Box<Manifest>),
    /// It is not there.
    Absent,
    /// It is not the one that the ledger names.
    Damaged(Error),
}

impl JobFolder {
    /// The folder at a path, which is that of a job or a checkpoint directory with one job.
    ///
    /// # Errors
    /// `Invalid` when there is none, or several.
    pub(crate) fn open(path: &Path) -> Result<JobFolder> {
        let mut all = JobFolder::all(path)?;
        match all.len() {
            1 => Ok(all.remove(0)),
            _ => {
                let names: Vec<String> = all.iter().map(|f| f.root.display().to_string()).collect();
                Err(Error::new(ErrorKind::Invalid, "C302", format!("the directory holds {} jobs", all.len()))
                    .at(format!("path={}", path.display()))
                    .remedy(format!("name one of them: {}", names.join(", "))))
            }
        }
    }

    /// All jobs' folders at a path: of a job, or of a checkpoint directory.
    ///
    /// # Errors
    /// `Invalid` when there is none.
    pub(crate) fn all(path: &Path) -> Result<Vec<JobFolder>> {
        let path = local(path);
        let is_job = |folder: &Path| folder.join("ledger").is_dir();
        let mut roots = Vec::new();
        if is_job(&path) {
            roots.push(path.clone());
        } else {
            let found = std::fs::read_dir(&path).map_err(|error| nothing(&path).cause(error))?;
            roots.extend(found.flatten().map(|entry| entry.path()).filter(|folder| is_job(folder)));
            roots.sort();
        }
        if roots.is_empty() {
            return Err(nothing(&path));
        }
        Ok(roots.into_iter().map(JobFolder::at).collect())
    }

    fn at(root: PathBuf) -> JobFolder {
        // The writer's name matters to those who write; we only read.
        let store = LocalStore::new(Arc::new(SystemFiles), &root, "reader");
        JobFolder { root, store }
    }

    /// Where it is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The path of an object, for people.
    pub(crate) fn file(&self, object: &str) -> String {
        self.root.join(object).display().to_string()
    }

    /// Reads the ledger, up to its end or to the first entry that does not follow.
    ///
    /// # Errors
    /// `Restart` when the store cannot be read.
    pub(crate) fn ledger(&self) -> Result<Ledger> {
        let mut ledger = Ledger { entries: Vec::new(), broken: None };
        let mut chain = Chain::new();
        for object in self.store.list("ledger/").map_err(|e| self.unreadable("ledger", &e))? {
            let bytes = self.store.read(&object.path, 0, None).map_err(|e| self.unreadable(&object.path, &e))?;
            match chain.push(&bytes) {
                Ok(stored) => ledger.entries.push(Entry { object: object.path, bytes, stored }),
                Err(broken) => {
                    ledger.broken = Some(Error::from(broken).at(format!("file={}", self.file(&object.path))));
                    break;
                }
            }
        }
        Ok(ledger)
    }

    /// Reads the manifest that a seal names.
    ///
    /// # Errors
    /// `Restart` when the store cannot be read.
    pub(crate) fn manifest(&self, sealed: &Sealed) -> Result<Stored> {
        let object = &sealed.manifest.path;
        let bytes = match self.store.read(object, 0, None) {
            Ok(bytes) => bytes,
            Err(StoreError::Absent) => return Ok(Stored::Absent),
            Err(error) => return Err(self.unreadable(object, &error)),
        };
        let named = &sealed.manifest;
        if Sha256::of(&bytes) != named.sha256 || bytes.len() as u64 != named.length {
            let what = format!("the manifest of epoch {} is not the one that the ledger names: its hash differs", sealed.attempt.epoch);
            return Ok(Stored::Damaged(self.damaged("C305", what, object)));
        }
        Ok(match Manifest::decode(&bytes) {
            Ok(manifest) => Stored::Intact(Box::new(manifest)),
            Err(error) => Stored::Damaged(error.at(format!("file={}", self.file(object)))),
        })
    }

    /// Reads a stretch of an object; `None` when there is no such object.
    ///
    /// # Errors
    /// `Restart` when the store cannot be read.
    pub(crate) fn read(&self, object: &str, offset: u64, bytes: u64) -> Result<Option<Vec<u8>>> {
        match self.store.read(object, offset, Some(bytes)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(StoreError::Absent) => Ok(None),
            Err(error) => Err(self.unreadable(object, &error)),
        }
    }

    /// The objects of a kind with their lengths: `state/`, `manifests/`.
    ///
    /// # Errors
    /// `Restart` when the store cannot be read.
    pub(crate) fn objects(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let all = self.store.list(prefix).map_err(|e| self.unreadable(prefix, &e))?;
        Ok(all.into_iter().map(|o| (o.path, o.bytes)).collect())
    }

    /// A finding about an object.
    pub(crate) fn damaged(&self, code: &str, what: impl Into<String>, object: &str) -> Error {
        Error::new(ErrorKind::Corrupt, code, what)
            .at(format!("file={}", self.file(object)))
            .data("nothing was changed")
            .remedy("keep the file as evidence; find out who changed it, and compare it with a copy")
    }

    fn unreadable(&self, object: &str, error: &StoreError) -> Error {
        Error::new(ErrorKind::Restart, "C303", "the checkpoint store cannot be read")
            .cause(error)
            .at(format!("file={}", self.file(object)))
            .data("nothing was changed")
            .remedy("give this user the right to read it, and see the disk or mount")
    }
}

impl Ledger {
    /// The job's name; `None` for an empty ledger.
    pub(crate) fn job(&self) -> Option<&Name> {
        self.entries.first().map(|entry| &entry.stored.job)
    }

    /// What tells it from every other ledger.
    #[cfg(feature = "kafka")]
    pub(crate) fn id(&self) -> LedgerId {
        self.entries.first().map_or(LedgerId::default(), |entry| LedgerId::of_first_entry(&LedgerEntry::hash(&entry.bytes).0))
    }

    /// All seals, oldest first.
    pub(crate) fn seals(&self) -> impl DoubleEndedIterator<Item = &Sealed> {
        self.entries.iter().filter_map(|entry| match &entry.stored.body {
            Body::Sealed(sealed) => Some(sealed),
            Body::Claimed(_) | Body::Committed(_) | Body::Stopped(_) => None,
        })
    }

    /// The epochs whose commit is recorded.
    pub(crate) fn committed(&self) -> std::collections::BTreeSet<Epoch> {
        let all = self.entries.iter().filter_map(|entry| match &entry.stored.body {
            Body::Committed(committed) => Some(committed.epoch),
            Body::Claimed(_) | Body::Sealed(_) | Body::Stopped(_) => None,
        });
        all.collect()
    }
}

/// A path without `file://`.
fn local(path: &Path) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_prefix("file://")) {
        Some(rest) => PathBuf::from(rest),
        None => path.to_path_buf(),
    }
}

fn nothing(path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, "C301", "no job has checkpoints at the path")
        .at(format!("path={}", path.display()))
        .remedy("give the directory that the job was given with --checkpoint-dir, or the job's folder in it")
}
