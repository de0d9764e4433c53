//! Directories on the local disk: one for a process, in it one for each database.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};
use staunch_api::DatabasePlace;
use staunch_types::Result;

use crate::codes;

/// Directories of processes begin so.
const PREFIX: &str = "staunch-state-";
/// Names that are tried.
const NAMES_MAX: u32 = 1_000;
/// In each of them, the file that its process holds locked.
const LOCK: &str = "lock";

/// The directory of this process. It is removed with it, or by the next process that finds it unlocked.
pub(crate) struct Home {
    path: PathBuf,
    next: AtomicU64,
    _lock: File,
}

/// The directory of one database, or of one of its checkpoints; removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Home {
    pub(crate) fn new(base: &Path) -> Result<Home> {
        fs::create_dir_all(base).map_err(|error| codes::unusable(base, error))?;
        remove_abandoned(base);
        for attempt in 0..NAMES_MAX {
            let path = base.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(codes::unusable(base, error)),
            }
            let lock = match File::create(path.join(LOCK)) {
                Ok(lock) => lock,
                // Whoever looked in between took it for abandoned.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(codes::unusable(&path, error)),
            };
            // Whoever looked in between takes the directory for abandoned, as it would be without its lock.
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && path.join(LOCK).exists() {
                return Ok(Home { path, next: AtomicU64::new(0), _lock: lock });
            }
        }
        Err(codes::unusable(base, "no name for a directory is free"))
    }

    /// A new directory for a database.
    pub(crate) fn folder(&self, place: &DatabasePlace) -> Result<Folder> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!(
            "{}-{}-{}.{}-g{}-{number}",
            place.job.component(),
            place.operator.component(),
            place.task.chain,
            place.task.index,
            place.generation
        );
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(|error| codes::failed("opened", &path, error))?;
        Ok(Folder(path))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next process that comes by.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A folder in this one, which must not exist yet: RocksDB makes it.
    pub(crate) fn inner(&self, name: &str) -> Folder {
        Folder(self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the directories of processes that are gone.
fn remove_abandoned(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        match File::open(entry.path().join(LOCK)) {
            Ok(lock) if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() => drop(fs::remove_dir_all(entry.path())),
            // Its process died before it made the file; one that is about to make it finds another name.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => drop(fs::remove_dir(entry.path())),
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_removed_with_its_process_or_after_it_and_never_before() {
        let base = tempfile::tempdir().expect("a directory");
        let first = Home::new(base.path()).expect("a home");
        let abandoned = base.path().join("staunch-state-1-7");
        fs::create_dir(&abandoned).expect("a directory");
        File::create(abandoned.join(LOCK)).expect("a file");
        fs::create_dir(base.path().join("staunch-state-1-8")).expect("a directory without a lock");
        let foreign = base.path().join("other");
        fs::create_dir(&foreign).expect("a directory");
        let second = Home::new(base.path()).expect("a home");
        assert!(first.path.exists() && second.path.exists() && foreign.exists() && !abandoned.exists());
        assert_eq!(fs::read_dir(base.path()).expect("a directory").count(), 3);
        let path = first.path.clone();
        drop(first);
        assert!(!path.exists() && second.path.exists());
    }
}
