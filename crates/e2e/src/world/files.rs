//! A file system that follows a script.

use std::io;
use std::path::Path;
use std::sync::Arc;

use staunch_api::{DirectoryEntry, FileSystem, Metadata, ReadFile, Replace, WriteFile};

use super::fault::Script;
use super::step::{Object, Operation};
use super::throttle::Throttle;

/// The files of another file system, but for what a script says.
pub struct FaultyFiles {
    inner: Arc<dyn FileSystem>,
    shared: Arc<Shared>,
}

struct Shared {
    script: Arc<Script>,
    throttle: Option<Throttle>,
}

impl FaultyFiles {
    /// Stands before `inner`. The throttle is for the input only.
    #[must_use]
    pub fn new(inner: Arc<dyn FileSystem>, script: Arc<Script>, throttle: Option<Throttle>) -> FaultyFiles {
        FaultyFiles { inner, shared: Arc::new(Shared { script, throttle }) }
    }

    fn step<T>(&self, operation: Operation, path: &Path, deed: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.shared.script.around(operation, Object::at(path), deed)
    }
}

impl FileSystem for FaultyFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        let inner = self.step(Operation::Open, path, || self.inner.open(path))?;
        Ok(Box::new(Reading { inner, object: Object::at(path), shared: Arc::clone(&self.shared) }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let inner = self.step(Operation::Create, path, || self.inner.create(path))?;
        Ok(Box::new(Writing { inner, object: Object::at(path), shared: Arc::clone(&self.shared) }))
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        self.step(Operation::Rename, to, || self.inner.rename(from, to, replace))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(Operation::Remove, path, || self.inner.remove(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.step(Operation::List, directory, || self.inner.list(directory))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.step(Operation::Directory, path, || self.inner.create_directory(path))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.step(Operation::Look, path, || self.inner.metadata(path))
    }
}

struct Reading {
    inner: Box<dyn ReadFile>,
    object: Object,
    shared: Arc<Shared>,
}

impl ReadFile for Reading {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.shared.script.around(Operation::Read, self.object, || self.inner.read_at(buffer, offset))?;
        if let (Object::Other, Some(throttle)) = (self.object, &self.shared.throttle) {
            throttle.wait(read);
        }
        Ok(read)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.inner.bytes()
    }
}

struct Writing {
    inner: Box<dyn WriteFile>,
    object: Object,
    shared: Arc<Shared>,
}

impl WriteFile for Writing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.shared.script.around(Operation::Append, self.object, || self.inner.append(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.shared.script.around(Operation::Sync, self.object, || self.inner.sync())
    }
}
