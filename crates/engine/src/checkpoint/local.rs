//! The checkpoint store in a directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use staunch_api::{CheckpointStore, EntryKind, FileSystem, ObjectMeta, ObjectWriter, Replace, StoreError, WriteFile};

/// Names that end so are unfinished objects; they are not listed.
const UNFINISHED: &str = ".unfinished";
/// Directories deep that a listing goes.
const DEPTH_MAX: usize = 8;

/// Objects are files under a directory; an object is written under another name, synced, and renamed.
///
/// The root is made once. If it is gone later, say because a disk is no longer mounted, the store fails, and does not begin anew
/// elsewhere under the same path: a ledger would go on that lacks its beginning.
pub struct LocalStore {
    file_system: Arc<dyn FileSystem>,
    root: PathBuf,
    /// Tells this process's unfinished files from those that others left.
    writer: String,
    serial: AtomicU64,
    /// Whether an object was created under the root, so that it was there.
    found: AtomicBool,
}

impl LocalStore {
    /// A store under `root`. `writer` must differ from every other process that uses the directory at the same time.
    #[must_use]
    pub fn new(file_system: Arc<dyn FileSystem>, root: &Path, writer: &str) -> LocalStore {
        LocalStore {
            file_system,
            root: root.to_owned(),
            writer: writer.to_owned(),
            serial: AtomicU64::new(0),
            found: AtomicBool::new(false),
        }
    }

    /// # Errors
    /// `Failed` when the root was there and is gone.
    fn look_for_root(&self) -> Result<(), StoreError> {
        if !self.found.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.file_system.metadata(&self.root) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(StoreError::Failed(format!("the directory {} is gone", self.root.display()))),
            Err(error) => Err(failed("look at", &self.root, &error)),
        }
    }

    fn begin(&self, path: &str) -> Result<LocalWriter, StoreError> {
        let target = self.root.join(path);
        let directory = target.parent().unwrap_or(&self.root).to_owned();
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = directory.join(format!("{name}.{}.{serial}{UNFINISHED}", self.writer));
        let file = match self.file_system.create(&unfinished) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.look_for_root()?;
                self.file_system.create_directory(&directory).map_err(|e| failed("create the directory", &directory, &e))?;
                self.file_system.create(&unfinished)
            }
            answer => answer,
        }
        .map_err(|e| failed("create", &unfinished, &e))?;
        self.found.store(true, Ordering::Relaxed);
        Ok(LocalWriter { file_system: Arc::clone(&self.file_system), file, unfinished: Some(unfinished), target })
    }

    fn walk(&self, directory: &Path, prefix: &str, depth: usize, out: &mut Vec<ObjectMeta>) -> Result<(), StoreError> {
        let entries = match self.file_system.list(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.look_for_root(),
            Err(error) => return Err(failed("list", directory, &error)),
        };
        for entry in entries {
            match entry.metadata.kind {
                EntryKind::Directory if depth < DEPTH_MAX => {
                    self.walk(&directory.join(&entry.name), &format!("{prefix}{}/", entry.name), depth + 1, out)?;
                }
                EntryKind::File if !entry.name.ends_with(UNFINISHED) => {
                    out.push(ObjectMeta { path: format!("{prefix}{}", entry.name), bytes: entry.metadata.bytes });
                }
                EntryKind::File | EntryKind::Directory | EntryKind::Other => {}
            }
        }
        Ok(())
    }
}

