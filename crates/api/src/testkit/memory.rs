//! A file system in memory that can refuse, be full, and forget what was not synced.
//!
//! It keeps to the contract of [`FileSystem`] to the letter, and promises no more: after [`MemoryFiles::crash`], bytes appended since the
//! last sync are gone, and so is a file whose name no rename made durable; a removed file is back when its removal was not made durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{DirectoryEntry, EntryKind, FileSystem, Metadata, ReadFile, Replace, WriteFile};

/// What a file system is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Open for reading.
    Open,
    /// Read.
    Read,
    /// Create.
    Create,
    /// Append.
    Append,
    /// Sync.
    Sync,
    /// Rename; the path is the target.
    Rename,
    /// Remove.
    Remove,
    /// List.
    List,
    /// Create a directory.
    CreateDirectory,
    /// Look at what is there.
    Metadata,
}

/// Refuses an operation on all paths that hold a text.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What is refused.
    pub operation: Operation,
    /// Part of the path.
    pub path_has: String,
    /// How.
    pub error: io::ErrorKind,
    /// How many times it still goes well before.
    pub after: u64,
}

type Content = Arc<Mutex<Bytes>>;

#[derive(Default)]
struct Bytes {
    all: Vec<u8>,
    synced: usize,
}

#[derive(Default)]
struct Disk {
    names: BTreeMap<PathBuf, Content>,
    /// The names as a crash would leave them.
    durable: BTreeMap<PathBuf, Content>,
    directories: BTreeSet<PathBuf>,
    faults: Vec<Fault>,
    /// Bytes that still fit.
    free: Option<u64>,
    /// Bytes that one read gives at most.
    read_bytes_max: Option<usize>,
}

/// See the module. Clones are the same file system.
#[derive(Clone, Default)]
pub struct MemoryFiles {
    disk: Arc<Mutex<Disk>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path without `.`; the working directory is `/`.
fn plain(path: &Path) -> PathBuf {
    Path::new("/").join(path).components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

impl Disk {
    fn ask(&mut self, operation: Operation, path: &Path) -> io::Result<()> {
        let text = path.to_string_lossy();
        for fault in &mut self.faults {
            if fault.operation == operation && text.contains(&fault.path_has) {
                match fault.after.checked_sub(1) {
                    None => return Err(fault.error.into()),
                    Some(left) => fault.after = left,
                }
            }
        }
        Ok(())
    }

    fn is_directory(&self, path: &Path) -> bool {
        path == Path::new("/") || self.directories.contains(path)
    }

    fn parent_exists(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if self.is_directory(parent) => Ok(()),
            Some(parent) if self.names.contains_key(parent) => Err(io::ErrorKind::NotADirectory.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Makes the present names in a directory durable.
    fn sync_directory(&mut self, path: &Path) {
        let Some(directory) = path.parent() else { return };
        self.durable.retain(|name, _| name.parent() != Some(directory));
        let present = self.names.iter().filter(|(name, _)| name.parent() == Some(directory));
        self.durable.extend(present.map(|(name, content)| (name.clone(), Arc::clone(content))));
    }
}

impl MemoryFiles {
    /// An empty file system.
    #[must_use]
    pub fn new() -> MemoryFiles {
        MemoryFiles::default()
    }

    /// Puts a whole, durable file at a path, with the directories above it.
    pub fn put(&self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        let path = plain(path.as_ref());
        let all = bytes.into();
        let synced = all.len();
        let content = Arc::new(Mutex::new(Bytes { all, synced }));
        let mut disk = lock(&self.disk);
        disk.directories.extend(path.ancestors().skip(1).map(Path::to_path_buf));
        disk.names.insert(path.clone(), Arc::clone(&content));
        disk.durable.insert(path, content);
    }

    /// Makes a directory, with those above it.
    pub fn make_directory(&self, path: impl AsRef<Path>) {
        lock(&self.disk).directories.extend(plain(path.as_ref()).ancestors().map(Path::to_path_buf));
    }

    /// Appends to a file behind the back of those who have it open.
    pub fn grow(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        if let Some(content) = lock(&self.disk).names.get(&plain(path.as_ref())) {
            lock(content).all.extend_from_slice(bytes);
        }
    }

    /// Takes a file away for good; `false` when there is none.
    pub fn take(&self, path: impl AsRef<Path>) -> bool {
        let path = plain(path.as_ref());
        let mut disk = lock(&self.disk);
        disk.durable.remove(&path);
        disk.names.remove(&path).is_some()
    }

    /// The bytes of a file.
    #[must_use]
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let content = lock(&self.disk).names.get(&plain(path.as_ref())).cloned()?;
        let bytes = lock(&content).all.clone();
        Some(bytes)
    }

    /// All files, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        lock(&self.disk).names.keys().cloned().collect()
    }

    /// Refuses operations from now on.
    pub fn fail(&self, fault: Fault) {
        lock(&self.disk).faults.push(fault);
    }

    /// Refuses nothing any more.
    pub fn heal(&self) {
        lock(&self.disk).faults.clear();
    }

    /// Lets so many more bytes fit.
    pub fn leave_room(&self, bytes: u64) {
        lock(&self.disk).free = Some(bytes);
    }

    /// Gives at most so many bytes to one read.
    pub fn read_at_most(&self, bytes: usize) {
        lock(&self.disk).read_bytes_max = Some(bytes);
    }

    /// Stops the machine: what was not made durable is gone.
    pub fn crash(&self) {
        let mut disk = lock(&self.disk);
        let mut names = BTreeMap::new();
        for (path, content) in &disk.durable {
            let bytes = lock(content);
            let all = bytes.all[..bytes.synced].to_vec();
            names.insert(path.clone(), Arc::new(Mutex::new(Bytes { all, synced: bytes.synced })));
        }
        disk.durable.clone_from(&names);
        disk.names = names;
    }
}

struct Reading {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    content: Content,
}

impl ReadFile for Reading {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let limit = {
            let mut disk = lock(&self.disk);
            disk.ask(Operation::Read, &self.path)?;
            disk.read_bytes_max.unwrap_or(usize::MAX)
        };
        let content = lock(&self.content);
        let rest = content.all.get(offset as usize..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len()).min(limit);
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(lock(&self.content).all.len() as u64)
    }
}

struct Writing {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
    content: Content,
}

impl WriteFile for Writing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = lock(&self.disk);
        disk.ask(Operation::Append, &self.path)?;
        let fits = disk.free.map_or(bytes.len(), |free| bytes.len().min(free as usize));
        disk.free = disk.free.map(|free| free - fits as u64);
        lock(&self.content).all.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        lock(&self.disk).ask(Operation::Sync, &self.path)?;
        let mut content = lock(&self.content);
        content.synced = content.all.len();
        Ok(())
    }
}

