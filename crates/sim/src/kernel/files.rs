//! The file system as one process sees it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use staunch_api::{DirectoryEntry, FileSystem, Metadata, ReadFile, Replace, WriteFile};

use super::fault::Operation;
use super::{Disk, FileId, Kernel, ProcessId};

/// The disk, through one process.
#[derive(Clone)]
pub struct SimFiles {
    kernel: Arc<Kernel>,
    process: ProcessId,
}

struct Open {
    files: SimFiles,
    file: FileId,
    path: String,
}

impl SimFiles {
    /// The file system of a process.
    #[must_use]
    pub fn new(kernel: Arc<Kernel>, process: ProcessId) -> SimFiles {
        SimFiles { kernel, process }
    }

    fn act<T>(&self, operation: Operation, path: &str, action: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        self.kernel.perform(self.process, operation, path, |machine| action(&mut machine.disk))
    }
}

fn text(path: &Path) -> &str {
    let text = path.to_str().unwrap_or("/not-utf-8");
    assert!(text.starts_with('/'), "the simulated file system knows absolute paths only: {text}");
    if text.len() > 1 { text.trim_end_matches('/') } else { text }
}

impl ReadFile for Open {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.files.act(Operation::Read, &self.path, |disk| Ok(disk.read_at(self.file, buffer, offset)))
    }

    fn bytes(&self) -> io::Result<u64> {
        self.files.act(Operation::Read, &self.path, |disk| Ok(disk.length(self.file)))
    }
}

impl WriteFile for Open {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = self.file;
        let answer = self.files.act(Operation::Append, &self.path, |disk| {
            disk.append(file, bytes);
            Ok(())
        });
        if answer.is_err() {
            self.files.kernel.machine().append_torn(self.files.process, file, bytes);
        }
        answer
    }

    fn sync(&mut self) -> io::Result<()> {
        let file = self.file;
        self.files.act(Operation::Sync, &self.path, |disk| {
            disk.sync(file);
            Ok(())
        })
    }
}

impl FileSystem for SimFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        let path = text(path);
        let file = self.act(Operation::Open, path, |disk| disk.open(path))?;
        Ok(Box::new(Open { files: self.clone(), file, path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let path = text(path);
        let file = self.act(Operation::Create, path, |disk| disk.create(path))?;
        Ok(Box::new(Open { files: self.clone(), file, path: path.to_owned() }))
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        let (from, to) = (text(from), text(to));
        self.act(Operation::Rename, to, |disk| disk.rename(from, to, replace))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = text(path);
        self.act(Operation::Remove, path, |disk| disk.remove(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let path = text(directory);
        self.act(Operation::List, path, |disk| disk.list(path))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let path = text(path);
        self.act(Operation::CreateDirectory, path, |disk| disk.create_directory(path))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        let path = text(path);
        self.act(Operation::Metadata, path, |disk| Ok(disk.metadata(path)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use staunch_api::testkit::{StoreCase, check_store};
    use staunch_engine::checkpoint::LocalStore;

    use super::*;

    #[test]
    fn a_directory_of_the_simulated_disk_is_a_checkpoint_store() {
        let (kernel, processes) = (Kernel::new(1), AtomicU32::new(1));
        let open = || -> Arc<dyn staunch_api::CheckpointStore> {
            let process = ProcessId(processes.fetch_add(1, Ordering::Relaxed));
            kernel.machine().boot(process);
            let files = Arc::new(SimFiles::new(Arc::clone(&kernel), process));
            Arc::new(LocalStore::new(files, Path::new("/some/where"), &process.to_string()))
        };
        // Nobody else names them so; what is left of them is seen by whoever clears last.
        let unfinished = || kernel.machine().disk.under("/some").filter(|path| path.ends_with(".unfinished")).count();
        check_store(&StoreCase { open: &open, unfinished: &unfinished, large: 1, spares_newer: false });
    }
}