impl CheckpointStore for LocalStore {
    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut writer = self.begin(path)?;
        writer.append(bytes)?;
        Box::new(writer).finish()
    }

    fn writer(&self, path: &str) -> Result<Box<dyn ObjectWriter>, StoreError> {
        Ok(Box::new(self.begin(path)?))
    }

    fn read(&self, path: &str, offset: u64, bytes: Option<u64>) -> Result<Vec<u8>, StoreError> {
        let target = self.root.join(path);
        let file = match self.file_system.open(&target) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.look_for_root()?;
                return Err(StoreError::Absent);
            }
            Err(error) => return Err(failed("open", &target, &error)),
        };
        let length = file.bytes().map_err(|e| failed("measure", &target, &e))?.saturating_sub(offset);
        let wanted = bytes.map_or(length, |b| b.min(length));
        let mut buffer = vec![0; usize::try_from(wanted).map_err(|e| StoreError::Failed(e.to_string()))?];
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64).map_err(|e| failed("read", &target, &e))? {
                0 => break,
                n => filled += n,
            }
        }
        buffer.truncate(filled);
        Ok(buffer)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let mut out = Vec::new();
        self.walk(&self.root.join(prefix), prefix, 0, &mut out)?;
        out.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(out)
    }

    fn remove(&self, path: &str) -> Result<(), StoreError> {
        let target = self.root.join(path);
        match self.file_system.remove(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &target, &error)),
            _ => Ok(()),
        }
    }

    fn clear_unfinished(&self) -> Result<(), StoreError> {
        let own = format!(".{}.", self.writer);
        let mut directories = vec![(self.root.clone(), 0)];
        while let Some((directory, depth)) = directories.pop() {
            let entries = match self.file_system.list(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("list", &directory, &error)),
            };
            for entry in entries {
                let path = directory.join(&entry.name);
                match entry.metadata.kind {
                    EntryKind::Directory if depth < DEPTH_MAX => directories.push((path, depth + 1)),
                    EntryKind::File if entry.name.ends_with(UNFINISHED) && !entry.name.contains(&own) => {
                        match self.file_system.remove(&path) {
                            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove", &path, &error)),
                            _ => {}
                        }
                    }
                    EntryKind::File | EntryKind::Directory | EntryKind::Other => {}
                }
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("file://{}", self.root.display())
    }
}

struct LocalWriter {
    file_system: Arc<dyn FileSystem>,
    file: Box<dyn WriteFile>,
    unfinished: Option<PathBuf>,
    target: PathBuf,
}

impl ObjectWriter for LocalWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.append(bytes).map_err(|e| failed("write", &self.target, &e))
    }

    fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        self.file.sync().map_err(|e| failed("sync", &self.target, &e))?;
        let Some(unfinished) = &self.unfinished else { return Ok(()) };
        match self.file_system.rename(unfinished, &self.target, Replace::Never) {
            Ok(()) => {
                self.unfinished = None;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(StoreError::Exists),
            // The rename may have happened and only the sync of the directory failed.
            Err(error) => Err(StoreError::Unknown(format!("cannot rename to {}: {error}", self.target.display()))),
        }
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            // Nobody reads it, and the collector finds what stays.
            let _ = self.file_system.remove(unfinished);
        }
    }
}

fn failed(action: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("cannot {action} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use staunch_api::testkit::{MemoryFiles, StoreCase, check_store};

    use super::*;
    use crate::runtime::SystemFiles;

    fn conforms(files: &Arc<dyn FileSystem>, root: &Path, unfinished: &dyn Fn() -> usize) {
        let writers = AtomicU64::new(0);
        let open = || -> Arc<dyn CheckpointStore> {
            let writer = format!("w{}", writers.fetch_add(1, Ordering::Relaxed));
            Arc::new(LocalStore::new(Arc::clone(files), root, &writer))
        };
        check_store(&StoreCase { open: &open, unfinished, large: 1, spares_newer: false });
    }

    fn unfinished_below(directory: &Path) -> usize {
        let entries = SystemFiles.list(directory).unwrap_or_default().into_iter();
        let count = |entry: staunch_api::DirectoryEntry| match entry.metadata.kind {
            EntryKind::Directory => unfinished_below(&directory.join(&entry.name)),
            EntryKind::File | EntryKind::Other => usize::from(entry.name.ends_with(UNFINISHED)),
        };
        entries.map(count).sum()
    }

    #[test]
    fn a_directory_is_a_checkpoint_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("some/where");
        conforms(&(Arc::new(SystemFiles) as Arc<dyn FileSystem>), &root, &|| unfinished_below(&root));
    }

    #[test]
    fn a_directory_in_memory_is_a_checkpoint_store() {
        let files = MemoryFiles::new();
        let unfinished = || files.paths().iter().filter(|path| path.to_string_lossy().ends_with(UNFINISHED)).count();
        conforms(&(Arc::new(files.clone()) as Arc<dyn FileSystem>), Path::new("/some/where"), &unfinished);
    }
}
