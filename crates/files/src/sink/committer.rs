//! Makes prepared files visible, and tells what became of them.
//!
//! A commit is one rename. A file at the visible path means that it happened, for no other file can have that name; its length is
//! compared all the same.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staunch_api::{
    CommitPermit, Committable, Committer, EntryKind, FileSystem, Journal, Metadata, Proof, Replace, Resolution, SinkContext, SweepScope,
    Swept, no_copy,
};
use staunch_types::{Error, ErrorKind, Generation, Result};
use xxhash_rust::xxh3::Xxh3;

use super::names::Names;
use super::stored::{StoredFile, Tail};
use crate::codes;

/// Bytes read at once while contents are compared.
const COMPARE_BYTES: usize = 1 << 20;

/// Commits the files of one sink.
pub struct FileCommitter {
    names: Names,
    generation: Generation,
    file_system: Arc<dyn FileSystem>,
    journal: Journal,
}

/// Where a file is.
enum Found {
    Visible,
    Hidden,
    /// A file system without atomic rename stopped between its two steps: both names are the same file.
    Both,
    Nowhere,
}

impl FileCommitter {
    pub(crate) fn new(names: Names, context: SinkContext) -> FileCommitter {
        FileCommitter { names, generation: context.generation, file_system: context.file_system, journal: context.journal }
    }

    fn find(&self, file: &StoredFile) -> Result<Found> {
        let hidden = self.look(&file.hidden)?;
        let visible = self.look(&file.visible)?;
        let whole =
            |metadata: &Option<Metadata>| matches!(metadata, Some(Metadata { kind: EntryKind::File, bytes }) if *bytes == file.bytes);
        match (hidden.is_some(), visible.is_some()) {
            (false, false) => Ok(Found::Nowhere),
            (false, true) if whole(&visible) => Ok(Found::Visible),
            (false, true) => Err(changed(&file.visible, file, visible)),
            (true, false) if whole(&hidden) => Ok(Found::Hidden),
            (true, false) => Err(changed(&file.hidden, file, hidden)),
            (true, true) if whole(&visible) && self.content(&file.visible)? == file.content => Ok(Found::Both),
            (true, true) => Err(changed(&file.visible, file, visible)),
        }
    }

    fn look(&self, path: &Path) -> Result<Option<Metadata>> {
        match self.file_system.metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
            answer => answer.map_err(|error| failed(&error, path)),
        }
    }

    fn content(&self, path: &Path) -> Result<u128> {
        let read = || -> io::Result<u128> {
            let file = self.file_system.open(path)?;
            let (mut hash, mut at, mut buffer) = (Xxh3::new(), 0, vec![0; COMPARE_BYTES]);
            loop {
                match file.read_at(&mut buffer, at)? {
                    0 => return Ok(hash.digest128()),
                    read => {
                        hash.update(&buffer[..read]);
                        at += read as u64;
                    }
                }
            }
        };
        read().map_err(|error| failed(&error, path))
    }
}

impl FileCommitter {
    /// Makes the prepared file anew from its copy. Whoever else does the same makes the same file.
    fn write_again(&self, committable: &Committable, file: &StoredFile) -> Result<()> {
        let copy = self.names.copy_of(&file.hidden).ok_or_else(|| no_copy(committable))?;
        let path = self.names.resent(self.generation, &copy);
        let failed_at = |error: io::Error| failed(&error, &path);
        self.file_system.create_directory(&self.names.directory).map_err(failed_at)?;
        match self.file_system.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed_at(error)),
            _ => {}
        }
        let mut out = self.file_system.create(&path).map_err(failed_at)?;
        let (mut hash, mut at) = (Xxh3::new(), 0);
        loop {
            let bytes = self.journal.read(&copy, at, COMPARE_BYTES as u64)?.ok_or_else(|| no_copy(committable))?;
            if bytes.is_empty() {
                break;
            }
            out.append(&bytes).map_err(failed_at)?;
            hash.update(&bytes);
            at += bytes.len() as u64;
        }
        if (at, hash.digest128()) != (file.bytes, file.content) {
            return Err(copy_changed(&copy, file, at));
        }
        out.sync().map_err(failed_at)?;
        drop(out);
        match self.file_system.rename(&path, &file.hidden, Replace::Never) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.file_system.remove(&path).map_err(failed_at),
            answer => answer.map_err(failed_at),
        }
    }

    /// Removes the copies of older generations that no retained checkpoint names.
    fn sweep_copies(&self, scope: &SweepScope, kept: &BTreeSet<PathBuf>, swept: &mut Swept) -> Result<()> {
        let kept: BTreeSet<String> = kept.iter().filter_map(|hidden| self.names.copy_of(hidden)).collect();
        for copy in self.journal.names()? {
            if Names::generation_of_copy(&copy).is_some_and(|g| g < scope.generation) && !kept.contains(&copy) {
                self.journal.remove(&copy)?;
                swept.removed.push(format!("copy {copy}"));
            }
        }
        Ok(())
    }
}

impl Committer for FileCommitter {
    fn commit(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        let file = StoredFile::decode(&committable.body)?;
        if committable.epoch > permit.epoch() {
            let what = format!("a permit of epoch={} was used for a file of epoch={}", permit.epoch(), committable.epoch);
            return Err(Error::new(ErrorKind::Bug, codes::OUTPUT_BUG, what).at(format!("file={}", file.visible.display())));
        }
        match self.find(&file)? {
            Found::Visible => {}
            Found::Hidden => {
                let renamed = self.file_system.rename(&file.hidden, &file.visible, Replace::Never);
                renamed.map_err(|error| failed(&error, &file.visible))?;
            }
            Found::Both => self.file_system.remove(&file.hidden).map_err(|error| failed(&error, &file.hidden))?,
            Found::Nowhere => return Err(lost(&file)),
        }
        Ok(proof(&file))
    }

