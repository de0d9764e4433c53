//! The same on the disk of this machine, with a plain implementation of the contract.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use staunch_api::testkit::{DeadLetter, ImmediateDoor, SinkCase, SourceCase, check_sink, check_source, read_all};
use staunch_api::{DirectoryEntry, EntryKind, FileSystem, Metadata, ReadFile, Replace, Sink, WriteFile};
use staunch_files::{Compression, FileSink, FileSource};

use super::support::{Row, store};
use super::writing::numbered;

/// The operating system, in its plainest form.
struct Disk;

struct Handle(File);

impl ReadFile for Handle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl WriteFile for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn describe(metadata: &fs::Metadata) -> Metadata {
    let kind = if metadata.is_dir() { EntryKind::Directory } else { EntryKind::File };
    Metadata { kind, bytes: metadata.len() }
}

impl FileSystem for Disk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(Handle(File::open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Handle(OpenOptions::new().append(true).create_new(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        if replace == Replace::Never && to.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            entries.push(DirectoryEntry { name: entry.file_name().to_string_lossy().into_owned(), metadata: describe(&entry.metadata()?) });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(describe(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[test]
fn sources_and_sinks_keep_their_promises_on_a_real_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, compression) in [("plain", Compression::None), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)] {
        let out = directory.path().join(name);
        let read = |dead_letter| SourceCase { source: FileSource::csv::<Row>(&out), file_system: Arc::new(Disk), dead_letter };
        let visible =
            || match fs::read_dir(&out).map(|entries| entries.flatten().any(|e| !e.file_name().to_string_lossy().starts_with('.'))) {
                Ok(true) => {
                    let found = read_all(&read(DeadLetter::None)).unwrap_or_else(|error| panic!("{error}"));
                    let mut ids: Vec<u64> = found.records().map(|row| row.id).collect();
                    ids.sort_unstable();
                    ids
                }
                Ok(false) | Err(_) => Vec::new(),
            };
        let sink = FileSink::csv::<Row>(&out).compression(compression);
        check_sink(&SinkCase::new(sink, Arc::new(Disk), store(), &numbered, &visible));
        check_source(&read(DeadLetter::None));
    }
}

#[test]
fn a_full_disk_is_found_by_the_check() {
    // A device that is always full stands for the disk; it is there on every Linux.
    let full = Path::new("/dev/full");
    let mut handle = Handle(OpenOptions::new().append(true).open(full).expect("/dev/full"));
    assert_eq!(handle.append(&[0; 1 << 16]).expect_err("full").kind(), io::ErrorKind::StorageFull);
}

#[test]
fn paths_in_the_ledger_do_not_depend_on_the_working_directory() {
    let directory = tempfile::tempdir_in(".").expect("a directory below the working directory");
    let relative = Path::new(directory.path().file_name().expect("a name")).join("out");
    let visible = Vec::new;
    let sink = FileSink::csv::<Row>(&relative);
    let case = SinkCase::new(sink, Arc::new(Disk), store(), &numbered, &visible);
    case.sink.check(&case.context(1)).expect("works");
    let mut writer = case.writer(1, 0, Vec::new(), ImmediateDoor);
    case.write(&mut writer, 0..3);
    let prepared = case.prepare(&mut writer, 1);
    case.commit(1, &prepared.committables);
    let description = Path::new(&prepared.committables[0].description);
    assert!(description.is_absolute() && description.exists(), "{}", description.display());
}
