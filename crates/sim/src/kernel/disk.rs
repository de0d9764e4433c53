//! A disk in memory that knows what a power loss would leave of it.
//!
//! Owns: the tree, the content, and for both what is durable. Does not own: faults of single operations, time.
//!
//! It promises no more than [`staunch_api::FileSystem`] does: bytes are durable after a sync, names after a rename into or out of their
//! directory; a removed file is gone for good only then. Paths are absolute and plain.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use staunch_api::{DirectoryEntry, EntryKind, Metadata, Replace};

use super::Random;

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(u64);

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    synced: usize,
}

/// Something about a path is no longer as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub path: String,
    /// What.
    pub kind: ChangeKind,
}

/// What is no longer as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A name appeared, by a create or after a power loss.
    Created,
    /// A name appeared by a rename.
    Renamed,
    /// The content is another.
    Written,
    /// The name is gone.
    Removed,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Disk {
    names: BTreeMap<String, FileId>,
    /// The names as they would be after a power loss, in the worst case.
    durable: BTreeMap<String, FileId>,
    directories: BTreeSet<String>,
    files: BTreeMap<FileId, Content>,
    next: u64,
    changes: Vec<Change>,
}

/// The directory that holds a path.
fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

/// A directory and all above it.
fn ancestors(directory: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(directory), |path| (*path != "/").then(|| parent(path)))
}

impl Disk {
    /// What changed since last asked.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Puts a file there, durable, whoever else uses the disk.
    pub fn place(&mut self, path: &str, bytes: &[u8]) {
        self.directories.extend(ancestors(parent(path)).map(str::to_owned));
        let file = self.new_file(bytes.to_vec(), bytes.len());
        self.names.insert(path.to_owned(), file);
        self.durable.insert(path.to_owned(), file);
        self.changed(path, ChangeKind::Written);
    }

    /// Takes a file away for good, whoever else uses the disk.
    pub fn take_away(&mut self, path: &str) {
        self.names.remove(path);
        self.durable.remove(path);
        self.changed(path, ChangeKind::Removed);
    }

