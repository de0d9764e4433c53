//! The files of this machine, with a disk that has no room at the output.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use staunch_api::{DirectoryEntry, FileSystem, Metadata, ReadFile, Replace, WriteFile};
use staunch_engine::runtime::{SystemFiles, World};

use super::Told;
use super::embedded::{self, Kind};
use crate::harness::Place;

/// Runs the job with a full disk under its output.
pub(super) fn ends(place: &Place) -> Told {
    let mut world = World::system(2);
    world.file_system = Arc::new(FullDisk { under: place.output() });
    embedded::ends_in(place, Kind::Good, Some(world))
}

/// Files under one directory take no bytes.
struct FullDisk {
    under: PathBuf,
}

impl FileSystem for FullDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        SystemFiles.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = SystemFiles.create(path)?;
        if path.starts_with(&self.under) { Ok(Box::new(Full)) } else { Ok(file) }
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        SystemFiles.rename(from, to, replace)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        SystemFiles.list(directory)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        SystemFiles.create_directory(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        SystemFiles.metadata(path)
    }
}

/// A file that takes no bytes.
struct Full;

impl WriteFile for Full {
    fn append(&mut self, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