    fn resolve(&mut self, committable: &Committable) -> Result<Resolution> {
        let file = StoredFile::decode(&committable.body)?;
        Ok(match self.find(&file)? {
            Found::Visible | Found::Both => Resolution::Committed(proof(&file)),
            Found::Hidden => Resolution::Pending,
            Found::Nowhere => Resolution::Lost { evidence: evidence(&file) },
        })
    }

    fn resend(&mut self, committable: &Committable, permit: &CommitPermit) -> Result<Proof> {
        let file = StoredFile::decode(&committable.body)?;
        if matches!(self.find(&file)?, Found::Nowhere) {
            self.write_again(committable, &file)?;
        }
        self.commit(committable, permit)
    }

    fn forget(&mut self, committable: &Committable) -> Result<()> {
        match self.names.copy_of(&StoredFile::decode(&committable.body)?.hidden) {
            Some(copy) => self.journal.remove(&copy),
            None => Ok(()),
        }
    }

    fn sweep(&mut self, scope: &SweepScope) -> Result<Swept> {
        let mut kept: BTreeSet<PathBuf> = BTreeSet::new();
        for committable in &scope.committables {
            kept.insert(StoredFile::decode(&committable.body)?.hidden);
        }
        for carried in scope.carried.iter().filter(|carried| !carried.is_empty()) {
            kept.insert(Tail::decode(carried)?.hidden);
        }
        let mut swept = Swept::default();
        self.sweep_copies(scope, &kept, &mut swept)?;
        let entries = match self.file_system.list(&self.names.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(swept),
            answer => answer.map_err(|error| failed(&error, &self.names.directory))?,
        };
        // Before anything is removed: names must not meet those of a job that started from nothing, or was overtaken.
        for entry in &entries {
            let path = || self.names.directory.join(&entry.name);
            // Generations alone do not tell: each refused start is one more.
            if let Some(epoch) = self.names.visible_epoch(&entry.name).filter(|epoch| *epoch > scope.durable) {
                let what = format!("of epoch={epoch}, and the newest durable epoch of the job is {}", scope.durable);
                return Err(another_life(&path(), &what));
            }
            if let Some(generation) = self.names.generation(&entry.name).filter(|generation| *generation >= scope.generation) {
                let what = format!("of generation={generation}, and the job is only at generation={}", scope.generation);
                return Err(another_life(&path(), &what));
            }
        }
        for entry in entries.into_iter().filter(|entry| self.names.is_hidden(&entry.name)) {
            let path = self.names.directory.join(&entry.name);
            if !kept.contains(&path) {
                match self.file_system.remove(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    answer => answer.map_err(|error| failed(&error, &path))?,
                }
                swept.removed.push(path.display().to_string());
            }
        }
        Ok(swept)
    }
}

fn another_life(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Invalid, codes::OUTPUT_OF_ANOTHER_LIFE, format!("the output directory holds a file of this job and sink {what}"))
        .at(format!("file={}", path.display()))
        .data("nothing was written: the job has started from nothing, so its output would stand beside that of its earlier life")
        .remedy("give the job the checkpoints of its earlier life back, or clear the directory, or choose another one")
}

fn proof(file: &StoredFile) -> Proof {
    Proof::seen(format!("file={} bytes={}", file.visible.display(), file.bytes))
}

fn evidence(file: &StoredFile) -> String {
    format!("neither the prepared file {} nor the visible file {} exists", file.hidden.display(), file.visible.display())
}

fn lost(file: &StoredFile) -> Error {
    Error::new(ErrorKind::Lost, codes::FILE_LOST, format!("a prepared file is gone: {}", evidence(file)))
        .at(format!("file={}", file.visible.display()))
        .data(format!(
            "records={} of it are not in the output, unless somebody took the visible file away after its commit",
            file.digest.records
        ))
        .remedy("bring one of the two files back, or accept the loss explicitly")
}

fn changed(path: &Path, file: &StoredFile, found: Option<Metadata>) -> Error {
    let found = match found {
        Some(Metadata { kind: EntryKind::File, bytes }) if bytes == file.bytes => "other content".to_string(),
        Some(Metadata { kind: EntryKind::File, bytes }) => format!("bytes={bytes}"),
        Some(Metadata { kind: EntryKind::Directory | EntryKind::Other, .. }) => "something that is no file".to_string(),
        None => "nothing".to_string(),
    };
    Error::new(
        ErrorKind::Corrupt,
        codes::OUTPUT_CHANGED,
        format!("expected the file as it was written, bytes={}, found {found}", file.bytes),
    )
    .at(format!("file={}", path.display()))
    .data("the file was left as it is, and nothing was made visible")
    .remedy("find out what changed it, and keep it as evidence")
}

fn copy_changed(copy: &str, file: &StoredFile, bytes: u64) -> Error {
    let what =
        format!("the copy of a lost file is not as it was written: expected bytes={}, found bytes={bytes} or other content", file.bytes);
    Error::new(ErrorKind::Corrupt, codes::COPY_CHANGED, what)
        .at(format!("copy={copy} file={}", file.visible.display()))
        .data("nothing was made visible; the records of this file are in no other place of ours")
        .remedy("bring the file or an unchanged copy back, or accept the loss explicitly with `--accept-lost SINK`")
}

fn failed(error: &io::Error, path: &Path) -> Error {
    Error::new(ErrorKind::Retry, codes::COMMIT_FAILED, "the output could not be looked at or made visible")
        .at(format!("file={}", path.display()))
        .cause(error)
        .data("nothing is lost: it is tried again")
        .remedy("see the cause, and the disk or mount")
}