impl FileSystem for MemoryFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        let path = plain(path);
        let mut disk = lock(&self.disk);
        disk.ask(Operation::Open, &path)?;
        let content = Arc::clone(disk.names.get(&path).ok_or(io::ErrorKind::NotFound)?);
        Ok(Box::new(Reading { disk: Arc::clone(&self.disk), path, content }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let path = plain(path);
        let mut disk = lock(&self.disk);
        disk.ask(Operation::Create, &path)?;
        disk.parent_exists(&path)?;
        if disk.names.contains_key(&path) || disk.is_directory(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Content::default();
        disk.names.insert(path.clone(), Arc::clone(&content));
        Ok(Box::new(Writing { disk: Arc::clone(&self.disk), path, content }))
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        let (from, to) = (plain(from), plain(to));
        let mut disk = lock(&self.disk);
        disk.ask(Operation::Rename, &to)?;
        disk.parent_exists(&to)?;
        let content = Arc::clone(disk.names.get(&from).ok_or(io::ErrorKind::NotFound)?);
        if disk.is_directory(&to) || (replace == Replace::Never && disk.names.contains_key(&to)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.names.remove(&from);
        disk.names.insert(to.clone(), content);
        disk.sync_directory(&to);
        disk.sync_directory(&from);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = plain(path);
        let mut disk = lock(&self.disk);
        disk.ask(Operation::Remove, &path)?;
        disk.names.remove(&path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let directory = plain(directory);
        let mut disk = lock(&self.disk);
        disk.ask(Operation::List, &directory)?;
        if !disk.is_directory(&directory) {
            let kind = if disk.names.contains_key(&directory) { io::ErrorKind::NotADirectory } else { io::ErrorKind::NotFound };
            return Err(kind.into());
        }
        let inside = |path: &Path| {
            (path.parent() == Some(&directory)).then(|| path.file_name().map(|name| name.to_string_lossy().into_owned())).flatten()
        };
        let files = disk.names.iter().filter_map(|(path, content)| {
            let metadata = Metadata { kind: EntryKind::File, bytes: lock(content).all.len() as u64 };
            Some(DirectoryEntry { name: inside(path)?, metadata })
        });
        let directories = disk
            .directories
            .iter()
            .filter_map(|path| Some(DirectoryEntry { name: inside(path)?, metadata: Metadata { kind: EntryKind::Directory, bytes: 0 } }));
        let mut entries: Vec<DirectoryEntry> = files.chain(directories).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let path = plain(path);
        let mut disk = lock(&self.disk);
        disk.ask(Operation::CreateDirectory, &path)?;
        if path.ancestors().any(|above| disk.names.contains_key(above)) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        disk.directories.extend(path.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        let path = plain(path);
        let mut disk = lock(&self.disk);
        disk.ask(Operation::Metadata, &path)?;
        if disk.is_directory(&path) {
            return Ok(Some(Metadata { kind: EntryKind::Directory, bytes: 0 }));
        }
        Ok(disk.names.get(&path).map(|content| Metadata { kind: EntryKind::File, bytes: lock(content).all.len() as u64 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_what_was_synced_and_renamed_and_nothing_else() {
        let files = MemoryFiles::new();
        files.make_directory("/d");
        let write = |name: &str| {
            let mut file = files.create(Path::new(name)).expect("creates");
            file.append(b"kept").expect("appends");
            file.sync().expect("syncs");
            file.append(b"lost").expect("appends");
        };
        write("/d/a");
        write("/d/b");
        files.rename(Path::new("/d/a"), Path::new("/d/c"), Replace::Never).expect("renames");
        write("/d/e");
        files.remove(Path::new("/d/c")).expect("removes");
        files.crash();
        assert_eq!(files.paths(), [PathBuf::from("/d/b"), PathBuf::from("/d/c")]);
        assert_eq!(files.get("/d/c"), Some(b"kept".to_vec()));
    }

    #[test]
    fn a_full_disk_takes_what_fits() {
        let files = MemoryFiles::new();
        files.leave_room(3);
        let mut file = files.create(Path::new("/f")).expect("creates");
        assert_eq!(file.append(b"abcdef").expect_err("full").kind(), io::ErrorKind::StorageFull);
        assert_eq!(files.get("/f"), Some(b"abc".to_vec()));
    }
}