    /// The content of a file; `None` when there is none.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<&[u8]> {
        self.names.get(path).and_then(|file| self.files.get(file)).map(|content| content.bytes.as_slice())
    }

    /// All files under a directory, by path.
    pub fn under<'a>(&'a self, directory: &str) -> impl Iterator<Item = &'a str> {
        let prefix = format!("{directory}/");
        let from = self.names.range(prefix.clone()..).map(|(path, _)| path.as_str());
        from.take_while(move |path| path.starts_with(&prefix))
    }

    /// The file at a path.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn open(&self, path: &str) -> io::Result<FileId> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Reads at most `buffer.len()` bytes.
    pub fn read_at(&self, file: FileId, buffer: &mut [u8], offset: u64) -> usize {
        let bytes = self.files.get(&file).map_or(&[][..], |content| &content.bytes);
        let from = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        count
    }

    /// Bytes of a file.
    #[must_use]
    pub fn length(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |content| content.bytes.len() as u64)
    }

    /// Creates a file.
    ///
    /// # Errors
    /// `AlreadyExists`; `NotFound` when the directory does not exist.
    pub fn create(&mut self, path: &str) -> io::Result<FileId> {
        if self.names.contains_key(path) || self.directories.contains(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.has_parent(path)?;
        let file = self.new_file(Vec::new(), 0);
        self.names.insert(path.to_owned(), file);
        self.changed(path, ChangeKind::Created);
        Ok(file)
    }

    /// Appends to a file, which may have lost its name.
    pub fn append(&mut self, file: FileId, bytes: &[u8]) {
        if let Some(content) = self.files.get_mut(&file) {
            content.bytes.extend_from_slice(bytes);
        }
        self.written(file);
    }

    /// Makes the content of a file durable.
    pub fn sync(&mut self, file: FileId) {
        if let Some(content) = self.files.get_mut(&file) {
            content.synced = content.bytes.len();
        }
    }

    /// Renames a file and makes both directories durable.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`.
    pub fn rename(&mut self, from: &str, to: &str, replace: Replace) -> io::Result<()> {
        let file = self.open(from)?;
        self.has_parent(to)?;
        if self.directories.contains(to) || (replace == Replace::Never && self.names.contains_key(to)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.names.remove(from);
        self.names.insert(to.to_owned(), file);
        self.changed(from, ChangeKind::Removed);
        self.changed(to, ChangeKind::Renamed);
        self.sync_directory(parent(to));
        self.sync_directory(parent(from));
        Ok(())
    }

    /// Removes a name.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove(&mut self, path: &str) -> io::Result<()> {
        self.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        self.changed(path, ChangeKind::Removed);
        Ok(())
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn list(&self, directory: &str) -> io::Result<Vec<DirectoryEntry>> {
        if !self.directories.contains(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let prefix = if directory == "/" { "/".to_owned() } else { format!("{directory}/") };
        let inside = |path: &str| path.strip_prefix(&prefix).filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned);
        let entry = |name, kind, bytes| DirectoryEntry { name, metadata: Metadata { kind, bytes } };
        let files = self.names.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let files = files.filter_map(|(path, file)| Some(entry(inside(path)?, EntryKind::File, self.length(*file))));
        let directories = self.directories.range(prefix.clone()..).take_while(|path| path.starts_with(&prefix));
        let directories = directories.filter_map(|path| Some(entry(inside(path)?, EntryKind::Directory, 0)));
        let mut entries: Vec<DirectoryEntry> = files.chain(directories).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Creates a directory and those above it.
    ///
    /// # Errors
    /// `NotADirectory`.
    pub fn create_directory(&mut self, path: &str) -> io::Result<()> {
        if ancestors(path).any(|directory| self.names.contains_key(directory)) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        self.directories.extend(ancestors(path).map(str::to_owned));
        Ok(())
    }

    /// What is at a path.
    #[must_use]
    pub fn metadata(&self, path: &str) -> Option<Metadata> {
        if self.directories.contains(path) {
            return Some(Metadata { kind: EntryKind::Directory, bytes: 0 });
        }
        self.names.get(path).map(|file| Metadata { kind: EntryKind::File, bytes: self.length(*file) })
    }

    /// The machine loses power: of what is not durable, chance decides what is left.
    pub fn power_loss(&mut self, random: &mut Random) {
        let torn: Vec<FileId> =
            self.files.iter().filter(|(_, content)| content.synced < content.bytes.len()).map(|(file, _)| *file).collect();
        for file in torn {
            let Some(content) = self.files.get_mut(&file) else { continue };
            let left = random.between(content.synced as u64, content.bytes.len() as u64) as usize;
            content.bytes.truncate(left);
            if random.chance(5_000) {
                content.bytes[content.synced..].fill(0);
            }
            content.synced = content.bytes.len();
            self.written(file);
        }
        let either: BTreeSet<String> = self.names.keys().chain(self.durable.keys()).cloned().collect();
        for path in either {
            let (now, worst) = (self.names.get(&path).copied(), self.durable.get(&path).copied());
            if now != worst && random.chance(5_000) {
                match worst {
                    Some(file) => drop(self.names.insert(path.clone(), file)),
                    None => drop(self.names.remove(&path)),
                }
                self.changed(&path, if worst.is_some() { ChangeKind::Created } else { ChangeKind::Removed });
            }
        }
        self.durable.clone_from(&self.names);
    }

    fn new_file(&mut self, bytes: Vec<u8>, synced: usize) -> FileId {
        let file = FileId(self.next);
        self.next += 1;
        self.files.insert(file, Content { bytes, synced });
        file
    }

    fn has_parent(&self, path: &str) -> io::Result<()> {
        if self.directories.contains(parent(path)) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn sync_directory(&mut self, directory: &str) {
        self.durable.retain(|path, _| parent(path) != directory);
        let now: Vec<(String, FileId)> = self.names.iter().filter(|(p, _)| parent(p) == directory).map(|(p, f)| (p.clone(), *f)).collect();
        self.durable.extend(now);
    }

    fn written(&mut self, file: FileId) {
        let name = self.names.iter().find(|(_, other)| **other == file).map(|(path, _)| path.clone());
        if let Some(path) = name {
            self.changed(&path, ChangeKind::Written);
        }
    }

    fn changed(&mut self, path: &str, kind: ChangeKind) {
        self.changes.push(Change { path: path.to_owned(), kind });
    }
}
