//! The operating system's files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use staunch_api::{DirectoryEntry, EntryKind, FileSystem, Metadata, ReadFile, Replace, WriteFile};

use super::file_writer::FileWriter;

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

struct Open(File);

impl ReadFile for Open {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return answer,
            }
        }
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl FileSystem for SystemFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(Open(File::open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(FileWriter::new(OpenOptions::new().append(true).create_new(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        match replace {
            Replace::Allowed => fs::rename(from, to)?,
            Replace::Never => match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
                Ok(()) => {}
                // Some file systems know no such rename: a link is as conditional, and leaves two names if we stop in between.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    fs::hard_link(from, to)?;
                    fs::remove_file(from)?;
                }
                Err(error) => return Err(error.into()),
            },
        }
        sync_directory(to)?;
        if from.parent() != to.parent() {
            sync_directory(from)?;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = match fs::metadata(entry.path()) {
                Ok(metadata) => describe(&metadata),
                // A broken link, or removed since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // A link that leads to itself: no later look would find more.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                    Metadata { kind: EntryKind::Other, bytes: 0 }
                }
                Err(error) => return Err(error),
            };
            entries.push(DirectoryEntry { name: entry.file_name().to_string_lossy().into_owned(), metadata });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let lineage: Vec<&Path> = path.ancestors().take_while(|a| !a.as_os_str().is_empty()).collect();
        let missing = lineage.iter().take_while(|a| !a.is_dir()).count();
        fs::create_dir_all(path)?;
        // The one above them too: somebody else may have made it just now.
        lineage.into_iter().take(missing + 1).try_for_each(sync_directory)
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(describe(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn describe(metadata: &fs::Metadata) -> Metadata {
    let kind = if metadata.is_file() {
        EntryKind::File
    } else if metadata.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::Other
    };
    Metadata { kind, bytes: metadata.len() }
}

/// Makes the name of `path` durable by syncing the directory that holds it.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => return Ok(()),
    };
    match File::open(parent)?.sync_all() {
        // A directory that we may write but not read, such as `/` in a container, cannot be synced by us.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_to_itself_is_neither_file_nor_directory_and_hides_no_other_entry() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("file"), "text").expect("room");
        std::os::unix::fs::symlink("loop", folder.path().join("loop")).expect("a link");
        let entries = SystemFiles.list(folder.path()).expect("a list");
        let found: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.metadata.kind)).collect();
        assert_eq!(found, [("file", EntryKind::File), ("loop", EntryKind::Other)]);
    }
}
